"""What a kernel's caller must pass, as data: one plan for the host module's text and for the checks made before a launch.

May be imported without TVM.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..ir import dtypes
from ..ir.affine import linear
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.evaluate_int import evaluate
from ..ir.expr import Expr, Unknown, Var, walk
from ..ir.printer import expr_text
from ..ir.program import TileProgram
from ..records import dataclass
from ..transform.errors import LoweringError

# DLPack's type codes (dlpack.h, DLDataTypeCode).
_DLPACK_CODES = {"float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
                 "float8_e8m0fnu": 14, "float8_e3m4": 8, "bfloat16": 4, "bool": 6}


class ArgumentError(Exception):
    """An argument of a kernel call that does not fit; the message names it and what was expected."""


@dataclass(frozen=True)
class Place:
    """Where the value of a run-time extent is read: an extent or stride of a tensor, or a scalar argument.

    What is read is ``scale * value + offset``: of a tensor with ``4 * n + 1`` rows n is found too.
    """

    param: int
    field: str  # "shape", "strides" or "value"
    dim: int = 0
    scale: int = 1
    offset: int = 0


@dataclass
class Plan:
    name: str
    params: list[Buffer | Var]
    bound: dict[Var, Place]

    def describe(self, place: Place) -> str:
        name = self.params[place.param].name
        return name if place.field == "value" else f"{name}.{place.field}[{place.dim}]"

    def packed(self, buffer: Buffer) -> int:
        """Elements in one byte of storage: 2 for 4-bit types, whose tensors are passed as bytes."""
        return max(8 // dtypes.bits(buffer.dtype), 1)


def plan_arguments(program: TileProgram) -> Plan:
    """Raises LoweringError for a run-time extent that no argument determines."""
    bound: dict[Var, Place] = {}
    for i, p in enumerate(program.params):
        if isinstance(p, Var):
            bound.setdefault(p, Place(i, "value"))
    made = set(program.outputs)  # by the call, from extents that the inputs tell
    order = sorted(enumerate(program.params), key=lambda item: item[1] in made)
    for field in ("shape", "strides"):
        for i, p in order:
            values = getattr(p, field) if isinstance(p, Buffer) else None
            for dim, e in enumerate(values or ()):
                if isinstance(e, Var):
                    bound.setdefault(e, Place(i, field, dim))
    _bind_linear(program, bound)
    for p in program.params:
        for e in (*p.shape, *(p.strides or ())) if isinstance(p, Buffer) else ():
            _require_known(e, p, bound)
    return Plan(program.name, list(program.params), bound)


def _bind_linear(program: TileProgram, bound: dict[Var, Place]) -> None:
    """Extents that occur as ``scale * n + offset`` alone."""
    for i, p in enumerate(program.params):
        for dim, e in enumerate(p.shape if isinstance(p, Buffer) else ()):
            terms, offset = linear(e)
            if len(terms) == 1 and isinstance(terms[0][0], Var) and terms[0][1] > 0:
                bound.setdefault(terms[0][0], Place(i, "shape", dim, terms[0][1], offset))


def _require_known(e: Expr, p: Buffer | Var, bound: dict[Var, Place]) -> None:
    for part in walk(e):
        if isinstance(part, Unknown):
            raise LoweringError(f"the shape of {p.name} is not known ({part.reason}); give an instance that fixes the kernel's parameters", p.span)
        if isinstance(part, Var) and part not in bound:
            raise LoweringError(f"no argument tells the value of {part.name} in the shape of {p.name}: it is never an extent by itself or times a constant; "
                                "pass it as a scalar parameter", p.span)


def dlpack_type(dtype: str) -> tuple[int, int]:
    """Type code and bits of the tensors passed for a dtype."""
    if dtypes.bits(dtype) < 8:
        return (0 if dtypes.is_int(dtype) and not dtypes.is_unsigned(dtype) else 1, 8)
    if dtype in _DLPACK_CODES:
        return _DLPACK_CODES[dtype], dtypes.bits(dtype)
    return (2 if dtypes.is_float(dtype) else 1 if dtypes.is_unsigned(dtype) else 0), dtypes.bits(dtype)


def storage_shape(plan: Plan, buffer: Buffer) -> tuple[Expr, ...]:
    """The extents of the tensor passed: of 4-bit types two elements share a byte along the last dimension."""
    ratio = plan.packed(buffer)
    return buffer.shape if ratio == 1 or not buffer.shape else (*buffer.shape[:-1], buffer.shape[-1] // ratio)


def storage_strides(plan: Plan, buffer: Buffer) -> tuple[Expr, ...] | None:
    """Strides that must hold, in stored units; None stands for compact row-major."""
    if buffer.strides is None:
        return None
    ratio = plan.packed(buffer)
    return buffer.strides if ratio == 1 else tuple(s if const_int(s) == 1 else s // ratio for s in buffer.strides)


# -- messages ----------------------------------------------------------------------------------------------------------------
def count_message(plan: Plan) -> str:
    return f"{plan.name}: num_args should be {len(plan.params)}"


def kind_message(plan: Plan, index: int) -> str:
    p = plan.params[index]
    what = "a tensor" if isinstance(p, Buffer) else "a tensor or an address" if p.dtype == "handle" else f"a number ({p.dtype})"
    return f"{plan.name}: Expect arg[{index}] ({p.name}) to be {what}"


def null_message(plan: Plan, p: Buffer) -> str:
    return f"{plan.name}.{p.name} is expected to have non-NULL data pointer"


def ndim_message(plan: Plan, p: Buffer) -> str:
    return f"{plan.name}.{p.name}.ndim is expected to equal {p.ndim}"


def dtype_message(plan: Plan, p: Buffer) -> str:
    packed = " (packed, two a byte)" if plan.packed(p) > 1 else ""
    return f"{plan.name}.{p.name}.dtype is expected to be {p.dtype}{packed}"


def extent_message(plan: Plan, p: Buffer, field: str, dim: int, expected: Expr) -> str:
    text = expr_text(expected)
    if isinstance(expected, Var):
        text += f" (= {plan.describe(plan.bound[expected])})"
    return f"{plan.name}.{p.name}.{field}[{dim}] is expected to equal {text}"


def offset_message(plan: Plan, p: Buffer) -> str:
    return f"{plan.name}.{p.name}.byte_offset is expected to equal 0"


def alignment_message(plan: Plan, p: Buffer, size: int) -> str:
    return f"{plan.name}.{p.name}.data is expected to be aligned to {size} bytes (the kernel accesses so many at once)"


def device_message(plan: Plan, p: Buffer, kind: str) -> str:
    return f"{plan.name}.{p.name}.device_type is expected to be {kind}"


def device_id_message(plan: Plan, p: Buffer, first: Buffer) -> str:
    return f"{plan.name}.{p.name}.device_id is expected to equal {first.name}.device_id"


# -- checking tensors in Python -------------------------------------------------------------------------------------------------
_TORCH_NAMES = {"float8_e8m0fnu": "float8_e8m0fnu", "tfloat32": "float32"}


def check_arguments(plan: Plan, arguments: Sequence[Any], device: str, made: Collection[int] = ()) -> dict[Var, int]:
    """Check tensors (torch's interface) and numbers; returns the values of run-time extents. Raises ArgumentError.

    ``made``: positions of tensors that only stand for the ones to make, wherever they lie.
    """
    if len(arguments) != len(plan.params):
        raise ArgumentError(f"{count_message(plan)}, but {len(arguments)} were given")
    for i, (p, a) in enumerate(zip(plan.params, arguments)):
        if isinstance(p, Var) and p.dtype == "handle":
            if not isinstance(a, int) or isinstance(a, bool):
                raise ArgumentError(f"{kind_message(plan, i)}, but it is {type(a).__name__}")
        elif not _is_tensor(a) if isinstance(p, Buffer) else hasattr(a, "shape") or not isinstance(a, _number_types(p)):
            raise ArgumentError(f"{kind_message(plan, i)}, but it is {type(a).__name__}")
        if isinstance(p, Buffer):
            if len(a.shape) != p.ndim:
                raise ArgumentError(f"{ndim_message(plan, p)}, but it is {len(a.shape)}")
            _check_dtype(plan, p, a)
    values = {v: _value(plan, arguments, place) for v, place in plan.bound.items()}
    first: tuple[Buffer, Any] | None = None
    for i, (p, a) in enumerate(zip(plan.params, arguments)):
        if isinstance(p, Buffer):
            _check_layout(plan, p, a, values)
            if i not in made:
                first = _check_device(plan, p, a, device, first)
    return values


def _is_tensor(a: Any) -> bool:
    return hasattr(a, "shape") and hasattr(a, "data_ptr") and hasattr(a, "stride")


def _number_types(p: Var) -> tuple[type, ...]:
    return (int, float) if dtypes.is_float(p.dtype) else (int,)


def extents_given(plan: Plan, arguments: Sequence[Any]) -> dict[Var, Any]:
    """The run-time extents that follow from the arguments that are there (None: not yet), unchecked."""
    found: dict[Var, Any] = {}
    for v, place in plan.bound.items():
        p, argument = plan.params[place.param], arguments[place.param]
        if argument is not None and (isinstance(p, Var) or len(getattr(argument, "shape", ())) == p.ndim):
            found[v] = _value(plan, arguments, place)
    return found


def _value(plan: Plan, arguments: Sequence[Any], place: Place) -> Any:
    argument = arguments[place.param]
    if place.field == "value":
        return argument
    p = plan.params[place.param]
    if place.field == "strides":
        ratio = plan.packed(p) if isinstance(p, Buffer) and place.dim < p.ndim - 1 else 1
        return argument.stride(place.dim) * ratio
    last = isinstance(p, Buffer) and place.dim == p.ndim - 1
    found = argument.shape[place.dim] * (plan.packed(p) if last and isinstance(p, Buffer) else 1)
    return (found - place.offset) // place.scale


def _check_dtype(plan: Plan, p: Buffer, tensor: Any) -> None:
    name = str(tensor.dtype).removeprefix("torch.")
    wanted = {_TORCH_NAMES.get(p.dtype, p.dtype)}
    if plan.packed(p) > 1:
        wanted = {"int8", "uint8", "float4_e2m1fn_x2"}
    if p.dtype == "handle":  # a table of addresses
        wanted = {"int64", "uint64"}
    if name not in wanted:
        raise ArgumentError(f"{dtype_message(plan, p)}, but it is {name}")
    if str(getattr(tensor, "layout", "torch.strided")) != "torch.strided":
        raise ArgumentError(f"{plan.name}.{p.name} is expected to be a dense tensor, but its layout is {tensor.layout}; pass tensor.to_dense()")
    if getattr(tensor, "is_neg", bool)():  # its memory holds the values before torch's negation
        raise ArgumentError(f"{plan.name}.{p.name} is a view that torch negates when it is read; pass tensor.resolve_neg()")


def _check_layout(plan: Plan, p: Buffer, tensor: Any, values: dict[Var, int]) -> None:
    for dim, e in enumerate(storage_shape(plan, p)):
        expected = evaluate(e, values)
        if tensor.shape[dim] != expected:
            raise ArgumentError(f"{extent_message(plan, p, 'shape', dim, e)}, but it is {tensor.shape[dim]}{_which(e, expected)}")
    strides = storage_strides(plan, p)
    compact = 1
    for dim in reversed(range(p.ndim)):
        expected = compact if strides is None else evaluate(strides[dim], values)
        actual = tensor.stride(dim)
        if actual != expected and tensor.shape[dim] > 1 and tensor.numel():  # an empty tensor has no second element anywhere
            raise ArgumentError(f"{plan.name}.{p.name}.strides[{dim}] is expected to equal {expected}, but it is {actual}"
                                f"{' (the tensor must be contiguous)' if strides is None else ''}")
        compact *= tensor.shape[dim]


def _which(e: Expr, expected: int) -> str:
    return "" if const_int(e) is not None else f", not {expected}"


def _check_device(plan: Plan, p: Buffer, tensor: Any, device: str, first: tuple[Buffer, Any] | None) -> tuple[Buffer, Any]:
    place = tensor.device
    if place.type != device:
        raise ArgumentError(f"{device_message(plan, p, device)}, but it is {place.type}")
    if first is not None and place != first[1]:
        raise ArgumentError(f"{device_id_message(plan, p, first[0])}: {place} and {first[1]}")
    if tensor.numel() and not tensor.data_ptr():
        raise ArgumentError(null_message(plan, p))
    return first or (p, place)
