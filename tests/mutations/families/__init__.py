"""Mutation operators by family. An operator looks at one seed and yields every mutation it can make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from seed import Mutation, Seed

Function = Callable[[Seed], Iterable[Mutation]]
OPERATORS: dict[str, dict[str, Function]] = {}


def operator(family: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        OPERATORS.setdefault(family, {})[function.__name__.replace("_", "-")] = function
        return function

    return register


def load() -> dict[str, dict[str, Function]]:
    from . import api, atomics, barriers, buffers, capacity, copies, gemm, jit, launch, layouts, parallel, pipelines, python, reductions, tmem, types  # noqa: F401

    return OPERATORS


def values(seed: Seed, call, keyword: str, texts: Iterable[str], because: str = "", follow: tuple[str, ...] = ()) -> Iterator[Mutation]:
    """The keyword of a call set to each of some values."""
    for text in texts:
        yield Mutation((seed.set_keyword(call, keyword, text),), (seed.place(call),), follow, because)


def one(seed: Seed, node, edit, *more, follow: tuple[str, ...] = (), because: str = "", target: str = "") -> Mutation:
    """One mutation, reported at the statement of ``node``."""
    return Mutation((edit, *more), (seed.place(node),), follow, because, target)
