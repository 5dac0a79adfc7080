"""Shared memory, registers: what a block may have."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import operator

SHARED = "CUDA C++ Programming Guide, Compute Capabilities: shared memory per block at most 163 KiB (8.0) or 227 KiB (9.0, 10.0)"
STATIC = "ptxas: static shared memory at most 48 KiB"
SPILLS = "CUDA C++ Programming Guide, Compute Capabilities: at most 255 registers per thread; the tile goes to local memory"


def spots(seed: Seed) -> tuple[tuple[int, int], ...]:
    """Where the sum of shared memory may be reported: the launch, the loops, the allocations."""
    calls = (*seed.calls("Kernel", "Pipelined"), *(c for _, c in seed.allocations("shared")))
    return tuple(seed.place(c) for c in calls)


@operator("capacity")
def too_many_stages(seed: Seed):
    for call in seed.calls("Pipelined"):
        found = seed.keyword(call, "num_stages")
        if found is not None and seed.calls("alloc_shared"):
            for text in ("24", "40", "64"):
                yield Mutation((seed.replace(found.value, text),), spots(seed), (), SHARED)


@operator("capacity")
def tile_of_a_whole_multiprocessor(seed: Seed):
    """One more shared tile, used, that alone is larger than a block may have."""
    for name, call in seed.allocations("shared"):
        s = seed.statement(call)
        pad = seed.indent(s)
        for shape, dtype in (("(512, 512)", "float32"), ("(256, 256)", "float32"), ("(60000,)", "float32"), ("(1024, 1024)", "float16")):
            text = f'large = T.alloc_shared({shape}, "{dtype}")\n{pad}T.fill(large, 0)'
            yield Mutation((seed.insert_after(s, text),), spots(seed), ("large", name), SHARED)
        break


@operator("capacity")
def many_middling_tiles(seed: Seed):
    for name, call in seed.allocations("shared")[:1]:
        s = seed.statement(call)
        pad = seed.indent(s)
        lines = []
        for n in range(5):
            lines += [f'part{n} = T.alloc_shared((128, 128), "float32")']
        lines += [f"T.fill(part{n}, {n})" for n in range(5)]
        lines += ["T.sync_threads()", "for p, q in T.Parallel(128, 128):", "    part0[p, q] = part1[p, q] + part2[p, q] + part3[p, q] + part4[p, q]"]
        yield Mutation((seed.insert_after(s, f"\n{pad}".join(lines)),), spots(seed), (name,), SHARED)


@operator("capacity")
def static_tile_too_large(seed: Seed):
    for name, call in seed.allocations("shared"):
        extents = seed.extents(call)
        if seed.keyword(call, "scope") is not None:
            for text in ("2 * rows", "rows + 64", "rows * 3"):
                yield Mutation((seed.replace(extents[0], text),), (seed.place(call), *spots(seed)), (name,), "")
    if seed.target == "sm_80":
        for name, call in seed.allocations("shared")[:1]:
            if seed.keyword(call, "scope") is None:
                s = seed.statement(call)
                pad = seed.indent(s)
                for shape in ("(128, 128)", "(120, 128)"):
                    text = f'fixed = T.alloc_shared({shape}, "float32", scope="shared")\n{pad}T.fill(fixed, 0)'
                    yield Mutation((seed.insert_after(s, text),), spots(seed), ("fixed", name), "")


@operator("capacity")
def extent_times_sixteen(seed: Seed):
    for name, call in seed.allocations("shared"):
        extents = seed.extents(call)
        if len(extents) == 2 and not seed.calls("gemm", "tcgen05_gemm", "wgmma_gemm") and seed.keyword(call, "scope") is None:
            e = extents[1]
            yield Mutation((seed.replace(e, f"{seed.source(e)} * 64"),), spots(seed), (name,), SHARED)


@operator("capacity")
def registers_of_a_tile(seed: Seed):
    """A fragment that is used and is far larger than the threads' registers."""
    for name, call in seed.allocations("fragment")[:1]:
        s = seed.statement(call)
        pad = seed.indent(s)
        for shape in ("(512, 512)", "(1024, 256)", "(256, 1024)"):
            text = f'wide = T.alloc_fragment({shape}, "float32")\n{pad}T.fill(wide, 0)'
            yield Mutation((seed.insert_after(s, text),), (), ("wide", name), SPILLS)


@operator("capacity")
def blocks_of_an_older_chip(seed: Seed):
    """What fits a block of the newer chips does not fit the older one's."""
    for call in seed.calls("Pipelined"):
        found = seed.keyword(call, "num_stages")
        if found is not None and seed.target == "sm_80" and isinstance(seed.statement(call), ast.For) and seed.name == "big_tiles":
            for text in ("6", "stages + 2", "7"):
                yield Mutation((seed.replace(found.value, text),), spots(seed), (), SHARED)
