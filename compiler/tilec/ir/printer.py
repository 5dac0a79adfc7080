"""The tile program as text that reads like TileLang."""
from __future__ import annotations

from typing import Any

from .buffer import Buffer, Region
from .build import const_int
from .expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var
from .program import TileProgram
from .stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Parallel, Stmt, Store, TileOp, While

_SYMBOL = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "shl": "<<", "shr": ">>",
    "bitand": "&", "bitor": "|", "bitxor": "^", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "and", "or": "or", "pow": "**",
}
_LEVEL = {"or": 1, "and": 2, "lt": 4, "le": 4, "gt": 4, "ge": 4, "eq": 4, "ne": 4, "bitor": 5, "bitxor": 6, "bitand": 7,
          "shl": 8, "shr": 8, "add": 9, "sub": 9, "mul": 10, "div": 10, "floordiv": 10, "floormod": 10, "pow": 12}


def expr_text(e: Any, level: int = 0) -> str:
    if isinstance(e, Binary) and e.op in _SYMBOL:
        mine = _LEVEL[e.op]
        text = f"{expr_text(e.a, mine)} {_SYMBOL[e.op]} {expr_text(e.b, mine + 1)}"
        return f"({text})" if mine < level else text
    if isinstance(e, Binary):
        return f"T.{e.op}({expr_text(e.a)}, {expr_text(e.b)})"
    if isinstance(e, Const):
        return _const_text(e)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Unknown):
        return "?"
    if isinstance(e, Unary):
        text = {"neg": "-", "not": "not ", "bitnot": "~"}[e.op] + expr_text(e.a, 11)
        return f"({text})" if level > 10 else text
    if isinstance(e, Cast):
        return f"T.cast({expr_text(e.a)}, {e.dtype!r})"
    if isinstance(e, Select):
        return f"T.if_then_else({expr_text(e.cond)}, {expr_text(e.then)}, {expr_text(e.other)})"
    if isinstance(e, Load):
        return f"{e.buffer.name}[{', '.join(map(expr_text, e.indices))}]"
    if isinstance(e, Call):
        return _call_text(e)
    return str(e)


def _call_text(e: Call) -> str:
    """Functions with a text of their own and tensor maps go by their names."""
    attrs = e.attrs or {}
    if e.op == "tensor_map" and "map" in attrs:
        return str(attrs["map"].name)
    name = str(attrs["name"]) if e.op == "device_function" and "name" in attrs else f"T.{e.op}"
    return f"{name}({', '.join(_value_text(a) for a in e.args)})"


def _const_text(e: Const) -> str:
    if e.dtype in ("int32", "bool"):
        return str(e.value)
    text = repr(e.value)
    return f"T.{e.dtype}({text if text not in ('inf', '-inf', 'nan') else repr(text)})"


def region_text(r: Region) -> str:
    if r.is_whole():
        return r.buffer.name
    parts = []
    for low, extent in zip(r.mins, r.extents):
        parts.append(expr_text(low) if const_int(extent) == 1 else f"{expr_text(low)}:{expr_text(low + extent)}")
    return f"{r.buffer.name}[{', '.join(parts)}]"


def _value_text(v: Any) -> str:
    if isinstance(v, Region):
        return region_text(v)
    if isinstance(v, Buffer):
        return v.name
    return expr_text(v) if isinstance(v, Expr) else repr(v)


def buffer_type(b: Buffer) -> str:
    """``(128, 32) float16`` as hovers show it."""
    shape = ", ".join(expr_text(e) for e in b.shape)
    return f"({shape}{',' if b.ndim == 1 else ''}) {b.dtype}"


def program_text(program: TileProgram) -> str:
    """The whole program, one statement a line."""
    return "\n".join(text for text, _ in program_lines(program)) + "\n"


def program_lines(program: TileProgram) -> list[tuple[str, Stmt | None]]:
    """The lines of the text, each with the statement it prints: the source map of the ``tile`` stage."""
    lines: list[tuple[str, Stmt | None]] = []
    params = ", ".join(_param_text(p) for p in program.params)
    lines.append((f"def {program.name}({params}):", None))
    _body_lines(program.body, 1, lines)
    return lines


def _param_text(p: Buffer | Var) -> str:
    if isinstance(p, Var):
        return f"{p.name}: T.{p.dtype}"
    strides = "" if p.strides is None else f", strides=({', '.join(map(expr_text, p.strides))})"
    return f"{p.name}: T.Tensor(({', '.join(map(expr_text, p.shape))}), {p.dtype!r}{strides})"


def _body_lines(body: Body, depth: int, out: list[tuple[str, Stmt | None]]) -> None:
    pad = "    " * depth
    if not body:
        out.append((f"{pad}pass", None))
    for s in body:
        out.append((pad + head_text(s), s))
        if isinstance(s, If):
            _body_lines(s.then, depth + 1, out)
            if s.other:
                out.append((f"{pad}else:", s))
                _body_lines(s.other, depth + 1, out)
        elif isinstance(s, (For, Parallel, While, Launch)):
            _body_lines(s.body, depth + 1, out)


def head_text(s: Stmt) -> str:
    """A statement without its body."""
    if isinstance(s, Alloc):
        return f"{s.buffer.name} = T.alloc[{s.buffer.scope}](({', '.join(map(expr_text, s.buffer.shape))}), {s.buffer.dtype!r})"
    if isinstance(s, Let):
        return f"{s.var.name} = {expr_text(s.value)}"
    if isinstance(s, Store):
        return f"{s.buffer.name}[{', '.join(map(expr_text, s.indices))}] = {expr_text(s.value)}"
    if isinstance(s, For):
        return _for_text(s)
    if isinstance(s, Parallel):
        return f"for {', '.join(v.name for v in s.vars)} in T.Parallel({', '.join(map(expr_text, s.extents))}):"
    if isinstance(s, While):
        return f"while {expr_text(s.cond)}:"
    if isinstance(s, If):
        return f"if {expr_text(s.cond)}:"
    if isinstance(s, Jump):
        return s.kind
    if isinstance(s, Evaluate):
        return expr_text(s.value)
    if isinstance(s, Launch):
        grid = ", ".join(map(expr_text, s.grid))
        threads = ", ".join(map(expr_text, s.threads))
        return f"with T.Kernel({grid}, threads=({threads})) as ({', '.join(v.name for v in s.block_vars)}):"
    if isinstance(s, TileOp):
        args = ", ".join(f"{k}={_value_text(v)}" for k, v in s.args.items() if v is not None)
        return f"T.{s.op}({args})"
    return type(s).__name__


def _for_text(s: For) -> str:
    name = {"serial": "serial", "unroll": "unroll", "vectorized": "vectorized", "pipelined": "Pipelined"}.get(s.kind, s.kind)
    stop = s.start + s.extent * s.step
    bounds = expr_text(stop) if const_int(s.start) == 0 and s.step == 1 else f"{expr_text(s.start)}, {expr_text(stop)}"
    if s.step != 1:
        bounds += f", {s.step}"
    attrs = "".join(f", {k}={v!r}" for k, v in s.attrs.items() if v is not None and k in ("num_stages", "order", "stage"))
    return f"for {s.var.name} in T.{name}({bounds}{attrs}):"
