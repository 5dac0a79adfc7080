"""Pipelined loops: copies from global memory run ahead of the iterations that read them.

A loop of ``n`` stages becomes::

    copies of iterations 0 .. n-2, each a cp.async group of its own       (one group per iteration, even if empty)
    for k:
        wait until the group of iteration k has arrived; block barrier
        copies of iteration k + n - 1, if there is one; commit
        everything else of iteration k

The barrier makes iteration k's data visible to all threads and at the same time frees the stage that iteration k - 1 read,
which is the one the new copies go to. Stage = iteration % n.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..ir.buffer import GLOBAL, Buffer, Region
from ..ir.build import binary, const, const_int
from ..ir.expr import Call, Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.ops import OPS
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, If, Jump, Launch, Let, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .rewrite import map_children, map_expr, map_own, substitute

_WAITED = ("tcgen05_gemm", "wgmma_gemm")  # operands may still be read when the statement is over


def pipeline_loops(program: TileProgram, ctx: PassContext) -> TileProgram:
    if ctx.target.sm < 80:
        return program
    body = tuple(_launch(s, ctx) if isinstance(s, Launch) else s for s in program.body)
    return replace(program, body=body)


def _launch(s: Launch, ctx: PassContext) -> Launch:
    staged: dict[Buffer, Buffer] = {}
    uses = _uses(s.body)
    body = _body(s.body, staged, uses, ctx)
    return replace(s, body=_without_allocations(body, staged))


def _body(body: Body, staged: dict[Buffer, Buffer], uses: dict[Buffer, int], ctx: PassContext) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = map_children(s, lambda inner: _body(inner, staged, uses, ctx))
        if isinstance(s, For) and s.kind == "pipelined":
            out += _loop(s, staged, uses, ctx)
        else:
            out.append(s)
    return tuple(out)


def _without_allocations(body: Body, staged: dict[Buffer, Buffer]) -> Body:
    """The staged buffers are allocated in front of their loops."""
    kept = [s for s in body if not (isinstance(s, Alloc) and s.buffer in staged)]
    return tuple(map_children(s, lambda inner: _without_allocations(inner, staged)) for s in kept)


# -- which copies run ahead --------------------------------------------------------------------------------------------------
@dataclass
class _Facts:
    """What a loop's body writes, and how often each buffer is written and used."""

    written: dict[Buffer, int] = field(default_factory=dict)
    named: dict[Var, Expr] = field(default_factory=dict)  # Lets at the top level of the body


def _loop(s: For, staged: dict[Buffer, Buffer], uses: dict[Buffer, int], ctx: PassContext) -> Body:
    stages = s.attrs.get("num_stages") or 0
    serial = replace(s, kind="serial")
    if not isinstance(stages, int) or stages < 2 or _has_jump(s.body) or _reads_asynchronously(s.body):
        return (serial,)
    facts = _facts(s)
    inside = _uses(s.body)
    ahead: dict[int, TileOp] = {}
    for i, inner in enumerate(s.body):
        found = _runs_ahead(inner, i, s, facts, inside, uses)
        if found is not None:
            ahead[id(inner)] = found
    if not ahead:
        ctx.note(f"the pipelined loop{_place(s)} has no copy that can run ahead of its iteration; it runs serially")
        return (serial,)
    return _Pipeline(s, stages, ahead, ctx).lower(staged)


def _place(s: Stmt) -> str:
    return f" in line {s.span.line}" if s.span is not None else ""


def _has_jump(body: Body) -> bool:
    return any(isinstance(s, Jump) for s in walk_statements(body))


def _reads_asynchronously(body: Body) -> bool:
    names = [s.op for s in walk_statements(body) if isinstance(s, TileOp)]
    started = [i for i, n in enumerate(names) if n in _WAITED]
    waits = [i for i, n in enumerate(names) if n in ("mbarrier_wait_parity", "wait_wgmma")]
    manual = any(n in ("ptx_wait_group", "ptx_commit_group", "async_copy", "tma_copy") for n in names)
    return manual or bool(started) and (not waits or max(waits) < max(started))


def _accesses(s: Stmt) -> tuple[list[Buffer], list[Buffer]]:
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


def _uses(body: Body) -> dict[Buffer, int]:
    """How many accesses there are to each buffer and its views; a view's allocation counts as one."""
    count: dict[Buffer, int] = {}
    for s in walk_statements(body):
        reads, writes = _accesses(s)
        if isinstance(s, Alloc) and s.buffer.view_of is not None:
            reads = [*reads, s.buffer, s.buffer]
        for b in (*reads, *writes):
            count[b.storage()] = count.get(b.storage(), 0) + 1
    return count


def _facts(s: For) -> _Facts:
    facts = _Facts()
    for inner in walk_statements(s.body):
        for b in _accesses(inner)[1]:
            facts.written[b.storage()] = facts.written.get(b.storage(), 0) + 1
    facts.named = {x.var: x.value for x in s.body if isinstance(x, Let)}
    return facts


