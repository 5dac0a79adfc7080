"""What the tensor memory accelerator can copy. PTX ISA, cp.async.bulk and cuTensorMapEncodeTiled; TileLang 0.1.15,
src/cuda/op/copy_analysis.cc: T.copy falls back to loads and stores, T.tma_copy is refused."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import GLOBAL, Buffer, Region
from ...ir.build import const_int
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span
from ..registry import rule
from .gemm import known, scope_name

GRANULE = 128  # bits: sizes, strides and addresses are multiples of 16 bytes


@rule("tma-operands", "tma-size")
def tma_copies(ctx: RuleContext):
    for place in ctx.facts.ops("tma_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if not (isinstance(src, Region) and isinstance(dst, Region)) or ctx.is_blamed(src.buffer, dst.buffer):
            continue
        yield _operands(ctx, op, src, dst) or _size(ctx, op, *((src, dst) if src.buffer.scope == GLOBAL else (dst, src)))


def _operands(ctx: RuleContext, op: TileOp, src: Region, dst: Region):
    scopes = (src.buffer.scope == GLOBAL, dst.buffer.scope == GLOBAL)
    for name, region in (("src", src), ("dst", dst)):
        if region.buffer.scope != GLOBAL and not region.buffer.is_shared():
            return ctx.report(
                f"T.tma_copy copies between global and shared memory; {region.buffer.name} is in {scope_name(region.buffer)}",
                argument_span(op, name),
                (f"{region.buffer.name}", region.buffer.span),
                name="tma-operands",
            )
    if scopes[0] == scopes[1]:
        return ctx.report(
            f"T.tma_copy copies between global and shared memory; {src.buffer.name} and {dst.buffer.name} are both in "
            f"{scope_name(src.buffer)}",
            op.span,
            name="tma-operands",
        )
    if known(src.dtype, dst.dtype) and dtypes.bits(src.dtype) != dtypes.bits(dst.dtype) and "float4" not in src.dtype + dst.dtype:
        return ctx.report(
            f"T.tma_copy does not convert: {src.buffer.name} is {src.dtype}, {dst.buffer.name} is {dst.dtype}",
            op.span,
            (f"{src.buffer.name}", src.buffer.span),
            (f"{dst.buffer.name}", dst.buffer.span),
            name="tma-operands",
        )
    return None


def _size(ctx: RuleContext, op: TileOp, memory: Region, tile: Region):
    if not known(memory.dtype) or not memory.extents:
        return None
    bits = dtypes.bits(memory.dtype)
    for stride in _outer_strides(memory.buffer):
        if stride is not None and stride * bits % GRANULE:
            return ctx.report(
                f"the rows of {memory.buffer.name} are {stride * bits / 8:g} bytes apart; the tensor memory accelerator needs "
                "a multiple of 16, and T.tma_copy has no other way (T.copy has)",
                op.span,
                (f"{memory.buffer.name}", memory.buffer.span),
                name="tma-size",
            )
    inner = const_int(memory.extents[-1])
    if inner is None or inner * bits % GRANULE == 0 or _is_one_piece(memory, bits):
        return None
    return ctx.report(
        f"the innermost extent is {inner} {memory.dtype}, {inner * bits / 8:g} bytes; bulk copies move multiples of 16 bytes "
        "(T.copy does the rest by other means)",
        op.span,
        (f"{memory.buffer.name}", memory.buffer.span),
        name="tma-size",
    )


def _outer_strides(buffer: Buffer) -> list[int | None]:
    """In elements, of all dimensions but the last."""
    if buffer.strides is not None:
        return [const_int(s) for s in buffer.strides[:-1]]
    found: list[int | None] = []
    product: int | None = 1
    for extent in reversed(buffer.shape[1:]):
        size = const_int(extent)
        product = None if size is None or product is None else product * size
        found.insert(0, product)
    return found


def _is_one_piece(memory: Region, bits: int) -> bool:
    """Whether it may be one run of bytes of a possible length; those need no descriptor."""
    total, partial = bits, False
    for low, size, extent in zip(reversed(memory.mins), reversed(memory.extents), reversed(memory.buffer.shape)):
        length, whole = const_int(size), const_int(extent)
        if length is None or whole is None:
            return True
        if partial and length != 1:
            return False
        total *= length
        partial |= length != whole or const_int(low) != 0
    return total % GRANULE == 0
