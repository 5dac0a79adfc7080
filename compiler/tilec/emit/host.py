"""The host function: checks of every argument, then the work. It takes a packed call, as every TVM function does.

Arguments arrive as an array of tagged values (TVM's FFI); tensors as DLTensor pointers or objects that hold one.
"""
from __future__ import annotations

from dataclasses import field
from typing import Any

from .. import tvm_compat as T
from ..ir.buffer import Buffer
from ..ir.build import cast, const, const_int
from ..ir.expr import Expr, Var
from ..records import dataclass
from . import arguments as A
from .arguments import Place, Plan
from .tir import TirEmitter

# Fields of tvm_struct_get (TVM's TVMStructFieldKind) and type indices of the FFI (tvm/ffi/c_api.h).
_DATA, _SHAPE, _STRIDES, _NDIM, _CODE, _BITS, _LANES, _OFFSET, _DEVICE_ID, _DEVICE_TYPE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
_FLOAT4_E2M1FN = 17  # DLPack: kDLFloat4_e2m1fn
_TYPE_INDEX, _VALUE, _INT64_ELEMENT = 13, 15, 17
_NONE, _INT, _BOOL, _FLOAT, _DLTENSOR, _TENSOR_OBJECT = 0, 1, 2, 3, 7, 70
_OBJECT_HEADER = 24  # bytes before the DLTensor in a tensor object
DEVICE_TYPES = {"cpu": 1, "cuda": 2}


@dataclass
class HostBuilder:
    """Statements of one host function. ``pointers`` and ``emitter`` serve whoever adds the call at the end."""

    plan: Plan
    device: str
    emitter: TirEmitter
    statements: list[Any] = field(default_factory=list)
    pointers: dict[Buffer, Any] = field(default_factory=dict)
    _shapes: dict[int, Any] = field(default_factory=dict)
    _strides: dict[int, Any] = field(default_factory=dict)
    _handles: dict[int, Any] = field(default_factory=dict)

    def require(self, cond: Any, message: str, kind: str = "ValueError") -> None:
        self.statements.append(T.assertion(cond, kind, message))

    def bind(self, name: str, dtype: str, value: Any) -> Any:
        variable = T.var(name, dtype) if dtype != "handle" else T.handle_var(name)
        self.statements.append(T.bind(variable, value))
        return variable


def host_function(plan: Plan, device: str, call: Any, result_kind: str = "llvm") -> Any:
    """``call(builder)`` yields the statements that do the work once the arguments are known to fit."""
    args, count = T.handle_var("args"), T.var("num_args", "int32")
    b = HostBuilder(plan, device, TirEmitter({}))
    b.require(T.binary("eq", count, T.constant(len(plan.params), "int32")), A.count_message(plan), "TypeError")
    if plan.params:
        b.require(T.logical_not(T.is_null(args)), f"{plan.name}: args pointer is NULL", "TypeError")
    for i in range(len(plan.params)):
        _unpack(b, args, i)
    for v, place in plan.bound.items():
        if place.field != "value":
            b.statements.append(T.bind(b.emitter.var(v), T.cast(v.dtype, _read(b, place))))
    for i, p in enumerate(plan.params):
        if isinstance(p, Buffer):
            _check_extents(b, i, p)
            _check_memory(b, i, p)
    b.statements += call(b)
    b.statements.append(T.return_value(T.constant(0, "int32")))
    params = [T.handle_var("self_handle"), args, count, T.handle_var("result")]
    return T.packed_function(plan.name, params, T.sequence(b.statements), result_kind)


