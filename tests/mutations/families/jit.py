"""Factories, eager kernels, their parameters and calls."""

from __future__ import annotations

import ast

from seed import Edit, Mutation, Seed

from . import one, operator


def prim_functions(seed: Seed):
    """(factory, prim_func) pairs."""
    for outer in ast.walk(seed.tree):
        if isinstance(outer, ast.FunctionDef):
            for inner in outer.body:
                if isinstance(inner, ast.FunctionDef) and any(seed.source(d) == "T.prim_func" for d in inner.decorator_list):
                    yield outer, inner


def jit_decorators(seed: Seed):
    for n in ast.walk(seed.tree):
        if isinstance(n, ast.FunctionDef):
            for d in n.decorator_list:
                if seed.source(d.func if isinstance(d, ast.Call) else d) == "tilelang.jit":
                    yield n, d


def function_head(seed: Seed, f: ast.FunctionDef) -> tuple[int, int]:
    return seed.place(f)


@operator("jit")
def factory_returns_nothing(seed: Seed):
    for outer, inner in prim_functions(seed):
        last = outer.body[-1]
        if isinstance(last, ast.Return):
            spots = (seed.span(last), function_head(seed, outer), function_head(seed, inner))
            yield Mutation((seed.delete(last),), spots)
            yield Mutation((seed.replace(last, "return"),), spots)


@operator("jit")
def factory_calls_its_kernel(seed: Seed):
    for outer, inner in prim_functions(seed):
        last = outer.body[-1]
        if isinstance(last, ast.Return):
            yield Mutation((seed.replace(last, f"return {inner.name}()"),), (seed.span(last),))


@operator("jit")
def no_prim_func(seed: Seed):
    for outer, inner in prim_functions(seed):
        d = inner.decorator_list[0]
        start, end = seed.span(d)
        line_start = seed.text.rindex("\n", 0, start) + 1
        yield Mutation((Edit(line_start, end + 1, ""),), (function_head(seed, inner), function_head(seed, outer), seed.span(outer.body[-1])))


@operator("jit")
def out_idx_outside(seed: Seed):
    for f, d in jit_decorators(seed):
        for text in ("[9]", "[-9]", "[0, 0]", "['C']", "[1.5]"):
            if isinstance(d, ast.Call):
                edit = seed.set_keyword(d, "out_idx", text)
            else:
                edit = seed.replace(d, f"tilelang.jit(out_idx={text})")
            yield Mutation((edit,), (seed.span(d), function_head(seed, f)))


@operator("jit")
def tensor_without_annotation(seed: Seed):
    for _, inner in prim_functions(seed):
        for a in inner.args.args:
            if a.annotation is not None:
                start = seed.span(a)[0] + len(a.arg)
                yield Mutation((Edit(start, seed.span(a.annotation)[1], ""),), (seed.span(a), function_head(seed, inner)))


@operator("jit")
def annotation_is_no_tensor(seed: Seed):
    for _, inner in prim_functions(seed):
        for a in inner.args.args[:2]:
            if isinstance(a.annotation, ast.Call):
                yield Mutation((seed.replace(a.annotation, seed.source(a.annotation.args[0])),), (seed.span(a), function_head(seed, inner)))
                yield Mutation((seed.replace(a.annotation, "list"),), (seed.span(a), function_head(seed, inner)))


@operator("jit")
def eager_with_out_idx(seed: Seed):
    if "T.const" in seed.text:
        for f, d in jit_decorators(seed):
            for text in ("[-1]", "[0]"):
                yield Mutation((seed.replace(d, f"tilelang.jit(out_idx={text})"),), (seed.span(d), function_head(seed, f)))


@operator("jit")
def const_of_no_tensor(seed: Seed):
    for call in seed.calls("const"):
        s = seed.statement(call)
        for name in ("Q", "R"):
            yield one(seed, call, seed.replace(s.targets[0], seed.source(s.targets[0]) + f", {name}"),
                      seed.replace(call.args[0], repr(ast.literal_eval(call.args[0]) + f", {name}")))  # fmt: skip


@operator("jit")
def const_counted_wrong(seed: Seed):
    for call in seed.calls("const"):
        s = seed.statement(call)
        names = ast.literal_eval(call.args[0]).split(", ")
        yield one(seed, call, seed.replace(call.args[0], repr(", ".join(names[:-1]))))
        yield one(seed, call, seed.replace(call.args[0], repr(", ".join([*names, "Q"]))))
        assert s is not None


@operator("jit")
def const_in_a_lazy_factory(seed: Seed):
    for outer, inner in prim_functions(seed):
        first = outer.body[0]
        yield Mutation((seed.insert_before(first, 'Q = T.const("Q")'),), ())
        assert inner is not None


@operator("jit")
def eager_returns_another_thing(seed: Seed):
    if "T.empty" in seed.text:
        for s in seed.statements(ast.Return):
            if s.value is not None and isinstance(s.value, ast.Name) and s.value.id in ("C", "Y"):
                for text in ("A" if "A:" in seed.text else "X", "1", f"{s.value.id}, 0", "T.empty"):
                    yield one(seed, s, seed.replace(s.value, text))


@operator("jit")
def eager_returns_nothing(seed: Seed):
    if "T.empty" in seed.text:
        for s in seed.statements(ast.Return):
            if isinstance(s.value, ast.Name) and s.value.id in ("C", "Y"):
                spots = [seed.span(s), *(seed.place(c) for c in seed.calls("empty"))]
                yield Mutation((seed.delete(s),), tuple(spots))


@operator("jit")
def eager_tensor_without_shape(seed: Seed):
    """One of the annotations that say what a tensor is, left out."""
    if "T.const" in seed.text:
        for s in seed.statements(ast.AnnAssign):
            assert isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
            yield Mutation((seed.delete(s),), (seed.span(s), *(seed.place(c) for c in seed.calls("const"))), (s.target.id, "def"))


@operator("jit")
def factory_called_wrong(seed: Seed):
    """The calls in ``make()``: an argument missing, one too many, an unknown name, one twice."""
    made = next((f for f in seed.tree.body if isinstance(f, ast.FunctionDef) and f.name == "make"), None)
    for call in (n for n in ast.walk(made) if isinstance(n, ast.Call)) if made else ():
        first = call.args[0] if call.args else call.keywords[0]
        yield one(seed, call, seed.drop_argument(call, first))
        yield one(seed, call, seed.add_argument(call, "size=1"))
        yield one(seed, call, seed.add_argument(call, "N=1"))
        yield one(seed, call, seed.add_first(call, "1, 2, 'float32', 3"))


@operator("jit")
def factory_parameter_without_default(seed: Seed):
    """An instance no longer gives every argument."""
    made = any(isinstance(f, ast.FunctionDef) and f.name == "make" for f in seed.tree.body)
    for f, _ in jit_decorators(seed):
        if made and f.args.defaults:
            first = f.args.defaults[0]
            yield Mutation((Edit(seed.span(first)[0] - 1, seed.span(f.args.args[-1])[1] + len("=") + len(seed.source(f.args.defaults[-1])), ", dtype"),),
                           (function_head(seed, f),), (f.name,))  # fmt: skip