def _runs_ahead(s: Stmt, position: int, loop: For, facts: _Facts, inside: dict[Buffer, int], uses: dict[Buffer, int]) -> TileOp | None:
    """The copy with names of the body replaced by their values, if it can be moved to an earlier iteration."""
    if not isinstance(s, TileOp) or s.op != "copy":
        return None
    src, dst = s.region("src"), s.region("dst")
    if src.buffer.storage().scope != GLOBAL or not dst.buffer.is_shared() or src.buffer.storage() in facts.written:
        return None
    if dst.buffer.view_of is not None or facts.written[dst.buffer] != 1 or uses.get(dst.buffer) != inside.get(dst.buffer) or not dst.is_whole():
        return None
    if any(dst.buffer.storage() in (b.storage() for b in (*_accesses(x)[0], *_accesses(x)[1]))
           for earlier in loop.body[:position] for x in walk_statements((earlier,))):
        return None
    names = _expanded(facts.named)
    bounds = [substitute(e, names) for e in (*src.mins, *src.extents)]
    if not all(_independent(e, loop, facts) for e in bounds):
        return None
    n = len(src.mins)
    moved = Region(src.buffer, tuple(bounds[:n]), tuple(bounds[n:]), src.form, src.span)
    return replace(s, args={**s.args, "src": moved})


def _expanded(named: dict[Var, Expr]) -> dict[Var, Expr]:
    out: dict[Var, Expr] = {}
    for var, value in named.items():
        out[var] = substitute(value, out)
    return out


def _independent(e: Expr, loop: For, facts: _Facts) -> bool:
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


# -- the loop ----------------------------------------------------------------------------------------------------------------
class _Pipeline:
    def __init__(self, s: For, stages: int, ahead: dict[int, TileOp], ctx: PassContext) -> None:
        self.s, self.stages, self.ahead, self.ctx = s, stages, ahead, ctx
        self.group = ctx.fresh("pipeline")
        plain = const_int(s.start) == 0 and s.step == 1
        self.counter = s.var if plain else Var("int32", s.var.span, f"{s.var.name}_n", "loop")

    def lower(self, staged: dict[Buffer, Buffer]) -> Body:
        new: dict[Buffer, Buffer] = {}
        for op in self.ahead.values():
            old = op.region("dst").buffer
            new[old] = Buffer(old.name, (const(self.stages), *old.shape), old.dtype, old.scope, old.span, attrs=dict(old.attrs))
        staged.update(new)
        allocations = [Alloc(b.span, b) for b in new.values()]
        return (*allocations, *self._prologue(new), self._steady(new), self._operator("ptx_wait_group", count=0))

    def _operator(self, op: str, **args: object) -> TileOp:
        return TileOp(self.s.span, op, {**args, "managed": True})

    def _copies(self, iteration: Expr, new: dict[Buffer, Buffer], when: str) -> Body:
        """The copies of an iteration, given by its number."""
        value = self.s.start + iteration * self.s.step
        out: list[Stmt] = []
        for op in self.ahead.values():
            dst = op.region("dst")
            buffer = new[dst.buffer]
            stage = iteration % self.stages
            target = Region(buffer, (stage, *dst.mins), (const(1), *dst.extents), "slice", dst.span)
            args = {**op.args, "dst": target, "asynchronous": True, "pipeline": (when, self.group)}
            moved = map_own(replace(op, args={**args, "src": op.region("src")}), lambda e: value if e is self.s.var else None)
            out.append(moved)
        return tuple(out)

    def _prologue(self, new: dict[Buffer, Buffer]) -> Body:
        out: list[Stmt] = []
        for i in range(self.stages - 1):
            there = binary("lt", const(i), self.s.extent)
            copies = self._copies(const(i), new, "prologue")
            known = getattr(there, "value", None)
            if known is None:
                out.append(If(self.s.span, there, copies))
            elif known:
                out += copies
            out.append(self._operator("ptx_commit_group"))
        return tuple(out)

    def _steady(self, new: dict[Buffer, Buffer]) -> For:
        span, k = self.s.span, self.counter
        ahead = Var("int32", span, f"{k.name}_ahead", "let")
        prefetch = (Let(span, ahead, k + (self.stages - 1)),
                    If(span, binary("lt", ahead, self.s.extent), self._copies(ahead, new, "prefetch")))
        rest = tuple(x for x in self.s.body if id(x) not in self.ahead and not (isinstance(x, Alloc) and x.buffer in new))
        rest = self._at_stage(rest, new, k % self.stages)
        if k is not self.s.var:
            rest = (Let(span, self.s.var, self.s.start + k * self.s.step), *rest)
        body = (self._operator("ptx_wait_group", count=self.stages - 2), self._operator("sync_threads"), *prefetch,
                self._operator("ptx_commit_group"), *rest)
        return For(span, k, const(0), self.s.extent, body, "serial", 1, {"pipeline": self.group})

    def _at_stage(self, body: Body, new: dict[Buffer, Buffer], stage: Expr) -> Body:
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


