"""Reducers: every one is started once, updated inside T.Parallel, finished once, and has no value in between.
TileLang 0.1.15, src/transform/verify_reducer_epoch.cc and canonicalize_legacy_reducer.cc."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import REDUCER, Buffer, Region
from ...ir.build import const_int, const_value
from ...ir.expr import equal, has_unknown
from ...ir.stmt import For, If, Parallel, Stmt, TileOp, While
from ..context import RuleContext
from ..diagnostic import Diagnostic
from ..facts import OPAQUE, WRITE, Access, Place, argument_span
from ..registry import rule

_FIRST_CLASS = ("reducer_init", "reducer_update", "finalize_reducer")
_STARTS = ("fill", "clear")


@rule("reducer-epoch", "reducer-op")
def reducers(ctx: RuleContext) -> Iterator[Diagnostic | None]:
    yield from _foreign_handles(ctx)
    if ctx.program.attrs.get("incomplete"):
        return
    for buffer in ctx.facts.allocations(REDUCER):
        uses = ctx.facts.storage_uses.get(buffer, [])
        if any(a.kind == OPAQUE for a in uses):
            continue
        if _in_old_style(buffer, uses):
            yield _old_epoch(ctx, buffer, uses)
        else:
            yield _epoch(ctx, buffer, uses)


def _foreign_handles(ctx: RuleContext) -> Iterator[Diagnostic | None]:
    """Reducer operations on what is no reducer, and results that do not fit."""
    for place in ctx.facts.ops(*_FIRST_CLASS):
        op = place.stmt
        assert isinstance(op, TileOp)
        name = "target" if op.op == "reducer_update" else "reducer"
        handle = op.args.get(name)
        if isinstance(handle, Region) and handle.buffer.scope != REDUCER:
            yield ctx.report(
                f"T.{op.op}: {handle.buffer.name} is no reducer; reducers are made by T.alloc_reducer",
                argument_span(op, name),
                (f"{handle.buffer.name}", handle.buffer.span),
            )
        elif op.op == "reducer_update" and isinstance(handle, Region) and handle.form != "element":
            yield ctx.report(
                f"T.reducer_update updates one element: write {handle.buffer.name}[...] with an index for every "
                "dimension",
                argument_span(op, name),
            )
        elif op.op == "finalize_reducer" and isinstance(handle, Region) and isinstance(op.args.get("dst"), Region):
            yield _check_result(ctx, op, handle, op.region("dst"))


def _check_result(ctx: RuleContext, op: TileOp, handle: Region, dst: Region) -> Diagnostic | None:
    where = argument_span(op, "dst")
    if dst.buffer.scope == REDUCER:
        return ctx.report(f"the result goes to a fragment; {dst.buffer.name} is a reducer itself", where)
    if "unknown" not in (dst.dtype, handle.dtype) and dst.dtype != handle.dtype:
        return ctx.report(
            f"the reducer {handle.buffer.name} is {handle.dtype}, its result {dst.buffer.name} {dst.dtype}; nothing "
            "is converted",
            where,
            (f"{dst.buffer.name}", dst.buffer.span),
            name="reducer-op",
        )
    mine, theirs = [const_int(e) for e in handle.extents], [const_int(e) for e in dst.extents]
    if len(mine) != len(theirs) or any(a is not None and b is not None and a != b for a, b in zip(mine, theirs)):
        return ctx.report(
            f"the reducer {handle.buffer.name} has the shape {_shape(handle)}, its result {dst.buffer.name} "
            f"{_shape(dst)}",
            where,
            (f"{dst.buffer.name}", dst.buffer.span),
            name="reducer-op",
        )
    return None


def _shape(region: Region) -> str:
    return "(" + ", ".join("?" if const_int(e) is None else str(const_int(e)) for e in region.extents) + ")"


# -- the order of one epoch ----------------------------------------------------------------------
def _epoch(ctx: RuleContext, buffer: Buffer, uses: list[Access]) -> Diagnostic | None:
    name = buffer.name
    begun: Access | None = None
    ended: Access | None = None
    for use in sorted(uses, key=lambda a: a.place.order):
        op = use.stmt.op if isinstance(use.stmt, TileOp) else ""
        if op not in _FIRST_CLASS:
            return _ordinary_use(ctx, buffer, use)
        if op == "reducer_init":
            if use.place.inside(Parallel):
                return ctx.report("T.reducer_init cannot stand inside T.Parallel", use.stmt.span, buffer=buffer)
            if begun is not None:
                return ctx.report(
                    f"{name} is started a second time; each T.alloc_reducer is good for one reduction",
                    use.stmt.span,
                    ("the first start", begun.stmt.span),
                    buffer=buffer,
                )
            begun = use
        elif begun is None:
            what = "updated" if op == "reducer_update" else "finished"
            return ctx.report(
                f"{name} is {what} before T.reducer_init starts it", use.stmt.span, (name, buffer.span), buffer=buffer
            )
        elif ended is not None:
            what = "updated after T.finalize_reducer" if op == "reducer_update" else "finished a second time"
            return ctx.report(
                f"{name} is {what}", use.stmt.span, ("finished here", ended.stmt.span), buffer=buffer
            )
        elif op == "reducer_update":
            if not use.place.inside(Parallel):
                return ctx.report(
                    f"T.reducer_update of {name} stands outside T.Parallel, so it is not clear how often it counts",
                    use.stmt.span,
                    buffer=buffer,
                )
        else:
            found = _check_end(ctx, buffer, begun, use)
            if found is not None:
                return found
            ended = use
    if not uses:
        return None  # unused-buffer
    if begun is None or ended is None:
        missing = "T.reducer_init" if begun is None else "T.finalize_reducer"
        return ctx.report(
            f"{name} is never {'started' if begun is None else 'finished'}: {missing} is missing",
            buffer.span,
            buffer=buffer,
        )
    return None


def _ordinary_use(ctx: RuleContext, buffer: Buffer, use: Access) -> Diagnostic | None:
    if use.kind == WRITE:
        return ctx.report(
            f"{buffer.name} is a reducer; T.reducer_update({buffer.name}[...], value) adds to it",
            use.span,
            (buffer.name, buffer.span),
            buffer=buffer,
        )
    return ctx.report(
        f"{buffer.name} is a reducer and has no value to read; T.finalize_reducer({buffer.name}, result) gives one",
        use.span,
        (buffer.name, buffer.span),
        buffer=buffer,
    )


def _check_end(ctx: RuleContext, buffer: Buffer, begun: Access, end: Access) -> Diagnostic | None:
    op = end.stmt
    assert isinstance(op, TileOp)
    if op.args.get("dst") is None and "dst" not in op.arg_spans:
        return ctx.report(
            f"T.finalize_reducer({buffer.name}) needs the fragment that takes the result", op.span, buffer=buffer
        )
    if end.place.inside(Parallel):
        return ctx.report("T.finalize_reducer cannot stand inside T.Parallel", op.span, buffer=buffer)
    start, here = _context(begun.place), _context(end.place)
    same = here[: len(start)] == start and all(isinstance(s, If) for s, _ in here[len(start) :])
    if not same:
        return ctx.report(
            f"{buffer.name} is finished in another loop or branch than it was started in",
            op.span,
            ("started here", begun.stmt.span),
            buffer=buffer,
        )
    return None


def _context(place: Place) -> list[tuple[Stmt, int]]:
    """The loops and branches around a statement, with the side of each branch."""
    found: list[tuple[Stmt, int]] = []
    inner = [*place.parents[1:], place.stmt]
    for parent, child in zip(place.parents, inner):
        if isinstance(parent, If):
            found.append((parent, 0 if any(s is child for s in parent.then) else 1))
        elif isinstance(parent, (For, While, Parallel)):
            found.append((parent, 0))
    return found


# -- the style of releases before 0.1.14 ---------------------------------------------------------
def _in_old_style(buffer: Buffer, uses: list[Access]) -> bool:
    """T.clear, ``acc[i] += v`` and T.finalize_reducer(acc): still accepted where nothing else is used."""
    first_class = [
        a.stmt
        for a in uses
        if isinstance(a.stmt, TileOp)
        and (
            a.stmt.op in ("reducer_init", "reducer_update")
            or (a.stmt.op == "finalize_reducer" and a.stmt.args.get("dst") is not None)
        )
    ]
    return bool(uses) and (buffer.attrs.get("replication") is not None or not first_class)


def _old_epoch(ctx: RuleContext, buffer: Buffer, uses: list[Access]) -> Diagnostic | None:
    if not _judges_old_style(ctx.version):
        return None
    name, begun, ended = buffer.name, False, False
    for use in sorted(uses, key=lambda a: (a.place.order, a.kind == WRITE)):
        op = use.stmt.op if isinstance(use.stmt, TileOp) else ""
        if op in ("reducer_init", "reducer_update"):
            return ctx.report(
                f"{name} was allocated with replication=, the older form, which T.{op} does not work with; leave "
                "replication out",
                use.stmt.span,
                (name, buffer.span),
                buffer=buffer,
            )
        if op in _STARTS and use.kind == WRITE:
            if begun:
                return ctx.report(
                    f"{name} is filled a second time; each T.alloc_reducer is good for one reduction",
                    use.stmt.span,
                    buffer=buffer,
                )
            begun = True
            found = _check_start(ctx, buffer, use)
            if found is not None:
                return found
        elif op == "finalize_reducer":
            if not begun:
                return ctx.report(f"{name} is finished before T.clear starts it", use.stmt.span, buffer=buffer)
            ended = True
        elif not ended and not (begun and _is_update(use)):
            return _ordinary_use(ctx, buffer, use)
    if not ended:
        return ctx.report(f"{name} is never finished: T.finalize_reducer is missing", buffer.span, buffer=buffer)
    return None


def _judges_old_style(version: str) -> bool:
    """Releases before 0.1.14 check nothing of this."""
    from ..api_rules import newer

    return not version or not newer("0.1.14", version)


def _is_update(use: Access) -> bool:
    """Part of ``acc[i] = acc[i] + v``: whether it is the right operation is not looked at."""
    from ...ir.expr import Load
    from ...ir.expr import walk as walk_expr
    from ...ir.stmt import Store

    s = use.stmt
    if not isinstance(s, Store) or s.buffer is not use.buffer:
        return False
    if has_unknown(s.value):
        return True
    return any(
        isinstance(e, Load)
        and e.buffer is s.buffer
        and len(e.indices) == len(s.indices)
        and all(equal(x, y) for x, y in zip(e.indices, s.indices))
        for e in walk_expr(s.value)
    )


def _check_start(ctx: RuleContext, buffer: Buffer, use: Access) -> Diagnostic | None:
    assert isinstance(use.stmt, TileOp)
    value = const_value(use.stmt.args.get("value")) if use.stmt.op == "fill" else 0
    if buffer.attrs.get("reducer_op") == "sum" and value is not None and value != 0:
        return ctx.report(
            f"{buffer.name} sums up and is filled with {value}, which would count once per thread; start it with 0, "
            "or use T.reducer_init",
            use.stmt.span,
            buffer=buffer,
        )
    return None
