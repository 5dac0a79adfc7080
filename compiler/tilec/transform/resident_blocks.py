"""T.annotate_min_blocks_per_sm where wgmma has too few registers for so many blocks.

The count bounds the registers of a thread (CUDA C++ Programming Guide, "Launch Bounds"). Most code then keeps values in local memory; a wgmma cannot
(``matrix/wgmma_registers.py``), and without registers for it there is no kernel.
"""
from __future__ import annotations

from dataclasses import replace

from ..ir.build import const_int
from ..ir.program import TileProgram
from ..ir.stmt import Body, Launch, TileOp
from ..ir.stmt import walk as walk_statements
from ..target.chips import Target
from .context import PassContext
from .matrix.instruction import plan
from .matrix.problem import MatrixProblem
from .matrix.shape import matrix_shape
from .matrix.wgmma_registers import GROUP, at_start, needed


def limit_resident_blocks(program: TileProgram, ctx: PassContext) -> TileProgram:
    if not ctx.target.wgmma:
        return program
    return replace(program, body=tuple(_limited(s, ctx) if isinstance(s, Launch) else s for s in program.body))


def _limited(s: Launch, ctx: PassContext) -> Launch:
    asked = s.attrs.get("min_blocks_per_sm")
    threads = const_int(s.threads[0])
    if not isinstance(asked, int) or asked < 2 or threads is None or threads % GROUP or any(const_int(t) != 1 for t in s.threads[1:]):
        return s
    wanted = registers_at_start(s.body, threads, ctx.target)
    blocks = next(b for b in range(asked, 0, -1) if b == 1 or at_start(threads, b) >= wanted)
    if blocks == asked:
        return s
    ctx.decide(s.span, "blocks a multiprocessor", f"{blocks}, not the {asked} asked for",
               f"{asked} leave {at_start(threads, asked)} registers a thread, and wgmma needs {wanted} here; use smaller tiles or more threads")
    return replace(s, attrs={**s.attrs, "min_blocks_per_sm": blocks})


def registers_at_start(body: Body, threads: int, target: Target) -> int:
    """What the largest wgmma of a kernel needs; 0 without one."""
    return max((_needed(x, threads, target) for x in walk_statements(body) if isinstance(x, TileOp)), default=0)


def _needed(op: TileOp, threads: int, target: Target) -> int:
    if op.op not in ("gemm", "gemm_sp", "wgmma_gemm", "wgmma_gemm_sp"):
        return 0
    try:
        wgmma = plan(matrix_shape(op), threads, target).wgmma
    except MatrixProblem:
        return 0
    return 0 if wgmma is None else needed(wgmma.width, wgmma.c)
