"""Vectors: the value of one is a list of tensors, one for each lane. Wide loads give the bytes of memory as words."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...ir import dtypes
from ...ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from .memory import Unsupported, compute_dtype, convert

_NUMPY = {"uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4", "uint64": "<u8", "int64": "<i8"}
_PAIRS = {"add2": "add", "sub2": "sub", "mul2": "mul", "max2": "max", "min2": "min"}


def is_wide_load(e: Expr) -> bool:
    return isinstance(e, Call) and e.op[:3] in ("ldg", "lds") and e.op[3:].isdigit()


def is_vector(e: Expr) -> bool:
    return e.dtype != dtypes.UNKNOWN and dtypes.lanes(e.dtype) > 1


def lanes_of(state: Any, e: Expr, mask: Any) -> list[torch.Tensor]:
    """The value of each lane; one for a scalar."""
    from .expressions import compute, evaluate

    scalar = dtypes.scalar(e.dtype)
    if isinstance(e, Call):
        return _call(state, e, mask)
    if isinstance(e, Var) and e in state.vectors:
        return state.vectors[e]
    if isinstance(e, Load) and any(map(is_vector, e.indices)):
        return _gather(state, e, mask)
    if isinstance(e, Const):
        return [torch.tensor(e.value, dtype=compute_dtype(scalar))] * dtypes.lanes(e.dtype)
    if isinstance(e, Binary):
        kind = dtypes.scalar(e.a.dtype)
        return _each(lambda a, b: compute(e.op, a, b, kind), lanes_of(state, e.a, mask), lanes_of(state, e.b, mask))
    if isinstance(e, Cast):
        made = [convert(x, dtypes.scalar(e.a.dtype), scalar) for x in lanes_of(state, e.a, mask)]
        return made * dtypes.lanes(e.dtype) if len(made) == 1 else made
    if isinstance(e, Unary):
        return [-x if e.op == "neg" else ~x for x in lanes_of(state, e.a, mask)]
    if isinstance(e, Select):
        return _each(torch.where, *(lanes_of(state, x, mask) for x in (e.cond, e.then, e.other)))
    return [evaluate(state, e, mask)]


def _each(make: Any, *operands: list[torch.Tensor]) -> list[torch.Tensor]:
    count = max(map(len, operands))
    return [make(*(o[k] if len(o) > 1 else o[0] for o in operands)) for k in range(count)]


def _call(state: Any, e: Call, mask: Any) -> list[torch.Tensor]:
    from .expressions import apply, compute, evaluate

    attrs = e.attrs or {}
    if e.op == "pack":
        return [evaluate(state, a, mask) for a in e.args]
    if e.op == "broadcast":
        return [evaluate(state, e.args[0], mask)] * attrs["lanes"]
    if e.op == "ramp":
        base, stride = evaluate(state, e.args[0], mask), evaluate(state, e.args[1], mask)
        return [base + stride * k for k in range(attrs["lanes"])]
    if is_wide_load(e):
        return _from_bytes(_read_bytes(state, e, mask), "uint32")
    if e.op == "reinterpret":
        source = e.args[0]
        return _from_bytes(_to_bytes(lanes_of(state, source, mask), dtypes.scalar(source.dtype)), dtypes.scalar(e.dtype))
    if e.op.startswith("atomic_addx"):
        return _atomic(state, e, mask)
    if not any(isinstance(a, Expr) and is_vector(a) for a in e.args):
        return [evaluate(state, e, mask)]
    kind = dtypes.scalar(e.args[0].dtype)
    operands = [lanes_of(state, a, mask) for a in e.args]
    if e.op in _PAIRS:
        return _each(lambda a, b: compute(_PAIRS[e.op], a, b, kind), *operands)
    name = e.op[:-1] if e.op in ("fma2", "abs2") else e.op
    return _each(lambda *a: apply(name, list(a), kind, dtypes.scalar(e.dtype), e), *operands)


def _gather(state: Any, e: Load, mask: Any) -> list[torch.Tensor]:
    places = indices_by_lane(state, e.buffer, e.indices, mask)
    return [state.load(e.buffer, place, mask, e.span) for place in places]


def indices_by_lane(state: Any, buffer: Any, indices: Any, mask: Any) -> list[list[torch.Tensor]]:
    """The indices of each lane's element; negative ones count from the end."""
    found = [lanes_of(state, i, mask) for i in indices]
    extents = state.shape(buffer)
    made = []
    for k in range(max(map(len, found))):
        own = [f[k] if len(f) > 1 else f[0] for f in found]
        made.append([torch.where(i < 0, i + extent, i) for i, extent in zip(own, extents)])
    return made


def _atomic(state: Any, e: Call, mask: Any) -> list[torch.Tensor]:
    from .expressions import indices_of

    place, source = e.args
    found = []
    for k in range(dtypes.lanes(e.dtype)):
        at, origin = indices_of(state, place.buffer, place.indices, mask), indices_of(state, source.buffer, source.indices, mask)
        value, taint = state.tainted(lambda origin=origin, k=k: state.load(source.buffer, [*origin[:-1], origin[-1] + k], mask, e.span))
        value = convert(value, source.dtype, place.dtype)
        found.append(state.update(place.buffer, [*at[:-1], at[-1] + k], value, "add", mask, e.span, taint, True))
    return found


