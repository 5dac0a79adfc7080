"""Allocation, indexing and slicing."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT, GLOBAL, LOCAL, SHARED, SHARED_DYN, Buffer, Region
from ...ir.build import const_int
from ...ir.expr import LOGICAL, Binary, Load, walk
from ...ir.stmt import Parallel, TileOp
from ...source.span import Span
from ..conditions import reached
from ..context import RuleContext
from ..facts import Access, is_runtime
from ..ranges import interval, ranges_at
from ..registry import rule

ON_CHIP = (SHARED, SHARED_DYN, FRAGMENT, LOCAL)


def shape_span(buffer: Buffer, dimension: int) -> Span | None:
    entry = buffer.shape[dimension]
    return entry.span or buffer.attrs.get("spans", {}).get("shape") or buffer.span


@rule("alloc-shape")
def alloc_shape(ctx: RuleContext):
    """Negative extents are accepted in silence; empty fragments have no layout (TileLang 0.1.15, lowering)."""
    for buffer in ctx.facts.allocs:
        if buffer.scope not in ON_CHIP:
            continue
        for dimension, extent in enumerate(buffer.shape):
            value = const_int(extent)
            if value is not None and (value < 0 or (value == 0 and buffer.scope == FRAGMENT)):
                what = "is negative" if value < 0 else "is 0: an empty fragment"
                yield ctx.report(
                    f"{buffer.name}: extent {dimension} {what} ({value})"
                    if value < 0
                    else f"{buffer.name}: extent {dimension} {what}",
                    shape_span(buffer, dimension),
                    buffer=buffer,
                )
                break


@rule("alloc-symbolic")
def alloc_symbolic(ctx: RuleContext):
    for buffer in ctx.facts.allocations(FRAGMENT):
        if any(is_runtime(e) for e in buffer.shape) and not _gemm_operand(ctx, buffer):
            yield ctx.report(
                f"{buffer.name} is a fragment with a run-time extent; registers need a compile-time size",
                buffer.span,
                buffer=buffer,
            )


def _gemm_operand(ctx: RuleContext, buffer: Buffer) -> bool:
    """A gemm tells about the extent itself (gemm-static-dims)."""
    return any(
        isinstance(a.stmt, TileOp) and a.stmt.op in ("gemm", "wgmma_gemm")
        for a in ctx.facts.storage_uses.get(buffer, ())
    )


# -- indices -------------------------------------------------------------------------------------
@rule("index-out-of-bounds")
def index_out_of_bounds(ctx: RuleContext):
    """Accesses to shared, local and register buffers are not guarded; those to global tensors are."""
    for buffer, accesses in ctx.facts.uses.items():
        if buffer.scope not in (*ON_CHIP, GLOBAL) or ctx.is_blamed(buffer):
            continue
        for access in accesses:
            if (
                access.indices is None
                or access.guarded
                or (buffer.scope == GLOBAL and access.place.is_conditional())
                or len(access.indices) != buffer.ndim
            ):
                continue
            found = _outside(ctx, access, buffer)
            if found is None or _is_second(access):
                continue
            message, severity = found
            yield ctx.report(
                message,
                access.span,
                (f"{buffer.name} is allocated here" if buffer.scope != GLOBAL else f"{buffer.name}", buffer.span),
                severity=severity,
            )


def _outside(ctx: RuleContext, access: Access, buffer: Buffer) -> tuple[str, str] | None:
    ranges = ranges_at(access.place)
    for dimension, (index, extent) in enumerate(zip(access.indices or (), buffer.shape)):
        size = const_int(extent)
        literal = const_int(index)
        if size is None or (buffer.scope == GLOBAL and literal is None):
            continue
        bounds = interval(index, ranges, set())
        if bounds is None:
            continue
        low, high = bounds
        low = max(low, 0) if literal is not None and -size <= literal else low  # a literal -1 is the last element
        if high >= size or low < 0:
            if access.place.is_conditional():  # under branches that let such an index pass
                value = reached(ctx.facts, access.place, index, ranges, range(-size if literal is not None else 0, size))
                if value is None:
                    continue
                low = high = value
            value = high if high >= size else low
            where = f"index {value}" if literal is not None else f"the index reaches {value}, which"
            # what a loop spread over threads does beyond a fragment's end depends on its layout: no certain fault
            spread = buffer.scope == FRAGMENT and literal is None and access.place.inside(Parallel)
            effect = (
                "; the access is guarded: reads give 0, writes vanish"
                if buffer.scope == GLOBAL
                else "; the access is not guarded, and what it touches depends on the fragment's layout"
                if spread
                else "; the access is not guarded and touches other memory"
            )
            return (
                f"{where} is outside of {buffer.name}, whose dimension {dimension} has {size} "
                f"element{'s' if size != 1 else ''}{effect}",
                "warning" if buffer.scope == GLOBAL or spread else "error",
            )
    return None


def _is_second(access: Access) -> bool:
    """Whether a load is made only where the first operand of an ``and`` or ``or`` asks for it."""
    later = (x.b for e in access.stmt.expressions() for x in walk(e) if isinstance(x, Binary) and x.op in LOGICAL)
    return any(isinstance(x, Load) and x.indices is access.indices for e in later for x in walk(e))


@rule("slice-out-of-bounds")
def slice_out_of_bounds(ctx: RuleContext):
    for buffer, accesses in ctx.facts.uses.items():
        if buffer.scope not in (*ON_CHIP, GLOBAL) or ctx.is_blamed(buffer):
            continue
        reported: set[int] = set()
        for access in accesses:
            region = access.region
            if region is None or id(region) in reported or len(region.mins) != buffer.ndim:
                continue
            launch = access.place.launch
            if launch is not None and any(buffer in launch.attrs.get(x, ()) for x in ("safe_values", "safe_inside_blocks")):  # what lies beyond is meant
                continue
            message = _slice_outside(region, buffer) or _tile_outside(access, region, buffer)
            if message is None:
                continue
            reported.add(id(region))
            yield ctx.report(
                message,
                region.span or access.span,
                (f"{buffer.name}", buffer.span),
                severity="warning" if buffer.scope == GLOBAL else None,
            )


def _slice_outside(region: Region, buffer: Buffer) -> str | None:
    """Literal bounds."""
    for dimension, (low, size, extent) in enumerate(zip(region.mins, region.extents, buffer.shape)):
        start, count, limit = const_int(low), const_int(size), const_int(extent)
        if region.form != "slice" or start is None or count is None or limit is None or start >= 0 and start + count <= limit:
            continue
        if count <= 0 or -limit <= start < 0 and start + count <= 0:
            continue
        effect = "the rest reads 0 or vanishes" if buffer.scope == GLOBAL else "the surplus is dropped"
        return (
            f"{start}:{start + count} reaches outside of {buffer.name}, whose dimension {dimension} has {limit} elements; {effect}"
        )
    return None


def _tile_outside(access: Access, region: Region, buffer: Buffer) -> str | None:
    """A tile of an on-chip buffer that loops move beyond its end."""
    if buffer.scope == GLOBAL or region.form not in ("slice", "corner") or access.place.is_conditional():
        return None
    ranges = ranges_at(access.place)
    for dimension, (low, size, extent) in enumerate(zip(region.mins, region.extents, buffer.shape)):
        count, limit = const_int(size), const_int(extent)
        if const_int(low) is not None or count is None or limit is None or count < 1:
            continue
        bounds = interval(low, ranges, set())
        if bounds is not None and (bounds[1] + count > limit or bounds[0] < 0):
            worst = bounds[1] if bounds[1] + count > limit else bounds[0]
            return (
                f"the tile reaches {worst}:{worst + count} in dimension {dimension} of {buffer.name}, which has {limit} elements; the "
                "surplus is dropped"
            )
    return None
