"""How many registers each warpgroup may have: copying needs few, and what it gives up the others get (PTX ISA, "setmaxnreg")."""
from __future__ import annotations

from ...ir.stmt import Stmt, TileOp
from ...records import dataclass
from ...source.span import Span

_FILE = 512  # 32-bit registers of a multiprocessor for each of a warpgroup's 128 threads
_COPYING = 24  # what the copying warpgroup keeps
_MOST = 255
_ROOMY = 180  # registers of fragments that leave enough for the rest where two blocks share a multiprocessor
_LIGHT, _MOST_BLOCKS = 40, 3  # fragments that leave registers enough for so many blocks without an exchange
_SHARED_OVERHEAD = 1024  # bytes of a block's shared memory that the system takes


@dataclass(frozen=True, slots=True)
class Registers:
    """``blocks``: how many are meant to run on a multiprocessor; ``computing``: registers a thread after the exchange, None without one."""

    blocks: int
    computing: int | None

    def give(self, span: Span | None) -> list[Stmt]:
        return [] if self.computing is None else [TileOp(span, "set_max_nreg", {"count": _COPYING, "increase": False, "managed": True})]

    def take(self, span: Span | None) -> list[Stmt]:
        return [] if self.computing is None else [TileOp(span, "set_max_nreg", {"count": self.computing, "increase": True, "managed": True})]


def share_registers(groups: int, shared_bytes: int, capacity: int, fragments: int, wanted: object = None, at_start: int = 0) -> Registers:
    """For ``groups`` computing warpgroups and one that copies; ``fragments``: registers a thread that fragments take alone;
    ``wanted``: blocks the user asks for; ``at_start``: registers a thread must be launched with. The exchange may not exceed what the block was launched with."""
    blocks = wanted if isinstance(wanted, int) and wanted > 0 else 1
    two_fit = 2 * (shared_bytes + _SHARED_OVERHEAD) <= capacity and at_start <= _rounded(_FILE // 2 // (groups + 1))
    if wanted is None and groups == 1 and fragments <= _ROOMY and two_fit:
        blocks = 2
    if wanted is None and groups == 1 and fragments <= _LIGHT:
        return Registers(max(1, min(_MOST_BLOCKS, capacity // (shared_bytes + _SHARED_OVERHEAD))), None)
    entry = _rounded(_FILE // blocks // (groups + 1))
    if entry >= _MOST:
        return Registers(blocks, None)
    computing = _rounded(((groups + 1) * entry - _COPYING) // groups)
    return Registers(blocks, computing if computing > entry else None)


def _rounded(count: int) -> int:
    return count // 8 * 8
