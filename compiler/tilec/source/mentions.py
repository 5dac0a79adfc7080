"""Whether a file has any trace of the language. Cheap: it decides which files are looked at at all."""
from __future__ import annotations

WORDS = ("tilelang", "tilec", "prim_func", "T.Kernel", ".Kernel(")  # re-exports count


def mentions_language(text: str) -> bool:
    return any(word in text for word in WORDS)
