"""Which tiles hold only numbers that tf32 has: rounding them before a multiplication would change nothing.

tf32 has the exponents of float32 and ten bits behind the point, so every float16, bfloat16 and 8-bit number is one, and every integer of eight bits.
"""

from __future__ import annotations

import struct

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, Buffer, Region
from ...ir.expr import Call, Cast, Const, Expr, Load, Select
from ...ir.expr import walk as walk_expr
from ...ir.ops import OPS
from ...ir.stmt import Alloc, Body, Stmt, Store, TileOp, expressions
from ...ir.stmt import walk as walk_statements
from ...target.chips import Target
from .instruction import plan
from .problem import MatrixProblem
from .shape import matrix_shape

_SINGLE = ("float32", "tfloat32")
_DROPPED = (1 << 13) - 1  # bits of a float32 that tf32 does not have
_READING = frozenset(("if_then_else", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "fabs", "max", "min"))  # calls that leave their operands alone


def exact_tiles(body: Body) -> frozenset[Buffer]:
    """Tiles of single precision of which every store gives such a number, or one of another such tile."""
    found: set[Buffer] = set()
    viewed: set[Buffer] = set()
    for s in walk_statements(body):
        if isinstance(s, Alloc):
            b = s.buffer
            if b.view_of is not None:
                viewed.add(b.storage())
            elif b.dtype in _SINGLE and (b.scope == FRAGMENT or b.is_shared()):
                found.add(b)
    found -= viewed
    stores: list[Store] = []
    for s in walk_statements(body) if found else ():
        if isinstance(s, Store):
            stores.append(s)
        found -= _written_otherwise(s)
    while True:
        inexact = {s.buffer for s in stores if s.buffer in found and not _is_exact(s.value, found)}
        if not inexact:
            return frozenset(found)
        found -= inexact


def _written_otherwise(s: Stmt) -> set[Buffer]:
    """What a statement may write but for what it stores: results of tile operators, operands of calls that are not known to read only."""
    out: set[Buffer] = set()
    for e in expressions(s):
        for x in walk_expr(e):
            if isinstance(x, Call) and x.op not in _READING:
                out |= {y.buffer.storage() for a in x.args if isinstance(a, Expr) for y in walk_expr(a) if isinstance(y, Load)}
    if isinstance(s, TileOp):
        spec = OPS.get(s.op)
        if s.op == "bulk_fill":  # the copy engine rounds
            return {b for b in out if not b.attrs.get("rounded")} | {
                v.buffer for name, v in s.args.items() if isinstance(v, Region) and name.startswith("dst") and not v.buffer.attrs.get("rounded")}
        only_read = set(spec.reads) - set(spec.writes) if spec is not None else set()
        out |= {v.buffer.storage() for name, v in s.args.items() if isinstance(v, Region) and name not in only_read}
    return out


def multiplied_in_tf32(b: Buffer, body: Body, threads: int, target: Target) -> bool:
    """Whether a tile of single precision that copies fill is an operand of tf32 products and nothing else: then it may as well hold rounded numbers."""
    if b.dtype not in _SINGLE:
        return False
    products = 0
    for s in walk_statements(body):
        if isinstance(s, Alloc) and s.buffer.view_of is not None and s.buffer.storage() is b:
            return False
        if any(isinstance(x, Load) and x.buffer.storage() is b for e in expressions(s) for x in walk_expr(e)):
            return False
        if isinstance(s, TileOp):
            names = {name for name, v in s.args.items() if isinstance(v, Region) and v.buffer.storage() is b}
            if names and not (s.op == "copy" and names == {"dst"}) and not (s.op == "gemm" and names <= {"A", "B"} and _in_tf32(s, threads, target)):
                return False
            products += s.op == "gemm" and bool(names)
    return products > 0


def _in_tf32(op: TileOp, threads: int, target: Target) -> bool:
    try:
        found = plan(matrix_shape(op), threads, target)
    except MatrixProblem:
        return False
    return found.wgmma is not None or bool(found.mma and found.grid)


def _is_exact(e: Expr, tiles: set[Buffer]) -> bool:
    if isinstance(e, Const):
        return _has_tf32(e.value)
    if isinstance(e, Cast):
        return is_narrow(e.a.dtype) or (e.a.dtype in _SINGLE and _is_exact(e.a, tiles))
    if isinstance(e, Select):
        return _is_exact(e.then, tiles) and _is_exact(e.other, tiles)
    return isinstance(e, Load) and e.buffer in tiles


def is_narrow(dtype: str) -> bool:
    """Whether tf32 has every number of a type."""
    if dtype in ("float16", "bfloat16", "bool"):
        return True
    return dtypes.lanes(dtype) == 1 and dtypes.bits(dtype) <= 8


def _has_tf32(value: int | float | bool) -> bool:
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", float(value)))
    except (OverflowError, struct.error):
        return False
    return not bits & _DROPPED
