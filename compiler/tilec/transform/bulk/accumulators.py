"""Accumulators to a tensor: each warpgroup stores its own rows, panel by panel, without waiting for the others.

A warpgroup packs 64 rows of a panel to 16 bits, puts them into a tile of its own with stmatrix (PTX ISA, "stmatrix": eight rows of 16 bytes
a matrix, which is how an accumulator lies in a warp's registers) and lets one thread start the bulk copy. With two tiles the next panel is
written while the one before is still read, and warpgroups that are apart in time keep the tensor cores busy for each other.
"""
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, SHARED_DYN, Buffer, Region, tile_axes, tile_shape
from ...ir.build import binary, const
from ...ir.expr import Expr, Load, Var
from ...ir.stmt import Body, Evaluate, For, If, Stmt, TileOp
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ..ahead import accesses
from ..matrix.barrier_functions import FENCE_PROXY_ASYNC, NAMED_BARRIER
from ..matrix.device import DeviceFunction, address_of, function
from ..matrix.instruction import plan as plan_matrix
from ..matrix.problem import MatrixProblem
from ..matrix.shape import matrix_shape
from ..matrix.wgmma import GROUP, ROWS, Wgmma, accumulator, warpgroup
from ..unit import unit
from .functions import STORE_COMMIT, STORE_WAIT, store, store_wait
from .tensor_map import BulkTile, bulk_tile

if TYPE_CHECKING:
    from ...target.chips import Target
    from ..threads import ThreadLowering

_PANELS = (64, 32, 16)  # columns; stmatrix moves 16 at once
_FIRST_BARRIER = 1  # 0 is the block's, high numbers belong to groups of warps (``group_barriers``)
_PACKED = {"float16": "f16", "bfloat16": "bf16"}

STORE_MATRICES = function("tile_stmatrix_x4", "void* row, unsigned int a, unsigned int b, unsigned int c, unsigned int d", """
asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
    :: "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");""", minimum_sm=90)


def pack(dtype: str) -> DeviceFunction:
    """Two numbers rounded to 16 bits, the first in the low half."""
    return function(f"tile_pack_{_PACKED[dtype]}", "float low, float high", f"""
unsigned int both;
asm("cvt.rn.{_PACKED[dtype]}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
return both;""", "uint32", minimum_sm=90)


@dataclass(frozen=True, slots=True)
class RowStore:
    """How a fragment is divided: ``panel`` columns and 64 rows at once."""

    wgmma: Wgmma
    panel: int
    dtype: str

    @property
    def groups(self) -> int:
        return self.wgmma.m * self.wgmma.n

    @property
    def panels(self) -> int:
        return self.wgmma.columns // self.panel

    @property
    def pieces(self) -> int:
        return self.wgmma.blocks * self.panels

    def tile_bytes(self) -> int:
        return self.groups * ROWS * self.panel * dtypes.bits(self.dtype) // 8

    def staging(self, name: str, copies: int) -> Buffer:
        """``copies`` tiles for each warpgroup."""
        return Buffer(name, (const(self.groups * copies), const(ROWS), const(self.panel)), self.dtype, SHARED_DYN, attrs={"ring": True, "staging": True})


def plan_rows(src: Region, dst: Region, body: Body, threads: int, target: Target) -> RowStore | None:
    """How warpgroups store a fragment that is nothing but a wgmma accumulator; None for others."""
    b = src.buffer
    if b.scope != FRAGMENT or b.view_of is not None or b.dtype != "float32" or dst.dtype not in _PACKED or not src.is_whole() or len(tile_shape(dst)) != 2:
        return None
    found: set[Wgmma] = set()
    for s in walk_statements(body):
        if isinstance(s, TileOp) and "gemm" in s.op and any(x.storage() is b for part in accesses(s) for x in part):
            try:
                wgmma = plan_matrix(matrix_shape(s), threads, target).wgmma
            except MatrixProblem:
                return None
            if s.op != "gemm" or not isinstance(wgmma, Wgmma) or s.region("C").buffer is not b or not s.region("C").is_whole():
                return None
            found.add(wgmma)
    if len(found) != 1:
        return None
    wgmma = found.pop()
    panel = next((p for p in _PANELS if wgmma.columns % p == 0), None)
    return None if panel is None else RowStore(wgmma, panel, dst.dtype)


