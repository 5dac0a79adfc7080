"""Operations that are statements, used as values (TileLang 0.1.15): most are calls of type ``handle`` or ``void``, which stop its code generation or nvcc
where a name is bound to them; reductions and scans give Python's None."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import Buffer
from .. import plain_code
from ..evaluator import Evaluator
from ..scope import Scope
from ..values import MISSING, Api, unknown

WRITERS = frozenset((
    "async_copy", "c2d_im2col", "clear", "copy", "copy_cluster", "fill", "finalize_reducer", "gemm", "gemm_blockscaled", "gemm_sp", "im2col", "reducer_init",
    "reducer_update", "tcgen05_gemm", "tcgen05_gemm_blockscaled", "tma_copy", "tma_gather4", "tma_scatter4", "transpose", "wgmma_gemm", "wgmma_gemm_sp",
))
ORDERS = frozenset((
    "barrier_arrive", "barrier_wait", "cluster_arrive", "cluster_arrive_relaxed", "cluster_sync", "cluster_wait", "fence_proxy_async", "mbarrier_arrive",
    "mbarrier_arrive_expect_tx", "mbarrier_expect_tx", "mbarrier_wait_parity", "pdl_sync", "pdl_trigger", "ptx_commit_group", "ptx_wait_group", "rng_init",
    "set_max_nreg", "sync_grid", "sync_threads", "sync_warp", "tma_store_arrive", "tma_store_wait", "wait_wgmma", "warpgroup_arrive", "warpgroup_commit_batch",
    "warpgroup_wait",
))
NONE = ("cummax", "cumsum", "reduce")
STATE = "; the generator's state needs no name"


def assigned(ev: Evaluator, node: ast.Assign, scope: Scope) -> Any:
    """What ``x`` holds after ``x = T.copy(a, b)``."""
    name = _operation(ev, node.value, scope)
    if name is None:
        return None
    target = node.targets[0]
    renamed = isinstance(target, ast.Name) and isinstance(scope.names.get(target.id, MISSING), Buffer)
    if _is_statement(name) or (name.startswith(NONE) and renamed):
        _report(ev, name, node.value)
        return unknown("no value")
    return None


def check_operand(ev: Evaluator, node: ast.expr, scope: Scope) -> None:
    """``T.copy(a, b) + 1``, ``T.copy(T.reduce_sum(a, b), c)``"""
    name = _operation(ev, node, scope)
    if name is not None and (_is_statement(name) or name.startswith(NONE)):
        _report(ev, name, node)


def check_statement(ev: Evaluator, node: ast.Expr, scope: Scope) -> None:
    """``T.copy(a, b)`` in a plain function: the call is made and thrown away, as no kernel or macro is there to take it."""
    name = _operation(ev, node.value, scope)
    if name is not None and _is_statement(name):
        plain_code.refuse(ev, f"T.{name} (the call is made and thrown away)", node.value)


def _is_statement(name: str) -> bool:
    return name in WRITERS or name in ORDERS or name.startswith("atomic_")


def _operation(ev: Evaluator, node: Any, scope: Scope) -> str | None:
    """The TileLang operation that a call is one of."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    function = ev.eval(node.func, scope)
    return function.name if isinstance(function, Api) else None


def _report(ev: Evaluator, name: str, node: Any) -> None:
    if name.startswith("atomic_"):
        if not any(k.arg in (None, "return_prev") for k in node.keywords):
            ev.problem("atomic-store", f"T.{name} returns no value without return_prev=True; it updates its destination itself", node)
        return
    writes = name in WRITERS or name.startswith(NONE)
    after = ", it writes its destination itself" if writes else STATE if name == "rng_init" else ""
    ev.problem("no-value", f"T.{name} is a statement and returns nothing that could be used or given a name{after}", node)
