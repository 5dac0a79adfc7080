"""None for a tensor that nothing in the kernel mentions: the call gets a tensor of the right kind in its place."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..emit.arguments import ArgumentError, plan_arguments, storage_shape
from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate
from ..ir.expr import Var, variables_in
from ..ir.program import TileProgram
from ..ir.stmt import expressions, walk
from .trace import mentioned


def with_stand_ins(program: TileProgram, arguments: Sequence[Any], positions: Sequence[int], device: str) -> tuple[Any, ...]:
    """``positions``: of the arguments among the parameters. What is missing and mentioned stays None, which the check of the arguments refuses."""
    import torch

    from .values import dtype

    used, plan = mentioned(program.body), plan_arguments(program)
    given = {i: a for i, a in zip(positions, arguments) if a is not None}
    place = next((a.device for a in given.values() if isinstance(a, torch.Tensor)), torch.device(device))
    values = _extents(program, given)
    needed = {v for s in walk(program.body) for e in expressions(s) for v in variables_in([e])}
    made = list(arguments)
    for k, i in enumerate(positions[:len(made)]):
        p = program.params[i]
        if made[k] is not None or not isinstance(p, Buffer) or p in used:
            continue
        shape = storage_shape(plan, p)
        for v in variables_in(shape):
            if v not in values and v in needed:
                raise ArgumentError(f"{program.name}: {v.name}, an extent of {p.name}, is used by the kernel, and no argument tells it: every tensor that has it is None")
            values.setdefault(v, 1)
        made[k] = torch.empty([int(evaluate(e, values)) for e in shape], dtype=dtype(p.dtype).as_torch(), device=place)
    return tuple(made)


def _extents(program: TileProgram, given: dict[int, Any]) -> dict[Var, int]:
    """The run-time extents that the tensors and numbers tell which are there."""
    values: dict[Var, int] = {}
    for i, argument in given.items():
        p = program.params[i]
        if isinstance(p, Var):
            values[p] = argument
        elif len(getattr(argument, "shape", ())) == p.ndim:
            values.update({e: n for e, n in zip(p.shape, argument.shape) if isinstance(e, Var)})
            values.update({e: argument.stride(k) for k, e in enumerate(p.strides or ()) if isinstance(e, Var)})
    return values
