"""Kernel signatures: tensor annotations, symbolic extents, parameters."""
from __future__ import annotations

import ast
import re
from typing import Any

from ...ir import dtypes
from ...ir.buffer import GLOBAL, Buffer
from ...ir.build import const_int
from ...ir.expr import Expr, Var
from ..evaluator import Evaluator
from ..scope import Scope
from ..values import DType, HostTensor, TensorType, dtype_name, is_unknown, plain, unknown
from .alloc import shape_argument
from .registry import Bound, api, report_dtype


@api("Tensor", "shape dtype= data= scope=")
def tensor(ev: Evaluator, b: Bound) -> Any:
    dtype = b.dtype("dtype") if "dtype" in b.given else "float32"
    if b["data"] is not None:
        from .pointers import tensor_at

        return tensor_at(ev, b, dtype)
    return TensorType(shape_argument(ev, b), dtype, b["scope"] if isinstance(b["scope"], str) else GLOBAL, None, b.span)


@api("Buffer", "shape dtype= data= strides= elem_offset= scope= align= offset_factor= buffer_type= axis_separators=")
def buffer(ev: Evaluator, b: Bound) -> Any:
    return tensor(ev, b)


@api("StridedTensor", "shape strides dtype= data= scope=")
def strided_tensor(ev: Evaluator, b: Bound) -> Any:
    dtype = b.dtype("dtype") if "dtype" in b.given else "float32"
    shape, strides = shape_argument(ev, b), shape_argument(ev, b, "strides")
    if shape is not None and strides is not None and not _check_rank(ev, len(shape), len(strides), b.span):
        return unknown("T.StridedTensor")
    return TensorType(shape, dtype, GLOBAL, strides, b.span)


def _check_rank(ev: Evaluator, extents: int, strides: int, where: Any) -> bool:
    if extents == strides:
        return True
    ev.problem("strided-rank", f"T.StridedTensor has {extents} extent{'s' if extents != 1 else ''} and {strides} stride{'s' if strides != 1 else ''}; "
               "there is one stride for every extent", where)
    return False


for _name, _scope in (("SharedBuffer", "shared.dyn"), ("FragmentBuffer", "local.fragment"), ("LocalBuffer", "local")):
    def _scoped(ev: Evaluator, b: Bound, scope: str = _scope) -> Any:
        return TensorType(shape_argument(ev, b), b.dtype("dtype") if "dtype" in b.given else "float32", scope, None, b.span)

    api(_name, "shape dtype= data= scope=")(_scoped)


@api("ptr", "dtype= storage_scope=")
def pointer(ev: Evaluator, b: Bound) -> Any:
    return TensorType(None, b.dtype("dtype") if b["dtype"] is not None else dtypes.UNKNOWN, GLOBAL, None, b.span, "ptr")


def tensor_from_subscript(ev: Evaluator, index: Any, node: ast.Subscript) -> Any:
    """``T.Tensor[(M, N), dtype]``, ``T.Tensor[[M, N], dtype]``, ``T.Tensor[M, dtype]`` and ``T.Tensor[M, N]``, which is float32."""
    if isinstance(index, tuple) and index and not any(isinstance(i, (tuple, list, str, DType)) for i in index):
        index = (index, "float32")
    if not isinstance(index, tuple) or len(index) != 2 or is_unknown(index[0]):
        return unknown("tensor annotation")
    if not isinstance(index[0], (tuple, list)):
        index = ((index[0],), index[1])
    dtype = dtype_name(index[1])
    if dtype is None and isinstance(index[1], str):
        report_dtype(ev, index[1], ev.span(node.slice))
    parts = [plain(p) for p in index[0]]
    shape = tuple(_extent(p) for p in parts)
    return TensorType(shape, dtype or dtypes.UNKNOWN, GLOBAL, None, ev.span(node))


