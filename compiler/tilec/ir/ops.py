"""The tile operators: what ``TileOp.args`` holds for each name. A new operator is one row here.

Columns: operands read (Regions), operands written (Regions), other arguments. An operand in both is updated in place.
Shapes: a tile is a region's extents that are not 1.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpSpec:
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    others: tuple[str, ...] = ()
    doc: str = ""
    sync: bool = False  # synchronisation: orders memory, touches no tile


OPS: dict[str, OpSpec] = {
    "copy": OpSpec(("src",), ("dst",), ("coalesced_width", "disable_tma", "eviction_policy", "loop_layout"),
                   "dst[...] = cast(src[...]); out-of-bounds reads give 0, out-of-bounds writes are dropped"),
    "async_copy": OpSpec(("src",), ("dst",), (), "copy global -> shared that completes at ptx_wait_group"),
    "tma_copy": OpSpec(("src",), ("dst",), ("barrier", "leader"), "bulk tensor copy; loads complete on a barrier"),
    "transpose": OpSpec(("src",), ("dst",), (), "dst[j, i] = src[i, j]"),
    "fill": OpSpec((), ("dst",), ("value",), "dst[...] = value"),
    "clear": OpSpec((), ("dst",), (), "dst[...] = 0"),
    "gemm": OpSpec(("A", "B", "C"), ("C",), ("transpose_A", "transpose_B", "policy", "clear_accum", "mbar", "k_pack"),
                   "C[M,N] += op(A)[M,K] @ op(B)[K,N]; op transposes the last two dimensions; clear_accum (bool or Expr) "
                   "starts from 0; policy is 'square' | 'full_row' | 'full_col'; with mbar (a Region of one barrier) and C "
                   "in TMEM the call also waits for its own completion"),
    "tcgen05_gemm": OpSpec(("A", "B", "C"), ("C",), ("transpose_A", "transpose_B", "policy", "clear_accum", "mbar", "use_2cta"),
                           "the same, asynchronous: completion arrives on mbar and must be waited for"),
    "wgmma_gemm": OpSpec(("A", "B", "C"), ("C",), ("transpose_A", "transpose_B", "policy", "clear_accum"),
                         "the same on Hopper, asynchronous until wait_wgmma"),
    "reduce": OpSpec(("src",), ("dst",), ("kind", "dim", "clear", "batch", "nan_propagate"),
                     "dst = reduce(src) along dim; kind is sum|max|min|abssum|absmax|bitand|bitor|bitxor; with clear=False "
                     "the old dst takes part; max/min start from -inf/inf (integer limits)"),
    "cumsum": OpSpec(("src",), ("dst",), ("dim", "reverse"), "inclusive prefix sum along dim"),
    "cummax": OpSpec(("src",), ("dst",), ("dim", "reverse"), "inclusive prefix maximum along dim"),
    "atomic": OpSpec(("src", "dst"), ("dst",), ("kind", "value", "memory_order"),
                     "dst[...] = dst[...] kind value, atomically; kind is add|max|min|or|and|xor|store|load|addx2|addx4; one of "
                     "src (a tile) and value (an Expr for one element) is given, the other None"),
    "annotate": OpSpec((), (), ("name", "value"), "an annotation with no effect on the result"),
    "sync_threads": OpSpec((), (), ("barrier_id", "arrive_count"), "block barrier", sync=True),
    "sync_warp": OpSpec((), (), (), "warp barrier", sync=True),
    "sync_grid": OpSpec((), (), (), "grid barrier", sync=True),
    "mbarrier_wait_parity": OpSpec(("mbar",), (), ("parity",), "wait until the phase of this parity has completed", sync=True),
    "mbarrier_arrive": OpSpec(("mbar",), (), ("count",), "one arrival", sync=True),
    "mbarrier_expect_tx": OpSpec(("mbar",), (), ("bytes",), "expect bytes of asynchronous copies", sync=True),
    "ptx_wait_group": OpSpec((), (), ("count",), "wait for cp.async groups", sync=True),
    "ptx_commit_group": OpSpec((), (), (), "commit a cp.async group", sync=True),
    "wait_wgmma": OpSpec((), (), ("count",), "wait for WGMMA groups", sync=True),
    "fence_proxy_async": OpSpec((), (), (), "order generic before async proxy accesses", sync=True),
    "deallocate_tmem": OpSpec(("buffer",), (), (), "give tensor memory back", sync=True),
    "set_max_nreg": OpSpec((), (), ("count", "increase"), "setmaxnreg", sync=True),
    "print": OpSpec(("src",), (), ("value", "message"), "print a buffer or value from the device"),
    "device_assert": OpSpec((), (), ("condition", "message"), "trap when the condition is false"),
    "unsupported": OpSpec((), (), ("name",), "an operator the front end knows by name only; nothing can be said about what it "
                                             "touches: rules stay silent about its buffers, the compiler refuses it"),
}
