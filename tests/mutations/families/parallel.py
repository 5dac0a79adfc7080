"""Parallel loops and the register tiles they touch."""

from __future__ import annotations

import ast

from seed import Edit, Mutation, Seed

from . import one, operator, values
from .python import last_statement

OWNERS = "every thread runs the whole loop and writes its own registers, whatever elements they hold: TileLang drops the owner"
RACE = "all iterations write one element, in no order"


def nests(seed: Seed):
    """Parallel loops with their calls."""
    for call in seed.calls("Parallel"):
        s = seed.statement(call)
        if isinstance(s, ast.For):
            yield s, call


def indexed(seed: Seed, s: ast.For, scope: str):
    """Subscripts of tiles of a scope in a loop, by the loop's variables alone."""
    for n in ast.walk(s):
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and seed.scope_of(n.value.id) == scope:
            yield n, n.slice.elts if isinstance(n.slice, ast.Tuple) else [n.slice]


@operator("parallel")
def tile_operator_inside(seed: Seed):
    for s, _ in nests(seed):
        fragments = [n for n, _ in seed.allocations("fragment")]
        for text in [f"T.clear({fragments[0]})", f"T.fill({fragments[0]}, 0)"] if fragments else []:
            yield Mutation((seed.insert_before(s.body[0], text),), ())
        for call in seed.calls("copy")[:1]:
            yield Mutation((seed.insert_before(s.body[0], seed.source(call)),), ())


@operator("parallel")
def loop_inside_with_statements_between(seed: Seed):
    for s, _ in nests(seed):
        pad = seed.indent(s.body[0])
        inner = seed.source(s.body[-1]).replace("\n", "\n    ")
        first = seed.source(s.body[0]) if len(s.body) > 1 else seed.source(s.body[-1])
        start, end = seed.span(s.body[-1])
        loop = f"for again in T.Parallel(2):\n{pad}    {inner}"
        yield Mutation((Edit(start, end, f"{first}\n{pad}{loop}"),), ((seed.span(s)[0], end),))
        yield Mutation((Edit(start, end, f"for again in T.Pipelined(2, num_stages=2):\n{pad}    {inner}"),), ((seed.span(s)[0], end),))


@operator("parallel")
def private_array_indexed(seed: Seed):
    for s, call in nests(seed):
        target = seed.source(s.target).split(",")[0]
        extent = seed.source(call.args[0])
        pad = seed.indent(s)
        text = f'mine = T.alloc_local(({extent},), "float32")\n{pad}for {target} in T.Parallel({extent}):\n{pad}    mine[{target}] = 0.0'
        yield Mutation((seed.insert_before(s, text),), (), ("mine",))


@operator("parallel")
def fragment_indexed_two_ways(seed: Seed):
    for s, call in nests(seed):
        done = False
        for n, indices in indexed(seed, s, "fragment"):
            if isinstance(n.ctx, ast.Load) and not done and isinstance(s.body[-1], ast.Assign):
                name = n.value.id  # type: ignore[attr-defined]
                value = s.body[-1].value
                done = True
                texts = [f"{name}[{', '.join(seed.source(i) for i in reversed(indices))}]"] if len(indices) == 2 else []
                texts.append(f"{name}[{', '.join([seed.source(i) for i in indices[:-1]] + [seed.source(indices[-1]) + ' + 1'])}]")
                for text in texts:
                    yield Mutation((seed.replace(value, f"({seed.source(value)}) + {text}"),), (seed.place(call), seed.span(s.body[-1])))


@operator("parallel")
def fragment_indexed_with_a_constant(seed: Seed):
    for s, call in nests(seed):
        for n, indices in indexed(seed, s, "fragment"):
            if isinstance(n.ctx, ast.Load) and len(indices) <= 2:
                yield Mutation((seed.replace(indices[-1], "1"),), (seed.place(call), seed.place(n)))
                yield Mutation((seed.replace(indices[0], "3"),), (seed.place(call), seed.place(n)))
                break


def distributed(seed: Seed, s: ast.For) -> bool:
    """Whether something else spreads the tile the loop writes over the threads: the user's layout or a product."""
    written = {n.value.id for n in ast.walk(s) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and isinstance(n.ctx, ast.Store)}
    accumulators = {seed.source(c.args[2]) for c in seed.calls("gemm", "wgmma_gemm") if len(c.args) > 2}
    return "annotate_layout" in seed.text or bool(written & accumulators)


