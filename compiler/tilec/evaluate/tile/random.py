"""Random numbers: T.rng_init, T.rng_rand, T.rng_rand_float."""
from __future__ import annotations

from typing import Any

from ...ir.build import call
from ..evaluator import Evaluator
from ..values import plain, unknown
from .operators import emit
from .registry import Bound, api
from .scalar import number

GENERATORS = ("curandStateMRG32k3a_t", "curandStatePhilox4_32_10_t", "curandStateXORWOW_t")
DISTRIBUTIONS = ("uniform", "normal")


@api("rng_init", "seed seq= off= generator=")
def rng_init(ev: Evaluator, b: Bound) -> Any:
    generator = b["generator"] if b["generator"] is not None else GENERATORS[1]
    if isinstance(generator, str) and generator not in GENERATORS:
        ev.problem("rng-argument", f"{generator!r} is no generator; there are {', '.join(GENERATORS)}", b.where("generator"))
    if ev.builder is not None:
        values = {name: None if b[name] is None else number(b[name]) for name in ("seed", "seq", "off")}
        launch = ev.builder.launch
        if values["seq"] is None and launch is not None and launch.block_vars:  # each thread of the grid has a sequence of its own
            values["seq"] = launch.thread_vars[0] + launch.block_vars[0] * launch.threads[0]
        emit(ev, b, "rng_init", {**values, "generator": generator})
    return None


@api("rng_rand", "")
def rng_rand(ev: Evaluator, b: Bound) -> Any:
    return call("rng_rand", (), "uint32", b.span) if ev.builder is not None else unknown("T.rng_rand")


@api("rng_rand_float", "bit= dist=")
def rng_rand_float(ev: Evaluator, b: Bound) -> Any:
    bit = plain(b["bit"]) if b["bit"] is not None else 32
    dist = b["dist"] if b["dist"] is not None else "uniform"
    if isinstance(bit, int) and bit not in (32, 64):
        ev.problem("rng-argument", f"T.rng_rand_float draws 32 or 64 bits, not {bit}", b.where("bit"))
        return unknown("T.rng_rand_float")
    if isinstance(dist, str) and dist not in DISTRIBUTIONS:
        ev.problem("rng-argument", f"{dist!r} is no distribution; there are {' and '.join(DISTRIBUTIONS)}", b.where("dist"))
    if ev.builder is None or not isinstance(bit, int):
        return unknown("T.rng_rand_float")
    return call("rng_rand_float", (), f"float{bit}", b.span, dist=dist)
