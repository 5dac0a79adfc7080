"""One fault, one message: the same diagnostic for several targets or instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..target.chips import Target
from .diagnostic import ERROR, Diagnostic

Key = tuple[str, str, int, int, int, int]


def key(d: Diagnostic) -> Key:
    return d.code, d.span.path, d.span.line, d.span.column, d.span.end_line, d.span.end_column


def merge_targets(
    by_target: Sequence[tuple[Target, list[Diagnostic]]], explicit: bool, support: frozenset[str]
) -> list[Diagnostic]:
    """With targets of the user's choice every fault counts. With candidates, a target whose chip the kernel is not for
    is left out first, and a fault counts if it is there on all that remain."""
    considered = list(by_target)
    if not explicit:
        fitting = [(t, ds) for t, ds in by_target if not any(d.name in support and d.severity == ERROR for d in ds)]
        considered = fitting or considered
    groups: dict[Key, list[tuple[Target, Diagnostic]]] = {}
    for target, diagnostics in considered:
        for d in diagnostics:
            groups.setdefault(key(d), []).append((target, d))
    merged = []
    for found in groups.values():
        if not explicit and len(found) < len(considered):
            continue
        first = found[0][1]
        others = [t.name for t, d in found[1:] if d.message != first.message]
        merged.append(replace(first, message=f"{first.message} (also on {', '.join(others)})") if others else first)
    return merged


def merge_instances(kernel: Any, by_instance: Sequence[tuple[Any, list[Diagnostic]]]) -> list[Diagnostic]:
    """A fault of all instances is told once; one of some says for which arguments."""
    groups: dict[Key, list[tuple[Any, Diagnostic]]] = {}
    for instance, diagnostics in by_instance:
        for d in diagnostics:
            groups.setdefault(key(d), []).append((instance, d))
    merged = []
    for found in groups.values():
        first = found[0][1]
        if len(found) == len(by_instance):
            merged.append(first)
            continue
        shown = label(kernel, [i for i, _ in found], [i for i, _ in by_instance])
        merged.append(replace(first, message=f"{first.message} (for {shown})"))
    return merged


def label(kernel: Any, failing: Sequence[Any], instances: Sequence[Any]) -> str:
    """What sets the failing instances apart: the one argument whose values tell them from the others (``block_N=48``),
    else the instances themselves."""
    good = [arguments(kernel, i) for i in instances if not any(i is f for f in failing)]
    bad = [arguments(kernel, i) for i in failing]
    for name in reversed(list(bad[0])):  # the last parameters are the tile sizes and types
        values = list(dict.fromkeys(a.get(name, "?") for a in bad))
        if not set(values) & {a.get(name, "?") for a in good} and len(values) <= 4:
            return ", ".join(f"{name}={v}" for v in values)
    texts = list(dict.fromkeys(i.text for i in failing))
    return ", ".join(texts[:2]) + (f" and {len(texts) - 2} more" if len(texts) > 2 else "")


def arguments(kernel: Any, instance: Any) -> dict[str, str]:
    from ..evaluate.definitions import value_text
    from ..evaluate.values import Instance

    names = list(kernel.parameters)
    given = list(instance.args)
    if names and names[0] == "self":  # another receiver is another call, told whole
        given = given[1:] if given and (isinstance(given[0], Instance) or len(given) == len(names)) else given
        names = names[1:]
    found = {n: value_text(v) for n, v in zip(names, given)}
    found.update({k: value_text(v) for k, v in instance.kwargs.items()})
    for name, default in _defaults(kernel).items():
        found.setdefault(name, default)
    return found


def _defaults(kernel: Any) -> dict[str, str]:
    import ast

    args = kernel.node.args
    positional = [*args.posonlyargs, *args.args]
    found = {a.arg: ast.unparse(d) for a, d in zip(positional[len(positional) - len(args.defaults) :], args.defaults)}
    found.update({a.arg: ast.unparse(d) for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None})
    return found
