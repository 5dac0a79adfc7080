"""mbarriers, asynchronous copies, block-wide synchronisation, registers of warpgroups."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator, values
from .python import last_statement

PARITY = "PTX ISA, mbarrier.try_wait.parity: the wait returns at once or never"
COUNT = "PTX ISA, mbarrier.init: the phase completes after exactly that many arrivals; more or fewer leave it behind or ahead"
TMA_WAIT = "PTX ISA, cp.async.bulk: the data is visible after the mbarrier's phase has completed only"
ASYNC_WAIT = "PTX ISA, cp.async: the data is visible after cp.async.wait_group only"
INDEX = "the barriers lie in shared memory one after another: another object is used as a barrier"
REGISTERS = "PTX ISA, setmaxnreg: a multiple of 8 in 24 to 256"


def waits(seed: Seed):
    return [] if seed.calls("alloc_tmem") else seed.calls("mbarrier_wait_parity", "barrier_wait")


def barriers(seed: Seed) -> tuple[str, ...]:
    return tuple(n for n, _ in seed.allocations("barrier"))


@operator("barriers")
def no_arrivals_expected(seed: Seed):
    for _, call in seed.allocations("barrier"):
        arg = call.args[0]
        for text in ("[0, 128]", "[128, -1]") if isinstance(arg, ast.List) else ("0", "-1"):
            yield one(seed, call, seed.replace(arg, text))


@operator("barriers")
def other_number_of_arrivals(seed: Seed):
    for name, call in seed.allocations("barrier"):
        arg = call.args[0]
        if not seed.calls("alloc_tmem"):
            for n in ("64", "256", "129", "1"):
                text = f"[{n}, {n}]" if isinstance(arg, ast.List) else n
                yield one(seed, call, seed.replace(arg, text), follow=(name,), because=COUNT)


@operator("barriers")
def arrival_missing(seed: Seed):
    for call in seed.calls("barrier_arrive", "mbarrier_arrive"):
        yield Mutation((seed.delete(seed.statement(call)),), (), barriers(seed), COUNT)


@operator("barriers")
def arrival_twice(seed: Seed):
    for call in seed.calls("barrier_arrive", "mbarrier_arrive"):
        yield Mutation((seed.insert_after(seed.statement(call), seed.source(call)),), (), barriers(seed), COUNT)


@operator("barriers")
def parity_constant(seed: Seed):
    for call in waits(seed):
        for text in ("0", "1"):
            yield one(seed, call, seed.replace(call.args[1], text), because=PARITY)


@operator("barriers")
def parity_shifted(seed: Seed):
    for call in waits(seed):
        yield one(seed, call, seed.replace(call.args[1], f"({seed.source(call.args[1])}) ^ 1"), because=PARITY)


@operator("barriers")
def copy_not_waited_for(seed: Seed):
    for call in waits(seed):
        tiles = tuple(n for n, _ in seed.allocations("shared"))
        yield Mutation((seed.delete(seed.statement(call)),), (), (*tiles, *barriers(seed)), TMA_WAIT)


@operator("barriers")
def wait_before_the_copy(seed: Seed):
    for call in waits(seed):
        s = seed.statement(call)
        body = next(b for b in bodies(seed) if s in b)
        at = body.index(s)
        if at and isinstance(body[at - 1], ast.Expr):
            yield Mutation((seed.replace(body[at - 1], seed.source(s)), seed.replace(s, seed.source(body[at - 1]))), (), barriers(seed), PARITY)
            yield Mutation((seed.insert_before(body[0], seed.source(s)), seed.delete(s)), (), barriers(seed), PARITY)


def bodies(seed: Seed):
    for n in ast.walk(seed.tree):
        if isinstance(n, (ast.For, ast.With, ast.FunctionDef, ast.If)):
            yield n.body


@operator("barriers")
def barrier_beyond_the_last(seed: Seed):
    for call in seed.calls("mbarrier_wait_parity", "mbarrier_arrive"):
        arg = call.args[0]
        if isinstance(arg, ast.Subscript):
            for text in ("2", "-3", "7"):
                yield one(seed, call, seed.replace(arg.slice, text), because=INDEX)
        elif not seed.calls("alloc_tmem"):
            yield one(seed, call, seed.replace(arg, f"{seed.source(arg)}[1]"), because=INDEX)


@operator("barriers")
def array_without_index(seed: Seed):
    why = "an array of barriers without index means its first one: the others never complete"
    for call in seed.calls("mbarrier_wait_parity", "mbarrier_arrive"):
        arg = call.args[0]
        if isinstance(arg, ast.Subscript):
            yield one(seed, call, seed.replace(arg, seed.source(arg.value)), because=why)


@operator("barriers")
def bulk_copy_without_barrier(seed: Seed):
    for call in seed.calls("tma_copy"):
        found = seed.keyword(call, "barrier")
        if found is not None:
            yield one(seed, call, seed.drop_argument(call, found))


@operator("barriers")
def instructions_of_a_later_chip(seed: Seed):
    for call in seed.calls("tma_copy", "alloc_barrier"):
        if seed.target == "sm_90a":
            name = call.func.attr  # type: ignore[attr-defined]
            text = seed.source(call).replace(name + "(", name + "( ", 1)
            m = one(seed, call, seed.replace(call, text), target="sm_80")
            yield Mutation(m.edits, m.at, barriers(seed), m.because, m.target)


@operator("barriers")
def impossible_register_count(seed: Seed):
    for call in seed.calls("inc_max_nreg", "dec_max_nreg"):
        for text in ("100", "20", "264", "41"):
            yield one(seed, call, seed.replace(call.args[0], text), because=REGISTERS)


@operator("barriers")
def asynchronous_copy_not_waited_for(seed: Seed):
    for call in seed.calls("ptx_wait_group"):
        tiles = tuple(n for n, _ in seed.allocations("shared"))
        yield Mutation((seed.delete(seed.statement(call)),), (), tiles, ASYNC_WAIT)
        yield Mutation((seed.replace(call.args[0], "1"),), (seed.place(call),), tiles, ASYNC_WAIT)
        yield Mutation((seed.replace(call.args[0], "2"),), (seed.place(call),), tiles, ASYNC_WAIT)


@operator("barriers")
def asynchronous_copy_elsewhere(seed: Seed):
    for call in seed.calls("async_copy"):
        yield one(seed, call, *seed.swap(*call.args[:2]))
        for name, allocation in seed.allocations("shared"):
            if name == seed.source(call.args[1]):
                yield one(seed, call, seed.rename(allocation, "alloc_fragment"), follow=(name,))


@operator("barriers")
def part_of_a_warp_synchronises(seed: Seed):
    s = last_statement(seed)
    if s is not None:
        pad = seed.indent(s)
        for text in ("T.get_thread_binding() < 20", "T.get_thread_binding() == 3"):
            yield Mutation((seed.insert_before(s, f"if {text}:\n{pad}    T.sync_threads()"),), ())


@operator("barriers")
def remote_arrival_on_a_block_barrier(seed: Seed):
    for call in seed.calls("barrier_arrive", "mbarrier_arrive"):
        barrier = seed.source(call.args[0])
        yield one(seed, call, seed.replace(call, f"T.mbarrier_arrive({barrier}, 0)"))
        yield one(seed, call, seed.replace(call, f"T.ptx_arrive_cluster_barrier({barrier}, 0)"))


@operator("barriers")
def first_wait_expects_data(seed: Seed):
    """A wait on a barrier nothing ever arrives on."""
    s = last_statement(seed)
    if s is not None and barriers(seed):
        pad = seed.indent(s)
        text = f"idle = T.alloc_barrier(128)\n{pad}T.mbarrier_wait_parity(idle, 0)"
        yield Mutation((seed.insert_before(s, text),), (), ("idle",), "nothing arrives on the barrier: the wait never ends")
    assert values
