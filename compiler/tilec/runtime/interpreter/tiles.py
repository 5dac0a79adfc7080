"""Tile operators on whole tensors."""

from __future__ import annotations

from typing import Any

import torch

from ...ir import dtypes
from ...ir.buffer import Region
from ...ir.build import const, const_int, lift
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from .barriers import arrive, complete, wait
from .expressions import evaluate, indices_of, integer
from .memory import Unsupported, compute_dtype, convert
from .regions import Tile, box, extents_of, is_by_lane, matrix, read, write
from .sparse import dense
from .state import State, combine
from .taint import Taint, union
from .vectors import store_slice, store_wide

Mask = torch.Tensor | None
BY_LANE = ("dp4a", "store_slice", "store_wide", "copy", "fill", "clear", "atomic")  # what single threads may do with memory of their own


def execute_tile(state: State, op: TileOp, mask: Mask = None) -> None:
    """``mask``: the threads that take part, in a kernel written for threads."""
    handler = OPERATORS.get(op.op)
    if handler is None:
        name = op.args.get("name") if op.op == "unsupported" else f"T.{op.op}"
        raise Unsupported(f"{name} is not interpreted", op.span)
    if state.lane is not None and op.op not in BY_LANE:
        for value in op.args.values():
            if isinstance(value, Region) and state.is_private(value.buffer):
                raise Unsupported(f"T.{op.op} of {value.buffer.name}, which each thread has for itself", op.span)
    handler(state, op, mask)


# -- copies and fills -----------------------------------------------------------------------------------------------------------
def _copy(state: State, op: TileOp, mask: Mask) -> None:
    src, dst = op.region("src"), op.region("dst")
    tile = read(state, src, mask)
    to = extents_of(state, dst)
    shape = list(tile.values.shape)[1 if tile.by_lane else 0 :]
    if len(shape) == len(to) and shape != to:
        common = [min(a, b) for a, b in zip(shape, to)]
        tile = _part(tile, common)
        dst = Region(dst.buffer, dst.mins, _shrunk(dst, common), dst.form, dst.span)
    elif shape and len(shape) != len(to):
        raise Unsupported(f"copy between tiles of {len(shape)} and {len(to)} dimensions", op.span)
    elif not shape and to:
        tile = _expanded(tile, to)
    if tile.by_lane and not is_by_lane(state, dst):
        raise Unsupported("a copy in which all threads write the same place", op.span)
    write(state, dst, tile, src.dtype, mask)


def _part(tile: Tile, extents: list[int]) -> Tile:
    lead = (slice(None),) if tile.by_lane else ()
    part = (*lead, *(slice(0, e) for e in extents))
    return Tile(tile.values[part], None if tile.taint is None else Taint(tile.taint.mask[part], tile.taint.message, tile.taint.span), tile.by_lane)


def _expanded(tile: Tile, extents: list[int]) -> Tile:
    def grow(x: torch.Tensor) -> torch.Tensor:
        return x.reshape((*x.shape, *[1] * len(extents))).expand((*x.shape, *extents))

    return Tile(grow(tile.values), None if tile.taint is None else Taint(grow(tile.taint.mask), tile.taint.message, tile.taint.span), tile.by_lane)


def _shrunk(r: Region, extents: list[int]) -> tuple[Expr, ...]:
    given = iter(extents)
    return tuple(const(next(given)) if const_int(e) != 1 else e for e in r.extents)


def _transpose(state: State, op: TileOp, mask: Mask) -> None:
    tile = read(state, op.region("src"))
    taint = None if tile.taint is None else Taint(tile.taint.mask.transpose(-1, -2), tile.taint.message, tile.taint.span)
    write(state, op.region("dst"), Tile(tile.values.transpose(-1, -2), taint), op.region("src").dtype)


