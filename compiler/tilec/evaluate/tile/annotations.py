"""Annotations: layouts, rasterisation, hints, pass configurations."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import FRAGMENT, GLOBAL, Buffer
from ...ir.layouts import LayoutValue
from ...ir.stmt import TileOp
from ..evaluator import Evaluator
from ..values import Function, Partial, is_unknown, plain
from .layouts import layout_of
from .registry import Bound, api


def _launch_attrs(ev: Evaluator) -> dict[str, Any] | None:
    if ev.builder is None:
        return None
    return ev.builder.launch.attrs if ev.builder.launch is not None else ev.builder.attrs


@api("use_swizzle", "panel_size order= enable=")
def use_swizzle(ev: Evaluator, b: Bound) -> Any:
    attrs = _launch_attrs(ev)
    order = b["order"] or "row"
    if isinstance(order, str) and order not in ("row", "column", "col"):
        ev.problem("annotation-value", f"T.use_swizzle: order is {order!r}; it is 'row' or 'column'", b.where("order"))
    if attrs is not None and b.flag("enable", True) is True:
        attrs["rasterization"] = (order, plain(b["panel_size"]))
    return None


@api("annotate_layout", "layout_map allow_reannotation= allow_buffer_region=")
def annotate_layout(ev: Evaluator, b: Bound) -> Any:
    attrs = _launch_attrs(ev)
    if attrs is None:
        return None
    if not isinstance(b["layout_map"], dict):
        attrs["layouts_unknown"] = True
        return None
    places = _value_nodes(b, len(b["layout_map"]))
    for (key, value), node in zip(b["layout_map"].items(), places):
        where = ev.span(node) if node is not None else b.where("layout_map")
        if not isinstance(key, Buffer):
            attrs["layouts_unknown"] = True
            continue
        _check_kind(ev, key, value, where)
        if isinstance(value, (Function, Partial)):
            value = layout_of(ev, key.shape, value)
        attrs.setdefault("layouts", {})[key] = value
        attrs.setdefault("layout_places", {})[key] = where
    attrs.setdefault("layout_spans", []).append(b.span)
    return None


def _value_nodes(b: Bound, count: int) -> list[ast.expr | None]:
    """The values of a dictionary written at the call, as far as they correspond to what it holds."""
    node = b.nodes.get("layout_map")
    if isinstance(node, ast.Dict) and None not in node.keys and len(node.values) == count:
        return list(node.values)
    return [None] * count


def _check_kind(ev: Evaluator, buffer: Buffer, value: Any, where: Any) -> None:
    """A fragment needs a T.Fragment; anything else a layout object or a function of its indices."""
    shown = _kind(value)
    if shown is None or buffer.attrs.get("reducer"):
        return
    related = (("allocated here", buffer.span),) if buffer.span else ()
    if buffer.scope == FRAGMENT and shown != "a T.Fragment":
        ev.problem("layout-kind", f"T.annotate_layout: {buffer.name} is a fragment; its layout is a T.Fragment, which says the thread and the "
                   f"register of every element, not {shown}", where, *related)
    elif buffer.scope != FRAGMENT and shown not in ("a T.Fragment", "a T.Layout", "a shared memory swizzle", "a function"):
        ev.problem("layout-kind", f"T.annotate_layout: the layout of {buffer.name} is {shown}; it is a T.Layout, a helper of tilelang.layout "
                   "or a function of the indices", where, *related)


def _kind(value: Any) -> str | None:
    """What a layout is, in words; None if it is not known."""
    if isinstance(value, LayoutValue):
        return {"fragment": "a T.Fragment", "layout": "a T.Layout", "swizzled": "a shared memory swizzle"}.get(value.kind)
    if isinstance(value, (Function, Partial)):
        return "a function"
    if value is None:
        return "None"
    value = plain(value)
    if isinstance(value, str):
        return f"the string {value!r}"
    if isinstance(value, (bool, int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a tuple" if isinstance(value, tuple) else None


@api("annotate_safe_value", "safe_value_map")
def annotate_safe_value(ev: Evaluator, b: Bound) -> Any:
    attrs = _launch_attrs(ev)
    if attrs is None or not isinstance(b["safe_value_map"], dict):
        return None
    given = {k: v for k, v in b["safe_value_map"].items() if isinstance(k, Buffer)}
    if ev.builder is not None and ev.builder.inner_blocks:  # it would hold inside the block only; here it belongs to the kernel
        attrs.setdefault("safe_inside_blocks", set()).update(given)
        ev.builder.emit(TileOp(b.span, "unsupported", {"name": "T.annotate_safe_value inside T.sblock"}))
    else:
        attrs.setdefault("safe_values", {}).update(given)
    return None


@api("annotate_l2_hit_ratio", "l2_hit_ratio_map")
def annotate_l2_hit_ratio(ev: Evaluator, b: Bound) -> Any:
    attrs = _launch_attrs(ev)
    if attrs is None or not isinstance(b["l2_hit_ratio_map"], dict):
        return None
    for buffer in b["l2_hit_ratio_map"]:
        if isinstance(buffer, Buffer) and buffer.scope != GLOBAL:
            related = (("allocated here", buffer.span),) if buffer.span else ()
            ev.problem("annotation-scope", f"T.annotate_l2_hit_ratio: {buffer.name} is not a global tensor; only global memory goes through L2", b.span, *related)
    attrs["l2_hit_ratio"] = b["l2_hit_ratio_map"]
    return None


@api("annotate_min_blocks_per_sm", "min_blocks")
def annotate_min_blocks_per_sm(ev: Evaluator, b: Bound) -> Any:
    attrs = _launch_attrs(ev)
    count = plain(next(iter(b.values.values()), None))
    if isinstance(count, int) and count < 1:
        ev.problem("annotation-value", f"T.annotate_min_blocks_per_sm({count}): at least 1 block is resident", b.span)
    if attrs is not None and not is_unknown(count):
        attrs["min_blocks_per_sm"] = count
    return None


def _note(name: str, signature: str) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        attrs = _launch_attrs(ev)
        if attrs is not None:
            attrs.setdefault("notes", []).append((name, b.span))
        return None

    api(name, signature)(handler)


@api("annotate_pass_configs", "*args")
def annotate_pass_configs(ev: Evaluator, b: Bound) -> Any:
    """Settings of the whole kernel; what the caller gives in pass_configs wins over them."""
    configs = (b["args"] or [None])[0]
    if ev.builder is not None and isinstance(configs, dict):
        ev.builder.attrs.setdefault("pass_configs", {}).update(configs)
    return None


@api("annotate_compile_flags", "*args")
def annotate_compile_flags(ev: Evaluator, b: Bound) -> Any:
    flags = (b["args"] or [None])[0]
    if ev.builder is not None and isinstance(flags, (list, tuple)):
        ev.builder.attrs["compile_flags"] = [*ev.builder.attrs.get("compile_flags", ()), *flags]
    return None


for _name in ("disable_warp_group_reg_alloc", "annotate_producer_reg_dealloc",
              "annotate_consumer_reg_alloc", "no_set_max_nreg", "assume", "annotate_restrict_buffers"):
    _note(_name, "*args")


@api("import_source", "source")
def import_source(ev: Evaluator, b: Bound) -> Any:
    """Text of C functions that the kernel calls with T.call_extern."""
    attrs, source = _launch_attrs(ev), b["source"]
    if attrs is not None and isinstance(source, str) and not is_unknown(source) and source not in attrs.setdefault("imported", []):
        attrs["imported"].append(source)
    return None
