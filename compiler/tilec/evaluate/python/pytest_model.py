"""pytest's decorators: the cases a test runs at."""
from __future__ import annotations

from typing import Any

from ..evaluator import Raised
from ..values import Function, Instance, Native, unknown

MAX_CASES = 64


def pytest_member(name: str) -> Any:
    if name == "mark":
        from ..values import Class

        return Instance(Class("mark", {}, opaque=True), {"parametrize": Native("parametrize", _parametrize)}, True)
    if name == "param":
        return Native(name, lambda ev, a, k, n: tuple(a) if len(a) != 1 else a[0])
    if name in ("skip", "fail", "xfail", "exit"):
        return Native(name, _leave)
    return None


def _leave(ev: Any, args: list[Any], kwargs: Any, node: Any) -> Any:
    raise Raised("Skipped", "", ev.span(node) if node is not None else None)


def _parametrize(ev: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    names = args[0] if args else kwargs.get("argnames")
    values = args[1] if len(args) > 1 else kwargs.get("argvalues")
    if isinstance(names, str):
        names = [n.strip() for n in names.split(",") if n.strip()]

    def apply(ev: Any, inner: list[Any], kwargs: Any, node: Any) -> Any:
        function = inner[0] if inner else unknown("function")
        if isinstance(function, Function) and isinstance(names, (list, tuple)) and isinstance(values, (list, tuple)):
            cases = [_case(names, v) for v in values]
            others = function.cases or [{}]
            function.cases = [{**c, **o} for o in others for c in cases][:MAX_CASES]
        return function

    return Native("parametrize", apply)


def _case(names: Any, value: Any) -> dict[str, Any]:
    if len(names) == 1:
        return {names[0]: value}
    if isinstance(value, (list, tuple)) and len(value) == len(names):
        return dict(zip(names, value))
    return {n: unknown("argument") for n in names}
