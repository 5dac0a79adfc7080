"""Values of names under an instance, as hovers show them."""
from __future__ import annotations

import ast
from typing import Any

from tilec.evaluate.values import Api, Class, DType, Function, HostTensor, Instance, Module, TensorType, is_unknown
from tilec.ir.buffer import (
    BARRIER,
    CLUSTER_BARRIER,
    FRAGMENT,
    GLOBAL,
    LOCAL,
    SHARED,
    SHARED_DYN,
    TMEM,
    VAR,
    Buffer,
    Region,
)
from tilec.ir.expr import Const, Expr, Var
from tilec.ir.printer import buffer_type, expr_text, region_text

_MOST_TEXTS = 3
_SCOPES = {
    GLOBAL: "global memory", SHARED_DYN: "dynamic shared memory", SHARED: "static shared memory", FRAGMENT: "a tile spread over the threads' registers",
    LOCAL: "registers, private to each thread", VAR: "a scalar variable of each thread", TMEM: "Blackwell tensor memory",
    BARRIER: "mbarriers in shared memory", CLUSTER_BARRIER: "mbarriers of the cluster",
}


class Trail:
    """Collects what each name node was while a kernel was traced; given to the evaluator as its ``trail``."""

    def __init__(self) -> None:
        self.values: dict[ast.AST, list[Any]] = {}

    def saw(self, node: ast.AST, value: Any) -> None:
        seen = self.values.setdefault(node, [])
        if len(seen) < _MOST_TEXTS + 1 and not any(_same(value, v) for v in seen):
            seen.append(value)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (int, float, str, bool)) and a == b)


def describe(name: str, values: list[Any]) -> str | None:
    """Markdown for a name that had these values; None if nothing is known."""
    known = [v for v in values if not is_unknown(v)]
    if not known:
        return None
    first = known[0]
    if isinstance(first, Buffer):
        return buffer_markdown(first)
    texts = list(dict.fromkeys(t for t in map(value_text, known) if t is not None))
    if not texts:
        return None
    if len(values) > _MOST_TEXTS:
        texts = [*texts[:_MOST_TEXTS], "…"]
    return f"```python\n{name} = {' | '.join(texts)}\n```"


def value_text(value: Any) -> str | None:
    """One line, or None for what is better not shown (functions, modules)."""
    if isinstance(value, Region):
        return region_text(value)
    if isinstance(value, Buffer):
        return repr(value)
    if isinstance(value, Var):
        return f"{value.dtype} {_VAR_KINDS.get(value.kind, 'variable')}"
    if isinstance(value, Const):
        return f"{value.value!r}" + ("" if value.dtype in ("int32", "bool") else f" ({value.dtype})")
    if isinstance(value, Expr):
        return expr_text(value)
    if isinstance(value, DType):
        return f"T.{value.name}"
    if isinstance(value, HostTensor):
        return f"tensor({tuple(value.shape)}, {value.dtype!r})"
    if isinstance(value, (Function, Class, Module, Api, TensorType, Instance)):
        return None
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


_VAR_KINDS = {"block": "block index", "loop": "loop variable", "thread": "thread index", "param": "parameter", "dynamic": "dynamic size", "const": "constant size"}


def buffer_markdown(buffer: Buffer) -> str:
    """Type, place and size of a buffer."""
    lines = [f"```python\n{buffer.name}: {buffer_type(buffer)}\n```", f"`{buffer.scope}` — {_SCOPES.get(buffer.scope, buffer.scope)}"]
    size = buffer.size_bytes()
    if size is not None and buffer.scope not in (BARRIER, CLUSTER_BARRIER):
        lines[-1] += f" · {size:,} bytes"
    if buffer.view_of is not None:
        lines.append(f"shares the memory of `{buffer.storage().name}`")
    if buffer.scope == TMEM and buffer.ndim == 2:
        lines.append("128 lanes, addressed in 32-bit columns")
    return "  \n".join(lines)
