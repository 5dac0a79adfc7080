"""Completion: names of TileLang, keyword arguments, values of arguments, the buffers of a kernel, directives."""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from tilec.evaluate.values import is_unknown
from tilec.ir import dtypes
from tilec.ir.buffer import Buffer
from tilec.ir.expr import Var
from tilec.language.parameters import kind_of
from tilec.records import dataclass

from . import call_context
from .api_docs import FACADE, api_markdown
from .api_names import api_of, module_of
from .call_context import CallContext
from .snapshot import Snapshot
from .values import buffer_markdown, value_text

_DOTTED = re.compile(r"([A-Za-z_][\w.]*)\.(\w*)$")
_WORD = re.compile(r"(\w*)$")
_DIRECTIVE = re.compile(r"#\s*tile-lsp:\s*([A-Za-z-]*)$")
_IGNORED = re.compile(r"#\s*tile-lsp:\s*ignore\[[^\]]*?([\w-]*)$")
_BUFFER_ATTRIBUTES = {"shape": "the extents, a tuple", "dtype": "the element type", "ndim": "how many dimensions", "strides": "the strides", "scope": "the kind of memory"}
_DIRECTIVES = {"instance": "arguments to check the kernel below at", "ignore": "leave out rules on this line: ignore[TL101]", "ignore-file": "leave this file out",
               "reference": "the function to compare results with: reference=name", "inputs": "the function that makes the inputs: inputs=name"}
_USUAL_DTYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "int32", "uint8", "float64", "int64", "bool")


@dataclass(frozen=True)
class Item:
    """``kind``: function, constant, type, module, keyword, value, variable, property, rule. ``resolve``: what the documentation is found by later."""

    label: str
    kind: str
    detail: str = ""
    documentation: str = ""
    sort: str = ""
    insert: str = ""
    deprecated: bool = False
    resolve: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Completion:
    """``typed``: how many characters before the cursor the items replace."""

    items: Sequence[Item]
    typed: int


def complete(snapshot: Snapshot, line: int, column: int) -> Completion:
    """What fits at a place (from 1)."""
    text = call_context.text_before(snapshot.document.lines, line, column)
    here = text.rsplit("\n", 1)[-1]
    directive = _directive(here)
    if directive is not None:
        return directive
    if snapshot.analysis.scope is None and "tilelang" not in snapshot.source.text:
        return Completion([], 0)
    call = call_context.at(text)
    if call is not None and call.string is not None:
        typed = call.string
        return Completion(list(_texts(snapshot, call)), len(typed)) if "\n" not in typed else Completion([], 0)
    if call_context.in_string_or_comment(text):
        return Completion([], 0)
    dotted = _DOTTED.search(here)
    if dotted is not None:
        return Completion(_attributes(snapshot, dotted.group(1), line), len(dotted.group(2)))
    word = _WORD.search(here)
    typed = word.group(1) if word is not None else ""
    if typed[:1].isdigit():
        return Completion([], 0)
    items: list[Item] = []
    if call is not None:
        items += _keywords(snapshot, call)
        items += _dtype_items(snapshot, call)
    if call is not None or typed:
        items += _variables(snapshot, line)
    return Completion(items, len(typed))


def documentation(snapshot: Snapshot, data: dict[str, Any]) -> str:
    """Markdown for an item that was sent without."""
    found = api_markdown(str(data.get("name", "")), str(data.get("module", "")), snapshot.environment)
    return "\n\n".join(t for t in found if t) if found is not None else ""


# -- names after a dot -----------------------------------------------------------------------------------------------------
_ENTRY_KINDS = {"function": "function", "op": "function", "class": "class", "dtype": "type", "module": "module", "constant": "constant", "macro-decorator": "function"}


def _attributes(snapshot: Snapshot, prefix: str, line: int) -> Sequence[Item]:
    module = module_of(snapshot, prefix)
    if module is not None:
        return api_items(snapshot.environment.api, module)
    value = _value_named(snapshot, prefix, line)
    return [Item(name, "property", what) for name, what in _BUFFER_ATTRIBUTES.items()] if isinstance(value, Buffer) else []


_listed: dict[tuple[int, str], tuple[Any, tuple[Item, ...]]] = {}  # by the identity of a manifest, which is kept with it
_MOST_LISTED = 8


def api_items(api: Any, module: str) -> tuple[Item, ...]:
    """The names of a module. There are hundreds, and they are the same at every dot."""
    known = _listed.get((id(api), module))
    if known is not None:
        return known[1]
    while len(_listed) >= _MOST_LISTED:
        _listed.pop(next(iter(_listed)))
    made = tuple(_api_names(api, module))
    _listed[id(api), module] = api, made
    return made


def _api_names(api: Any, module: str) -> Iterator[Item]:
    for name in api.names(module):
        kind = _ENTRY_KINDS.get(api.kind(name, module) or "", "function")
        # The names this tool has a line for come first: those are the ones kernels are written with.
        known = api_known(name, module)
        yield Item(name, kind, known, sort=("0" if known else "1" if kind != "type" else "2") + name.lower(), resolve={"name": name, "module": module})


def api_known(name: str, module: str) -> str:
    from .api_docs import _TOP_LEVEL, DOCS

    return (DOCS if module == FACADE else _TOP_LEVEL).get(name, "")


