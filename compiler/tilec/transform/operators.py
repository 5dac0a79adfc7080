"""Synchronisation and the rest of the tile operators."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.buffer import FRAGMENT, TMEM, Region
from ..ir.build import binary, call, cast, const, const_int, lift
from ..ir.expr import Expr, Load, Var
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Parallel, Stmt, Store, TileOp
from .allreduce import lower_allreduce
from .async_copy import COMMIT, wait_function
from .bulk.accumulators import lower_rows, lower_rows_wait
from .bulk.functions import max_registers
from .bulk.lower import lower_fill, lower_load, lower_reduce, lower_release, lower_store, lower_store_wait
from .debugging import lower_debugging, print_call
from .errors import LoweringError
from .launch_order import LAUNCH_ORDER
from .layouts import default_loop_layout
from .legalize import resolve_elements
from .matrix.barrier_functions import NAMED_BARRIER, SYNC_THREADS, SYNC_WARP, role_barrier
from .matrix.barriers import BARRIER_OPS, lower_barrier_op
from .matrix.device import DeviceFunction, address_of, function
from .matrix.tensor_memory import lower_tensor_memory_copy
from .matrix.wgmma import lower_wait
from .parallel import lower_parallel
from .reducers import lower_collection
from .unit import unit

if TYPE_CHECKING:
    from .threads import ThreadLowering

SYNC_GRID = function("tile_sync_grid", "", "cooperative_groups::this_grid().sync();")




def lower_operator(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    handler = _OPERATORS.get(op.op)
    if handler is None:
        raise LoweringError(f"T.{op.op} cannot be compiled for {lowering.state.target.name} yet.", op.span, "unsupported")
    return handler(op, lowering, divergent)


def _sync_threads(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    barrier, count = op.args.get("barrier_id"), op.args.get("arrive_count")
    if barrier is None and count is None and lowering.state.role is not None:
        return [unit((role_barrier(lowering.state.role, lowering.group_barriers, op.span),), op.span, barrier=True)]
    if barrier is None and count is None:
        return [unit((SYNC_THREADS.run(op.span),), op.span, barrier=not divergent)]
    threads = lowering.state.threads if count is None else count
    named = NAMED_BARRIER
    return [unit((named.run(op.span, lift(barrier if barrier is not None else 1), lift(threads)),), op.span)]


def _sync_warp(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    return [unit((SYNC_WARP.run(op.span),), op.span)]


def _barrier(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    return [unit(lower_barrier_op(op, lowering.state), op.span)]


def _wait_group(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    if lowering.state.target.sm < 80:
        return []
    count = const_int(lift(op.args.get("count") if op.args.get("count") is not None else 0))
    if count is None:
        raise LoweringError("The number of groups T.ptx_wait_group leaves pending must be a constant.", op.span, "wait-group")
    return [replace(unit((wait_function(count).run(op.span),), op.span, waits=True), managed=bool(op.args.get("managed")))]


def _commit_group(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    return [unit((COMMIT.run(op.span),), op.span)] if lowering.state.target.sm >= 80 else []


def _nothing(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    return []


_DP4A = DeviceFunction("tile_dp4a", """__device__ __forceinline__ int tile_dp4a(const void* a, const void* b, int c) {
  int x, y;
  __builtin_memcpy(&x, a, 4);
  __builtin_memcpy(&y, b, 4);
  return __dp4a(x, y, c);
}
""", "int32")


def _dp4a(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """C += the dot product of four bytes each; like a store of C, by one thread where it is the same for all."""
    a, b, c = (op.region(name) for name in "ABC")
    places = []
    for r in (a, b):
        buffer, indices = lowering.state.shared_element(r.buffer, tuple(lowering._plain(m) for m in r.mins))
        if buffer.scope == FRAGMENT:
            raise LoweringError(f"T.dp4a reads memory of one thread or of the block; {buffer.name} is a fragment.", op.span, "dp4a")
        places.append(address_of(buffer, indices))
    value = _DP4A.call(*places, Load(c.dtype, op.span, c.buffer, c.mins))
    return lowering.statement(Store(op.span, c.buffer, c.mins, value), divergent)


def _sync_grid(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """All blocks wait for each other; the kernel is launched so that all of them run at once."""
    lowering._converged(op, divergent or lowering.state.role is not None, "T.sync_grid")
    return [unit((SYNC_GRID.run(op.span),), op.span, barrier=True)]


def _rng_init(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """Every thread starts its own generator."""
    before: list[Stmt] = []
    values = []
    for name in ("seed", "seq", "off"):
        given = op.args.get(name)
        more, value = lowering.expression(cast(lift(0 if given is None else given), "uint64"), op, divergent)
        before += more
        values.append(value)
    return [*before, unit((Evaluate(op.span, call("rng_init", tuple(values), "void", op.span, generator=op.args["generator"])),), op.span)]


def _launch_order(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """Clusters and dependent launches: instructions of sm_90 (PTX ISA, barrier.cluster, griddepcontrol)."""
    if lowering.state.target.sm < 90:
        raise LoweringError(f"T.{op.op} needs sm_90 or newer; {lowering.state.target.name} has no such instruction.", op.span, "op-target")
    arrive = "cluster_arrive_relaxed" if op.op == "cluster_arrive" and op.args.get("relaxed") else op.op
    return [unit(tuple(LAUNCH_ORDER[name].run(op.span) for name in _STEPS.get(arrive, (arrive,))), op.span, barrier=op.op in ("cluster_sync", "cluster_wait"))]


_STEPS = {"cluster_sync": ("cluster_arrive", "cluster_wait")}
_NAMED_ARRIVE = function("tile_arrive_named", "int barrier, int threads", 'asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");')


def _named_arrive(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    count = op.args.get("arrive_count")
    return [unit((_NAMED_ARRIVE.run(op.span, lift(op.args["barrier_id"]), lift(lowering.state.threads if count is None else count)),), op.span)]


def _registers(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """Only where it is known that the exchange adds up."""
    return [unit((max_registers(int(op.args["count"]), bool(op.args["increase"])).run(op.span),), op.span)] if op.args.get("managed") else []


def _wgmma_wait(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    made = unit(lower_wait(op, lowering.state), op.span)
    held = {r.buffer for name, r in op.args.items() if name.startswith("held") and isinstance(r, Region)}
    return [replace(made, reads=made.reads | held)]


def _collect(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    lowering._converged(op, divergent, "T.finalize_reducer")
    return lower_collection(op, lowering.state)


def _tensor_copy(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    if TMEM not in (op.region("src").buffer.scope, op.region("dst").buffer.scope):
        raise LoweringError(f"T.{op.op} cannot be compiled here.", op.span, "unsupported")
    lowering._converged(op, divergent, "T.copy of tensor memory")
    return [unit(lower_tensor_memory_copy(op, lowering.state), op.span)]


def _debugging(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    before: list[Stmt] = []

    def value(e: Expr) -> Expr:
        more, made = lowering.expression(e, op, divergent)
        before.extend(more)
        return made

    src = op.args.get("src")
    if isinstance(src, Region):
        return _print_tile(op, src, lowering)
    body = lower_debugging(op, value)
    if op.op == "print":
        body = lowering._by_one(body, (), divergent or lowering.divergence.differs(lift(op.args["value"])))
    return [*before, unit(body, op.span)]


def _print_tile(op: TileOp, src: Region, lowering: ThreadLowering) -> list[Stmt]:
    """One thread prints every element; a fragment is exchanged through shared memory first."""
    if src.buffer.scope == FRAGMENT:
        variables = tuple(Var("int32", op.span, f"i{k}", "loop") for k in range(src.buffer.ndim))
        shape = src.buffer.static_shape()
        assert shape is not None
        place = lowering.state.temporary_shared(f"{src.buffer.name}_print", shape, src.dtype, op.span)
        store = Store(op.span, place, variables, Load(src.dtype, op.span, src.buffer, variables))
        copy = resolve_elements((Parallel(op.span, variables, src.buffer.shape, (store,)),))[0]
        assert isinstance(copy, Parallel)
        spill = lower_parallel(copy, default_loop_layout(copy, lowering.state), lowering.state, lowering.ranges)
        src = Region(place, src.mins, src.extents, src.form, src.span)
        return [Alloc(op.span, place), *spill, _print_all(op, src, lowering)]
    return [_print_all(op, src, lowering)]


def _print_all(op: TileOp, src: Region, lowering: ThreadLowering) -> Stmt:
    variables = tuple(Var("int32", op.span, f"i{k}", "loop") for k in range(len(src.mins)))
    buffer, place = lowering.state.shared_element(src.buffer, tuple(m + v for m, v in zip(src.mins, variables)))
    body: Body = (Evaluate(op.span, print_call(Load(buffer.dtype, op.span, buffer, place), str(op.args.get("message") or src.buffer.name))),)
    for var, extent in reversed(list(zip(variables, src.extents))):
        body = (For(op.span, var, const(0), extent, body),)
    return unit((If(op.span, binary("eq", lowering.state.thread, const(0)), body),), op.span)


_OPERATORS: dict[str, Callable[[TileOp, ThreadLowering, bool], list[Stmt]]] = {
    "sync_threads": _sync_threads, "sync_warp": _sync_warp, **dict.fromkeys(BARRIER_OPS, _barrier), "ptx_wait_group": _wait_group,
    "ptx_commit_group": _commit_group, "wait_wgmma": _nothing, "set_max_nreg": _registers, "deallocate_tmem": _nothing, "copy": _tensor_copy,
    "collect_partial": _collect, **dict.fromkeys(("cluster_arrive", "cluster_wait", "cluster_sync", "pdl_trigger", "pdl_sync"), _launch_order),
    "named_barrier_arrive": _named_arrive,
    # Bulk stores are stores, and matrix operations are done when their statement is: there is nothing to commit or wait for.
    **dict.fromkeys(("tma_store_arrive", "tma_store_wait", "warpgroup_arrive", "warpgroup_commit_batch", "warpgroup_fence_operand"), _nothing),
    "bulk_fill": lower_fill, "bulk_store": lower_store, "bulk_store_wait": lower_store_wait, "bulk_release": lower_release,
    "bulk_reduce": lower_reduce, "bulk_load": lower_load,
    "bulk_store_rows": lower_rows, "bulk_rows_wait": lower_rows_wait, "wgmma_wait": _wgmma_wait,
    "dp4a": _dp4a, "sync_grid": _sync_grid, "rng_init": _rng_init, "thread_allreduce": lower_allreduce, "print": _debugging, "device_assert": _debugging,
}