def _unpack(b: HostBuilder, args: Any, index: int) -> None:
    p = b.plan.params[index]
    code = b.bind(f"{p.name}_type_index", "int32", T.struct_get(args, index, _TYPE_INDEX, "int32"))

    def one_of(*codes: int) -> Any:
        found = T.binary("eq", code, T.constant(codes[0], "int32"))
        for c in codes[1:]:
            found = T.binary("or", found, T.binary("eq", code, T.constant(c, "int32")))
        return found

    message = A.kind_message(b.plan, index)
    if isinstance(p, Var):
        _unpack_scalar(b, args, index, p, code, one_of, message)
        return
    b.require(one_of(_DLTENSOR, _TENSOR_OBJECT), message, "TypeError")
    raw = T.struct_get(args, index, _VALUE, "handle")
    object_tensor = T.add_bytes(T.struct_get(args, index, _VALUE, "handle"), _OBJECT_HEADER)
    handle = b.bind(f"{p.name}_handle", "handle", T.choose_pointer(T.binary("eq", code, T.constant(_TENSOR_OBJECT, "int32")), object_tensor, raw))
    b.require(T.logical_not(T.is_null(handle)), f"{b.plan.name}.{p.name} is expected to have non-NULL DLTensor* pointer", "TypeError")
    b._handles[index] = handle
    b.require(T.binary("eq", T.struct_get(handle, 0, _NDIM, "int32"), T.constant(p.ndim, "int32")), A.ndim_message(b.plan, p))
    _check_dtype(b, p, handle)
    b._shapes[index] = b.bind(f"{p.name}_shape", "handle", T.struct_get(handle, 0, _SHAPE, "handle"))
    b._strides[index] = b.bind(f"{p.name}_strides", "handle", T.struct_get(handle, 0, _STRIDES, "handle"))


def _unpack_scalar(b: HostBuilder, args: Any, index: int, p: Var, code: Any, one_of: Any, message: str) -> None:
    from ..ir import dtypes

    if p.dtype == "handle":
        b.require(T.logical_not(one_of(_FLOAT)), message, "TypeError")
        b.statements.append(T.bind(b.emitter.var(p), T.struct_get(args, index, _VALUE, "handle")))
        return
    if dtypes.is_float(p.dtype):
        b.require(one_of(_INT, _BOOL, _FLOAT), message, "TypeError")
        whole = T.cast("float64", T.struct_get(args, index, _VALUE, "int64"))
        value = T.if_then_else(T.binary("eq", code, T.constant(_FLOAT, "int32")), T.struct_get(args, index, _VALUE, "float64"), whole)
    else:
        b.require(one_of(_INT, _BOOL), message, "TypeError")
        value = T.struct_get(args, index, _VALUE, "int64")
    b.statements.append(T.bind(b.emitter.var(p), T.cast(p.dtype, value)))


def _check_dtype(b: HostBuilder, p: Buffer, handle: Any) -> None:
    code, bits = A.dlpack_type(p.dtype)

    def equals(which: int, value: int, dtype: str) -> Any:
        return T.binary("eq", T.struct_get(handle, 0, which, dtype), T.constant(value, dtype))

    kind = equals(_CODE, code, "uint8")
    if b.plan.packed(p) > 1:  # two elements a byte: either kind of byte will do
        kind = T.binary("or", equals(_CODE, 0, "uint8"), equals(_CODE, 1, "uint8"))
    right = T.binary("and", T.binary("and", kind, equals(_BITS, bits, "uint8")), equals(_LANES, 1, "uint16"))
    if p.dtype == "float4_e2m1fn":  # torch.float4_e2m1fn_x2: an element is two of them
        pairs = T.binary("and", equals(_CODE, _FLOAT4_E2M1FN, "uint8"), T.binary("and", equals(_BITS, 4, "uint8"), equals(_LANES, 2, "uint16")))
        right = T.binary("or", right, pairs)
    b.require(right, A.dtype_message(b.plan, p), "TypeError")


def _element(array: Any, dim: int) -> Any:
    return T.struct_get(array, dim, _INT64_ELEMENT, "int64")


def _int64(b: HostBuilder, e: Any) -> Any:
    value = const_int(e)
    return T.constant(value, "int64") if value is not None else T.cast("int64", b.emitter.expr(e))


def _times(a: Any | None, b: Any) -> Any:
    """A product that starts from nothing."""
    return b if a is None else T.binary("mul", a, b)


