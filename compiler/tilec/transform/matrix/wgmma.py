"""A matrix operation on Hopper: wgmma.mma_async by warpgroups, B from shared memory, A from shared memory or registers.

PTX ISA, "Asynchronous warpgroup-level matrix multiply-accumulate": shapes m64nNkK with 32 bytes along K; the accumulator and the
register operand of a warp lie as in mma.sync's tables, a warpgroup's four warps below each other in blocks of 64 rows.
"""

from __future__ import annotations

from ...analysis.layout import REGISTER, THREAD, Digit, FragmentLayout, Replica
from ...ir import dtypes
from ...ir.buffer import FRAGMENT, Region
from ...ir.build import cast, const, const_int, const_value
from ...ir.expr import Expr, Var
from ...ir.stmt import Let, Stmt, TileOp
from ...records import dataclass
from ...source.span import Span
from ...target.chips import Target
from ..sizes import is_multiple
from .barrier_functions import FENCE_PROXY_ASYNC
from .contract import MatrixContext
from .device import address_of, at
from .metadata import lane_metadata
from .shape import MatrixShape, Operand
from .shared import CanonicalTile, canonical_tile
from .wgmma_functions import COMMIT, DESCRIPTOR, FENCE, UNIFORM, keep_registers, read_registers, wait
from .wgmma_functions import mma as mma_function
from .wgmma_registers import GROUP, widest

ROWS = 64  # of one instruction
_WIDEST = 256  # columns of one instruction
_PTX = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "tf32", "int8": "s8", "uint8": "u8", "float8_e4m3fn": "e4m3",
        "float8_e5m2": "e5m2"}
_ACCUMULATORS = {"f16": ("float32", "float16"), "bf16": ("float32",), "s8": ("int32",), "u8": ("int32",), "e4m3": ("float32",), "e5m2": ("float32",)}
# The descriptor's layout type by panel width in bytes (bits 62, 63).
_LAYOUT_TYPE = {128: 1, 64: 2, 32: 3}


@dataclass(frozen=True, slots=True)
class Wgmma:
    """``m`` x ``n`` warpgroups; each owns ``blocks`` blocks of 64 rows and ``columns`` columns, ``width`` of them an instruction."""

    a: str
    b: str
    c: str
    bits: int
    m: int
    n: int
    blocks: int
    columns: int
    width: int
    sparse: bool = False

    @property
    def k(self) -> int:
        """Elements along K of one instruction: 32 bytes, or twice as many of which A holds half."""
        return (512 if self.sparse else 256) // self.bits

    def stored_k(self, which: str) -> int:
        return self.k // 2 if which == "A" and self.sparse else self.k

    @property
    def rows(self) -> int:
        return self.blocks * ROWS

    def place(self, group: Expr) -> tuple[Expr, Expr]:
        """Of a warpgroup: its number across and its number down."""
        if self.m == 1 or self.n == 1:
            return (const(0), group) if self.n == 1 else (group, const(0))
        return group // self.m, group % self.m


