"""Which loops of a kernel a copying warp can serve, and which copies belong together."""
from __future__ import annotations

from dataclasses import field

from ...ir.buffer import GLOBAL, Buffer, Region
from ...ir.expr import Load
from ...ir.expr import walk as walk_expr
from ...ir.ops import OPS
from ...ir.stmt import Alloc, Body, For, If, Launch, Role, Stmt, TileOp, While, expressions
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ..ahead import accesses, count_uses, has_jump, loop_facts, reads_asynchronously, runs_ahead
from ..bulk.images import image_tile
from ..bulk.tensor_map import bulk_tile
from ..context import LaunchState, PassContext

WARP, WARPGROUP, MOST_THREADS = 32, 128, 1024
_NEEDS_ALL_THREADS = ("wgmma_gemm", "tcgen05_gemm", "tma_copy", "async_copy", "thread_allreduce")


@dataclass
class Group:
    """Copies whose tiles are first read by one statement of the loop and last read by one: they share a barrier.

    ``first``, ``last``: positions in the loop's body.
    """

    copies: list[TileOp]
    first: int
    last: int


@dataclass
class LoopPlan:
    loop: For
    stages: int
    groups: list[Group]
    taken: set[int] = field(default_factory=set)  # ids of the copies in the loop's body


@dataclass
class LaunchPlan:
    loops: dict[int, LoopPlan] = field(default_factory=dict)  # by id of the loop
    single: dict[int, TileOp] = field(default_factory=dict)  # copies outside loops, by id


def plan_launch(s: Launch, state: LaunchState, ctx: PassContext) -> LaunchPlan:
    """Empty where nothing is to be specialised; the reasons are told to ``ctx``."""
    plan = LaunchPlan()
    loops = [x for x in walk_statements(s.body) if isinstance(x, For) and x.kind == "pipelined" and (x.attrs.get("num_stages") or 0)]
    if not loops:
        return plan
    problem = _refusal(s, state)
    if problem:
        for loop in loops:
            ctx.decide(loop.span, "pipelined loop", "cp.async by all threads", problem)
        return plan
    written = written_buffers(s.body)
    uses = count_uses(s.body)
    safe = s.attrs.get("safe_values", {})
    for loop in loops:
        found = _plan_loop(loop, written, uses, safe, ctx)
        if found is not None:
            plan.loops[id(loop)] = found
    if plan.loops:
        plan.single = _single_copies(s, written, uses, safe, ctx)
    return plan


def _refusal(s: Launch, state: LaunchState) -> str:
    threads, y, z = state.extents
    if y != 1 or z != 1 or threads % WARPGROUP:
        return "the block is not a row of whole warpgroups"
    if threads + WARPGROUP > MOST_THREADS:
        return f"a block of {threads} threads leaves no room for a warpgroup that copies"
    if any(e not in (1, None) for e in _cluster(s)):
        return "blocks of a cluster are not specialised yet"
    if any(isinstance(x, Role) for x in walk_statements(s.body)):
        return "the kernel gives its warps roles itself"
    if any(isinstance(x, Alloc) and "barrier" in x.buffer.scope for x in walk_statements(s.body)):
        return "the kernel has barriers of its own"
    if any(isinstance(x, Alloc) and x.buffer.scope == GLOBAL and x.buffer.view_of is None and "address" in x.buffer.attrs for x in walk_statements(s.body)):
        return "the kernel makes tensors from addresses, which may overlap others"
    for x in walk_statements(s.body):
        if isinstance(x, TileOp) and (x.op in _NEEDS_ALL_THREADS or (x.op in OPS and OPS[x.op].sync)):
            return f"the kernel synchronises itself (T.{x.op})"
    return "threads leave the kernel or a loop early" if has_jump(s.body) else ""


def _cluster(s: Launch) -> list[object]:
    dims = s.attrs.get("cluster_dims")
    return [] if dims is None else [dims] if isinstance(dims, int) else list(dims)


def written_buffers(body: Body) -> set[Buffer]:
    return {b.storage() for s in walk_statements(body) for b in accesses(s)[1]}


