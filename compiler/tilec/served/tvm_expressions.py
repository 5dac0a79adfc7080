"""``tvm.tirx``: scalar expressions that a program makes outside of kernels, and their classes."""
from __future__ import annotations

from typing import Any

from ..ir.buffer import Buffer
from ..ir.build import const
from ..ir.expr import Call, Cast, Expr, Load
from ..ir.expr import Var as _Var
from ..jit.trace import PrimFunc

PrimExpr = Expr
BufferLoad = Load


class _OfKind(type):
    """``isinstance`` asks whether a value is an expression of the language's class."""

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.holds(value)  # type: ignore[attr-defined]


class Var(metaclass=_OfKind):
    """``Var("n", "int32")``: a scalar that is known when the kernel runs."""

    def __new__(cls, name: str, dtype: Any = "int32", span: Any = None) -> Any:
        return _Var(str(dtype), None, name, "dynamic")

    @staticmethod
    def holds(value: Any) -> bool:
        return isinstance(value, _Var)


class IntImm(metaclass=_OfKind):
    """``IntImm("int32", 3)``."""

    def __new__(cls, dtype: Any, value: int, span: Any = None) -> Any:
        return const(int(value), str(dtype))

    @staticmethod
    def holds(value: Any) -> bool:
        return isinstance(value, Expr) and isinstance(getattr(value, "value", None), int)


class FloatImm(metaclass=_OfKind):
    """``FloatImm("float32", 0.5)``."""

    def __new__(cls, dtype: Any, value: float, span: Any = None) -> Any:
        return const(float(value), str(dtype))

    @staticmethod
    def holds(value: Any) -> bool:
        return isinstance(value, Expr) and isinstance(getattr(value, "value", None), float)


__all__ = ["Buffer", "BufferLoad", "Call", "Cast", "FloatImm", "IntImm", "PrimExpr", "PrimFunc", "Var"]
