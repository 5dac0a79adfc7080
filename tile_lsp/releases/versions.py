"""Release numbers and requirement specifiers, as far as TileLang's releases need them."""

from __future__ import annotations

import re

_RELEASE = re.compile(
    r"^\s*v?(?P<numbers>\d+(?:\.\d+)*)(?:[._-]?(?P<pre>a|b|rc|dev)[._-]?(?P<pre_n>\d*))?(?:[._-]?post[._-]?(?P<post>\d*))?"
    r"(?:[._-]?dev(?P<dev>\d*))?(?:\+.*)?\s*$",
    re.IGNORECASE,
)
_SPECIFIER = re.compile(r"\s*(===|==|!=|<=|>=|~=|<|>|\^|~)\s*([^\s,;]+)\s*")


def sort_key(version: str) -> tuple[tuple[int, ...], int, int]:
    """Orders ``0.1.8 < 0.1.10rc1 < 0.1.10 < 0.1.10.post1``. Raises ValueError if it is no version."""
    match = _RELEASE.match(version)
    if match is None:
        raise ValueError(f"{version!r} is no version number")
    numbers = tuple(int(n) for n in match.group("numbers").split("."))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    before = -1 if match.group("pre") or match.group("dev") is not None else 0
    post = match.group("post")
    return numbers, before, 0 if post is None else 1 + int(post or 0)


def is_version(text: str) -> bool:
    return _RELEASE.match(text) is not None


def release_numbers(version: str) -> tuple[int, ...]:
    return sort_key(version)[0]


def matches(version: str, specifiers: str) -> bool:
    """Whether a version satisfies ``>=0.1.8,<0.2``; a specifier that cannot be understood excludes nothing."""
    return all(_satisfies(version, op, bound) for op, bound in _SPECIFIER.findall(specifiers))


def _satisfies(version: str, op: str, bound: str) -> bool:
    wildcard = bound.endswith(".*")
    bound = bound[:-2] if wildcard else bound
    if not is_version(bound):
        return True
    mine, other = sort_key(version), sort_key(bound)
    same_prefix = mine[0][: len(other[0])] == other[0]
    if op in ("==", "==="):
        return same_prefix if wildcard else mine == other
    if op == "!=":
        return not (same_prefix if wildcard else mine == other)
    if op in ("~=", "~", "^"):
        keep = len(bound.split(".")) - 1 if op == "~=" else 2
        return mine >= other and mine[0][:keep] == other[0][:keep]
    return {"<": mine < other, "<=": mine <= other, ">": mine > other, ">=": mine >= other}[op]


def has_lower_bound(specifiers: str) -> bool:
    """Whether specifiers say from which release on (``<0.2`` alone does not)."""
    return any(op not in ("<", "<=", "!=") for op, _ in _SPECIFIER.findall(specifiers))
