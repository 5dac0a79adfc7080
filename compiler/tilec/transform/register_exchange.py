"""T.set_max_nreg of the user's groups: registers that one group of warpgroups gives up and others take (PTX ISA, "setmaxnreg").

A request blocks until the registers are free. So it is heeded where every thread belongs to a group of whole warpgroups, each group asks once, and what
all of them ask for together is no more than what the block was started with; elsewhere the kernel runs without.
"""
from __future__ import annotations

from dataclasses import replace

from ..ir.stmt import Launch, Role, Stmt, TileOp
from ..ir.stmt import walk as walk_statements

_WARPGROUP = 128
_FILE = 65536  # 32-bit registers of a multiprocessor
_MOST = 255  # of a thread without an exchange


def heed_register_counts(s: Launch, threads: int) -> Launch:
    asked = [x for x in walk_statements(s.body) if isinstance(x, TileOp) and x.op == "set_max_nreg"]
    roles = [x for x in s.body if isinstance(x, Role)]
    blocks = s.attrs.get("min_blocks_per_sm") or 1
    if not asked or not isinstance(blocks, int) or not _adds_up(asked, roles, threads, _FILE // (threads * blocks) // 8 * 8):
        return s
    heeded = tuple(replace(x, then=tuple(_heeded(y) for y in x.then)) if isinstance(x, Role) else x for x in s.body)
    return replace(s, body=heeded, attrs={**s.attrs, "min_blocks_per_sm": blocks})


def _adds_up(asked: list[TileOp], roles: list[Role], threads: int, entry: int) -> bool:
    """``entry``: registers a thread at the kernel's start."""
    if entry >= _MOST or len(asked) != len(roles) or sum(r.high - r.low for r in roles) != threads:
        return False
    total = 0
    for r in roles:
        mine = [x for x in r.then if isinstance(x, TileOp) and x.op == "set_max_nreg"]
        if r.low % _WARPGROUP or r.high % _WARPGROUP or len(mine) != 1:
            return False
        count = mine[0].args["count"]
        if not isinstance(count, int) or count % 8 or not 24 <= count <= 256 or (count < entry if mine[0].args["increase"] else count > entry):
            return False
        total += count * (r.high - r.low)
    return total <= entry * threads


def _heeded(s: Stmt) -> Stmt:
    return replace(s, args={**s.args, "managed": True}) if isinstance(s, TileOp) and s.op == "set_max_nreg" else s
