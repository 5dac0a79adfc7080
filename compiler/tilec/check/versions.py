"""Order of TileLang releases, as text such as ``0.1.7.post3``."""

from __future__ import annotations


def newer(a: str, b: str) -> bool:
    """Whether release ``a`` came after release ``b``."""
    return key(a) > key(b)


def key(version: str) -> tuple[int, ...]:
    """``0.1.13+gitabc`` and ``0.1.13.dev2`` count as 0.1.13; ``0.1.7.post3`` comes after 0.1.7."""
    import re

    public = re.split(r"\+|[.-]?(?:dev|rc|a|b)\d*", version, maxsplit=1)[0]
    return tuple(int(n) for n in re.findall(r"\d+", public)) or (0,)
