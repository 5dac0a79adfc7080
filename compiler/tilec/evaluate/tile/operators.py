"""Tile operators: copies, fills, matrix products, reductions, scans."""
from __future__ import annotations

import ast
from typing import Any

from ...ir import dtypes
from ...ir.buffer import Region
from ...ir.build import cast, const, lift
from ...ir.expr import Binary, Expr, Unary, Var, equal
from ...ir.stmt import TileOp
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from .elements import to_region
from .registry import Bound, api

_TILES = ("src", "dst", "A", "B", "C", "buffer", "out")


def emit(ev: Evaluator, b: Bound, op: str, args: dict[str, Any]) -> None:
    assert ev.builder is not None
    ev.builder.emit(TileOp(b.span, op, args, b.spans()))


def regions(ev: Evaluator, b: Bound, *names: str) -> list[Region] | None:
    """The operands as regions; None (and an opaque statement) if one is not known or no kernel is being built."""
    if ev.builder is None:
        return None
    found = {n: to_region(_named_element(ev, b, n), b.where(n)) for n in names}
    if any(r is None for r in found.values()):
        _check_none(ev, b, names)
        ev.builder.emit(TileOp(b.span, "unsupported", {"name": f"T.{b.name}", **{n: r for n, r in found.items() if r is not None}}))
        return None
    return [found[n] for n in names]  # type: ignore[misc]


def _check_none(ev: Evaluator, b: Bound, names: tuple[str, ...]) -> None:
    """An operand that is the result of an operation without one, or None itself."""
    for name in names:
        node = b.nodes.get(name)
        if node is not None and b[name] is None and name in _TILES:
            given = f"what {ev.source.segment(node.func)} returns: nothing" if isinstance(node, ast.Call) else "None"
            ev.problem("argument-kind", f"T.{b.name}: {name} takes a buffer or a part of one, not {given}", b.where(name))


def _named_element(ev: Evaluator, b: Bound, name: str) -> Any:
    """An operand; a name bound to an element stands for the element."""
    value = b[name]
    if not isinstance(value, Var) or ev.builder is None or value not in ev.builder.lets:
        return value
    bound = ev.builder.lets[value]
    if isinstance(bound, (Binary, Unary)):
        ev.problem("argument-kind", f"T.{b.name}: {name} takes a buffer or a part of one, not a value ({value.name} is computed)", b.where(name))
    return bound


# -- copies -------------------------------------------------------------------------------------------------------------
@api("copy", "src dst * coalesced_width= disable_tma= eviction_policy= prefer_instruction= annotations= loop_layout=")
def copy(ev: Evaluator, b: Bound) -> Any:
    return _copy(ev, b, "copy", ("coalesced_width", "disable_tma", "eviction_policy", "loop_layout", "prefer_instruction"))


@api("async_copy", "src dst * coalesced_width= annotations= loop_layout=")
def async_copy(ev: Evaluator, b: Bound) -> Any:
    return _copy(ev, b, "async_copy", ("coalesced_width",))


@api("tma_copy", "src dst * barrier= eviction_policy= annotations= leader_scope_threads= use_2cta= cluster_mask=")
def tma_copy(ev: Evaluator, b: Bound) -> Any:
    check_cluster_mask(ev, b)
    threads = plain(b["leader_scope_threads"])
    if isinstance(threads, (int, float)) and (threads <= 0 or threads % 32 or isinstance(threads, float)):
        ev.problem("leader-scope", f"leader_scope_threads is {threads}; it is a positive multiple of a warp's 32 threads", b.where("leader_scope_threads"))
    return _copy(ev, b, "tma_copy", ("barrier",) if b["cluster_mask"] is None else ("barrier", "cluster_mask"))


def check_cluster_mask(ev: Evaluator, b: Bound) -> None:
    mask = plain(b["cluster_mask"])
    if isinstance(mask, float) or (isinstance(mask, int) and mask <= 0):
        ev.problem("leader-scope", f"cluster_mask is {mask}; it is a mask of blocks with at least one bit set", b.where("cluster_mask"))


