"""Layouts and annotations."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator, values
from .gemm import products
from .python import kernel_statements, last_statement


def before_use(seed: Seed, name: str):
    """The first statement of the kernel that is no allocation."""
    return next((s for s in kernel_statements(seed) if not (isinstance(s, ast.Assign) and "T.alloc" in seed.source(s.value))), None) or name


def first_statement(seed: Seed):
    allocated = [s for s in kernel_statements(seed) if isinstance(s, ast.Assign) and "T.alloc" in seed.source(s.value)]
    rest = [s for s in kernel_statements(seed) if not allocated or seed.span(s)[0] > seed.span(allocated[-1])[0]]
    return rest[0] if rest else None


@operator("layouts")
def plain_layout_of_a_fragment(seed: Seed):
    s = first_statement(seed)
    for name, call in seed.allocations("fragment"):
        extents = [seed.source(e) for e in seed.extents(call)]
        if s is not None and len(extents) == 2 and "T.annotate_layout" not in seed.text:
            shape = ", ".join(extents)
            yield Mutation((seed.insert_before(s, f"T.annotate_layout({{{name}: T.Layout(({shape}), lambda i, j: i * {extents[1]} + j)}})"),), ())
            yield Mutation((seed.insert_before(s, f"T.annotate_layout({{{name}: tilelang.layout.make_swizzled_layout({name})}})"),), ())


@operator("layouts")
def layout_that_is_none(seed: Seed):
    s = first_statement(seed)
    for name, _ in seed.allocations("shared", "fragment")[:2]:
        if s is not None and "T.annotate_layout" not in seed.text:
            for text in ('"swizzle"', "3", "[1, 2]"):
                yield Mutation((seed.insert_before(s, f"T.annotate_layout({{{name}: {text}}})"),), ())


@operator("layouts")
def layout_of_another_value(seed: Seed):
    for call in seed.calls("annotate_layout"):
        d = call.args[0]
        assert isinstance(d, ast.Dict)
        for key, value in zip(d.keys, d.values):
            yield one(seed, call, seed.replace(value, '"row"'))
            yield one(seed, call, seed.replace(value, "128"))
            assert key is not None
            for name, _ in seed.allocations("fragment"):
                if name != seed.source(key):
                    yield one(seed, call, seed.replace(key, name))
                    break


@operator("layouts")
def fragment_layout_against_the_product(seed: Seed):
    s = first_statement(seed)
    for call, names in products(seed):
        for name, allocation in seed.allocations("fragment"):
            extents = [seed.source(e) for e in seed.extents(allocation)]
            if name == names[2] and s is not None and "T.annotate_layout" not in seed.text:
                text = f"T.Fragment(({', '.join(extents)}), forward_fn=lambda i, j: (j % 128, i + j // 128 * {extents[0]}))"
                m = seed.insert_before(s, f"T.annotate_layout({{{name}: {text}}})")
                yield Mutation((m,), (seed.place(call),), (name,))


@operator("layouts")
def layout_not_injective(seed: Seed):
    for call in seed.calls("Fragment", "Layout"):
        for n in ast.walk(call):
            if isinstance(n, ast.Lambda):
                body = "(0, 0)" if call.func.attr == "Fragment" else "0"  # type: ignore[attr-defined]
                names = (seed.source(seed.statement(call).targets[0]),) if isinstance(seed.statement(call), ast.Assign) else ()  # type: ignore[attr-defined]
                spots = tuple(seed.place(k.value) for c in seed.calls("Parallel") for k in c.keywords if k.arg == "loop_layout")
                yield Mutation((seed.replace(n.body, body),), (seed.place(call), *spots), names, "two elements share a place" if call.func.attr == "Layout" else "")  # type: ignore[attr-defined]
                if call.func.attr == "Fragment":  # type: ignore[attr-defined]
                    for text in ("(i % 4, j)", "(i + j, 0)"):
                        yield Mutation((seed.replace(n.body, text),), (seed.place(call), *spots), names)


@operator("layouts")
def layout_of_another_shape(seed: Seed):
    for call in seed.calls("Fragment", "Layout"):
        shape = call.args[0]
        assert isinstance(shape, ast.Tuple)
        spots = tuple(seed.place(c) for c in seed.calls("annotate_layout"))
        names = (seed.source(seed.statement(call).targets[0]),) if isinstance(seed.statement(call), ast.Assign) else ()  # type: ignore[attr-defined]
        for e in shape.elts:
            yield Mutation((seed.replace(e, f"{seed.source(e)} * 2"),), (seed.place(call), *spots), names)
            yield Mutation((seed.replace(e, f"{seed.source(e)} // 2"),), (seed.place(call), *spots), names)


@operator("layouts")
def lambda_of_another_rank(seed: Seed):
    for call in seed.calls("Fragment", "Layout"):
        for n in ast.walk(call):
            if isinstance(n, ast.Lambda):
                head, body = seed.source(n).split(":", 1)
                yield one(seed, call, seed.replace(n, f"{head}, q:{body}"))
                yield one(seed, call, seed.replace(n, "lambda i: (i, 0)"))


@operator("layouts")
def loop_layout_of_another_rank(seed: Seed):
    for call in seed.calls("Parallel"):
        s = seed.statement(call)
        if isinstance(s, ast.For) and len(call.args) == 2 and any(
            isinstance(n, ast.Subscript) and seed.scope_of(seed.source(n.value)) == "fragment" for n in ast.walk(s)
        ):
            yield from values(seed, call, "loop_layout", ("T.Fragment((512,), forward_fn=lambda i: (i % 128, i // 128))",))


@operator("layouts")
def swizzle_in_no_order(seed: Seed):
    for call in seed.calls("use_swizzle"):
        for text in ('"diagonal"', '"rows"', "3"):
            yield from values(seed, call, "order", (text,))
    s = first_statement(seed)
    if s is not None and "T.use_swizzle" not in seed.text:
        yield Mutation((seed.insert_before(s, 'T.use_swizzle(8, order="z")'),), ())
        yield Mutation((seed.insert_before(s, 'T.use_swizzle(4, "diag")'),), ())


@operator("layouts")
def blocks_per_multiprocessor(seed: Seed):
    s = first_statement(seed)
    if s is not None:
        for text in ("0", "-1"):
            if seed.calls("annotate_min_blocks_per_sm"):
                call = seed.calls("annotate_min_blocks_per_sm")[0]
                yield one(seed, call, seed.replace(call.args[0], text))
            else:
                yield Mutation((seed.insert_before(s, f"T.annotate_min_blocks_per_sm({text})"),), ())


@operator("layouts")
def cache_ratio_of_a_tile(seed: Seed):
    s = first_statement(seed)
    for name, _ in seed.allocations("shared", "fragment")[:2]:
        if s is not None:
            yield Mutation((seed.insert_before(s, f"T.annotate_l2_hit_ratio({{{name}: 0.5}})"),), ())


@operator("layouts")
def unrolled_two_ways(seed: Seed):
    for call in seed.calls("serial", "unroll"):
        if isinstance(seed.statement(call), ast.For):
            yield one(seed, call, seed.rename(call, "unroll"), seed.add_argument(call, "explicit=True, unroll_factor=4"))


@operator("layouts")
def policies_of_two_kinds(seed: Seed):
    """Two products share an operand in registers but not the way the warps share the rows."""
    for call in seed.calls("gemm"):
        found = seed.keyword(call, "policy")
        if found is not None:
            yield one(seed, call, seed.replace(found.value, "T.GemmWarpPolicy.FullCol"), follow=tuple(seed.source(a) for a in call.args[:3]))


@operator("layouts")
def scan_of_a_swizzled_tile(seed: Seed):
    for call in seed.calls("cumsum", "cummax"):
        name = seed.source(call.args[0])
        s = first_statement(seed)
        extents = next((seed.extents(c) for n, c in seed.allocations("shared") if n == name), [])
        if s is not None and len(extents) == 2:
            yield Mutation((seed.insert_before(s, f"T.annotate_layout({{{name}: tilelang.layout.make_swizzled_layout({name})}})"),), (seed.place(call),), (name,))


@operator("layouts")
def accumulator_as_operand(seed: Seed):
    """The result of a product in registers is the next product's operand without being copied."""
    s = last_statement(seed)
    for call, names in products(seed):
        if s is not None and seed.scope_of(names[2]) == "fragment" and call.func.attr == "gemm":  # type: ignore[attr-defined]
            pad = seed.indent(s)
            extents = [seed.source(e) for n, c in seed.allocations("fragment") if n == names[2] for e in seed.extents(c)]
            if len(extents) == 2:
                text = (
                    f'more = T.alloc_fragment(({extents[0]}, {extents[1]}), "float32")\n{pad}'
                    f'other = T.alloc_shared(({extents[1]}, {extents[1]}), "float32")\n{pad}T.clear(more)\n{pad}T.clear(other)\n{pad}T.gemm({names[2]}, other, more)'
                )
                yield Mutation((seed.insert_before(s, text),), (), (names[2], "more"))
