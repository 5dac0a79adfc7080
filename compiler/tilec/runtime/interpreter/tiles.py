"""Tile operators on whole tensors."""
from __future__ import annotations

from typing import Any

import torch

from ...ir import dtypes
from ...ir.buffer import Region, tile_axes
from ...ir.build import const_int
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from .barriers import arrive, wait
from .expressions import evaluate, integer
from .memory import Unsupported, compute_dtype, convert
from .state import State


def execute_tile(state: State, op: TileOp) -> None:
    handler = OPERATORS.get(op.op)
    if handler is None:
        name = op.args.get("name") if op.op == "unsupported" else f"T.{op.op}"
        raise Unsupported(f"{name} is not interpreted", op.span)
    handler(state, op)


# -- regions as tensors -------------------------------------------------------------------------------------------------------
def box(state: State, r: Region) -> tuple[list[torch.Tensor], list[int]]:
    """Indices of every element of a region, each broadcasting over its tile axes, and the tile's extents."""
    axes = tile_axes(r)
    extents = [integer(state, r.extents[a]) for a in axes]
    indices: list[torch.Tensor] = []
    for dim, low in enumerate(r.mins):
        base = evaluate(state, low, None).to(torch.int64).reshape(())
        if dim in axes:
            position = axes.index(dim)
            shape = [1] * len(axes)
            shape[position] = extents[position]
            base = base + torch.arange(extents[position]).reshape(shape)
        indices.append(base)
    return indices, extents


def read(state: State, r: Region) -> torch.Tensor:
    """A region's tile; outside a global tensor 0, and what lies outside an on-chip buffer is dropped (it counts as 0)."""
    indices, extents = box(state, r)
    _, inside = state.address(r.buffer, indices)
    value = state.load(r.buffer, indices, inside if not bool(inside.all()) else None, r.span)
    return value.expand(extents)


def write(state: State, r: Region, value: torch.Tensor, dtype: str) -> None:
    indices, _ = box(state, r)
    _, inside = state.address(r.buffer, indices)
    state.store(r.buffer, indices, convert(value, dtype, r.dtype), inside if not bool(inside.all()) else None, r.span)


def matrix(state: State, r: Region) -> torch.Tensor:
    """A region as a matrix: leading extents are 1."""
    rows, columns = (integer(state, e) for e in r.extents[-2:])
    return read(state, r).reshape(rows, columns)


# -- operators -------------------------------------------------------------------------------------------------------------------
def _copy(state: State, op: TileOp) -> None:
    src, dst = op.region("src"), op.region("dst")
    value = read(state, src)
    to = [integer(state, dst.extents[a]) for a in tile_axes(dst)]
    if value.ndim == len(to) and list(value.shape) != to:
        common = [min(a, b) for a, b in zip(value.shape, to)]
        value = value[tuple(slice(0, c) for c in common)]
        dst = Region(dst.buffer, dst.mins, _shrunk(dst, common), dst.form, dst.span)
    elif value.ndim not in (0, len(to)):
        raise Unsupported(f"copy between tiles of {value.ndim} and {len(to)} dimensions", op.span)
    write(state, dst, value if value.ndim else value.expand(to), src.dtype)
    barrier = op.args.get("barrier")
    if isinstance(barrier, Region):
        arrive(state, barrier, op.span)


def _shrunk(r: Region, extents: list[int]) -> tuple[Expr, ...]:
    from ...ir.build import const

    given = iter(extents)
    return tuple(const(next(given)) if const_int(e) != 1 else e for e in r.extents)


def _transpose(state: State, op: TileOp) -> None:
    write(state, op.region("dst"), read(state, op.region("src")).transpose(-1, -2), op.region("src").dtype)


def _fill(state: State, op: TileOp) -> None:
    dst = op.region("dst")
    value = evaluate(state, op.args["value"], None) if op.op == "fill" else torch.zeros((), dtype=compute_dtype(dst.dtype))
    _, extents = box(state, dst)
    write(state, dst, value.reshape(()).expand(extents), op.args["value"].dtype if op.op == "fill" else dst.dtype)


def _gemm(state: State, op: TileOp) -> None:
    a, b = matrix(state, op.region("A")), matrix(state, op.region("B"))
    C = op.region("C")
    a = a.T if op.args["transpose_A"] else a
    b = b.T if op.args["transpose_B"] else b
    if a.shape[1] != b.shape[0]:
        raise Unsupported(f"matrix product of {list(a.shape)} and {list(b.shape)}", op.span)
    wide = _accumulation_type(C.dtype)
    product = a.to(wide) @ b.to(wide)
    if not _clears(state, op.args["clear_accum"]):
        product = product + matrix(state, C).to(wide)
    rows, columns = product.shape
    shape = [integer(state, C.extents[i]) for i in tile_axes(C)]
    value = product.reshape(shape) if rows * columns == _count(shape) else product
    write(state, C, _rounded(value, C.dtype), C.dtype)
    barrier = op.args.get("mbar")
    if isinstance(barrier, Region):
        arrive(state, barrier, op.span)


def _accumulation_type(dtype: str) -> torch.dtype:
    """Products are summed in float64 for float64, exactly for integers, else in float32 (as tensor cores do)."""
    if dtypes.is_int(dtype):
        return torch.int64
    return torch.float64 if dtype == "float64" else torch.float32


def _rounded(value: torch.Tensor, dtype: str) -> torch.Tensor:
    return convert(value, "float32" if value.dtype == torch.float32 else "float64" if value.dtype == torch.float64 else "int64", dtype)