# -- arguments ---------------------------------------------------------------------------------------------------------------
def parameters_of(snapshot: Snapshot, callee: str) -> tuple[str, list[tuple[str, str, str, str]]]:
    """The function's own name and its parameters as (name, kind, default, annotation); no parameters for an unknown function."""
    api = api_of(snapshot, callee)
    if api is not None:
        module, name = api
        found = snapshot.environment.api.parameters(name, module) if hasattr(snapshot.environment.api, "parameters") else None
        return name, [(p.name, p.kind, p.default, p.annotation) for p in found or ()]
    binding = snapshot.names.module.names.get(callee)
    arguments = getattr(binding.node, "args", None) if binding is not None else None
    if arguments is None:
        return callee, []
    import ast

    from ..releases.manifest import parse_signature

    try:
        return callee, [(p.name, p.kind, p.default, p.annotation) for p in parse_signature(ast.unparse(arguments))]
    except SyntaxError:
        return callee, []


def _keywords(snapshot: Snapshot, call: CallContext) -> Iterator[Item]:
    """``name=`` of parameters that have no argument yet."""
    if call.keyword:
        return
    _, parameters = parameters_of(snapshot, call.callee)
    positional = [p for p in parameters if p[1] in ("positional_only", "positional_or_keyword")]
    given = {p[0] for p in positional[:call.argument]} | call.used
    for index, (name, kind, default, annotation) in enumerate(parameters):
        if name in given or kind in ("positional_only", "var_positional", "var_keyword") or name in ("self", "span"):
            continue
        detail = " ".join(t for t in (annotation and f": {annotation}", default and f"= {default}") if t)
        yield Item(f"{name}=", "keyword", detail, sort=f"0{index:02}")


def _texts(snapshot: Snapshot, call: CallContext) -> Iterator[Item]:
    """What may stand between the quotes of an argument."""
    name, parameters = parameters_of(snapshot, call.callee)
    parameter = _parameter(parameters, call)
    if parameter is None:
        return
    kind = kind_of(name, parameter[0], parameter[3], parameter[2] == "None")
    if kind is not None and kind.choices is not None:
        for index, choice in enumerate(kind.choices):
            yield Item(choice, "value", f"{parameter[0]} of {name}", sort=f"{index:02}")
    elif parameter[0].endswith("dtype") or (kind is not None and "dtype" in kind.forms and "str" in kind.forms):
        yield from _dtype_names("")


def _parameter(parameters: list[tuple[str, str, str, str]], call: CallContext) -> tuple[str, str, str, str] | None:
    if call.keyword:
        return next((p for p in parameters if p[0] == call.keyword), None)
    positional = [p for p in parameters if p[1] in ("positional_only", "positional_or_keyword")]
    return positional[call.argument] if call.argument < len(positional) else None


def _dtype_items(snapshot: Snapshot, call: CallContext) -> Iterator[Item]:
    name, parameters = parameters_of(snapshot, call.callee)
    parameter = _parameter(parameters, call)
    if parameter is not None and parameter[0].endswith("dtype"):
        yield from _dtype_names('"')


def _dtype_names(quote: str) -> Iterator[Item]:
    rest = sorted(d for d in dtypes.SCALARS if d not in _USUAL_DTYPES)
    for index, name in enumerate((*_USUAL_DTYPES, *rest)):
        yield Item(f"{quote}{name}{quote}", "type", "data type", sort=f"1{index:03}")


# -- names of the kernel -----------------------------------------------------------------------------------------------------
def _variables(snapshot: Snapshot, line: int) -> Iterator[Item]:
    """Buffers, loop variables and parameters that can be seen from a line of a kernel."""
    kernel = snapshot.kernel_at(line)
    if kernel is None:
        return
    values = kernel_values(snapshot, kernel)
    scope = snapshot.names.scope_at(line)
    seen: set[str] = set()
    at: Any = scope
    while at is not None and at.kind != "module":
        for name, binding in at.names.items():
            if name in seen or (binding.kind == "variable" and binding.definitions[0].line >= line):
                continue
            seen.add(name)
            value = values.get(name)
            detail = _detail(value)
            yield Item(name, "variable", detail, buffer_markdown(value) if isinstance(value, Buffer) else "", sort=f"{2 if isinstance(value, Buffer) else 3}{name}")
        at = at.parent


def kernel_values(snapshot: Snapshot, kernel: Any) -> dict[str, Any]:
    """The last value of each name bound in a kernel at the shown instance."""
    instance = snapshot.instance(kernel)
    if instance is None:
        return {}
    found: dict[str, Any] = {}
    for node, values in snapshot.trail(kernel, instance).values.items():
        name = getattr(node, "id", None) or getattr(node, "arg", None)
        known = [v for v in values if not is_unknown(v)]
        if name and known:
            found.setdefault(name, known[-1])
    for name, value in snapshot.arguments(kernel, instance).items():
        found.setdefault(name, value)
    program = snapshot.program(kernel, instance)
    for parameter in program.params if program is not None else ():
        found.setdefault(parameter.name, parameter)
    return found


def _value_named(snapshot: Snapshot, name: str, line: int) -> Any:
    kernel = snapshot.kernel_at(line)
    return kernel_values(snapshot, kernel).get(name) if kernel is not None else None


def _detail(value: Any) -> str:
    from tilec.ir.printer import buffer_type

    if value is None or is_unknown(value):
        return ""
    if isinstance(value, Buffer):
        return f"{buffer_type(value)} · {value.scope}"
    if isinstance(value, Var):
        return value_text(value) or ""
    return value_text(value) or ""


# -- comments ------------------------------------------------------------------------------------------------------------------
def _directive(here: str) -> Completion | None:
    ignored = _IGNORED.search(here)
    if ignored is not None:
        from tilec.check.registry import BY_NAME

        return Completion([Item(r.code, "rule", f"{r.name}: {r.summary}") for r in BY_NAME.values()], len(ignored.group(1)))
    directive = _DIRECTIVE.search(here)
    if directive is None:
        return None
    return Completion([Item(name, "keyword", what) for name, what in _DIRECTIVES.items()], len(directive.group(1)))
