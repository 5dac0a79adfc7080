"""What a kernel does, counted from its tile program: operations of its matrix products, bytes of its parameters."""
from __future__ import annotations

import itertools
from typing import Any

from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate
from ..ir.expr import Var, walk
from ..ir.program import TileProgram
from ..ir.stmt import Body, For, If, Launch, TileOp, While, bodies
from ..ir.stmt import walk as walk_statements

GEMMS = ("gemm", "tcgen05_gemm", "wgmma_gemm", "gemm_sp", "wgmma_gemm_sp", "tcgen05_gemm_sp")
_SAMPLES = 4096  # blocks looked at where the work differs from block to block


def flops(program: TileProgram, values: dict[Var, Any]) -> float:
    """Multiplications and additions of all matrix products, 0.0 if there are none or they cannot be counted."""
    try:
        return sum(_launch(s, dict(values)) for s in program.launches())
    except (KeyError, ValueError, ZeroDivisionError):
        return 0.0


def _launch(launch: Launch, values: dict[Var, Any]) -> float:
    grid = [int(evaluate(e, values)) for e in launch.grid]
    total = 1
    for extent in grid:
        total *= extent
    if not any(v in _control_vars(launch.body) for v in launch.block_vars):
        values.update(dict.fromkeys(launch.block_vars, 0))
        return total * _body(launch.body, values)
    step = max(total // _SAMPLES, 1)
    blocks = list(itertools.islice(itertools.product(*[range(e) for e in grid]), 0, None, step))
    counted = sum(_body(launch.body, {**values, **dict(zip(launch.block_vars, block))}) for block in blocks)
    return counted * total / max(len(blocks), 1)


def _control_vars(body: Body) -> set[Var]:
    """Variables that loop bounds and conditions around matrix products depend on."""
    found: set[Var] = set()
    for s in walk_statements(body):
        controls = (s.extent,) if isinstance(s, For) else (s.cond,) if isinstance(s, If) else ()
        if any(isinstance(inner, TileOp) and inner.op in GEMMS for b in bodies(s) for inner in walk_statements(b)):
            found |= {part for e in controls for part in walk(e) if isinstance(part, Var)}
    return found


def _body(body: Body, values: dict[Var, Any]) -> float:
    total = 0.0
    for s in body:
        if isinstance(s, TileOp) and s.op in GEMMS:
            total += _product(s, values)
        elif not any(isinstance(x, TileOp) and x.op in GEMMS for b in bodies(s) for x in walk_statements(b)):
            continue
        elif isinstance(s, For):
            total += _loop(s, values)
        elif isinstance(s, If):
            total += _branch(s, values)
        elif isinstance(s, While):
            raise ValueError("the number of iterations is not known")
        else:
            total += sum(_body(b, values) for b in bodies(s))
    return total


def _loop(s: For, values: dict[Var, Any]) -> float:
    extent = int(evaluate(s.extent, values))
    start = int(evaluate(s.start, values))
    if s.var not in _control_vars(s.body):
        return extent * _body(s.body, {**values, s.var: start})
    return sum(_body(s.body, {**values, s.var: start + i * s.step}) for i in range(extent))


def _branch(s: If, values: dict[Var, Any]) -> float:
    try:
        return _body(s.then if evaluate(s.cond, values) else s.other, values)
    except KeyError:  # depends on data: as if taken
        return max(_body(s.then, values), _body(s.other, values))


def _product(s: TileOp, values: dict[Var, Any]) -> float:
    a, c = s.region("A"), s.region("C")
    rows, columns = (int(evaluate(e, values)) for e in c.extents[-2:])
    depth = int(evaluate(a.extents[-2 if s.args.get("transpose_A") else -1], values))
    return 2.0 * rows * columns * depth


def parameter_bytes(program: TileProgram, values: dict[Var, Any], updated: set[Buffer]) -> int:
    """Each tensor once, those both read and written (``updated``) twice."""
    total = 0
    for p in program.params:
        if isinstance(p, Buffer):
            bits = dtypes.bits(p.dtype)
            for e in p.shape:
                bits *= int(evaluate(e, values))
            total += (bits + 7) // 8 * (2 if p in updated else 1)
    return total
