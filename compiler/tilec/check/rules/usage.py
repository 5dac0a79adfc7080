"""Buffers that are read too early or not at all."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT, GLOBAL, LOCAL, SHARED, SHARED_DYN, TMEM, Buffer
from ...ir.build import const_int
from ...ir.expr import Binary, Cast, Expr, Load, equal
from ...ir.stmt import For, If, Parallel, Store, TileOp, While
from ..context import RuleContext
from ..facts import OPAQUE, READ, WRITE, Access
from ..registry import rule
from .barriers import BARRIERS


def adds_only(access: Access) -> bool:
    """A gemm that continues the accumulation for sure."""
    return (
        isinstance(access.stmt, TileOp)
        and access.argument == "C"
        and access.stmt.args.get("clear_accum", True) in (False, None, 0)
    )


def starts(access: Access) -> bool:
    """A statement that gives the buffer a value without needing its old one."""
    if access.kind != WRITE:
        return False
    if isinstance(access.stmt, TileOp):
        if access.argument == "C":
            return not adds_only(access)
        if access.stmt.op == "reduce":
            return access.stmt.args.get("clear") is not False
        return access.stmt.op not in ("atomic",)
    return True


@rule("uninitialised-accumulator")
def uninitialised_accumulator(ctx: RuleContext):
    if ctx.program.attrs.get("incomplete"):
        return
    for buffer in ctx.facts.allocations(FRAGMENT, TMEM):
        accesses = ctx.facts.storage_uses.get(buffer, [])
        if ctx.is_blamed(buffer) or any(a.kind == OPAQUE for a in accesses):
            continue
        first = next((a for a in accesses if a.kind == WRITE and adds_only(a)), None)
        if (
            first is None
            or first.place.is_conditional()
            or any(starts(a) and a.place.order < first.place.order for a in accesses)
        ):
            continue
        way = (
            "pass clear_accum=True (or clear_accum=k == 0) to the first MMA"
            if buffer.scope == TMEM
            else f"T.clear({buffer.name}) before the loop starts it"
        )
        yield ctx.report(
            f"{buffer.name} is accumulated into but never started; {way}", first.span, (f"{buffer.name}", buffer.span)
        )


@rule("uninitialised-read")
def uninitialised_read(ctx: RuleContext):
    if ctx.program.attrs.get("incomplete"):
        return
    for buffer in ctx.facts.allocations(FRAGMENT, LOCAL, SHARED, SHARED_DYN):
        accesses = ctx.facts.storage_uses.get(buffer, [])
        if ctx.is_blamed(buffer) or any(a.kind == OPAQUE for a in accesses) or ctx.facts.has_unsupported:
            continue
        reads = sorted((a for a in accesses if reads_value(a)), key=lambda a: a.place.order)
        first = next(iter(reads), None)
        if first is None:
            continue
        writers = [a for a in accesses if a.kind == WRITE and not _same(a, first)]
        if first.guarded or first.place.is_conditional():
            if not _only_updated(first, reads, accesses):
                continue
        else:
            later = [w for w in writers if _may_run_before(w, first)]
            if any(w.place.order < first.place.order for w in writers) or not _comes_first(ctx, buffer, first, later):
                continue
        yield ctx.report(
            f"{buffer.name} is read before anything is written to it", first.span, (f"{buffer.name}", buffer.span)
        )


def reads_value(access: Access) -> bool:
    if isinstance(access.stmt, TileOp):
        if access.stmt.op == "reduce" and access.argument == "dst":
            return access.stmt.args.get("clear") is False
        if access.argument == "C" and "clear_accum" in access.stmt.args:
            return False  # the accumulator rule's
    return access.kind == "read"


def _same(a: Access, b: Access) -> bool:
    return a.stmt is b.stmt


def _may_run_before(writer: Access, reader: Access) -> bool:
    """A write in an earlier iteration of a loop around both."""
    return any(isinstance(p, (For, While, Parallel)) and p in writer.place.parents for p in reader.place.parents)


@rule("output-not-written")
def output_not_written(ctx: RuleContext):
    """A returned tensor holds what its memory held before. Silent about kernels that touch no other tensor (of tests)."""
    from ...evaluate.coverage import gap

    program, facts = ctx.program, ctx.facts
    if not program.outputs or facts.has_unsupported or program.attrs.get("problems") or gap(program) is not None:
        return
    launches = program.launches()
    if not launches or any(const_int(e) == 0 for launch in launches for e in launch.grid):
        return
    if any(b.attrs.get("pointer") is not None for b in facts.allocs):
        return  # a tensor made from an address may be any other
    touched = {b for b, accesses in facts.storage_uses.items() if b.scope == GLOBAL and accesses}
    is_any_written = any(a.kind != READ for b in program.outputs for a in facts.storage_uses.get(b, ()))
    for buffer in program.outputs:
        accesses = facts.storage_uses.get(buffer, [])
        if ctx.is_blamed(buffer) or buffer.view_of is not None or any(a.kind != READ for a in accesses) or _mentioned(ctx, buffer):
            continue
        if not touched - {buffer} or any(b.storage() is buffer and b is not buffer for b in facts.allocs):
            continue
        how = "is returned by the kernel" if program.attrs.get("kind") == "eager" else "is an output by out_idx"
        # an output that no caller uses is left over in code that works: beside outputs that are written, one is a hint
        level = "information" if not accesses and is_any_written else None
        yield ctx.report(f"{buffer.name} {how}, but {'only read' if accesses else 'never written'}", buffer.span, severity=level)


def _only_updated(first: Access, reads: list[Access], accesses: list[Access]) -> bool:
    """Whether all that is done to a buffer are atomics that need its old value, the first under a condition, and then it is read."""
    if not _is_atomic_update(first) or not all(_is_atomic_update(a) for a in accesses if a.kind == WRITE):
        return False
    return any(not a.guarded and not a.place.is_conditional() and not _same(a, first) and not isinstance(a.stmt, If) for a in reads)


def _is_atomic_update(access: Access) -> bool:
    s = access.stmt
    return isinstance(s, TileOp) and s.op == "atomic" and access.argument == "dst" and s.args.get("kind") in _UPDATES


_UPDATES = ("add", "max", "min", "or", "and", "xor")


def _comes_first(ctx: RuleContext, buffer: Buffer, first: Access, later: list[Access]) -> bool:
    """Whether a read stands before all writes in the first iteration of the loops around it, and what it yields is used.

    Where a write in the loop starts the buffer anew, what the first iteration reads may be thrown away.
    """
    if not later:
        return True
    if isinstance(first.stmt, (If, While)) or any(isinstance(p, While) for p in first.place.parents):
        return False
    for writer in later:
        for parent in first.place.parents:
            if parent in writer.place.parents:
                if isinstance(parent, Parallel) or isinstance(parent, For) and not _in_program_order(parent):
                    return False
            elif isinstance(parent, For) and (const_int(parent.extent) or 0) < 1:
                return False  # it may not run in the first iteration of the loop around both
            elif isinstance(parent, Parallel) and any((const_int(e) or 0) < 1 for e in parent.extents):
                return False
    if all(_updates(w) for w in later):
        return True
    return buffer.scope in (FRAGMENT, LOCAL) and _computes_with(ctx, buffer, first)


def _in_program_order(loop: For) -> bool:
    return const_int(loop.extent) != 0 and not any(loop.attrs.get(name) for name in ("order", "stage", "group"))


def _updates(access: Access) -> bool:
    """A statement that needs the buffer's old value for sure."""
    s = access.stmt
    if isinstance(s, TileOp):
        is_reduce = s.op == "reduce" and access.argument == "dst" and s.args.get("clear") is False
        return is_reduce or adds_only(access) or _is_atomic_update(access)
    return isinstance(s, Store) and _plainly_loads(s.value, access.buffer, s.indices)


