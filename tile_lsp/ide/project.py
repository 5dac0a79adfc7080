"""Configuration of a project: ``[tool.tile-lsp]`` in pyproject.toml, or ``tile-lsp.toml``."""

from __future__ import annotations

import os
import re
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tilec.records import dataclass

from .project_keys import KEYS

OWN_FILE = "tile-lsp.toml"
_DEPTH = 20
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


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
    cache_dir: str = ""
    file: Path | None = None

    def ignored_in(self, path: Path) -> tuple[str, ...]:
        """Selectors that ``per-file-ignores`` has for a file."""
        return tuple(s for pattern, selectors in self.per_file_ignores.items() if self.fits(pattern, path) for s in selectors)

    def is_excluded(self, path: Path) -> bool:
        return bool(self.exclude) and any(self.fits(pattern, path) for pattern in self.exclude)

    def fits(self, pattern: str, path: Path) -> bool:
        """Whether a glob names a file, or a folder above it."""
        absolute = path.absolute().as_posix()
        root = (self.root or Path.cwd()).absolute().as_posix().rstrip("/") + "/"
        relative = absolute[len(root) :] if absolute.startswith(root) else absolute
        pattern = pattern.removeprefix("./")
        below = pattern.rstrip("/")
        return (
            fnmatchcase(relative, pattern)
            or fnmatchcase(absolute.rsplit("/", 1)[-1], pattern)
            or fnmatchcase(relative, f"{below}/*")
            or fnmatchcase(relative, f"*/{below}/*")
        )


def find(start: Path) -> Config:
    """The configuration that applies to a folder: the nearest one above. Raises ConfigError if it makes no sense."""
    start = start.absolute()
    for folder in [start, *start.parents][:_DEPTH]:
        own = folder / OWN_FILE
        if os.path.isfile(own):  # unlike Path.is_file, of a folder that may not be entered too
            return read(own)
        project = folder / "pyproject.toml"
        if _mentions_us(project):
            tool = _load(project, _text(project)).get("tool", {})
            if isinstance(tool, dict) and "tile-lsp" in tool:
                return read(project)
    return Config()


def _mentions_us(project: Path) -> bool:
    """Whether there is a reason to parse the file: it may be big, or not be ours to complain about."""
    try:
        return os.path.isfile(project) and b"tile-lsp" in project.read_bytes()
    except OSError:
        return False


def read(path: Path) -> Config:
    """The configuration of one file: the whole of it, or ``[tool.tile-lsp]`` if it is a pyproject.toml."""
    text = _text(path)
    data = _load(path, text)
    if path.name != "pyproject.toml":
        return _Reader(data, path, text, ()).config()
    tool = data.get("tool", {})
    return _Reader(tool.get("tile-lsp", {}) if isinstance(tool, dict) else {}, path, text, ("tool", "tile-lsp")).config()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not text in UTF-8, which TOML is written in") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None


