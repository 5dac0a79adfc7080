"""mma.sync and ldmatrix as device functions."""

from __future__ import annotations

from functools import cache

from ...target.chips import Target
from .device import DeviceFunction, function
from .instruction import Mma


@cache
def ldmatrix(count: int, transposed: bool) -> DeviceFunction:
    """``count`` 8 x 16-byte matrices; lane l passes the address of row l % 8 of matrix l / 8."""
    outs = ", ".join(f"%{i}" for i in range(count))
    results = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    trans = ".trans" if transposed else ""
    return function(
        f"tile_ldmatrix_x{count}{'_trans' if transposed else ''}",
        "void* registers, const void* row",
        f"""unsigned int r[{count}];
unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(row));
asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{outs}}}, [%{count}];"
    : {results} : "r"(address) : "memory");
__builtin_memcpy(registers, r, sizeof(r));""",
    )


@cache
def mma(instruction: Mma, target: Target, exact: str = "") -> DeviceFunction:
    """c += a * b for one 16 x 8 tile; registers in the order of the PTX ISA's fragment tables.

    ``exact``: the operands, of "ab", that need no rounding to tf32.
    """
    if instruction.sparse:
        return _mma_sparse(instruction)
    if instruction.a == "f64":
        return _mma_f64()
    if target.sm < 80:
        return _mma_turing(instruction)
    return _mma_one(instruction, exact if instruction.a == "tf32" else "")


def _signature(m: Mma) -> str:
    c = {"float32": "f32", "float16": "f16", "int32": "s32", "float64": "f64"}[m.c]
    return f"m16n8k{m.k}_{m.a}_{m.b}_{c}"


_PARAMETERS = "void* c_registers, const void* a_registers, const void* b_registers"


def _accumulators(m: Mma) -> tuple[str, str, int, str, str]:
    """Type, constraint and number of the accumulator registers; how they come and go."""
    if m.c == "float16":
        return "unsigned int", "r", 2, "f16", "f16"
    return ("int", "r", 4, "s32", "s32") if m.c == "int32" else ("float", "f", 4, "f32", "f32")


def _instruction(m: Mma, k: int, a: list[int], b: list[int]) -> str:
    """One mma with the given registers of arrays a and b; if it is sparse, lanes 0 and 1 of each four describe A by ``metadata``."""
    _, constraint, count, c_type, _ = _accumulators(m)
    c_names = ", ".join(f"%{i}" for i in range(count))
    a_names = ", ".join(f"%{count + i}" for i in range(len(a)))
    b_names = ", ".join(f"%{count + len(a) + i}" for i in range(len(b)))
    outputs = ", ".join(f'"+{constraint}"(c[{i}])' for i in range(count))
    inputs = ", ".join([f'"r"(a[{i}])' for i in a] + [f'"r"(b[{i}])' for i in b])
    name, described = "mma.sync", ""
    if m.sparse:
        name, described = "mma.sp::ordered_metadata.sync", f", %{count + len(a) + len(b)}, 0x0"
        inputs += ', "r"(metadata)'
    text = (
        f"{name}.aligned.m16n8k{k}.row.col.{c_type}.{m.a}.{m.b}.{c_type} "
        f"{{{c_names}}}, {{{a_names}}}, {{{b_names}}}, {{{c_names}}}{described};"
    )
    return f'asm("{text}"\n    : {outputs}\n    : {inputs});'


def _wrap(m: Mma, core: str, exact: str = "") -> str:
    kind, _, count, _, _ = _accumulators(m)
    convert = ""
    if m.a == "tf32":
        # The instruction ignores the low 13 bits; rounding first halves the error of dropping them.
        convert = (
            "\n".join(
                f'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"({r}[{i}]) : "f"(__uint_as_float({r}[{i}])));'
                for r, n in (("a", 4), ("b", 4 if m.sparse else 2))
                if r not in exact
                for i in range(n)
            )
            + "\n"
        )
    return (
        f"unsigned int a[4], b[{4 if m.sparse else 2}];\n{kind} c[{count}];\n"
        "__builtin_memcpy(a, a_registers, sizeof(a));\n__builtin_memcpy(b, b_registers, sizeof(b));\n"
        f"__builtin_memcpy(c, c_registers, sizeof(c));\n{convert}{core}\n__builtin_memcpy(c_registers, c, "
        "sizeof(c));"
    )


def _mma_one(m: Mma, exact: str) -> DeviceFunction:
    minimum = 89 if m.a in ("e4m3", "e5m2") else 80
    return function(
        f"tile_mma_{_signature(m)}" + (f"_exact_{exact}" if exact else ""),
        _PARAMETERS,
        _wrap(m, _instruction(m, m.k, [0, 1, 2, 3], [0, 1]), exact),
        minimum_sm=minimum,
    )


def _mma_sparse(m: Mma) -> DeviceFunction:
    minimum = 89 if m.a in ("e4m3", "e5m2") else 80
    return function(
        f"tile_mma_sp_{_signature(m)}",
        f"{_PARAMETERS}, unsigned int metadata",
        _wrap(m, _instruction(m, m.k, [0, 1, 2, 3], [0, 1, 2, 3])),
        minimum_sm=minimum,
    )


def _mma_turing(m: Mma) -> DeviceFunction:
    """sm_75 has k = 8 for f16: a k16 fragment is two k8 fragments side by side."""
    core = _instruction(m, 8, [0, 1], [0]) + "\n" + _instruction(m, 8, [2, 3], [1])
    return function(f"tile_mma_{_signature(m)}_by_k8", _PARAMETERS, _wrap(m, core))


def _mma_f64() -> DeviceFunction:
    """Two m8n8k4: the upper and the lower eight rows."""
    half = (
        'asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%0, %1}}, {{%2}}, {{%3}}, {{%0, %1}};"\n'
        '    : "+d"(c[{0}]), "+d"(c[{1}]) : "d"(a[{2}]), "d"(b[0]));'
    )
    body = (
        "double* c = static_cast<double*>(c_registers);\nconst double* a = static_cast<const "
        "double*>(a_registers);\n"
        "const double* b = static_cast<const double*>(b_registers);\n"
        + half.format(0, 1, 0)
        + "\n"
        + half.format(2, 3, 1)
    )
    return function("tile_mma_m16n8k4_f64", _PARAMETERS, body, minimum_sm=80)
