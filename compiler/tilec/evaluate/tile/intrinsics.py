"""Scalar intrinsics by table: what they return, nothing more. The compiler refuses those it has no text for."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.build import call, lift
from ...ir.expr import Expr, Load, Unknown, has_unknown
from ..evaluator import Evaluator
from ..values import is_unknown, unknown
from .elements import to_region
from .registry import Bound, Signature, api
from .scalar import number


def first_element(value: Any) -> Load | None:
    """The element a buffer, slice or element starts at: what a pointer to it points at."""
    region = to_region(value)
    return None if region is None else Load(region.dtype, region.span, region.buffer, region.mins)


# What optional arguments are where they are not given, so that those after them keep their places.
_DEFAULTS = {"width": 32, "mask": 0xFFFFFFFF}


def scalar_arguments(b: Bound, names: list[str]) -> list[Any] | None:
    """The scalar arguments in order, those not given by their defaults; None if one is not known."""
    given = [b[n] if b[n] is not None else _DEFAULTS.get(n) for n in names]
    values = [number(v) for v in given if v is not None]
    return None if any(is_unknown(v) for v in values) else values


def intrinsic(name: str, signature: str, dtype: str) -> None:
    """``dtype``: what a call yields, or ``=parameter``: the type of that argument (int32 for a Python integer)."""
    names = Signature(signature).positional

    def handler(ev: Evaluator, b: Bound) -> Any:
        values = scalar_arguments(b, names)
        result = dtype
        if dtype.startswith("="):
            source = number(b[dtype[1:]])
            result = source.dtype if isinstance(source, Expr) else "float32" if isinstance(source, float) else "int32"
        if values is None or ev.builder is None:
            return Unknown(result if result in dtypes.SCALARS else dtypes.UNKNOWN, b.span, f"T.{name}")
        return call(name, tuple(lift(v) for v in values), result, b.span)

    api(name, signature)(handler)


# -- warps ----------------------------------------------------------------------------------------------------------------
for _name, _lane in (("shfl_xor", "delta"), ("shfl_down", "delta"), ("shfl_up", "delta"), ("shfl_sync", "srcLane")):
    intrinsic(_name, f"value {_lane} width= mask=", "=value")
for _name, _lane in (("tvm_warp_shuffle", "warp_id"), ("tvm_warp_shuffle_up", "offset"), ("tvm_warp_shuffle_down", "offset")):
    intrinsic(_name, f"mask value {_lane} width warp_size", "=value")
intrinsic("tvm_warp_activemask", "", "uint32")
for _name in ("sum", "max", "min"):
    intrinsic(f"warp_reduce_{_name}", "value", "=value")
intrinsic("activemask", "", "uint64")
intrinsic("match_any_sync", "value mask=", "uint32")
intrinsic("match_all_sync", "value mask=", "uint32")
intrinsic("shuffle_elect", "thread_extent", "bool")
intrinsic("__ffs", "value", "int32")
intrinsic("__fns", "mask base offset", "uint32")
intrinsic("popcount", "x", "=x")
intrinsic("clz", "x", "int32")


def _vote(name: str, signature: str, dtype: str) -> None:
    """Votes take whole numbers or truth values."""
    def handler(ev: Evaluator, b: Bound) -> Any:
        predicate = number(b["predicate"])
        found = predicate.dtype if isinstance(predicate, Expr) else "float32" if isinstance(predicate, float) else "int32"
        if dtypes.is_float(found):
            ev.problem("operand-dtype", f"T.{name} takes an integer or a truth value, but its argument is {found}", b.where("predicate"))
            return unknown(f"T.{name}")
        mask = number(b["mask"]) if "mask" in b.nodes else None
        if isinstance(mask, float) or isinstance(mask, Expr) and dtypes.is_float(mask.dtype):
            ev.problem("operand-dtype", f"T.{name}: mask is a float; it is the lanes' bits, a whole number (the predicate comes first)", b.where("mask"))
            return unknown(f"T.{name}")
        values = scalar_arguments(b, Signature(signature).positional)
        if values is None:
            return Unknown(dtype, b.span, f"T.{name}")
        return call(name, tuple(lift(v) for v in values), dtype, b.span)

    api(name, signature)(handler)


def _warp_bits(name: str) -> None:
    """Bits are combined of whole numbers and truth values."""
    def handler(ev: Evaluator, b: Bound) -> Any:
        value = number(b["value"])
        dtype = value.dtype if isinstance(value, Expr) else "float32" if isinstance(value, float) else "int32"
        if dtypes.is_float(dtype):
            ev.problem("operand-dtype", f"T.{name} takes an integer or a truth value, but its argument is {dtype}", b.where("value"))
            return unknown(f"T.{name}")
        values = scalar_arguments(b, ["value"])
        if values is None or ev.builder is None:
            return Unknown(dtype if dtype in dtypes.SCALARS else dtypes.UNKNOWN, b.span, f"T.{name}")
        return call(name, tuple(lift(v) for v in values), dtype, b.span)

    api(name, "value")(handler)


_warp_bits("warp_reduce_bitand")
_warp_bits("warp_reduce_bitor")
for _name in ("any_sync", "all_sync"):
    _vote(_name, "predicate mask=", "int32")
_vote("ballot_sync", "predicate mask=", "uint64")
_vote("ballot", "predicate", "uint64")
for _name in ("syncthreads_count", "syncthreads_and", "syncthreads_or"):
    _vote(_name, "predicate", "int32")

# -- clusters: what this block is -------------------------------------------------------------------------------------------
intrinsic("block_rank_in_cluster", "", "int32")


def _query(name: str, dtype: str) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        place = first_element(b["result"])
        return unknown(f"T.{name}") if place is None or ev.builder is None else call(name, (place,), dtype, b.span)

    api(name, "result")(handler)


_query("clc_is_canceled", "int32")
for _axis in "xyz":
    _query(f"clc_get_first_ctaid_{_axis}", "uint32")

# -- arithmetic -------------------------------------------------------------------------------------------------------------
intrinsic("fma", "x y z", "=x")
intrinsic("fmul", "x y", "=x")
intrinsic("fast_rcp", "x", "=x")
intrinsic("ldexp", "x1 x2", "=x1")
intrinsic("nextafter", "x1 x2", "=x1")
intrinsic("q_multiply_shift", "x y q s", "int32")
intrinsic("vscale", "", "int32")


# -- wide loads and stores ----------------------------------------------------------------------------------------------------
def _wide_type(bits: int) -> str:
    return "uint32" if bits == 32 else f"uint32x{bits // 32}"


def _wide_load(name: str, signature: str, bits: int) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        place = first_element(b["src"])
        if place is None or ev.builder is None:
            return unknown(f"T.{name}")
        guard = () if b["pred"] is None else (lift(number(b["pred"])),)
        return call(name, (place, *guard), _wide_type(bits), b.span)

    api(name, signature)(handler)


def _wide_store(name: str, signature: str, bits: int) -> None:
    from ...ir.stmt import TileOp

    def handler(ev: Evaluator, b: Bound) -> Any:
        dst = to_region(b["dst"], b.where("dst"))
        if ev.builder is None:
            return None
        if dst is None:
            ev.builder.emit(TileOp(b.span, "unsupported", {"name": f"T.{name}"}))
            return None
        guard = None if b["pred"] is None else lift(number(b["pred"]))
        ev.builder.emit(TileOp(b.span, "store_wide", {"dst": dst, "value": lift(number(b["value"])), "bits": bits, "pred": guard}, b.spans()))
        return None

    api(name, signature)(handler)


for _bits in (32, 64, 128, 256):
    _wide_load(f"ldg{_bits}", "src pred=", _bits)
    _wide_store(f"stg{_bits}", "dst value pred=", _bits)
    if _bits < 256:
        _wide_load(f"lds{_bits}", "src", _bits)
        _wide_store(f"sts{_bits}", "dst value", _bits)


@api("__ldg", "load_or_buf index=")
def read_only_load(ev: Evaluator, b: Bound) -> Any:
    place = first_element(b["load_or_buf"])
    if place is None or ev.builder is None:
        return unknown("T.__ldg")
    index = b["index"]
    if index is not None:
        index = index[0] if isinstance(index, (tuple, list)) and len(index) == 1 else index
        if len(place.indices) != 1:
            return unknown("T.__ldg")
        place = Load(place.dtype, place.span, place.buffer, (lift(number(index)),))
    return call("__ldg", (place,), place.dtype, b.span)


# -- packed pairs -----------------------------------------------------------------------------------------------------------
PACKED = ("float32x2", "bfloat16x2", "float16x2")


def _packed_type(value: Any) -> str:
    """The type of an operand; not known where an index is not."""
    if isinstance(value, Load) and any(map(has_unknown, value.indices)):
        return dtypes.UNKNOWN
    return value.dtype if isinstance(value, Expr) else "a number"


def _packed(name: str, signature: str) -> None:
    names = Signature(signature).positional

    def handler(ev: Evaluator, b: Bound) -> Any:
        values = [number(b[n]) for n in names]
        types = [_packed_type(v) for v in values]
        for parameter, dtype in zip(names, types):
            if dtype not in PACKED and dtype != dtypes.UNKNOWN:
                ev.problem("packed-x2-dtype", f"T.{name} works on {', '.join(PACKED[:-1])} and {PACKED[-1]}; its argument is {dtype}",
                           b.where(parameter))
                return unknown(f"T.{name}")
        if dtypes.UNKNOWN in types:
            return unknown(f"T.{name}")
        if len(set(types)) > 1:
            ev.problem("packed-x2-dtype", f"the arguments of T.{name} have one type; these are {' and '.join(dict.fromkeys(types))}", b.span)
            return unknown(f"T.{name}")
        return call(name, tuple(values), types[0], b.span)

    api(name, signature)(handler)


for _name in ("add2", "sub2", "mul2", "max2", "min2"):
    _packed(_name, "x y")
_packed("fma2", "x y z")
_packed("abs2", "x")


@api("align_up", "x y")
def align_up(ev: Evaluator, b: Bound) -> Any:
    from ...ir.build import ceildiv

    x, y = number(b["x"]), number(b["y"])
    if is_unknown(x) or is_unknown(y):
        return unknown("T.align_up")
    if isinstance(x, int) and isinstance(y, int):
        return -(-x // y) * y if y else unknown("T.align_up")
    return ceildiv(x, y) * y


@api("tma_gather4_bytes", "K_box dtype")
def tma_gather4_bytes(ev: Evaluator, b: Bound) -> Any:
    width, dtype = number(b["K_box"]), b.dtype("dtype")
    if not isinstance(width, int) or dtype == dtypes.UNKNOWN:
        return unknown("T.tma_gather4_bytes")
    return (4 * width * dtypes.bits(dtype) + 7) // 8


@api("index_to_coordinates", "index shape")
def index_to_coordinates(ev: Evaluator, b: Bound) -> Any:
    """The position of a flat index in a row-major box."""
    index, shape = number(b["index"]), b["shape"]
    extents = [number(e) for e in shape] if isinstance(shape, (list, tuple)) else []
    if is_unknown(index) or not extents or any(is_unknown(e) for e in extents):
        return unknown("T.index_to_coordinates")
    position: list[Any] = []
    for extent in reversed(extents[1:]):
        position.insert(0, index % extent)
        index = index // extent
    return [index % extents[0], *position]
