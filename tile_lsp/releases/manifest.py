"""What each TileLang release exports: the manifests carried as package data, one loaded at a time."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from dataclasses import field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tilec.records import dataclass

from . import history
from .history import Replacement
from .versions import is_version, release_numbers, sort_key

MANIFESTS = Path(__file__).with_name("manifests")
FACADE = "tilelang.language"
KINDS = {"f": "function", "c": "class", "d": "dtype", "o": "op", "k": "constant", "m": "module", "x": "macro-decorator"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """``kind``: ``positional_only``, ``positional_or_keyword``, ``keyword_only``, ``var_positional``,
    ``var_keyword``."""

    name: str
    kind: str
    has_default: bool = False
    default: str = ""
    annotation: str = ""


class Entry(NamedTuple):
    """One exported name (a tuple: a manifest makes 800 of them at every start).

    ``signature`` is the parameter list as Python source, None if unknown.
    """

    kind: str
    module: str
    signature: str | None
    incidental: bool = False  # left behind in the namespace by an import


@dataclass
class Manifest:
    """The names of one release. Implements the ``Api`` that the checker asks."""

    version: str
    language: dict[str, Entry]
    top_level: dict[str, Entry]
    elsewhere_in: dict[str, str] = field(default_factory=dict)
    pass_config_keys: dict[str, str] = field(default_factory=dict)
    source: str = "shipped"  # or the path whose sources the names were read from
    packed_modules: dict[str, dict[str, list]] = field(default_factory=dict)  # of other modules (tilelang.testing ...), as in the file

    def table(self, module: str) -> dict[str, Entry]:
        return self.language if module == FACADE else self.top_level if module == "tilelang" else self.modules.get(module, {})

    @cached_property
    def modules(self) -> dict[str, dict[str, Entry]]:
        return {name: _entries(table) for name, table in self.packed_modules.items()}

    def has(self, name: str, module: str = FACADE) -> bool:
        return name in self.table(module)

    def names(self, module: str = FACADE) -> Iterable[str]:
        """The names a user would mean: without helpers and what imports left behind."""
        return (n for n, e in self.table(module).items() if not e.incidental and not n.startswith("_"))

    def entry(self, name: str, module: str = FACADE) -> Entry | None:
        return self.table(module).get(name)

    def kind(self, name: str, module: str = FACADE) -> str | None:
        entry = self.entry(name, module)
        return entry.kind if entry else None

    def parameters(self, name: str, module: str = FACADE) -> tuple[Parameter, ...] | None:
        entry = self.entry(name, module)
        return None if entry is None or entry.signature is None else parse_signature(entry.signature)

    def elsewhere(self, name: str) -> str | None:
        """A module that defines a name which ``tilelang.language`` lacks."""
        return self.elsewhere_in.get(name)

    def added_in(self, name: str) -> str | None:
        return history.added_in(name)

    def removed_in(self, name: str) -> str | None:
        return history.removed_in(name)

    def parameter_added_in(self, name: str, parameter: str) -> str | None:
        return history.parameter_added_in(name, parameter, self.version)

    def parameter_removed_in(self, name: str, parameter: str) -> str | None:
        return history.parameter_removed_in(name, parameter, self.version)

    def replacement(self, name: str) -> Replacement | None:
        """What to write instead of a name that this release lacks."""
        return history.replacement(name, self.has)

    def clean_calls(self) -> set[Any]:
        return self._clean_calls

    @cached_property
    def _clean_calls(self) -> set[Any]:
        return set()

    @cached_property
    def position(self) -> tuple[tuple[int, ...], int, int]:
        return sort_key(self.version)


@lru_cache(maxsize=512)
def parse_signature(text: str) -> tuple[Parameter, ...]:
    arguments = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found = []
    for i, a in enumerate(positional):
        kind = "positional_only" if i < len(arguments.posonlyargs) else "positional_or_keyword"
        found.append(_parameter(a, kind, arguments.defaults[i - first_default] if i >= first_default else None))
    if arguments.vararg:
        found.append(_parameter(arguments.vararg, "var_positional", None))
    found += [_parameter(a, "keyword_only", d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append(_parameter(arguments.kwarg, "var_keyword", None))
    return tuple(found)


def _parameter(a: ast.arg, kind: str, default: ast.expr | None) -> Parameter:
    return Parameter(
        a.arg,
        kind,
        default is not None,
        ast.unparse(default) if default is not None else "",
        ast.unparse(a.annotation) if a.annotation is not None else "",
    )


@cache
def versions() -> tuple[str, ...]:
    """The shipped releases, oldest first."""
    names = [p.stem for p in MANIFESTS.glob("*.json") if is_version(p.stem)]
    return tuple(sorted(names, key=sort_key))


def latest() -> str:
    return versions()[-1]


def is_known(version: str) -> bool:
    """Whether a manifest is that of a version: a shipped release, or another build of one (``0.1.8+cu128``, ``0.1.7.post1``)."""
    return is_version(version) and release_numbers(version) in {release_numbers(v) for v in versions()}


def nearest(version: str) -> str:
    """The shipped release that stands for a version: itself, one of the same number, else the newest older one.

    Raises ValueError if the text is no version number.
    """
    if version in versions():
        return version
    key = sort_key(version)
    same = [v for v in versions() if release_numbers(v) == key[0]]
    if same:
        return same[-1]
    older = [v for v in versions() if sort_key(v) < key]
    return older[-1] if older else versions()[0]


@lru_cache(maxsize=4)
def load(version: str) -> Manifest:
    """The manifest of the shipped release nearest to ``version`` (``latest`` for the newest). Raises ValueError."""
    name = latest() if version == "latest" else nearest(version)
    data = json.loads((MANIFESTS / f"{name}.json").read_text())
    return Manifest(
        name,
        _entries(data["language"]),
        _entries(data["top_level"]),
        data["elsewhere"],
        data["pass_config_keys"],
        packed_modules=data.get("modules", {}),
    )


def _entries(table: dict[str, list]) -> dict[str, Entry]:
    return {name: Entry(KINDS[e[0]], e[1], e[2], len(e) > 3) for name, e in table.items()}
