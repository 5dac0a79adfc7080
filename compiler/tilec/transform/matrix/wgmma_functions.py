"""wgmma instructions as device functions (PTX ISA, "wgmma.mma_async", "wgmma.fence", "Matrix Descriptor Format")."""

from __future__ import annotations

from functools import cache

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...ir.build import const_int
from .device import DeviceFunction, function

_SHARED = "static_cast<unsigned int>(__cvta_generic_to_shared(base))"


def _wgmma(name: str, parameters: str, body: str, result: str = "void") -> DeviceFunction:
    return function(name, parameters, body, result, minimum_sm=90)


FENCE = _wgmma("tile_wgmma_fence", "", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");')
COMMIT = _wgmma("tile_wgmma_commit", "", 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");')
# What the lanes of a warp agree on, told to the compiler: descriptors then live in uniform registers.
UNIFORM = _wgmma("tile_uniform", "int value", "return __shfl_sync(0xffffffffu, value, 0);", "int32")
DESCRIPTOR = _wgmma(
    "tile_wgmma_descriptor",
    "const void* base, unsigned int offset, unsigned int leading, unsigned int stride, unsigned int layout_type",
    f"""
unsigned int start = {_SHARED} + offset;
return static_cast<unsigned long long>((start >> 4) & 0x3fffu)
    | (static_cast<unsigned long long>((leading >> 4) & 0x3fffu) << 16)
    | (static_cast<unsigned long long>((stride >> 4) & 0x3fffu) << 32)
    | (static_cast<unsigned long long>(layout_type) << 62);""",
    "uint64",
)


@cache
def wait(pending: int) -> DeviceFunction:
    return _wgmma(f"tile_wgmma_wait_{pending}", "", f'asm volatile("wgmma.wait_group.sync.aligned {pending};" ::: "memory");')


def _registers(kind: str, count: int, dtype: str, what: str, constraint: str, operands: str) -> DeviceFunction:
    lines = f"{kind}* r = static_cast<{kind}*>(registers);\nasm volatile(\"\" {operands} : \"memory\");"
    return _wgmma(f"tile_registers_{what}_{dtype}_{count}", "void* registers", lines)


def _held(registers: Buffer) -> tuple[str, str, int]:
    """The C++ type, the constraint and the number of 32-bit registers of a register array."""
    total = const_int(registers.shape[0]) or 0
    kind, constraint = {"float32": ("float", "f"), "int32": ("int", "r")}.get(registers.dtype, ("unsigned int", "r"))
    return kind, constraint, total * dtypes.bits(registers.dtype) // 32


def keep_registers(registers: Buffer) -> DeviceFunction:
    """The compiler may neither use an accumulator before this point nor take it for unchanged."""
    kind, constraint, count = _held(registers)
    outputs = ", ".join(f'"+{constraint}"(r[{i}])' for i in range(count))
    return _registers(kind, count, registers.dtype, "keep", constraint, f": {outputs} :")


def read_registers(registers: Buffer) -> DeviceFunction:
    """An operand stays in its registers up to this point."""
    kind, constraint, count = _held(registers)
    inputs = ", ".join(f'"{constraint}"(r[{i}])' for i in range(count))
    return _registers(kind, count, registers.dtype, "read", constraint, f":: {inputs}")


@cache
def mma(a: str, b: str, c: str, n: int, k: int, a_in_registers: bool, a_along_m: bool, b_along_n: bool, start: str = "", sparse: bool = False) -> DeviceFunction:
    """c += a * b for 64 x ``n``; ``start`` "zero": c = a * b, "chosen": that only if ``keep`` is 0. ``sparse``: half of a is in memory.

    ``a_along_m``, ``b_along_n``: neighbours in memory are neighbours along M or N."""
    kind, constraint, count = {"float32": ("float", "f", n // 2), "int32": ("int", "r", n // 2), "float16": ("unsigned int", "r", n // 4)}[c]
    ptx_c = {"float32": "f32", "int32": "s32", "float16": "f16"}[c]
    name = f"tile_wgmma_{'sp_' if sparse else ''}m64n{n}k{k}_{a}_{b}_{ptx_c}" + ("_rs" if a_in_registers else "_t" if a_along_m else "") + ("_tb" if b_along_n else "")
    name += {"": "", "zero": "_z", "chosen": "_c"}[start]
    registers = ", ".join(f"%{i}" for i in range(count))
    a_text = ", ".join(f"%{count + i}" for i in range(4)) if a_in_registers else f"%{count}"
    b_text = f"%{count + (4 if a_in_registers else 1)}"
    sixteen = a in ("f16", "bf16")
    scales = "p, 1, 1" if ptx_c != "s32" else "p"
    transposes = (f", {int(b_along_n)}" if a_in_registers else f", {int(a_along_m)}, {int(b_along_n)}") if sixteen else ""
    operand = "{" + a_text + "}" if a_in_registers else a_text
    form = ".sp" if sparse else ""
    inputs_before = count + (5 if a_in_registers else 2)
    described = f"%{inputs_before}, 0, " if sparse else ""
    source = f"%{inputs_before + sparse}" if start == "chosen" else str(int(start != "zero"))
    text = (f"{{\\n.reg .pred p;\\nsetp.ne.b32 p, {source}, 0;\\nwgmma.mma_async{form}.sync.aligned.m64n{n}k{k}.{ptx_c}.{a}.{b} "
            f"{{{registers}}}, {operand}, {b_text}, {described}{scales}{transposes};\\n}}")
    outputs = ", ".join(f'"+{constraint}"(c[{i}])' for i in range(count))
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if a_in_registers else '"l"(a)'
    take = "unsigned int a[4];\n__builtin_memcpy(a, a_registers, sizeof(a));\n" if a_in_registers else ""
    parameter = "const void* a_registers" if a_in_registers else "unsigned long long a"
    more = [("unsigned int", "metadata")] * sparse + [("int", "keep")] * (start == "chosen")
    parameters = f"void* c_registers, {parameter}, unsigned long long b" + "".join(f", {of} {n}" for of, n in more)
    return _wgmma(name, parameters, f"""{kind}* c = static_cast<{kind}*>(c_registers);
{take}asm volatile("{text}"
    : {outputs}
    : {inputs}, "l"(b){''.join(f', "r"({n})' for _, n in more)} : "memory");""")
