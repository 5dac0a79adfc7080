"""The table of TileLang names the evaluator understands, and how a call reaches its handler."""
from __future__ import annotations

import ast
import importlib
from functools import lru_cache
from typing import Any

from ...ir import dtypes
from ...ir.buffer import Buffer, Region
from ...ir.expr import Load
from ...ir.stmt import TileOp
from ...source.span import Span
from ..evaluator import Evaluator
from ..values import TVM, Api, Reference, dtype_name, plain, unknown

HANDLERS: dict[tuple[str, str], tuple[Signature, Any]] = {}  # (module, name) -> signature, handler
_LANGUAGE = "tilelang.language"
RECORDED = (_LANGUAGE, "tilelang")  # modules of which calls are checked against signatures
_PARTS = (
    "alloc", "allreduce", "annotations", "atomics", "blockscaled", "clusters", "intrinsics", "jit", "launch", "layouts", "loops", "movement", "operators",
    "pointers", "random", "raw", "reducers", "scalar", "schedules", "signature", "sparse", "sync", "threads", "tir", "tir_buffers",
)


class Signature:
    """``"src dst * coalesced_width=None"``: names, ``*`` before keyword-only ones, ``*name`` for the rest, ``=`` for optional ones."""

    def __init__(self, text: str):
        self.positional: list[str] = []
        self.keyword_only: list[str] = []
        self.optional: set[str] = set()
        self.rest: str | None = None
        target = self.positional
        for part in text.split():
            if part == "*":
                target = self.keyword_only
            elif part.startswith("*"):
                self.rest = part[1:]
                target = self.keyword_only
            else:
                name = part.rstrip("=")
                target.append(name)
                if part.endswith("="):
                    self.optional.add(name)
        self.required = tuple(p for p in (*self.positional, *self.keyword_only) if p not in self.optional)


class Bound:
    """The arguments of one call by parameter name. Missing optional ones are None."""

    def __init__(self, ev: Evaluator, name: str, node: ast.Call | None):
        self.ev = ev
        self.name = name
        self.node = node
        self.values: dict[str, Any] = {}
        self.nodes: dict[str, ast.expr] = {}
        self.given: set[str] = set()
        self.span: Span = ev.span(node) if node is not None else Span(ev.source.path, 1, 1, 1, 1)

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)

    def where(self, name: str) -> Span:
        """The place of an argument, or of the call."""
        return self.ev.span(self.nodes[name]) if self.nodes.get(name) is not None else self.span

    def spans(self) -> dict[str, Span]:
        return {name: self.ev.span(n) for name, n in self.nodes.items() if n is not None}

    def dtype(self, name: str) -> str:
        """A dtype argument; a string that names none is reported."""
        value = self.values.get(name)
        found = dtype_name(value)
        if found is None:
            if isinstance(value, str):
                report_dtype(self.ev, value, self.where(name))
            return dtypes.UNKNOWN
        return found

    def flag(self, name: str, default: bool = False) -> Any:
        value = plain(self.values.get(name))
        return default if value is None else value


def report_dtype(ev: Evaluator, value: str, where: Span) -> None:
    import difflib

    if "{{" in value or not ev.news("dtype-name", where):  # the file is a template, which gets the type later
        return
    near = {"fp16": "float16", "fp32": "float32", "bf16": "bfloat16", "fp64": "float64", "fp8": "float8_e4m3fn", "half": "float16",
            **{name: dtypes.ALIASES.get(name) for name in dtypes.OBJECTS_ONLY}}.get(value)
    close = [near] if near else [n for n in difflib.get_close_matches(value, dtypes.SCALARS, n=2, cutoff=0.6) if n != value]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    ev.problem("dtype-name", f"{value!r} is not a data type{hint}", where)


def api(name: str, signature: str, module: str = _LANGUAGE) -> Any:
    """Register the handler of a name: ``handler(ev, bound) -> value``."""

    def register(handler: Any) -> Any:
        HANDLERS[(module, name)] = (Signature(signature), handler)
        return handler

    return register


@lru_cache(maxsize=1)
def load_all() -> None:
    """Import the parts, which register their handlers."""
    for part in _PARTS:
        importlib.import_module(f"{__package__}.{part}")
    importlib.import_module(f"{__package__.rpartition('.')[0]}.python.tilelang_model")


def known_names() -> list[str]:
    load_all()
    return [name for module, name in HANDLERS if module == _LANGUAGE]


def call_api(ev: Evaluator, function: Api, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    load_all()
    if function.module in RECORDED:
        forms.record_call(ev, function, args, kwargs, node)
    entry = HANDLERS.get((_LANGUAGE if function.module == TVM else function.module, function.name))
    if entry is None:
        return _unsupported(ev, function, args, kwargs, node)
    signature, handler = entry
    bound = bind(ev, function.name, signature, args, kwargs, node)
    if bound is None:
        return _unsupported(ev, function, args, kwargs, node)
    return handler(ev, bound)


def bind(ev: Evaluator, name: str, signature: Signature, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Bound | None:
    """None where a required argument is missing or there are too many: the API check reports that."""
    bound = Bound(ev, name, node)
    nodes = _argument_nodes(node, len(args))
    positional = signature.positional
    if positional and positional[0] == "dtype" and "dtype" in kwargs:  # TIR's names take their first parameter as a keyword too
        positional = positional[1:]
    for parameter, value, where in zip(positional, args, nodes):
        bound.values[parameter] = value
        bound.given.add(parameter)
        if where is not None:
            bound.nodes[parameter] = where
    extra = args[len(positional):]
    if extra and signature.rest is None:
        return None
    if signature.rest is not None:
        bound.values[signature.rest] = list(extra)
        bound.values[signature.rest + "_nodes"] = nodes[len(positional):]
    for key, value in kwargs.items():
        bound.values[key] = value
        bound.given.add(key)
    for keyword in node.keywords if node is not None else ():
        if keyword.arg is not None:
            bound.nodes[keyword.arg] = keyword.value
    values = bound.values
    for parameter in signature.required:
        if parameter not in values:
            return None
    return bound


def _argument_nodes(node: ast.Call | None, count: int) -> list[Any]:
    if node is None or len(node.args) != count:
        return [None] * count
    for argument in node.args:
        if argument.__class__ is ast.Starred:
            return [None] * count
    return list(node.args)


def _unsupported(ev: Evaluator, function: Api, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    """A name without a handler: what it does to the buffers it is given is not known."""
    if ev.builder is not None and function.module in (_LANGUAGE, TVM):
        from .elements import to_region

        touched: dict[str, Any] = {}
        for position, value in enumerate((*args, *kwargs.values())):
            if isinstance(value, (Buffer, Region, Load, Reference)):
                touched[f"arg{position}"] = to_region(value)
        span = ev.span(node) if node is not None else None
        ev.builder.emit(TileOp(span, "unsupported", {"name": f"T.{function.name}", **touched}))
    return unknown(f"T.{function.name}")


def subscript_api(ev: Evaluator, base: Api, index: Any, node: ast.Subscript) -> Any:
    """``T.Tensor[(M, N), dtype]``."""
    if base.module == _LANGUAGE and base.name in ("Tensor", "Buffer"):
        from .signature import tensor_from_subscript

        return tensor_from_subscript(ev, index, node)
    if base.module == _LANGUAGE and base.name == "StridedTensor":
        from .signature import strided_from_subscript

        return strided_from_subscript(ev, index, node)
    return unknown(f"T.{base.name}[...]")

from . import forms  # noqa: E402  (they need the names above)
