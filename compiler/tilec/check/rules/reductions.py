"""Reductions. TileLang 0.1.15, language/reduce_op.py, src/op/reduce.cc."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, GLOBAL, LOCAL, SHARED, SHARED_DYN, VAR, Region
from ...ir.build import const_int
from ...ir.expr import equal
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span, thread_count
from ..registry import rule
from ..versions import newer
from .gemm import known, scope_name, size

KINDS = ("sum", "abssum", "max", "absmax", "min", "bitand", "bitor", "bitxor")
TILES = (FRAGMENT, SHARED, SHARED_DYN)


@rule(
    "reduce-batch",
    "reduce-scope",
    "reduce-type",
    "reduce-dim",
    "reduce-out-shape",
    "reduce-keepdim",
    "reduce-nan",
    "reduce-thread-layout",
)
def reductions(ctx: RuleContext):
    for place in ctx.facts.ops("reduce"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if not (isinstance(src, Region) and isinstance(dst, Region)) or ctx.is_blamed(src.buffer, dst.buffer):
            continue
        for check in (_batch, _kind, _scopes, _dim, _shape, _nan):
            found = check(ctx, op, src, dst)
            if found is not None:
                yield found
                break
        else:
            yield _threads(ctx, place, op, src, dst)


def _batch(ctx, op, src, dst):
    batch = const_int(op.args.get("batch"))
    if batch is not None and batch < 1:
        return ctx.report(f"batch is {batch}; it must be at least 1", argument_span(op, "batch"), name="reduce-batch")
    return None


def _kind(ctx, op, src, dst):
    kind = op.args.get("kind")
    if kind == "?":
        return None
    if isinstance(kind, str) and kind not in KINDS:
        return ctx.report(
            f"{kind!r} is no reduction; there are {', '.join(KINDS)}",
            op.arg_spans.get("reduce_type") or op.span,
            name="reduce-type",
        )
    if (
        isinstance(kind, str)
        and kind.startswith("bit")
        and known(dst.dtype)
        and not (dtypes.is_int(dst.dtype) or dtypes.is_bool(dst.dtype))
    ):
        return ctx.report(
            f"reduce_{kind} works on integers; {dst.buffer.name} is {dst.dtype}", op.span, name="reduce-type"
        )
    return None


def _scopes(ctx, op, src, dst):
    a, b = src.buffer.scope, dst.buffer.scope
    if a in TILES and b in TILES or (a in (LOCAL, VAR) and b in (LOCAL, VAR)):
        return None
    name = "src" if a not in TILES else "dst"
    bad = src if name == "src" else dst
    if bad.buffer.scope not in (GLOBAL, LOCAL, VAR):
        return None
    return ctx.report(
        f"reductions work on fragments and shared memory; {bad.buffer.name} is in {scope_name(bad.buffer)}",
        argument_span(op, name),
        (f"{bad.buffer.name}", bad.buffer.span),
        name="reduce-scope",
    )


def _dim(ctx, op, src, dst):
    dim, rank = op.args.get("dim"), len(src.extents)
    if isinstance(dim, int) and not 0 <= dim < rank:
        return ctx.report(
            f"{src.buffer.name} has {rank} dimension{'s' if rank != 1 else ''}; dim={dim} does not exist",
            argument_span(op, "dim"),
            name="reduce-dim",
        )
    return None


def _shape(ctx, op, src, dst):
    dim = op.args.get("dim")
    if not isinstance(dim, int) or not 0 <= dim < len(src.extents):
        return None
    dropped = (*src.extents[:dim], *src.extents[dim + 1 :])
    kept = (*src.extents[:dim], 1, *src.extents[dim + 1 :])
    if _fits(dst.extents, dropped):
        return None
    if _fits(dst.extents, kept):
        if len(src.extents) > 1:
            return ctx.report(
                f"{dst.buffer.name} keeps the reduced dimension ({size(dst)}); its layout cannot be inferred, use "
                f"{_text(dropped)}",
                op.span,
                (f"{dst.buffer.name}", dst.buffer.span),
                name="reduce-keepdim",
            )
        return None
    if _certainly_differs(dst.extents, dropped) and _certainly_differs(dst.extents, kept):
        return ctx.report(
            f"reducing {src.buffer.name} ({size(src)}) along dim {dim} gives {_text(dropped)}; {dst.buffer.name} is "
            f"{size(dst)}",
            op.span,
            (f"{dst.buffer.name}", dst.buffer.span),
            name="reduce-out-shape",
        )
    return None


def _fits(extents, wanted) -> bool:
    return len(extents) == len(wanted) and all(
        equal(a, b) or (const_int(a) is not None and const_int(a) == const_int(b)) for a, b in zip(extents, wanted)
    )


def _certainly_differs(extents, wanted) -> bool:
    if len(extents) != len(wanted):
        return not (not wanted and len(extents) == 1)
    return any(
        const_int(a) is not None and const_int(b) is not None and const_int(a) != const_int(b)
        for a, b in zip(extents, wanted)
    )


def _text(extents) -> str:
    return "x".join(str(const_int(e)) if const_int(e) is not None else "?" for e in extents) or "one value"


def _nan(ctx, op, src, dst):
    """0.1.15 refuses what older releases ignore."""
    if op.args.get("nan_propagate") is True and known(dst.dtype) and dst.dtype not in ("float16", "bfloat16"):
        ignored = bool(ctx.version) and newer("0.1.15", ctx.version)
        effect = f": TileLang {ctx.version} ignores it, 0.1.15 refuses it" if ignored else ""
        return ctx.report(
            f"nan_propagate exists for float16 and bfloat16; {dst.buffer.name} is {dst.dtype}{effect}",
            argument_span(op, "nan_propagate"),
            name="reduce-nan",
            severity="warning" if ignored else None,
        )
    return None


def _threads(ctx, place, op, src, dst):
    """The butterfly exchange of partial results needs a power of two of threads. Certain for a vector over all
    threads."""
    threads, extents = thread_count(place.launch), src.static_extents()
    if (
        threads is None
        or extents is None
        or src.buffer.scope != FRAGMENT
        or place.is_thread_dependent()
        or len(src.buffer.shape) != 1
    ):
        return None
    if (
        len(extents) == 1
        and threads > 1
        and threads & (threads - 1)
        and extents[0] % threads == 0
        and _only_plain(ctx, src)
    ):
        return ctx.report(
            f"the reduction of {src.buffer.name} runs over {threads} threads; the exchange between threads needs a "
            "power of two",
            op.span,
            (
                "the launch",
                place.launch.attrs.get("spans", {}).get("threads") or place.launch.span if place.launch else None,
            ),
            name="reduce-thread-layout",
        )
    return None


def _only_plain(ctx, src) -> bool:
    """Nothing but copies, fills and this reduction gives the fragment its layout."""
    return all(
        isinstance(a.stmt, TileOp) and a.stmt.op in ("copy", "fill", "clear", "reduce")
        for a in ctx.facts.storage_uses[src.buffer.storage()]
    )