def part_of(dst: Region, plan: RowStore, row: Expr, column: Expr) -> Region:
    """One panel's region of the tensor."""
    mins, extents = list(dst.mins), list(dst.extents)
    down, across = tile_axes(dst)
    mins[down], mins[across] = mins[down] + row, mins[across] + column
    extents[down], extents[across] = const(ROWS), const(plan.panel)
    return replace(dst, mins=tuple(mins), extents=tuple(extents))


def part_map(dst: Region, plan: RowStore, staging: Buffer) -> BulkTile | str:
    return bulk_tile(part_of(dst, plan, const(0), const(0)), _slot(staging, const(0)))


def _slot(staging: Buffer, slot: Expr) -> Region:
    return Region(staging, (slot, const(0), const(0)), (const(1), *staging.shape[1:]), "slice", None)


def lower_rows(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """``again``: the tiles are this operation's own through the kernel; else they may lie where others were, and are free afterwards."""
    state, span = lowering.state, op.span
    src, dst, staging, plan = op.region("src"), op.region("dst"), op.region("staging").buffer, op.args["plan"]
    assert isinstance(plan, RowStore)
    w = plan.wgmma
    if state.layout_of(src.buffer) != accumulator(w, w.m * w.rows, w.n * w.columns):
        raise MatrixProblem(f"{src.buffer.name} is not laid out as the matrix instructions leave it", span)
    copies = int(staging.shape[0].value) // plan.groups  # type: ignore[attr-defined]
    thread = state.thread
    body: list[Stmt] = []
    group = warpgroup(state, plan.groups, span, body)
    piece = Var("int32", span, "piece", "loop")
    slot = group * copies + piece % copies if copies > 1 else group * 1
    leader = binary("eq", thread % GROUP, const(0))
    meet = NAMED_BARRIER.run(span, group + _FIRST_BARRIER, GROUP)
    across, down = w.place(group)
    row = down * w.rows + piece // plan.panels * ROWS
    column = across * w.columns + piece % plan.panels * plan.panel
    tile = part_map(dst, plan, staging)
    assert isinstance(tile, BulkTile), tile
    place = reversed(part_of(dst, plan, row, column).mins)
    sent = store(dst.buffer.ndim).run(span, address_of(*state.shared_element(staging, (slot, const(0), const(0)))), tile.map_of(dst.buffer).address(), *place)
    inner: list[Stmt] = [If(span, leader, (store_wait(copies - 1).run(span),)), meet, _written(plan, staging, slot, piece, src.buffer, lowering),
                         FENCE_PROXY_ASYNC.run(span), meet, If(span, leader, (sent, STORE_COMMIT.run(span)))]
    body.append(For(span, piece, const(0), const(plan.pieces), tuple(inner), "unroll"))
    again = bool(op.args.get("again"))
    if not again:
        body.append(If(span, leader, (STORE_WAIT.run(span),)))
    made = unit(body, span)
    # Its own barriers order what it does with tiles that nobody else uses.
    return [replace(made, reads=made.reads - {staging}, writes=made.writes - {staging}) if again else made]


def _written(plan: RowStore, staging: Buffer, slot: Expr, piece: Var, fragment: Buffer, lowering: ThreadLowering) -> Stmt:
    """A warp's 16 rows of a panel: per instruction four matrices, two below each other and two beside each other."""
    state, span = lowering.state, fragment.span
    thread = state.thread
    registers = state.registers_of(fragment)
    pair = Var("int32", span, "pair", "loop")
    lane = thread % 32
    row = thread // 32 % 4 * 16 + lane % 16
    place = address_of(*state.shared_element(staging, (slot, row, pair * 16 + lane // 16 * 8)))
    first = piece * (plan.panel // 2) + pair * 8
    values = [pack(plan.dtype).call(*(Load("float32", span, registers, (first + (k * 2 + i),)) for i in range(2))) for k in range(4)]
    call = STORE_MATRICES.call(place, *values)
    call.attrs = {**(call.attrs or {}), "writes": (0,)}
    return For(span, pair, const(0), const(plan.panel // 16), (Evaluate(span, call),), "unroll")


def lower_rows_wait(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """At the end of the kernel: no bulk copy may read the block's memory when the block is gone."""
    leader = binary("eq", lowering.state.thread % GROUP, const(0))
    return [unit((If(op.span, leader, (STORE_WAIT.run(op.span),)),), op.span)]


