"""Kinds of parameters that TileLang's own signatures leave open or describe too widely or narrowly.

``EXACT`` is looked up first, by function and parameter; then the annotation in the release's manifest; then ``BY_NAME``, for
parameters without one.
"""
from __future__ import annotations

from . import kinds
from .kinds import (
    ANY,
    BARRIER,
    CONSTANT,
    DICT,
    DTYPE,
    ELEMENT,
    FLAG,
    FUNCTION,
    INTEGER,
    LAYOUT,
    NONE,
    POINTER,
    SCALAR,
    SEQUENCE,
    SHAPE,
    STRING,
    TILE,
    Kind,
    choice,
)


def _each(names: str, parameters: dict[str, Kind | None]) -> dict[tuple[str, str], Kind | None]:
    return {(name, parameter): kind for name in names.split() for parameter, kind in parameters.items()}


EXACT: dict[tuple[str, str], Kind | None] = {
    # Truth values and small numbers that have to be known while the kernel is built.
    **_each("reduce_max reduce_min reduce_absmax reduce_sum reduce_abssum reduce_bitand reduce_bitor reduce_bitxor reduce",
            {"dim": CONSTANT, "batch": CONSTANT}),
    **_each("cumsum cummax", {"dim": CONSTANT}),
    **_each("get_thread_binding get_block_binding get_thread_extent get_block_extent get_cluster_id get_cluster_extent", {"dim": CONSTANT}),
    ("copy", "coalesced_width"): INTEGER | NONE,
    ("copy", "prefer_instruction"): STRING,  # which one: annotation-value
    ("copy", "eviction_policy"): STRING,
    ("reduce", "reduce_type"): STRING,  # which one: reduce-type
    ("reducer_update", "target"): ELEMENT,
    ("reducer_update", "value"): SCALAR,
    ("reducer_init", "init"): SCALAR | NONE,
    ("alloc_reducer", "replication"): choice("all", "none") | NONE,
    **_each("ieee_add ieee_sub ieee_mul ieee_fmaf ieee_frcp ieee_fsqrt ieee_fdiv", {"rounding_mode": ANY}),  # rounding-mode
    ("use_swizzle", "order"): ANY,  # annotation-value
    **_each("atomic_add atomic_max atomic_min atomic_or atomic_load atomic_store atomic_and atomic_xor", {"memory_order": ANY}),
    **_each("atomic_add atomic_max atomic_min atomic_or atomic_and atomic_xor", {"dst": TILE, "value": TILE | SCALAR}),
    **_each("atomic_addx2 atomic_addx4", {"dst": TILE, "value": TILE | SCALAR}),
    ("atomic_store", "src"): TILE | SCALAR,
    ("access_ptr", "access_type"): choice("r", "w", "rw") | INTEGER,
    ("access_ptr", "extents"): INTEGER | SEQUENCE,
    ("alloc_barrier", "arrive_count"): CONSTANT | SEQUENCE,
    ("alloc_cluster_barrier", "arrive_count"): CONSTANT | SEQUENCE,
    ("alloc_tmem", "shape"): SEQUENCE,
    ("alloc_var", "args"): SCALAR | STRING,
    ("const", "name"): STRING,
    ("empty", "shape"): SHAPE | DTYPE,
    ("fill", "value"): SCALAR,
    ("meta_var", "value"): None,
    ("gemm", "policy"): kinds.POLICY,
    ("tma_copy", "barrier"): BARRIER | NONE,
    ("tma_gather4", "barrier"): BARRIER,
    ("tma_gather4", "rows"): SEQUENCE | TILE,
    ("tma_scatter4", "rows"): SEQUENCE | TILE,
    ("print", "msg"): STRING,
    ("print", "warp_group_id"): INTEGER,
    ("print", "warp_id"): INTEGER,
    ("device_assert", "condition"): SCALAR,
    ("device_assert", "no_stack_info"): FLAG,
    ("Pipelined", "num_stages"): ANY,  # pipeline-num-stages
    ("Kernel", "threads"): ANY,  # threads-range
    ("Kernel", "cluster_dims"): ANY,  # launch-annotation-type
    ("Kernel", "blocks"): SCALAR,
    ("ClusterKernel", "threads"): ANY,
    ("ClusterKernel", "cluster_dims"): ANY,
    ("ClusterKernel", "blocks"): SCALAR,
    ("CUDASourceCodeKernel", "threads"): ANY,
    ("CUDASourceCodeKernel", "cluster_dims"): ANY,
    ("annotate_layout", "layout_map"): DICT,
    ("annotate_ws_schedule", "schedule"): ANY,  # ws-schedule
    ("annotate_min_blocks_per_sm", "n"): ANY,  # annotation-value
    ("annotate_restrict_buffers", "buffers"): TILE,
    ("ws", "warp_group_idx"): CONSTANT,
    ("WarpSpecialize", "warp_group_idx"): CONSTANT,
    ("ws_op", "op_id"): ANY,  # ws-schedule
    ("WSSchedule", "num_warps"): CONSTANT,
    ("WSRole", "name"): STRING,
    ("WSRole", "warps_lo"): CONSTANT,
    ("WSRole", "warps_hi"): CONSTANT,
    ("WSPipeline", "depth"): CONSTANT,
    ("rng_init", "generator"): ANY,  # rng-argument
    ("rng_rand_float", "bit"): ANY,  # rng-argument
    ("rng_rand_float", "dist"): ANY,
    ("make_tensor", "ptr"): POINTER,
    ("make_tensor_from_addr", "addr"): POINTER,
    ("address_of", "obj"): TILE,
    ("tvm_access_ptr", "ptype"): ANY,
    ("tvm_access_ptr", "data"): POINTER,
    ("tvm_access_ptr", "rw_mask"): INTEGER | STRING,
    ("handle_add_byte_offset", "handle"): POINTER,
    ("isnullptr", "x"): POINTER,
    ("reinterpret", "value"): SCALAR | DTYPE,  # releases before 0.1.9 take the type first
    ("reinterpret", "dtype"): DTYPE | SCALAR,
    ("Cast", "dtype"): DTYPE,
    ("round", "rounding_mode"): STRING,
    ("call_llvm_intrin", "name"): ANY,
    ("call_llvm_pure_intrin", "name"): ANY,
    ("call_intrin", "func_name"): ANY,
    ("call_intrin", "args"): ANY,
    ("call_extern", "args"): ANY,
    ("call_pure_extern", "args"): ANY,
    ("index_map", "mapping"): FUNCTION,
    ("comm_reducer", "combiner"): FUNCTION,
    ("comm_reducer", "identity"): SEQUENCE,
    ("IterVar", "var"): ANY,
    ("iter_var", "v"): ANY,
    ("launch_thread", "thread"): ANY,
    ("ptx_mma", "shape"): STRING,
    ("tvm_tuple", "value"): ANY,
    ("tvm_thread_allreduce", "freduce_args"): ANY,
    ("tvm_call_packed", "args"): ANY,
    ("tvm_call_cpacked", "args"): ANY,
    ("tvm_call_packed_lowered", "args"): ANY,
    ("tvm_call_cpacked_lowered", "args"): ANY,
    ("tvm_stack_make_shape", "args"): SCALAR,
    ("tvm_access_ptr", "offset"): SCALAR,
    ("tvm_access_ptr", "extent"): SCALAR,
    ("tvm_struct_set", "value"): ANY,
    ("PersistentTileScheduler", "args"): INTEGER,
    ("make_tensor", "strides"): SEQUENCE | NONE,
    ("print", "obj"): ANY,
    ("attr", "value"): ANY,
    ("reads", "buffer_slices"): ANY,
    ("writes", "buffer_slices"): ANY,
    ("thread_binding", "stop"): SCALAR | STRING,
    ("DataType", "value"): DTYPE,
    ("dtype", "value"): DTYPE,
    ("FloatImm", "value"): kinds.FLOAT,
    ("__ldg", "index"): INTEGER | SEQUENCE | NONE,
    ("warpgroup_fence_operand", "buffer_or_ptr"): TILE | POINTER,
    ("tcgen05_mma_arrive", "mbar"): BARRIER | POINTER,
    ("dp4a", "A"): TILE,
    ("dp4a", "B"): TILE,
    ("dp4a", "C"): TILE,
    ("mma_store_index_map", "thread_id"): SCALAR,
    ("mma_store_index_map", "local_id"): SCALAR,
    ("StridedTensor", "strides"): SEQUENCE,
    ("Tensor", "data"): ANY,
    ("Layout", "forward_fn"): FUNCTION,
    ("Fragment", "forward_fn"): FUNCTION | NONE,
    ("Fragment", "forward_thread_fn"): FUNCTION | NONE,
    ("Fragment", "forward_index_fn"): FUNCTION | NONE,
    ("PartialFragment", "forward_fn"): FUNCTION | NONE,
    ("PartialFragment", "forward_thread_fn"): FUNCTION | NONE,
    ("PartialFragment", "forward_index_fn"): FUNCTION | NONE,
    ("make_mma_swizzle_layout", "shared_buf"): TILE,
    ("get_swizzle_layout", "dtype"): DTYPE,
    ("annotate_compile_flags", "flags"): STRING | SEQUENCE,
    ("import_source", "source"): STRING | NONE,
    # The top level.
    ("jit", "func"): ANY,
    ("autotune", "func"): ANY,
    ("autotune", "configs"): DICT | SEQUENCE | FUNCTION,
    ("compile", "func"): ANY,
    ("par_compile", "funcs"): ANY,
    ("lower", "func_or_mod"): ANY,
    ("jit", "debug_root_path"): STRING | NONE,
    ("next_power_of_2", "x"): INTEGER,
    ("cdiv", "a"): INTEGER,
    ("cdiv", "b"): INTEGER,
    ("set_log_level", "level"): STRING | INTEGER,
}

