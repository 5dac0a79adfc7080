"""Block and thread axes by name, as TIR binds them: the first that is bound without T.Kernel around it opens a launch."""
from __future__ import annotations

from typing import Any

from ...ir.build import lift
from ...ir.expr import Expr
from ..evaluator import Evaluator
from ..values import LaunchValue, unknown
from .launch import enter_launch

AXES = tuple(f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz")


def axis_index(ev: Evaluator, axis: Any, extent: Any, span: Any) -> Any:
    """The variable of ``threadIdx.x`` and the like; ``extent`` becomes that of the launch, unless T.Kernel made it."""
    builder = ev.builder
    if builder is None or axis not in AXES:
        return unknown("thread axis")
    if builder.launch is None:
        enter_launch(ev, LaunchValue((1, 1, 1), (1, 1, 1), {"explicit_threads": True, "by_axes": True, "spans": {}}, span))
    launch = builder.launch
    assert launch is not None
    kind, letter = axis.split("Idx.")
    number = "xyz".index(letter)
    if launch.attrs.get("by_axes") and isinstance(extent, (int, Expr)):
        parts = list(launch.threads if kind == "thread" else launch.grid)
        parts[number] = lift(extent)
        if kind == "thread":
            launch.threads = tuple(parts)  # type: ignore[assignment]
        else:
            launch.grid = tuple(parts)
    if kind == "thread":
        launch.attrs["uses_threads"] = True
        return launch.thread_vars[number]
    return launch.block_vars[number] if number < len(launch.block_vars) else unknown("block index")