def _load(path: Path, text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        what = _PLACE.sub("", str(error))
        where = f":{place[1]}:{place[2]}" if place and place[1] else f":{max(text.count(chr(10)), 1)}"
        raise ConfigError(f"{path}{where}: not valid TOML: {what}") from None


class _Reader:
    """One table of settings, read with complaints that name the line."""

    def __init__(self, table: Any, path: Path, text: str, prefix: tuple[str, ...]):
        self.path, self.file_text, self.prefix = path, text, prefix
        if not isinstance(table, dict):
            raise self.wrong_type((), "a table", table)
        self.values: dict[str, Any] = table

    def config(self) -> Config:
        for key in self.values:
            if key not in KEYS:
                raise self.unknown(key)
        return Config(
            self.path.parent,
            self.targets(),
            self.version(),
            self.selectors("select"),
            self.selectors("extend-select"),
            self.selectors("ignore"),
            self.severities(),
            {k: self.checked_selectors(("per-file-ignores", k), v) for k, v in self.table("per-file-ignores").items()},
            self.instances(),
            self.texts("exclude"),
            self.text("cache-dir"),
            self.path,
        )

    # -- complaints ----------------------------------------------------------------------------------------------
    def name(self, keys: tuple[str, ...]) -> str:
        return ".".join((*self.prefix, *keys))

    def error(self, keys: tuple[str, ...], what: str, value: str | None = None) -> ConfigError:
        from .toml_places import line_of

        line = line_of(self.file_text, (*self.prefix, *keys), value)
        return ConfigError(f"{self.path}{f':{line}' if line else ''}: {what}")

    def unknown(self, key: str) -> ConfigError:
        import difflib

        near = difflib.get_close_matches(key.replace("_", "-").lower(), KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
        return self.error((key,), f"unknown key {self.name((key,))}; {hint}")

    def wrong_type(self, keys: tuple[str, ...], wanted: str, value: Any) -> ConfigError:
        return self.error(keys, f"{self.name(keys)} must be {wanted}, not {value!r}")

    # -- values --------------------------------------------------------------------------------------------------
    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self.wrong_type((key,), "a text", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return self.as_texts((key,), self.values.get(key, []))

    def as_texts(self, keys: tuple[str, ...], value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.wrong_type(keys, "a list of texts", value)
        return tuple(value)

    def table(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong_type((key,), "a table", value)
        return value

    def selectors(self, key: str) -> tuple[str, ...]:
        return self.checked_selectors((key,), self.values.get(key, []))

    def checked_selectors(self, keys: tuple[str, ...], value: Any) -> tuple[str, ...]:
        from tilec.check.settings import near_selectors, unknown_selectors

        found = self.as_texts(keys, value)
        for selector in unknown_selectors(found):
            near = near_selectors(selector)
            hint = f"did you mean {' or '.join(near)}?" if near else "tile-lsp rule --all lists them"
            raise self.error(keys, f"{self.name(keys)}: no rule, family or code is called {selector!r}; {hint}", selector)
        return found

    def targets(self) -> tuple[str, ...]:
        from tilec.target import chips

        found = self.texts("targets")
        for name in found:
            try:
                chips.find(name)
            except ValueError as error:
                raise self.error(("targets",), f"{self.name(('targets',))}: {error}", name) from None
        return found

    def version(self) -> str:
        from ..releases import manifest

        text = self.text("tilelang-version")
        if text and text != "latest" and not manifest.is_known(text):
            keys = ("tilelang-version",)
            raise self.error(keys, f"{self.name(keys)}: there is no TileLang {text}; known are {', '.join(manifest.versions())}, and latest")
        return text

    def severities(self) -> dict[str, str]:
        from tilec.check.settings import check_severities, near_selectors

        chosen: dict[str, str] = {}
        for key, value in self.table("severity").items():
            for complaint in check_severities({key: str(value)}):
                near = near_selectors(key) if complaint.startswith("no rule") else []
                hint = f"; did you mean {' or '.join(near)}?" if near else ""
                raise self.error(("severity", key), f"{self.name(('severity',))}: {complaint}{hint}")
            chosen[key] = str(value)
        return chosen

    def instances(self) -> tuple[str, ...]:
        """A list of calls, or a table of kernels with their arguments: ``matmul = ["1024, 1024, 1024"]``."""
        value = self.values.get("instances", [])
        if not isinstance(value, dict):
            return tuple(self.call(("instances",), text, text) for text in self.texts("instances"))
        found = []
        for kernel, arguments in value.items():
            for one in self.as_texts(("instances", kernel), arguments):
                found.append(self.call(("instances", kernel), one if one.strip().startswith(f"{kernel}(") else f"{kernel}({one})", one))
        return tuple(found)

    def call(self, keys: tuple[str, ...], text: str, written: str) -> str:
        """Whether its kernel exists shows only when files are read: they need not all have it."""
        import ast

        try:
            ast.parse(text.strip(), mode="eval")
        except SyntaxError as error:
            raise self.error(keys, f"{self.name(keys)}: {written!r} gives no call such as matmul(1024, 1024, block_N=128): {error.msg}", written) from None
        return text
