"""What must hold between passes: checked in tests, and cheap enough to run in a debugging session."""
from __future__ import annotations

from ..ir.buffer import FRAGMENT, GLOBAL, TMEM, Buffer
from ..ir.expr import Call, Expr, Load, Unknown
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Evaluate, For, If, Jump, Launch, Let, Store, While, expressions
from ..ir.stmt import walk as walk_statements
from .uses import buffers_in

_THREAD_STATEMENTS = (Alloc, Let, Store, For, While, If, Jump, Evaluate)


class MalformedProgram(Exception):
    """A pass produced something that later stages cannot take: a fault of this compiler, never of the user."""


def verify(program: TileProgram, lowered: bool = False) -> None:
    """Types and ranks of accesses; with ``lowered`` also that only thread statements are left, on placed memory."""
    for s in walk_statements(program.body):
        if isinstance(s, Store):
            _access(s.buffer, s.indices)
            if s.value.dtype != s.buffer.dtype:
                raise MalformedProgram(f"{s.value.dtype} is stored to {s.buffer}")
        for e in expressions(s):
            for x in walk_expr(e):
                _expression(x)
    if lowered:
        for launch in program.launches():
            _lowered(launch)


def _access(buffer: Buffer, indices: tuple[Expr, ...]) -> None:
    if len(indices) != buffer.ndim:
        raise MalformedProgram(f"{buffer} is accessed with {len(indices)} indices")


def _expression(x: Expr) -> None:
    if isinstance(x, Unknown):
        raise MalformedProgram(f"an unknown value is left ({x.reason})")
    if isinstance(x, Load):
        _access(x.buffer, x.indices)
    if isinstance(x, Call) and x.op == "device_function" and not {"name", "source"} <= set(x.attrs or {}):
        raise MalformedProgram("a device function without name or source")


def _lowered(launch: Launch) -> None:
    pool = launch.attrs.get("shared_bytes")
    if pool is None or not launch.attrs.get("thread_vars"):
        raise MalformedProgram("a launch without shared_bytes or thread_vars")
    allocated: set[Buffer] = set()
    for s in walk_statements(launch.body):
        if not isinstance(s, _THREAD_STATEMENTS):
            raise MalformedProgram(f"{type(s).__name__} is left in a thread program")
        if isinstance(s, Alloc):
            allocated.add(s.buffer)
    for b in buffers_in(launch.body):
        if b.scope in (FRAGMENT, TMEM):
            raise MalformedProgram(f"{b} is left in a thread program")
        if b.scope != GLOBAL and b not in allocated:
            raise MalformedProgram(f"{b} is used but not allocated")
        if b.scope.startswith("shared"):
            _placed(b, pool)


def _placed(b: Buffer, pool: int) -> None:
    offset = b.attrs.get("byte_offset")
    if offset is None or offset + (b.size_bytes() or 0) > pool:
        raise MalformedProgram(f"{b} has no place in the {pool} bytes of shared memory")


__all__ = ["MalformedProgram", "verify"]
