"""Scalar expressions of the tile program.

Nodes are never changed once made, and compare by identity (``equal`` compares by structure). They are not ``frozen``
dataclasses: those take three times as long to define, which every start of the command would pay for. Build them with Python's operators
on :class:`Expr` or with the functions of :mod:`tilec.ir.build`, which fold constants and promote types; the
constructors here do neither.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import dataclass
from ..source.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .buffer import Buffer


@dataclass(eq=False, repr=False)
class Expr:
    """Base of all scalar expressions. ``dtype`` is a canonical name of :mod:`tilec.ir.dtypes`."""

    dtype: str
    span: Span | None

    def __repr__(self) -> str:
        from .printer import expr_text

        return f"<{type(self).__name__} {expr_text(self)}>"

    # Arithmetic goes through build.binary, which folds constants; imported late because build needs these classes.
    def _binary(self, op: str, other: Any, swap: bool = False) -> Expr:
        from .build import binary

        return binary(op, other, self) if swap else binary(op, self, other)

    def children(self) -> tuple[Expr, ...]:
        """The direct sub-expressions."""
        return ()

    def __add__(self, other: Any) -> Expr: return self._binary("add", other)
    def __radd__(self, other: Any) -> Expr: return self._binary("add", other, True)
    def __sub__(self, other: Any) -> Expr: return self._binary("sub", other)
    def __rsub__(self, other: Any) -> Expr: return self._binary("sub", other, True)
    def __mul__(self, other: Any) -> Expr: return self._binary("mul", other)
    def __rmul__(self, other: Any) -> Expr: return self._binary("mul", other, True)
    def __truediv__(self, other: Any) -> Expr: return self._binary("div", other)
    def __rtruediv__(self, other: Any) -> Expr: return self._binary("div", other, True)
    def __floordiv__(self, other: Any) -> Expr: return self._binary("floordiv", other)
    def __rfloordiv__(self, other: Any) -> Expr: return self._binary("floordiv", other, True)
    def __and__(self, other: Any) -> Expr: return self._binary("bitand", other)
    def __rand__(self, other: Any) -> Expr: return self._binary("bitand", other, True)
    def __or__(self, other: Any) -> Expr: return self._binary("bitor", other)
    def __ror__(self, other: Any) -> Expr: return self._binary("bitor", other, True)
    def __xor__(self, other: Any) -> Expr: return self._binary("bitxor", other)
    def __lshift__(self, other: Any) -> Expr: return self._binary("shl", other)
    def __rshift__(self, other: Any) -> Expr: return self._binary("shr", other)
    def __mod__(self, other: Any) -> Expr: return self._binary("floormod", other)
    def __rmod__(self, other: Any) -> Expr: return self._binary("floormod", other, True)


@dataclass(eq=False, repr=False)
class Const(Expr):
    """A literal: int, float (inf and nan included) or bool value of ``dtype``."""

    value: int | float | bool


@dataclass(eq=False, repr=False)
class Var(Expr):
    """A scalar name, identified by the object itself.

    ``kind``: ``loop`` (loop variable), ``block`` (block index), ``thread`` (thread index), ``dynamic`` (run-time
    extent, ``T.dynamic``), ``const`` (``T.const`` without a known value), ``param`` (scalar kernel parameter),
    ``let`` (name bound by :class:`~tilec.ir.stmt.Let`), ``size`` (an integer of the host program that static evaluation does not
    know: a literal in the real kernel, so that a program with one is checked but not compiled).
    """

    name: str
    kind: str = "let"


@dataclass(eq=False, repr=False)
class Unknown(Expr):
    """A value that static evaluation could not know. Rules stay silent about it, the compiler refuses it."""

    reason: str = ""


BINARY_OPS = (
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "pow",
    "shl", "shr", "bitand", "bitor", "bitxor", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
)
COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
LOGICAL = frozenset(("and", "or"))


@dataclass(eq=False, repr=False)
class Binary(Expr):
    """``op`` is one of BINARY_OPS; both operands have the same dtype; comparisons and and/or yield bool."""

    op: str
    a: Expr
    b: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)


@dataclass(eq=False, repr=False)
class Unary(Expr):
    """``op``: ``neg``, ``not`` (logical), ``bitnot``."""

    op: str
    a: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(eq=False, repr=False)
class Cast(Expr):
    """Value conversion to ``dtype`` (round to nearest even; float to int truncates)."""

    a: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(eq=False, repr=False)
class Select(Expr):
    """``T.if_then_else``: only the chosen side is evaluated (a load in the other side may be out of bounds)."""

    cond: Expr
    then: Expr
    other: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.then, self.other)


@dataclass(eq=False, repr=False)
class Load(Expr):
    """One element of a buffer; as many indices as the buffer has dimensions."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.indices


