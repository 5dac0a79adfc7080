"""Allocations: T.alloc_shared and its kin, T.empty, views."""
from __future__ import annotations

import ast
from typing import Any

from ...ir import dtypes
from ...ir.buffer import BARRIER, CLUSTER_BARRIER, DESCRIPTOR, FRAGMENT, GLOBAL, LOCAL, SHARED_DYN, TMEM, VAR, Buffer
from ...ir.build import cast, const, const_int, lift
from ...ir.expr import Expr
from ...ir.stmt import Alloc, Store
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import Output, TensorType, is_device, is_unknown, plain, unknown
from .registry import Bound, api
from .stored import check_literal


def shape_argument(ev: Evaluator, b: Bound, name: str = "shape") -> tuple[Expr, ...] | None:
    """The extents of a shape argument; None if not even their number is known."""
    value = plain(scalar_operand(b[name]))
    if is_unknown(value) or isinstance(value, str):
        return None
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    node = b.nodes.get(name)
    nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len(items) else [node] * len(items)
    return tuple(_extent(ev, plain(scalar_operand(i)), n) for i, n in zip(items, nodes))


def _extent(ev: Evaluator, value: Any, where: Any) -> Expr:
    if isinstance(value, float) or (is_device(value) and dtypes.is_float(value.dtype)):
        shown = f" ({value})" if isinstance(value, float) else ""
        if where is not None:
            ev.problem("alloc-shape", f"an extent of the shape is a float{shown}; extents are integers (use // for division)", where)
        return unknown("extent")
    if isinstance(value, bool) or not isinstance(value, (int, Expr)):
        return unknown("extent")
    return const(value, span=ev.span(where) if where is not None else None) if isinstance(value, int) else value


def allocate(ev: Evaluator, b: Bound, shape: tuple[Expr, ...] | None, dtype: str, scope: str, **attrs: Any) -> Any:
    if ev.builder is None:
        ev.problem("alloc-outside-kernel", f"T.{b.name} is called where no kernel is being built; buffers are allocated inside a kernel", b.span)
        return unknown(f"T.{b.name}")
    if shape is None:
        return unknown("shape")
    spans = b.spans()
    buffer = Buffer(ev.builder.unique("buf"), shape, dtype, scope, b.span, attrs={"unnamed": True, "spans": spans, **attrs})
    ev.builder.emit(Alloc(b.span, buffer))
    return buffer


def _scope(b: Bound, default: str) -> str:
    value = b["scope"]
    return value if isinstance(value, str) else default


@api("alloc_shared", "shape dtype scope=")
def alloc_shared(ev: Evaluator, b: Bound) -> Any:
    return allocate(ev, b, shape_argument(ev, b), b.dtype("dtype"), _scope(b, SHARED_DYN))


@api("alloc_fragment", "shape dtype scope=")
def alloc_fragment(ev: Evaluator, b: Bound) -> Any:
    return allocate(ev, b, shape_argument(ev, b), b.dtype("dtype"), _scope(b, FRAGMENT))


@api("alloc_local", "shape dtype scope=")
def alloc_local(ev: Evaluator, b: Bound) -> Any:
    return allocate(ev, b, shape_argument(ev, b), b.dtype("dtype"), _scope(b, LOCAL))


@api("alloc_tmem", "shape dtype")
def alloc_tmem(ev: Evaluator, b: Bound) -> Any:
    return allocate(ev, b, shape_argument(ev, b), b.dtype("dtype"), TMEM)


@api("alloc_global", "shape dtype scope=")
def alloc_global(ev: Evaluator, b: Bound) -> Any:
    return allocate(ev, b, shape_argument(ev, b), b.dtype("dtype"), _scope(b, GLOBAL))


