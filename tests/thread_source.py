"""A thread program as the source of a Python generator function."""
from __future__ import annotations

import math
from typing import Any

from thread_functions import is_warp_wide
from tilec.ir import dtypes, stmt
from tilec.ir.buffer import Buffer
from tilec.ir.build import const_int
from tilec.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
              "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>", "and": "and", "or": "or"}
_MATH = {"exp": "math.exp", "exp2": "2.0 **", "log": "math.log", "log2": "math.log2", "sqrt": "math.sqrt", "tanh": "math.tanh", "abs": "abs", "sin": "math.sin",
         "cos": "math.cos", "floor": "math.floor", "ceil": "math.ceil", "pow": "math.pow",
         "max_nan": "nan_max", "min_nan": "nan_min"}


def _reinterpret(value: Any, source: str, target: str) -> Any:
    """The same bits as a value of another type."""
    import numpy as np
    from matrix_machine import decode, encode

    held = np.array([int(value) & ((1 << dtypes.bits(source)) - 1)], f"u{dtypes.bits(source) // 8}") if dtypes.is_int(source) else np.array([value], np.float64)
    raw = held.view(np.uint8) if dtypes.is_int(source) else encode(held if source == "float64" else held.astype(np.float32), source)
    if dtypes.is_int(target):
        kind = f"{'u' if dtypes.is_unsigned(target) else 'i'}{dtypes.bits(target) // 8}"
        return int(np.ascontiguousarray(raw).reshape(-1).view(kind)[0])
    return decode(np.ascontiguousarray(raw).reshape(1, -1), target)[0].item()


def _nan_max(a: float, b: float) -> float:
    return math.nan if a != a or b != b else max(a, b)


def _nan_min(a: float, b: float) -> float:
    return math.nan if a != a or b != b else min(a, b)


class Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.buffers: dict[Buffer, str] = {}
        self.vars: dict[Var, str] = {}
        self.rounds: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.maps: list[Any] = []

    def var(self, v: Var) -> str:
        return self.vars.setdefault(v, f"v{len(self.vars)}_{''.join(c for c in v.name if c.isalnum())}")

    def buffer(self, b: Buffer) -> str:
        return self.buffers.setdefault(b, f"b{len(self.buffers)}")

    def round(self, dtype: str, text: str) -> str:
        if dtype in ("int32", "int64", "bool", "float64", "handle", "void"):
            return f"({text})"
        return f"{self.rounds.setdefault(dtype, f'round_{dtype}')}({text})"

    # Expressions

    def expr(self, e: Expr) -> str:
        if isinstance(e, Const):
            if isinstance(e.value, float) and not math.isfinite(e.value):
                return f"float('{e.value}')"
            return repr(e.value)
        if isinstance(e, Var):
            return self.var(e)
        if isinstance(e, Binary):
            return self.binary(e)
        if isinstance(e, Unary):
            return {"neg": "(-{})", "not": "(not {})", "bitnot": "(~{})"}[e.op].format(self.expr(e.a))
        if isinstance(e, Cast):
            inner = self.expr(e.a)
            if dtypes.is_int(e.dtype) and dtypes.is_float(e.a.dtype):
                inner = f"int({inner})"
            if dtypes.is_float(e.dtype) and not dtypes.is_float(e.a.dtype):
                inner = f"float({inner})"
            return f"{self.rounds.setdefault(e.dtype, f'round_{e.dtype}')}({inner})"
        if isinstance(e, Select):
            return f"({self.expr(e.then)} if {self.expr(e.cond)} else {self.expr(e.other)})"
        if isinstance(e, Load):
            return f"{self.buffer(e.buffer)}.load({', '.join(['T', *map(self.expr, e.indices)])})"
        assert isinstance(e, Call), e
        return self.call(e)

    def binary(self, e: Binary) -> str:
        a, b = self.expr(e.a), self.expr(e.b)
        if e.op in ("min", "max"):
            return f"{e.op}({a}, {b})"
        if e.op == "div":
            return self.round(e.dtype, f"{a} / {b}")
        if e.op in ("truncdiv", "truncmod"):
            return f"int({a} / {b})" if e.op == "truncdiv" else f"int(math.fmod({a}, {b}))"
        if e.op == "pow":
            return self.round(e.dtype, f"{a} ** {b}")
        return self.round(e.dtype, f"{a} {_OPERATORS[e.op]} {b}")

    def call(self, e: Call) -> str:
        args = [self.expr(a) for a in e.args if isinstance(a, Expr) and e.op != "address_of"]
        if e.op == "address_of":
            place = e.args[0]
            return f"{self.buffer(place.buffer)}.pointer({', '.join(['T', *map(self.expr, place.indices)])})"
        if e.op == "tensor_map":
            self.maps.append((e.attrs or {})["map"])
            return f"MAPS[{len(self.maps) - 1}]"
        if e.op == "device_function":
            name = (e.attrs or {})["name"]
            if name == "tile_sync_threads":
                return "(yield 'barrier')"
            if name == "tile_sync_named":
                return f"(yield ('named', [{', '.join(args)}]))"
            if name == "tile_mbarrier_wait":
                return f"(yield ('phase', [{', '.join(args)}]))"
            if is_warp_wide(name):
                return f"(yield ({name!r}, [{', '.join(args)}]))"
            return f"IMMEDIATE(RUN, {name!r}, T, [{', '.join(args)}])"
        if e.op == "reinterpret":
            return f"REINTERPRET({args[0]}, {e.args[0].dtype!r}, {e.dtype!r})"
        return self.round(e.dtype, f"{_MATH[e.op]}({', '.join(args)})")

    # Statements

    def body(self, body: stmt.Body, depth: int) -> None:
        if not body:
            self.line(depth, "pass")
        for s in body:
            self.statement(s, depth)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, s: stmt.Stmt, depth: int) -> None:
        if isinstance(s, stmt.Alloc):
            if not s.buffer.scope.startswith("shared") and not (s.buffer.scope == "global" and s.buffer.view_of is not None):
                self.line(depth, f"{self.buffer(s.buffer)} = PRIVATE(BUFFERS[{self.buffer(s.buffer)!r}])")
            else:
                self.buffer(s.buffer)
        elif isinstance(s, stmt.Let):
            self.line(depth, f"{self.var(s.var)} = {self.expr(s.value)}")
        elif isinstance(s, stmt.Store):
            assert s.value.dtype == s.buffer.dtype, (s.buffer, s.value.dtype)
            self.line(depth, f"{self.buffer(s.buffer)}.store({', '.join(['T', self.expr(s.value), *map(self.expr, s.indices)])})")
        elif isinstance(s, stmt.Evaluate):
            self.line(depth, self.expr(s.value))
        elif isinstance(s, stmt.If):
            self.line(depth, f"if {self.expr(s.cond)}:")
            self.body(s.then, depth + 1)
            if s.other:
                self.line(depth, "else:")
                self.body(s.other, depth + 1)
        elif isinstance(s, stmt.For):
            start, extent = self.expr(s.start), self.expr(s.extent)
            self.line(depth, f"for {self.var(s.var)} in range({start}, {start} + ({extent}) * {s.step}, {s.step}):")
            if s.kind == "vectorized":
                self.vector_check(s, depth + 1)
            self.body(s.body, depth + 1)
        elif isinstance(s, stmt.While):
            self.line(depth, f"while {self.expr(s.cond)}:")
            self.body(s.body, depth + 1)
        elif isinstance(s, stmt.Jump):
            self.line(depth, s.kind)
        else:
            raise AssertionError(f"no thread-program statement: {type(s).__name__}")

    def vector_check(self, s: stmt.For, depth: int) -> None:
        """A vectorised loop is one wide access: aligned, of at most 16 bytes, one store of plain data."""
        lanes = const_int(s.extent)
        assert lanes is not None and len(s.body) == 1 and isinstance(s.body[0], stmt.Store), "a vectorised loop is one store"
        store = s.body[0]
        places = [(store.buffer, store.indices)]
        if isinstance(store.value, Load):
            places.append((store.value.buffer, store.value.indices))
        for b, indices in places:
            assert dtypes.bits(b.dtype) * lanes <= 128, "a vector of more than 16 bytes"
            self.line(depth, f"if {self.var(s.var)} == 0: {self.buffer(b)}.aligned({', '.join(['T', str(lanes), *map(self.expr, indices)])})")


def thread_source(launch: stmt.Launch) -> tuple[Any, list[Buffer]]:
    """A function (thread, values of names, run, Private, IMMEDIATE) -> generator; and the buffers it names."""
    from thread_interpreter import rounding

    w = Writer()
    w.body(launch.body, 2)
    free = [v for v in w.vars if v in launch.block_vars or v in launch.attrs["thread_vars"] or v.kind in ("dynamic", "const", "param")]
    head = ["def thread(T, NAMES, RUN, PRIVATE, IMMEDIATE):", "    if True:"]
    head += [f"        {w.vars[v]} = NAMES[FREE[{k}]]" for k, v in enumerate(free)]
    head += [f"        {name} = RUN.places.get(BUFFERS[{name!r}])" for b, name in w.buffers.items() if not b.scope.startswith("local")]
    text = "\n".join([*head, *w.lines, "        return", "        yield"])
    space: dict[str, Any] = {"math": math, "nan_max": _nan_max, "nan_min": _nan_min, "REINTERPRET": _reinterpret, "FREE": free, "BUFFERS": {name: b for b, name in w.buffers.items()}, "MAPS": w.maps}
    for dtype, name in w.rounds.items():
        space[name] = rounding(dtype)
    exec(compile(text, "<thread program>", "exec"), space)
    return space["thread"], list(w.buffers)


def evaluate_host(e: Expr, env: dict[Var, Any]) -> Any:
    """An extent of the grid."""
    w = Writer()
    text = w.expr(e)
    return eval(text, {"math": math}, {name: env[v] for v, name in w.vars.items()})
