"""tcgen05 and mbarrier instructions as device functions (PTX ISA, "TensorCore 5th Generation", "mbarrier")."""

from __future__ import annotations

from functools import cache

from .device import DeviceFunction, function

_SHARED = "static_cast<unsigned int>(__cvta_generic_to_shared({}))"


def _tcgen05(name: str, parameters: str, body: str, result: str = "void") -> DeviceFunction:
    return function(name, parameters, body, result, minimum_sm=100, needs_tcgen05=True)


# Tensor memory. alloc, dealloc and relinquish are executed by all lanes of one warp.

ALLOC = _tcgen05(
    "tile_tcgen05_alloc",
    "void* slot, unsigned int columns",
    f"""
asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
    :: "r"({_SHARED.format("slot")}), "r"(columns) : "memory");
asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");""",
)

DEALLOC = _tcgen05(
    "tile_tcgen05_dealloc",
    "unsigned int address, unsigned int columns",
    """
asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(address), "r"(columns) : "memory");""",
)

FENCE_BEFORE_SYNC = _tcgen05(
    "tile_tcgen05_fence_before_sync", "", 'asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");'
)
FENCE_AFTER_SYNC = _tcgen05(
    "tile_tcgen05_fence_after_sync", "", 'asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");'
)


@cache
def load(columns: int) -> DeviceFunction:
    """A lane's ``columns`` 32-bit columns into registers."""
    return _load(f"tile_tcgen05_ld_x{columns}", columns, "")


@cache
def load_half(columns: int) -> DeviceFunction:
    """The same for an accumulator of 64 rows, which fills lanes 0..15 of each quarter: lanes 16..31 get copies."""
    return _load(
        f"tile_tcgen05_ld_half_x{columns}",
        columns,
        f"""
unsigned int lane;
asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
for (int i = 0; i < {columns}; ++i) r[i] = __shfl_sync(0xffffffffu, r[i], lane & 15);""",
    )


def _load(name: str, columns: int, after: str) -> DeviceFunction:
    """The wait is part of the statement: before it, the registers must not be touched, which a compiler cannot know."""
    names = ", ".join(f"%{i}" for i in range(columns))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(columns))
    return _tcgen05(
        name,
        "void* registers, unsigned int address",
        f"""
unsigned int r[{columns}];
asm volatile("tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{names}}}, [%{columns}];\\n"
             "tcgen05.wait::ld.sync.aligned;"
    : {outputs} : "r"(address) : "memory");{after}
__builtin_memcpy(registers, r, sizeof(r));""",
    )


@cache
def store(columns: int) -> DeviceFunction:
    names = ", ".join(f"%{i + 1}" for i in range(columns))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(columns))
    return _tcgen05(
        f"tile_tcgen05_st_x{columns}",
        "const void* registers, unsigned int address",
        f"""
unsigned int r[{columns}];
__builtin_memcpy(r, registers, sizeof(r));
asm volatile("tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%0], {{{names}}};\\n"
             "tcgen05.wait::st.sync.aligned;"
    :: "r"(address), {inputs} : "memory");""",
    )


# Multiplication. One thread issues.

DESCRIPTOR = _tcgen05(
    "tile_tcgen05_descriptor",
    "const void* base, unsigned int offset, unsigned int leading, unsigned int stride, unsigned int layout_type",
    f"""
unsigned int start = {_SHARED.format("base")} + offset;
return static_cast<unsigned long long>((start >> 4) & 0x3fffu)
    | (static_cast<unsigned long long>((leading >> 4) & 0x3fffu) << 16)
    | (static_cast<unsigned long long>((stride >> 4) & 0x3fffu) << 32) | (1ull << 46)
    | (static_cast<unsigned long long>(layout_type) << 61);""",
    "uint64",
)


@cache
def mma(kind: str, a_in_tmem: bool = False) -> DeviceFunction:
    """``kind``: f16, f8f6f4 or i8. ``accumulate`` 0 starts from zero."""
    a_parameter, a_text, a_constraint = (
        ("unsigned int a", "[%1]", "r") if a_in_tmem else ("unsigned long long a", "%1", "l")
    )
    return _tcgen05(
        f"tile_tcgen05_mma_{kind}{'_ts' if a_in_tmem else ''}",
        f"unsigned int d, {a_parameter}, unsigned long long b, unsigned int instruction, unsigned int accumulate",
        f"""
asm volatile("{{\\n.reg .pred p;\\nsetp.ne.u32 p, %4, 0;\\n"
             "tcgen05.mma.cta_group::1.kind::{kind} [%0], {a_text}, %2, %3, p;\\n}}"
    :: "r"(d), "{a_constraint}"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");""",
    )


COMMIT = _tcgen05(
    "tile_tcgen05_commit",
    "void* barrier",
    f"""
asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
    :: "r"({_SHARED.format("barrier")}) : "memory");""",
)