def _read(b: HostBuilder, place: Place) -> Any:
    """An extent or stride as the caller passed it, in elements."""
    p = b.plan.params[place.param]
    assert isinstance(p, Buffer)
    if place.field == "shape":
        value = _element(b._shapes[place.param], place.dim)
        ratio = b.plan.packed(p) if place.dim == p.ndim - 1 else 1
        if ratio != 1:
            value = T.binary("mul", value, T.constant(ratio, "int64"))
        if place.offset:
            value = T.binary("sub", value, T.constant(place.offset, "int64"))
        return value if place.scale == 1 else T.binary("floordiv", value, T.constant(place.scale, "int64"))
    stride = _stride(b, place.param, p, place.dim)
    ratio = b.plan.packed(p) if place.dim < p.ndim - 1 else 1
    return stride if ratio == 1 else T.binary("mul", stride, T.constant(ratio, "int64"))


def _stride(b: HostBuilder, index: int, p: Buffer, dim: int) -> Any:
    """Without an array of strides a tensor is compact."""
    compact: Any = None
    for later in range(dim + 1, p.ndim):
        compact = _times(compact, _element(b._shapes[index], later))
    compact = T.constant(1, "int64") if compact is None else compact
    return T.if_then_else(T.is_null(b._strides[index]), compact, _element(b._strides[index], dim))


def _check_extents(b: HostBuilder, index: int, p: Buffer) -> None:
    shape, strides = A.storage_shape(b.plan, p), A.storage_strides(b.plan, p)
    for dim, e in enumerate(shape):
        if not (isinstance(e, Var) and b.plan.bound[e] == Place(index, "shape", dim)):
            b.require(T.binary("eq", _element(b._shapes[index], dim), _int64(b, e)), A.extent_message(b.plan, p, "shape", dim, e))
    for dim in reversed(range(p.ndim)):
        wanted = strides[dim] if strides is not None else _product(shape[dim + 1:])
        equal = T.binary("eq", _stride(b, index, p, dim), _int64(b, wanted))
        if (const_int(shape[dim]) or 0) <= 1:
            equal = T.binary("or", T.binary("le", _element(b._shapes[index], dim), T.constant(1, "int64")), equal)
        empty = _empty(b, index, p)
        b.require(equal if empty is None else T.binary("or", equal, empty), _stride_message(b.plan, p, dim))


def _empty(b: HostBuilder, index: int, p: Buffer) -> Any:
    """Whether a tensor has no elements; None where its extents are constants above zero."""
    empty: Any = None
    for dim, e in enumerate(p.shape):
        if not const_int(e):
            zero = T.binary("eq", _element(b._shapes[index], dim), T.constant(0, "int64"))
            empty = zero if empty is None else T.binary("or", empty, zero)
    return empty


def _product(extents: tuple[Expr, ...]) -> Expr:
    """In 64 bits."""
    total: Expr = const(1, "int64")
    for e in extents:
        total = total * cast(e, "int64")
    return total


def _stride_message(plan: Plan, p: Buffer, dim: int) -> str:
    strides = A.storage_strides(plan, p)
    if strides is not None:
        return A.extent_message(plan, p, "strides", dim, strides[dim])
    total = const_int(_product(A.storage_shape(plan, p)[dim + 1:]))
    wanted = "that of a contiguous tensor" if total is None else str(total)
    return f"{plan.name}.{p.name}.strides[{dim}] is expected to equal {wanted}"


def _check_memory(b: HostBuilder, index: int, p: Buffer) -> None:
    handle = b._handles[index]
    b.require(T.binary("eq", T.struct_get(handle, 0, _OFFSET, "uint64"), T.constant(0, "uint64")), A.offset_message(b.plan, p))
    wanted = T.constant(DEVICE_TYPES[b.device], "int32")
    b.require(T.binary("eq", T.struct_get(handle, 0, _DEVICE_TYPE, "int32"), wanted), A.device_message(b.plan, p, b.device))
    first = min(b._handles)
    if index != first:
        same = T.binary("eq", T.struct_get(handle, 0, _DEVICE_ID, "int32"), T.struct_get(b._handles[first], 0, _DEVICE_ID, "int32"))
        b.require(same, A.device_id_message(b.plan, p, b.plan.params[first]))  # type: ignore[arg-type]
    pointer = T.struct_get(handle, 0, _DATA, "handle")
    empty = _empty(b, index, p)
    present = T.logical_not(T.is_null(pointer))
    b.require(present if empty is None else T.binary("or", empty, present), A.null_message(b.plan, p))
    b.pointers[p] = b.bind(p.name, "handle", pointer)
