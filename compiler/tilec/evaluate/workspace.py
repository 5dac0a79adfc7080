"""Modules: TileLang's and the modelled ones by name, the workspace's by their source files."""
from __future__ import annotations

import ast
from pathlib import Path, PurePath
from typing import Any

from ..ir import dtypes
from ..source.shared import shared_source
from .evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal
from .scope import Scope
from .values import MISSING, Api, DType, Module, unknown

# Submodules of TileLang that are modules themselves; every other attribute of `tilelang` is a name of its API.
TILELANG_MODULES = {"tilelang": {"language", "layout", "intrinsics", "utils", "testing", "profiler", "autotuner", "tools", "carver", "engine",
                                 "transform", "jit", "env", "primitives", "math", "contrib", "cuda"}}
_STARRED = {"tilelang": ("jit", "compile", "autotune"), "tilelang.autotuner": ("autotune", "jit"), "tilelang.jit": ("jit",)}  # of `from ... import *`
OWN_MODULES = {"tilec": "tilec", "tilec.language": "tilelang.language", "tilec.jit": "tilelang.jit"}  # the same language by the name of this compiler
OWN_NAMES = ("autotune", "cdiv", "compile", "jit", "language", "lazy_jit", "next_power_of_2", "par_compile", "PassConfigKey")
MAX_FILE_BYTES = 2_000_000
_LANGUAGE = "tilelang.language"
_INSTALLED = frozenset(("torch", "numpy", "triton", "pytest", "tvm", "einops", "functools", "math", "itertools", "os", "sys", "typing", "argparse", "time",
                        "re", "random", "logging", "dataclasses", "collections", "enum", "json", "warnings"))  # never a file beside the user's


class Workspace:
    """Finds modules. ``roots``: folders in which absolute imports are looked for, besides the importing file's own."""

    def __init__(self, roots: tuple[str, ...] = (), read: Any = None):
        self.roots = roots
        self.read = read or _read
        self.search: list[Any] = []  # sys.path of the program
        self._loaded: dict[str, Module | None] = {}

    # -- what import statements ask ------------------------------------------------------------------------------
    def module(self, ev: Evaluator, name: str) -> Any:
        if name == "tilelang" or name.startswith("tilelang."):
            return Module(name)
        if name in OWN_MODULES:
            return Module(OWN_MODULES[name])
        return self._file_module(ev, name, 0) or Module(name)

    def module_from(self, ev: Evaluator, name: str, level: int, scope: Scope) -> Any:
        if level == 0:
            return self.module(ev, name)
        return self._file_module(ev, name, level) or unknown(f"module {'.' * level}{name}")

    def member(self, ev: Evaluator, module: Any, name: str, node: Any) -> Any:
        if not isinstance(module, Module):
            return unknown(f"member {name}")
        if module.scope is not None:
            found = module.scope.names.get(name, MISSING)
            if found is not MISSING:
                return found
            return self._file_module(ev, f"{module.name}.{name}", 0) or unknown(f"{module.name}.{name}")
        if module.name == "tilec":
            return tilelang_member("tilelang", name) if name in OWN_NAMES else unknown(f"tilec.{name}")
        if module.name.startswith("tilelang"):
            return tilelang_member(module.name, name)
        if module.name == "sys" and name == "path":
            return self.search
        return modules.member(module.name, name)

    def import_star(self, ev: Evaluator, module: Any, scope: Scope) -> None:
        if isinstance(module, Module) and module.scope is not None:
            scope.names.update({n: v for n, v in module.scope.names.items() if not n.startswith("_")})
            scope.open_world = scope.open_world or module.scope.open_world
            return
        scope.open_world = True
        for name in _STARRED.get(module.name, ()) if isinstance(module, Module) else ():
            scope.names.setdefault(name, tilelang_member("tilelang", name))
        if isinstance(module, Module) and module.name == _LANGUAGE:
            for name in (*registry.known_names(), *dtypes.SCALARS, "float", "int"):
                if name not in ("float", "int", "bool"):
                    scope.names.setdefault(name, tilelang_member(_LANGUAGE, name))

    # -- files ---------------------------------------------------------------------------------------------------
    def _file_module(self, ev: Evaluator, name: str, level: int) -> Module | None:
        if not level and name.partition(".")[0] in _INSTALLED:
            return None
        path = self._find(Path(ev.source.path), name, level)
        if path is None:
            return None
        key = str(path)
        if key not in self._loaded:
            self._loaded[key] = None  # an import cycle finds nothing
            self._loaded[key] = self._load(ev, path, name)
        return self._loaded[key]

    def _find(self, importer: Path, name: str, level: int) -> Path | None:
        parts = name.split(".") if name else []
        if level:
            base = importer.parent
            for _ in range(level - 1):
                base = base.parent
            bases = [base]
        else:
            bases = [importer.parent, *map(Path, self.roots), *(Path(p) for p in self.search if isinstance(p, (str, PurePath)))]
        for base in bases:
            target = base.joinpath(*parts)
            for candidate in (target.with_suffix(".py") if parts else None, target / "__init__.py"):
                if candidate is not None and self.read(candidate, probe=True):
                    return candidate
        return None

    def _load(self, ev: Evaluator, path: Path, name: str) -> Module | None:
        text = self.read(path)
        if text is None:
            return None
        source = shared_source(str(path), text)
        scope = Scope(None, "module", source)
        scope.names.update(__name__=name, __file__=str(path))
        outer, reporting, hook, builder = ev.source, ev.reporting, ev.on_call, ev.builder
        ev.source, ev.reporting, ev.on_call, ev.builder = source, False, None, None
        try:
            run_tolerantly(ev, source.tree.body, scope)
        finally:
            ev.source, ev.reporting, ev.on_call, ev.builder = outer, reporting, hook, builder
        return Module(name, scope)


def run_tolerantly(ev: Evaluator, body: list[ast.stmt], scope: Scope) -> None:
    """Run a module's statements; one that raises or jumps does not keep the others from running."""
    for statement in body:
        try:
            ev.run([statement], scope)
        except (Raised, ReturnSignal, BreakSignal, ContinueSignal):
            continue


def _read(path: Path, probe: bool = False) -> Any:
    try:
        if probe:
            return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def tilelang_member(module: str, name: str) -> Any:
    """A name of a TileLang module: a submodule, a data type, or an API name."""
    if module == "tilelang":
        if name == "language":
            return Module(_LANGUAGE)
        if name in TILELANG_MODULES["tilelang"] and name != "jit":
            return Module(f"tilelang.{name}")
        if name in ("tvm", "tir", "tirx"):
            return Module("tvm" if name == "tvm" else f"tvm.{name}")
        return Api("tilelang", name)
    if module == _LANGUAGE:
        dtype = dtypes.canonical(name)
        if dtype is not None and name not in ("handle", "e4m3", "e5m2"):
            return DType(dtype)
    return Api(module, name)

from .python import modules  # noqa: E402  (they need the names above)
from .tile import registry  # noqa: E402  (they need the names above)
