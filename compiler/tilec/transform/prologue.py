"""What a kernel does before and after the user's code: barriers, tensor memory, the kernel before."""
from __future__ import annotations

from ..ir.buffer import BARRIER, CLUSTER_BARRIER, SHARED_DYN, TMEM, Buffer
from ..ir.build import const
from ..ir.expr import Var
from ..ir.stmt import Alloc, Launch, Stmt
from ..ir.stmt import walk as walk_statements
from .bulk.lower import prefetch_maps
from .context import LaunchState
from .launch_order import by_copy_engine_alone, overlapped
from .matrix.barriers import barriers_that_wait_implicitly, initialise, phase_array, start_phases
from .matrix.tensor_memory import allocate, deallocate, plan_tensor_memory
from .unit import unit


def prepare_launch(s: Launch, state: LaunchState) -> tuple[list[Stmt], list[Stmt]]:
    """Statements at the start and at the end of the kernel."""
    allocated = [x.buffer for x in walk_statements(s.body) if isinstance(x, Alloc)]
    start: list[Stmt] = [prefetch_maps(s.attrs["described"], state, s.span)] if s.attrs.get("described") else []
    finish: list[Stmt] = []
    barriers = tuple(b for b in allocated if b.scope in (BARRIER, CLUSTER_BARRIER))
    for b in barriers_that_wait_implicitly(s.body):
        state.phases[b] = phase_array(b)
        start.append(Alloc(s.span, state.phases[b]))
        start.append(unit(start_phases(state.phases[b]), s.span))
    tensor = tuple(b for b in allocated if b.scope == TMEM)
    if tensor:
        start += _tensor_memory(tensor, s, state, finish)
    if barriers:
        start.append(unit(initialise(barriers, state), s.span, barrier=True))
    if s.attrs.get("specialised") and by_copy_engine_alone(s.body):
        state.decide(s.span, "kernel", "starts while the one before on the stream ends", "only the copy engine touches tensors")
        start.append(overlapped(s.span))
    return start, finish


def _tensor_memory(buffers: tuple[Buffer, ...], s: Launch, state: LaunchState, finish: list[Stmt]) -> list[Stmt]:
    plan = plan_tensor_memory(buffers, state.target.tmem_columns or 512)
    slot = Buffer(state.passes.fresh("tensor_memory_slot"), (const(1),), "uint32", SHARED_DYN, s.span, attrs={"whole_kernel": True})
    base = Var("uint32", None, "tensor_base", "let")
    state.tensor_plan, state.tensor_base = plan, base
    finish.append(unit(deallocate(plan, base, state, s.span), s.span, barrier=True))
    return [Alloc(s.span, slot), unit(allocate(plan, slot, base, state, s.span), s.span, barrier=True)]