def _copy(ev: Evaluator, b: Bound, op: str, options: tuple[str, ...]) -> Any:
    found = regions(ev, b, "src", "dst")
    if found is None:
        return None
    src, dst = match_regions(*found)
    if (isinstance(b["src"], Var) or isinstance(b["dst"], Var)) and src.form == dst.form == "element":
        name = "src" if isinstance(b["src"], Var) else "dst"
        ev.problem("copy-deduce", f"T.{op}: {b[name].name} is the value of one element, so nothing tells how much to copy; assign the element, or "
                   "give a buffer or a slice", b.where(name))
    _check_corner(ev, b, op, *found)
    args: dict[str, Any] = {"src": src, "dst": dst}
    for name in options:
        args[name] = to_region(b[name]) if name == "barrier" else plain(b[name])
    emit(ev, b, op, args)
    return None


def _check_corner(ev: Evaluator, b: Bound, op: str, src: Region, dst: Region) -> None:
    """A corner takes the other side's extents, one for each of its indices (an assertion without a text in to_buffer_region, 0.1.15)."""
    for name, corner, other in (("src", src, dst), ("dst", dst, src)):
        if corner.form == "element" and other.form != "element" and len(corner.mins) < len(other.extents):
            ev.problem("copy-rank", f"T.{op}: the corner in {corner.buffer.name} has {len(corner.mins)} ind{'ex' if len(corner.mins) == 1 else 'ices'}, but "
                       f"{other.buffer.name}'s side has {len(other.extents)} extents; write both sides as slices", b.where(name))
            return


def match_regions(src: Region, dst: Region) -> tuple[Region, Region]:
    """Give an operand written as a corner (``A[i, j]``) the other's extents (tilelang/language/copy_op.py, 0.1.15)."""
    if src.form == "element" and dst.form == "element":
        return src, dst
    a: list[Expr] = list(src.extents) if src.form != "element" else [const(1)] * len(dst.extents)
    c: list[Expr] = list(dst.extents) if dst.form != "element" else [const(1)] * len(src.extents)
    a, c = _broadcast(a, c)
    return _with_extents(src, a), _with_extents(dst, c)


def _broadcast(a: list[Expr], c: list[Expr]) -> tuple[list[Expr], list[Expr]]:
    if sum(not equal(x, 1) for x in a) == sum(not equal(x, 1) for x in c):
        return a, c
    a, c = list(a), list(c)
    for i in range(1, min(len(a), len(c)) + 1):
        x, y = a[-i], c[-i]
        if equal(x, 1):
            a[-i] = y
        elif equal(y, 1):
            c[-i] = x
    return a, c


def _with_extents(region: Region, extents: list[Expr]) -> Region:
    if region.form != "element":
        return region
    rank = len(region.mins)
    if len(extents) > rank:  # leading extents the corner has no dimension for; a rank fault if they are not 1
        extents = extents[len(extents) - rank:] if all(equal(e, 1) for e in extents[:len(extents) - rank]) else extents[-rank:]
    filled = [const(1)] * (rank - len(extents)) + list(extents)
    return Region(region.buffer, region.mins, tuple(filled), "corner", region.span)


@api("transpose", "src dst")
def transpose(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "src", "dst")
    if found is not None:
        emit(ev, b, "transpose", {"src": found[0], "dst": found[1]})
    return None


# -- fills --------------------------------------------------------------------------------------------------------------
@api("fill", "buffer value annotations=")
def fill(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "buffer")
    if found is None:
        return None
    value = plain(scalar_operand(b["value"]))
    dtype = found[0].dtype
    if not isinstance(value, (int, float, Expr)):
        value = unknown("fill value")
    literal = lift(value, dtype if not isinstance(value, Expr) and dtype != dtypes.UNKNOWN else None)
    emit(ev, b, "fill", {"dst": found[0], "value": cast(literal, dtype)})
    return None


@api("clear", "buffer annotations=")
def clear(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "buffer")
    if found is not None:
        emit(ev, b, "clear", {"dst": found[0]})
    return None


# -- matrix products --------------------------------------------------------------------------------------------------------
_GEMM = "A B C transpose_A= transpose_B= policy= clear_accum= "


