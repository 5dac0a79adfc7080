"""The interpreter on the tensors a caller passes: 4-bit types lie two to a byte there, and torch's wide unsigned types lack arithmetic."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from .interpreter import InterpreterResult, interpret

_WIDE = {"uint16", "uint32", "uint64"}


def interpret_arguments(program: TileProgram, arguments: Sequence[Any], seconds: float | None = None,
                        progress: Callable[[int, int], None] | None = None) -> InterpreterResult:
    """Execute on tensors as a compiled kernel takes them; they are updated in place."""
    taken = [_taken(p, a) for p, a in zip(program.params, arguments)]
    result = interpret(program, taken, seconds=seconds, progress=progress)
    for p, given, used in zip(program.params, arguments, taken):
        if used is not given and isinstance(p, Buffer):
            given.copy_(_packed(used).view(given.dtype) if dtypes.bits(p.dtype) < 8 else used.to(given.dtype))
    return result


def _taken(p: Any, value: Any) -> Any:
    if not isinstance(p, Buffer):
        return value
    if p.dtype in ("int4", "uint4"):
        return _unpacked(value, signed=p.dtype == "int4")
    return value.to(torch.int64) if p.dtype in _WIDE else value


def _unpacked(tensor: torch.Tensor, signed: bool) -> torch.Tensor:
    """Two elements a byte along the last dimension, the low four bits first."""
    raw = tensor.view(torch.uint8)
    both = torch.stack((raw & 15, raw >> 4), dim=-1).reshape(*raw.shape[:-1], raw.shape[-1] * 2)
    if not signed:
        return both
    wide = both.to(torch.int8)
    return torch.where(wide > 7, wide - 16, wide)


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    pairs = (tensor.to(torch.int16) & 15).reshape(*tensor.shape[:-1], tensor.shape[-1] // 2, 2)
    return (pairs[..., 0] | (pairs[..., 1] << 4)).to(torch.uint8)
