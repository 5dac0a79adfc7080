"""Launch configuration: threads, grid, clusters (CUDA C++ Programming Guide, technical specifications)."""

from __future__ import annotations

from math import prod
from typing import Any

from ...ir.build import const_int
from ...ir.stmt import Launch
from ...source.span import Span
from ...target.chips import MAX_THREADS
from ..context import RuleContext
from ..facts import static_ints
from ..registry import rule

PORTABLE_CLUSTER, LARGEST_CLUSTER = 8, 16


def launch_span(launch: Launch, name: str) -> Span | None:
    return launch.attrs.get("spans", {}).get(name) or launch.span


def grid_span(launch: Launch, position: int) -> Span | None:
    spans = launch.attrs.get("grid_spans", ())
    return spans[position] if position < len(spans) else launch.span


@rule("threads-range", per_target=True)
def threads_range(ctx: RuleContext):
    for launch in ctx.program.launches():
        values = [const_int(t) for t in launch.threads]
        bad = next((v for v in values if v is not None and v < 1), None)
        if bad is not None:
            yield ctx.report(f"threads is {bad}; a block has at least one thread", launch_span(launch, "threads"))
            continue
        total = prod(v for v in values if v is not None) if None not in values else 0
        if total > MAX_THREADS and (ctx.target is None or ctx.target.kind != "cpu"):
            shown = " x ".join(str(v) for v in values if v != 1)
            product = f" ({shown})" if shown != str(total) else ""
            yield ctx.report(
                f"a block of {total} threads{product}: CUDA allows at most {MAX_THREADS}",
                launch_span(launch, "threads"),
            )


@rule("grid-rank")
def grid_rank(ctx: RuleContext):
    for launch in ctx.program.launches():
        if len(launch.grid) > 3:
            yield ctx.report(
                f"the grid has {len(launch.grid)} dimensions; CUDA grids have at most 3", grid_span(launch, 3)
            )


@rule("grid-zero")
def grid_zero(ctx: RuleContext):
    for launch in ctx.program.launches():
        for position, extent in enumerate(launch.grid):
            value = const_int(extent)
            if value is not None and value <= 0:
                yield ctx.report(
                    f"the grid extent is {value}: the kernel never runs (T.ceildiv rounds up)",
                    grid_span(launch, position),
                )
                break


def cluster_shape(launch: Launch) -> tuple[int, ...] | None:
    """``cluster_dims`` as three numbers; None if absent or not known."""
    value: Any = launch.attrs.get("cluster_dims")
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        found = static_ints(value)
        return None if found is None or len(found) > 3 else (*found, *([1] * (3 - len(found))))
    single = const_int(value)
    return None if single is None else (single, 1, 1)


@rule("launch-annotation-type")
def cluster_type(ctx: RuleContext):
    for launch in ctx.program.launches():
        value = launch.attrs.get("cluster_dims")
        if isinstance(value, (float, str, dict)):
            yield ctx.report(
                f"cluster_dims is {value!r}; it must be an integer or up to three integers",
                launch_span(launch, "cluster_dims"),
            )


@rule("cluster-target", per_target=True)
def cluster_target(ctx: RuleContext):
    for launch in ctx.program.launches():
        shape = cluster_shape(launch)
        if shape and shape != (1, 1, 1) and ctx.target and ctx.target.kind == "cuda" and not ctx.target.clusters:
            yield ctx.report(
                f"thread block clusters need sm_90 or later; {ctx.target.name} has none",
                launch_span(launch, "cluster_dims"),
            )


@rule("cluster-size")
def cluster_size(ctx: RuleContext):
    for launch in ctx.program.launches():
        shape = cluster_shape(launch)
        if shape is None:
            continue
        span = launch_span(launch, "cluster_dims")
        blocks = shape[0] * shape[1] * shape[2]
        if min(shape) < 1:
            yield ctx.report(f"cluster_dims is {shape}; every extent is at least 1", span)
        elif blocks > LARGEST_CLUSTER:
            yield ctx.report(
                f"a cluster of {blocks} blocks: {PORTABLE_CLUSTER} are portable, {LARGEST_CLUSTER} the most any GPU "
                "runs",
                span,
            )
        elif blocks > PORTABLE_CLUSTER:
            yield ctx.report(
                f"a cluster of {blocks} blocks: more than {PORTABLE_CLUSTER} run on some GPUs only",
                span,
                severity="warning",
            )
        else:
            grid = [const_int(g) for g in launch.grid]
            for axis, (extent, size) in enumerate(zip(grid, shape)):
                if extent is not None and extent % size:
                    yield ctx.report(
                        f"grid extent {extent} is no multiple of the cluster's {size} in dimension {axis}; the "
                        "launch fails",
                        grid_span(launch, axis),
                        ("the cluster", span),
                    )
                    break
