"""The tile operators: what ``TileOp.args`` holds for each name. A new operator is one row here.

Columns: operands read (Regions), operands written (Regions), other arguments. An operand in both is updated in place.
Shapes: a tile is a region's extents that are not 1.
"""
from __future__ import annotations

from ..records import dataclass


@dataclass(frozen=True, slots=True)
class OpSpec:
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    others: tuple[str, ...] = ()
    doc: str = ""
    sync: bool = False  # synchronisation: orders memory, touches no tile
    lowered: bool = True  # False: the checker knows the operator, no target can be compiled to it yet


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
    "reducer_init": OpSpec((), ("reducer",), ("value",), "open a reduction; value (or None) is combined once"),
    "reducer_update": OpSpec((), ("target",), ("value",), "combine value into one element of a reducer"),
    "finalize_reducer": OpSpec(("reducer",), ("dst",), ("batch",), "close a reduction and write its result to dst; dst None: in "
                               "place, as releases before 0.1.14 do"),
    "thread_allreduce": OpSpec((), ("dst",), ("value", "kind", "axes"), "dst = the combination of every thread's value along thread axes"),
    "collect_partial": OpSpec(("src",), ("dst",), ("kind",), "partial results of all threads to shared memory (made by lowering)"),
    "bulk_fill": OpSpec((), (), ("mbar",), "bulk copies of tiles (src0 to dst0, src1 to dst1 ...) that arrive on a barrier (made by lowering)"),
    "bulk_load": OpSpec(("src",), ("dst",), ("mbar",), "bulk copy to a shared tile whose bytes end a phase of the program's own barrier (made by lowering)"),
    "bulk_store": OpSpec(("src",), ("dst",), (), "bulk copy of a shared tile to a tensor (made by lowering)"),
    "bulk_store_wait": OpSpec(("src",), (), (), "wait until bulk copies have read a tile (made by lowering)"),
    "bulk_store_rows": OpSpec(("src",), ("dst", "staging"), ("plan", "again"), "each warpgroup stores its rows of an accumulator (made by lowering)"),
    "bulk_rows_wait": OpSpec((), (), (), "wait until such stores have read their tiles (made by lowering)"),
    "bulk_reduce": OpSpec(("src",), ("dst",), ("kind",), "a shared tile combined with a tensor atomically by the copy engine (made by lowering)"),
    "bulk_release": OpSpec((), (), ("mbar",), "one arrival a warp: the stage may be overwritten (made by lowering)"),
    "wgmma_wait": OpSpec((), (), ("count",), "wait until at most count matrix operations run (made by lowering)"),
    "gemm_sp": OpSpec(("A", "E", "B", "C"), ("C",), ("transpose_A", "transpose_E", "transpose_B", "policy", "clear_accum", "wg_wait"),
                      "C[M,N] += op(A)[M,K] @ op(B)[K,N] with 2:4 sparse A: A holds the K/2 kept elements, E their positions"),
    "wgmma_gemm_sp": OpSpec(("A", "E", "B", "C"), ("C",), ("transpose_A", "transpose_E", "transpose_B", "policy", "clear_accum"),
                            "the same on Hopper, asynchronous until wait_wgmma"),
    # Known to the checker only.
    "tcgen05_gemm_sp": OpSpec(("A", "E", "B", "C"), ("C",), ("transpose_A", "transpose_E", "transpose_B", "policy", "clear_accum"),
                              "the same on Blackwell", lowered=False),
    "gemm_blockscaled": OpSpec(("A", "B", "C", "SFA", "SFB"), ("C",), (
        "transpose_A", "transpose_B", "policy", "clear_accum", "mbar", "k_start", "sf_a_granularity_k", "sf_b_granularity_k", "use_2cta",
        "sf_layout"), "C += (A * SFA) @ (B * SFB), the scales constant along granularity elements of K", lowered=False),
    "tcgen05_gemm_blockscaled": OpSpec(("A", "B", "C", "SFA", "SFB"), ("C",), (
        "transpose_A", "transpose_B", "clear_accum", "mbar", "k_start", "sf_a_granularity_k", "sf_b_granularity_k", "use_2cta"),
        "the same on Blackwell, asynchronous: completion arrives on mbar", lowered=False),
    "mma_gemm_blockscaled": OpSpec(("A", "B", "C", "SFA", "SFB"), ("C",), (
        "transpose_A", "transpose_B", "policy", "clear_accum", "k_start", "sf_a_granularity_k", "sf_b_granularity_k", "sf_layout"),
        "the same with warp-level instructions", lowered=False),
    "im2col": OpSpec(("src",), ("dst",), ("nhw_step", "c_step", "kernel", "stride", "dilation", "pad"),
                     "one tile of the matrix that a convolution of src multiplies with"),
    "copy_cluster": OpSpec(("src",), ("dst",), ("dst_block", "cluster_mask", "barrier"),
                           "copy into the shared memory of another block of the cluster, or of several", lowered=False),
    "tma_gather4": OpSpec(("src",), ("dst",), ("col", "rows", "barrier"), "dst[i] = src[rows[i], col:col+n] for four rows", lowered=False),
    "tma_scatter4": OpSpec(("src",), ("dst",), ("col", "rows"), "dst[rows[i], col:col+n] = src[i] for four rows", lowered=False),
    "dp4a": OpSpec(("A", "B", "C"), ("C",), (), "C += the dot product of four int8 pairs that follow each other in memory"),
    "store_wide": OpSpec((), ("dst",), ("value", "bits", "pred"), "store bits / 32 words of value at dst"),
    "tcgen05_cp_warpx4": OpSpec(("src",), ("dst",), ("column", "use_2cta"), "scale factors from shared to tensor memory", lowered=False),
    "tcgen05_sf_warp_transpose": OpSpec(("src",), ("src",), (), "reorder packed scale factors in place", lowered=False),
    "rng_init": OpSpec((), (), ("seed", "seq", "off", "generator"), "start each thread's random numbers"),
    "cluster_arrive": OpSpec((), (), ("relaxed",), "arrive at the cluster's barrier", sync=True),
    "cluster_wait": OpSpec((), (), (), "wait for all blocks of the cluster to arrive", sync=True),
    "cluster_sync": OpSpec((), (), (), "arrive and wait", sync=True),
    "pdl_trigger": OpSpec((), (), (), "let the next kernel of the stream start", sync=True),
    "pdl_sync": OpSpec((), (), (), "wait for the kernel before on the stream", sync=True),
    "named_barrier_arrive": OpSpec((), (), ("barrier_id", "arrive_count"), "arrive at a block barrier without waiting", sync=True),
    "tma_store_arrive": OpSpec((), (), (), "commit bulk stores", sync=True),
    "tma_store_wait": OpSpec((), (), ("count", "read"), "wait for bulk stores", sync=True),
    "warpgroup_arrive": OpSpec((), (), (), "order registers before WGMMA", sync=True),
    "warpgroup_commit_batch": OpSpec((), (), (), "commit a WGMMA group", sync=True),
    "warpgroup_fence_operand": OpSpec((), (), ("operand",), "keep the compiler from moving accumulator registers", sync=True),
    "tcgen05_before_thread_sync": OpSpec((), (), (), "order tensor memory operations before a synchronisation", sync=True, lowered=False),
    "tcgen05_after_thread_sync": OpSpec((), (), (), "and after it", sync=True, lowered=False),
    "tcgen05_mma_arrive": OpSpec(("mbar",), (), ("arrive_2cta",), "the MMAs issued so far arrive on mbar", sync=True, lowered=False),
    "cp_async_barrier_noinc": OpSpec(("mbar",), (), (), "this thread's cp.async copies arrive on mbar", sync=True),
    "clc_try_cancel": OpSpec(("mbar",), ("result",), ("multicast",), "ask for another block's work; the answer arrives on mbar",
                             lowered=False),
    "store_slice": OpSpec((), ("dst",), ("value",), "one thread writes a vector to a slice"),
    "unsupported": OpSpec((), (), ("name",), "an operator the front end knows by name only; nothing can be said about what it "
                                             "touches: rules stay silent about its buffers, the compiler refuses it"),
}
