"""Configurations of a kernel whose user gives none: usual values of the parameters that name tiles, ranked by ``runtime/tile_model``."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..runtime.tile_model import Estimate, NotEstimated, estimate
from ..target.chips import Target
from .errors import CompileError
from .trace import PrimFunc

_DEPTHS_AND_STAGES = ((32, 4), (64, 3), (64, 4), (128, 2), (128, 3))
_VALUES = {"rows": (64, 128, 256), "columns": (64, 128, 256), "depth": (32, 64, 128), "stages": (2, 3, 4), "threads": (128, 256)}
_MEANINGS = {"m": "rows", "n": "columns", "k": "depth", "stages": "stages", "numstages": "stages", "threads": "threads", "numthreads": "threads"}


def meaning(name: str) -> str | None:
    """What a parameter named so is: block_M, BLOCK_N, bk, num_stages, threads ...; None for others."""
    plain = name.lower().replace("_", "")
    for prefix in ("block", "tile", "b"):
        rest = plain.removeprefix(prefix)
        if rest != plain and rest in ("m", "n", "k"):
            return _MEANINGS[rest]
    return _MEANINGS.get(plain) if plain not in ("m", "n", "k") else None


def configurations(names: Iterable[str]) -> list[dict[str, Any]]:
    """All usual values of the named parameters; deep tiles with few stages and shallow ones with many."""
    known = [(name, what) for name in names if (what := meaning(name)) is not None]
    found = []
    for values in itertools.product(*(_VALUES[what] for _, what in known)):
        chosen = {what: value for (_, what), value in zip(known, values)}
        depth, stages = chosen.get("depth"), chosen.get("stages")
        if depth is not None and stages is not None and (depth, stages) not in _DEPTHS_AND_STAGES:
            continue
        if chosen.get("rows", 1) * chosen.get("columns", 1) > 192 * chosen.get("threads", 256):
            continue  # an accumulator alone would take more than 192 registers a thread
        found.append({name: value for (name, _), value in zip(known, values)})
    return found


def ranked(configs: Iterable[Any], program_of: Callable[[Any], PrimFunc], target: Target) -> list[tuple[Any, Estimate]]:
    """Those that can be compiled, the fastest first; of equals the one with more stages."""
    found = list(_estimates(configs, program_of, target))
    return sorted(found, key=lambda item: (round(item[1].seconds, 9), -item[1].shared_bytes))


def _estimates(configs: Iterable[Any], program_of: Callable[[Any], PrimFunc], target: Target) -> Iterator[tuple[Any, Estimate]]:
    for config in configs:
        try:
            yield config, estimate(program_of(config).program, target)
        except (CompileError, NotEstimated, ValueError):
            continue
