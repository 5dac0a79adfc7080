"""Sparse matrix products: T.gemm_sp and its explicit variants."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.sparsity import metadata_factor
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from .operators import emit, gemm_policy, regions
from .registry import Bound, api

_SP = "A_sparse E B C transpose_A= transpose_E= transpose_B= policy= clear_accum= "


def _sparse(op: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        found = regions(ev, b, "A_sparse", "E", "B", "C")
        if found is None:
            return None
        clear_accum = plain(scalar_operand(b["clear_accum"]))
        emit(ev, b, op, {
            "A": found[0], "E": found[1], "B": found[2], "C": found[3], "transpose_A": b.flag("transpose_A"),
            "transpose_E": b.flag("transpose_E"), "transpose_B": b.flag("transpose_B"), "policy": gemm_policy(b["policy"]),
            "clear_accum": False if clear_accum is None else clear_accum, "wg_wait": plain(b["wg_wait"]) or 0,
        })
        return None

    return handler


api("gemm_sp", _SP + "wg_wait= annotations= k_pack=")(_sparse("gemm_sp"))
api("gemm_sp_v2", _SP + "wg_wait= k_pack=")(_sparse("gemm_sp"))
api("wgmma_gemm_sp", _SP + "annotations=")(_sparse("wgmma_gemm_sp"))
api("tcgen05_gemm_sp", _SP + "annotations=")(_sparse("tcgen05_gemm_sp"))


@api("get_e_factor", "a_dtype meta_dtype", "tilelang.cuda.intrinsics.sparse_layout")
def get_e_factor(ev: Evaluator, b: Bound) -> Any:
    """How many elements of a row one word of metadata describes."""
    dtype, metadata = b.dtype("a_dtype"), b.dtype("meta_dtype")
    if dtypes.UNKNOWN in (dtype, metadata):
        return unknown("T.get_e_factor")
    factor = metadata_factor(dtype, metadata)
    return unknown("T.get_e_factor") if factor is None else factor
