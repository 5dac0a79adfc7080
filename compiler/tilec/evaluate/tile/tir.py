"""Spellings of TIR itself: lower-case loops, jumps as calls, attributes of functions."""
from __future__ import annotations

from typing import Any

from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import LoopValue, plain, unknown
from .loops import make_serial
from .registry import Bound, api
from .scopes import Transparent


@api("parallel", "start stop= * annotations=")
def parallel(ev: Evaluator, b: Bound) -> Any:
    """``T.parallel(n)`` is T.Parallel with one dimension."""
    start, stop = plain(scalar_operand(b["start"])), plain(scalar_operand(b["stop"]))
    if stop is not None and start != 0:
        return unknown("T.parallel")
    made = make_serial(ev, "parallel", [start if stop is None else stop], b.node, "T.parallel", {"spans": b.spans()})
    return made if isinstance(made, LoopValue) else unknown("T.parallel")


for _name, _jump in (("loop_break", "break"), ("break_loop", "break"), ("continue_loop", "continue"), ("thread_return", "return")):
    def _leave(ev: Evaluator, b: Bound, jump: str = _jump) -> Any:
        if ev.builder is not None:
            ev.builder.jump(jump, b.span)
        return None

    api(_name, "span=")(_leave)

for _name in ("func_attr", "func_name", "func_ret", "sblock_attr", "reads", "writes", "axis", "tvm_thread_invariant"):
    api(_name, "*args")(lambda ev, b: None)


api("sblock", "name= no_realize=")(lambda ev, b: Transparent(block=True))
for _name, _signature in (("attr", "node attr_key value"), ("block_name_suffix_context", "block_suffix")):
    api(_name, _signature)(lambda ev, b: Transparent())