def _count(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _clears(state: State, value: Any) -> bool:
    if isinstance(value, Expr):
        return bool(evaluate(state, value, None).reshape(-1)[0])
    return bool(value)


def _reduce(state: State, op: TileOp) -> None:
    src, dst, kind, dim = op.region("src"), op.region("dst"), op.args["kind"], op.args["dim"]
    indices = [evaluate(state, m, None).to(torch.int64).reshape(()) + _axis(integer(state, e), i, len(src.extents))
               for i, (m, e) in enumerate(zip(src.mins, src.extents))]
    value = state.load(src.buffer, indices, None, src.span).expand([integer(state, e) for e in src.extents])
    wide = value.to(torch.float32) if dtypes.is_float(src.dtype) and dtypes.bits(src.dtype) < 32 else value
    reduced = _along(kind, wide, dim, op)
    target = [integer(state, dst.extents[a]) for a in tile_axes(dst)]
    reduced = reduced.reshape(target)
    if op.args["clear"] is False:
        old = read(state, dst).to(reduced.dtype)
        reduced = _merge(kind, old, reduced)
    write(state, dst, _rounded_like(reduced, src.dtype, dst.dtype), dst.dtype)


def _axis(extent: int, position: int, rank: int) -> torch.Tensor:
    shape = [1] * rank
    shape[position] = extent
    return torch.arange(extent).reshape(shape)


def _along(kind: str, value: torch.Tensor, dim: int, op: TileOp) -> torch.Tensor:
    if kind in ("sum", "abssum"):
        value = value.abs() if kind == "abssum" else value
        return value.sum(dim=dim, dtype=value.dtype)
    if kind in ("max", "absmax"):
        return (value.abs() if kind == "absmax" else value).amax(dim=dim)
    if kind == "min":
        return value.amin(dim=dim)
    ops = {"bitand": torch.bitwise_and, "bitor": torch.bitwise_or, "bitxor": torch.bitwise_xor}
    if kind not in ops:
        raise Unsupported(f"reduction {kind}", op.span)
    parts = value.unbind(dim)
    result = parts[0]
    for part in parts[1:]:
        result = ops[kind](result, part)
    return result


def _merge(kind: str, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return {"sum": torch.add, "abssum": torch.add, "max": torch.maximum, "absmax": torch.maximum, "min": torch.minimum,
            "bitand": torch.bitwise_and, "bitor": torch.bitwise_or, "bitxor": torch.bitwise_xor}[kind](old, new)


def _rounded_like(value: torch.Tensor, source: str, target: str) -> torch.Tensor:
    current = "float32" if value.dtype == torch.float32 else source
    return convert(value, current, target)


def _scan(state: State, op: TileOp) -> None:
    src, dst, dim = op.region("src"), op.region("dst"), op.args["dim"]
    value = read(state, src)
    value = value.flip(dim) if op.args["reverse"] else value
    wide = value.to(torch.float32) if dtypes.is_float(src.dtype) and dtypes.bits(src.dtype) < 32 else value
    result = torch.cumsum(wide, dim, dtype=wide.dtype) if op.op == "cumsum" else torch.cummax(wide, dim).values
    result = result.flip(dim) if op.args["reverse"] else result
    write(state, dst, _rounded_like(result, src.dtype, dst.dtype), dst.dtype)


def _atomic(state: State, op: TileOp) -> None:
    dst, kind, src = op.region("dst"), op.args["kind"], op.args.get("src")
    lanes = {"addx2": 2, "addx4": 4}.get(kind)
    if lanes is not None and isinstance(src, Region):
        _vector_atomic(state, op, dst, src, lanes)
        return
    indices, extents = box(state, dst)
    if isinstance(src, Region):
        value = convert(read(state, src), src.dtype, dst.dtype).expand(extents)
    else:
        value = convert(evaluate(state, op.args["value"], None), op.args["value"].dtype, dst.dtype)
    _, inside = state.address(dst.buffer, indices)
    state.update(dst.buffer, indices, value, kind, inside, op.span)


def _vector_atomic(state: State, op: TileOp, dst: Region, src: Region, lanes: int) -> None:
    for lane in range(lanes):
        to = [evaluate(state, m, None) + (lane if i == len(dst.mins) - 1 else 0) for i, m in enumerate(dst.mins)]
        at = [evaluate(state, m, None) + (lane if i == len(src.mins) - 1 else 0) for i, m in enumerate(src.mins)]
        value = convert(state.load(src.buffer, at, None, op.span), src.dtype, dst.dtype)
        state.update(dst.buffer, to, value, "add", None, op.span)


def _nothing(state: State, op: TileOp) -> None:
    """No effect on what a block computes, as its statements run one after another."""


def _assert(state: State, op: TileOp) -> None:
    condition = op.args["condition"]
    holds = bool(evaluate(state, condition, None).all()) if isinstance(condition, Expr) else bool(condition)
    if not holds:
        state.fault("assertion", f"T.device_assert fails{': ' + str(op.args['message']) if op.args.get('message') else ''}", op.span)


OPERATORS: dict[str, Any] = {
    "copy": _copy, "async_copy": _copy, "tma_copy": _copy, "transpose": _transpose, "fill": _fill, "clear": _fill, "gemm": _gemm,
    "tcgen05_gemm": _gemm, "wgmma_gemm": _gemm, "reduce": _reduce, "cumsum": _scan, "cummax": _scan, "atomic": _atomic,
    "mbarrier_arrive": lambda state, op: arrive(state, op.region("mbar"), op.span), "mbarrier_wait_parity": wait, "device_assert": _assert,
    **dict.fromkeys(("annotate", "sync_threads", "sync_warp", "sync_grid", "mbarrier_expect_tx", "ptx_wait_group", "ptx_commit_group", "wait_wgmma",
                     "fence_proxy_async", "deallocate_tmem", "set_max_nreg", "print"), _nothing),
}