@api("gemm", _GEMM + "mbar= annotations= wg_wait= k_pack=")
def gemm(ev: Evaluator, b: Bound) -> Any:
    return _gemm(ev, b, "gemm", {})


@api("gemm_v1", _GEMM + "mbar= wg_wait= k_pack=")
def gemm_v1(ev: Evaluator, b: Bound) -> Any:
    return _gemm(ev, b, "gemm", {})


@api("gemm_v2", _GEMM + "mbar= wg_wait= k_pack=")
def gemm_v2(ev: Evaluator, b: Bound) -> Any:
    return _gemm(ev, b, "gemm", {})


def tcgen05_gemm(ev: Evaluator, b: Bound) -> Any:
    return _gemm(ev, b, "tcgen05_gemm", {"use_2cta": b.flag("use_2cta")})


def wgmma_gemm(ev: Evaluator, b: Bound) -> Any:
    return _gemm(ev, b, "wgmma_gemm", {})


for _name in ("tcgen05_gemm", "tcgen05_mma"):
    api(_name, _GEMM + "* mbar= use_2cta= annotations=")(tcgen05_gemm)
for _name in ("wgmma_gemm", "wgmma_mma"):
    api(_name, _GEMM + "annotations=")(wgmma_gemm)


def _gemm(ev: Evaluator, b: Bound, op: str, more: dict[str, Any]) -> Any:
    found = regions(ev, b, "A", "B", "C")
    if found is None:
        return None
    clear_accum = plain(scalar_operand(b["clear_accum"]))
    mbar = b["mbar"]
    barrier = None if mbar is None else to_region(mbar, b.where("mbar"))
    emit(ev, b, op, {
        "A": found[0], "B": found[1], "C": found[2], "transpose_A": b.flag("transpose_A"), "transpose_B": b.flag("transpose_B"),
        "policy": gemm_policy(b["policy"]), "clear_accum": False if clear_accum is None else clear_accum,
        "mbar": unknown("mbar") if mbar is not None and barrier is None else barrier, **more,
    })
    return None


def gemm_policy(value: Any) -> Any:
    from ..values import Api

    names = {"Square": "square", "FullRow": "full_row", "FullCol": "full_col"}
    if value is None:
        return "square"
    if isinstance(value, Api) and value.name in names:
        return names[value.name]
    return unknown("policy")


# -- reductions and scans ---------------------------------------------------------------------------------------------------
def _reduce(kind: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        found = regions(ev, b, "buffer", "out")
        if found is None:
            return None
        dim = plain(b["dim"])
        dim = -1 if dim is None else dim
        rank = len(found[0].extents)
        if isinstance(dim, int) and -rank <= dim < 0:
            dim += rank
        clear_flag = plain(b["clear"])
        emit(ev, b, "reduce", {"src": found[0], "dst": found[1], "kind": kind, "dim": dim, "clear": True if clear_flag is None else clear_flag,
                               "batch": plain(b["batch"]) if b["batch"] is not None else 1, "nan_propagate": b.flag("nan_propagate")})
        return None

    return handler


for _kind in ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"):
    api(f"reduce_{_kind}", "buffer out dim= clear= batch= annotations= nan_propagate=")(_reduce(_kind))


@api("reduce", "buffer out reduce_type dim clear batch= annotations= nan_propagate=")
def reduce(ev: Evaluator, b: Bound) -> Any:
    return _reduce(b["reduce_type"] if isinstance(b["reduce_type"], str) else "?")(ev, b)


def _scan(op: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        if b["dst"] is None:
            b.values["dst"] = b["src"]
        found = regions(ev, b, "src", "dst")
        if found is None:
            return None
        dim = plain(b["dim"])
        rank = len(found[0].extents)
        dim = 0 if dim is None else dim
        if isinstance(dim, int) and -rank <= dim < 0:
            dim += rank
        emit(ev, b, op, {"src": found[0], "dst": found[1], "dim": dim, "reverse": b.flag("reverse")})
        return None

    return handler


api("cumsum", "src dst= dim= reverse= annotations=")(_scan("cumsum"))
api("cummax", "src dst= dim= reverse= annotations=")(_scan("cummax"))
