"""``tilelang.transform``: configuration keys. This compiler decides most of them itself; unknown keys are kept and ignored."""
from __future__ import annotations

from typing import Any


class _Key(str):
    """A key as text, with the two properties of an enumeration's member."""

    __slots__ = ("name",)
    name: str

    @property
    def value(self) -> str:
        return str(self)

    def __tilec_value__(self) -> str:
        return str(self)


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        key = _Key(name.lower().replace("tl_", "tl.", 1).replace("tir_", "tirx.", 1))
        key.name = name
        return key


class PassConfigKey(metaclass=_Keys):
    """``PassConfigKey.TL_ENABLE_FAST_MATH`` is the text ``tl.enable_fast_math``."""


def simplify_prim_func(function: Any) -> Any:
    """This compiler simplifies every program; the function stays as it is."""
    return function
