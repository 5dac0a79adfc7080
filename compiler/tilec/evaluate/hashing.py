"""Compile-time arguments that TileLang cannot keep compiled kernels by (tilelang/jit/__init__.py, 0.1.15: the key of its cache)."""
from __future__ import annotations

from itertools import islice
from typing import Any

from .values import MISSING, Class, Function, Instance

DEEPEST, MOST = 4, 100  # levels and elements that are looked at


def unhashable(value: Any, depth: int = 0) -> str | None:
    """What Python refuses to hash in the argument of a plain call, in words. ``kernel.compile(...)`` takes more, and more in some releases."""
    if isinstance(value, (list, set, dict)):
        return f"a {type(value).__name__}"
    if isinstance(value, tuple) and depth < DEEPEST:
        return next((found for found in (unhashable(v, depth + 1) for v in islice(value, MOST)) if found is not None), None)
    if isinstance(value, Instance) and not value.opaque and _loses_hash(value.cls):
        return f"an object of {value.cls.name}, which compares by value and has no hash"
    return None


def _loses_hash(cls: Class) -> bool:
    """A class with ``__eq__`` and without ``__hash__``: its own, or the one that @dataclass writes."""
    if cls.opaque or cls.is_enum or cls.is_tuple or cls.hashes or any(not isinstance(b, Class) for b in cls.bases):
        return False
    if "__hash__" in cls.namespace:
        return False
    if isinstance(cls.namespace.get("__eq__", MISSING), Function) or cls.compares:
        return True
    return bool(cls.bases) and _loses_hash(cls.bases[0])
