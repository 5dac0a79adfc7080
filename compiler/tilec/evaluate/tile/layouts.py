"""Layout objects of annotate_layout, by how they were made."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.buffer import Buffer
from ..evaluator import Evaluator
from ..values import unknown
from .registry import Bound, api


@dataclass(frozen=True)
class LayoutValue:
    """``kind``: ``layout``, ``fragment`` or ``swizzled``; ``shape``, ``function``: of hand-made ones; ``buffer``: of swizzle helpers."""

    kind: str
    shape: Any = None
    function: Any = None
    buffer: Any = None


@api("Layout", "shape forward_fn")
def layout(ev: Evaluator, b: Bound) -> Any:
    return LayoutValue("layout", b["shape"], b["forward_fn"])


@api("Fragment", "shape forward_fn= forward_thread_fn= replicate= forward_index_fn=")
def fragment(ev: Evaluator, b: Bound) -> Any:
    return LayoutValue("fragment", b["shape"], b["forward_thread_fn"] or b["forward_fn"])


def _swizzled(ev: Evaluator, b: Bound) -> Any:
    buffer = next((v for v in b.values.values() if isinstance(v, Buffer)), None)
    return LayoutValue("swizzled", buffer=buffer)


for _module in ("tilelang.layout", "tilelang.language", "tilelang.intrinsics"):
    for _name in ("make_swizzled_layout", "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout", "make_quarter_bank_swizzled_layout",
                  "make_mma_swizzle_layout"):
        api(_name, "buffer *rest k_major=", _module)(_swizzled)
for _name, _handler in (("Layout", layout), ("Fragment", fragment)):
    api(_name, "shape forward_fn= forward_thread_fn= replicate= forward_index_fn=", "tilelang.layout")(_handler)


@api("get_swizzle_layout", "*args", "tilelang.intrinsics")
def get_swizzle_layout(ev: Evaluator, b: Bound) -> Any:
    return unknown("layout")
