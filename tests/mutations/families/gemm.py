"""Matrix products: operands, extents, scopes, threads."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator, values

GEMMS = ("gemm", "wgmma_gemm", "tcgen05_gemm")
COLUMNS = "PTX ISA, tcgen05.mma shapes: N is a multiple of 16 (M = 128)"
WAIT = "PTX ISA, wgmma.mma_async: the registers and the tiles may be touched after wgmma.wait_group only"


def products(seed: Seed):
    for call in seed.calls(*GEMMS):
        if len(call.args) >= 3 and all(isinstance(a, ast.Name) for a in call.args[:3]):
            yield call, [a.id for a in call.args[:3]]  # type: ignore[attr-defined]


@operator("gemm")
def operands_swapped(seed: Seed):
    for call, names in products(seed):
        a, b, c = call.args[:3]
        yield one(seed, call, *seed.swap(a, b))
        yield one(seed, call, *seed.swap(a, c), follow=(names[0], names[2]))
        yield one(seed, call, *seed.swap(b, c), follow=(names[1], names[2]))
        yield one(seed, call, seed.replace(c, names[0]), follow=(names[0],))


@operator("gemm")
def transposition_changed(seed: Seed):
    for call, _ in products(seed):
        flag = seed.keyword(call, "transpose_B")
        if flag is None:
            yield one(seed, call, seed.add_argument(call, "transpose_B=True"))
        else:
            yield one(seed, call, seed.replace(flag.value, "False"))
        yield one(seed, call, seed.add_argument(call, "transpose_A=True"))


@operator("gemm")
def one_extent_changed(seed: Seed):
    for call, names in products(seed):
        for name, allocation in seed.allocations("shared", "fragment", "tmem"):
            if name in names:
                for e in seed.extents(allocation):
                    for text in (f"{seed.source(e)} * 2", f"{seed.source(e)} + 16", f"{seed.source(e)} // 2"):
                        yield one(seed, call, seed.replace(e, text), follow=(name,))


@operator("gemm")
def extents_swapped(seed: Seed):
    for call, names in products(seed):
        for name, allocation in seed.allocations("shared", "fragment"):
            extents = seed.extents(allocation)
            if name in names and len(extents) == 2:
                yield one(seed, call, *seed.swap(*extents), follow=(name,))


@operator("gemm")
def operand_of_another_rank(seed: Seed):
    for call, names in products(seed):
        for name, allocation in seed.allocations("shared", "fragment"):
            extents = seed.extents(allocation)
            if name in names and len(extents) == 2:
                yield one(seed, call, seed.replace(allocation.args[0], f"({seed.source(extents[0])} * {seed.source(extents[1])},)"), follow=(name,))
                yield one(seed, call, seed.replace(allocation.args[0], f"(2, {seed.source(extents[0])}, {seed.source(extents[1])})"), follow=(name,))


@operator("gemm")
def operand_in_another_memory(seed: Seed):
    for call, names in products(seed):
        for name, allocation in seed.allocations("shared", "fragment"):
            if name in names:
                now = allocation.func.attr  # type: ignore[attr-defined]
                for kind in ("alloc_local", "alloc_shared", "alloc_fragment"):
                    if kind != now:
                        yield one(seed, call, seed.rename(allocation, kind), follow=(name,))


@operator("gemm")
def operand_from_global_memory(seed: Seed):
    tensors = {"A", "B", "Q", "K"}
    for call, _ in products(seed):
        for position in (0, 1):
            for tensor in sorted(tensors):
                if f"{tensor}: T.Tensor((M" in seed.text or f"{tensor}: T.Tensor((K" in seed.text:
                    yield one(seed, call, seed.replace(call.args[position], tensor))
                    break


@operator("gemm")
def k_tile_without_instruction(seed: Seed):
    """The K tile of the whole kernel."""
    for f in seed.statements(ast.FunctionDef):
        assert isinstance(f, ast.FunctionDef)
        named = f.args.args[len(f.args.args) - len(f.args.defaults) :]
        for a, d in zip(named, f.args.defaults):
            if a.arg in ("block_K", "bk") and seed.calls(*GEMMS):
                for text in ("20", "12", "4"):
                    yield Mutation((seed.replace(d, text),), tuple(seed.place(c) for c in seed.calls(*GEMMS)), (a.arg,))


@operator("gemm")
def tile_without_instruction(seed: Seed):
    """The rows or columns of the whole kernel's tile."""
    for f in seed.statements(ast.FunctionDef):
        assert isinstance(f, ast.FunctionDef)
        named = f.args.args[len(f.args.args) - len(f.args.defaults) :]
        for a, d in zip(named, f.args.defaults):
            if a.arg in ("block_M", "bm", "block_N", "bn") and seed.calls(*GEMMS):
                for text in ("8", "20", "36"):
                    why = COLUMNS if seed.calls("alloc_tmem") and a.arg in ("block_N", "bn") else ""
                    yield Mutation((seed.replace(d, text),), tuple(seed.place(c) for c in seed.calls(*GEMMS)), (a.arg,), why)


