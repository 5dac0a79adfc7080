"""Every device function of this folder, by target: for tests and for documentation."""

from __future__ import annotations

from ...target.chips import Target
from . import barrier_functions, tcgen05_functions
from .device import DeviceFunction
from .instruction import Mma, select_mma
from .mma_functions import ldmatrix, mma

_PAIRS = (
    ("float16", "float16", "float32"),
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "float32", "float32"),
    ("float64", "float64", "float64"),
    *((a, b, "int32") for a in ("int8", "uint8") for b in ("int8", "uint8")),
    *((a, b, "int32") for a in ("int4", "uint4") for b in ("int4", "uint4")),
    *((a, b, "float32") for a in ("float8_e4m3fn", "float8_e5m2") for b in ("float8_e4m3fn", "float8_e5m2")),
)


def device_functions(target: Target) -> tuple[DeviceFunction, ...]:
    """All functions that programs for a target may call."""
    found = [ldmatrix(count, trans) for count in (2, 4) for trans in (False, True)]
    instructions: list[Mma | None] = [select_mma(*types, target, sparse) for types in _PAIRS for sparse in (False, True)]
    found += [mma(m, target) for m in instructions if m is not None]
    found += [f for f in vars(barrier_functions).values() if isinstance(f, DeviceFunction)]
    found += [f for f in vars(tcgen05_functions).values() if isinstance(f, DeviceFunction)]
    for columns in (1, 2, 4, 8, 16, 32):
        found += [
            make(columns) for make in (tcgen05_functions.load, tcgen05_functions.load_half, tcgen05_functions.store)
        ]
    for kind in ("f16", "f8f6f4", "i8"):
        if kind != "i8" or target.sm == 100:
            found += [tcgen05_functions.mma(kind), tcgen05_functions.mma(kind, True)]
    return tuple(
        f for f in dict.fromkeys(found) if f.minimum_sm <= target.sm and (target.tcgen05 or not f.needs_tcgen05)
    )
