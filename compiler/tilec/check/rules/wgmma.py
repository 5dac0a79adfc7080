"""Matrix products of one chip family: wgmma of Hopper, fragments as operands of mma.sync, pairs of blocks. PTX ISA;
TileLang 0.1.15, src/cuda/op/gemm.cc."""

from __future__ import annotations

from ...analysis.wgmma_form import wgmma_types
from ...ir.buffer import FRAGMENT, TMEM, Region
from ...ir.build import const_int
from ...ir.stmt import For, TileOp
from ...target.chips import Target
from ..context import RuleContext
from ..facts import argument_span, thread_count
from ..registry import rule
from .gemm import SHARED_SCOPES, Gemm, gemms, known, partitions


def takes_wgmma(g: Gemm, target: Target, threads: int | None) -> bool:
    """Whether Hopper's compiler picks wgmma for a T.gemm (src/cuda/op/gemm.cc)."""
    if not target.wgmma or g.M is None or g.K is None or threads is None:
        return False
    return g.M >= 64 and threads % 128 == 0 and wgmma_form(g)


def wgmma_form(g: Gemm) -> bool:
    k_major = not g.op.args.get("transpose_A") and bool(g.op.args.get("transpose_B"))
    if g.B.buffer.scope not in SHARED_SCOPES:
        return False
    return wgmma_types(g.A.dtype, g.B.dtype, g.C.dtype, g.K or 0, k_major)


@rule("wgmma-partition", per_target=True)
def wgmma_partition(ctx: RuleContext):
    for g in gemms(ctx):
        threads = thread_count(g.place.launch)
        if (
            ctx.target is None
            or g.op.op != "gemm"
            or g.C.buffer.scope != FRAGMENT
            or g.M is None
            or g.N is None
            or threads is None
        ):
            continue
        if (
            g.place.is_thread_dependent()
            or g.M % 16
            or g.N % 8
            or not takes_wgmma(g, ctx.target, threads)
            or threads < 128
        ):
            continue
        warps = threads // 32
        if not any(m % 4 == 0 for m, _ in partitions(g.M, g.N, warps)) and partitions(g.M, g.N, warps):
            yield ctx.report(
                f"{g.name} on {ctx.target.name}: {warps // 4} warpgroup{'s' if warps > 4 else ''} cannot share out "
                f"{g.M} rows and {g.N} columns "
                "(each warpgroup takes multiples of 64 rows and 8 columns)",
                g.op.span,
                ("the launch", g.place.launch.span if g.place.launch else None),
            )


@rule("gemm-dtype", per_target=True)
def mixed_signs(ctx: RuleContext):
    """Only wgmma multiplies signed with unsigned bytes."""
    for g in gemms(ctx):
        threads = thread_count(g.place.launch)
        if ctx.target is None or ctx.target.kind != "cuda" or {g.A.dtype, g.B.dtype} != {"int8", "uint8"} or threads is None:
            continue
        if g.C.buffer.scope == FRAGMENT and g.op.op == "gemm" and g.M is not None and not takes_wgmma(g, ctx.target, threads):
            yield ctx.report(
                f"{g.name}: A is {g.A.dtype}, B is {g.B.dtype}; the warp-level instructions take one type", g.op.span
            )


@rule("gemm-fp64-tma", per_target=True)
def fp64_pipeline(ctx: RuleContext):
    """The swizzle of float64 tiles is none that a tensor map describes (TileLang 0.1.15, LowerTileOp)."""
    for g in gemms(ctx):
        loop = next((p for p in reversed(g.place.parents) if isinstance(p, For) and p.kind == "pipelined"), None)
        if ctx.target is None or not ctx.target.tma or loop is None or g.A.dtype != "float64":
            continue
        if g.C.buffer.scope == FRAGMENT and (const_int(loop.attrs.get("num_stages")) or 0) > 0:
            yield ctx.report(
                f"{g.name} of float64 in a pipelined loop: on {ctx.target.name} TileLang 0.1.15 cannot copy its tiles by tensor maps; "
                "use num_stages=0",
                g.op.span,
                ("the loop", loop.span),
            )


@rule("wgmma-shape", per_target=True)
def wgmma_shape(ctx: RuleContext):
    for g in gemms(ctx):
        if (
            g.op.op != "wgmma_gemm"
            or ctx.target is None
            or not ctx.target.wgmma
            or g.M is None
            or g.K is None
            or not known(g.A.dtype, g.B.dtype, g.C.dtype)
        ):
            continue
        if ctx.is_blamed(g.A.buffer, g.B.buffer, g.C.buffer):
            continue
        threads = thread_count(g.place.launch)
        if g.M < 64:
            yield ctx.report(f"T.wgmma_gemm: M is {g.M}; wgmma works on 64 rows", g.op.span)
        elif threads is not None and threads % 128 and not g.place.is_thread_dependent():
            yield ctx.report(
                f"T.wgmma_gemm in a block of {threads} threads: wgmma needs whole warpgroups of 128", g.op.span
            )
        elif not wgmma_form(g):
            yield ctx.report(
                f"T.wgmma_gemm: no wgmma form for {g.A.dtype} x {g.B.dtype} -> {g.C.dtype} with K = {g.K}"
                + "".join(f", transpose_{n}" for n in "AB" if g.op.args.get(f"transpose_{n}")),
                g.op.span,
            )


