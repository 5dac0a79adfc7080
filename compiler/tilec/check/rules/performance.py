"""Hints about memory accesses: loops that are not vectorised, narrow and scattered global accesses, bank conflicts.

TileLang 0.1.15, src/transform/loop_vectorize.cc and loop_partition.cc: neighbouring threads take neighbouring iterations of the
flattened loop, each a vector as wide as every access allows. CUDA C++ Best Practices Guide: 32 banks of 4 bytes, 32-byte sectors.
"""

from __future__ import annotations

from math import gcd

from ...analysis.strides import Address, address
from ...ir import dtypes
from ...ir.buffer import FRAGMENT, GLOBAL, SHARED, SHARED_DYN, Buffer, Region, tile_axes
from ...ir.build import const_int
from ...ir.expr import Call, Expr, Load, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Body, Evaluate, For, If, Let, Parallel, Stmt, Store, TileOp, While, bodies, expressions
from ...records import dataclass
from ...source.span import Span
from ..context import RuleContext
from ..facts import Place, static_ints, thread_count
from ..registry import rule

WARP, BANKS, BANK_BYTES, SECTOR, WIDEST = 32, 32, 4, 32, 16
SHARED_SCOPES = (SHARED, SHARED_DYN)


@dataclass(eq=False, repr=False)
class Use:
    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None
    store: bool = False


def element_uses(body: Body) -> list[Use] | None:
    """Single elements of memory in a loop; None where something is not seen through."""
    found: list[Use] = []
    for s in body:
        if isinstance(s, (TileOp, While, Evaluate)):
            return None
        if isinstance(s, Store):
            found.append(Use(s.buffer, s.indices, s.span, True))
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load):
                    found.append(Use(x.buffer, x.indices, x.span))
                elif isinstance(x, Call) and any(isinstance(a, (Region, Buffer)) for a in x.args):
                    return None
        for inner in bodies(s):
            more = element_uses(inner)
            if more is None:
                return None
            found += more
    return found


def element_bytes(buffer: Buffer) -> int:
    """0 for types of less than a byte, or unknown ones."""
    return dtypes.bits(buffer.dtype) // 8 if buffer.dtype != dtypes.UNKNOWN else 0


# -- vectors ---------------------------------------------------------------------------------------------------------
@rule("scalar-vector-loop")
def scalar_vector_loop(ctx: RuleContext):
    for place in ctx.facts.places:
        s = place.stmt
        if not isinstance(s, For) or s.kind != "vectorized" or (const_int(s.extent) or 0) < 2:
            continue
        uses = element_uses(s.body)
        if uses is None or any(isinstance(inner, (For, If)) for inner in s.body):
            continue
        for use in uses:
            reason = _no_vector(use, s.var, const_int(s.extent) or 0)
            if reason:
                yield ctx.report(
                    f"this loop runs one element at a time: {_shown(use.buffer, use.span)} {reason}, so no access in it is done as a vector",
                    s.span,
                    ("the access", use.span),
                )
                break


def _shown(buffer: Buffer, span: Span | None) -> str:
    return f"the access to {buffer.name}" + (f" in line {span.line}" if span is not None else "")


def _no_vector(use: Use, var: Var, extent: int) -> str | None:
    """Why an access cannot be a vector along a variable, or None if it can or nothing is known."""
    if use.buffer.scope not in (GLOBAL, *SHARED_SCOPES):
        return None
    where = address(use.buffer, use.indices, (var,))
    if where is None or var in where.nonlinear:
        return None
    step = where.steps.get(var, 0)
    if step == 0:
        return None
    if step != 1:
        return f"moves {abs(step)} element{'s' if step != -1 else ''}{' back' if step < 0 else ''} with each iteration"
    if gcd(extent, where.alignment) % 2 and extent % 2 == 0:
        return "does not always start at an even element"
    return None


# -- copies and parallel loops -----------------------------------------------------------------------------------------
@dataclass(eq=False, repr=False)
class Spread:
    """A loop over global and shared memory that is shared out over the threads as such, no fragment deciding."""

    place: Place
    span: Span | None
    variables: tuple[Var, ...]
    extents: tuple[int, ...]
    uses: list[Use]
    threads: int

    def addresses(self) -> list[tuple[Use, Address]]:
        found = [(u, address(u.buffer, u.indices, self.variables)) for u in self.uses if u.buffer.scope in (GLOBAL, *SHARED_SCOPES)]
        return [(u, a) for u, a in found if a is not None]