@operator("parallel")
def fragment_walked_serially(seed: Seed):
    for s, call in nests(seed):
        if any(True for _ in indexed(seed, s, "fragment")) and len(call.args) == 2 and isinstance(s.target, ast.Tuple):
            i, j = (seed.source(e) for e in s.target.elts)
            pad = seed.indent(s)
            body = seed.source(s.body[0]) if len(s.body) == 1 else None
            if body is not None:
                a, b = (seed.source(x) for x in call.args)
                text = f"for {i} in T.serial({a}):\n{pad}    for {j} in T.serial({b}):\n{pad}        {body}"
                yield Mutation((seed.replace(s, text),), ((seed.span(s)[0], seed.span(s)[1]),), (), OWNERS if distributed(seed, s) else "")


@operator("parallel")
def all_write_one_element(seed: Seed):
    for s, call in nests(seed):
        if len(s.body) == 1 and isinstance(s.body[0], ast.Assign) and isinstance(s.body[0].targets[0], ast.Subscript):
            target = s.body[0].targets[0]
            indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
            name = target.value.id  # type: ignore[attr-defined]
            loads = {n.value.id for n in ast.walk(s.body[0].value) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)}
            if seed.scope_of(name) != "fragment" and name not in loads:
                text = ", ".join(["0"] * len(indices))
                yield Mutation((seed.replace(target.slice, text),), (seed.place(call), seed.span(s.body[0])), (), RACE)
                bound = {n.id for n in ast.walk(s.target) if isinstance(n, ast.Name)}
                last = [x for x in indices if bound & {n.id for n in ast.walk(x) if isinstance(n, ast.Name)}]
                if last:
                    edits = tuple(seed.replace(x, "0") for x in last)
                    yield Mutation(edits, (seed.place(call), seed.span(s.body[0])), (), RACE)


@operator("parallel")
def sum_without_atomic(seed: Seed):
    """A tile's elements added to one place by plain stores."""
    s = last_statement(seed)
    for name, call in seed.allocations("shared"):
        extents = seed.extents(call)
        if s is not None and len(extents) == 2 and seed.source(call.args[1]) in ("dtype", '"float32"'):
            pad = seed.indent(s)
            a, b = (seed.source(e) for e in extents)
            yield Mutation((seed.insert_before(s, f"for p, q in T.Parallel({a}, {b}):\n{pad}    {name}[0, 0] = {name}[0, 0] + {name}[p, q]"),), (), (), RACE)
            yield Mutation((seed.insert_before(s, f"for p, q in T.Parallel({a}, {b}):\n{pad}    {name}[p, 0] += {name}[p, q]"),), (), (), RACE)


@operator("parallel")
def layout_of_another_rank(seed: Seed):
    for s, call in nests(seed):
        if len(call.args) == 2 and any(True for _ in indexed(seed, s, "fragment")):
            yield from values(seed, call, "loop_layout", ("T.Fragment((128,), forward_fn=lambda i: (i % 128, i // 128))",))


@operator("parallel")
def coalesced_width_as_a_number(seed: Seed):
    for s, call in nests(seed):
        yield from values(seed, call, "coalesced_width", ("4",))
        assert s is not None


@operator("parallel")
def extent_is_a_fraction(seed: Seed):
    for s, call in nests(seed):
        yield one(seed, call, seed.replace(call.args[0], f"{seed.source(call.args[0])} / 2"))
        yield one(seed, call, seed.replace(call.args[-1], f"{seed.source(call.args[-1])} * 0.5"))
        assert s is not None


@operator("parallel")
def names_and_extents_differ(seed: Seed):
    for s, call in nests(seed):
        if len(call.args) == 2:
            yield one(seed, call, seed.drop_argument(call, call.args[-1]))
        yield one(seed, call, seed.add_argument(call, "2") if not call.keywords else seed.add_first(call, "2"))
        if isinstance(s.target, ast.Tuple):
            yield one(seed, call, seed.replace(s.target, seed.source(s.target.elts[0])), follow=(seed.source(s.target.elts[1]),))


@operator("parallel")
def run_time_extent(seed: Seed):
    for s, call in nests(seed):
        function = next((f for f in seed.statements(ast.FunctionDef) if any(c is call for c in ast.walk(f))), None)
        uses = [seed.place(n) for n, _ in indexed(seed, s, "fragment")]
        if uses and function is not None and "prim_func" in seed.text and not ast.get_docstring(function):  # type: ignore[arg-type]
            first = function.body[0]  # type: ignore[attr-defined]
            yield Mutation((seed.insert_before(first, 'size = T.dynamic("size")'), seed.replace(call.args[0], "size")), (seed.place(call), *uses))
