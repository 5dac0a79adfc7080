"""Expressions as CUDA text."""
from __future__ import annotations

from typing import Any

from ...analysis.bounds import Ranges
from ...ir import dtypes
from ...ir.affine import linear
from ...ir.buffer import VAR, Buffer
from ...ir.build import binary, const, const_int
from ...ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var, equal
from ...ir.expr import walk as walk_expr
from ...transform.bulk.tensor_map import TensorMap
from ...transform.errors import LoweringError
from . import nibbles, types
from .functions import FLOAT_FUNCTIONS, PREDICATES
from .intrinsics import INTRINSICS

_SYMBOL = {"add": "+", "sub": "-", "mul": "*", "div": "/", "truncdiv": "/", "truncmod": "%", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
           "ne": "!=", "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>"}
_LEVEL = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}
FLOOR_HELPERS = {
    "floordiv": "template <class T> __device__ __forceinline__ T tile_floordiv(T a, T b) {\n  T q = a / b;\n  return q - ((a % b != 0) && ((a < 0) != (b < 0)));\n}\n",
    "floormod": "template <class T> __device__ __forceinline__ T tile_floormod(T a, T b) {\n  T r = a % b;\n  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;\n}\n",
}


class ExpressionPrinter:
    """Prints expressions, and collects the device functions and headers they need."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges
        self.names: dict[Any, str] = {}
        self.sources: dict[str, str] = {}  # device functions by name, in order of first use
        self.headers: set[str] = set()
        self._taken: dict[str, int] = {}
        self.substitute: dict[Any, str] = {}  # loads that were done beforehand (vector accesses)
        self.maps: dict[TensorMap, str] = {}  # tensor maps, in order of first use
        self.unpredictable: set[Var] = set()  # names and loop variables whose values unrolling does not make constants
        self.alignment: dict[Buffer, int] = {}  # bytes to which a tensor's start must be aligned for the widest access

    def name(self, thing: Var | Buffer) -> str:
        if thing not in self.names:
            wanted = thing.name if thing.name.isidentifier() and thing.name not in _RESERVED else f"v_{thing.name}".replace(".", "_")
            count = self._taken.get(wanted, 0)
            self._taken[wanted] = count + 1
            self.names[thing] = wanted if count == 0 else f"{wanted}_{count}"
        return self.names[thing]

    def type(self, dtype: str, span: Any = None) -> str:
        if dtype in types.HEADERS:
            self.headers.add(types.HEADERS[dtype])
        if dtype == types.FLOAT4:
            self.use("tile_fp4", nibbles.CONVERSIONS)
        return types.c_type(dtype, span)

    def use(self, name: str, source: str) -> str:
        self.sources.setdefault(name, source)
        return name

    def needs_alignment(self, buffer: Buffer, size: int) -> None:
        """An access of ``size`` bytes at once."""
        storage = buffer.storage()
        if storage.scope == "global":
            self.alignment[storage] = max(self.alignment.get(storage, 1), min(size, 16))

    def tensor_map(self, wanted: TensorMap) -> str:
        """The address of a tensor map, which is a parameter of the kernel."""
        if wanted not in self.maps:
            self.use("tile_tensor_map", "struct alignas(64) tile_tensor_map {\n  unsigned long long words[16];\n};\n")
            self.needs_alignment(wanted.tensor, 16)
            self.maps[wanted] = self.name(Var("handle", None, wanted.name))
        return f"&{self.maps[wanted]}"

    # -- expressions ---------------------------------------------------------------------------------------------
    def text(self, e: Expr, level: int = 0) -> str:
        if e in self.substitute:
            return self.substitute[e]
        handler = _HANDLERS.get(type(e))
        if handler is None:
            raise LoweringError(f"{type(e).__name__} cannot be printed as CUDA", e.span)
        return handler(self, e, level)

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The lvalue of an element."""
        if buffer.scope == VAR and buffer.attrs.get("byte_offset") is None:
            return self.name(buffer)
        return f"{self.name(buffer)}[{self.text(self.offset(buffer, indices))}]"

    def in_local_memory(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether a 16-bit float of a thread's own array is picked by a value that is known at run time only.

        ptxas 13.0 goes wrong there: the array is addressed in bytes, and the lower byte of a converted float is stored as if the
        float were a whole number. Such elements are read and written as 16 bits, whatever happens around.
        """
        return buffer.scope == "local" and buffer.dtype in types.HALVES and any(map(self.is_unpredictable, indices))

    def is_unpredictable(self, e: Expr) -> bool:
        return any(isinstance(x, (Load, Call)) or (isinstance(x, Var) and (x.kind != "loop" and x.kind != "let" or x in self.unpredictable))
                   for x in walk_expr(e))

    def assignment(self, buffer: Buffer, indices: tuple[Expr, ...], value: str) -> str:
        """``buffer[indices] = value``."""
        if self.in_local_memory(buffer, indices):
            bits = "__half_as_ushort" if buffer.dtype == "float16" else "__bfloat16_as_ushort"
            return f"*reinterpret_cast<volatile unsigned short*>(&{self.element(buffer, indices)}) = {bits}({value})"
        if nibbles.is_packed(buffer):
            return nibbles.store(self, self.name(buffer), self.text(self.offset(buffer, indices)), value, buffer.dtype)
        return f"{self.element(buffer, indices)} = {value}"

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """Elements from the start of the buffer."""
        indices, strides = joined(indices, buffer.all_strides())
        wide = _is_large(buffer)
        total: Expr | None = None
        for index, stride in zip(indices, strides):
            if wide:
                index = _widened(index)
                stride = const(const_int(stride) or 0, "int64") if const_int(stride) is not None else Cast("int64", None, stride)
            part = index * stride
            total = part if total is None else total + part
        return _simplified(self, total) if total is not None else const(0)


_RESERVED = {"int", "float", "double", "char", "short", "long", "bool", "auto", "const", "if", "else", "for", "while", "do", "return", "break",
             "continue", "switch", "case", "default", "struct", "class", "union", "enum", "void", "signed", "unsigned", "static", "extern", "this",
             "template", "typename", "operator", "new", "delete", "register", "volatile", "half", "min", "max", "abs", "exp", "log", "sqrt", "pow", "pool",
             "blockIdx", "threadIdx", "gridDim", "blockDim", "true", "false", "inline", "namespace", "using", "public", "private", "y0", "y1", "j0", "j1"}


def joined(indices: tuple[Expr, ...], strides: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """``x // n`` at stride ``n * s`` beside ``x % n`` at stride ``s`` is ``x`` at stride ``s``.

    Places in swizzled tiles are told this way. The CUDA compiler simplifies the two halves each in its own way and then no longer sees that
    they make up one number: every access keeps an address of its own in a register all through the loop around it.
    """
    out: list[tuple[Expr, Expr]] = []
    for low, stride in zip(indices, strides):
        if out and isinstance(low, Binary) and low.op == "floormod":
            high, step = out[-1]
            if isinstance(high, Binary) and high.op == "floordiv" and _is_multiple(step, const_int(low.b), stride) and equal(high.b, low.b) and equal(high.a, low.a):
                out[-1] = (low.a, stride)
                continue
        out.append((low, stride))
    return tuple(i for i, _ in out), tuple(s for _, s in out)


def _is_multiple(step: Expr, count: int | None, stride: Expr) -> bool:
    """Whether ``step`` is ``count * stride``."""
    whole, part = const_int(step), const_int(stride)
    return count is not None and whole is not None and part is not None and whole == count * part


def _widened(e: Expr) -> Expr:
    """An index in 64 bits, its sums and products too: in 32 bits they would overflow before they were widened."""
    if isinstance(e, Const):
        return const(e.value, "int64")
    if isinstance(e, Binary) and e.op in ("add", "sub", "mul") and dtypes.bits(e.dtype) < 64:
        return Binary("int64", e.span, e.op, _widened(e.a), _widened(e.b))
    return e if e.dtype == "int64" else Cast("int64", None, e)


def _is_large(buffer: Buffer) -> bool:
    """Whether element offsets may exceed 32 bits; of a tensor with run-time extents they may."""
    if buffer.scope != "global":
        return False
    extents = buffer.static_shape()
    if extents is None:
        return True
    total = 1
    for extent in extents:
        total *= extent
    return total >= 2**31


def _const(p: ExpressionPrinter, e: Const, level: int) -> str:
    p.type(e.dtype)
    return types.literal(e.value, e.dtype)


def _var(p: ExpressionPrinter, e: Var, level: int) -> str:
    return p.name(e)


def _binary(p: ExpressionPrinter, e: Binary, level: int) -> str:
    dtype = e.a.dtype
    if e.op in ("min", "max"):
        return _min_max(p, e, dtype)
    if e.op == "pow":
        return p.text(Call(e.dtype, e.span, "pow", (e.a, e.b)), level)
    if e.op in ("floordiv", "floormod"):
        return _floor(p, e, level)
    if dtype in types.FLOAT8 or dtype == types.FLOAT4:
        p.type(dtype)
        wide = Binary("float32" if e.dtype != "bool" else "bool", e.span, e.op, Cast("float32", None, e.a), Cast("float32", None, e.b))
        return p.text(Cast(e.dtype, None, wide) if e.dtype != "bool" else wide, level)
    if dtype in types.INT4 and e.dtype == dtype:  # computed wide, wrapped to four bits
        return p.text(Cast(dtype, None, Binary("int32", e.span, e.op, Cast("int32", None, e.a), Cast("int32", None, e.b))), level)
    if e.op in ("truncmod",) and dtypes.is_float(dtype):
        return p.text(Call(e.dtype, e.span, "fmod", (e.a, e.b)), level)
    symbol = _SYMBOL[e.op]
    mine = _LEVEL[symbol]
    a, b = p.text(e.a, mine), p.text(e.b, mine + 1)
    text = f"{a} {symbol} {b}"
    if dtypes.is_int(dtype) and dtypes.bits(dtype) < 32 and e.dtype == dtype:
        return f"static_cast<{p.type(dtype)}>({text})"  # C++ computes narrow integers as int
    return f"({text})" if mine < level else text


def _floor(p: ExpressionPrinter, e: Binary, level: int) -> str:
    if dtypes.is_float(e.dtype):
        quotient = Call(e.dtype, None, "floor", (Binary(e.dtype, None, "div", e.a, e.b),))
        if e.op == "floordiv":
            return p.text(quotient, level)
        return p.text(Binary(e.dtype, None, "sub", e.a, Binary(e.dtype, None, "mul", quotient, e.b)), level)
    simpler = _simplified(p, e)
    if not (isinstance(simpler, Binary) and simpler.op == e.op):
        return p.text(simpler, level)
    e = simpler
    if dtypes.is_unsigned(e.dtype) or (p.ranges.proves_nonnegative(e.a) and _is_positive(p, e.b)):
        return _binary(p, Binary(e.dtype, e.span, "truncdiv" if e.op == "floordiv" else "truncmod", e.a, e.b), level)
    helper = p.use(f"tile_{e.op}", FLOOR_HELPERS[e.op])
    return f"{helper}<{p.type(e.dtype)}>({p.text(e.a)}, {p.text(e.b)})"


def _simplified(p: ExpressionPrinter, e: Expr) -> Expr:
    """Without the quotients and remainders in it, and those in these, that are known."""
    if not isinstance(e, Binary) or e.op not in ("add", "sub", "mul", "floordiv", "floormod", "bitxor") or not dtypes.is_int(e.dtype):
        return e
    a, b = _simplified(p, e.a), _simplified(p, e.b)
    if a is not e.a or b is not e.b:
        made = binary(e.op, a, b, e.span)
        if not isinstance(made, Binary) or made.op != e.op:
            return made
        e = made
    return (_without_division(p, e) or e) if e.op in ("floordiv", "floormod") else e


def _without_division(p: ExpressionPrinter, e: Binary) -> Expr | None:
    """``(64 * u + v) // 64`` is ``u + v // 64`` and the remainder ``v % 64``, and simpler where ``v`` is known to be less: layouts ask this of digits."""
    divisor = const_int(e.b)
    if divisor is None or divisor <= 1 or not dtypes.is_int(e.dtype) or dtypes.is_unsigned(e.dtype):
        return None
    terms, total = linear(e.a)
    if any(t.dtype != e.dtype for t, _ in terms):
        return None
    whole, rest = [(t, f // divisor) for t, f in terms if f % divisor == 0], [(t, f) for t, f in terms if f % divisor]
    low = high = total % divisor
    for term, factor in rest:
        a, b = p.ranges.bounds(term)
        if a is None or b is None:
            return None
        low, high = low + min(a * factor, b * factor), high + max(a * factor, b * factor)
    if low < 0 or (high >= divisor and not whole and total < divisor):
        return None
    left = _sum(rest, total % divisor, e.dtype)
    if high >= divisor:
        left = Binary(e.dtype, e.span, e.op, left, e.b)
    elif e.op == "floordiv":
        left = const(0, e.dtype)
    return left if e.op == "floormod" else _sum([*whole, (left, 1)], total // divisor, e.dtype)


def _sum(terms: list[tuple[Expr, int]], total: int, dtype: str) -> Expr:
    found: Expr | None = None
    for term, factor in terms:
        if const_int(term) == 0:
            continue
        part = term if factor == 1 else term * factor
        found = part if found is None else found + part
    if found is None:
        return const(total, dtype)
    return found + total if total else found


def _is_positive(p: ExpressionPrinter, e: Expr) -> bool:
    low, _ = p.ranges.bounds(e)
    return low is not None and low >= 1


def _min_max(p: ExpressionPrinter, e: Binary, dtype: str) -> str:
    if dtype in ("float32", "tfloat32", "float64"):
        suffix = "f" if dtype != "float64" else ""
        return f"f{e.op}{suffix}({p.text(e.a)}, {p.text(e.b)})"
    if dtype in types.HALVES or dtype in types.FLOAT8 or dtype == types.FLOAT4:
        wide = Binary("float32", e.span, e.op, Cast("float32", None, e.a), Cast("float32", None, e.b))
        return p.text(Cast(dtype, None, wide))
    a, b = p.text(e.a, 8), p.text(e.b, 8)
    symbol = "<" if e.op == "min" else ">"
    if isinstance(e.a, (Const, Var)) and isinstance(e.b, (Const, Var)):
        return f"({a} {symbol} {b} ? {a} : {b})"
    return f"{e.op}({p.text(e.a)}, {p.text(e.b)})" if dtypes.bits(dtype) >= 32 else f"static_cast<{p.type(dtype)}>({e.op}(int({a}), int({b})))"


def _unary(p: ExpressionPrinter, e: Unary, level: int) -> str:
    if e.dtype in types.FLOAT8 or e.dtype == types.FLOAT4:
        return p.text(Cast(e.dtype, None, Unary("float32", None, e.op, Cast("float32", None, e.a))), level)
    if e.dtype in types.INT4:
        return p.text(Cast(e.dtype, None, Unary("int32", None, e.op, Cast("int32", None, e.a))), level)
    symbol = {"neg": "-", "not": "!", "bitnot": "~"}[e.op]
    text = f"{symbol}{p.text(e.a, 11)}"
    return f"static_cast<{p.type(e.dtype)}>({text})" if dtypes.is_int(e.dtype) and dtypes.bits(e.dtype) < 32 else (f"({text})" if level > 10 else text)


def _cast(p: ExpressionPrinter, e: Cast, level: int) -> str:
    p.type(e.dtype, e.span)
    p.type(e.a.dtype, e.a.span)
    if e.dtype == "bool":
        return p.text(Binary("bool", None, "ne", e.a, const(0, e.a.dtype)), level)
    return types.convert(p.text(e.a), e.a.dtype, e.dtype)


def _select(p: ExpressionPrinter, e: Select, level: int) -> str:
    return f"({p.text(e.cond, 1)} ? {p.text(e.then, 1)} : {p.text(e.other, 1)})"


def _load(p: ExpressionPrinter, e: Load, level: int) -> str:
    p.type(e.buffer.dtype, e.span)
    if p.in_local_memory(e.buffer, e.indices):
        made = "__ushort_as_half" if e.buffer.dtype == "float16" else "__ushort_as_bfloat16"
        return f"{made}(*reinterpret_cast<const volatile unsigned short*>(&{p.element(e.buffer, e.indices)}))"
    if nibbles.is_packed(e.buffer):
        return nibbles.load(p, p.name(e.buffer), p.text(p.offset(e.buffer, e.indices)), e.buffer.dtype)
    return p.element(e.buffer, e.indices)


def _call(p: ExpressionPrinter, e: Call, level: int) -> str:
    attrs = e.attrs or {}
    if e.op == "device_function" and attrs.get("external"):
        return f"{attrs['name']}({', '.join(p.text(a) for a in e.args)})"
    if e.op == "device_function":
        p.use(attrs["name"], attrs["source"])
        for header, mark in (("cuda_fp16.h", "__half"), ("cuda_bf16.h", "bfloat16"), ("cuda_fp8.h", "__nv_fp8"),
                             ("cooperative_groups.h", "cooperative_groups::")):
            if mark in attrs["source"]:
                p.headers.add(header)
        for address in e.args if attrs.get("bytes") else ():
            if isinstance(address, Call) and address.op == "address_of":
                p.needs_alignment(address.args[0].buffer, attrs["bytes"])
        return f"{attrs['name']}({', '.join(p.text(a) for a in e.args)})"
    if e.op == "tensor_map":
        return p.tensor_map(attrs["map"])
    if e.op == "address_of":
        return _address(p, e)
    if e.op == "reinterpret":
        return _reinterpret(p, e)
    if e.op in PREDICATES:
        return PREDICATES[e.op](p, e)
    if e.op == "abs" and dtypes.is_unsigned(e.dtype):
        return p.text(e.args[0], level)
    if e.op == "abs" and not dtypes.is_float(e.dtype):
        return f"static_cast<{p.type(e.dtype)}>(abs({p.text(e.args[0])}))"
    if e.op in INTRINSICS:
        return INTRINSICS[e.op](p, e)
    function = FLOAT_FUNCTIONS.get(e.op)
    if function is None:
        raise LoweringError(f"T.{e.op} cannot be compiled for CUDA yet", e.span)
    if e.dtype in types.HALVES or e.dtype in types.FLOAT8 or e.dtype == types.FLOAT4:
        wide = Call("float32", e.span, e.op, tuple(Cast("float32", None, a) for a in e.args))
        return p.text(Cast(e.dtype, None, wide), level)
    return function(e.dtype, [p.text(a) for a in e.args])


def _address(p: ExpressionPrinter, e: Call) -> str:
    load = e.args[0]
    p.type(load.buffer.dtype, e.span)
    if nibbles.is_packed(load.buffer):
        return f"&{p.name(load.buffer)}[({p.text(p.offset(load.buffer, load.indices))}) / 2]"
    return f"&{p.element(load.buffer, load.indices)}"


def _reinterpret(p: ExpressionPrinter, e: Call) -> str:
    source = e.args[0].dtype
    if dtypes.bits(source) != dtypes.bits(e.dtype):
        raise LoweringError(f"T.reinterpret between types of different size ({source} and {e.dtype})", e.span)
    helper = p.use("tile_reinterpret", "template <class T, class S> __device__ __forceinline__ T tile_reinterpret(S value) {\n"
                   "  T result;\n  __builtin_memcpy(&result, &value, sizeof(T));\n  return result;\n}\n")
    return f"{helper}<{p.type(e.dtype)}>({p.text(e.args[0])})"


def _unknown(p: ExpressionPrinter, e: Unknown, level: int) -> str:
    raise LoweringError(f"a value is not known ({e.reason}); give an instance that fixes the kernel's parameters", e.span)


_HANDLERS: dict[type, Any] = {
    Const: _const, Var: _var, Binary: _binary, Unary: _unary, Cast: _cast, Select: _select, Load: _load, Call: _call, Unknown: _unknown,
}