def spreads(ctx: RuleContext) -> list[Spread]:
    return ctx.facts.remembered("spread loops", lambda: [s for p in ctx.facts.places if (s := _spread(p)) is not None])


def _spread(place: Place) -> Spread | None:
    s = place.stmt
    threads = thread_count(place.launch)
    if threads is None or threads < WARP or threads % WARP or place.is_thread_dependent() or place.inside(Parallel):
        return None
    if isinstance(s, TileOp) and s.op in ("copy", "async_copy"):
        return _copy(place, s, threads)
    if not isinstance(s, Parallel) or s.attrs.get("loop_layout") is not None or s.attrs.get("coalesced_width") is not None:
        return None
    boxes: list[Parallel] = [s]
    while len(boxes[-1].body) == 1 and isinstance(boxes[-1].body[0], Parallel):
        boxes.append(boxes[-1].body[0])
    extents = static_ints(e for b in boxes for e in b.extents)
    uses = element_uses(boxes[-1].body)
    if extents is None or uses is None or any(u.buffer.scope == FRAGMENT for u in uses) or _names_values(boxes[-1].body):
        return None
    return Spread(place, s.span, tuple(v for b in boxes for v in b.vars), extents, uses, threads)


def _names_values(body: Body) -> bool:
    """Names bound in the body hide what an index is made of."""
    return any(isinstance(s, Let) or any(_names_values(b) for b in bodies(s)) for s in body)


def _copy(place: Place, s: TileOp, threads: int) -> Spread | None:
    src, dst = s.args.get("src"), s.args.get("dst")
    if not isinstance(src, Region) or not isinstance(dst, Region) or s.args.get("coalesced_width") is not None:
        return None
    if {src.buffer.scope, dst.buffer.scope} - {GLOBAL, *SHARED_SCOPES} or s.args.get("loop_layout") is not None:
        return None
    axes, others = tile_axes(src), tile_axes(dst)
    extents = static_ints(src.extents[i] for i in axes)
    if not extents or extents != static_ints(dst.extents[i] for i in others):
        return None
    variables = tuple(Var("int32", None, "ijkl"[n % 4], "loop") for n in range(len(extents)))
    uses = [_operand(dst, others, variables, s.arg_spans.get("dst") or s.span, True), _operand(src, axes, variables, s.arg_spans.get("src") or s.span)]
    return Spread(place, s.span, variables, extents, uses, threads)


def _operand(region: Region, axes: tuple[int, ...], variables: tuple[Var, ...], span: Span | None, store: bool = False) -> Use:
    place = dict(zip(axes, variables))
    return Use(region.buffer, tuple(m + place[i] if i in place else m for i, m in enumerate(region.mins)), span, store)


def is_bulk(s: Stmt, place: Place) -> bool:
    """Whether a copy may go through the tensor memory accelerator: stores do, loads where they are pipelined."""
    if not isinstance(s, TileOp) or s.args.get("disable_tma") is True:
        return False
    src = s.region("src")
    return src.buffer.scope in SHARED_SCOPES or any(loop.kind == "pipelined" for loop in place.loops())


@rule("narrow-access", per_target=True)
def narrow_access(ctx: RuleContext):
    """Only what the shapes force: rows, row strides or starts that are no multiple of 16 bytes."""
    if not ctx.wants("narrow-access"):
        return
    from .performance_blocks import tma_obstacle

    for loop in spreads(ctx):
        s = loop.place.stmt
        if ctx.target is None or not isinstance(s, TileOp) or len(loop.addresses()) < 2:
            continue
        if ctx.target.tma and is_bulk(s, loop.place) and tma_obstacle(s) is None:
            continue
        for use, where in loop.addresses():
            if use.buffer.scope != GLOBAL:
                continue
            found = _narrow(loop, use, where)
            if found is not None:
                width, reason = found
                yield ctx.report(f"{use.buffer.name} is {'written' if use.store else 'read'} {width} bytes at a time: {reason}", use.span)
                break


