"""Python that kernels cannot contain, or that does something else there."""

from __future__ import annotations

import ast

from seed import Edit, Mutation, Seed

from . import one, operator


def kernel_statements(seed: Seed):
    """Statements directly inside a launch."""
    for s in seed.statements(ast.With):
        assert isinstance(s, ast.With)
        if "T.Kernel" in seed.source(s.items[0]):
            yield from s.body


def tiles(seed: Seed, *kinds: str) -> list[str]:
    return [name for name, _ in seed.allocations(*(kinds or ("fragment", "shared")))]


def last_statement(seed: Seed):
    found = list(kernel_statements(seed))
    return found[-1] if found else None


def inserted(seed: Seed, *texts: str, because: str = ""):
    """Statements before the last one of the kernel: every tile is defined there."""
    s = last_statement(seed)
    if s is None:
        return
    for text in texts:
        pad = seed.indent(s)
        yield Mutation((seed.insert_before(s, text.replace("\n", "\n" + pad)),), (), (), because)


@operator("python")
def iterates_a_tile(seed: Seed):
    for name in tiles(seed)[:2]:
        yield from inserted(
            seed,
            f"for element in {name}:\n    pass",
            f"items = list({name})",
            f"pairs = [n for n, v in enumerate({name})]",
            f"both = [a for a in zip({name}, {name})]",
            f"values = [v for v in {name}]",
        )
        yield from inserted(seed, f"total = sum({name})", because="iterating a buffer yields nothing: the sum is 0 whatever the tile holds")


@operator("python")
def python_function_of_a_tile(seed: Seed):
    for name in tiles(seed)[:1]:
        yield from inserted(seed, f"n = len({name})", f"value = float({name})", f"largest = max({name}, 0)", f"whole = int({name})")


@operator("python")
def python_function_of_an_element(seed: Seed):
    """math and builtins around a value that exists on the device only."""
    for s in seed.statements(ast.Assign):
        assert isinstance(s, ast.Assign)
        if isinstance(s.targets[0], ast.Subscript) and any(isinstance(n, ast.Subscript) for n in ast.walk(s.value)):
            value = seed.source(s.value)
            for text in (f"max({value}, 0.0)", f"float({value})", f"int({value})", f"round({value})", f"math.sqrt({value})"):
                edits = [seed.replace(s.value, text)]
                if "math" in text:
                    edits.insert(0, Edit(seed.text.index("import tilelang\n"), seed.text.index("import tilelang\n"), "import math\n"))
                yield Mutation(tuple(edits), (seed.span(s),))


@operator("python")
def tile_as_condition(seed: Seed):
    for name in tiles(seed)[:2]:
        yield from inserted(seed, f"if {name}:\n    pass", f"flag = 1 if {name} else 0", f"while {name}:\n    pass")


@operator("python")
def tile_updated_in_place(seed: Seed):
    for name in tiles(seed, "fragment")[:2]:
        yield from inserted(seed, f"{name} += 1", f"{name} *= {name}", f"{name} -= 2.0")


@operator("python")
def syntax_of_plain_python(seed: Seed):
    yield from inserted(
        seed,
        "while True:\n    pass",
        "while 1:\n    break",
        "for n in T.serial(4):\n    pass\nelse:\n    pass",
        "while False:\n    pass\nelse:\n    pass",
        "first, *rest = 1, 2, 3",
    )
    for name in tiles(seed)[:1]:
        yield from inserted(seed, f"{name}.scale = 2")


@operator("python")
def loop_step_of_zero(seed: Seed):
    yield from inserted(seed, "for n in range(0, 8, 0):\n    pass", "for n in T.serial(0, 8, 0):\n    pass", "for n in T.unroll(0, 8, 0):\n    pass")


@operator("python")
def loop_over_a_fraction(seed: Seed):
    for call in seed.calls("serial", "unroll", "Parallel", "Pipelined"):
        if len(call.args) == 1 and not isinstance(seed.statement(call), ast.FunctionDef):
            arg = call.args[0]
            yield one(seed, call, seed.replace(arg, f"({seed.source(arg)}) / 2"))
            yield one(seed, call, seed.replace(arg, f"{seed.source(arg)} * 1.0"))


