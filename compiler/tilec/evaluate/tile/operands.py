"""Which operands an operator takes. What TileLang 0.1.15 refuses while it traces a kernel (TVM's operator overloads)."""
from __future__ import annotations

import ast
from typing import Any

from ...ir import dtypes
from ...ir.buffer import VAR, Buffer, Region
from ...ir.expr import Expr, is_host_choice, is_truth
from ...source.span import Span
from ..evaluator import Evaluator

_BITWISE = {"bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>"}
_NO_OPERATOR = {"pow": ("**", "T.pow"), "matmul": ("@", "T.gemm")}
ROUNDING_MODES = ("rn", "rz", "ru", "rd")


def dtype_of(value: Any) -> str:
    if isinstance(value, Expr):
        return value.dtype
    return "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int32"


def check_operands(ev: Evaluator, op: str, left: Any, right: Any, node: ast.AST) -> bool:
    """Bitwise operators take integers; ``/`` does not divide two signed integers; device values have no ``**``."""
    written = isinstance(node, (ast.BinOp, ast.AugAssign))
    kinds = dtype_of(left), dtype_of(right)
    if op in _BITWISE:
        wrong = next((d for d in kinds if dtypes.is_float(d)), None)
        if wrong is not None:
            ev.problem("operand-dtype", f"operator {_BITWISE[op]} takes integers, but an operand is {wrong}", node)
            return False
    elif written and op in _NO_OPERATOR:
        symbol, function = _NO_OPERATOR[op]
        ev.problem("operand-dtype", f"operator {symbol} does not exist for values of the device; use {function}", node)
        return False
    elif written and op == "div" and all(d.startswith("int") for d in kinds):
        ev.problem("operand-dtype", f"/ of two integers ({kinds[0]} and {kinds[1]}); write // for whole numbers, or cast one to a float", node)
    return True


def check_condition(ev: Evaluator, value: Any, where: ast.AST | Span, what: str) -> None:
    """and, or, not and conditional expressions take truth values."""
    if isinstance(value, Expr) and (dtypes.is_float(value.dtype) or dtypes.is_int(value.dtype)) and not is_truth(value) and not is_host_choice(value):
        ev.problem("condition-dtype", f"{what} takes a truth value, but this is {value.dtype}; compare it, such as != 0", where)


def check_buffer_operand(ev: Evaluator, left: Any, right: Any, node: ast.AST) -> None:
    """Arithmetic works on elements."""
    if ev.builder is None:
        return
    for value in (left, right):
        if isinstance(value, Buffer) and value.scope != VAR:
            ev.problem("buffer-arithmetic", f"{value.name} is a whole buffer; arithmetic works on elements, such as {value.name}["
                       + ", ".join("ijkl"[n % 4] for n in range(value.ndim)) + "]", node)
            return
        if isinstance(value, Region):
            ev.problem("buffer-arithmetic", f"this is a slice of {value.buffer.name}; arithmetic works on elements", node)
            return


def check_rounding(ev: Evaluator, name: str, mode: Any, dtype: str, where: Span) -> None:
    """T.ieee_*: src/cuda/codegen/codegen_cuda.cc."""
    if name == "ieee_frsqrt":
        if dtype == "float64":
            ev.problem("rounding-mode", "T.ieee_frsqrt does not exist for float64; use T.ieee_frcp(T.ieee_fsqrt(x))", where)
    elif mode is not None and isinstance(mode, str):
        if mode not in ROUNDING_MODES:
            ev.problem("rounding-mode", f"{mode!r} is no rounding mode; there are {', '.join(ROUNDING_MODES)}", where)
        elif mode != "rn" and dtype in ("float16", "bfloat16"):
            ev.problem("rounding-mode", f"{dtype} is rounded to nearest only; {mode!r} exists for float32 and float64", where)
