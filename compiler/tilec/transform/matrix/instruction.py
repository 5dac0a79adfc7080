"""Which instruction computes a matrix operation on a target.

Facts: PTX ISA, "Matrix multiply-accumulate operation using mma instruction": m16n8k16 f16/bf16 (sm_80; f16 m16n8k8 on
sm_75), m16n8k8 tf32 (sm_80), m16n8k32 s8/u8 (sm_80), m16n8k64 s4/u4 (sm_80), m16n8k32 e4m3/e5m2 (sm_89), m8n8k4 f64 (sm_80; two of them make
the 16 rows used here). "mma.sp" takes twice the k of the same types.
"""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import TMEM
from ...records import dataclass
from ...target.chips import Target
from .partition import WarpGrid, warp_grid
from .shape import MatrixShape
from .wgmma import Wgmma, select_wgmma
from .whole_rows import moves_whole_rows

_PTX = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "tfloat32": "tf32",
    "int8": "s8",
    "uint8": "u8",
    "int4": "s4",
    "uint4": "u4",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float64": "f64",
}
_ACCUMULATORS = {
    "f16": ("float16", "float32"),
    "bf16": ("float32",),
    "tf32": ("float32",),
    "s8": ("int32",),
    "u8": ("int32",),
    "s4": ("int32",),
    "u4": ("int32",),
    "e4m3": ("float32",),
    "e5m2": ("float32",),
    "f64": ("float64",),
}
_MINIMUM_SM = {"f16": 75, "bf16": 80, "tf32": 80, "s8": 80, "u8": 80, "s4": 80, "u4": 80, "e4m3": 89, "e5m2": 89, "f64": 80}


@dataclass(frozen=True, slots=True)
class Mma:
    """A warp's 16 x 8 x ``k`` instruction. ``a``, ``b``: PTX element types; ``c``: the accumulator's dtype."""

    a: str
    b: str
    c: str
    k: int
    bits: int  # of an element of A and B
    sparse: bool = False  # A holds half of its k elements

    @property
    def a_registers(self) -> int:
        """Elements of A that a lane holds for one instruction; of 4 bits: bytes."""
        return 16 * self.stored_k("A") * self.bits // max(self.bits, 8) // 32

    def stored_k(self, which: str) -> int:
        """Elements along K of A or B that are in memory."""
        return self.k // 2 if which == "A" and self.sparse else self.k

    @property
    def b_registers(self) -> int:
        return 8 * self.k * self.bits // max(self.bits, 8) // 32


def select_mma(a: str, b: str, c: str, target: Target, sparse: bool = False) -> Mma | None:
    """The mma.sync (or ``sparse``: mma.sp) instruction for element types, or None where the target has none."""
    x, y = _PTX.get(a), _PTX.get(b)
    if target.kind != "cuda" or x is None or y is None:
        return None
    pairs_freely = {x, y} <= {"s8", "u8"} or {x, y} <= {"s4", "u4"} or {x, y} <= {"e4m3", "e5m2"}
    if (x != y and not pairs_freely) or c not in _ACCUMULATORS[x] or target.sm < _MINIMUM_SM[x]:
        return None
    bits = dtypes.bits(a)
    if sparse:
        return None if x == "f64" or bits < 8 or target.sm < 80 else Mma(x, y, c, 512 // bits, bits, True)
    return Mma(x, y, c, 4 if x == "f64" else 256 // bits, bits)


@dataclass(frozen=True, slots=True)
class Plan:
    """How an operation runs: ``tcgen05``; ``wgmma``; mma.sync on a grid of warps; or, with none, scalar multiply-adds."""

    tcgen05: bool = False
    mma: Mma | None = None
    grid: WarpGrid | None = None
    wgmma: Wgmma | None = None


def plan(shape: MatrixShape, threads: int, target: Target) -> Plan:
    if shape.C.scope == TMEM:
        return Plan(tcgen05=True)
    wgmma = select_wgmma(shape, threads, target)
    if wgmma is not None:
        return Plan(wgmma=wgmma)
    mma = select_mma(shape.A.dtype, shape.B.dtype, shape.C.dtype, target, shape.E is not None)
    if mma is not None and mma.sparse and shape.K % mma.k:  # a part of an instruction has no metadata
        mma = None
    if mma is not None and mma.bits < 8 and not all(moves_whole_rows(which, shape, mma.bits, mma.k) for which in "AB"):
        mma = None  # two elements a byte: they come in whole words or not at all
    grid = warp_grid(shape.M, shape.N, threads, shape.policy)
    return Plan(mma=mma, grid=grid) if mma and grid else Plan()
