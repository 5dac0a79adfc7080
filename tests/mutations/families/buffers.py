"""Allocations, indices, slices, initialisation, views."""

from __future__ import annotations

import ast

from seed import Edit, Mutation, Seed

from . import one, operator
from .python import kernel_statements, last_statement

TILES = ("shared", "fragment", "local")
UNSTARTED = "the memory holds what was there before: nothing wrote it"
NEGATIVE = "no buffer has fewer than no elements; TileLang does not look"
OUTSIDE = "the access is not guarded: it lands in other data of the block"


@operator("buffers")
def extent_is_no_size(seed: Seed):
    for name, call in seed.allocations("fragment", "shared"):
        extents = seed.extents(call)
        if extents:
            text = seed.source(extents[0])
            yield one(seed, call, seed.replace(extents[0], f"{text} / 2"), follow=(name,))
            yield one(seed, call, seed.replace(extents[-1], f"-{seed.source(extents[-1])}"), follow=(name,), because=NEGATIVE)
            yield one(seed, call, seed.replace(extents[0], "32.0"), follow=(name,))
    for name, call in seed.allocations("fragment"):
        extents = seed.extents(call)
        if extents:
            yield one(seed, call, seed.replace(extents[0], "0"), follow=(name,))


@operator("buffers")
def used_before_its_allocation(seed: Seed):
    for name, call in seed.allocations(*TILES, "tmem", "barrier"):
        s = seed.statement(call)
        later = [x for x in kernel_statements(seed) if seed.span(x)[0] > seed.span(s)[0]]
        user = next((x for x in later if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(x))), None)
        if user is None or user is later[-1]:
            continue
        after = seed.insert_after(user, seed.source(s))
        yield Mutation((seed.delete(s), after), (), (name,))


@operator("buffers")
def used_after_the_kernel(seed: Seed):
    for s in seed.statements(ast.With):
        assert isinstance(s, ast.With)
        if "T.Kernel" in seed.source(s.items[0]):
            for name, _ in seed.allocations(*TILES)[:2]:
                yield Mutation((seed.insert_after(s, f"T.clear({name})"),), ())


@operator("buffers")
def allocated_outside(seed: Seed):
    end = len(seed.text)
    for text in ('tile = T.alloc_shared((32, 32), "float16")', 'tile = T.alloc_fragment((32,), "float32")'):
        yield Mutation((Edit(end, end, f"\n\n{text}\n"),), ((end + 2, end + 3),))


def element_accesses(seed: Seed):
    """Subscripts with plain indices inside the kernel, with the allocation's scope (None: a tensor)."""
    seen = set()
    for s in seed.statements(ast.For, ast.Assign, ast.Expr):
        for n in ast.walk(s):
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n not in seen:
                seen.add(n)
                indices = n.slice.elts if isinstance(n.slice, ast.Tuple) else [n.slice]
                yield n, list(indices), seed.scope_of(n.value.id)


@operator("buffers")
def number_of_indices(seed: Seed):
    for n, indices, scope in element_accesses(seed):
        if scope in TILES and not any(isinstance(i, ast.Slice) for i in indices):
            if len(indices) > 1:
                yield one(seed, n, seed.replace(n.slice, seed.source(indices[0])))
            yield one(seed, n, seed.replace(n.slice, ", ".join(map(seed.source, indices)) + ", 0"))


@operator("buffers")
def index_is_a_fraction(seed: Seed):
    for n, indices, _ in element_accesses(seed):
        last = indices[-1]
        if not isinstance(last, ast.Slice):
            yield one(seed, n, seed.replace(last, f"({seed.source(last)}) / 2"))


@operator("buffers")
def constant_index_outside(seed: Seed):
    for n, indices, scope in element_accesses(seed):
        if scope in TILES and not any(isinstance(i, ast.Slice) for i in indices):
            yield one(seed, n, seed.replace(indices[-1], "100000"), because=OUTSIDE)
            yield one(seed, n, seed.replace(indices[0], "-100000"), because=OUTSIDE)


@operator("buffers")
def index_beyond_the_end(seed: Seed):
    """In shared memory, where no guard is put around an element."""
    for n, indices, scope in element_accesses(seed):
        if scope in ("shared", "local") and not any(isinstance(i, ast.Slice) for i in indices) and not isinstance(indices[0], ast.Constant):
            yield one(seed, n, seed.replace(indices[0], f"{seed.source(indices[0])} + 4096"), because=OUTSIDE)


@operator("buffers")
def accumulator_not_started(seed: Seed):
    for call in seed.calls("clear", "fill"):
        if isinstance(call.args[0], ast.Name):
            name = call.args[0].id
            yield Mutation((seed.delete(seed.statement(call)),), (), (name,))


@operator("buffers")
def tile_never_loaded(seed: Seed):
    for call in seed.calls("copy", "tma_copy", "async_copy"):
        if len(call.args) >= 2 and isinstance(call.args[1], ast.Name) and isinstance(seed.statement(call), ast.Expr):
            yield Mutation((seed.delete(seed.statement(call)),), (), (call.args[1].id,), UNSTARTED)


@operator("buffers")
def view_of_another_size(seed: Seed):
    s = last_statement(seed)
    if s is None:
        return
    for name, call in seed.allocations("shared")[:2]:
        extents = [seed.source(e) for e in seed.extents(call)]
        if extents:
            product = " * ".join(extents)
            for text in (f"T.reshape({name}, ({product}, 2))", f"T.view({name}, ({product} + 1,))", f"T.reshape({name}, ({product} - 1,))"):
                yield Mutation((seed.insert_before(s, f"seen = {text}"),), ())


@operator("buffers")
def run_time_extent(seed: Seed):
    """A register tile whose extent is known when the kernel is called only."""
    for name, call in seed.allocations("fragment"):
        extents = seed.extents(call)
        function = next((f for f in seed.statements(ast.FunctionDef) if any(c is call for c in ast.walk(f))), None)
        if extents and function is not None and "prim_func" in seed.text:
            first = function.body[0] if not ast.get_docstring(function) else function.body[1]
            yield Mutation((seed.insert_before(first, 'size = T.dynamic("size")'), seed.replace(extents[0], "size")), (seed.place(call),), (name,))


@operator("buffers")
def slice_beyond_the_end(seed: Seed):
    s = last_statement(seed)
    if s is None:
        return
    for name, call in seed.allocations("shared", "fragment")[:3]:
        extents = [seed.source(e) for e in seed.extents(call)]
        if len(extents) == 2:
            yield Mutation((seed.insert_before(s, f"T.fill({name}[0 : {extents[0]} + 8, 0 : {extents[1]}], 0)"),), (), (), OUTSIDE)


@operator("buffers")
def extent_halved(seed: Seed):
    """One extent of a tile is half of what its uses need, or twice."""
    for name, call in seed.allocations("shared", "fragment"):
        for e in seed.extents(call):
            yield one(seed, call, seed.replace(e, f"{seed.source(e)} // 2"), follow=(name,))
