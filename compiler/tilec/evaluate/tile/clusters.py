"""Thread block clusters: queries of the launch, the cluster's barrier, copies between blocks, cluster launch control."""
from __future__ import annotations

from typing import Any

from ...ir.expr import Expr
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from .elements import to_region
from .operators import check_cluster_mask, emit, match_regions, regions
from .registry import Bound, api
from .sync import barrier_region, plain_sync

plain_sync("cluster_sync")
plain_sync("cluster_wait")
for _name, _relaxed in (("cluster_arrive", False), ("cluster_arrive_relaxed", True)):
    def _arrive(ev: Evaluator, b: Bound, relaxed: bool = _relaxed) -> Any:
        if ev.builder is not None:
            emit(ev, b, "cluster_arrive", {"relaxed": relaxed})
        return None

    api(_name, "")(_arrive)


# -- queries of the launch ----------------------------------------------------------------------------------------------------
def _dims(ev: Evaluator) -> list[int] | None:
    """The cluster's extents, (1, 1, 1) without clusters; None if not known."""
    if ev.builder is None or ev.builder.launch is None:
        return None
    value = ev.builder.launch.attrs.get("cluster_dims")
    if value is None:
        return [1, 1, 1]
    extents = [plain(v) for v in value] if isinstance(value, (tuple, list)) else [plain(value)]
    if len(extents) > 3 or not all(isinstance(e, int) for e in extents):
        return None
    return [*extents, 1, 1, 1][:3]


def _dim(b: Bound) -> Any:
    dim = plain(b["dim"])
    return 0 if dim is None else dim


@api("get_cluster_dims", "")
def get_cluster_dims(ev: Evaluator, b: Bound) -> Any:
    dims = _dims(ev)
    return unknown("cluster dimensions") if dims is None else dims


@api("get_cluster_size", "")
def get_cluster_size(ev: Evaluator, b: Bound) -> Any:
    dims = _dims(ev)
    return unknown("cluster size") if dims is None else dims[0] * dims[1] * dims[2]


def _cluster_id(ev: Evaluator, dim: Any) -> Any:
    dims = _dims(ev)
    if dims is None or not isinstance(dim, int) or not 0 <= dim < 3:
        return unknown("cluster index")
    assert ev.builder is not None and ev.builder.launch is not None
    blocks = ev.builder.launch.block_vars
    return blocks[dim] // dims[dim] if dim < len(blocks) else 0


@api("get_cluster_id", "dim=")
def get_cluster_id(ev: Evaluator, b: Bound) -> Any:
    return _cluster_id(ev, _dim(b))


@api("get_cluster_ids", "")
def get_cluster_ids(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is None or ev.builder.launch is None:
        return unknown("cluster indices")
    return [_cluster_id(ev, d) for d in range(len(ev.builder.launch.block_vars))]


def block_extent(ev: Evaluator, dim: Any) -> Any:
    if ev.builder is None or ev.builder.launch is None or not isinstance(dim, int) or dim < 0:
        return unknown("grid extent")
    grid = ev.builder.launch.grid
    return 1 if dim >= len(grid) else plain(grid[dim])


def _cluster_extent(ev: Evaluator, dim: Any) -> Any:
    dims, extent = _dims(ev), block_extent(ev, dim)
    if dims is None or not isinstance(extent, int) or not isinstance(dim, int) or not 0 <= dim < 3:
        return unknown("cluster extent")
    return -(-extent // dims[dim])


@api("get_cluster_extent", "dim=")
def get_cluster_extent(ev: Evaluator, b: Bound) -> Any:
    return _cluster_extent(ev, _dim(b))


@api("get_cluster_extents", "")
def get_cluster_extents(ev: Evaluator, b: Bound) -> Any:
    return [_cluster_extent(ev, d) for d in range(3)]


# -- between blocks -----------------------------------------------------------------------------------------------------------
@api("copy_cluster", "src dst * dst_block= cluster_mask= remote_barrier= eviction_policy= coalesced_width= annotations= loop_layout=")
def copy_cluster(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "src", "dst")
    if found is None:
        return None
    src, dst = match_regions(*found)
    check_cluster_mask(ev, b)
    mask = plain(b["cluster_mask"])
    emit(ev, b, "copy_cluster", {"src": src, "dst": dst, "dst_block": _number(b["dst_block"]), "cluster_mask": mask,
                                 "barrier": None if b["remote_barrier"] is None else to_region(b["remote_barrier"])})
    return None


def _number(value: Any) -> Any:
    value = plain(scalar_operand(value))
    return value if value is None or isinstance(value, (int, Expr)) else unknown("block")


def _try_cancel(multicast: bool) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        found = regions(ev, b, "result")
        if found is not None:
            emit(ev, b, "clc_try_cancel", {"result": found[0], "mbar": barrier_region(b, "mbarrier"), "multicast": multicast})
        return None

    return handler


api("clc_try_cancel", "result mbarrier")(_try_cancel(False))
api("clc_try_cancel_multicast", "result mbarrier")(_try_cancel(True))


@api("ptx_arrive_cluster_barrier", "mbarrier cta_id")
def ptx_arrive_cluster_barrier(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "mbarrier")
    if found is not None:
        emit(ev, b, "mbarrier_arrive", {"mbar": found[0], "count": 1, "cta_id": _number(b["cta_id"])})
    return None
