"""Configuration of a project: ``[tool.tile-lsp]`` in pyproject.toml, or ``tile-lsp.toml``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

KEYS = (
    "targets",
    "tilelang-version",
    "select",
    "extend-select",
    "ignore",
    "severity",
    "per-file-ignores",
    "instances",
    "exclude",
)
_DEPTH = 20


class ConfigError(Exception):
    """A configuration that makes no sense; the text says where, why and what to do instead."""


@dataclass(frozen=True)
class Config:
    """``root``: the folder of the file, which globs are relative to; None if there is no configuration."""

    root: Path | None = None
    targets: tuple[str, ...] = ()
    tilelang_version: str = ""
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: dict[str, str] = field(default_factory=dict)
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    instances: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def ignored_in(self, path: Path) -> tuple[str, ...]:
        """Selectors that ``per-file-ignores`` has for a file."""
        return tuple(
            s for pattern, selectors in self.per_file_ignores.items() if self.fits(pattern, path) for s in selectors
        )

    def is_excluded(self, path: Path) -> bool:
        return any(self.fits(pattern, path) for pattern in self.exclude)

    def fits(self, pattern: str, path: Path) -> bool:
        absolute = path.absolute()
        root = (self.root or Path.cwd()).absolute()
        relative = absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else absolute.as_posix()
        return (
            fnmatch(relative, pattern)
            or fnmatch(absolute.name, pattern)
            or fnmatch(relative, f"{pattern.rstrip('/')}/*")
            or fnmatch(relative, f"*/{pattern.rstrip('/')}/*")
        )


def find(start: Path) -> Config:
    """The configuration that applies to a folder: the nearest one above. Raises ConfigError if it makes no sense."""
    start = start.absolute()
    for folder in [start, *start.parents][:_DEPTH]:
        own = folder / "tile-lsp.toml"
        if own.is_file():
            return read(own)
        project = folder / "pyproject.toml"
        if project.is_file() and "tile-lsp" in _text(project):
            if isinstance(_load(project).get("tool", {}).get("tile-lsp"), dict):
                return read(project)
    return Config()


def read(path: Path) -> Config:
    """The configuration of one file: the whole of it, or ``[tool.tile-lsp]`` if it is a pyproject.toml."""
    data = _load(path)
    if path.name != "pyproject.toml":
        return parse(data, path, "")
    table = data.get("tool", {}).get("tile-lsp", {})
    return parse(table if isinstance(table, dict) else {}, path, "tool.tile-lsp.")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _load(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def parse(table: dict[str, Any], path: Path, prefix: str) -> Config:
    for key in table:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(KEYS)}"
            raise ConfigError(f"{path}: unknown key {prefix}{key}{hint}")
    reader = _Reader(table, path, prefix)
    return Config(
        path.parent,
        reader.texts("targets"),
        reader.text("tilelang-version"),
        reader.texts("select"),
        reader.texts("extend-select"),
        reader.texts("ignore"),
        reader.severities(),
        {k: reader.as_texts(f"per-file-ignores.{k}", v) for k, v in reader.table("per-file-ignores").items()},
        reader.instances(),
        reader.texts("exclude"),
    )


class _Reader:
    def __init__(self, table: dict[str, Any], path: Path, prefix: str):
        self.values, self.path, self.prefix = table, path, prefix

    def fail(self, key: str, wanted: str, value: Any) -> ConfigError:
        return ConfigError(f"{self.path}: {self.prefix}{key} must be {wanted}, not {value!r}")

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self.fail(key, "a text", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return self.as_texts(key, self.values.get(key, []))

    def as_texts(self, key: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(key, "a list of texts", value)
        return tuple(value)

    def table(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.fail(key, "a table", value)
        return value

    def severities(self) -> dict[str, str]:
        from tilec.check.settings import check_severities

        chosen = {str(k): str(v) for k, v in self.table("severity").items()}
        for complaint in check_severities(chosen):
            raise ConfigError(f"{self.path}: {self.prefix}severity: {complaint}")
        return chosen

    def instances(self) -> tuple[str, ...]:
        """A list of calls, or a table of kernels with their arguments: ``matmul = ["1024, 1024, 1024"]``."""
        value = self.values.get("instances", [])
        if not isinstance(value, dict):
            return self.texts("instances")
        found = []
        for kernel, arguments in value.items():
            for one in self.as_texts(f"instances.{kernel}", arguments):
                found.append(one if one.strip().startswith(f"{kernel}(") else f"{kernel}({one})")
        return tuple(found)
