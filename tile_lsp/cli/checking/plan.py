"""What applies to a file: its project's configuration under the options of the command line, and its TileLang."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from dataclasses import field
from pathlib import Path

from tilec.check.settings import Settings, near_selectors, unknown_selectors
from tilec.records import dataclass
from tilec.target import chips

from ...ide import project
from ...ide.project import Config
from ...releases import discover, manifest
from ...releases.discover import InstalledTileLang
from ..main import UsageError
from .files import Text

_PACKAGE = Path(__file__).resolve().parents[2]
# The code that decides what a check says: a change there makes old results worthless.
_DECIDING = ("releases", "ide", "cli")
_DECIDING_TILEC = ("source", "ir", "language", "evaluate", "target", "check", "analysis")


@dataclass(frozen=True)
class Plan:
    """How files are checked. ``found``: their TileLang, None for ``version`` (a shipped release)."""

    settings: Settings
    targets: tuple[str, ...]
    explicit: bool  # the targets are the user's choice
    version: str
    how: str
    found: InstalledTileLang | None = None
    lowest: str = ""  # the oldest release that the project allows, if it is older than ``version``
    instances: tuple[str, ...] = ()
    config_instances: tuple[str, ...] = ()
    coverage: bool = False
    names: str = ""  # the state of the sources that the names of ``found`` are read from, "" for a shipped manifest

    def context(self) -> str:
        """Everything but the files that a result depends on, as a hash."""
        s = self.settings
        parts = (
            sorted(s.select), sorted(s.ignore), sorted(s.severities.items()), s.unused_ignores, self.targets, self.explicit,
            self.version, self.how, self.names, self.lowest, self.instances, self.config_instances, self.coverage, tool_fingerprint(),
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Fixing:
    """``write`` False: only tell what would change."""

    unsafe: bool = False
    write: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """A file to check. ``name``: what it is called in the result (standard input has one too); ``text``: what standard input gave."""

    number: int
    path: str
    name: str
    plan: Plan
    size: int = 0
    fixing: Fixing | None = None
    text: Text | None = None


@dataclass
class Planner:
    """Finds the plan of each file; what folders have in common is looked up once."""

    args: argparse.Namespace
    finder: discover.Finder = field(default_factory=discover.Finder)
    _configs: dict[Path, Config] = field(default_factory=dict)
    _plans: dict[tuple[str, tuple[str, ...]], Plan] = field(default_factory=dict)
    _names: dict[InstalledTileLang, str] = field(default_factory=dict)
    _chosen: Config | None = None

    def __post_init__(self) -> None:
        for option in ("select", "extend_select", "ignore"):
            _check_selectors(f"--{option.replace('_', '-')}", split(getattr(self.args, option)))
        for name in split(self.args.target):
            try:
                chips.find(name)
            except ValueError as error:
                raise UsageError(f"--target: {error}") from None
        if self.args.tilelang_version:
            known_version(self.args.tilelang_version)
        if self.args.config:
            path = Path(self.args.config)
            if not path.is_file():
                raise UsageError(f"--config {path}: no such file")
            self._chosen = _usage(project.read, path)

    def config(self, folder: Path) -> Config:
        """The configuration that applies to a folder."""
        if self._chosen is not None:
            return self._chosen
        if folder not in self._configs:
            self._configs[folder] = _usage(project.find, folder)
        return self._configs[folder]

    def plan(self, path: str) -> Plan:
        folder = os.path.dirname(os.path.abspath(path))
        config = self.config(Path(folder))
        ignored = config.ignored_in(Path(path)) if config.per_file_ignores else ()
        key = (folder, ignored)
        if key not in self._plans:
            self._plans[key] = self._make(Path(folder), config, ignored)
        return self._plans[key]

    def _make(self, folder: Path, config: Config, ignored: tuple[str, ...]) -> Plan:
        args = self.args
        names = split(args.target) or config.targets
        version, how, found = self._tilelang(folder, config)
        # A comment may be there for another chip, release or instance than the ones chosen for this run.
        narrowed = bool(args.target or args.tilelang_version or args.instance)
        lowest = "" if args.tilelang_version or (found is not None and found.is_tree) else self.finder.lowest_allowed(folder) or ""
        return Plan(
            self._settings(config, ignored, not narrowed),
            tuple(chips.find(n).name for n in names or chips.DECLARED),
            bool(names),
            version,
            how,
            found,
            lowest if lowest and lowest != version else "",
            tuple(args.instance),
            config.instances,
            args.statistics,
            self._names_state(found),
        )

    def _names_state(self, found: InstalledTileLang | None) -> str:
        if found is None or found.is_shipped or found.path is None:
            return ""
        if found not in self._names:
            from ...releases import trees

            self._names[found] = trees.fingerprint(found.path, found.version)
        return self._names[found]

    def _settings(self, config: Config, ignored: tuple[str, ...], judge_ignores: bool) -> Settings:
        extended = (*config.extend_select, *split(self.args.extend_select))
        select = split(self.args.select) or config.select
        ignore = (*config.ignore, *split(self.args.ignore), *ignored)
        chosen = frozenset((*select, *extended) if select else ())
        return Settings(chosen, frozenset(ignore), config.severity, judge_ignores, frozenset(extended))

    def _tilelang(self, folder: Path, config: Config) -> tuple[str, str, InstalledTileLang | None]:
        wanted = self.args.tilelang_version or config.tilelang_version
        if wanted:
            return known_version(wanted), "chosen", None
        found = self.finder.find(folder)
        if found is None:
            return manifest.latest(), "the newest known; none was found", None
        return found.version, found.how, found


def known_version(text: str) -> str:
    """The shipped release that a version on the command line means."""
    if text == "latest":
        return manifest.latest()
    if not manifest.is_known(text):
        raise UsageError(f"--tilelang-version {text}: no such release; known are {', '.join(manifest.versions())}, and latest")
    return manifest.nearest(discover.public_version(text))


def _usage(read, path: Path) -> Config:
    try:
        return read(path)
    except project.ConfigError as error:
        raise UsageError(str(error)) from None


def _check_selectors(where: str, selectors: tuple[str, ...]) -> None:
    unknown = unknown_selectors(selectors)
    if unknown:
        near = near_selectors(unknown[0])
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{where}: no rule, family or code is called {', '.join(unknown)}{hint} (tile-lsp rule --all lists them)")


def split(values: list[str]) -> tuple[str, ...]:
    """``["a,b", "c"]`` as a, b and c."""
    return tuple(v.strip() for value in values for v in value.split(",") if v.strip())


_FINGERPRINT: list[str] = []


def tool_fingerprint() -> str:
    """This tool's version, and the state of its sources: they change without it under development."""
    if not _FINGERPRINT:
        import tilec

        digest = hashlib.sha256(f"{tilec.__version__} {sys.version_info}".encode())
        compiler = os.path.dirname(os.path.abspath(tilec.__file__))
        for base, folders in ((str(_PACKAGE), _DECIDING), (compiler, _DECIDING_TILEC)):
            for folder in folders:
                for state in _states(os.path.join(base, folder)):
                    digest.update(state.encode())
        _FINGERPRINT.append(digest.hexdigest())
    return _FINGERPRINT[0]


def _states(folder: str) -> list[str]:
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(files):
            if name.endswith((".py", ".json")):
                path = os.path.join(where, name)
                state = os.stat(path)
                found.append(f"{path} {state.st_mtime_ns} {state.st_size}\n")
    return found