# Instructions written by hand, by the names of their parameters.
_HANDWRITTEN = ("ptx_", "tvm_", "mma_", "TVMBackend", "vector", "get_ldmatrix", "anylist")
_TEXTS = ("dtype", "_abbrv", "_prefix", "_layout", "layout", "kind", "shape", "operator", "storage_scope", "scale_type", "field", "func_name", "trans",
          "variant")
_POINTERS = ("_ptr", "_data", "_buf", "_desc", "desc_a", "desc_b", "multiplicand_a", "multiplicand_b", "accumulator", "metadata", "fragment",
             "fragment_a", "fragment_b", "fragment_c", "fragment_d", "ptr", "data", "arr", "list_handle", "strides", "scale_a", "scale_b")


def _handwritten(parameter: str) -> Kind:
    if parameter.endswith("barrier_id"):
        return BARRIER | INTEGER
    if parameter.endswith(_TEXTS):
        return STRING | SCALAR
    return POINTER if parameter.endswith(_POINTERS) else SCALAR | POINTER


BY_NAME: dict[str, Kind | None] = {
    **dict.fromkeys(("x", "y", "z", "a", "b", "x1", "x2", "lhs", "rhs", "cond", "t", "f", "val", "value", "q", "s", "base", "limit", "predicate",
                     "seed", "off", "index", "min_val", "max_val", "row_idx", "col_idx", "row_size", "thread_count", "stride", "offset"), SCALAR),
    **dict.fromkeys(("barrier_count", "K_box", "bit", "num", "replicate", "align", "offset_factor", "elem_offset", "id", "extent"), INTEGER),
    "seq": SCALAR | NONE,
    "dtype": DTYPE,
    "shape": SHAPE,
    "result": TILE,
    "mbarrier": BARRIER,
    "smem_src": TILE,
    "tmem_dst": TILE,
    "tmem_col_offset": SCALAR,
    "swizzle_bytes": INTEGER,
    "barrier_id": BARRIER | INTEGER,
    "buffer": TILE,
    "region": TILE | NONE,
    "tl_layout": LAYOUT,
    "loop_layout": LAYOUT,
    "strides": SEQUENCE | NONE,
    "axis_separators": SEQUENCE | NONE,
    "data": POINTER,
    "swizzle": INTEGER | STRING,
    **dict.fromkeys(("scope", "func_name", "buffer_type", "message", "storage_scope", "param_name"), STRING),
    "annotations": DICT | NONE,
}


def kind_of(function: str, parameter: str, annotation: str, optional: bool) -> Kind | None:
    """What a parameter takes; None for anything. ``optional``: its default is None."""
    key = (function, parameter)
    if key in EXACT:
        return EXACT[key]
    if parameter == "span":
        return None
    kind = kinds.of_annotation(annotation)
    if kind is STRING and parameter.endswith("dtype"):
        kind = DTYPE
    if kind is None and (not annotation or "Any" in annotation):
        kind = _handwritten(parameter) if function.startswith(_HANDWRITTEN) else BY_NAME.get(parameter)
    return kind | NONE if kind is not None and optional and "none" not in kind.forms else kind
