"""Matrix products as loops: operands packed in the accumulator's type, then a vectorised inner loop."""
from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import Buffer, Region
from ...ir.build import binary, cast, const, const_int, lift, select
from ...ir.expr import Expr, Load
from ...ir.stmt import Alloc, Body, For, Store, TileOp
from ..errors import LoweringError
from .context import Context
from .sparse import pack_sparse

LANES = 16


def lower_gemm(op: TileOp, ctx: Context) -> Body:
    A, B, C = op.region("A"), op.region("B"), op.region("C")
    M, N = _last_two(C, op)
    rows, columns = _last_two(A, op)
    K = rows if op.args["transpose_A"] else columns
    if "E" in op.args:
        K *= 2
    work = _work_dtype(C.dtype)
    a = ctx.temporary("a_pack", (M, K), work)
    b = ctx.temporary("b_pack", (K, N), work)
    c = ctx.temporary("c_work", (M, N), work)
    span = op.span
    if "E" in op.args:
        pack_a = pack_sparse(op, ctx, a)
    else:
        pack_a = ctx.loops((const(M), const(K)), lambda p: (_pack(ctx, a, p, A, op.args["transpose_A"], op),), span, "p")
    pack_b = ctx.loops((const(K), const(N)), lambda p: (_pack(ctx, b, p, B, op.args["transpose_B"], op),), span, "p")
    start = ctx.loops((const(M), const(N)), lambda p: (_start(ctx, c, p, C, op),), span, "c")
    finish = ctx.loops((const(M), const(N)), lambda p: (ctx.store(C.buffer, _at(C, p), Load(work, None, c, p), span),), span, "c")
    return (Alloc(span, a), Alloc(span, b), Alloc(span, c), *pack_a, *pack_b, *start, *_multiply(ctx, op, a, b, c, M, N, K), *finish)


def _work_dtype(dtype: str) -> str:
    return "float32" if dtypes.is_float(dtype) and dtypes.bits(dtype) < 32 else dtype


def _last_two(r: Region, op: TileOp) -> tuple[int, int]:
    extents = [const_int(e) for e in r.extents[-2:]]
    if len(extents) < 2 or None in extents:
        raise LoweringError(f"the tile {r.buffer.name} of a matrix product has extents that are not constants", op.span, "gemm-static-dims")
    return extents[0], extents[1]  # type: ignore[return-value]


def _at(r: Region, position: tuple[Expr, ...]) -> tuple[Expr, ...]:
    lead = r.mins[:-2]
    return (*lead, r.mins[-2] + position[0], r.mins[-1] + position[1])


def _pack(ctx: Context, target: Buffer, position: tuple[Expr, ...], source: Region, transposed: bool, op: TileOp) -> Store:
    place = (position[1], position[0]) if transposed else position
    value = ctx.load(source.buffer, _at(source, place), op.span)
    return Store(op.span, target, position, cast(value, target.dtype))


def _start(ctx: Context, target: Buffer, position: tuple[Expr, ...], C: Region, op: TileOp) -> Store:
    clear = op.args["clear_accum"]
    old = cast(ctx.load(C.buffer, _at(C, position), op.span), target.dtype)
    zero = const(0, target.dtype)
    if clear is True:
        value: Expr = zero
    elif clear is False:
        value = old
    else:
        value = select(ctx.expression(lift(clear), op.span), zero, old)
    return Store(op.span, target, position, value)


def _multiply(ctx: Context, op: TileOp, a: Buffer, b: Buffer, c: Buffer, M: int, N: int, K: int) -> Body:
    lanes = next(w for w in (LANES, 8, 4, 2, 1) if N % w == 0)

    def body(p: tuple[Expr, ...]) -> Body:
        i, k, block = p
        lane = ctx.fresh("v")
        j = block * lanes + lane
        product = binary("mul", Load(a.dtype, None, a, (i, k)), Load(b.dtype, None, b, (k, j)))
        update = Store(op.span, c, (i, j), binary("add", Load(c.dtype, None, c, (i, j)), product))
        return (For(op.span, lane, const(0), const(lanes), (update,), "vectorized" if lanes > 1 else "serial"),)

    return ctx.loops((const(M), const(K), const(N // lanes)), body, op.span, "m")
