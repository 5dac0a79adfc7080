"""Intrinsics as CUDA text: rounded arithmetic, warp exchange, votes, bits. One row a name: ``text(printer, call)``.

CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions", "Warp Match Functions"; CUDA Math API, "Intrinsics".
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir import dtypes
from ...ir.expr import Call, Expr
from ...transform.errors import LoweringError
from . import types

if TYPE_CHECKING:
    from .expressions import ExpressionPrinter

Printer = Callable[["ExpressionPrinter", Call], str]

# -- arithmetic with a rounding mode ---------------------------------------------------------------------------------------------
_ROUNDED = {"ieee_add": "add", "ieee_sub": "sub", "ieee_mul": "mul", "ieee_fdiv": "div", "ieee_fsqrt": "sqrt", "ieee_frcp": "rcp"}


def _rounded(stem: str) -> Printer:
    def text(p: ExpressionPrinter, e: Call) -> str:
        letter = "d" if e.dtype == "float64" else "f"
        return f"__{letter}{stem}_{_mode(e)}({_arguments(p, e)})"

    return _in_float(text)


def _fmaf(p: ExpressionPrinter, e: Call) -> str:
    if e.dtype in types.HALVES:
        p.type(e.dtype)
        return f"__hfma({_arguments(p, e)})"
    return f"__{'fma' if e.dtype == 'float64' else 'fmaf'}_{_mode(e)}({_arguments(p, e)})"


def _mode(e: Call) -> str:
    return str((e.attrs or {}).get("mode") or "rn")


def _in_float(inner: Printer) -> Printer:
    """16-bit operands are computed in float32 and rounded once: for one operation that is the correctly rounded result."""
    def text(p: ExpressionPrinter, e: Call) -> str:
        if e.dtype not in types.HALVES:
            return inner(p, e)
        from ...ir.build import cast

        wide = Call("float32", e.span, e.op, tuple(cast(a, "float32") for a in e.args), e.attrs)
        p.type(e.dtype)
        return types.convert(inner(p, wide), "float32", e.dtype)

    return text


def _fma(p: ExpressionPrinter, e: Call) -> str:
    if dtypes.is_float(e.dtype):
        return _fmaf(p, e)
    a, b, c = (p.text(x, 10) for x in e.args)
    return f"({a} * {b} + {c})"


def _named(name: str, double: str | None = None) -> Printer:
    return _in_float(lambda p, e: f"{(double or name) if e.dtype == 'float64' else name}({_arguments(p, e)})")


def _extremum_nan(p: ExpressionPrinter, e: Call) -> str:
    """The larger or smaller of two values; NaN where one of them is."""
    wide, compare = p.type(e.dtype), ">" if e.op == "max_nan" else "<"
    name = p.use(f"tile_{e.op}", f"template <class T> __device__ __forceinline__ T tile_{e.op}(T a, T b) {{\n"
                 f"  return a != a ? a : b != b ? b : a {compare} b ? a : b;\n}}\n")
    return f"{name}<{wide}>({_arguments(p, e)})"


def _arguments(p: ExpressionPrinter, e: Call) -> str:
    return ", ".join(p.text(a) for a in e.args)


# -- warps -----------------------------------------------------------------------------------------------------------------------
_SHUFFLED = ("float32", "float64", "int32", "uint32", "int64", "uint64", "float16", "bfloat16")


def _carried(p: ExpressionPrinter, value: Expr) -> tuple[str, Callable[[str], str]]:
    """A value as a type the exchange functions take, and how to turn the result back."""
    t = p.type(value.dtype)
    if value.dtype in _SHUFFLED:
        return p.text(value), lambda x: x
    if dtypes.is_float(value.dtype):
        raise LoweringError(f"values of type {value.dtype} cannot be exchanged between threads; cast them to float32", value.span)
    return f"static_cast<int>({p.text(value)})", lambda x: f"static_cast<{t}>({x})"


def _shuffle(name: str) -> Printer:
    """Arguments: value, offset or lane, width, mask."""
    def text(p: ExpressionPrinter, e: Call) -> str:
        value, back = _carried(p, e.args[0])
        place, width, mask = (p.text(a) for a in e.args[1:4])
        return back(f"{name}({mask}, {value}, {place}, {width})")

    return text


def _tvm_shuffle(name: str) -> Printer:
    """Arguments: mask, value, lane, width, warp size."""
    def text(p: ExpressionPrinter, e: Call) -> str:
        value, back = _carried(p, e.args[1])
        return back(f"{name}({p.text(e.args[0])}, {value}, {p.text(e.args[2])}, {p.text(e.args[3])})")

    return text


def _warp_reduce(combine: str) -> Printer:
    """Every lane gets the combination of all 32."""
    def text(p: ExpressionPrinter, e: Call) -> str:
        value = e.args[0]
        carried, back = _carried(p, value)
        t = p.type(value.dtype) if value.dtype in _SHUFFLED else "int"
        name = f"tile_{e.op}_{value.dtype if value.dtype in _SHUFFLED else 'int32'}"
        step = combine.format(min="fmin" if dtypes.is_float(value.dtype) else "min", max="fmax" if dtypes.is_float(value.dtype) else "max")
        if value.dtype in types.HALVES:
            step = step.replace("fmin(", "__hmin(").replace("fmax(", "__hmax(")
        p.use(name, f"__device__ __forceinline__ {t} {name}({t} value) {{\n  for (int offset = 16; offset > 0; offset /= 2) {{\n"
                    f"    {t} other = __shfl_xor_sync(0xffffffffu, value, offset);\n    value = {step};\n  }}\n  return value;\n}}\n")
        return back(f"{name}({carried})")

    return text


def _elect(p: ExpressionPrinter, e: Call) -> str:
    """One thread of each group of ``thread_extent``; 0: one of the block."""
    name = p.use("tile_shuffle_elect", "__device__ __forceinline__ bool tile_shuffle_elect(int extent) {\n"
                 "  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
                 "  return extent == 0 ? thread == 0 : thread % extent == 0;\n}\n")
    return f"{name}({_arguments(p, e)})"


def _vote(name: str) -> Printer:
    """Arguments: predicate, mask."""
    def text(p: ExpressionPrinter, e: Call) -> str:
        mask = p.text(e.args[1]) if len(e.args) > 1 else "0xffffffffu"
        return f"static_cast<{p.type(e.dtype)}>({name}({mask}, {p.text(e.args[0])}))"

    return text


def _block_vote(p: ExpressionPrinter, e: Call) -> str:
    return f"__{e.op}({_arguments(p, e)})"


def _match(p: ExpressionPrinter, e: Call) -> str:
    mask = p.text(e.args[1]) if len(e.args) > 1 else "0xffffffffu"
    value = p.text(e.args[0])
    if e.op == "match_any_sync":
        return f"__match_any_sync({mask}, {value})"
    name = p.use("tile_match_all", "template <class T> __device__ __forceinline__ unsigned int tile_match_all(unsigned int mask, T value) {\n"
                 "  int agreed;\n  return __match_all_sync(mask, value, &agreed);\n}\n")
    return f"{name}({mask}, {value})"


def _bits(narrow: str, wide: str) -> Printer:
    return lambda p, e: f"static_cast<{p.type(e.dtype)}>({wide if dtypes.bits(e.args[0].dtype) > 32 else narrow}({_arguments(p, e)}))"


def _read_only(p: ExpressionPrinter, e: Call) -> str:
    from ...ir.expr import Load

    place = e.args[0]
    assert isinstance(place, Load)
    p.type(place.buffer.dtype, e.span)
    return f"__ldg(&{p.element(place.buffer, place.indices)})"


# -- stochastic rounding: PTX ISA, cvt.rs (sm_100a, sm_103a). One value is the lowest of the vector that the instruction takes. ------------------
_RANDOM_BITS = {"float16": "0x1fffu", "bfloat16": "0xffffu"}  # of the lower value; PTX wants zeros elsewhere


def _cast_rs(p: ExpressionPrinter, e: Call) -> str:
    t = p.type(e.dtype, e.span)
    name = f"tile_cast_rs_{e.dtype}"
    head = f"__device__ __forceinline__ {t} {name}(float value, unsigned int random) {{\n"
    if e.dtype in types.HALVES:
        kind, made = ("f16x2", "__ushort_as_half") if e.dtype == "float16" else ("bf16x2", "__ushort_as_bfloat16")
        body = (f'  unsigned int pair;\n  asm("cvt.rs.satfinite.{kind}.f32 %0, %1, %2, %3;" : "=r"(pair) : "f"(0.0f), "f"(value), '
                f'"r"(random & {_RANDOM_BITS[e.dtype]}));\n  return {made}(static_cast<unsigned short>(pair & 0xffffu));\n')
    elif e.dtype == types.FLOAT4:
        body = ('  unsigned short codes;\n  asm("cvt.rs.satfinite.e2m1x4.f32 %0, {%1, %1, %1, %2}, %3;" : "=h"(codes) : "f"(0.0f), "f"(value), "r"(random));\n'
                "  return static_cast<unsigned char>(codes & 15);\n")
    else:
        kind = "e4m3x4" if e.dtype == "float8_e4m3fn" else "e5m2x4"
        body = (f'  unsigned int codes;\n  asm("cvt.rs.satfinite.{kind}.f32 %0, {{%1, %1, %1, %2}}, %3;" : "=r"(codes) : "f"(0.0f), "f"(value), "r"(random));\n'
                f"  {t} made;\n  made.__x = static_cast<__nv_fp8_storage_t>(codes & 0xffu);\n  return made;\n")
    return f"{p.use(name, head + body + '}' + chr(10))}({_arguments(p, e)})"


# -- random numbers --------------------------------------------------------------------------------------------------------------
GENERATOR = "rng_state"  # of each thread; declared at the head of a kernel that draws numbers


def _draw(p: ExpressionPrinter, e: Call) -> str:
    p.headers.add("curand_kernel.h")
    if e.op == "rng_init":
        return f"curand_init({_arguments(p, e)}, &{GENERATOR})"
    if e.op == "rng_rand":
        return f"curand(&{GENERATOR})"
    return f"curand_{(e.attrs or {}).get('dist') or 'uniform'}{'_double' if e.dtype == 'float64' else ''}(&{GENERATOR})"


_CLUSTER_RANK = ("__device__ __forceinline__ int tile_cluster_rank() {\n  int rank;\n"
                 '  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));\n  return rank;\n}\n')

INTRINSICS: dict[str, Printer] = {
    **{name: _rounded(stem) for name, stem in _ROUNDED.items()},
    "ieee_fmaf": _fmaf, "ieee_frsqrt": _named("__frsqrt_rn"), "fma": _fma,
    "fast_rcp": _in_float(lambda p, e: f"__fdividef(1.0f, {_arguments(p, e)})" if e.dtype != "float64" else f"(1.0 / {p.text(e.args[0], 11)})"),
    "max_nan": _in_float(_extremum_nan), "min_nan": _in_float(_extremum_nan),
    "nextafter": _named("nextafterf", "nextafter"), "ldexp": _named("ldexpf", "ldexp"),
    "shfl_xor": _shuffle("__shfl_xor_sync"), "shfl_down": _shuffle("__shfl_down_sync"), "shfl_up": _shuffle("__shfl_up_sync"),
    "shfl_sync": _shuffle("__shfl_sync"),
    "tvm_warp_shuffle": _tvm_shuffle("__shfl_sync"), "tvm_warp_shuffle_up": _tvm_shuffle("__shfl_up_sync"),
    "tvm_warp_shuffle_down": _tvm_shuffle("__shfl_down_sync"),
    "warp_reduce_sum": _warp_reduce("value + other"), "warp_reduce_max": _warp_reduce("{max}(value, other)"),
    "warp_reduce_min": _warp_reduce("{min}(value, other)"), "warp_reduce_bitand": _warp_reduce("value & other"),
    "warp_reduce_bitor": _warp_reduce("value | other"),
    "any_sync": _vote("__any_sync"), "all_sync": _vote("__all_sync"), "ballot_sync": _vote("__ballot_sync"), "ballot": _vote("__ballot_sync"),
    **dict.fromkeys(("syncthreads_count", "syncthreads_and", "syncthreads_or"), _block_vote),
    "activemask": lambda p, e: "static_cast<unsigned long long>(__activemask())", "tvm_warp_activemask": lambda p, e: "__activemask()",
    "block_rank_in_cluster": lambda p, e: p.use("tile_cluster_rank", _CLUSTER_RANK) + "()",
    "match_any_sync": _match, "match_all_sync": _match, "shuffle_elect": _elect,
    "__ffs": _bits("__ffs", "__ffsll"), "popcount": _bits("__popc", "__popcll"), "clz": _bits("__clz", "__clzll"),
    **dict.fromkeys(("rng_init", "rng_rand", "rng_rand_float"), _draw),
    "cast_rs": _cast_rs,
    "__fns": lambda p, e: f"__fns({_arguments(p, e)})", "__ldg": _read_only,
}
