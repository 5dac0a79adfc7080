"""Settings of ``pass_configs`` that this compiler heeds. Keys are texts or names of ``PassConfigKey``, whichever the front end saw."""
from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from ..ir.program import TileProgram

FAST_MATH = "enable_fast_math"
NO_WARP_SPECIALISATION = "disable_warp_specialized"
NO_TMA = "disable_tma_lower"
NO_THREAD_SYNC = "disable_thread_storage_sync"


def is_set(program: TileProgram, name: str) -> bool:
    """Whether a setting is given as True."""
    configs = program.attrs.get("pass_configs")
    if not isinstance(configs, dict):
        return False
    return any(value is True and str(getattr(key, "name", key)).lower().endswith(name) for key, value in configs.items())


# What releases 0.1.0 to 0.1.15 know, without "tl." or "tirx." (older: "tir."), in small letters; and what their PassConfigKey calls otherwise.
_KNOWN = frozenset((
    "add_lower_pass", "disable_cse_tir", "disable_storage_rewrite", "disable_vectorize", "enable_debug", "enable_equiv_terms_in_cse_tir",
    "merge_static_smem", "noalias", "simplify", "use_async_copy", "unrollloop", "removenoop", "ascendremovenoop", "disable_assert",
    "debug_keep_trivial_loop", "instrument_bound_checkers", "enable_buffer_level_predication", "ptx_ldg32", "ast_print_enable",
    "config_index_bitwidth", "debug_merge_shared_memory_allocations", "device_compile_flags", "disable_buffer_init_check", "disable_data_race_check",
    "disable_dynamic_tail_split", "disable_fast_math", "disable_loop_unswitching", "disable_out_of_bound_warning", "disable_prelower_semantic_check",
    "disable_safe_memory_legalize", "disable_shared_memory_reuse", "disable_shuffle_elect", "disable_thread_storage_sync", "disable_tma_lower",
    "disable_vectorize_256", "disable_warp_specialized", "disable_wgmma", "dump_ir_path", "dynamic_alignment", "emit_line_directives",
    "enable_aggressive_shared_memory_merge", "enable_async_copy", "enable_auto_schedule", "enable_auto_warp_specialization", "enable_dump_ir",
    "enable_fast_math", "enable_fp32x2_reduction", "enable_lower_ldgstg", "enable_lower_ldgstg_predicated", "enable_ptxas_verbose_output",
    "enable_reducer_plan_verbose", "enable_vectorize_planner_verbose", "force_let_inline", "if_stmt_binding_inline_replayable_binds",
    "layout_cost_model", "layout_visualization_enable", "layout_visualization_formats", "loop_unswitching_allow_non_trivial_else", "pass_profile",
    "pass_profile_threshold_ms", "ptxas_register_usage_level", "reducer_force_baseline", "storage_rewrite_detect_inplace", "disable_cse",
    "enable_equiv_terms_in_cse", "disable_safe_memory_access", "dump_ir_dir",
))


def misspelt(keys: Iterable[Any]) -> list[str]:
    """What to tell of keys that are nearly one that TileLang knows. Others are kept and ignored: releases and TVM have more of them."""
    told = []
    for key in keys:
        family, _, name = str(key).partition(".")
        if family not in ("tl", "tir", "tirx") or name.lower() in _KNOWN:
            continue
        close = difflib.get_close_matches(name.lower(), _KNOWN, n=1, cutoff=0.85)
        if close:
            told.append(f"pass_configs: there is no {str(key)!r}, which is ignored; did you mean '{family}.{close[0]}'?")
    return told