@rule("gemm-fragment-region", per_target=True)
def gemm_fragment_region(ctx: RuleContext):
    for g in gemms(ctx):
        if ctx.target is None or g.C.buffer.scope != FRAGMENT:
            continue
        if any(const_int(e) != 1 for r in (g.A, g.B, g.C) for e in r.extents[:-2]):
            continue  # gemm-rank says it
        for name in ("A", "B", "C"):
            region = g.op.region(name)
            if region.buffer.scope == FRAGMENT and region.buffer.ndim > 2:
                yield ctx.report(
                    f"{g.name}: operand {name} is the fragment {region.buffer.name} of {region.buffer.ndim} dimensions; fragments that are "
                    "operands have two",
                    argument_span(g.op, name),
                    (region.buffer.name, region.buffer.span),
                )
                break
            if region.buffer.scope == FRAGMENT and region.form == "slice" and _is_part(region):
                yield ctx.report(
                    f"{g.name}: operand {name} is part of the fragment {region.buffer.name}; fragments are operands "
                    "as a whole",
                    argument_span(g.op, name),
                )
                break


def _is_part(region: Region) -> bool:
    extents, shape = region.static_extents(), region.buffer.static_shape()
    return extents is not None and shape is not None and extents != shape


# What an operator needs of a chip: the unit in words, and the field of ``Target`` that says whether it is there.
_WGMMA = ("the wgmma instructions of sm_90a", "wgmma")
_TCGEN05 = ("the TCGEN05 instructions of sm_100a", "tcgen05")
_TMA = ("the tensor memory accelerator of sm_90 and later", "tma")
_CLUSTERS = ("the thread block clusters of sm_90 and later", "clusters")
NEEDS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("wgmma_gemm", "wgmma_mma", "wgmma_gemm_sp"), _WGMMA),
    **dict.fromkeys(
        (
            "tcgen05_gemm",
            "tcgen05_mma",
            "tcgen05_gemm_blockscaled",
            "tcgen05_mma_blockscaled",
            "tcgen05_cp_warpx4",
            "tcgen05_mma_arrive",
        ),
        _TCGEN05,
    ),
    **dict.fromkeys(
        (
            "tma_copy",
            "tma_load",
            "tma_load_2sm",
            "tma_gather4",
            "tma_scatter4",
            "tma_store_arrive",
            "tma_store_wait",
        ),
        _TMA,
    ),
    **dict.fromkeys(("cluster_arrive", "cluster_wait", "cluster_sync", "clc_try_cancel"), _CLUSTERS),
}
_BLOCKSCALED = ("gemm_blockscaled", "mma_gemm_blockscaled")


@rule("op-target", per_target=True)
def op_target(ctx: RuleContext):
    target = ctx.target
    if target is None or target.kind != "cuda":
        return
    for place in ctx.facts.ops(*NEEDS, *_BLOCKSCALED, "unsupported"):
        op = place.stmt
        assert isinstance(op, TileOp)
        name = str(op.args.get("name", "")).removeprefix("T.") if op.op == "unsupported" else op.op
        missing = _missing_unit(name, target)
        if missing is None:
            continue
        if any(isinstance(r, Region) and r.buffer.scope == TMEM for r in op.args.values()):
            continue  # tmem-target says it at the allocation
        yield ctx.report(f"T.{name} needs {missing}; {target.name} has none", op.span)


def _missing_unit(name: str, target: Target) -> str | None:
    if name == "gemm_blockscaled" and not target.tcgen05 and target.sm < 120:
        return "the block-scaled matrix instructions of sm_100a or sm_120"
    if name == "mma_gemm_blockscaled" and target.sm < 120:
        return "the block-scaled warp instructions of sm_120"
    unit, field = NEEDS.get(name, ("", ""))
    return unit if field and not getattr(target, field) else None


@rule("two-cta")
def two_cta(ctx: RuleContext):
    from .launch import cluster_shape

    for place in ctx.facts.ops("tcgen05_gemm"):
        op, launch = place.stmt, place.launch
        assert isinstance(op, TileOp)
        if op.args.get("use_2cta") not in (True, 1) or launch is None:
            continue
        value = launch.attrs.get("cluster_dims")
        shape = cluster_shape(launch)
        if value is not None and shape is None:
            continue
        if shape not in ((2, 1, 1), (1, 2, 1)):
            yield ctx.report(
                "use_2cta=True needs a cluster of two blocks: cluster_dims (2, 1, 1) or (1, 2, 1)",
                op.span,
                ("the launch", launch.span),
            )
