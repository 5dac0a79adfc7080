"""The import hook: ``import tilelang`` and its submodules find the modules of this folder."""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

# TileLang's module -> the module here that fills it, and the module whose names the language gives (or None).
MODULES: dict[str, tuple[str, str | None]] = {
    "tilelang": ("top", "tilelang"),
    "tilelang.language": ("language", "tilelang.language"),
    "tilelang.language.dtypes": ("data_types", "tilelang.language"),
    "tilelang.rocm.target": ("other_gpus", None),
    "tilelang.testing": ("testing", None),
    "tilelang.profiler": ("profiling", None),
    "tilelang.autotuner": ("tuning", None),
    "tilelang.jit": ("jitting", None),
    "tilelang.math": ("integers", None),
    "tilelang.utils": ("tensors", None),
    "tilelang.utils.tensor": ("tensors", None),
    "tilelang.env": ("environment", None),
    "tilelang.transform": ("passes", None),
    "tilelang.transform.simplify": ("simplifying", None),
    "tilelang.layout": ("layouts", "tilelang.layout"),
    "tilelang.layout.swizzle": ("layouts", "tilelang.layout"),
    "tilelang.tileop": ("empty", "tilelang.language"),
    "tilelang.tileop.base": ("empty", "tilelang.language"),
    "tilelang.intrinsics": ("empty", "tilelang.intrinsics"),
    "tilelang.cuda": ("empty", None),
    "tilelang.cuda.language": ("language", "tilelang.language"),
    "tilelang.cuda.intrinsics": ("empty", "tilelang.intrinsics"),
    "tilelang.cuda.intrinsics.sparse_layout": ("sparse_layout", None),
    "tilelang.carver": ("empty", None),
    "tilelang.carver.arch": ("chips", None),
    "tilelang.contrib": ("empty", None),
    "tilelang.contrib.nvcc": ("toolkit", None),
    "tilelang.engine": ("empty", None),
    "tilelang.engine.lower": ("lowering", None),
    "tilelang.errors": ("faults", None),
    "tilelang.tvm": ("tvm_types", None),
    "tvm": ("tvm_types", None),
    "tvm.target": ("tvm_target", None),
    "tvm.transform": ("tvm_passes", None),
    "tvm.error": ("tvm_errors", None),
    "tvm.tirx": ("tvm_expressions", None),
}


class _Served(types.ModuleType):
    """A module whose missing names are asked of the language."""

    _language: str | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Importing ``tilelang.jit`` leaves the decorator ``tilelang.jit`` in its place, as there."""
        if isinstance(value, types.ModuleType) and name in vars(self) and not isinstance(vars(self)[name], types.ModuleType):
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or self._language is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from ..jit.language import member

        found = member(self._language, name)
        setattr(self, name, found)
        return found


class _Internal(types.ModuleType):
    """A module of TileLang's or TVM's internals: its names are the language's where that has them, else only for importing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from .unavailable import Unavailable

        if f"{self.__name__}.{name}" in MODULES:
            return importlib.import_module(f"{self.__name__}.{name}")
        found = _of_language(self.__name__, name)
        found = Unavailable(f"{self.__name__}.{name}") if found is None else found
        setattr(self, name, found)
        return found


def _of_language(module: str, name: str) -> Any:
    if not module.startswith(("tilelang.language.", "tilelang.cuda.language.")):
        return None
    from ..jit.language import is_known, member

    return member("tilelang.language", name) if is_known(name) else None


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves the modules of the table; ``tvm`` only where none is installed."""

    def __init__(self, names: set[str]):
        self._names = names

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in self._names and not self._is_internal(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def _is_internal(self, fullname: str) -> bool:
        return fullname.startswith("tilelang.") or ("tvm" in self._names and _is_tvm(fullname))

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Served(spec.name) if spec.name in self._names and not _is_tvm(spec.name) else _Internal(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ not in self._names:
            return
        source, language = MODULES[module.__name__]
        module._language = language  # type: ignore[attr-defined]
        filled = importlib.import_module(f"{__package__}.{source}")
        module.__file__ = filled.__file__  # scripts look for the package's folder
        for name in getattr(filled, "__all__", [n for n in vars(filled) if not n.startswith("_")]):
            setattr(module, name, getattr(filled, name))


def _is_tvm(name: str) -> bool:
    return name == "tvm" or name.startswith("tvm.")


def install() -> None:
    """Serve TileLang's modules from now on. Does nothing the second time."""
    if any(isinstance(f, Finder) for f in sys.meta_path):
        return
    names = set(MODULES)
    if importlib.util.find_spec("tvm") is not None:
        names = {n for n in names if not _is_tvm(n)}
    for name in [n for n in sys.modules if n == "tilelang" or n.startswith("tilelang.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(names))
