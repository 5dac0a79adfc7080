"""Atomics on elements and tiles."""

from __future__ import annotations

import ast

from seed import Edit, Mutation, Seed

from . import one, operator

ATOMICS = ("atomic_add", "atomic_max", "atomic_min", "atomic_addx2")


def calls(seed: Seed):
    return seed.calls(*ATOMICS)


def on_tiles(seed: Seed):
    for call in calls(seed):
        value = call.args[1]
        if isinstance(value, ast.Name) and seed.scope_of(value.id) in ("fragment", "shared"):
            yield call, value


@operator("atomics")
def unknown_memory_order(seed: Seed):
    for call in calls(seed):
        if call.func.attr != "atomic_addx2":  # type: ignore[attr-defined]
            for text in ('"relax"', '"sequential"', '"RELAXED"', '"acqrel"'):
                yield one(seed, call, seed.set_keyword(call, "memory_order", text))


@operator("atomics")
def previous_value_of_a_tile(seed: Seed):
    for call, _ in on_tiles(seed):
        yield one(seed, call, seed.add_argument(call, "return_prev=True"))


@operator("atomics")
def tile_of_another_shape(seed: Seed):
    for call, value in on_tiles(seed):
        for name, allocation in seed.allocations("shared", "fragment"):
            if name == value.id:
                for e in seed.extents(allocation):
                    yield one(seed, call, seed.replace(e, f"{seed.source(e)} * 2"), follow=(name,))
                    yield one(seed, call, seed.replace(e, f"{seed.source(e)} // 2"), follow=(name,))


@operator("atomics")
def region_of_another_shape(seed: Seed):
    for call, _ in on_tiles(seed):
        target = call.args[0]
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Tuple):
            for p in target.slice.elts:
                if isinstance(p, ast.Slice) and p.upper is not None:
                    yield one(seed, call, seed.replace(p.upper, f"{seed.source(p.upper)} + 8"))
                    yield one(seed, call, seed.replace(p.upper, f"{seed.source(p.upper)} - 8"))


@operator("atomics")
def result_that_is_not_there(seed: Seed):
    for call in calls(seed):
        found = seed.keyword(call, "return_prev")
        if found is not None:
            yield one(seed, call, seed.replace(found.value, "False"))
            yield one(seed, call, seed.drop_argument(call, found))
    for call in calls(seed):
        s = seed.statement(call)
        if isinstance(s, ast.Expr) and call.func.attr != "atomic_addx2" and isinstance(call.args[0], ast.Subscript):  # type: ignore[attr-defined]
            start = seed.span(s)[0]
            value = seed.source(call.args[0])
            if ":" not in value and not any(call is c for c, _ in on_tiles(seed)):
                yield one(seed, call, Edit(start, start, f"{value} = "))


@operator("atomics")
def type_without_instruction(seed: Seed):
    spots = tuple(seed.place(c) for c in calls(seed))
    for f in seed.statements(ast.FunctionDef):
        assert isinstance(f, ast.FunctionDef)
        if not spots:
            continue
        named = f.args.args[len(f.args.args) - len(f.args.defaults) :]
        for a, d in zip(named, f.args.defaults):
            if a.arg in ("dtype", "accum_dtype"):
                for text in ('"int8"', '"uint8"', '"int16"'):
                    yield Mutation((seed.replace(d, text),), spots, (a.arg,))
    for name, call in seed.allocations("shared"):
        if any(seed.source(c.args[0]).startswith(name) for c in calls(seed)):
            for text in ('"int8"', '"uint8"', '"int16"'):
                yield Mutation((seed.replace(call.args[1], text),), spots, (name,))
    for f in seed.statements(ast.FunctionDef):
        for a in f.args.args:  # type: ignore[attr-defined]
            if isinstance(a.annotation, ast.Call) and any(seed.source(c.args[0]).startswith(a.arg + "[") for c in calls(seed)) and isinstance(a.annotation.args[1], ast.Constant):
                for text in ('"int8"', '"uint8"'):
                    yield Mutation((seed.replace(a.annotation.args[1], text),), (seed.span(a), *spots), (a.arg,))


@operator("atomics")
def bulk_atomic_elsewhere(seed: Seed):
    """TMA reductions on a chip without them, or of one element."""
    for call in calls(seed):
        if call.func.attr == "atomic_add":  # type: ignore[attr-defined]
            yield one(seed, call, seed.add_argument(call, "use_tma=True"))


@operator("atomics")
def operand_missing(seed: Seed):
    for call in calls(seed):
        yield one(seed, call, seed.drop_argument(call, call.args[1]))
        yield one(seed, call, seed.add_argument(call, "scope='gpu'"))


@operator("atomics")
def destination_is_a_value(seed: Seed):
    for call in calls(seed):
        yield one(seed, call, seed.replace(call.args[0], "1"))
        yield one(seed, call, *seed.swap(call.args[0], call.args[1])) if isinstance(call.args[1], ast.Constant) else one(seed, call, seed.replace(call.args[0], "2.0"))


@operator("atomics")
def index_count(seed: Seed):
    for call in calls(seed):
        target = call.args[0]
        if isinstance(target, ast.Subscript) and ":" not in seed.source(target):
            yield one(seed, call, seed.replace(target.slice, seed.source(target.slice) + ", 0"))
            if isinstance(target.slice, ast.Tuple) and call not in [c for c, _ in on_tiles(seed)]:
                yield one(seed, call, seed.replace(target.slice, seed.source(target.slice.elts[0])))


@operator("atomics")
def unknown_operation(seed: Seed):
    for call in calls(seed):
        for name in ("atomic_sub", "atomic_mul", "atomic_inc", "atomic_xor", "atomic_and"):
            yield one(seed, call, seed.rename(call, name))


@operator("atomics")
def tile_where_elements_are_meant(seed: Seed):
    for call, _ in on_tiles(seed):
        yield one(seed, call, seed.rename(call, "atomic_or"))
        yield one(seed, call, seed.rename(call, "atomic_store"))


@operator("atomics")
def inside_or_outside_of_the_loop(seed: Seed):
    """A tile atomic inside a parallel loop."""
    for call, _ in on_tiles(seed):
        for loop in seed.statements(ast.For):
            if "T.Parallel" in seed.source(loop.iter):  # type: ignore[attr-defined]
                yield Mutation((seed.insert_before(loop.body[0], seed.source(call)),), (seed.place(loop.iter),))  # type: ignore[attr-defined]