def _narrow(loop: Spread, use: Use, where: Address) -> tuple[int, str] | None:
    """Bytes of the widest possible access if less than 16, and what limits it."""
    size = element_bytes(use.buffer)
    last = loop.variables[-1]
    if not size or size >= WIDEST or where.nonlinear or where.steps.get(last) != 1:
        return None
    if all(_contiguous(a, loop) for _, a in loop.addresses()):
        return None  # one run of memory: rows do not matter
    best, reason = WIDEST, ""
    unit = f"{size} byte{'s' if size > 1 else ''}"
    limits = [(loop.extents[-1], f"its rows are {loop.extents[-1]} elements of {unit}")]
    limits += [(step, f"its rows are {step} elements of {unit} apart") for v in loop.variables[:-1] if (step := where.steps.get(v))]
    if where.alignment:
        start = gcd(where.alignment * size, WIDEST)
        limits.append((where.alignment, f"its start is aligned to {start} byte{'s' if start > 1 else ''} only"))
    for count, text in limits:
        width = gcd(count * size, WIDEST)
        if width < best:
            best, reason = width, text
    return (best, reason) if best < WIDEST else None


def _contiguous(where: Address, loop: Spread) -> bool:
    """Whether the iterations, flattened, are neighbours in memory."""
    step = 1
    for var, extent in zip(reversed(loop.variables), reversed(loop.extents)):
        if where.steps.get(var) != step:
            return False
        step *= extent
    return True


@rule("uncoalesced-access")
def uncoalesced_access(ctx: RuleContext):
    if not ctx.wants("uncoalesced-access"):
        return
    for loop in spreads(ctx):
        last, size = loop.variables[-1], 0
        if loop.extents[-1] < WARP or not isinstance(loop.place.stmt, Parallel):
            continue
        for use, where in loop.addresses():
            size = element_bytes(use.buffer)
            apart = abs(where.steps.get(last, 0)) * size
            if use.buffer.scope != GLOBAL or not size or where.nonlinear or apart < SECTOR:
                continue
            near = next((v for v in loop.variables[:-1] if where.steps.get(v) == 1), None)
            hint = f"; make {near.name} the last variable of the loop, or go through shared memory" if near is not None else ""
            yield ctx.report(
                f"neighbouring threads {'write' if use.store else 'read'} addresses of {use.buffer.name} {apart} bytes apart, each of a memory "
                f"sector of its own{hint}",
                use.span or loop.span,
            )
            break


@rule("bank-conflict")
def bank_conflict(ctx: RuleContext):
    if not ctx.wants("bank-conflict"):
        return
    laid_out = _laid_out(ctx)
    for loop in spreads(ctx):
        if not isinstance(loop.place.stmt, Parallel):
            continue
        for use, where in loop.addresses():
            size = element_bytes(use.buffer)
            if use.buffer.scope not in SHARED_SCOPES or use.buffer.storage() in laid_out or not size or where.nonlinear:
                continue
            if where.steps.get(loop.variables[-1], 0) in (0, 1):
                continue  # a broadcast, or vectors
            ways = conflict(where, loop, size)
            if ways > 1:
                row = const_int(use.buffer.shape[-1])
                yield ctx.report(
                    f"{ways} threads of a warp meet in one bank of shared memory at each access to {use.buffer.name}{_padding(use.buffer, row)}",
                    use.span or loop.span,
                    (f"{use.buffer.name}", use.buffer.span),
                )
                break


def conflict(where: Address, loop: Spread, size: int) -> int:
    """Into how many steps the banks split the access of the first warp."""
    words: dict[int, set[int]] = {}
    for thread in range(WARP):
        rest, offset = thread, 0
        for var, extent in zip(reversed(loop.variables), reversed(loop.extents)):
            offset += rest % extent * where.steps.get(var, 0)
            rest //= extent
        if rest:
            break
        word = offset * size // BANK_BYTES
        words.setdefault(word % BANKS, set()).add(word)
    return max((len(w) for w in words.values()), default=1)


def _padding(buffer: Buffer, row: int | None) -> str:
    if buffer.ndim != 2 or row is None:
        return ""
    rows = const_int(buffer.shape[0])
    return f"; pad its rows: T.annotate_layout({{{buffer.name}: T.Layout(({rows}, {row}), lambda i, j: i * {row + 1} + j)}})"


def _laid_out(ctx: RuleContext) -> set[Buffer]:
    """Shared tiles whose addresses something else decides: annotations and matrix products."""
    found = {b.storage() for launch in ctx.program.launches() for b in launch.attrs.get("layouts", {})}
    for place in ctx.facts.ops("gemm", "wgmma_gemm", "tcgen05_gemm", "tma_copy", "unsupported"):
        assert isinstance(place.stmt, TileOp)
        found |= {r.buffer.storage() for r in place.stmt.args.values() if isinstance(r, Region)}
    return found