@operator("python")
def name_of_a_branch_used_after_it(seed: Seed):
    for s in list(kernel_statements(seed))[-1:]:
        pad = seed.indent(s)
        name = seed.source(seed.statements(ast.With)[0].items[0].optional_vars) if seed.statements(ast.With) else ""  # type: ignore[attr-defined]
        block = name.strip("()").split(",")[0].strip()
        if not block or block == "_":
            continue
        text = f"if {block} > 0:\n{pad}    inside = {block} * 2\n{pad}outside = inside + 1"
        yield Mutation((seed.insert_before(s, text),), ())
        text = f"for n in T.serial({block} + 1):\n{pad}    inside = n * 2\n{pad}outside = inside + 1"
        yield Mutation((seed.insert_before(s, text),), ())


@operator("python")
def loop_variable_assigned(seed: Seed):
    for s in seed.statements(ast.For):
        assert isinstance(s, ast.For)
        if isinstance(s.target, ast.Name) and "T.serial" in seed.source(s.iter):
            yield Mutation((seed.insert_before(s.body[0], f"{s.target.id} = {s.target.id} + 1"),), (), (), "the loop's own counter is not changed: TileLang binds a new value")


@operator("python")
def statement_after_a_jump(seed: Seed):
    for s in seed.statements(ast.For):
        assert isinstance(s, ast.For)
        if "T.serial" in seed.source(s.iter):
            last = s.body[-1]
            yield Mutation((seed.insert_before(last, "break"),), (seed.place(last),), (), "the rest of the loop's body never runs")


@operator("python")
def macro_misused(seed: Seed):
    for f in seed.tree.body:
        if isinstance(f, ast.FunctionDef) and any(seed.source(d) == "T.macro" for d in f.decorator_list):
            last = f.body[-1]
            if isinstance(last, ast.Return):
                yield Mutation((seed.replace(last, f"if x > 0.0:\n        {seed.source(last)}\n    return x"),), (seed.span(last),))
            for call in (n for n in ast.walk(seed.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == f.name):
                text = seed.source(call)
                if isinstance(last, ast.Return):
                    yield one(seed, call, seed.replace(call, f"({text} or 1.0)"))
                    yield one(seed, call, seed.replace(call, f"({text} if t > 1 else 1.0)"))
                else:
                    yield one(seed, call, seed.replace(call.args[0], "1.0"))
                yield one(seed, call, seed.drop_argument(call, call.args[-1]))
            end = len(seed.text)
            yield Mutation((Edit(end, end, f"\n\noutside = {f.name}(1.0, 2.0)\n"),), ((end + 2, end + 3),))


@operator("python")
def variable_with_two_beginnings(seed: Seed):
    for call in seed.calls("alloc_var"):
        yield one(seed, call, seed.add_first(call, "1"))
        yield one(seed, call, seed.replace(call.args[0], seed.source(call.args[0]) + ", 1"))
        yield one(seed, call, seed.add_argument(call, "scope=3"))


@operator("python")
def undefined_helper(seed: Seed):
    for n in ast.walk(seed.tree):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("bounds", "shifted", "larger"):
            yield one(seed, n, seed.replace(n.func, n.func.id + "s"))


@operator("python")
def numpy_on_the_device(seed: Seed):
    start = seed.text.index("import tilelang\n")
    for s in seed.statements(ast.Assign):
        assert isinstance(s, ast.Assign)
        if isinstance(s.targets[0], ast.Subscript) and any(isinstance(n, ast.Subscript) for n in ast.walk(s.value)):
            value = seed.source(s.value)
            for f in ("exp", "sqrt"):
                yield Mutation((Edit(start, start, "import numpy as np\n"), seed.replace(s.value, f"np.{f}({value})")), (seed.span(s),))
