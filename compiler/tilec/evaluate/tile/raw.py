"""Instructions written by hand, one call each. What they do to the memory they are given is not modelled: rules stay silent
about it, the compiler refuses them."""
from __future__ import annotations

from typing import Any

from ...ir.expr import Call
from ...ir.stmt import TileOp
from ..evaluator import Evaluator
from ..values import dtype_name, unknown
from .elements import to_region
from .pointers import call_argument
from .registry import Bound, api

INSTRUCTIONS = (
    "mma_fill", "mma_store", "ptx_fence_barrier_init", "ptx_ldmatrix", "ptx_mma", "ptx_mma_block_scale", "ptx_mma_sm70", "ptx_mma_sp",
    "ptx_tcgen05_mma_blockscaled_ss", "ptx_tcgen05_mma_ss", "ptx_tcgen05_mma_ts", "ptx_wgmma_rs", "ptx_wgmma_sp_rs", "ptx_wgmma_sp_ss",
    "ptx_wgmma_ss", "ptx_cp_async", "ptx_cp_async_barrier", "ptx_cp_async_bulk", "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx",
    "ptx_init_barrier_thread_count", "ptx_wait_barrier", "create_barriers", "tvm_bmma_sync", "tvm_fill_fragment", "tvm_load_matrix_sync",
    "tvm_mma_sync", "tvm_store_matrix_sync", "tvm_storage_sync", "initialize_wgmma_descriptor",
    "initialize_tcgen05_descriptor", "increase_descriptor_offset", "call_packed", "call_cpacked", "tvm_call_packed", "tvm_call_cpacked",
    "create_tma_descriptor", "tma_load", "tma_load_2sm", "ret", "tvm_throw_last_error", "start_profile_intrinsic", "end_profile_intrinsic",
)


def _instruction(name: str) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        if ev.builder is None:
            return unknown(f"T.{name}")
        values = [*b["args"], *(v for k, v in b.values.items() if k not in ("args", "args_nodes", "dtype", "span"))]
        args = [call_argument(v) for v in values]
        if any(a is None for a in args):
            touched = {f"arg{i}": r for i, r in enumerate(map(to_region, values)) if r is not None}
            ev.builder.emit(TileOp(b.span, "unsupported", {"name": f"T.{name}", **touched}))
            return unknown(f"T.{name}")
        return Call(dtype_name(b["dtype"]) or "handle", b.span, name, tuple(args), None)

    api(name, "*args dtype=")(handler)


for _name in INSTRUCTIONS:
    _instruction(_name)

# Objects that say something to TIR and nothing to the tile program.
for _name, _signature in (("StringImm", "value span="), ("type_annotation", "dtype"),
                          ("CommReducer", "lhs rhs result identity_element span="), ("target", "target_config host=")):
    api(_name, _signature)(lambda ev, b: unknown(f"T.{b.name}"))
