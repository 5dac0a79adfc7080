"""Executing the user's file for its reference and input functions, with inert TileLang where TileLang is not installed.

Only ever done in the run process: the file's own top-level code runs.
"""
from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ..records import dataclass


class Inert:
    """Stands for anything of TileLang while a file is imported. A decorator made of it returns the function unchanged."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (isinstance(args[0], (type, types.FunctionType))):
            return args[0]
        return Inert()

    def __getitem__(self, index: Any) -> Any:
        return Inert()

    def __enter__(self) -> Any:
        return Inert()

    def __exit__(self, *exception: Any) -> None:
        return None

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)


class _InertModule(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()


class _InertFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``tilelang`` and everything below it, empty."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.split(".")[0] == "tilelang":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _InertModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def install_inert_tilelang() -> None:
    """Make ``import tilelang`` succeed where it is not installed."""
    if importlib.util.find_spec("tilelang") is None:
        sys.meta_path.append(_InertFinder())


@dataclass
class UserModule:
    """The names a file defines. ``failure``: the first top-level statement that raised, in words."""

    path: str
    names: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


def execute_file(path: str, text: str, overrides: Mapping[str, Any] | None = None) -> UserModule:
    """Run a file's top-level statements, each for itself: one that needs what is not here (a GPU, TileLang) does not stop the rest."""
    install_inert_tilelang()
    folder = str(Path(path).absolute().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = types.ModuleType("tile_lsp_user_file")
    module.__file__ = path
    sys.modules[module.__name__] = module
    found = UserModule(path, module.__dict__)
    for statement in ast.parse(text, path).body:
        try:
            exec(compile(_one(statement), path, "exec"), module.__dict__)  # the user's own file, run at the user's demand
        except (Exception, SystemExit) as error:
            found.failure = found.failure or f"line {statement.lineno} of {Path(path).name} raises {type(error).__name__}: {' '.join(str(error).split())}"
    return found


def _one(statement: ast.stmt) -> ast.Module:
    return ast.Module([statement], type_ignores=[])