def _descriptor(kind: str, default: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        chosen = b["kind"] if isinstance(b["kind"], str) else kind
        dtype = b.dtype("dtype") if b["dtype"] is not None else default
        return allocate(ev, b, (const(1),), dtype, f"{DESCRIPTOR}.{chosen}")

    return handler


api("alloc_descriptor", "kind= dtype=")(_descriptor("wgmma", "uint64"))
api("alloc_wgmma_desc", "dtype=")(_descriptor("wgmma", "uint64"))
api("alloc_tcgen05_smem_desc", "dtype=")(_descriptor("tcgen05_smem", "uint64"))
api("alloc_tcgen05_instruction_desc", "dtype=")(_descriptor("tcgen05_instr", "uint32"))
api("alloc_tcgen05_instr_desc", "dtype=")(_descriptor("tcgen05_instr", "uint32"))


@api("alloc_var", "dtype *args scope= init=")
def alloc_var(ev: Evaluator, b: Bound) -> Any:
    """``alloc_var(dtype)``, ``alloc_var(dtype, init)``, ``alloc_var(dtype, scope)``, ``alloc_var(dtype, init, scope)``."""
    dtype = b.dtype("dtype")
    scope = _scope(b, VAR)
    init = b["init"]
    rest = list(b["args"])
    if len(rest) > 2:
        ev.problem("alloc-var-args", f"T.alloc_var takes at most dtype, initial value and scope, but {len(rest) + 1} arguments are given", b.span)
        return unknown("T.alloc_var")
    if rest and isinstance(rest[-1], str) and not is_unknown(rest[-1]):
        scope = rest.pop()
    if rest and "init" in b.given and init is not None:
        ev.problem("alloc-var-args", "the initial value is given twice, by position and as init=", b.span)
        return unknown("T.alloc_var")
    if len(rest) == 2:
        ev.problem("alloc-var-args", "the third argument of T.alloc_var is the scope, a string", b.span)
        return unknown("T.alloc_var")
    if rest:
        init = rest[0]
    buffer = allocate(ev, b, (const(1),), dtype, scope)
    if isinstance(buffer, Buffer) and init is not None and ev.builder is not None:
        value = scalar_operand(plain(init))
        value = value if isinstance(value, (int, float, Expr)) else unknown("initial value")
        check_literal(ev, dtype, value, b.where("init") if "init" in b.nodes else b.span)
        stored = cast(lift(value, dtype if not isinstance(value, Expr) and dtype != dtypes.UNKNOWN else None), dtype)
        ev.builder.emit(Store(b.span, buffer, (const(0),), stored))
    return buffer


@api("alloc_barrier", "arrive_count")
def alloc_barrier(ev: Evaluator, b: Bound) -> Any:
    return _barrier(ev, b, BARRIER)


@api("alloc_cluster_barrier", "arrive_count")
def alloc_cluster_barrier(ev: Evaluator, b: Bound) -> Any:
    return _barrier(ev, b, CLUSTER_BARRIER)


def _barrier(ev: Evaluator, b: Bound, scope: str) -> Any:
    value = plain(b["arrive_count"])
    counts = list(value) if isinstance(value, (list, tuple)) else [value]
    counts = [c if isinstance(c, (int, Expr)) else unknown("count") for c in counts]
    if is_unknown(value):
        return unknown("barriers")
    return allocate(ev, b, (const(len(counts)),), "uint64", scope, arrive_counts=counts)


@api("empty", "*shape dtype=")
def empty(ev: Evaluator, b: Bound) -> Any:
    """``empty((M, N), dtype)`` and ``empty(M, N, dtype=...)``."""
    parts = list(b["shape"])
    if len(parts) == 2 and isinstance(parts[0], (tuple, list)):
        b.values["dtype"], b.nodes["dtype"] = parts.pop(), b["shape_nodes"][1]
        b.given.add("dtype")
    if len(parts) == 1 and isinstance(parts[0], (tuple, list)):
        b.values["shape"] = parts[0]
        if b["shape_nodes"][0] is not None:
            b.nodes["shape"] = b["shape_nodes"][0]
    else:
        b.values["shape"] = tuple(parts)
    dtype = b.dtype("dtype") if "dtype" in b.given else "float32"
    shape = shape_argument(ev, b)
    if shape is None:
        return unknown("T.empty")
    return Output(TensorType(shape, dtype, span=b.span))


@api("view", "src shape= dtype= strides=")
def view(ev: Evaluator, b: Bound) -> Any:
    return _view(ev, b, b["shape"] is not None, b["dtype"] is not None)


@api("reshape", "src shape dtype=")
def reshape(ev: Evaluator, b: Bound) -> Any:
    return _view(ev, b, True, False)


def _view(ev: Evaluator, b: Bound, new_shape: bool, new_dtype: bool) -> Any:
    source = b["src"]
    if not isinstance(source, Buffer) or ev.builder is None:
        return unknown("view")
    shape = shape_argument(ev, b) if new_shape else source.shape
    dtype = b.dtype("dtype") if new_dtype else source.dtype
    strides = shape_argument(ev, b, "strides") if b["strides"] is not None else None
    if shape is None or (strides is None and b["strides"] is not None) or not _check_strides(ev, b, source, shape, strides):
        return unknown("view")
    result = Buffer(ev.builder.unique(source.name), shape, dtype, source.scope, b.span, strides, view_of=source,
                    attrs={"unnamed": True, "spans": {k: ev.span(n) for k, n in b.nodes.items()}})
    _check_view(ev, b, source, result)
    ev.builder.emit(Alloc(b.span, result))
    return result


def _check_strides(ev: Evaluator, b: Bound, source: Buffer, shape: tuple[Expr, ...], strides: tuple[Expr, ...] | None) -> bool:
    """tilelang/language/customize.py, 0.1.15: what T.view refuses about strides."""
    if strides is None:
        if _has_gaps(source):
            ev.problem("view-strides", f"T.{b.name}: the rows of {source.name} do not follow each other without gaps, so the view needs strides=", b.span)
            return False
        return True
    if len(strides) != len(shape):
        ev.problem("view-strides", f"T.{b.name}: {len(strides)} stride{'s' if len(strides) != 1 else ''} for a shape of {len(shape)} "
                   f"dimension{'s' if len(shape) != 1 else ''}", b.where("strides"))
        return False
    negative = next((n for n in map(const_int, strides) if n is not None and n < 0), None)
    if negative is not None:
        ev.problem("view-strides", f"T.{b.name}: a stride is {negative}; strides are not negative", b.where("strides"))
        return False
    return True


def _has_gaps(buffer: Buffer) -> bool:
    """Whether a buffer's elements are certainly not one after the other."""
    if buffer.strides is None:
        return False
    expected = 1
    for extent, stride in zip(reversed(buffer.shape), reversed(buffer.strides)):
        size, step = const_int(extent), const_int(stride)
        if size is None or step is None:
            return False
        if size != 1 and step != expected:
            return True
        expected *= size
    return False


def _check_view(ev: Evaluator, b: Bound, source: Buffer, result: Buffer) -> None:
    if dtypes.UNKNOWN in (source.dtype, result.dtype):
        return
    old, new = source.static_shape(), result.static_shape()
    if old is None or new is None:
        return
    bits = [dtypes.bits(x.dtype) * _product(s) for x, s in ((source, old), (result, new))]
    if bits[0] != bits[1]:
        ev.problem("reshape-size", f"T.{b.name}: {source.name} has {bits[0] // 8} bytes, the new shape and dtype {bits[1] // 8}; a view keeps the size",
                   b.where("shape") if "shape" in b.nodes else b.span)


def _product(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