@dataclass(eq=False, repr=False)
class Call(Expr):
    """A scalar function or intrinsic: ``exp``, ``exp2``, ``log``, ``sqrt``, ``rsqrt``, ``tanh``, ``abs``, ``infinity``,
    ``get_thread_binding`` ... (names as TileLang spells them), or, after lowering, a target intrinsic ``ptx.*``/``cuda.*``.
    """

    op: str
    args: tuple[Any, ...]
    attrs: dict[str, Any] | None = None

    def children(self) -> tuple[Expr, ...]:
        return tuple([a for a in self.args if isinstance(a, Expr)])


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    return e.children()


def walk(e: Expr) -> list[Expr]:
    """Every sub-expression, the expression itself first, operands in order."""
    inner = e.children()
    if not inner:
        return [e]
    found = [e]
    stack = list(inner[::-1])
    while stack:
        node = stack.pop()
        found.append(node)
        inner = node.children()
        if inner:
            stack += inner[::-1]
    return found


def variables_in(expressions: Iterable[Expr]) -> set[Var]:
    return {part for e in expressions for part in walk(e) if isinstance(part, Var)}


def equal(a: Any, b: Any) -> bool:
    """Structural equality; variables and buffers by identity; Unknown equals nothing."""
    if a is b:
        return not isinstance(a, Unknown)
    if isinstance(a, (int, float)) and isinstance(b, Const):
        return a == b.value
    if isinstance(b, (int, float)) and isinstance(a, Const):
        return a.value == b
    if type(a) is not type(b) or not isinstance(a, Expr):
        return not isinstance(a, Expr) and not isinstance(b, Expr) and a == b
    if isinstance(a, Const):
        return a.value == b.value and a.dtype == b.dtype
    if isinstance(a, (Var, Unknown)) or a.dtype != b.dtype:
        return False
    if isinstance(a, (Binary, Unary)) and a.op != b.op:
        return False
    if isinstance(a, Load) and a.buffer is not b.buffer:
        return False
    if isinstance(a, Call):
        return (a.op == b.op and len(a.args) == len(b.args) and a.attrs == b.attrs
                and all(equal(x, y) for x, y in zip(a.args, b.args)))
    mine, theirs = children(a), children(b)
    return len(mine) == len(theirs) and all(equal(x, y) for x, y in zip(mine, theirs))


def is_host_choice(e: Expr) -> bool:
    """A condition on host sizes alone: only one of the branches becomes part of the real kernel."""
    leaves = [x for x in walk(e) if not isinstance(x, (Const, Binary, Unary, Cast, Select))]
    return bool(leaves) and all(isinstance(x, Var) and x.kind == "size" for x in leaves)


def is_truth(e: Any) -> bool:
    """Whether a value is a truth value for TileLang: bool, or a sum, difference or product of such, which stays bool there."""
    if not isinstance(e, Expr):
        return isinstance(e, bool)
    if e.dtype == "bool":
        return True
    return isinstance(e, Binary) and e.op in ("add", "sub", "mul") and all(is_truth(x.a if isinstance(x, Cast) else x) for x in (e.a, e.b))


def has_unknown(e: Any) -> bool:
    """Whether something in the expression is not known. Anything else than an expression is known."""
    if isinstance(e, (Const, Var)) or not isinstance(e, Expr):
        return False
    return isinstance(e, Unknown) or any(has_unknown(x) for x in e.children())
