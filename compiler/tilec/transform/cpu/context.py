"""The state of one lowering to loops."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from ...analysis.bounds import Ranges
from ...analysis.guards import inside
from ...ir.buffer import GLOBAL, LOCAL, Buffer
from ...ir.build import binary, call, cast, const, select, unary
from ...ir.expr import Binary, Call, Cast, Expr, Load, Select, Unary, Unknown, Var
from ...ir.stmt import Body, For, If, Stmt, Store
from ...source.span import Span
from ..errors import LoweringError


class Context:
    """Names, ranges of variables, and the building of guarded accesses."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self.safe_values: dict[Buffer, Expr] = {}
        self._count = 0

    def fresh(self, name: str, dtype: str = "int32") -> Var:
        self._count += 1
        return Var(dtype, None, f"{name}_{self._count}", "loop")

    def temporary(self, name: str, shape: Sequence[int], dtype: str) -> Buffer:
        self._count += 1
        return Buffer(f"{name}_{self._count}", tuple(const(s) for s in shape), dtype, LOCAL)

    def loops(self, extents: Sequence[Expr], body: Callable[[tuple[Var, ...]], Body], span: Span | None, name: str = "i") -> Body:
        """Nested loops over a box; ``body`` gets the loop variables."""
        variables = tuple(self.fresh(name) for _ in extents)
        for var, extent in zip(variables, extents):
            self.ranges.set_extent(var, extent)
        inner = body(variables)
        for var, extent in reversed(list(zip(variables, extents))):
            inner = (For(span, var, const(0), extent, inner),)
        return inner

    # -- accesses ------------------------------------------------------------------------------------------------
    def load(self, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None) -> Expr:
        """An element; outside a global tensor 0 (or the annotated safe value)."""
        value: Expr = Load(buffer.dtype, span, buffer, indices)
        if buffer.scope != GLOBAL:
            return value
        guard = inside(indices, buffer.shape, self.ranges)
        if guard is None:
            return value
        return select(guard, value, self.safe_values.get(buffer, const(0, buffer.dtype)))

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr, span: Span | None) -> Stmt:
        """A store; outside a global tensor nothing."""
        statement: Stmt = Store(span, buffer, indices, cast(value, buffer.dtype))
        if buffer.scope != GLOBAL:
            return statement
        guard = inside(indices, buffer.shape, self.ranges)
        return statement if guard is None else If(span, guard, (statement,))

    def expression(self, e: Expr, span: Span | None) -> Expr:
        """An expression with every load of it guarded."""
        if isinstance(e, Load):
            indices = tuple(self.expression(i, span) for i in e.indices)
            return self.load(e.buffer, self._from_start(e.buffer, indices), e.span or span)
        if isinstance(e, Binary):
            return binary(e.op, self.expression(e.a, span), self.expression(e.b, span), e.span)
        if isinstance(e, Unary):
            return unary(e.op, self.expression(e.a, span), e.span)
        if isinstance(e, Cast):
            return cast(self.expression(e.a, span), e.dtype, e.span)
        if isinstance(e, Select):
            return select(self.expression(e.cond, span), self.expression(e.then, span), self.expression(e.other, span), e.span)
        if isinstance(e, Call):
            args = tuple(self.expression(a, span) if isinstance(a, Expr) else a for a in e.args)
            return call(e.op, args, e.dtype, e.span, **(e.attrs or {}))
        if isinstance(e, Unknown):
            raise LoweringError(f"a value is not known ({e.reason or 'it depends on something outside the file'}); give an instance that "
                                "fixes the kernel's parameters", e.span or span)
        return e

    def _from_start(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Constant negative indices count from the end."""
        from ...ir.build import const_int

        out = []
        for index, extent in zip(indices, buffer.shape):
            value = const_int(index)
            out.append(extent + value if value is not None and value < 0 else index)
        return tuple(out)
