"""Arguments of TileLang's names against the kinds of their parameters, in the configured release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..language.kinds import SCALAR as _SCALAR
from ..language.kinds import Kind, choice, describe
from ..language.parameters import kind_of
from .api import FACADE, Api
from .diagnostic import Diagnostic
from .registry import BY_NAME
from .settings import OFF, Settings

_MOST_KEPT = 20_000
_DTYPE_ARGUMENT = _SCALAR | choice("inf", "-inf", "nan")  # T.float32("inf")


def check_kinds(calls: Iterable[Any], api: Api, settings: Settings, program: Any = None) -> Iterator[Diagnostic]:
    data = BY_NAME["argument-kind"]
    severity = settings.severity(data, data.severity)
    if severity == OFF or not settings.wants(data):
        return
    clean = api.clean_calls()
    if len(clean) > _MOST_KEPT:  # a server runs for days
        clean.clear()
    for call in calls:
        shape = (call.module, call.name, call.positional, call.keywords)
        if shape in clean:
            continue
        faults = list(_faults(call, api))
        if not faults:
            clean.add(shape)
        for argument, message in faults:
            yield Diagnostic(
                data.code,
                data.name,
                severity,
                message,
                call.span(argument),
                (),
                None,
                program.name if program is not None else "",
                program.instance if program is not None else "",
            )


def _faults(call: Any, api: Api) -> Iterator[tuple[int | str, str]]:
    if api.kind(call.name, call.module) == "dtype":
        yield from _dtype_faults(call)
        return
    parameters = api.parameters(call.name, call.module)
    if parameters is None:
        return
    by_name = {p.name: p for p in parameters if not p.kind.startswith("var_")}
    ordered = [p for p in parameters if p.kind in ("positional_only", "positional_or_keyword")]
    if ordered and ordered[0].name == "dtype" and any(keyword == "dtype" for keyword, _ in call.keywords):
        ordered = ordered[1:]  # TIR's names take their first parameter as a keyword too: T.call_extern("f", x, dtype="int32")
    rest = next((p for p in parameters if p.kind == "var_positional"), None)
    for position, form in enumerate(call.positional):
        parameter = ordered[position] if position < len(ordered) else rest
        if parameter is not None:
            yield from _fault(call, parameter, position, form)
    for keyword, form in call.keywords:
        if keyword in by_name:
            yield from _fault(call, by_name[keyword], keyword, form)


def _fault(call: Any, parameter: Any, argument: int | str, form: Any) -> Iterator[tuple[int | str, str]]:
    optional = parameter.has_default and parameter.default == "None"
    kind = kind_of(call.name, parameter.name, parameter.annotation, optional)
    if kind is not None and not kind.takes(*form):
        yield argument, _message(call, parameter.name, kind, form)


def _message(call: Any, parameter: str, kind: Kind, form: Any) -> str:
    prefix = "T." if call.module == FACADE else "tilelang."
    return f"{prefix}{call.name}: {parameter} takes {kind.text}, not {describe(*form)}"


def _dtype_faults(call: Any) -> Iterator[tuple[int | str, str]]:
    """``T.float32(x)`` converts a value; several values make a vector."""
    for position, form in enumerate(call.positional):
        if not _DTYPE_ARGUMENT.takes(*form) and form[0] != "none":
            yield position, f"T.{call.name}(...) converts a value, not {describe(*form)}"
