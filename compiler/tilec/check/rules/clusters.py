"""Copies between the blocks of a cluster, and the storage type of unpacked 4-bit floats. TileLang 0.1.15,
language/copy_op.py, src/cuda/codegen/codegen_cuda.cc; PTX ISA, cp.async.bulk to shared::cluster."""

from __future__ import annotations

from ...ir.buffer import GLOBAL, Buffer, Region
from ...ir.build import const_int
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span
from ..registry import rule
from .launch import cluster_shape

UNPACKED = "float4_e2m1_unpacked"


@rule("cluster-copy", per_target=True)
def cluster_copy_target(ctx: RuleContext):
    target = ctx.target
    if target is None or target.kind != "cuda" or target.clusters:
        return
    for place in ctx.facts.ops("copy_cluster"):
        yield ctx.report(
            f"T.copy_cluster copies between the blocks of a cluster, which sm_90 and later have; {target.name} has "
            "none",
            place.stmt.span,
        )


@rule("cluster-copy")
def cluster_copy(ctx: RuleContext):
    """The other block is one of the cluster's."""
    for place in ctx.facts.ops("copy_cluster"):
        op, launch = place.stmt, place.launch
        assert isinstance(op, TileOp)
        block = const_int(op.args.get("dst_block"))
        shape = cluster_shape(launch) if launch is not None else None
        if block is None or launch is None or (shape is None and launch.attrs.get("cluster_dims") is not None):
            continue
        size = 1 if shape is None else shape[0] * shape[1] * shape[2]
        if not 0 <= block < size:
            what = f"a cluster of {size} blocks" if size > 1 else "a block without cluster (cluster_dims= of T.Kernel)"
            yield ctx.report(
                f"T.copy_cluster to block {block} of {what}",
                argument_span(op, "dst_block"),
                ("the launch", launch.span),
            )


@rule("float4-unpacked")
def float4_unpacked(ctx: RuleContext):
    """The type is how T.tma_copy stores 4-bit floats in shared memory, one a byte; nothing can compute with it."""
    buffers: list[Buffer] = [p for p in ctx.program.params if isinstance(p, Buffer)]
    for buffer in (*buffers, *ctx.facts.allocs):
        if buffer.dtype == UNPACKED and not buffer.is_shared():
            where = "a tensor parameter" if buffer.scope == GLOBAL else "no shared tile"
            yield ctx.report(
                f"{buffer.name} is {where}; {UNPACKED} is the form of 4-bit floats in shared memory only, elsewhere "
                "they are float4_e2m1fn",
                buffer.span,
                buffer=buffer,
            )
    for place in ctx.facts.ops("copy", "async_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst = op.args.get("dst")
        if isinstance(dst, Region) and dst.dtype == UNPACKED and op.args.get("disable_tma") is True:
            yield ctx.report(
                f"{dst.buffer.name} is filled by the tensor memory accelerator only, which disable_tma=True rules out",
                op.span,
            )