# -- bits -------------------------------------------------------------------------------------------------------------------------
def _read_bytes(state: Any, e: Call, mask: Any) -> list[torch.Tensor]:
    """The bytes a wide load reads: elements that follow each other in memory."""
    from .expressions import evaluate, indices_of

    place = e.args[0]
    buffer, bits = place.buffer, int(e.op[3:])
    condition = evaluate(state, e.args[1], mask) if len(e.args) > 1 else None
    active = mask if condition is None else condition if mask is None else mask & condition
    indices = indices_of(state, buffer, place.indices, mask)
    out: list[torch.Tensor] = []
    for k in range(bits // dtypes.bits(buffer.dtype)):
        value = state.load(buffer, neighbour(state, buffer, indices, k), active, e.span)
        out += _to_bytes([value if condition is None else torch.where(condition, value, torch.zeros_like(value))], buffer.dtype)
    return out


def neighbour(state: Any, buffer: Any, indices: list[torch.Tensor], k: int) -> list[torch.Tensor]:
    """The element ``k`` places further in row-major order."""
    if buffer.strides is not None:
        return [*indices[:-1], indices[-1] + k]
    flat = torch.zeros((), dtype=torch.int64)
    shape = state.shape(buffer)
    for i, extent in zip(indices, shape):
        flat = flat * extent + i
    flat = flat + k
    made: list[torch.Tensor] = []
    for extent in reversed(shape[1:]):
        made.insert(0, flat % extent)
        flat = flat // extent
    return [flat, *made]


def _to_bytes(values: list[torch.Tensor], dtype: str) -> list[torch.Tensor]:
    out: list[torch.Tensor] = []
    for value in values:
        if dtype in _NUMPY:
            raw = np.ascontiguousarray(value.numpy()).astype(_NUMPY[dtype])
        else:
            from .memory import torch_dtype

            raw = value.to(torch_dtype(dtype)).contiguous().view(_integer(dtype)).numpy()
        parts = raw[..., None].view("u1")
        out += [torch.from_numpy(parts[..., b].copy()) for b in range(parts.shape[-1])]
    return out


def _integer(dtype: str) -> torch.dtype:
    sizes = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
    if dtypes.bits(dtype) not in sizes:
        raise Unsupported(f"the bits of {dtype}")
    return sizes[dtypes.bits(dtype)]


def _from_bytes(parts: list[torch.Tensor], dtype: str) -> list[torch.Tensor]:
    size = dtypes.bits(dtype) // 8
    shape = torch.broadcast_shapes(*(p.shape for p in parts))
    made = []
    for first in range(0, len(parts), size):
        raw = np.ascontiguousarray(np.stack([p.expand(shape).numpy() for p in parts[first:first + size]], -1))
        if dtype in _NUMPY:
            value = raw.view(_NUMPY[dtype])[..., 0]
            made.append(torch.from_numpy(value.astype(np.int64).copy()).to(compute_dtype(dtype)))
        else:
            from .memory import torch_dtype

            made.append(torch.from_numpy(raw).view(torch_dtype(dtype))[..., 0].to(compute_dtype(dtype)))
    return made


# -- statements -------------------------------------------------------------------------------------------------------------------
def store_vector(state: Any, buffer: Any, indices: Any, value: Expr, mask: Any, span: Any) -> None:
    """``buffer[indices] = value`` where one of them is a vector: everything is computed, then stored."""
    values, taint = state.tainted(lambda: lanes_of(state, value, mask))
    places = indices_by_lane(state, buffer, indices, mask)
    count = max(len(values), len(places))
    for k in range(count):
        one = convert(values[k] if len(values) > 1 else values[0], dtypes.scalar(value.dtype), buffer.dtype)
        state.store(buffer, places[k] if len(places) > 1 else places[0], one, mask, span, taint)


def store_slice(state: Any, op: Any, mask: Any) -> None:
    from ...ir.buffer import tile_axes
    from .expressions import indices_of

    dst, value = op.region("dst"), op.args["value"]
    axis = tile_axes(dst)[0]
    values, taint = state.tainted(lambda: lanes_of(state, value, mask))
    first = indices_of(state, dst.buffer, dst.mins, mask)
    count = int(dst.static_extents()[axis])
    if len(values) not in (1, count):
        raise Unsupported(f"{len(values)} lanes stored to {count} elements", op.span)
    for k in range(count):
        one = convert(values[k] if len(values) > 1 else values[0], dtypes.scalar(value.dtype), dst.dtype)
        state.store(dst.buffer, [i + k if d == axis else i for d, i in enumerate(first)], one, mask, op.span, taint)


def store_wide(state: Any, op: Any, mask: Any) -> None:
    from .expressions import evaluate, indices_of

    dst, value, pred = op.region("dst"), op.args["value"], op.args.get("pred")
    active = mask
    if pred is not None:
        condition = evaluate(state, pred, mask)
        active = condition if mask is None else mask & condition
    parts, taint = state.tainted(lambda: _to_bytes(lanes_of(state, value, mask), dtypes.scalar(value.dtype)))
    first = indices_of(state, dst.buffer, dst.mins, mask)
    for k, one in enumerate(_from_bytes(parts, dst.dtype)):
        state.store(dst.buffer, neighbour(state, dst.buffer, first, k), one, active, op.span, taint)
