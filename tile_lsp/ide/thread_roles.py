"""What the groups of a block's threads do: which warps copy and which compute, as the lowering divided them or the kernel itself does."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilec.ir.buffer import GLOBAL, Region
from tilec.ir.program import TileProgram
from tilec.ir.stmt import Parallel, Role, Stmt, Store, TileOp, walk

_WARP = 32


def thread_roles(program: TileProgram) -> list[list[Any]]:
    """(first thread, last thread, name, words) of each group, the lowest threads first; nothing where all threads do the same."""
    roles = sorted(_outer(program.body), key=lambda r: (r.low, r.high))
    return [[r.low, r.high - 1, *_described(r)] for r in roles]


def roles_markdown(roles: list[list[Any]]) -> str:
    """A line a group."""
    if not roles:
        return "- roles: **every warp does the same**"
    return "\n".join(f"- {_threads(first, last)}: **{name}**{f' · {words}' if words else ''}" for first, last, name, words in roles)


def _threads(first: int, last: int) -> str:
    warps = (first // _WARP, last // _WARP)
    named = f"warp {warps[0]}" if warps[0] == warps[1] else f"warps {warps[0]}–{warps[1]}"
    return f"{named} (threads {first}–{last})"


def _outer(body: tuple[Stmt, ...]) -> Iterator[Role]:
    for s in body:
        if isinstance(s, Role):
            yield s
        else:
            for inner in s.bodies():
                yield from _outer(inner)


def _described(role: Role) -> tuple[str, str]:
    statements = list(walk(role.then))
    operations = [s for s in statements if isinstance(s, TileOp)]
    copied = _names([s for s in operations if s.op == "bulk_fill"], "dst")
    computed = _names([s for s in operations if "gemm" in s.op], "C")
    stored = _names([s for s in operations if s.op.startswith("bulk_store")], "dst")
    words = []
    if copied:
        inner = next((s for s in statements if isinstance(s, Role)), None)
        by = f"{_threads(inner.low, inner.high - 1).split(' (')[0]} copies " if inner is not None else "copies "
        words.append(f"{by}{_listed(copied)} by TMA")
    if computed:
        words.append(f"matrix products into {_listed(computed)}")
    if stored:
        words.append(f"stores {_listed(stored)} by TMA")
    written = _written(statements) if not words else []
    if written:
        words.append(f"writes {_listed(written)}")
    limit = next((s.args.get("count") for s in operations if s.op == "set_max_nreg"), None)
    if isinstance(limit, int):
        words.append(f"{limit} registers a thread")
    name = "producer" if copied and not computed else "consumer" if any(s.op == "bulk_release" for s in operations) else "group"
    return name, ", ".join(words)


def _names(operations: list[TileOp], prefix: str) -> list[str]:
    """The buffers of the operands called ``prefix`` or ``prefix0``, ``prefix1`` ..."""
    found = [v.buffer.name for s in operations for k, v in s.args.items() if isinstance(v, Region) and k.rstrip("0123456789") == prefix]
    return list(dict.fromkeys(found))


def _written(statements: list[Stmt]) -> list[str]:
    """Tiles and tensors that loops over tiles write."""
    found: dict[str, None] = {}
    for s in statements:
        for x in walk(s.bodies()[0]) if isinstance(s, Parallel) else ():
            if isinstance(x, Store) and (x.buffer.is_shared() or x.buffer.storage().scope == GLOBAL):
                found.setdefault(x.buffer.name, None)
    return list(found)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)
