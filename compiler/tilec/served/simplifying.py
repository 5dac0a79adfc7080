"""``tilelang.transform.simplify``: programs are simplified when they are compiled, so that these change nothing."""
from typing import Any


def apply_simplify(stmt: Any, inline_let: bool = False) -> Any:
    return stmt


def simplify_prim_func(func: Any) -> Any:
    """A decorator of functions that make a prim_func."""
    return func


__all__ = ["apply_simplify", "simplify_prim_func"]
