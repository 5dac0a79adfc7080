"""Arguments for a run: seeded values by data type, poisoned outputs, chosen run-time extents."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..ir import dtypes
from ..ir.buffer import GLOBAL, Buffer, Region
from ..ir.evaluate_int import evaluate
from ..ir.expr import Expr, Load, Var, walk
from ..ir.ops import OPS
from ..ir.program import TileProgram
from ..ir.stmt import Store, TileOp, expressions
from ..records import dataclass

DEFAULT_EXTENT = 200  # of dynamic dimensions: a multiple of 8, but of no usual block size, so that edges are exercised
PACKED_RATIO = 2  # elements a byte of 4-bit types
_POISON_INT = 0x55
_INDEX_DEFAULT = 100  # integers without a known use lie within +-100


class InputError(Exception):
    """The arguments of a run cannot be made."""


@dataclass
class Roles:
    """What a kernel does with its global buffers. ``outputs``: those a run compares, in parameter order."""

    outputs: list[Buffer]
    declared: list[Buffer]
    read: set[Buffer]
    accumulated: set[Buffer]

    def inputs(self, program: TileProgram) -> list[Buffer | Var]:
        return [p for p in program.params if p not in self.outputs]


def roles_of(program: TileProgram) -> Roles:
    read: set[Buffer] = set()
    written: set[Buffer] = set()
    accumulated: set[Buffer] = set()
    for s in program.statements():
        if isinstance(s, Store):
            written.add(s.buffer.storage())
        elif isinstance(s, TileOp) and s.op in OPS:
            kinds = accumulated if s.op == "atomic" else None
            for name in OPS[s.op].writes:
                _note(s.args.get(name), written if kinds is None else kinds)
            for name in OPS[s.op].reads:
                if kinds is None or name != "dst":
                    _note(s.args.get(name), read)
        for e in expressions(s):
            for part in walk(e):
                if isinstance(part, Load):
                    read.add(part.buffer.storage())
                if getattr(part, "op", "").startswith("atomic_"):
                    accumulated.add(part.args[0].buffer.storage())  # type: ignore[attr-defined]
    read -= accumulated  # the place of an atomic update is no plain read
    buffers = [p for p in program.params if isinstance(p, Buffer) and p.scope == GLOBAL]
    outputs = [b for b in buffers if b in program.outputs] if program.outputs else [b for b in buffers if b in written or b in accumulated]
    return Roles(outputs, list(program.outputs), read, accumulated)


def _note(operand: Any, into: set[Buffer]) -> None:
    if isinstance(operand, Region):
        into.add(operand.buffer.storage())


def extents_of(program: TileProgram, sizes: Mapping[str, int]) -> dict[Var, int]:
    """A value for every run-time extent and scalar parameter. Raises InputError for names the kernel has not."""
    named: dict[str, Var] = {v.name: v for v in program.dynamic}
    named.update({p.name: p for p in program.params if isinstance(p, Var)})
    unknown = [n for n in sizes if n not in named]
    if unknown:
        raise InputError(f"{program.name} has no run-time extent or number {unknown[0]!r}; it has: {', '.join(named) or 'none'}")
    return {v: sizes.get(name, _default(v, v in program.dynamic)) for name, v in named.items()}


def _default(v: Var, extent: bool) -> Any:
    if extent:
        return DEFAULT_EXTENT
    return 1.0 if dtypes.is_float(v.dtype) else 1


def make_arguments(program: TileProgram, roles: Roles, sizes: Mapping[str, int], seed: int) -> list[Any]:
    """CPU tensors and numbers in ``program.params`` order."""
    values = extents_of(program, sizes)
    _compact_strides(program, values)
    generator = torch.Generator().manual_seed(seed)
    limits = _index_limits(program, values)
    made: list[Any] = []
    for p in program.params:
        if isinstance(p, Var):
            made.append(values[p])
            continue
        shape = _shape(p, values)
        if p not in roles.outputs or (p in roles.read and p not in roles.declared):
            tensor = random_tensor(p.dtype, shape, generator, limits.get(p))
        elif p in roles.accumulated and p not in roles.declared:
            tensor = torch.zeros(shape, dtype=stored_dtype(p.dtype))
        else:
            tensor = poisoned(p.dtype, shape)
        made.append(_strided(p, tensor, values))
    return made


def _compact_strides(program: TileProgram, values: dict[Var, int]) -> None:
    """Strides known only at run time are those of a compact tensor."""
    for p in program.params:
        if isinstance(p, Buffer) and p.strides:
            extents, step = [evaluate(e, {**values}) for e in p.shape], 1
            for extent, stride in zip(reversed(extents), reversed(p.strides)):
                if isinstance(stride, Var) and not any(stride is e for q in program.params if isinstance(q, Buffer) for e in q.shape):
                    values[stride] = step
                step *= extent


def _shape(p: Buffer, values: Mapping[Var, int]) -> list[int]:
    try:
        shape = [int(evaluate(e, values)) for e in p.shape]
    except (KeyError, ValueError):
        raise InputError(f"the shape of {p.name} is not known; give the kernel's parameters with --instance, or extents with --size NAME=VALUE") from None
    stored_dtype(p.dtype)  # refuses what torch cannot hold, before its bits are asked for
    if shape and dtypes.bits(p.dtype) < 8:
        shape[-1] //= PACKED_RATIO
    return shape


def _strided(p: Buffer, tensor: torch.Tensor, values: Mapping[Var, int]) -> torch.Tensor:
    """The tensor laid out with the strides a parameter demands."""
    if not p.strides:
        return tensor
    strides = [int(evaluate(s, values)) for s in p.strides]
    if list(tensor.stride()) == strides:
        return tensor
    return torch.empty_strided(tuple(tensor.shape), tuple(strides), dtype=tensor.dtype).copy_(tensor)


# -- values ----------------------------------------------------------------------------------------------------------------------
def stored_dtype(dtype: str) -> torch.dtype:
    """torch's type of the tensors passed for a dtype: bytes for 4-bit types. Raises InputError where torch has none."""
    if dtype == dtypes.UNKNOWN:
        raise InputError("a tensor's data type is not known; give the kernel's parameters with --instance")
    if dtypes.bits(dtype) < 8:
        return torch.int8 if dtype.startswith("int") else torch.uint8
    found = getattr(torch, "float32" if dtype == "tfloat32" else dtype, None)
    if not isinstance(found, torch.dtype):
        raise InputError(f"torch has no tensors of type {dtype}")
    return found


