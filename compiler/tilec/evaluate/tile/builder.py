"""The tile program under construction."""
from __future__ import annotations

from dataclasses import field
from typing import Any

from ...ir.buffer import VAR, Buffer
from ...ir.expr import Expr, Var
from ...ir.stmt import Body, Jump, Stmt
from ...records import dataclass
from ...source.span import Span
from ..scope import Scope
from ..values import Expired

DEVICE_FRAMES = ("for", "parallel", "while", "if", "launch")


@dataclass
class Frame:
    """A construct being traced: ``for``, ``parallel``, ``while``, ``if``, ``maybe`` (a branch of unknown kind), ``launch``,
    ``host`` (a loop run while building), ``macro`` or ``lazy`` (an operand that may not be evaluated)."""

    kind: str
    names: list[tuple[Scope, str, Span | None]] = field(default_factory=list)
    constants: list[tuple[Scope, str, Span, Any]] = field(default_factory=list)  # numbers that a branch binds anew (:mod:`.rebinding`)


@dataclass
class LaunchState:
    grid: tuple[Expr, ...]
    block_vars: tuple[Var, ...]
    threads: tuple[Expr, Expr, Expr]
    thread_vars: tuple[Var, Var, Var]
    attrs: dict[str, Any]
    span: Span


class Builder:
    def __init__(self, kind: str):
        self.kind = kind  # "lazy", "eager" or "prim_func"
        self.params: list[Buffer | Var] = []
        self.outputs: list[Buffer] = []
        self.returned: list[Buffer] | None = None
        self.return_span: Span | None = None
        self.bodies: list[list[Stmt]] = [[]]
        self.frames: list[Frame] = []
        self.launch: LaunchState | None = None
        self.launch_count = 0
        self.emitted = 0  # statements of the device so far
        self.open_launch: LaunchState | None = None  # T.Kernel without `with`
        self.const_values: dict[str, Any] = {}
        self.const_vars: dict[str, Var] = {}
        self.const_spans: dict[str, Span] = {}
        self.arguments: dict[str, Any] = {}  # of an eager kernel: what its tensor parameters were given
        self.solved: dict[str, int] = {}  # T.const values that follow from those
        self.solved_by: dict[str, tuple[str, int]] = {}  # the first tensor's dimension that tells each of them
        self.inner_blocks = 0  # T.sblock around the present statement
        self.is_probe = False  # traced up to the launch only, if there are such values
        self.attrs: dict[str, Any] = {}
        self.lets: dict[Var, Expr] = {}  # the values of names that are bound to what memory held
        self.constants: dict[tuple[Scope, str], Frame | None] = {}  # where names were bound to numbers
        self._names: dict[str, int] = {}

    # -- statements ----------------------------------------------------------------------------------------------
    def emit(self, statement: Stmt) -> None:
        self.emitted += 1
        self.bodies[-1].append(statement)

    def push(self) -> None:
        self.bodies.append([])

    def pop(self) -> Body:
        return tuple(self.bodies.pop())

    def jump(self, kind: str, span: Span) -> None:
        self.emit(Jump(span, kind))

    # -- frames --------------------------------------------------------------------------------------------------
    def enter(self, kind: str) -> None:
        self.frames.append(Frame(kind))

    def leave(self) -> None:
        """Close a frame: names bound to device values in it cease to exist."""
        frame = self.frames.pop()
        if frame.kind in DEVICE_FRAMES:
            for scope, name, span in frame.names:
                if name in scope.names and name != "_":
                    held = scope.names[name]
                    scope.names[name] = Expired(name, span, frame.kind == "launch" and isinstance(held, Buffer) and held.scope != VAR)
            for scope, name, bound, before in frame.constants:
                if scope.names.get(name) != before:
                    scope.names[name] = Expired(name, bound, constant=True)
        elif self.frames and frame.kind in ("maybe", "host", "lazy"):
            self.frames[-1].names.extend(frame.names)

    def leave_warp_groups(self) -> None:
        """Close a ``with T.ws(...)``: what was bound there to arithmetic on indices stays, it takes no register."""
        frame = self.frames[-1]
        frame.constants = []  # which warps take part is known while the kernel is written
        lets = [n for n in frame.names if _holds_let(n[0].names.get(n[1]))]
        kept = [n for n in frame.names if n not in lets]
        frame.names = lets
        self.leave()
        for scope, name, span in kept:
            self.record_name(scope, name, span)

    def record_name(self, scope: Scope, name: str, span: Span | None) -> None:
        for frame in reversed(self.frames):
            if frame.kind in (*DEVICE_FRAMES, "macro", "maybe"):
                frame.names.append((scope, name, span))
                return

    def enter_host_loop(self) -> None:
        self.frames.append(Frame("host"))

    def leave_host_loop(self) -> None:
        self.leave()

    def innermost_loop(self) -> str | None:
        """``device`` or ``host``: what a break or continue leaves."""
        for frame in reversed(self.frames):
            if frame.kind in ("for", "parallel", "while"):
                return "device"
            if frame.kind == "host":
                return "host"
            if frame.kind == "macro":
                return None
        return None

    def inside_device_branch(self) -> bool:
        """Whether a device condition stands between here and the innermost loop."""
        for frame in reversed(self.frames):
            if frame.kind in ("for", "parallel", "while", "host"):
                return False
            if frame.kind == "if":
                return True
        return False

    def in_lazy_operand(self) -> bool:
        """Whether this is evaluated for a later operand of and/or, or for a side of a conditional expression."""
        for frame in reversed(self.frames):
            if frame.kind == "macro":
                return False
            if frame.kind == "lazy":
                return True
        return False

    def in_control_flow(self) -> bool:
        """Whether a device loop or branch is open inside the innermost macro."""
        for frame in reversed(self.frames):
            if frame.kind == "macro":
                return False
            if frame.kind in ("for", "parallel", "while", "if"):
                return True
        return False

    # -- names ---------------------------------------------------------------------------------------------------
    def unique(self, name: str) -> str:
        """The name, with a number when it is taken."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else f"{name}_{count}"


def _holds_let(value: Any) -> bool:
    from ...ir.expr import walk

    if isinstance(value, Expr):
        return any(isinstance(e, Var) and e.kind in ("let", "loop") for e in walk(value))
    return True
