"""Standard-library modules, as far as code around kernels uses them."""
from __future__ import annotations

import itertools
import math
import operator
from typing import Any

from ...ir import build
from ...ir.expr import Expr
from ..evaluator import Evaluator
from ..sizes import are_sizes
from ..sizes import call as size_call
from ..surroundings import HostTarget
from ..values import TVM, Api, Class, DType, Function, Instance, Module, Native, Partial, dtype_name, is_device, is_unknown, plain, unknown
from .builtins import BUILTINS, host

_MATH_ON_DEVICE = {"sqrt": "T.sqrt", "exp": "T.exp", "log": "T.log", "log2": "T.log2", "ceil": "T.ceil", "floor": "T.floor", "sin": "T.sin",
                   "cos": "T.cos", "pow": "T.pow", "tanh": "T.tanh", "fabs": "T.abs"}


def member(module: str, name: str) -> Any:
    """The model of ``module.name``, or unknown."""
    maker = _MODULES.get(module)
    if maker is None and module.startswith(("torch.", "tvm.")):
        return _submodule(module, name)
    found = maker(name) if maker is not None else None
    return unknown(f"{module}.{name}") if found is None else found


def _submodule(module: str, name: str) -> Any:
    if module.startswith("tvm."):
        return tvm_member(module, name)
    return torch_model.submodule_member(module, name)


