"""The state of one symbolic evaluation, and the entry points the parts call each other through."""
from __future__ import annotations

import ast
import time
from typing import TYPE_CHECKING, Any

from ..source.file import SourceFile
from ..source.span import Span
from .problem import Problem
from .scope import Scope
from .surroundings import Surroundings
from .values import Function, unknown

if TYPE_CHECKING:
    from .tile.builder import Builder
    from .workspace import Workspace

MAX_DEPTH = 60  # nested calls of the user's functions
_STEPS_BETWEEN_TIMES = 100


class Stop(Exception):
    """The evaluation has used up its steps or time: what it would still have found is unknown."""


class Declared(Exception):
    """A kernel's launch begins, and all that was wanted of the trace is what stands before it."""


class ReturnSignal(Exception):
    def __init__(self, value: Any):
        self.value = value


class BreakSignal(Exception):
    pass


class ContinueSignal(Exception):
    pass


class Raised(Exception):
    """The user's code raises: ``raise ValueError(...)`` or a failing assert, for sure."""

    def __init__(self, kind: str, message: str, span: Span | None):
        super().__init__(message)
        self.kind = kind
        self.span = span


class Evaluator:
    """Runs Python symbolically. ``builder`` is set while a kernel is being traced."""

    def __init__(self, source: SourceFile, workspace: Workspace, *, max_steps: int = 400_000, max_seconds: float = 4.0):
        self.source = source
        self.workspace = workspace
        self.problems: list[Problem] = []
        self._told: set[tuple[str, Span]] = set()  # rules and places of the problems, in which there may be thousands
        self.builder: Builder | None = None
        self.steps_left = max_steps
        self.until_time = _STEPS_BETWEEN_TIMES
        self.deadline = time.process_time() + max_seconds  # not of the clock: the verdict must not depend on what else runs
        self.depth = 0
        self.running: dict[ast.AST, tuple[int, int]] = {}  # functions of the user's being run, with the progress when they began
        self.plain: Any = None  # the plain function that runs inside a kernel
        self.callers: list[Span] = []  # macro and helper calls being traced, outermost first
        # Values returned under conditions that are not known, and whether the machine alone decides about them.
        self.returns: list[list[tuple[Any, bool]]] = []
        self.surroundings = Surroundings()  # of the host code that is running
        self.prim_funcs: list[Function] = []  # in the order of their definition
        self.reporting = False  # problems count only while a kernel or its factory is evaluated for an instance
        self.on_call: Any = None  # called with (function, args, kwargs, span) for every call of a user's function on the host
        self.api_calls: dict[Any, Any] = {}  # calls of TileLang's names with the forms of their arguments, each once
        self.slicer: Any = None  # while instances are looked for: host code that leads to none is left out
        self.trail: Any = None  # names and their values by place, for hovers

    # -- places and problems ------------------------------------------------------------------------------------
    def span(self, node: ast.AST) -> Span:
        return self.source.span(node, self.callers[-1] if self.callers else None)

    def problem(self, rule: str, message: str, where: ast.AST | Span, *related: tuple[str, Span]) -> None:
        if self.reporting and self.news(rule, span := where if isinstance(where, Span) else self.span(where)):
            self.problems.append(Problem(rule, message, span, tuple(related)))
            self._told.add((rule, span))

    def news(self, rule: str, where: ast.AST | Span) -> bool:
        """Whether a problem would be reported, and is not yet. For messages that are dear to make: code in loops meets a fault many times."""
        if not self.reporting:
            return False
        if len(self._told) != len(self.problems):  # some were taken back
            self._told = {(p.rule, p.span) for p in self.problems}
        return (rule, where if isinstance(where, Span) else self.span(where)) not in self._told

    def step(self) -> None:
        """Count a statement or call; expressions count themselves. Looking at the time is dear, so it is done now and then."""
        self.steps_left -= 1
        self.until_time -= 1
        if self.until_time <= 0:
            self.until_time = _STEPS_BETWEEN_TIMES
            if time.process_time() > self.deadline:
                raise Stop
        if self.steps_left <= 0:
            raise Stop

    def progress(self) -> tuple[int, int]:
        """The steps that are left, and how many statements the kernel has got."""
        return self.steps_left, self.builder.emitted if self.builder is not None else 0

    def leads_nowhere(self, begun: tuple[int, int], steps: int) -> bool:
        """Whether more than so many steps since ``begun`` gave the kernel no statement: it is the arithmetic of a reference, or of a test."""
        left, emitted = self.progress()
        return begun[0] - left > steps and emitted == begun[1]

    # -- the parts ----------------------------------------------------------------------------------------------
    def eval(self, node: ast.expr, scope: Scope) -> Any:
        return expressions.evaluate(self, node, scope)

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        statements.execute(self, body, scope)

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None = None) -> Any:
        return calls.call_value(self, function, args, kwargs, node)

    def call_function(self, function: Function, args: list[Any], kwargs: dict[str, Any], receiver: Any = None) -> Any:
        """Run a user's function. What it returns under an unknown condition makes the result unknown."""
        scope = functions.bind(self, function, args, kwargs)
        if scope is None:
            return unknown(f"call of {function.name}")
        return functions.run_function(self, function, scope)


# The parts need the classes above, and most of them the expressions, which come first.
from . import expressions  # noqa: E402  # isort: skip
from . import calls, functions, statements  # noqa: E402  # isort: skip
