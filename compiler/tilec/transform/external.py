"""Functions written in C: T.import_source brings their text, T.call_extern calls them with the addresses of elements.

Each thread that comes to a call makes it. What happens behind a pointer is the function's business: it counts as written unless T.access_ptr
says that it is read.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir.buffer import FRAGMENT, TMEM, Buffer, Region
from ..ir.expr import Call, Expr, Load, walk
from ..ir.program import TileProgram
from ..ir.stmt import Body, Stmt, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .errors import LoweringError
from .matrix.device import address_of
from .rewrite import map_children, map_expr, map_own

CALLS = ("call_extern", "call_pure_extern")


def external_calls(program: TileProgram, ctx: PassContext) -> TileProgram:
    used = any(isinstance(x, Call) and x.op in CALLS for s in walk_statements(program.body) for e in expressions(s) for x in walk(e))
    return replace(program, body=_body(program.body)) if used else program


def _body(body: Body) -> Body:
    return tuple(map_children(_own(s), _body) for s in body)


def _own(s: Stmt) -> Stmt:
    return map_own(s, lambda e: _rule(e, s))


def _rule(e: Expr, s: Stmt) -> Expr | None:
    if not isinstance(e, Call) or e.op not in CALLS:
        return None
    name = str((e.attrs or {}).get("function") or "")
    args: list[Expr] = []
    writes: list[int] = []
    for k, a in enumerate(e.args):
        place, written = _pointed(a)
        if place is None:
            if not isinstance(a, Expr):
                raise LoweringError(f"T.{e.op} of {name}: argument {k + 1} is {a!r}; functions written in C take pointers (T.access_ptr, buffers) and scalars.",
                                    e.span or s.span, "unsupported")
            args.append(map_expr(a, lambda x: _rule(x, s)))
            continue
        if place.buffer.storage().scope in (FRAGMENT, TMEM):
            raise LoweringError(f"T.{e.op} of {name}: {place.buffer.name} is spread over the registers of the block's threads and has no address. Copy it to "
                                "an array of the thread (T.alloc_local) or to shared memory.", e.span or s.span, "unsupported")
        args.append(address_of(place.buffer, tuple(map_expr(i, lambda x: _rule(x, s)) for i in place.indices)))
        if written:
            writes.append(k)
    attrs: dict[str, Any] = {"name": name, "source": "", "writes": tuple(writes), "external": True}
    return Call(e.dtype, e.span or s.span, "device_function", tuple(args), attrs)


def _pointed(a: Any) -> tuple[Load | None, bool]:
    """The element an argument points to, and whether the function may write there."""
    if isinstance(a, Region):
        buffer: Buffer = a.buffer
        return Load(buffer.dtype, a.span, buffer, a.mins), True
    if isinstance(a, Call) and a.op == "access_ptr" and isinstance(a.args[0], Load):
        return a.args[0], (a.attrs or {}).get("access") != "r"
    return None, False
