"""T.vectorized loops over one copy: wide accesses where the elements are neighbours, also of a tile whose elements a thread numbers through.

Such numbers are taken apart by quotient and remainder, ``tile[n // 128, n % 128]`` with ``n = 8 * thread + v``. The loop's variable never carries
into the next row if everything else in ``n`` and the divisor are multiples of the loop's extent: only the remainder moves, by the variable itself.
"""
from __future__ import annotations

from ..analysis.layout import REGISTER, Digit
from ..ir import dtypes
from ..ir.affine import linear
from ..ir.buffer import FRAGMENT, GLOBAL, VAR, Buffer
from ..ir.build import binary, const, const_int
from ..ir.expr import Binary, Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import For, Store
from .context import LaunchState
from .rewrite import map_expr, substitute
from .sizes import is_multiple
from .vectors import Lanes, is_contiguous, uses


def wide_copy(s: For, state: LaunchState) -> For | None:
    """The loop with both of its places as the layout stores them, the variable last and alone; None if it is no wide access.

    Layouts of shared tiles keep sixteen aligned bytes of a row together, so the elements stay neighbours.
    """
    count = const_int(s.extent)
    if s.kind != "vectorized" or count not in (2, 4, 8, 16) or const_int(s.start) != 0 or s.step != 1 or len(s.body) != 1:
        return None
    store = s.body[0]
    if not isinstance(store, Store) or not isinstance(store.value, Load) or dtypes.bits(store.buffer.dtype) * count > 128:
        return None
    lanes = Lanes(Digit(0, count, 1, REGISTER, 1), count, s.var, s.var)
    target = _place(store.buffer, store.indices, lanes, state)
    source = _place(store.value.buffer, store.value.indices, lanes, state)
    if target is None or source is None:
        return None
    return For(s.span, s.var, s.start, s.extent, (Store(store.span, *target, Load(store.value.dtype, store.value.span, *source)),), "vectorized")


def _place(b: Buffer, indices: tuple[Expr, ...], lanes: Lanes, state: LaunchState) -> tuple[Buffer, tuple[Expr, ...]] | None:
    if b.scope in (FRAGMENT, VAR) or any(isinstance(x, Load) and (x.buffer.scope in (FRAGMENT, GLOBAL) or x.buffer.is_shared()) for i in indices for x in walk_expr(i)):
        return None
    apart = tuple(without_carry(i, lanes.last, lanes.width) for i in indices)
    if not is_contiguous(b, apart, lanes, state):
        return None
    buffer, place = state.shared_element(b, tuple(substitute(i, {lanes.last: const(0)}) for i in apart))
    return buffer, (*place[:-1], place[-1] + lanes.last)


def without_carry(e: Expr, var: Var, width: int) -> Expr:
    """Quotients and remainders in which ``var``, less than ``width``, cannot reach the next multiple of the divisor, taken apart."""

    def rule(x: Expr) -> Expr | None:
        if not isinstance(x, Binary) or x.op not in ("floordiv", "floormod") or not uses(x.a, var):
            return None
        divisor = const_int(x.b)
        if divisor is None or divisor <= 0 or divisor % width or not _steps_from_multiples(x.a, var, width):
            return None
        first = binary(x.op, substitute(x.a, {var: const(0, var.dtype)}), x.b)
        return first if x.op == "floordiv" else first + var

    return map_expr(e, rule)


def _steps_from_multiples(e: Expr, var: Var, width: int) -> bool:
    """Whether an expression is a multiple of ``width`` plus the variable."""
    terms, total = linear(e)
    others = [(t, f) for t, f in terms if t is not var]
    return (total % width == 0 and any(t is var and f == 1 for t, f in terms)
            and all(not uses(t, var) and (f % width == 0 or is_multiple(t * f, width)) for t, f in others))
