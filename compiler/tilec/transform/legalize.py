"""What no target can lower is refused; indices and views become plain accesses to storage."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir import dtypes
from ..ir.buffer import DESCRIPTOR, FRAGMENT, GLOBAL, TMEM, Buffer, Region
from ..ir.build import const, const_int
from ..ir.expr import Expr, Load, Unknown, Var, walk
from ..ir.ops import OPS
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .errors import LoweringError
from .rewrite import map_children, map_expr, map_own, map_region


def refuse_unknown(program: TileProgram, ctx: PassContext) -> TileProgram:
    for p in program.params:
        if p.dtype == dtypes.UNKNOWN:
            raise LoweringError(f"The dtype of {p.name} is not known. Give an instance that fixes the kernel's parameters.", p.span, "unknown-value")
        if isinstance(p, Buffer):
            for e in (*p.shape, *(p.strides or ())):
                _refuse(e, p)
    _refuse_bulk_copies(program)
    for s in walk_statements(program.body):
        if isinstance(s, TileOp) and s.op == "unsupported":
            raise LoweringError(f"{s.args.get('name') or 'This operator'} cannot be compiled yet: no lowering for it is known. Express it with "
                                "T.copy, T.Parallel and the reductions.", s.span, "unsupported")
        if isinstance(s, TileOp) and s.op in OPS and not OPS[s.op].lowered:
            raise LoweringError(f"T.{s.op} cannot be compiled yet: the checker knows it, no target has a lowering for it.", s.span, "unsupported")
        for e in expressions(s):
            _refuse(e, s)
        if isinstance(s, TileOp):
            for value in s.args.values():
                if isinstance(value, Unknown):
                    _refuse(value, s)
        if isinstance(s, Alloc):
            _check_alloc(s)
    return program


def _refuse_bulk_copies(program: TileProgram) -> None:
    """T.tma_copy announces its bytes itself, where there are any: a barrier that is told them twice would wait for ever. It fills the block's own tile."""
    operators = [s for s in walk_statements(program.body) if isinstance(s, TileOp)]
    expecting = {s.region("mbar").buffer: s for s in operators if s.op == "mbarrier_expect_tx"}
    for s in operators:
        if s.op == "tma_copy" and s.args.get("cluster_mask") not in (None, 1):
            raise LoweringError("T.tma_copy(..., cluster_mask=) into the shared memory of several blocks cannot be compiled yet; let each block copy its tile.",
                                s.span, "unsupported")
        barrier = s.args.get("barrier") if s.op == "tma_copy" else None
        if isinstance(barrier, Region) and barrier.buffer in expecting:
            raise LoweringError(f"{barrier.buffer.name} is told the bytes of T.tma_copy by T.mbarrier_expect_tx; the copy announces them itself here. "
                                "Leave T.mbarrier_expect_tx out.", expecting[barrier.buffer].span, "unsupported")


def _refuse(e: Expr, s: Stmt | Buffer) -> None:
    for part in walk(e):
        if isinstance(part, Unknown):
            what = f" ({part.reason})" if part.reason else ""
            raise LoweringError(f"A value used here is not known at compile time{what}. Give an instance that fixes the kernel's parameters.",
                                part.span or s.span, "unknown-value")
        if isinstance(part, Var) and part.kind == "size":
            raise LoweringError(f"{part.name} is not known at compile time. Give an instance that fixes the kernel's parameters.",
                                part.span or s.span, "unknown-value")


def _check_alloc(s: Alloc) -> None:
    if s.buffer.view_of is not None and s.buffer.strides is not None:
        raise LoweringError(f"Views with strides of their own ({s.buffer.name}) cannot be compiled yet; index {s.buffer.view_of.name} instead.", s.span,
                            "unsupported")
    if s.buffer.scope.startswith(DESCRIPTOR):
        raise LoweringError(f"Matrix descriptors ({s.buffer.name}) cannot be compiled yet; use T.gemm.", s.span, "unsupported")
    if s.buffer.dtype == dtypes.UNKNOWN:
        raise LoweringError(f"The dtype of {s.buffer.name} is not known. Give an instance that fixes the kernel's parameters.", s.span, "unknown-value")
    if s.buffer.static_shape() is None and s.buffer.scope != "global":
        raise LoweringError(f"The shape of {s.buffer.name} is not constant; on-chip buffers need constant extents. Give an instance that fixes "
                            "the kernel's parameters, or allocate the largest tile and guard its use.", s.span, "alloc-symbolic")


# -- indices and views -----------------------------------------------------------------------------------------------------
def canonical_indices(program: TileProgram, ctx: PassContext) -> TileProgram:
    """Constant negative indices count from the end; accesses to views become accesses to what they are views of.

    A view of another dtype keeps its own buffer: shared and global memory can be addressed in any type. So does a tensor in another shape, whose own
    extents say what is outside.
    """
    return replace(program, body=_body(program.body, ctx))


