"""Global memory that is no parameter: tensors made from pointers, workspaces (T.alloc_global); and kernels written in CUDA.

A tensor from a pointer is declared at the head of each kernel that uses it. A workspace is memory of the program: whoever launches
it makes the memory and passes it to the kernels as one more argument.
"""
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..ir.buffer import GLOBAL, Buffer, Region
from ..ir.expr import Expr, Load, Unknown, Var, walk
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, Launch, Let, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .errors import LoweringError
from .rewrite import map_children

_ENTRY = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:__cluster_dims__\s*\([^)]*\)\s*)?(\w+)\s*\(")


def place_global_memory(program: TileProgram, ctx: PassContext) -> TileProgram:
    found = [s for s in walk_statements(program.body) if _is_made(s)]
    outside: list[Any] = [s for s in program.body if _is_view(s) or (_is_made(s) and "pointer" in s.buffer.attrs)]  # type: ignore[attr-defined]
    if not found and not outside and not any(isinstance(s, Launch) and "source_code" in s.attrs for s in walk_statements(program.body)):
        return program
    workspaces = [s.buffer for s in found if isinstance(s, Alloc) and "pointer" not in s.buffer.attrs]
    for buffer in workspaces:
        _check_workspace(buffer, program)
    body = tuple(_launch(s, outside) if isinstance(s, Launch) else s for s in program.body if not _is_made(s) and not _is_view(s))
    return replace(program, body=body, attrs={**program.attrs, "workspaces": workspaces})


def _is_made(s: Stmt) -> bool:
    return isinstance(s, Alloc) and s.buffer.scope == GLOBAL and s.buffer.view_of is None


def _is_view(s: Stmt) -> bool:
    return isinstance(s, Alloc) and s.buffer.scope == GLOBAL and s.buffer.view_of is not None


def _check_workspace(buffer: Buffer, program: TileProgram) -> None:
    for e in buffer.shape:
        for part in walk(e):
            if isinstance(part, Var) and part.kind not in ("dynamic", "const", "param"):
                raise LoweringError(f"The shape of the workspace {buffer.name} depends on {part.name}, which exists inside the kernel only; its memory is "
                                    "made before the launch.", buffer.span, "alloc-symbolic")


def _launch(s: Launch, outside: list[Any]) -> Launch:
    if "source_code" in s.attrs:
        return _written_in_cuda(s)
    used = _buffers(s.body)
    head: list[Stmt] = []
    for made in outside:
        if _is_view(made):
            head.append(made)
        elif made.buffer in used:
            head += _declared(made)
    return replace(s, body=(*head, *_body(s.body)))


def _body(body: Body) -> Body:
    out: list[Stmt] = []
    for s in body:
        if _is_made(s):
            out += _declared(s) if "pointer" in s.buffer.attrs else ()  # type: ignore[attr-defined]
        else:
            out.append(map_children(s, _body))
    return tuple(out)


def _declared(s: Any) -> list[Stmt]:
    """The address gets a name, so that what it is computed from is an expression like any other."""
    buffer, pointer = s.buffer, s.buffer.attrs["pointer"]
    if not isinstance(pointer, Expr) or isinstance(pointer, Unknown) or pointer.dtype not in ("handle", "int64", "uint64"):
        raise LoweringError(f"The pointer of {buffer.name} is not known; it is a parameter annotated with T.ptr, or an element of a tensor of them.", s.span,
                            "pointer-value")
    name = buffer.attrs.setdefault("address", Var("handle", s.span, f"{buffer.name}_address", "let"))
    return [Let(s.span, name, pointer), s]


def _buffers(body: Body) -> set[Buffer]:
    found: set[Buffer] = set()
    for s in walk_statements(body):
        if isinstance(s, (Store, Alloc)):
            found.add(s.buffer.storage())
        if isinstance(s, TileOp):
            found |= {v.buffer.storage() for v in s.args.values() if isinstance(v, Region)}
        for e in expressions(s):
            found |= {part.buffer.storage() for part in walk(e) if isinstance(part, Load)}
    return found


def _written_in_cuda(s: Launch) -> Launch:
    text, entry = _text_of(s.attrs["source_code"]), s.attrs.get("entry") or "main_kernel"
    if text is None:
        raise LoweringError("The source of this kernel is not known.", s.span, "source-kernel")
    entries = _ENTRY.findall(text)
    if entry not in entries:
        names = ", ".join(entries) or "none"
        raise LoweringError(f"The CUDA source has no __global__ function {entry!r}. Available entries: {names}", s.span, "source-kernel")
    prelude = s.attrs.get("prelude")
    text = f"{prelude}\n{text}" if isinstance(prelude, str) else text
    return replace(s, body=(), attrs={**s.attrs, "source_text": text, "entry": entry})


def _text_of(source: Any) -> str | None:
    """Source text, or the text of the file it names."""
    given = source if isinstance(source, str) else getattr(getattr(source, "value", source), "__fspath__", lambda: None)()
    if not isinstance(given, str):
        return None
    if "\n" not in given and len(given) < 4096 and Path(given).is_file():
        return Path(given).read_text(encoding="utf-8")
    return given if isinstance(source, str) else None


__all__ = ["place_global_memory"]
