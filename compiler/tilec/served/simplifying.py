"""``tilelang.transform.simplify``: programs are simplified when they are compiled; what is left is the signature."""
from typing import Any


def apply_simplify(stmt: Any, inline_let: bool = False) -> Any:
    """A prim_func without the tensors it does not use, as TileLang's simplification leaves it."""
    return stmt.without_unused() if hasattr(stmt, "without_unused") else stmt


def simplify_prim_func(func: Any) -> Any:
    """A decorator of functions that make a prim_func."""
    return func


__all__ = ["apply_simplify", "simplify_prim_func"]