def _plainly_loads(value: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
    """Whether a value is made of an element by arithmetic that does not choose."""
    if isinstance(value, Load):
        return value.buffer is buffer and len(value.indices) == len(indices) and all(equal(a, b) for a, b in zip(value.indices, indices))
    if isinstance(value, Binary):
        return value.op in ("add", "sub", "mul", "div") and any(_plainly_loads(v, buffer, indices) for v in (value.a, value.b))
    return isinstance(value, Cast) and _plainly_loads(value.a, buffer, indices)


def _computes_with(ctx: RuleContext, buffer: Buffer, first: Access) -> bool:
    """Whether the read element goes into the arithmetic of another buffer's elements, all of whose uses are unconditional."""
    s = first.stmt
    if not isinstance(s, Store) or s.buffer.storage() is buffer:
        return False
    value = s.value
    while isinstance(value, Cast):
        value = value.a
    if isinstance(value, Load):
        return False  # only moved
    for place in ctx.facts.places:
        clears = place.stmt.args.get("clear_accum") if isinstance(place.stmt, TileOp) else None
        if clears not in (None, True, False):
            return False
    uses = ctx.facts.storage_uses.get(s.buffer.storage(), ())
    return all(a.kind != OPAQUE and not a.guarded and not a.place.is_conditional() for a in uses)


@rule("unused-buffer")
def unused_buffer(ctx: RuleContext):
    if ctx.program.attrs.get("incomplete"):
        return
    for buffer in ctx.facts.allocations(FRAGMENT, LOCAL, SHARED, SHARED_DYN, TMEM, *BARRIERS):
        if (
            not ctx.facts.storage_uses.get(buffer)
            and not ctx.is_blamed(buffer)
            and not _mentioned(ctx, buffer)
            and not ctx.facts.has_unsupported
        ):
            what = "barrier" if buffer.scope in BARRIERS else "buffer"
            yield ctx.report(f"the {what} {buffer.name} is allocated and never used", buffer.span)


def _mentioned(ctx: RuleContext, buffer: Buffer) -> bool:
    """Named by an annotation or by an argument outside of the operands."""
    from ...ir.buffer import Region

    for place in ctx.facts.places:
        if isinstance(place.stmt, TileOp):
            for value in place.stmt.args.values():
                if value is buffer or (isinstance(value, Region) and value.buffer.storage() is buffer):
                    return True
    return False
