"""Which kernels of a file an edit left alone, and what is reported inside them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from tilec.check import check_analysis
from tilec.evaluate import analyse
from tilec.evaluate.definitions import KernelInstance, value_text
from tilec.evaluate.values import Function
from tilec.ir.expr import Expr
from tilec.ir.printer import expr_text
from tilec.source.file import SourceFile
from tilec.target import chips

from tile_lsp.releases import manifest

VERSION = "0.1.15"
# What is told once a file, wherever it is met first; and where Python sees the end of what another place opened.
NOT_OF_ONE_KERNEL = frozenset(("deprecated-api", "syntax-error", "unused-ignore"))
Report = tuple[str, str, str, int, int, int]


@dataclass
class Kernel:
    """``surroundings``: the text of what its meaning depends on; ``reports``: with lines from the kernel's own first one."""

    name: str
    surroundings: tuple[Any, ...]
    reports: frozenset[Report]


@dataclass
class Checked:
    kernels: dict[str, Kernel]
    torn: bool  # some statements do not parse


def check(path: str, text: str) -> Checked:
    analysis = analyse(SourceFile(path, text))
    found = check_analysis(analysis, [chips.find(t) for t in chips.DECLARED], manifest.load(VERSION), explicit=False)
    lines = text.splitlines()
    top = Top(analysis.source.tree, lines)
    kernels: dict[str, Kernel] = {}
    repeated: set[str] = set()
    for k in analysis.kernels:
        if k.qualname in kernels:
            repeated.add(k.qualname)
        first, last = top.range(k.outermost)
        inside = frozenset(
            (d.code, d.severity, d.message, d.span.line - first, d.span.column, d.span.end_line - first)
            for d in found
            if d.span.path == path and first <= d.span.line <= last and d.name not in NOT_OF_ONE_KERNEL
        )
        made = tuple(made_from(i) for i in k.instances)
        kernels[k.qualname] = Kernel(k.qualname, (top.surroundings(k.outermost), made), inside)
    for name in repeated:
        del kernels[name]
    return Checked(kernels, bool(analysis.source.syntax_errors))


def made_from(i: KernelInstance) -> tuple[Any, ...]:
    """What an instance is made from: its arguments, options, and the values that its function finds around itself."""
    found = (i.text, i.origin, i.expects_failure, tuple(map(str, i.targets)), options_text({**i.function.jit, **i.options}))
    scope, around = i.function.scope, []
    while scope is not None and scope.parent is not None:
        around += [(n, expr_text(v) if isinstance(v, Expr) else value_text(v)) for n, v in sorted(scope.names.items()) if n in used_names(i.function.node)]
        scope = scope.parent
    functions = [ast.dump(v.node) for v in (*i.args, *i.kwargs.values()) if isinstance(v, Function)]  # layouts, say: all are told as <lambda>
    return (*found, tuple(around), tuple(functions))


def options_text(options: dict[str, Any]) -> str:
    return ", ".join(f"{k}={value_text(v)}" for k, v in sorted(options.items()))


class Top:
    """The top-level statements of a file by the names they bind and mention."""

    def __init__(self, tree: ast.Module, lines: list[str]):
        self.lines = lines
        self.statements = tree.body
        self.bound = [bound_names(s) for s in tree.body]
        self.used = [used_names(s) for s in tree.body]

    def range(self, s: ast.stmt) -> tuple[int, int]:
        decorators = getattr(s, "decorator_list", [])
        first = min([s.lineno, *(d.lineno for d in decorators)])
        while first > 1 and self.lines[first - 2].lstrip().startswith("#"):
            first -= 1  # comments above a kernel may be addressed to it
        return first, s.end_lineno or s.lineno

    def text(self, s: ast.stmt) -> str:
        first, last = self.range(s)
        return "\n".join(self.lines[first - 1 : last])

    def surroundings(self, kernel: ast.stmt) -> tuple[str, ...]:
        """The text of every statement that binds a name the kernel needs, or (outside of functions) does something with it, in order."""
        needed, grown = set(), {n for s, names in zip(self.statements, self.used) if s is kernel for n in names}
        while grown != needed:
            needed = set(grown)
            for bound, used in zip(self.bound, self.used):
                if bound & needed:
                    grown |= used
        kept = []
        for s, bound, used in zip(self.statements, self.bound, self.used):
            loose = not isinstance(s, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
            if s is kernel or bound & needed or "*" in bound or (loose and used & needed):
                kept.append(self.text(s))
        return tuple(kept)


def bound_names(s: ast.stmt) -> set[str]:
    if isinstance(s, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        declared = {n for g in ast.walk(s) if isinstance(g, ast.Global) for n in g.names}
        return {s.name} | declared
    found = set()
    for n in ast.walk(s):
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            found.add(n.id)
        elif isinstance(n, ast.alias):
            found.add((n.asname or n.name).split(".")[0])
        elif isinstance(n, (ast.FunctionDef, ast.ClassDef)):
            found.add(n.name)
    return found


def used_names(s: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(s) if isinstance(n, ast.Name)}


def differences(before: Checked, after: Checked) -> list[str]:
    """Kernels that were left alone and yet are judged otherwise, in words."""
    found = []
    for name, old in before.kernels.items():
        new = after.kernels.get(name)
        if new is None or new.surroundings != old.surroundings:
            continue
        appeared, gone = new.reports - old.reports, old.reports - new.reports
        if after.torn:
            gone = frozenset()  # in a file that does not parse less is said: names may be bound in what is missing
        for sign, reports in (("new", appeared), ("gone", gone)):
            found += [f"{name}: {sign}: {code} line +{line}: {message}" for code, _, message, line, *_ in sorted(reports)]
    return found
