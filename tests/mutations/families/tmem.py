"""Tensor memory and the products that write it."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator, values
from .gemm import products
from .python import last_statement

ADDRESS = "tcgen05 (PTX ISA): tensor memory is read by tcgen05.ld only; TileLang compiles the access to the address"
WAIT = "PTX ISA, tcgen05 memory consistency: the MMA is asynchronous, its completion is observed through the mbarrier of tcgen05.commit"
SHAPE = "PTX ISA, tcgen05.mma shapes: N is a multiple of 16 (M = 128)"
NO_ARRIVAL = "nothing arrives on the barrier: the wait never ends"


def tensors(seed: Seed) -> list[str]:
    return [name for name, _ in seed.allocations("tmem")]


def fragments(seed: Seed) -> list[str]:
    return [name for name, _ in seed.allocations("fragment")]


@operator("tmem")
def target_without_tensor_memory(seed: Seed):
    for name, call in seed.allocations("tmem"):
        for target in ("sm_80", "sm_90a"):
            m = one(seed, call, seed.replace(call, seed.source(call).replace("alloc_tmem(", "alloc_tmem( ")), follow=(name,), target=target)
            yield Mutation(m.edits, m.at + tuple(seed.place(c) for c in seed.calls("tcgen05_gemm", "gemm", "alloc_barrier")), m.follow, m.because, m.target)


@operator("tmem")
def too_many_columns(seed: Seed):
    for name, call in seed.allocations("tmem"):
        extents = seed.extents(call)
        for text in ("640", "1024", "513"):
            yield one(seed, call, seed.replace(extents[1], text), follow=(name,))
    s = last_statement(seed)
    for name, call in seed.allocations("tmem")[:1]:
        text = f"spare = T.alloc_tmem([{seed.source(seed.extents(call)[0])}, 512], {seed.source(call.args[1])})"
        pad = seed.indent(seed.statement(call))
        assert s is not None
        yield Mutation((seed.insert_after(seed.statement(call), text + f"\n{pad}spare_too = {text[8:]}"),), (seed.place(call),), ("spare", "spare_too", name),
                       "tcgen05.alloc (PTX ISA): 512 columns; a second allocation blocks for ever")  # fmt: skip


@operator("tmem")
def shape_of_another_rank(seed: Seed):
    for name, call in seed.allocations("tmem"):
        extents = [seed.source(e) for e in seed.extents(call)]
        yield one(seed, call, seed.replace(call.args[0], f"[{extents[0]} * {extents[1]}]"), follow=(name,))
        yield one(seed, call, seed.replace(call.args[0], extents[0]), follow=(name,))


@operator("tmem")
def extents_of_another_product(seed: Seed):
    for name, call in seed.allocations("tmem"):
        extents = seed.extents(call)
        yield one(seed, call, seed.replace(extents[0], "96"), follow=(name,))
        yield one(seed, call, seed.replace(extents[1], f"{seed.source(extents[1])} // 2"), follow=(name,))
        yield one(seed, call, seed.replace(extents[1], f"{seed.source(extents[1])} * 2"), follow=(name,))


@operator("tmem")
def cleared_or_filled(seed: Seed):
    for name in tensors(seed):
        for call in [c for c, names in products(seed) if names[2] == name][:1]:
            loop = next((s for s in seed.statements(ast.For) if any(c is call for c in ast.walk(s))), None)
            if loop is not None:
                yield Mutation((seed.insert_before(loop, f"T.clear({name})"),), ())
                yield Mutation((seed.insert_before(loop, f"T.fill({name}, 0)"),), ())


@operator("tmem")
def element_accessed(seed: Seed):
    for call in seed.calls("copy"):
        a, b = call.args[:2]
        if isinstance(a, ast.Name) and a.id in tensors(seed) and isinstance(b, ast.Name):
            s = seed.statement(call)
            pad = seed.indent(s)
            rows = next(seed.extents(c) for n, c in seed.allocations("tmem") if n == a.id)
            head = f"for i, j in T.Parallel({seed.source(rows[0])}, {seed.source(rows[1])}):\n{pad}    "
            start = seed.span(s)[0]
            for body in (f"{b.id}[i, j] = {a.id}[i, j]", f"{a.id}[i, j] = 0.0", f"{b.id}[i, j] = {a.id}[i, j] * 2.0"):
                yield Mutation((seed.replace(s, head + body),), ((start, seed.span(s)[1]),), (), ADDRESS)


@operator("tmem")
def copied_to_other_memory(seed: Seed):
    for call in seed.calls("copy"):
        a, b = call.args[:2]
        if isinstance(a, ast.Name) and a.id in tensors(seed) and isinstance(b, ast.Name):
            shared = [n for n, _ in seed.allocations("shared")]
            yield one(seed, call, seed.replace(b, shared[0]), because=ADDRESS)
            yield one(seed, call, seed.replace(b, "C"), because=ADDRESS)
            yield one(seed, call, *seed.swap(a, b)) if "C_local" not in seed.text else one(seed, call, seed.replace(a, shared[0]), seed.replace(b, a.id))


@operator("tmem")
def read_as_another_type(seed: Seed):
    why = "tcgen05.ld does not convert (PTX ISA): the registers are overrun"
    for name, call in seed.allocations("fragment"):
        for c in seed.calls("copy"):
            if isinstance(c.args[0], ast.Name) and c.args[0].id in tensors(seed) and isinstance(c.args[1], ast.Name) and c.args[1].id == name:
                for text in ('"float16"', '"bfloat16"'):
                    yield one(seed, c, seed.replace(call.args[1], text), follow=(name,), because=why)


@operator("tmem")
def threads_are_no_warpgroup(seed: Seed):
    if tensors(seed):
        for call in seed.calls("Kernel"):
            spots = tuple(seed.place(c) for c in seed.calls("copy", "gemm", "tcgen05_gemm"))
            for text in ("64", "96", "160"):
                yield Mutation((seed.set_keyword(call, "threads", text),), (seed.place(call), *spots))


@operator("tmem")
def product_without_barrier(seed: Seed):
    for call, names in products(seed):
        found = seed.keyword(call, "mbar")
        if found is not None:
            yield one(seed, call, seed.drop_argument(call, found), follow=tuple(n for n, _ in seed.allocations("barrier")))
            m = one(seed, call, seed.replace(found.value, "None"), because=NO_ARRIVAL)
            yield Mutation(m.edits, m.at, tuple(n for n, _ in seed.allocations("barrier")), m.because)
        assert names


@operator("tmem")
def product_not_waited_for(seed: Seed):
    for call in seed.calls("mbarrier_wait_parity"):
        if tensors(seed):
            yield Mutation((seed.delete(seed.statement(call)),), tuple(seed.place(c) for c in seed.calls("tcgen05_gemm")), tuple(tensors(seed)), WAIT)


@operator("tmem")
def waits_with_one_parity(seed: Seed):
    why = "PTX ISA, mbarrier.test_wait: the phase before the current one has the other parity; the wait returns at once or never"
    for call in seed.calls("mbarrier_wait_parity"):
        if tensors(seed):
            for text in ("0", "1", "(k + 1) % 2"):
                yield one(seed, call, seed.replace(call.args[1], text), because=why)


@operator("tmem")
def barrier_of_another_product(seed: Seed):
    names = [n for n, _ in seed.allocations("barrier")]
    for call in seed.calls("mbarrier_wait_parity"):
        for other in names:
            if len(names) > 1 and tensors(seed) and seed.source(call.args[0]) != other:
                yield Mutation((seed.replace(call.args[0], other),), (seed.place(call),), tuple(tensors(seed)), WAIT)


@operator("tmem")
def no_instruction_of_the_shape(seed: Seed):
    spots = tuple(seed.place(c) for c in seed.calls("tcgen05_gemm", "gemm"))
    for f in seed.statements(ast.FunctionDef):
        assert isinstance(f, ast.FunctionDef)
        named = f.args.args[len(f.args.args) - len(f.args.defaults) :]
        for a, d in zip(named, f.args.defaults):
            if tensors(seed) and a.arg in ("block_M", "block_N", "block_K", "bk"):
                for text in {"block_M": ("96", "48"), "block_N": ("24", "8", "40"), "block_K": ("24", "8"), "bk": ("24", "8")}[a.arg]:
                    yield Mutation((seed.replace(d, text),), spots, (a.arg, *tensors(seed)), SHAPE if a.arg == "block_N" else "")


@operator("tmem")
def no_instruction_of_the_types(seed: Seed):
    spots = tuple(seed.place(c) for c in seed.calls("tcgen05_gemm", "gemm"))
    for f in seed.statements(ast.FunctionDef):
        assert isinstance(f, ast.FunctionDef)
        named = f.args.args[len(f.args.args) - len(f.args.defaults) :]
        for a, d in zip(named, f.args.defaults):
            if tensors(seed) and a.arg in ("dtype", "accum_dtype", "accum"):
                for text in ('"int16"', '"float64"') if a.arg == "dtype" else ('"int32"', '"bfloat16"'):
                    yield Mutation((seed.replace(d, text),), spots, (a.arg,))


@operator("tmem")
def wrong_release(seed: Seed):
    s = last_statement(seed)
    if s is not None and tensors(seed):
        for name in (fragments(seed)[0], seed.allocations("shared")[0][0]):
            yield Mutation((seed.insert_before(s, f"T.deallocate_tmem({name})"),), ())


@operator("tmem")
def operand_in_registers(seed: Seed):
    for call, names in products(seed):
        if tensors(seed):
            for name, allocation in seed.allocations("shared"):
                if name in names[:2]:
                    yield one(seed, call, seed.rename(allocation, "alloc_fragment"), follow=(name,))


@operator("tmem")
def product_into_registers(seed: Seed):
    for call, names in products(seed):
        if names[2] in tensors(seed) and call.func.attr == "tcgen05_gemm":  # type: ignore[attr-defined]
            yield one(seed, call, seed.replace(call.args[2], fragments(seed)[0]))
    assert values
