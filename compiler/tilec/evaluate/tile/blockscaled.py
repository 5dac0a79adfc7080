"""Block-scaled matrix products and the scale factors they read."""
from __future__ import annotations

from typing import Any

from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain
from .layouts import LayoutValue
from .operators import emit, gemm_policy, regions
from .registry import Bound, api
from .scalar import number
from .sync import barrier_region

_SCALES = "k_start= sf_a_granularity_k= sf_b_granularity_k= "


def _blockscaled(op: str, sfa: str, sfb: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        found = regions(ev, b, "A", "B", "C", sfa, sfb)
        if found is None:
            return None
        clear_accum = plain(scalar_operand(b["clear_accum"]))
        emit(ev, b, op, {
            "A": found[0], "B": found[1], "C": found[2], "SFA": found[3], "SFB": found[4], "transpose_A": b.flag("transpose_A"),
            "transpose_B": b.flag("transpose_B"), "policy": gemm_policy(b["policy"]),
            "clear_accum": False if clear_accum is None else clear_accum, "mbar": barrier_region(b, "mbar"),
            "k_start": None if b["k_start"] is None else number(b["k_start"]), "sf_a_granularity_k": plain(b["sf_a_granularity_k"]),
            "sf_b_granularity_k": plain(b["sf_b_granularity_k"]), "use_2cta": b.flag("use_2cta"), "sf_layout": b["sf_layout"],
        })
        return None

    return handler


_TCGEN05 = "A B C SFA_tmem SFB_tmem transpose_A= transpose_B= clear_accum= wg_wait= mbar= * " + _SCALES + "use_2cta= sf_a_id= sf_b_id="
for _name in ("tcgen05_gemm_blockscaled", "tcgen05_mma_blockscaled"):
    api(_name, _TCGEN05)(_blockscaled("tcgen05_gemm_blockscaled", "SFA_tmem", "SFB_tmem"))
_COMMON = "A B C SFA SFB transpose_A= transpose_B= policy= clear_accum= * " + _SCALES
api("gemm_blockscaled", _COMMON + "mbar= use_2cta= sf_layout= annotations=")(_blockscaled("gemm_blockscaled", "SFA", "SFB"))
api("mma_gemm_blockscaled", _COMMON + "sf_layout=")(_blockscaled("mma_gemm_blockscaled", "SFA", "SFB"))


@api("make_blockscaled_gemm_layout", "C A transpose_A=")
def make_blockscaled_gemm_layout(ev: Evaluator, b: Bound) -> Any:
    return LayoutValue("layout", buffer=b["C"])


@api("tcgen05_cp_warpx4", "smem_src tmem_dst tmem_col_offset= * use_2cta=")
def tcgen05_cp_warpx4(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "smem_src", "tmem_dst")
    if found is not None:
        column = 0 if b["tmem_col_offset"] is None else number(b["tmem_col_offset"])
        emit(ev, b, "tcgen05_cp_warpx4", {"src": found[0], "dst": found[1], "column": column, "use_2cta": b.flag("use_2cta")})
    return None


@api("tcgen05_sf_warp_transpose", "smem_src")
def tcgen05_sf_warp_transpose(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "smem_src")
    if found is not None:
        emit(ev, b, "tcgen05_sf_warp_transpose", {"src": found[0]})
    return None
