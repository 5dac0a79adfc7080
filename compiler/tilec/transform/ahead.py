"""Which copies of a pipelined loop can be moved to an earlier iteration."""
from __future__ import annotations

from dataclasses import field, replace

from ..ir.buffer import GLOBAL, Buffer, Region
from ..ir.build import const
from ..ir.expr import Call, Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.ops import OPS
from ..ir.stmt import Alloc, Body, For, Jump, Let, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .rewrite import map_children, map_expr, map_own, substitute

_WAITED = ("tcgen05_gemm", "wgmma_gemm")  # operands may still be read when the statement is over


@dataclass
class LoopFacts:
    """What a loop's body writes, and how often each buffer is written and used."""

    written: dict[Buffer, int] = field(default_factory=dict)
    named: dict[Var, Expr] = field(default_factory=dict)  # Lets at the top level of the body


def place_of(s: Stmt) -> str:
    return f" in line {s.span.line}" if s.span is not None else ""


def has_jump(body: Body) -> bool:
    return any(isinstance(s, Jump) for s in walk_statements(body))


def reads_asynchronously(body: Body) -> bool:
    names = [s.op for s in walk_statements(body) if isinstance(s, TileOp)]
    started = [i for i, n in enumerate(names) if n in _WAITED]
    waits = [i for i, n in enumerate(names) if n in ("mbarrier_wait_parity", "wait_wgmma")]
    manual = any(n in ("ptx_wait_group", "ptx_commit_group", "async_copy", "tma_copy") for n in names)
    return manual or bool(started) and (not waits or max(waits) < max(started))


def accesses(s: Stmt) -> tuple[list[Buffer], list[Buffer]]:
    """Buffers that a statement itself reads and writes, through views."""
    reads = [x.buffer for e in expressions(s) for x in walk_expr(e) if isinstance(x, Load)]
    writes = [x.args[0].buffer for e in expressions(s) for x in walk_expr(e)
              if isinstance(x, Call) and (x.op.startswith("atomic_") or x.op == "address_of") and isinstance(x.args[0], Load)]
    if isinstance(s, Store):
        writes.append(s.buffer)
    if isinstance(s, TileOp):
        spec = OPS.get(s.op)
        for name, value in s.args.items():
            if isinstance(value, Region):
                (writes if spec is not None and name in spec.writes else reads).append(value.buffer)
                if spec is not None and name in spec.reads and name in spec.writes:
                    reads.append(value.buffer)
    return reads, writes


def count_uses(body: Body) -> dict[Buffer, int]:
    """How many accesses there are to each buffer and its views; a view's allocation counts as one."""
    count: dict[Buffer, int] = {}
    for s in walk_statements(body):
        reads, writes = accesses(s)
        if isinstance(s, Alloc) and s.buffer.view_of is not None:
            reads = [*reads, s.buffer, s.buffer]
        for b in (*reads, *writes):
            count[b.storage()] = count.get(b.storage(), 0) + 1
    return count


def loop_facts(s: For) -> LoopFacts:
    facts = LoopFacts()
    for inner in walk_statements(s.body):
        for b in accesses(inner)[1]:
            facts.written[b.storage()] = facts.written.get(b.storage(), 0) + 1
    facts.named = {x.var: x.value for x in s.body if isinstance(x, Let)}
    return facts


def runs_ahead(s: Stmt, position: int, loop: For, facts: LoopFacts, inside: dict[Buffer, int], uses: dict[Buffer, int]) -> TileOp | None:
    """The copy with names of the body replaced by their values, if it can be moved to an earlier iteration."""
    if not isinstance(s, TileOp) or s.op not in ("copy", "im2col"):
        return None
    return moved_copy(s, position, loop, facts, inside, uses) if s.region("dst").buffer.is_shared() else None


def moved_copy(s: TileOp, position: int, loop: For, facts: LoopFacts, inside: dict[Buffer, int], uses: dict[Buffer, int]) -> TileOp | None:
    """The same for a copy to any tile that is the loop's own: nothing else writes it, and nothing reads it before the copy or behind the loop."""
    src, dst = s.region("src"), s.region("dst")
    if src.buffer.storage().scope != GLOBAL or src.buffer.storage() in facts.written:
        return None
    if dst.buffer.view_of is not None or facts.written[dst.buffer] != 1 or uses.get(dst.buffer) != inside.get(dst.buffer) or not dst.is_whole():
        return None
    if any(dst.buffer.storage() in (b.storage() for b in (*accesses(x)[0], *accesses(x)[1]))
           for earlier in loop.body[:position] for x in walk_statements((earlier,))):
        return None
    names = _expanded(facts.named)
    bounds = [substitute(e, names) for e in (*src.mins, *src.extents)]
    steps = {name: substitute(value, names) for name, value in s.args.items() if isinstance(value, Expr)}
    if not all(_independent(e, loop, facts) for e in (*bounds, *steps.values())):
        return None
    n = len(src.mins)
    moved = Region(src.buffer, tuple(bounds[:n]), tuple(bounds[n:]), src.form, src.span)
    return replace(s, args={**s.args, **steps, "src": moved})


def _expanded(named: dict[Var, Expr]) -> dict[Var, Expr]:
    out: dict[Var, Expr] = {}
    for var, value in named.items():
        out[var] = substitute(value, out)
    return out


def _independent(e: Expr, loop: For, facts: LoopFacts) -> bool:
    """Whether the value is the same when computed before the iteration: it reads nothing that the loop writes."""
    own = {x.var for x in walk_statements(loop.body) if isinstance(x, (Let, For))}
    for x in walk_expr(e):
        if isinstance(x, Load) and (x.buffer.storage() in facts.written or x.buffer.storage().scope != GLOBAL):
            return False
        if isinstance(x, Var) and x in own:
            return False
        if isinstance(x, Call) and x.op.startswith("atomic_"):
            return False
    return True


def at_stage(body: Body, new: dict[Buffer, Buffer], stage: Expr) -> Body:
    """Accesses to a buffer of ``new`` go to one stage of the buffer it became."""
    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in new:
            return Load(e.dtype, e.span, new[e.buffer], (stage, *(map_expr(i, rule) for i in e.indices)))
        return None

    def region(r: Region) -> Region:
        return r if r.buffer not in new else Region(new[r.buffer], (stage, *r.mins), (const(1), *r.extents), "slice", r.span)

    def visit(statements: Body) -> Body:
        out: list[Stmt] = []
        for s in statements:
            s = map_children(map_own(s, rule), visit)
            if isinstance(s, TileOp):
                s = replace(s, args={k: region(v) if isinstance(v, Region) else v for k, v in s.args.items()})
            out.append(s)
        return tuple(out)

    return visit(body)


