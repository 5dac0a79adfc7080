"""Reductions, scans and reducers."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator, values
from .python import last_statement

REDUCE = ("reduce_sum", "reduce_max", "reduce_min", "reduce_absmax", "reduce_bitor")
SCAN = ("cumsum", "cummax")


def reductions(seed: Seed):
    return seed.calls(*REDUCE)


@operator("reductions")
def dimension_that_is_not_there(seed: Seed):
    for call in (*reductions(seed), *seed.calls(*SCAN)):
        yield from values(seed, call, "dim", ("2", "-3", "5"))


@operator("reductions")
def dimension_of_another_result(seed: Seed):
    for call in reductions(seed):
        found = seed.keyword(call, "dim")
        if found is not None:
            yield one(seed, call, seed.replace(found.value, "0" if seed.source(found.value) == "1" else "1"), follow=(seed.source(call.args[1]),))


@operator("reductions")
def result_of_another_shape(seed: Seed):
    for call in reductions(seed):
        for name, allocation in seed.allocations("fragment", "shared"):
            if name == seed.source(call.args[1]):
                e = seed.extents(allocation)[0]
                yield one(seed, call, seed.replace(e, f"{seed.source(e)} * 2"), follow=(name,))
                yield one(seed, call, seed.replace(e, f"{seed.source(e)} // 2"), follow=(name,))
                yield one(seed, call, seed.replace(allocation.args[0], f"({seed.source(e)}, 2)"), follow=(name,))


@operator("reductions")
def result_keeps_the_dimension(seed: Seed):
    for call in reductions(seed):
        for name, allocation in seed.allocations("fragment"):
            if name == seed.source(call.args[1]):
                e = seed.extents(allocation)[0]
                yield one(seed, call, seed.replace(allocation.args[0], f"({seed.source(e)}, 1)"), follow=(name,))


@operator("reductions")
def memory_it_cannot_read(seed: Seed):
    for call in reductions(seed):
        for name, allocation in seed.allocations("fragment", "shared"):
            if name in (seed.source(call.args[0]), seed.source(call.args[1])):
                yield one(seed, call, seed.rename(allocation, "alloc_local"), follow=(name,))
        yield one(seed, call, seed.replace(call.args[0], "X" if "X:" in seed.text else "A"))
    for call in seed.calls(*SCAN):
        name = seed.source(call.args[0])
        for n, allocation in seed.allocations("fragment", "shared"):
            if n == name:
                yield one(seed, call, seed.rename(allocation, "alloc_local"), follow=(name,))
        yield one(seed, call, seed.replace(call.args[0], "X"))


@operator("reductions")
def bits_of_floats(seed: Seed):
    for call in reductions(seed):
        if call.func.attr in ("reduce_sum", "reduce_max"):  # type: ignore[attr-defined]
            for name in ("reduce_bitor", "reduce_bitand", "reduce_bitxor"):
                yield one(seed, call, seed.rename(call, name))


@operator("reductions")
def impossible_batch(seed: Seed):
    for call in reductions(seed):
        yield from values(seed, call, "batch", ("0", "-1", "7"))


@operator("reductions")
def nan_propagation_of_single_precision(seed: Seed):
    for call in seed.calls("reduce_max", "reduce_min"):
        yield one(seed, call, seed.add_argument(call, "nan_propagate=True"))


@operator("reductions")
def threads_without_a_butterfly(seed: Seed):
    if reductions(seed) and not seed.calls("gemm", "cumsum"):
        for call in seed.calls("Kernel"):
            for text in ("96", "160", "80"):
                yield Mutation((seed.set_keyword(call, "threads", text),), (seed.place(call), *(seed.place(c) for c in reductions(seed)), *(seed.place(c) for c in seed.calls("copy"))))


@operator("reductions")
def scan_into_another_shape(seed: Seed):
    for call in seed.calls(*SCAN):
        if len(call.args) == 2:
            for name, allocation in seed.allocations("shared", "fragment"):
                if name == seed.source(call.args[1]):
                    for e in seed.extents(allocation):
                        yield one(seed, call, seed.replace(e, f"{seed.source(e)} // 2"), follow=(name,))
                        yield one(seed, call, seed.replace(e, f"{seed.source(e)} + 1"), follow=(name,))


@operator("reductions")
def scan_of_three_dimensions(seed: Seed):
    for call in seed.calls(*SCAN):
        if len(call.args) == 1:
            for name, allocation in seed.allocations("shared", "fragment"):
                extents = [seed.source(e) for e in seed.extents(allocation)]
                if name == seed.source(call.args[0]):
                    yield one(seed, call, seed.replace(allocation.args[0], f"({', '.join(extents)}, 2, 2)"), follow=(name,))


@operator("reductions")
def epoch_not_opened_or_closed(seed: Seed):
    for call in seed.calls("reducer_init", "finalize_reducer"):
        name = seed.source(call.args[0])
        yield Mutation((seed.delete(seed.statement(call)),), (), (name, *((seed.source(call.args[1]),) if len(call.args) > 1 else ())))


@operator("reductions")
def epoch_opened_or_closed_twice(seed: Seed):
    for call in seed.calls("reducer_init", "finalize_reducer"):
        name = seed.source(call.args[0])
        yield Mutation((seed.insert_after(seed.statement(call), seed.source(call)),), (seed.place(call),), (name,))


@operator("reductions")
def reducer_used_as_a_tile(seed: Seed):
    s = last_statement(seed)
    for name, call in seed.allocations("reducer"):
        assert s is not None
        pad = seed.indent(s)
        extent = seed.source(seed.extents(call)[0])
        for text in (f"T.clear({name})", f"T.copy({name}, sums_out)", f"for q in T.Parallel({extent}):\n{pad}    {name}[q] = 0.0"):
            yield Mutation((seed.insert_before(s, text),), (), (name,))


@operator("reductions")
def update_outside_of_a_parallel_loop(seed: Seed):
    for call in seed.calls("reducer_update"):
        loop = next(x for x in seed.statements(ast.For) if any(c is call for c in ast.walk(x)) and "T.Parallel" in seed.source(x.iter))  # type: ignore[attr-defined]
        yield Mutation((seed.replace(loop, "T.reducer_update(" + seed.source(call.args[0].value) + "[0], 1.0)"),), ((seed.span(loop)[0], seed.span(loop)[1]),))  # type: ignore[attr-defined]


@operator("reductions")
def unknown_or_impossible_operation(seed: Seed):
    for _, call in seed.allocations("reducer"):
        for text in ('"mean"', '"bitor"', '"prod"', '"SUM"'):
            found = seed.keyword(call, "op")
            assert found is not None
            yield one(seed, call, seed.replace(found.value, text))


@operator("reductions")
def finalised_into_another_tile(seed: Seed):
    for call in seed.calls("finalize_reducer"):
        for name, allocation in seed.allocations("fragment"):
            if name == seed.source(call.args[1]):
                e = seed.extents(allocation)[0]
                yield one(seed, call, seed.replace(e, f"{seed.source(e)} * 2"), follow=(name,))
                yield one(seed, call, seed.replace(allocation.args[1], '"float16"'), follow=(name,))
                yield one(seed, call, seed.rename(allocation, "alloc_local"), follow=(name,))
