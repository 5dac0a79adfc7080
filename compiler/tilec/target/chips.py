"""What each chip can do, as data.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (shared memory per block, threads,
registers); PTX ISA, target notes of cp.async (sm_80), mbarrier (sm_80; phase-parity wait sm_90), cp.async.bulk (sm_90),
wgmma (sm_90a), tcgen05 (sm_100a).
"""
from __future__ import annotations

from ..records import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """``shared_bytes``: the most dynamic shared memory a block may opt into; ``static_shared_bytes``: what ptxas accepts."""

    name: str
    kind: str  # "cuda" or "cpu"
    sm: int = 0  # compute capability times ten, 0 for the CPU
    family: str = ""
    shared_bytes: int = 0
    static_shared_bytes: int = 0
    fp8: bool = False
    tma: bool = False
    clusters: bool = False
    wgmma: bool = False
    tcgen05: bool = False
    tmem_columns: int = 0
    sm_count: int = 0  # streaming multiprocessors of the usual board, for hints


MAX_THREADS = 1024  # of a block, on all of them


def _cuda(name: str, sm: int, family: str, shared: int, static: int = 48 * 1024, **features) -> Target:
    return Target(name, "cuda", sm, family, shared * 1024, static, **features)


TARGETS: dict[str, Target] = {t.name: t for t in (
    Target("cpu", "cpu", family="LLVM"),
    _cuda("sm_75", 75, "Turing", 64),
    _cuda("sm_80", 80, "Ampere", 163, sm_count=108),
    _cuda("sm_86", 86, "Ampere", 99, sm_count=84),
    _cuda("sm_89", 89, "Ada", 99, fp8=True, sm_count=128),
    _cuda("sm_90", 90, "Hopper", 227, 64 * 1024, fp8=True, tma=True, clusters=True, sm_count=132),
    _cuda("sm_90a", 90, "Hopper", 227, 64 * 1024, fp8=True, tma=True, clusters=True, wgmma=True, sm_count=132),
    _cuda("sm_100a", 100, "Blackwell", 227, 64 * 1024, fp8=True, tma=True, clusters=True, tcgen05=True, tmem_columns=512, sm_count=148),
    _cuda("sm_103a", 103, "Blackwell", 227, 64 * 1024, fp8=True, tma=True, clusters=True, tcgen05=True, tmem_columns=512, sm_count=160),
    _cuda("sm_120a", 120, "Blackwell (consumer)", 99, fp8=True, tma=True, clusters=True, sm_count=170),
)}

# The targets a kernel is checked for when the user names none and no GPU is found.
DECLARED = ("sm_80", "sm_90a", "sm_100a")

_ALIASES = {"llvm": "cpu", "c": "cpu", "hopper": "sm_90a", "ampere": "sm_80", "blackwell": "sm_100a", "sm_100": "sm_100a",
            "sm_103": "sm_103a", "sm_120": "sm_120a"}


def _near(key: str) -> str:
    """What an unknown name may have meant: ``sm90`` and ``90`` are the chip with all it can."""
    import difflib
    import re

    number = re.search(r"\d+", key)
    fitting = [t for t in TARGETS if number and re.fullmatch(rf"sm_{number.group()}a?", t)]
    return fitting[-1] if fitting else next(iter(difflib.get_close_matches(key, TARGETS, n=1)), "")


def find(name: str) -> Target:
    """A target by name, alias or ``cuda -arch=sm_90a``. Raises ValueError naming the known ones."""
    key = name.strip().lower().replace("compute_", "sm_")
    if "-arch" in key:
        key = key.split("-arch", 1)[1].lstrip("= ").split()[0]
    key = _ALIASES.get(key, key)
    if key not in TARGETS:
        near = _near(key)
        raise ValueError(f"unknown target {name!r}; {f'did you mean {near}? ' if near else ''}known: {', '.join(TARGETS)}")
    return TARGETS[key]
