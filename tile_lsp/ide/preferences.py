"""What the user chose in the editor. Values that make no sense are reported, not obeyed."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilec.records import dataclass
from tilec.target import chips

from ..releases import manifest
from . import project
from .project import Config

SECTION = "tile-lsp"  # of the client's settings


@dataclass(frozen=True)
class Preferences:
    """``target``: the chip that lowered views are for, "" for the kernel's own; ``run_target``: "" picks a GPU if
    there is one; ``tilelang_version``: "" for the one found; ``interpreter``: the client's Python."""

    target: str = ""
    targets: tuple[str, ...] = ()  # the project's: what is checked where the user chose none
    excluded: bool = False  # the project leaves the file out
    run_target: str = ""
    tilelang_version: str = ""
    interpreter: str = ""
    instances: tuple[str, ...] = ()
    config_instances: tuple[str, ...] = ()  # the project's
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: Mapping[str, str] = field(default_factory=dict)
    lowered_in_hover: bool = True
    prepare_runs: bool = True  # have a process with torch ready before the first run
    run_timeout: float = 120.0


def of_project(path: str, chosen: Preferences) -> tuple[Preferences, str]:
    """Preferences for a file: what its project's configuration says where the user chose nothing, and a complaint about it or ""."""
    file = Path(path)
    config, complaint = _project(file.parent)
    return replace(
        chosen,
        targets=config.targets,
        excluded=config.is_excluded(file),
        tilelang_version=chosen.tilelang_version or config.tilelang_version,
        config_instances=config.instances,
        select=chosen.select or ((*config.select, *config.extend_select) if config.select else ()),
        extend_select=(*chosen.extend_select, *config.extend_select),
        ignore=(*chosen.ignore, *config.ignore, *config.ignored_in(file)),
        severities={**config.severity, **chosen.severities},
    ), complaint


@lru_cache(maxsize=64)
def _project(folder: Path) -> tuple[Config, str]:
    try:
        return project.find(folder), ""
    except project.ConfigError as error:
        return Config(), str(error)


def forget_projects() -> None:
    """Read configurations again: they may have been edited."""
    _project.cache_clear()


_NAMES = {  # the client's spelling -> field
    "target": "target", "runTarget": "run_target", "tilelangVersion": "tilelang_version", "interpreter": "interpreter",
    "instances": "instances", "select": "select", "extendSelect": "extend_select", "ignore": "ignore", "severities": "severities",
    "loweredInHover": "lowered_in_hover", "prepareRuns": "prepare_runs", "runTimeout": "run_timeout",
}


def taken(value: Any, base: Preferences) -> tuple[Preferences, list[str]]:
    """As :func:`read`, of settings that stand by themselves or among those of others."""
    if isinstance(value, Mapping) and isinstance(value.get(SECTION), Mapping):
        value = value[SECTION]
    return read(value, base)


def read(value: Any, base: Preferences | None = None) -> tuple[Preferences, list[str]]:
    """Preferences from a client's JSON, and complaints ready to show. Unknown keys are left alone: they may be newer."""
    base = base or Preferences()
    if not isinstance(value, Mapping):
        return base, []
    chosen = {f.name: getattr(base, f.name) for f in fields(Preferences)}
    complaints = []
    for key, name in _NAMES.items():
        if value.get(key) is None:
            continue
        try:
            chosen[name] = _convert(name, value[key])
        except (ValueError, TypeError) as error:
            complaints.append(f"tile-lsp.{key}: {error}")
    return Preferences(**chosen), complaints


def _convert(name: str, value: Any) -> Any:
    if name in ("instances", "select", "extend_select", "ignore"):
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            raise ValueError(f"expected a list of texts, not {value!r}")
        return tuple(value)
    if name == "severities":
        if not isinstance(value, Mapping):
            raise ValueError(f"expected rule names with severities, not {value!r}")
        return {str(k): str(v) for k, v in value.items()}
    if name in ("lowered_in_hover", "prepare_runs"):
        return bool(value)
    if name == "run_timeout":
        seconds = float(value)
        if not 0 < seconds < 86400:
            raise ValueError(f"expected seconds, not {value!r}")
        return seconds
    if not isinstance(value, str):
        raise ValueError(f"expected a text, not {value!r}")
    text = value.strip()
    if name == "tilelang_version":
        return _version(text)
    return _target(name, text) if name in ("target", "run_target") else text


def _target(name: str, text: str) -> str:
    """A known target's own name; ``cuda`` (whichever GPU is there) makes sense for runs alone."""
    if text in ("", "auto"):
        return ""
    if name == "run_target" and text == "cuda":
        return text
    return chips.find(text).name


def _version(text: str) -> str:
    if text and text != "latest" and not manifest.is_known(text):
        raise ValueError(f"there is no TileLang {text}; known are {', '.join(manifest.versions())}")
    return text
