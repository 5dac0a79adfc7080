"""Groups of threads with work of their own: ``with T.ws(0):``, ``if tx < 128:``. Inside, a tile is a tile of the group.

A condition on the thread number alone that whole warps next to each other pass makes a :class:`~tilec.ir.stmt.Role`. Its tile operations are laid
out over the group, and where its threads must wait for each other, a named barrier (PTX ISA, bar.sync with a thread count) serves.
"""
from __future__ import annotations

from dataclasses import replace

from ..ir.buffer import FRAGMENT, Buffer
from ..ir.build import binary, unary
from ..ir.evaluate_int import evaluate
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, If, Launch, Parallel, Role, Stmt, TileOp, bodies
from ..ir.stmt import walk as walk_statements
from .context import LaunchState, PassContext
from .errors import LoweringError
from .register_exchange import heed_register_counts
from .rewrite import map_children
from .uses import buffers_of

WARP = 32
_PER_THREAD = ("atomic", "print", "device_assert", "annotate", "mbarrier_arrive", "mbarrier_wait_parity", "mbarrier_expect_tx", "fence_proxy_async", "cp_async_barrier_noinc",
               "sync_threads", "sync_warp", "set_max_nreg", "ptx_wait_group", "ptx_commit_group")


def find_roles(program: TileProgram, ctx: PassContext) -> TileProgram:
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        if isinstance(s, Launch) and any(isinstance(x, If) for x in walk_statements(s.body)):
            finder = _Finder(ctx.state(number, s))
            s = replace(s, body=finder.body(s.body))
            s = heed_register_counts(s, finder.state.threads) if ctx.target.wgmma else s
            _check_fragments(s.body)
        out.append(s)
    return replace(program, body=tuple(out))


class _Finder:
    def __init__(self, state: LaunchState) -> None:
        self.state = state

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            made = self._roles(s) if isinstance(s, If) and _has_tiles(s) else None
            out += made if made is not None else (map_children(s, self.body),)
        return tuple(out)

    def _roles(self, s: If) -> Body | None:
        """One role a branch, those of ``elif`` too; None if the conditions do not divide the block that way."""
        found = self._divided(s, set(range(self.state.threads)), None)
        return None if found is None else tuple(found)

    def _divided(self, s: If, within: set[int], guard: Expr | None) -> list[Stmt] | None:
        """The roles among some threads, which are those that ``guard`` lets through."""
        passing = self._passing(s.cond)
        if passing is None:
            return None
        mine = [n for n in passing if n in within]
        rest = sorted(within - set(mine))
        otherwise = _both(guard, unary("not", s.cond))
        found: list[Stmt] = []
        if s.then and mine:
            if not _whole_warps(mine):
                return None
            found.append(Role(s.span, _both(guard, s.cond), s.then, (), mine[0], mine[-1] + 1))
        if not s.other or not rest:
            return found
        if len(s.other) == 1 and isinstance(s.other[0], If) and self._passing(s.other[0].cond) is not None:
            more = self._divided(s.other[0], set(rest), otherwise)
            return None if more is None else [*found, *more]
        if not _whole_warps(rest):
            return None
        return [*found, Role(s.span, otherwise, s.other, (), rest[0], rest[-1] + 1)]

    def _passing(self, cond: Expr) -> list[int] | None:
        """The numbers of the threads that pass a condition on the thread number alone."""
        x, y, z = self.state.extents
        names = {v for v in walk_expr(cond) if isinstance(v, Var)}
        if not names or not names <= set(self.state.thread_vars) or any(isinstance(v, Load) for v in walk_expr(cond)):
            return None
        try:
            return [n for n in range(self.state.threads)
                    if evaluate(cond, dict(zip(self.state.thread_vars, (n % x, n // x % y, n // (x * y) % z))))]
        except (KeyError, ValueError, ZeroDivisionError):
            return None


def _both(a: Expr | None, b: Expr) -> Expr:
    return b if a is None else binary("and", a, b)


def _has_tiles(s: If) -> bool:
    return any(isinstance(x, Parallel) or (isinstance(x, TileOp) and x.op not in _PER_THREAD) for x in walk_statements((*s.then, *s.other)))


def _whole_warps(threads: list[int]) -> bool:
    return threads[0] % WARP == 0 and len(threads) % WARP == 0 and threads[-1] - threads[0] + 1 == len(threads)


def _check_fragments(body: Body) -> None:
    """A fragment belongs to the threads of one group."""
    owners: dict[Buffer, Role | None] = {}

    def visit(statements: Body, role: Role | None) -> None:
        for s in statements:
            inner = s if isinstance(s, Role) else role
            for b in _fragments(s):
                first = owners.setdefault(b, role)
                if first is not role and (first is None or role is None or (first.low, first.high) != (role.low, role.high)):
                    raise LoweringError(f"The fragment {b.name} is used by different groups of threads; a fragment lives in the registers of one group. "
                                        "Hand its values over through shared memory.", s.span, "fragment-groups")
            for nested in bodies(s):
                visit(nested, inner)

    visit(body, None)


def _fragments(s: Stmt) -> set[Buffer]:
    if isinstance(s, Alloc):
        return set()
    return {b.storage() for b in buffers_of(s) if b.storage().scope == FRAGMENT}
