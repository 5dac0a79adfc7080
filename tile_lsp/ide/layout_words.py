"""How a tile lies in registers or shared memory, in words: what hovers tell of buffers."""
from __future__ import annotations

from typing import Any

from tilec.analysis.layout import FragmentLayout
from tilec.ir.expr import Var
from tilec.ir.printer import expr_text

_NAMES = "ijklmn"


def layout_facts(artifact: Any) -> list[list[str]]:
    """(buffer, words) of each tile that has a layout of its own."""
    found: dict[str, str] = {}
    for buffer, layout in artifact.layouts():
        found.setdefault(buffer.name, fragment_words(layout) if isinstance(layout, FragmentLayout) else shared_words(layout))
    return [[name, words] for name, words in found.items() if words]


def fragment_words(layout: FragmentLayout) -> str:
    index = tuple(Var("int32", None, n, "loop") for n in _NAMES[:len(layout.shape)])
    copies = 1
    for r in layout.replicas:
        copies *= r.extent
    plain = FragmentLayout(layout.shape, layout.digits)
    thread, register = _text(plain.thread_of(index)), _text(plain.register_of(index))
    element = f"[{', '.join(v.name for v in index)}]"
    count = f"{layout.registers} element{'s' if layout.registers != 1 else ''} a thread"
    if not any(d.axis == "thread" for d in layout.digits):
        return f"every thread holds all {layout.registers}" if copies > 1 else count
    held = f"thread `{thread}`" + (f" and {copies - 1} more" if copies > 1 else "")
    return f"{element} is in {held}, its element `{register}` · {count}"


def shared_words(layout: Any) -> str:
    """Of the canonical tiles of matrix descriptors and of exchanged 16-byte pieces."""
    width = getattr(layout, "width", None)
    if width is not None:
        swizzle = "not swizzled" if width == 16 else f"16-byte pieces swizzled within {width} bytes"
        return f"panels of {layout.rows} rows of {width} bytes ({layout.panel_columns} elements), {swizzle}"
    pieces = getattr(layout, "pieces", None)
    return f"16-byte pieces of a row swizzled within {16 * pieces} bytes" if pieces else ""


def _text(e: Any) -> str:
    return str(e) if isinstance(e, int) else expr_text(e)
