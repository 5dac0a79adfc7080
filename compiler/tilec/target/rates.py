"""What a chip's multiprocessors can do in a clock, for estimates.

Tensor-core rates: NVIDIA's architecture whitepapers (dense multiply-adds a clock and multiprocessor of 16-bit elements). The rate at which
the L2 cache feeds a multiprocessor, the latency of a copy and the cost of a launch are fitted to measured products on an H200 and taken
over for the others.
"""
from __future__ import annotations

from ..records import dataclass
from .chips import Target


@dataclass(frozen=True, slots=True)
class Rates:
    """A clock and multiprocessor: ``tensor`` multiply-adds of 16-bit elements, ``cache`` bytes from the L2 cache; ``memory``: bytes of all
    multiprocessors together from device memory; ``clock`` in GHz under load."""

    tensor: int
    cache: float
    memory: float
    clock: float
    shared: int = 128  # bytes of shared memory
    scalar: int = 128  # 32-bit operations
    special: int = 16  # exponentials and the like
    latency: int = 1500  # clocks of a copy from far away
    launch: float = 0.8e-6  # seconds


_BY_FAMILY = {
    "Turing": Rates(512, 32, 260, 1.5),
    "Ampere": Rates(1024, 48, 1400, 1.4),
    "Ada": Rates(512, 48, 400, 2.4),
    "Hopper": Rates(2048, 64, 2800, 1.6),
    "Blackwell": Rates(4096, 64, 4300, 1.8),
    "Blackwell (consumer)": Rates(512, 48, 700, 2.4),
}


def rates(target: Target) -> Rates:
    found = _BY_FAMILY.get(target.family)
    return Rates(256, 32, 500, 1.4) if found is None else Rates(1024, 48, 1400, 1.4) if target.name == "sm_86" else found