@operator("gemm")
def threads_cannot_share(seed: Seed):
    why = "mma is executed by all 32 lanes of a warp (PTX ISA, mma); a partial warp executes it here"
    if not seed.calls(*GEMMS):
        return
    for call in seed.calls("Kernel"):
        spots = tuple(seed.place(c) for c in seed.calls(*GEMMS))
        for text in ("16", "48", "112", "136"):
            m = values(seed, call, "threads", (text,), why)
            yield from (Mutation(x.edits, x.at + spots, (), x.because) for x in m)


@operator("gemm")
def run_time_tile(seed: Seed):
    for call, names in products(seed):
        for name, allocation in seed.allocations("shared"):
            if name in names and "prim_func" in seed.text:
                function = next(f for f in seed.statements(ast.FunctionDef) if any(c is call for c in ast.walk(f)))
                first = function.body[0]  # type: ignore[attr-defined]
                if ast.get_docstring(function):  # type: ignore[arg-type]
                    continue
                yield Mutation((seed.insert_before(first, 'size = T.dynamic("size")'), seed.replace(seed.extents(allocation)[0], "size")),
                               (seed.place(call),), (name,))  # fmt: skip


@operator("gemm")
def part_of_a_fragment(seed: Seed):
    for call, names in products(seed):
        if seed.scope_of(names[2]) == "fragment":
            yield one(seed, call, seed.replace(call.args[2], f"{names[2]}[0:16, 0:16]"))


@operator("gemm")
def wgmma_where_there_is_none(seed: Seed):
    for call, _ in products(seed):
        if call.func.attr == "wgmma_gemm":  # type: ignore[attr-defined]
            for target in ("sm_80", "sm_100a"):
                yield one(seed, call, seed.replace(call, seed.source(call).replace("T.wgmma_gemm(", "T.wgmma_gemm( ")), target=target)
            yield from values_of_threads(seed, call)
        elif call.func.attr == "gemm" and seed.target == "sm_80":  # type: ignore[attr-defined]
            yield one(seed, call, seed.rename(call, "wgmma_gemm"))
        if call.func.attr == "gemm" and seed.target != "sm_100a":  # type: ignore[attr-defined]
            yield one(seed, call, seed.rename(call, "tcgen05_gemm"))


def values_of_threads(seed: Seed, call):
    for kernel in seed.calls("Kernel"):
        for text in ("64", "96"):
            yield Mutation((seed.set_keyword(kernel, "threads", text),), (seed.place(kernel), seed.place(call)))


@operator("gemm")
def wgmma_not_waited_for(seed: Seed):
    for call in seed.calls("wait_wgmma"):
        names = tuple(n for _, ns in products(seed) for n in ns)
        yield Mutation((seed.delete(seed.statement(call)),), (), names, WAIT)