def strided_from_subscript(ev: Evaluator, index: Any, node: ast.Subscript) -> Any:
    """``T.StridedTensor[[M, N], [stride_m, stride_n], dtype]``."""
    if not isinstance(index, tuple) or len(index) != 3 or not all(isinstance(part, (tuple, list)) for part in index[:2]):
        return unknown("tensor annotation")
    shape, strides = (tuple(_extent(plain(p)) for p in part) for part in index[:2])
    if not _check_rank(ev, len(shape), len(strides), ev.span(node)):
        return unknown("tensor annotation")
    return TensorType(shape, dtype_name(index[2]) or dtypes.UNKNOWN, GLOBAL, strides, ev.span(node))


def _extent(value: Any) -> Any:
    from ...ir.build import const

    if isinstance(value, int) and not isinstance(value, bool):
        return const(value)
    return value if isinstance(value, Expr) else unknown("extent")


# -- symbolic extents -------------------------------------------------------------------------------------------------------
def _symbols(name: Any, dtype: str, kind: str, span: Any) -> Any:
    if not isinstance(name, str):
        return unknown("symbol")
    names = [n for n in re.split(r"[\s,]+", name.strip()) if n]
    found = tuple(Var(dtype, span, n, kind) for n in names)
    return found[0] if len(found) == 1 and "," not in name else found


@api("dynamic", "name dtype=")
def dynamic(ev: Evaluator, b: Bound) -> Any:
    return _symbols(b["name"], b.dtype("dtype") if b["dtype"] is not None else "int32", "dynamic", b.span)


@api("symbolic", "name dtype=")
def symbolic(ev: Evaluator, b: Bound) -> Any:
    return dynamic(ev, b)


@api("Var", "name dtype=")
def var(ev: Evaluator, b: Bound) -> Any:
    return dynamic(ev, b)


@api("const", "name dtype=")
def const(ev: Evaluator, b: Bound) -> Any:
    """Compile-time extents of an eager kernel: known from the instance, else symbols."""
    builder = ev.builder
    if builder is None or builder.kind != "eager":
        ev.problem("const-lazy", "T.const belongs in an eager kernel (a @tilelang.jit function without @T.prim_func inside); here use the factory's "
                   "parameters, or T.dynamic", b.span)
        return unknown("T.const")
    name = b["name"]
    if not isinstance(name, str):
        return unknown("T.const")
    names = [n for n in re.split(r"[\s,]+", name.strip()) if n]
    values = tuple(_const(builder, n, b) for n in names)
    return values[0] if len(values) == 1 and "," not in name else values


def _const(builder: Any, name: str, b: Bound) -> Any:
    builder.const_spans[name] = b.span
    if name in builder.const_values:
        return builder.const_values[name]
    if name not in builder.const_vars:
        builder.const_vars[name] = Var("int32", b.span, name, "const")
    return builder.const_vars[name]


# -- parameters ---------------------------------------------------------------------------------------------------------------
def make_parameter(ev: Evaluator, name: str, annotation: Any, where: ast.AST) -> Any:
    """The run-time parameter an annotation declares, added to the kernel; unknown if the annotation is not known."""
    builder = ev.builder
    assert builder is not None
    if isinstance(annotation, TensorType) and annotation.kind == "tensor":
        if annotation.shape is None:
            builder.attrs["unknown_params"] = True
            return unknown(f"parameter {name}")
        made = Buffer(builder.unique(name), annotation.shape, annotation.dtype, annotation.scope, ev.span(where), annotation.strides,
                      attrs={"annotation": annotation.span})
        builder.params.append(made)
        return made
    if isinstance(annotation, Var):  # `n: T.int32()`
        annotation = DType(annotation.dtype)
    if isinstance(annotation, TensorType) and annotation.kind == "ptr":
        annotation = DType("handle")
    dtype = dtype_name(annotation) if not is_unknown(annotation) else None
    if dtype is not None and (isinstance(annotation, DType) or not isinstance(annotation, str)):
        scalar = Var(dtype, ev.span(where), builder.unique(name), "param")
        builder.params.append(scalar)
        return scalar
    builder.attrs["unknown_params"] = True
    return unknown(f"parameter {name}")