def _math(name: str) -> Any:
    python = getattr(math, name, None)
    if not callable(python):
        return python

    def call(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        from ..tile.elements import as_scalar

        args = [plain(as_scalar(a)) for a in args]
        if are_sizes(*args):
            return size_call(name, args)
        if any(isinstance(a, Expr) and not is_unknown(a) for a in args):
            if ev.builder is not None and node is not None:
                use = f"; use {_MATH_ON_DEVICE[name]}" if name in _MATH_ON_DEVICE else ""
                ev.problem("python-builtin", f"math.{name}() cannot compute a device value{use}", node)
            return unknown(f"math.{name}")
        return host(f"math.{name}", python).call(ev, args, kwargs, node)

    return Native(f"math.{name}", call)


def _functools(name: str) -> Any:
    if name == "partial":
        return Native(name, lambda ev, a, k, n: Partial(a[0], tuple(a[1:]), tuple(k.items())) if a else unknown("partial"))
    if name in ("lru_cache", "cache"):
        return Native(name, _pass_through)
    if name == "wraps":
        return Native(name, lambda ev, a, k, n: Native("wraps", lambda ev, b, k2, n2: b[0] if b else unknown("wraps")))
    if name == "reduce":
        return Native(name, _reduce)
    return None


def _pass_through(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    """A decorator with or without arguments that leaves the function as it is."""
    if args and isinstance(args[0], Function):
        return args[0]
    return Native("decorator", lambda ev, a, k, n: a[0] if a else unknown("decorator"))


def _reduce(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    if len(args) < 2 or not isinstance(args[1], (list, tuple)):
        return unknown("reduce")
    items = list(args[1])
    if len(args) > 2:
        items.insert(0, args[2])
    if not items:
        return unknown("reduce")
    value = items[0]
    for item in items[1:]:
        value = ev.call(args[0], [value, item], {})
    return value


def _itertools(name: str) -> Any:
    if name not in ("product", "chain", "permutations", "combinations", "accumulate"):
        return None

    def call(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        if not all(isinstance(a, (list, tuple, range, int)) for a in args) or kwargs.keys() - {"repeat"}:
            return unknown(name)
        try:
            return list(itertools.islice(getattr(itertools, name)(*args, **kwargs), 5000))
        except (TypeError, ValueError):
            return unknown(name)

    return Native(name, call)


def _operator(name: str) -> Any:
    import ast

    from ..expressions import binary_value

    ops = {"mul": ast.Mult, "add": ast.Add, "sub": ast.Sub, "floordiv": ast.FloorDiv, "mod": ast.Mod}
    if name in ops:
        return Native(name, lambda ev, a, k, n: binary_value(ev, ops[name], a[0], a[1], n) if len(a) == 2 else unknown(name))
    return host(name, getattr(operator, name)) if hasattr(operator, name) else None


def _dataclasses(name: str) -> Any:
    if name == "field":
        from ..classes import FieldDefault

        return Native(name, lambda ev, a, k, n: FieldDefault(k.get("default", unknown("field")), k.get("default_factory")))
    if name == "replace":
        return Native(name, _replace)
    if name == "dataclass":
        return Native(name, _pass_through)
    return None


def _replace(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    if args and isinstance(args[0], Instance):
        return Instance(args[0].cls, {**args[0].attributes, **kwargs}, args[0].opaque)
    return unknown("replace")


def _argparse(name: str) -> Any:
    if name == "ArgumentParser":
        return Native(name, lambda ev, a, k, n: _parser())
    return None


def _parser() -> Instance:
    defaults: dict[str, Any] = {}
    parser = Instance(Class("ArgumentParser", {}), {})

    def add(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        names = [a for a in args if isinstance(a, str)]
        long = next((n for n in names if n.startswith("--")), names[0] if names else "")
        key = kwargs.get("dest") or long.lstrip("-").replace("-", "_")
        default = kwargs.get("default", {"store_true": False, "store_false": True}.get(str(kwargs.get("action"))))
        if isinstance(default, str) and isinstance(kwargs.get("type"), Native) and kwargs["type"].name in ("int", "float"):
            default = kwargs["type"].call(ev, [default], {}, node)
        if isinstance(key, str):
            defaults[key] = unknown("argument") if not long.startswith("-") else default
        return unknown("argument")

    def parse(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        return Instance(Class("Namespace", {}, opaque=True), dict(defaults), True)

    def parse_known(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        return (parse(ev, args, kwargs, node), [])

    parser.attributes.update(add_argument=Native("add_argument", add), parse_args=Native("parse_args", parse),
                             parse_known_args=Native("parse_known_args", parse_known),
                             add_argument_group=Native("group", lambda ev, a, k, n: parser))
    return parser


def _torch(name: str) -> Any:
    return torch_model.torch_member(name)


def _numpy(name: str) -> Any:
    if name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool_"):
        return DType(name.rstrip("_"))
    return Native(f"numpy.{name}", _numpy_call(name))


def _numpy_call(name: str) -> Any:
    def call(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        from ..tile.elements import as_scalar

        if ev.builder is not None and node is not None and any(is_device(as_scalar(a)) for a in args):
            use = f"; use {_MATH_ON_DEVICE[name]}" if name in _MATH_ON_DEVICE else ""
            ev.problem("python-builtin", f"numpy's {name}() cannot compute a device value{use}", node)
        return unknown(f"numpy.{name}")

    return call


def _einops(name: str) -> Any:
    from .einops_model import einops_member

    return einops_member(name)


def _pytest(name: str) -> Any:
    from .pytest_model import pytest_member

    return pytest_member(name)


def tvm_member(module: str, name: str) -> Any:
    """TVM's own spelling of what the language has: ``tvm.DataType``, ``tir.const``, ``tvm.tir.all``."""
    if name in ("tir", "tirx", "script", "op", "target", "ir", "te", "runtime", "contrib"):
        return Module(f"tvm.{name}")
    if name == "DataType":
        return Api("tilelang.language", "dtype")
    if name == "const":
        return Native(name, _tir_const)
    if name == "Target" and module == "tvm.target":
        return Native(name, lambda ev, args, kwargs, node: HostTarget(args[0] if args else None))
    return Api(TVM, name) if module in ("tvm.tir", "tvm.tirx", "tvm.op", "tvm.te") else unknown(f"{module}.{name}")


def _tir_const(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    value, dtype = args[0] if args else kwargs.get("value"), args[1] if len(args) > 1 else kwargs.get("dtype")
    name = dtype_name(dtype)
    if not isinstance(value, (int, float)) or (dtype is not None and name is None):
        return unknown("const")
    return build.const(value, name)


def _copy(name: str) -> Any:
    if name in ("copy", "deepcopy"):
        return Native(name, lambda ev, a, k, n: _copied(a[0]) if a else unknown(name))
    return None


def _copied(value: Any) -> Any:
    if isinstance(value, Instance):
        return Instance(value.cls, dict(value.attributes), value.opaque)
    return value.copy() if isinstance(value, (list, dict, set)) else value


def _collections(name: str) -> Any:
    if name == "namedtuple":
        return Native(name, _namedtuple)
    if name == "OrderedDict":
        return BUILTINS["dict"]
    if name == "defaultdict":
        return Native(name, lambda ev, a, k, n: unknown("defaultdict"))
    return None


def _namedtuple(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    fields = args[1] if len(args) > 1 else kwargs.get("field_names")
    if isinstance(fields, str):
        fields = fields.replace(",", " ").split()
    if not args or not isinstance(args[0], str) or not isinstance(fields, (list, tuple)):
        return unknown("namedtuple")
    defaults = list(kwargs.get("defaults") or ())
    first = len(fields) - len(defaults)
    rows = [(f, defaults[i - first] if i >= first else None, i >= first) for i, f in enumerate(fields)]
    return Class(args[0], {}, is_dataclass=True, is_tuple=True, fields=rows)


def _types(name: str) -> Any:
    if name == "SimpleNamespace":
        return Native(name, lambda ev, a, k, n: Instance(Class(name, {}, opaque=True), dict(k)))
    return None


def _os(name: str) -> Any:
    if name == "environ":
        return Instance(Class("environ", {}, opaque=True), {"get": Native("get", _environment)}, True)
    if name == "path":
        return Module("os.path")
    return Native(name, _environment) if name == "getenv" else None


def _os_path(name: str) -> Any:
    import posixpath

    if name in ("join", "dirname", "basename", "normpath", "split", "splitext"):
        return host(name, getattr(posixpath, name))
    if name in ("abspath", "realpath"):  # the folder the program is started in does not matter for what it imports
        return host(name, posixpath.normpath)
    return None


def _pathlib(name: str) -> Any:
    from pathlib import PurePosixPath

    return Native(name, lambda ev, a, k, n: PurePosixPath(*a) if all(isinstance(p, (str, PurePosixPath)) for p in a) else unknown(name)) \
        if name in ("Path", "PurePath") else None


def _environment(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    """The default: what a fresh machine would give."""
    return args[1] if len(args) > 1 else kwargs.get("default")


def _typing(name: str) -> Any:
    if name == "cast":
        return Native(name, lambda ev, a, k, n: a[1] if len(a) > 1 else unknown("cast"))
    return False if name == "TYPE_CHECKING" else None


_MODULES: dict[str, Any] = {
    "math": _math, "functools": _functools, "itertools": _itertools, "operator": _operator, "dataclasses": _dataclasses,
    "argparse": _argparse, "torch": _torch, "numpy": _numpy, "einops": _einops, "pytest": _pytest, "copy": _copy, "types": _types,
    "collections": _collections, "os": _os, "os.path": _os_path, "pathlib": _pathlib, "typing": _typing, "tvm": lambda name: tvm_member("tvm", name),
}

from . import torch_model  # noqa: E402  (they need the names above)