def _body(body: Body, ctx: PassContext) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc) and s.buffer.view_of is not None:
            _check_view(s)
            if _keeps_its_own(s.buffer):
                out.append(s)
            continue
        out.append(map_children(_statement(s), lambda inner: _body(inner, ctx)))
    return tuple(out)


def _check_view(s: Alloc) -> None:
    b = s.buffer
    if b.scope in (FRAGMENT, TMEM) and _reinterprets(b):
        raise LoweringError(f"{b.name} views {b.storage().name} ({b.storage().dtype}) as {b.dtype}; registers cannot be viewed as another type. "
                            "Copy through shared memory instead.", s.span, "view-registers")


def _reinterprets(b: Buffer) -> bool:
    return b.view_of is not None and b.dtype != b.storage().dtype


def _keeps_its_own(b: Buffer) -> bool:
    base = b.storage()
    return _reinterprets(b) or (b.view_of is not None and base.scope == GLOBAL and base.strides is None and b.strides is None and dtypes.bits(b.dtype) >= 8)


def _statement(s: Stmt) -> Stmt:
    s = map_own(s, _load_rule)
    if isinstance(s, Store):
        buffer, indices = _resolve(s.buffer, s.indices)
        return replace(s, buffer=buffer, indices=indices)
    if isinstance(s, TileOp):
        return replace(s, args={k: _operand(v, s) if isinstance(v, Region) else v for k, v in s.args.items()})
    return s


def _operand(r: Region, op: TileOp) -> Region:
    """A region of storage; where the operator names a dimension, only if that has as many dimensions."""
    moved = _region(r, op)
    if op.args.get("dim") is None or len(moved.mins) == len(r.mins):
        return moved
    return Region(r.buffer, tuple(extent + m if (const_int(m) or 0) < 0 else m for m, extent in zip(r.mins, r.buffer.shape)), r.extents, r.form, r.span)


def resolve_elements(body: Body) -> Body:
    """Element accesses to views, which tile operators on views became, as accesses to storage."""
    out: list[Stmt] = []
    for s in body:
        s = map_children(map_own(s, _load_rule), resolve_elements)
        if isinstance(s, Store):
            buffer, indices = _resolve(s.buffer, s.indices)
            s = replace(s, buffer=buffer, indices=indices)
        elif isinstance(s, TileOp) and s.op == "atomic":
            dst = s.region("dst")
            buffer, indices = _resolve(dst.buffer, dst.mins)
            s = replace(s, args={**s.args, "dst": Region(buffer, indices, tuple(const(1) for _ in indices), "element", dst.span)})
        out.append(s)
    return tuple(out)


def _load_rule(e: Expr) -> Expr | None:
    if not isinstance(e, Load):
        return None
    buffer, indices = _resolve(e.buffer, tuple(map_expr(i, _load_rule) for i in e.indices))
    return Load(e.dtype, e.span, buffer, indices)


def _resolve(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
    fixed = tuple(extent + i if (const_int(i) or 0) < 0 else i for i, extent in zip(indices, buffer.shape))
    while (base := buffer.view_of) is not None and not _keeps_its_own(buffer) and buffer.dtype == base.dtype:
        buffer, fixed = base, unflatten(flat_index(buffer, fixed), base.shape)
    return buffer, fixed


def flat_index(view: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Where an element of a view lies in what it is a view of, counted in elements."""
    flat: Any = const(0)
    for extent, i in zip(view.shape, indices):
        flat = flat * extent + i
    return flat if view.offset is None else flat + view.offset


def unflatten(flat: Expr, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    out: list[Expr] = []
    for k, extent in reversed(list(enumerate(shape))):
        out.append(flat if k == 0 else flat % extent)
        flat = flat // extent
    return tuple(reversed(out))


def _region(r: Region, op: TileOp) -> Region:
    """Regions keep their shape: a view stays a view unless it covers the same rows of its storage."""
    mins = tuple(extent + m if (const_int(m) or 0) < 0 else m for m, extent in zip(r.mins, r.buffer.shape))
    r = Region(r.buffer, mins, r.extents, r.form, r.span)
    while r.buffer.view_of is not None and r.buffer.dtype == r.buffer.view_of.dtype:
        moved = _same_rows(r)
        if moved is None:
            break
        r = moved
    return map_region(r, lambda e: None)


def _same_rows(r: Region) -> Region | None:
    """A region of a view as a region of the viewed buffer, where the two differ in extents of 1 only."""
    view, base = r.buffer, r.buffer.view_of
    assert base is not None
    old = [(m, e) for m, e, extent in zip(r.mins, r.extents, view.shape) if const_int(extent) != 1]
    if view.offset is not None or len(old) != sum(const_int(e) != 1 for e in base.shape):
        return None
    extents_view = [const_int(e) for e in view.shape if const_int(e) != 1]
    extents_base = [const_int(e) for e in base.shape if const_int(e) != 1]
    if extents_view != extents_base or None in extents_view:
        return None
    rest = iter(old)
    pairs = [(const(0), const(1)) if const_int(e) == 1 else next(rest) for e in base.shape]
    return Region(base, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), r.form, r.span)
