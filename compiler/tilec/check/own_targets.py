"""The targets a file names for its kernels itself, which take the place of the candidates."""

from __future__ import annotations

from typing import Any

from ..ir.program import TileProgram
from ..target.chips import Target, find


def own_targets(program: TileProgram, candidates: tuple[Target, ...]) -> tuple[Target, ...]:
    """The candidates, if the kernel is for the machine's own GPU as well, or for one that is not known."""
    named = program.attrs.get("targets") or (program.attrs.get("target"),)
    found = [_target(name) for name in named]
    known = [t for t in found if t is not None]
    return candidates if len(known) < len(found) else tuple(dict.fromkeys(known))


def elsewhere(program: TileProgram) -> tuple[Target, ...]:
    """The targets of a kernel that its file compiles for nothing but other makers' GPUs or the CPU: it is not meant for the user's choice."""
    found = own_targets(program, ()) if program.attrs.get("targets") else ()
    return () if any(t.kind == "cuda" for t in found) else found


def _target(name: Any) -> Target | None:
    """None for "cuda" of no certain generation."""
    if isinstance(name, dict):
        name = name.get("arch") or name.get("kind")
    if not isinstance(name, str):
        return None
    kind = name.split()[0] if name.split() else ""
    if "sm_" not in name and "arch" not in name and kind in ("cuda", "nvidia"):
        return None
    try:
        return find(name)
    except (ValueError, IndexError):
        return FOREIGN.get(kind)


# Targets TileLang compiles for that are no chips of ours: the language's own rules hold on them.
FOREIGN = {name: Target(name, kind) for name, kind in {
    "hip": "hip", "rocm": "hip", "metal": "metal", "webgpu": "webgpu", "opencl": "opencl", "vulkan": "vulkan", "musa": "musa",
}.items()}
