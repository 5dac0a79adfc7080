"""Tiles that go to tensors by the copy engine: shared ones as they are, fragments through a shared tile where memory is left for it.

What matrix operations accumulated is stored by each warpgroup for itself (``bulk/accumulators``), other fragments by all threads together.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field, replace

from ...ir.buffer import FRAGMENT, GLOBAL, SHARED_DYN, Buffer, Region, tile_shape, whole
from ...ir.build import const
from ...ir.stmt import Alloc, Body, Stmt, TileOp
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ..ahead import accesses
from ..bulk.accumulators import RowStore, part_map, part_of, plan_rows
from ..bulk.lower import map_of_store
from ..bulk.tensor_map import TensorMap, bulk_tile
from ..context import LaunchState
from ..rewrite import map_children


@dataclass
class BulkStores:
    """``brought``: tiles that bulk copies fill. ``room``: bytes of shared memory that may be taken for fragments. ``again``: the code runs
    tile after tile, and a store may still read its tile when the next one begins."""

    body: Body
    state: LaunchState
    brought: set[Buffer]
    room: int
    again: bool
    threads: int
    staged: list[Buffer] = field(default_factory=list)  # tiles that warpgroups store rows through
    sources: list[Buffer] = field(default_factory=list)
    described: list[TensorMap] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uses = Counter(b.storage() for s in walk_statements(self.body) for found in accesses(s) for b in found)
        self.viewed = {s.buffer.storage() for s in walk_statements(self.body) if isinstance(s, Alloc) and s.buffer.view_of is not None}

    def rewritten(self) -> Body:
        body = self._visit(self.body, self._statement)
        if self.again and self.sources:
            body = self._visit(_without(body, set(self.sources)), self._waiting)
        return body

    def finish(self) -> list[Stmt]:
        """After everything: no store may read the block's memory when the block is gone."""
        rows = [TileOp(b.span, "bulk_rows_wait", {}) for b in self.staged[:1]]
        return [*(TileOp(b.span, "bulk_store_wait", {"src": whole(b)}) for b in self.sources[:1]), *rows] if self.again else []

    def _visit(self, body: Body, made: Callable[[Stmt], list[Stmt] | None]) -> Body:
        out: list[Stmt] = []
        for s in body:
            found = made(s)
            out += [map_children(s, lambda inner: self._visit(inner, made))] if found is None else found
        return tuple(out)

    def _statement(self, s: Stmt) -> list[Stmt] | None:
        if not isinstance(s, TileOp) or s.op != "copy":
            return None
        src, dst = s.args.get("src"), s.args.get("dst")
        if not isinstance(src, Region) or not isinstance(dst, Region) or dst.buffer.scope != GLOBAL:
            return None
        if src.buffer.is_shared():
            return self._shared(s, src, dst)
        return self._fragment(s, src, dst) if src.buffer.scope == FRAGMENT else None

    def _shared(self, s: TileOp, src: Region, dst: Region) -> list[Stmt] | None:
        problem = self._problem(s, src, dst) or (f"{src.buffer.name} has views" if src.buffer in self.viewed else "")
        if problem:
            self.state.passes.decide(s.span, f"copy of {src.buffer.name}", "stores by all threads", problem)
            return None
        self.state.passes.decide(s.span, f"copy of {src.buffer.name}", "bulk tensor copy (TMA)")
        return [self._store(s, src, dst)]

    def _fragment(self, s: TileOp, src: Region, dst: Region) -> list[Stmt] | None:
        """Stores of a fragment's registers reach a few bytes of each row; through shared memory they become whole rows."""
        rows = plan_rows(src, dst, self.body, self.threads, self.state.target)
        if rows is not None:
            made = self._rows(s, src, dst, rows)
            if made is not None:
                return made
        shape = tile_shape(dst)
        if len(shape) != 2 or not src.is_whole() or src.buffer.view_of is not None:
            return None
        staged = Buffer(self.state.passes.fresh(f"{src.buffer.name}_out"), shape, dst.dtype, SHARED_DYN, s.span)
        size = staged.size_bytes()
        problem = "its extents are not constant" if size is None else self._problem(s, whole(staged), dst)
        if not problem and size is not None and size > self.room:
            problem = f"{size} bytes of shared memory are not left for it"
        if problem or size is None:
            self.state.passes.decide(s.span, f"copy of {src.buffer.name}", "stores by all threads", problem)
            return None
        self.room -= size
        self.state.passes.decide(s.span, f"copy of {src.buffer.name}", "through shared memory, then bulk tensor copy (TMA)")
        into = TileOp(s.span, "copy", {"src": src, "dst": whole(staged)})
        return [*(() if self.again else (Alloc(s.span, staged),)), into, self._store(s, whole(staged), dst)]

    def _rows(self, s: TileOp, src: Region, dst: Region, rows: RowStore) -> list[Stmt] | None:
        """Two tiles a warpgroup if memory is left for them, else one; None where even that does not go."""
        copies = min(2, rows.pieces, self.room // rows.tile_bytes())
        if not copies:
            return None
        staging = rows.staging(self.state.passes.fresh(f"{src.buffer.name}_out"), copies)
        tile = part_map(dst, rows, staging)
        if isinstance(tile, str) or self._unfit(s, dst):
            return None
        self.room -= copies * rows.tile_bytes()
        self.state.bulk.add(staging)
        self.staged.append(staging)
        self.described.append(map_of_store(part_of(dst, rows, const(0), const(0)), Region(staging, (const(0),) * 3, (const(1), *staging.shape[1:]), "slice")))
        self.state.passes.decide(s.span, f"copy of {src.buffer.name}", "each warpgroup by stmatrix through shared memory, then bulk tensor copy (TMA)",
                                 f"panels of {rows.panel} columns, {copies} at once")
        store = TileOp(s.span, "bulk_store_rows", {"src": src, "dst": dst, "staging": whole(staging), "plan": rows, "again": self.again})
        return [*(() if self.again else (Alloc(s.span, staging),)), store]

    def _unfit(self, s: TileOp, dst: Region) -> str:
        if s.args.get("disable_tma"):
            return "disable_tma is given"
        if dst.buffer.storage() not in self.state.passes.tensors:
            return f"{dst.buffer.name} is no parameter"
        return f"the kernel uses {dst.buffer.name} elsewhere too" if self.uses[dst.buffer.storage()] != 1 else ""

    def _problem(self, s: TileOp, src: Region, dst: Region) -> str:
        found = self._unfit(s, dst) or bulk_tile(dst, src)
        return found if isinstance(found, str) else ""

    def _store(self, s: TileOp, src: Region, dst: Region) -> TileOp:
        waits = not self.again or src.buffer in self.brought or src.buffer.attrs.get("ring")
        if not waits and src.buffer not in self.sources:
            self.sources.append(src.buffer)
        self.state.bulk.add(src.buffer)
        self.described.append(map_of_store(dst, src))
        return replace(s, op="bulk_store", args={"src": src, "dst": dst, "waits": waits})

    def _waiting(self, s: Stmt) -> list[Stmt] | None:
        """Before a tile is written again, the store that reads it has ended."""
        if not isinstance(s, TileOp) and any(b in self.sources for inner in walk_statements((s,)) for b in accesses(inner)[1]) and _has_bodies(s):
            return None
        written = [b for b in self.sources for inner in walk_statements((s,)) if b in (x.storage() for x in accesses(inner)[1])]
        return [*(TileOp(s.span, "bulk_store_wait", {"src": whole(b)}) for b in dict.fromkeys(written)), s] if written else None


def _has_bodies(s: Stmt) -> bool:
    from ...ir.stmt import For, If, While

    return isinstance(s, (For, If, While))


def _without(body: Body, gone: set[Buffer]) -> Body:
    kept = [s for s in body if not (isinstance(s, Alloc) and s.buffer in gone)]
    return tuple(map_children(s, lambda inner: _without(inner, gone)) for s in kept)