def _plan_loop(s: For, written: set[Buffer], uses: dict[Buffer, int], safe: object, ctx: PassContext) -> LoopPlan | None:
    stages = s.attrs.get("num_stages")
    if not isinstance(stages, int) or stages < 1 or reads_asynchronously(s.body):
        return None
    facts = loop_facts(s)
    inside = count_uses(s.body)
    ahead = {i: found for i, x in enumerate(s.body) if (found := runs_ahead(x, i, s, facts, inside, uses)) is not None}
    for i, op in ahead.items():
        problem = _bulk_problem(op, written, safe, ctx)
        if problem:
            ctx.decide(s.body[i].span, f"copy to {op.region('dst').buffer.name}", "cp.async by all threads", problem)
            return None
    if not ahead:
        return None
    groups: dict[tuple[int, int], Group] = {}
    for op in ahead.values():
        readers = [i for i, x in enumerate(s.body) if i not in ahead and _reads(x, op.region("dst").buffer)]
        if readers:
            key = (readers[0], readers[-1])
            groups.setdefault(key, Group([], *key)).copies.append(op)
    if not groups:
        return None
    return LoopPlan(s, stages, list(groups.values()), {id(s.body[i]) for i in ahead})


def _bulk_problem(op: TileOp, written: set[Buffer], safe: object, ctx: PassContext) -> str:
    src, dst = op.region("src"), op.region("dst")
    if src.buffer.storage() not in ctx.tensors:
        return f"{src.buffer.name} is no parameter"
    if op.args.get("disable_tma"):
        return "disable_tma is given"
    if src.buffer.storage() in written:
        return f"the kernel writes {src.buffer.name} too"
    found = image_tile(op, safe) if op.op == "im2col" else bulk_tile(src, dst, safe)
    return found if isinstance(found, str) else ""


def _reads(s: Stmt, b: Buffer) -> bool:
    return any(b.storage() is x.storage() for inner in walk_statements((s,)) for x in (*accesses(inner)[0], *accesses(inner)[1]))


def _single_copies(s: Launch, written: set[Buffer], uses: dict[Buffer, int], safe: object, ctx: PassContext) -> dict[int, TileOp]:
    """Copies of whole tiles at the top of the kernel, into tiles that nothing else writes and something reads: by then they have arrived. A tile that
    nobody waits for could arrive where another buffer lies by then."""
    writers: dict[Buffer, int] = {}
    for x in walk_statements(s.body):
        for b in accesses(x)[1]:
            writers[b.storage()] = writers.get(b.storage(), 0) + 1
    found: dict[int, TileOp] = {}
    for i, x in enumerate(s.body):
        if not isinstance(x, TileOp) or x.op != "copy" or not isinstance(x.args.get("src"), Region):
            continue
        dst = x.region("dst").buffer
        if not dst.is_shared() or not x.region("dst").is_whole() or dst.view_of is not None or writers.get(dst) != 1:
            continue
        if any(_reads(y, dst) for y in s.body[:i] if not isinstance(y, Alloc)):
            continue
        is_read = any(_reads(y, dst) for y in s.body[i + 1:])
        if is_read and not _bulk_problem(x, written, safe, ctx) and not _is_viewed(s.body, dst) and not _reads_memory(x):
            found[id(x)] = x
    return found


def _is_viewed(body: Body, b: Buffer) -> bool:
    return any(isinstance(x, Alloc) and x.buffer.view_of is not None and x.buffer.storage() is b for x in walk_statements(body))


def _reads_memory(s: Stmt) -> bool:
    return any(isinstance(x, Load) for e in expressions(s) for x in walk_expr(e))


def is_nested(s: Launch, loop: For) -> bool:
    """Whether a loop runs several times: it is inside another."""

    def inside(body: Body, nested: bool) -> bool | None:
        for x in body:
            if x is loop:
                return nested
            children = (x.body,) if isinstance(x, (For, While)) else (x.then, x.other) if isinstance(x, If) else ()
            for child in children:
                found = inside(child, nested or isinstance(x, (For, While)))
                if found is not None:
                    return found
        return None

    return bool(inside(s.body, False))