def annotate_name(ev: Evaluator, node: ast.AnnAssign, annotation: Any, scope: Scope) -> None:
    """``A: T.Tensor((M, N), dtype)`` as a statement of an eager kernel: declares a parameter."""
    assert isinstance(node.target, ast.Name) and ev.builder is not None
    if not isinstance(annotation, TensorType):
        if is_unknown(annotation):
            ev.builder.attrs["unknown_params"] = True
        return
    name = node.target.id
    given = ev.builder.arguments.get(name)
    if isinstance(given, HostTensor):
        solve(ev, name, annotation, given)
    made = make_parameter(ev, name, annotation, node.target)
    scope.assign(name, made)


def solve(ev: Evaluator, name: str, annotation: TensorType, given: HostTensor) -> None:
    """T.const values follow from the tensors passed; what does not fit is noted in the builder's attributes (see :func:`_note`)."""
    builder = ev.builder
    assert builder is not None
    _compare_types(builder, name, annotation.dtype, given.dtype)
    if annotation.shape is None:
        return
    if len(annotation.shape) != len(given.shape):
        _note(builder, "misfits", f"{name} has {len(annotation.shape)} dimensions in the kernel, but is given {len(given.shape)}")
        return
    packed = annotation.dtype != dtypes.UNKNOWN and dtypes.bits(annotation.dtype) < 8 and given.dtype != annotation.dtype
    for dim, (extent, value) in enumerate(zip(annotation.shape, given.shape)):
        if packed and dim == len(given.shape) - 1 and isinstance(value, int):
            value *= 8 // dtypes.bits(annotation.dtype)  # the tensor passed holds bytes
        if isinstance(value, int):
            _solve_extent(builder, extent, f"{name}.shape[{dim}]", value)


def _solve_extent(builder: Any, extent: Any, place: str, value: int) -> None:
    if isinstance(extent, Var) and extent.kind == "const":
        first_place, first = builder.solved_by.setdefault(extent.name, (place, value))
        if first != value:
            _note(builder, "size_conflicts", f"{extent.name} is {first} by {first_place} but {value} by {place}")
        builder.solved[extent.name] = value
        return
    wanted = const_int(extent) if isinstance(extent, Expr) else None
    if wanted is not None and wanted != value:
        _note(builder, "misfits", f"{place} is {wanted} in the kernel, but is given as {value}")


def _compare_types(builder: Any, name: str, wanted: str, given: str) -> None:
    if dtypes.UNKNOWN in (wanted, given) or "handle" in (wanted, given) or dtypes.bits(wanted) < 8 or wanted == "tfloat32":
        return  # passed as bytes, addresses or float32
    if wanted != given:
        _note(builder, "misfits", f"{name} is {wanted} in the kernel, but is given as {given}")


def _note(builder: Any, kind: str, text: str) -> None:
    """``size_conflicts``: two tensors that tell different values of one T.const; ``misfits``: a tensor that is not what its annotation says."""
    noted = builder.attrs.setdefault(kind, [])
    if text not in noted:
        noted.append(text)


def symbols_of(params: list[Any]) -> list[Var]:
    """The symbolic extents in the parameters' shapes and strides, in order."""
    from ...ir.expr import walk

    found: list[Var] = []
    for p in params:
        if isinstance(p, Buffer):
            for e in (*p.shape, *(p.strides or ())):
                for part in walk(e):
                    if isinstance(part, Var) and part.kind in ("dynamic", "const") and part not in found:
                        found.append(part)
    return found


def occurs_plainly(params: list[Any], name: str) -> bool:
    """Whether a T.const name is a dimension or stride by itself somewhere (``H``, not ``H * 2``)."""
    for p in params:
        if isinstance(p, Buffer):
            for e in (*p.shape, *(p.strides or ())):
                if isinstance(e, Var) and e.name == name:
                    return True
    return False