def random_tensor(dtype: str, shape: list[int], generator: torch.Generator, limit: int | None = None) -> torch.Tensor:
    """Normal floats; bytes and packed values of full range; other integers within +-100, or valid indices below ``limit``."""
    kind = stored_dtype(dtype)
    if dtypes.is_bool(dtype):
        return torch.randint(0, 2, shape, generator=generator).to(torch.bool)
    if kind.is_floating_point:
        if dtype == "float8_e8m0fnu":  # powers of two near one, as scales are
            return torch.randint(120, 132, shape, generator=generator, dtype=torch.uint8).view(kind)
        return torch.randn(shape, generator=generator).to(kind)
    if limit is not None:
        return torch.randint(0, max(limit, 1), shape, generator=generator).to(kind)
    if kind in (torch.int8, torch.uint8):
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8).view(kind)
    low = 0 if dtypes.is_unsigned(dtype) else -_INDEX_DEFAULT
    return torch.randint(low, _INDEX_DEFAULT + 1, shape, generator=generator).to(kind)


def poisoned(dtype: str, shape: list[int]) -> torch.Tensor:
    """A tensor whose every element tells that nothing was written there: NaN, or the bytes 0x55."""
    kind = stored_dtype(dtype)
    if kind.is_floating_point:
        return torch.full(shape, float("nan"), dtype=kind) if kind.itemsize > 1 else torch.full(shape, 0x7F, dtype=torch.uint8).view(kind)
    if kind == torch.bool:
        return torch.zeros(shape, dtype=kind)
    flat = torch.full((_count(shape) * kind.itemsize,), _POISON_INT, dtype=torch.uint8)
    return flat.view(kind).reshape(shape)


def _count(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _index_limits(program: TileProgram, values: Mapping[Var, int]) -> dict[Buffer, int]:
    """Buffers whose elements index another buffer, and the smallest extent they index."""
    limits: dict[Buffer, int] = {}

    def note(buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        for index, extent in zip(indices, buffer.shape):
            for part in walk(index):
                if isinstance(part, Load) and part.buffer.scope == GLOBAL and dtypes.is_int(part.buffer.dtype):
                    try:
                        size = int(evaluate(extent, values))
                    except (KeyError, ValueError):
                        continue
                    limits[part.buffer] = min(size, limits.get(part.buffer, size))

    for s in program.statements():
        if isinstance(s, Store):
            note(s.buffer, s.indices)
        elif isinstance(s, TileOp):
            for value in s.args.values():
                if isinstance(value, Region):
                    note(value.buffer, value.mins)
        for e in expressions(s):
            for part in walk(e):
                if isinstance(part, Load):
                    note(part.buffer, part.indices)
    return limits