def select_wgmma(shape: MatrixShape, threads: int, target: Target) -> Wgmma | None:
    """How warpgroups share the operation, or None where the instruction does not fit it."""
    a, b = _PTX.get(shape.A.dtype), _PTX.get(shape.B.dtype)
    if not target.wgmma or a is None or b is None or threads % GROUP or shape.M % ROWS or shape.C.scope != FRAGMENT:
        return None
    if (a != b and {a, b} not in ({"s8", "u8"}, {"e4m3", "e5m2"})) or shape.C.dtype not in _ACCUMULATORS.get(a, ()):
        return None
    bits = dtypes.bits(shape.A.dtype)
    if shape.stored_k("A") % (256 // bits) or not _readable("B", shape, bits) or not _readable("A", shape, bits):
        return None
    return _shared_out(shape, threads // GROUP, (a, b, shape.C.dtype, bits))


def _readable(which: str, shape: MatrixShape, bits: int) -> bool:
    """Shared tiles are read in a canonical layout, from whole groups of eight rows and whole panels on; only 16-bit elements may run along M or N.
    A may be a whole fragment."""
    operand = shape.A if which == "A" else shape.B
    if operand.scope == FRAGMENT:
        return which == "A" and bits == 16 and operand.region.is_whole() and not operand.transposed
    if not operand.region.buffer.is_shared() or operand.region.buffer.view_of is not None or operand.region.buffer.strides is not None:
        return False
    if bits != 16 and not shape.k_contiguous(which):
        return False
    tile = stored_tile(operand)
    return tile is not None and tile.width in _LAYOUT_TYPE and starts_at_a_pattern(operand, tile)


def starts_at_a_pattern(operand: Operand, tile: CanonicalTile) -> bool:
    """Whether the pattern of the tile's XOR begins where the region does. Of a tile of one panel, a part of its columns may be read."""
    row, column = operand.region.mins[-2:]
    return is_multiple(row, 8) and is_multiple(column, tile.panel_columns)


def stored_tile(operand: Operand) -> CanonicalTile | None:
    """How the shared tile is stored that the operand is a region of."""
    rows, columns = (const_int(e) for e in operand.region.buffer.shape[-2:])
    return None if rows is None or columns is None else canonical_tile(rows, columns, operand.dtype)


def _shared_out(shape: MatrixShape, groups: int, types: tuple[str, str, str, int]) -> Wgmma | None:
    legal = []
    for m in range(1, groups + 1):
        n = groups // m
        if groups % m or shape.M % (m * ROWS) or shape.N % n:
            continue
        columns = shape.N // n
        width = _instruction_width(shape, columns, n, types, min(_WIDEST, widest(groups * GROUP, types[2])))
        if width is not None:
            legal.append(Wgmma(*types, m, n, shape.M // (m * ROWS), columns, width, shape.E is not None))
    if not legal:
        return None
    return min(legal, key=lambda w: w.m) if shape.policy == "full_col" else max(legal, key=lambda w: w.m)


def _instruction_width(shape: MatrixShape, columns: int, groups: int, types: tuple[str, str, str, int], most: int) -> int | None:
    """The widest instruction, of ``most`` columns, that divides a group's; pieces of a B that runs along N start at whole panels."""
    tile = stored_tile(shape.B)
    assert tile is not None
    panel = 1 if shape.k_contiguous("B") else tile.panel_columns
    if columns % 8 or (groups > 1 and columns % max(panel, 8)):
        return None
    for n in range(min(columns, most) // 8 * 8, 7, -8):
        whole = columns // n == 1
        if columns % n == 0 and n % 8 == 0 and (whole or n % panel == 0) and (types[3] != 8 or types[2] != "int32" or n <= 24 or n % 16 == 0):
            return n
    return None


# -- layouts -------------------------------------------------------------------------------------------------------------------
def accumulator(w: Wgmma, M: int, N: int) -> FragmentLayout:
    digits = (
        Digit(0, 8, 1, THREAD, 4),
        Digit(0, 2, 8, REGISTER, 2),
        Digit(0, 4, 16, THREAD, 32),
        Digit(0, w.blocks, ROWS, REGISTER, w.columns // 2),
        Digit(0, w.m, w.rows, THREAD, GROUP),
        Digit(1, 2, 1, REGISTER, 1),
        Digit(1, 4, 2, THREAD, 1),
        Digit(1, w.columns // 8, 8, REGISTER, 4),
        Digit(1, w.n, w.columns, THREAD, GROUP * w.m),
    )
    return FragmentLayout((M, N), tuple(d for d in digits if d.extent > 1))


def register_operand(w: Wgmma, M: int, K: int) -> FragmentLayout:
    """A in registers, K as stored: per instruction eight 16-bit elements a lane, two neighbours along K at a time."""
    digits = (
        Digit(0, 8, 1, THREAD, 4),
        Digit(0, 2, 8, REGISTER, 2),
        Digit(0, 4, 16, THREAD, 32),
        Digit(0, w.blocks, ROWS, REGISTER, 8),
        Digit(0, w.m, w.rows, THREAD, GROUP),
        Digit(1, 2, 1, REGISTER, 1),
        Digit(1, 4, 2, THREAD, 1),
        Digit(1, 2, 8, REGISTER, 4),
        Digit(1, K // w.stored_k("A"), w.stored_k("A"), REGISTER, 8 * w.blocks),
    )
    replicas = (Replica(w.n, GROUP * w.m),) if w.n > 1 else ()
    return FragmentLayout((M, K), tuple(d for d in digits if d.extent > 1), replicas)


# -- instructions --------------------------------------------------------------------------------------------------------------
def lower_wgmma(shape: MatrixShape, w: Wgmma, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Make what threads wrote visible to the asynchronous proxy, multiply, and wait: the operands are free afterwards."""
    from .mma import check_layout

    span = shape.op.span
    check_layout("C", shape, _of_rank(accumulator(w, shape.M, shape.N), shape.C), ctx)
    in_registers = shape.A.scope == FRAGMENT
    if in_registers:
        check_layout("A", shape, _of_rank(register_operand(w, shape.M, shape.stored_k("A")), shape.A), ctx)
    lets: list[Stmt] = []
    group: Expr = warpgroup(ctx, w.m * w.n, span, lets) if w.m * w.n > 1 else const(0)
    across, down = w.place(group)
    b = _descriptor("B", shape, across * w.columns, lets)
    a = None if in_registers else _descriptor("A", shape, down * w.rows, lets)
    base_a = None if a is None else _bound(a[0], ctx, shape.A, lets, span, "a_descriptor", a[1], shape.k_contiguous("A"))
    base_b = _bound(b[0], ctx, shape.B, lets, span, "b_descriptor", b[1], shape.k_contiguous("B"))
    ordered = () if shape.op.args.get("fenced") else (FENCE_PROXY_ASYNC.run(span),)
    registers = ctx.registers_of(shape.C.region.buffer)
    finish = () if shape.op.args.get("asynchronous") else (wait(0).run(span), keep_registers(registers).run(span, at(registers, 0)))
    positions = _positions(shape, w, ctx, down * w.rows, lets)
    return (*lets, *ordered, FENCE.run(span), *_multiply(shape, w, ctx, base_a, base_b, positions), COMMIT.run(span), *finish)


def _positions(shape: MatrixShape, w: Wgmma, ctx: MatrixContext, row: Expr, lets: list[Stmt]) -> list[Expr]:
    """What a lane tells of a sparse A: a word for each instruction along K and each block of rows, in their order. Four warps are
    below each other in a block."""
    if shape.E is None:
        return []
    words: list[Expr] = []
    first = row + ctx.thread // 32 % 4 * 16
    for step in range(shape.K // w.k):
        for block in range(w.blocks):
            name = Var("uint32", None, f"metadata_{len(words)}", "let")
            lets.append(Let(shape.op.span, name, lane_metadata(shape, ctx, first + block * ROWS, ctx.thread % 32, step, w.bits)))
            words.append(name)
    return words


def warpgroup(ctx: MatrixContext, count: int, span: Span | None, lets: list[Stmt]) -> Var:
    """The number of a thread's warpgroup, of so many, as a name; ``lets`` gets what must be said before."""
    value = UNIFORM.within(0, count - 1, ctx.thread // GROUP)
    name, unknown = ctx.warpgroup_of(value)
    if unknown:
        lets.append(Let(span, name, value))
    return name


def lower_wait(op: TileOp, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Wait for operations; what they wrote and read in registers stays where it is until then."""
    out: list[Stmt] = [wait(int(op.args["count"])).run(op.span)]
    for name, value in op.args.items():
        if isinstance(value, Region) and not name.startswith("held"):
            registers = ctx.registers_of(value.buffer)
            function = keep_registers(registers) if name.startswith("kept") else read_registers(registers)
            out.append(function.run(op.span, at(registers, 0)))
    return tuple(out)


def starts_from_zero(op: TileOp) -> bool:
    """Whether the first instruction ignores the accumulator's contents."""
    clear = const_value(op.args.get("clear_accum"))
    return clear is not None and bool(clear)


def _of_rank(layout: FragmentLayout, operand: Operand) -> FragmentLayout:
    from .layouts import of_rank

    return of_rank(layout, operand.region.buffer.ndim)


def _descriptor(which: str, shape: MatrixShape, outer: Expr, lets: list[Stmt]) -> tuple[CanonicalTile, Expr]:
    """The tile, and the element offset from its start to what this warpgroup reads first."""
    operand = shape.A if which == "A" else shape.B
    tile = stored_tile(operand)
    assert tile is not None
    row, column = (outer, const(0)) if shape.k_contiguous(which) else (const(0), outer)
    first, start = operand.region.mins[-2:]
    return tile, tile.place(first + row, start + column)


def _bound(tile: CanonicalTile, ctx: MatrixContext, operand: Operand, lets: list[Stmt], span: object, name: str, offset: Expr, k_contiguous: bool) -> Var:
    """The descriptor of a warpgroup's first instruction, as a name."""
    region = operand.region
    base = address_of(*ctx.shared_element(region.buffer, (*region.mins[:-2], const(0), const(0))))
    # K-major the leading offset is not used; along M or N it leads from panel to panel, the stride along K between groups of eight.
    leading, stride = (16, 8 * tile.width) if k_contiguous else (tile.panel_bytes, 8 * tile.width)
    value = DESCRIPTOR.call(base, cast(offset * (tile.bits // 8), "uint32"), const(leading, "uint32"), const(stride, "uint32"),
                            const(_LAYOUT_TYPE[tile.width], "uint32"))
    var = Var("uint64", None, name, "let")
    lets.append(Let(span, var, value))  # type: ignore[arg-type]
    return var


def _multiply(shape: MatrixShape, w: Wgmma, ctx: MatrixContext, a: Var | None, b: Var, positions: list[Expr]) -> list[Stmt]:
    span = shape.op.span
    registers = ctx.registers_of(shape.C.region.buffer)
    function, first = (mma_function(w.a, w.b, w.c, w.width, w.k, a is None, not shape.k_contiguous("A"), not shape.k_contiguous("B"), start, w.sparse)
                       for start in ("", "zero" if starts_from_zero(shape.op) else "chosen" if "keeps" in shape.op.args else ""))
    keep: tuple[Expr, ...] = ()
    out: list[Stmt] = []
    if "keeps" in shape.op.args and not starts_from_zero(shape.op):
        name = Var("int32", None, "keep", "let")
        out.append(Let(shape.op.arg_spans.get("keeps", span), name, cast(shape.op.args["keeps"], "int32")))
        keep = (name,)
    for step in range(shape.K // w.k):
        for block in range(w.blocks):
            source = at(ctx.registers_of(shape.A.region.buffer), (step * w.blocks + block) * 8) if a is None else \
                a + _units(shape, "A", block * ROWS, step * w.stored_k("A"))
            described = positions[step * w.blocks + block:][:1]
            for piece in range(w.columns // w.width):
                place = at(registers, block * (w.columns // 2) + piece * (w.width // 2))
                out.append((function if step else first).run(span, place, source, b + _units(shape, "B", piece * w.width, step * w.k), *described,
                                                              *(() if step else keep)))
    return out


def _units(shape: MatrixShape, which: str, outer: int, k: int) -> Expr:
    """What is added to a descriptor to move within the tile: 16-byte units of its address field."""
    operand = shape.A if which == "A" else shape.B
    tile = stored_tile(operand)
    assert tile is not None
    row, column = (outer, k) if shape.k_contiguous(which) else (k, outer)
    return const(tile.place(row, column) * tile.bits // 8 >> 4, "uint64")