def _im2col(state: State, op: TileOp, mask: Mask) -> None:
    """The image is padded and taken apart by torch."""
    src, dst = op.region("src"), op.region("dst")
    tile = read(state, src)
    if tile.by_lane or tile.taint is not None or len(src.extents) != 4:
        raise Unsupported("im2col of this image", op.span)
    size, stride, dilation, pad, row, column = (integer(state, lift(op.args[n])) for n in ("kernel", "stride", "dilation", "pad", "nhw_step", "c_step"))
    rows, columns = extents_of(state, dst)[-2:]
    images = tile.values.reshape([integer(state, e) for e in src.extents]).permute(0, 3, 1, 2).to(torch.float64)
    matrix = torch.nn.functional.unfold(images, size, dilation=dilation, padding=pad, stride=stride)  # [image, channel and place of the kernel, place]
    channels = images.shape[1]
    matrix = matrix.reshape(len(images), channels, size * size, -1).permute(0, 3, 2, 1).reshape(-1, size * size * channels)
    found = torch.zeros((rows, columns), dtype=tile.values.dtype)
    part = matrix[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
    found[: part.shape[0], : part.shape[1]] = part.to(found.dtype)
    write(state, dst, Tile(found, None, False), src.dtype, mask)


def _fill(state: State, op: TileOp, mask: Mask) -> None:
    dst = op.region("dst")
    extents = extents_of(state, dst)
    if op.op == "clear":
        write(state, dst, Tile(torch.zeros((), dtype=compute_dtype(dst.dtype)).expand(extents)), dst.dtype, mask)
        return
    value, taint = state.tainted(lambda: evaluate(state, op.args["value"], mask))
    by_lane = value.numel() > 1 and is_by_lane(state, dst)
    if not by_lane and value.numel() > 1 and not bool((value == value.reshape(-1)[0]).all()):
        raise Unsupported("a fill with values that differ between threads", op.span)
    tile = Tile(
        value if by_lane else value.reshape(-1)[0],
        None if taint is None else Taint(taint.mask.expand(value.shape) if by_lane else taint.mask.any(), taint.message, taint.span),
        by_lane,
    )
    write(state, dst, _expanded(tile, extents), op.args["value"].dtype, mask)


# -- matrix products --------------------------------------------------------------------------------------------------------------
def _gemm(state: State, op: TileOp, mask: Mask) -> None:
    A, B, C = op.region("A"), op.region("B"), op.region("C")
    a, b = _operand(matrix(state, A), op.args["transpose_A"]), _operand(matrix(state, B), op.args["transpose_B"])
    if "E" in op.args:
        a = dense(a, _operand(matrix(state, op.region("E")), op.args["transpose_E"]), A.dtype, op.region("E").dtype, op)
    if a.values.shape[1] != b.values.shape[0]:
        raise Unsupported(f"matrix product of {list(a.values.shape)} and {list(b.values.shape)}", op.span)
    wide = _accumulation_type(C.dtype)
    product = a.values.to(wide) @ b.values.to(wide)
    taints = _product_taint(a, b, product)
    if not _clears(state, op.args["clear_accum"]):
        old = matrix(state, C)
        product = product + old.values.to(wide)
        taints += [old.taint] if old.taint is not None else []
    shape = extents_of(state, C)
    taint = union(taints)
    value = Tile(product.reshape(shape), None if taint is None else Taint(taint.mask.expand(product.shape).reshape(shape), taint.message, taint.span))
    write(state, C, value, _name(product.dtype, C.dtype))
    barrier = op.args.get("mbar")
    if isinstance(barrier, Region):
        complete(state, barrier)


def _operand(tile: Tile, transposed: bool) -> Tile:
    if not transposed:
        return tile
    return Tile(tile.values.T, None if tile.taint is None else Taint(tile.taint.mask.T, tile.taint.message, tile.taint.span))


def _product_taint(a: Tile, b: Tile, product: torch.Tensor) -> list[Taint]:
    """A meaningless element of A spoils a row of the product, one of B a column."""
    found = []
    if a.taint is not None:
        found.append(Taint(a.taint.mask.any(1, keepdim=True).expand(product.shape), a.taint.message, a.taint.span))
    if b.taint is not None:
        found.append(Taint(b.taint.mask.any(0, keepdim=True).expand(product.shape), b.taint.message, b.taint.span))
    return found


def _accumulation_type(dtype: str) -> torch.dtype:
    """Products are summed in float64 for float64, exactly for integers, else in float32 (as tensor cores do)."""
    if dtypes.is_int(dtype):
        return torch.int64
    return torch.float64 if dtype == "float64" else torch.float32


def _name(kind: torch.dtype, otherwise: str) -> str:
    """The name of the type intermediate results have."""
    return {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64"}.get(kind, otherwise)


def _clears(state: State, value: Any) -> bool:
    if isinstance(value, Expr):
        return bool(integer(state, value))
    return bool(value)


# -- reductions and scans -----------------------------------------------------------------------------------------------------------
def _widened(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """Narrow floats are summed in float32 and rounded once."""
    return value.to(torch.float32) if dtypes.is_float(dtype) and dtypes.bits(dtype) < 32 else value


def _reduce(state: State, op: TileOp, mask: Mask) -> None:
    src, dst, kind, dim = op.region("src"), op.region("dst"), op.args["kind"], op.args["dim"]
    tile = read(state, src)
    full = [integer(state, e) for e in src.extents]
    reduced = _along(kind, _widened(tile.values.reshape(full), src.dtype), dim, op)
    shape = extents_of(state, dst)
    if reduced.numel() != _count(shape):
        raise Unsupported(f"a reduction to {reduced.numel()} elements into a tile of {_count(shape)}", op.span)
    reduced = reduced.reshape(shape)
    taints = [] if tile.taint is None else [Taint(tile.taint.mask.reshape(full).any(dim).reshape(shape), tile.taint.message, tile.taint.span)]
    if op.args["clear"] is False:
        old = read(state, dst)
        reduced = _MERGE[kind](_without_nan(old.values, kind, op), reduced.to(old.values.dtype) if not reduced.dtype.is_floating_point else reduced)
        taints += [old.taint] if old.taint is not None else []
    write(state, dst, Tile(reduced, union(taints)), _name(reduced.dtype, src.dtype))


def _count(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _along(kind: str, value: torch.Tensor, dim: int, op: TileOp) -> torch.Tensor:
    if kind in ("sum", "abssum"):
        value = value.abs() if kind == "abssum" else value
        return value.sum(dim=dim, dtype=value.dtype)
    if kind in ("max", "absmax", "min"):
        value = _without_nan(value.abs() if kind == "absmax" else value, kind, op)
        return value.amin(dim=dim) if kind == "min" else value.amax(dim=dim)
    if kind not in _MERGE:
        raise Unsupported(f"reduction {kind}", op.span)
    parts = value.unbind(dim)
    result = parts[0]
    for part in parts[1:]:
        result = _MERGE[kind](result, part)
    return result


def _without_nan(value: torch.Tensor, kind: str, op: TileOp) -> torch.Tensor:
    """Maxima and minima pass over NaN (fmax, fmin) unless ``nan_propagate`` is asked for."""
    if kind not in ("max", "absmax", "min") or not value.dtype.is_floating_point or op.args.get("nan_propagate"):
        return value
    return torch.where(torch.isnan(value), torch.full_like(value, float("inf") if kind == "min" else float("-inf")), value)


_MERGE: dict[str, Any] = {
    "sum": torch.add,
    "abssum": torch.add,
    "max": torch.maximum,
    "absmax": torch.maximum,
    "min": torch.minimum,
    "bitand": torch.bitwise_and,
    "bitor": torch.bitwise_or,
    "bitxor": torch.bitwise_xor,
}


def _scan(state: State, op: TileOp, mask: Mask) -> None:
    src, dst, dim = op.region("src"), op.region("dst"), op.args["dim"]
    tile = read(state, src)
    held, full = tile.values.shape, [integer(state, e) for e in src.extents]  # dim counts the dimensions of 1 too
    tile = Tile(tile.values.reshape(full), None if tile.taint is None else Taint(tile.taint.mask.reshape(full), tile.taint.message, tile.taint.span))
    flip = (lambda x: x.flip(dim)) if op.args["reverse"] else (lambda x: x)
    wide = _widened(flip(tile.values), src.dtype)
    result = torch.cumsum(wide, dim, dtype=wide.dtype) if op.op == "cumsum" else torch.cummax(wide, dim).values
    taint = None if tile.taint is None else Taint(flip(flip(tile.taint.mask).to(torch.int32).cumsum(dim) > 0), tile.taint.message, tile.taint.span)
    if taint is not None:
        taint = Taint(taint.mask.reshape(held), taint.message, taint.span)
    write(state, dst, Tile(flip(result).reshape(held), taint), _name(result.dtype, src.dtype))


# -- atomics --------------------------------------------------------------------------------------------------------------------------
def _atomic(state: State, op: TileOp, mask: Mask) -> None:
    dst, kind, src = op.region("dst"), op.args["kind"], op.args.get("src")
    lanes = {"addx2": 2, "addx4": 4}.get(kind)
    if lanes is not None and isinstance(src, Region):
        _vector_atomic(state, op, dst, src, lanes, mask)
    elif isinstance(src, Region):
        _tile_atomic(state, op, dst, src)
    else:
        value, taint = state.tainted(lambda: evaluate(state, op.args["value"], mask))
        value = convert(value, op.args["value"].dtype, dst.dtype)
        if mask is not None and dst.form == "element":
            indices, value = indices_of(state, dst.buffer, dst.mins, mask), value.expand(torch.broadcast_shapes(value.shape, mask.shape))
            state.update(dst.buffer, indices, value, kind, mask, op.span, taint)
        else:
            state.update(dst.buffer, box(state, dst), value, kind, None, op.span, taint)


def _tile_atomic(state: State, op: TileOp, dst: Region, src: Region) -> None:
    if is_by_lane(state, src) or is_by_lane(state, dst):
        raise Unsupported("an atomic operation on tiles of single threads", op.span)
    tile = read(state, src)
    value = convert(tile.values, src.dtype, dst.dtype).expand(extents_of(state, dst))
    indices = box(state, dst)
    _, inside = state.address(dst.buffer, indices)
    state.update(dst.buffer, indices, value, op.args["kind"], inside, op.span, tile.taint)


def _vector_atomic(state: State, op: TileOp, dst: Region, src: Region, lanes: int, mask: Mask) -> None:
    def shifted(r: Region, lane: int) -> list[torch.Tensor]:
        indices = indices_of(state, r.buffer, r.mins, mask)
        return [*indices[:-1], indices[-1] + lane]

    for lane in range(lanes):
        value, taint = state.tainted(lambda lane=lane: state.load(src.buffer, shifted(src, lane), mask, op.span))  # type: ignore[misc]
        value = convert(value, src.dtype, dst.dtype)
        state.update(dst.buffer, shifted(dst, lane), value if mask is None else value.expand(mask.shape), "add", mask, op.span, taint)


# -- reducers ---------------------------------------------------------------------------------------------------------------------------
_UPDATES = {"sum": "add", "max": "max", "min": "min", "bitand": "and", "bitor": "or", "bitxor": "xor"}


def _neutral(kind: str, dtype: str) -> float | int | bool:
    """What leaves every other value unchanged."""
    if kind in ("sum", "bitor", "bitxor"):
        return 0
    kept = compute_dtype(dtype)
    if kind == "bitand":
        return True if kept == torch.bool else -1 if kept.is_signed else torch.iinfo(kept).max
    if dtypes.is_float(dtype):
        return float("-inf") if kind == "max" else float("inf")
    limits = torch.iinfo(kept)
    return limits.min if kind == "max" else limits.max


def _reducer_init(state: State, op: TileOp, mask: Mask) -> None:
    region = op.region("reducer")
    value = _neutral(region.buffer.attrs["reducer_op"], region.dtype)
    shape = extents_of(state, region)
    write(state, region, Tile(torch.full(shape, value, dtype=compute_dtype(region.dtype)), None), region.dtype)
    start = op.args.get("value")
    state.reducer_start[region.buffer] = None if start is None else evaluate(state, start, mask)


def _reducer_update(state: State, op: TileOp, mask: Mask) -> None:
    target = op.region("target")
    value, taint = state.tainted(lambda: evaluate(state, op.args["value"], mask))
    indices = indices_of(state, target.buffer, target.mins, mask)
    value = value if mask is None else value.expand(torch.broadcast_shapes(value.shape, mask.shape))
    state.update(target.buffer, indices, value, _UPDATES[target.buffer.attrs["reducer_op"]], mask, op.span, taint)


def _reducer_finish(state: State, op: TileOp, mask: Mask) -> None:
    region = op.region("reducer")
    tile, start = read(state, region), state.reducer_start.get(region.buffer)
    values = tile.values
    if start is not None:
        values = combine(_UPDATES[region.buffer.attrs["reducer_op"]], values, start, region.dtype)
    dst = op.args.get("dst") or region
    write(state, dst, Tile(values, tile.taint), region.dtype)


# -- the rest --------------------------------------------------------------------------------------------------------------------------
def _nothing(state: State, op: TileOp, mask: Mask) -> None:
    """No effect on what a block computes, as its statements run one after another."""


def _sync_grid(state: State, op: TileOp, mask: Mask) -> None:
    if state.blocks > 1:
        raise Unsupported("blocks that wait for each other: the interpreter runs them one after another", op.span)


def _dp4a(state: State, op: TileOp, mask: Mask) -> None:
    a, b, c = (op.region(name) for name in "ABC")

    def made() -> torch.Tensor:
        total = state.load(c.buffer, indices_of(state, c.buffer, c.mins, mask), mask, op.span)
        for k in range(4):
            x, y = ([*i[:-1], i[-1] + k] for i in (indices_of(state, r.buffer, r.mins, mask) for r in (a, b)))
            total = total + state.load(a.buffer, x, mask, op.span).to(torch.int32) * state.load(b.buffer, y, mask, op.span).to(torch.int32)
        return total

    value, taint = state.tainted(made)
    state.store(c.buffer, indices_of(state, c.buffer, c.mins, mask), value, mask, op.span, taint)


def _assert(state: State, op: TileOp, mask: Mask) -> None:
    condition = op.args["condition"]
    value = state.settled(lambda: evaluate(state, condition, mask)) if isinstance(condition, Expr) else torch.tensor(bool(condition))
    fails = ~value.to(torch.bool) if mask is None else ~value.to(torch.bool) & mask
    if bool(fails.any()):
        state.fault("assertion", f"T.device_assert fails{': ' + str(op.args['message']) if op.args.get('message') else ''}", op.span)


OPERATORS: dict[str, Any] = {
    "copy": _copy,
    "async_copy": _copy,
    "tma_copy": _copy,
    "im2col": _im2col,
    "transpose": _transpose,
    "fill": _fill,
    "clear": _fill,
    "gemm": _gemm,
    "tcgen05_gemm": _gemm,
    "wgmma_gemm": _gemm,
    "gemm_sp": _gemm,
    "wgmma_gemm_sp": _gemm,
    "tcgen05_gemm_sp": _gemm,
    "reduce": _reduce,
    "cumsum": _scan,
    "cummax": _scan,
    "atomic": _atomic,
    "reducer_init": _reducer_init,
    "reducer_update": _reducer_update,
    "finalize_reducer": _reducer_finish,
    "mbarrier_arrive": arrive,
    "mbarrier_wait_parity": wait,
    "device_assert": _assert,
    "sync_grid": _sync_grid,
    "dp4a": _dp4a,
    "store_slice": store_slice,
    "store_wide": store_wide,
    # a bulk copy only announces its bytes on its barrier: the arrival is the user's (tilelang/language/copy_op.py, tma_copy)
    **dict.fromkeys(
        (
            "annotate",
            "sync_threads",
            "sync_warp",
            "mbarrier_expect_tx",
            "ptx_wait_group",
            "ptx_commit_group",
            "wait_wgmma",
            "fence_proxy_async",
            "deallocate_tmem",
            "set_max_nreg",
            "print",
        ),
        _nothing,
    ),
}
