"""Copies and transpositions."""

from __future__ import annotations

import ast

from seed import Seed

from . import one, operator

UNCOMPARED = "TileLang does not compare the shapes of a transposition: elements are lost or left as they were"


def copies(seed: Seed):
    return [c for c in seed.calls("copy", "tma_copy", "async_copy") if len(c.args) >= 2]


def whole(seed: Seed, node) -> str | None:
    """The name of a tile passed whole."""
    return node.id if isinstance(node, ast.Name) and seed.scope_of(node.id) in ("shared", "fragment") else None


@operator("copies")
def tiles_of_two_shapes(seed: Seed):
    """A copy between whole tiles, one of which has another extent."""
    for call in copies(seed):
        a, b = (whole(seed, x) for x in call.args[:2])
        if a and b:
            for name, allocation in seed.allocations("shared", "fragment"):
                if name in (a, b):
                    for e in seed.extents(allocation):
                        yield one(seed, call, seed.replace(e, f"{seed.source(e)} * 2"), follow=(name,))
                        yield one(seed, call, seed.replace(e, f"{seed.source(e)} // 2"), follow=(name,))


@operator("copies")
def tiles_of_two_ranks(seed: Seed):
    for call in copies(seed):
        a, b = (whole(seed, x) for x in call.args[:2])
        if a and b:
            for name, allocation in seed.allocations("shared", "fragment"):
                extents = [seed.source(e) for e in seed.extents(allocation)]
                if name in (a, b) and len(extents) == 2:
                    yield one(seed, call, seed.replace(allocation.args[0], f"({extents[0]} * {extents[1]},)"), follow=(name,))


@operator("copies")
def region_of_another_extent(seed: Seed):
    """A slice that is longer or shorter than the tile on the other side."""
    for call in copies(seed):
        for side in call.args[:2]:
            if isinstance(side, ast.Subscript):
                parts = side.slice.elts if isinstance(side.slice, ast.Tuple) else [side.slice]
                for p in parts:
                    if isinstance(p, ast.Slice) and p.upper is not None:
                        yield one(seed, call, seed.replace(p.upper, f"{seed.source(p.upper)} + 8"))
                        yield one(seed, call, seed.replace(p.upper, f"{seed.source(p.upper)} - 8"))


@operator("copies")
def index_missing(seed: Seed):
    for call in copies(seed):
        for side in call.args[:2]:
            if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Tuple):
                yield one(seed, call, seed.replace(side.slice, ", ".join(seed.source(e) for e in side.slice.elts[:-1])))


@operator("copies")
def index_too_many(seed: Seed):
    for call in copies(seed):
        for side in call.args[:2]:
            if isinstance(side, ast.Subscript):
                yield one(seed, call, seed.replace(side.slice, seed.source(side.slice) + ", 0"))


@operator("copies")
def neither_side_has_an_extent(seed: Seed):
    for call in copies(seed):
        a, b = call.args[:2]
        if isinstance(a, ast.Subscript) and whole(seed, b):
            rank = len(next(seed.extents(c) for n, c in seed.allocations("shared", "fragment") if n == whole(seed, b)))
            if not any(isinstance(n, ast.Slice) for n in ast.walk(a)):
                corner = ", ".join(["0"] * rank)
                yield one(seed, call, seed.replace(b, f"{seed.source(b)}[{corner}]"), because="one element is copied instead of the tile", follow=(seed.source(b),))
        if isinstance(b, ast.Subscript) and whole(seed, a) and not any(isinstance(n, ast.Slice) for n in ast.walk(b)):
            rank = len(next(seed.extents(c) for n, c in seed.allocations("shared", "fragment") if n == whole(seed, a)))
            corner = ", ".join(["0"] * rank)
            yield one(seed, call, seed.replace(a, f"{seed.source(a)}[{corner}]"), because="one element is copied instead of the tile")


@operator("copies")
def operand_is_a_value(seed: Seed):
    for call in copies(seed):
        yield one(seed, call, seed.replace(call.args[0], "0"))
        yield one(seed, call, seed.replace(call.args[1], "1.0"))
        yield one(seed, call, seed.replace(call.args[0], '"A"'))


@operator("copies")
def tensor_whole_into_a_tile(seed: Seed):
    """The tensor itself instead of its tile's corner."""
    for call in copies(seed):
        for side, other in ((call.args[0], call.args[1]), (call.args[1], call.args[0])):
            if isinstance(side, ast.Subscript) and whole(seed, other):
                yield one(seed, call, seed.replace(side, seed.source(side.value)))


@operator("copies")
def transposed_into_another_shape(seed: Seed):
    for call in seed.calls("transpose"):
        for name, allocation in seed.allocations("shared", "fragment"):
            if name in (seed.source(call.args[0]), seed.source(call.args[1])):
                for e in seed.extents(allocation):
                    yield one(seed, call, seed.replace(e, f"{seed.source(e)} * 2"), follow=(name,), because=UNCOMPARED)
                    yield one(seed, call, seed.replace(e, f"{seed.source(e)} // 2"), follow=(name,), because=UNCOMPARED)
                extents = [seed.source(e) for e in seed.extents(allocation)]
                yield one(seed, call, seed.replace(allocation.args[0], f"({extents[0]},)"), follow=(name,), because=UNCOMPARED)


@operator("copies")
def index_is_a_fraction(seed: Seed):
    for call in copies(seed):
        for side in call.args[:2]:
            if isinstance(side, ast.Subscript):
                parts = side.slice.elts if isinstance(side.slice, ast.Tuple) else [side.slice]
                last = parts[-1]
                if not isinstance(last, ast.Slice):
                    yield one(seed, call, seed.replace(last, f"({seed.source(last)}) / 2"))


@operator("copies")
def memory_a_copy_cannot_write(seed: Seed):
    """Into tiles of a thread's own array."""
    for call in copies(seed):
        name = whole(seed, call.args[1])
        for n, allocation in seed.allocations("shared"):
            if n == name and "tma" in call.func.attr:  # type: ignore[attr-defined]
                yield one(seed, call, seed.rename(allocation, "alloc_fragment"), follow=(n,))
                yield one(seed, call, seed.rename(allocation, "alloc_local"), follow=(n,))
