"""Software pipelines: stages, schedules, nesting."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator, values

IGNORED = "a negative number of stages is taken as none, silently"


def loops(seed: Seed):
    return seed.calls("Pipelined")


def body_length(seed: Seed, call) -> int:
    s = seed.statement(call)
    return len(s.body)  # type: ignore[attr-defined]


@operator("pipelines")
def stages_no_number(seed: Seed):
    for call in loops(seed):
        if seed.keyword(call, "order") is None:
            yield from values(seed, call, "num_stages", ("2.0", '"3"', "[2]", "1.5", "T.float32"))


@operator("pipelines")
def negative_stages(seed: Seed):
    for call in loops(seed):
        if seed.keyword(call, "order") is None:
            yield from values(seed, call, "num_stages", ("-1", "-3"), IGNORED)


def schedules(seed: Seed):
    """Loops with order= and stage=, and plain loops of a copy, a copy and a product: (call, order, stage, follow)."""
    for call in loops(seed):
        s = seed.statement(call)
        assert isinstance(s, ast.For)
        if len(s.body) == 3 and all(isinstance(x, ast.Expr) for x in s.body):
            yield call, s


def scheduled(seed: Seed, call, order: str, stage: str) -> tuple:
    """The edits that give a loop this schedule."""
    edits = []
    found = seed.keyword(call, "num_stages")
    given = seed.keyword(call, "order")
    if given is not None:
        stages = seed.keyword(call, "stage")
        return seed.replace(given.value, order), seed.replace(stages.value, stage)
    assert found is not None
    start, end = seed.span(found)
    edits.append(type(seed.replace(found, ""))(start, end, f"order={order}, stage={stage}"))
    return tuple(edits)


@operator("pipelines")
def schedule_of_another_length(seed: Seed):
    for call, s in schedules(seed):
        for order, stage in (("[0, 1]", "[0, 1]"), ("[0, 1, 2, 3]", "[0, 0, 0, 1]"), ("[0, 1, 2]", "[0, 1]"), ("[0]", "[0]")):
            m = scheduled(seed, call, order, stage)
            yield Mutation(m, (seed.place(call), seed.span(s)))


@operator("pipelines")
def order_with_repetition(seed: Seed):
    for call, s in schedules(seed):
        for order in ("[0, 0, 1]", "[0, 1, 1]", "[2, 2, 2]"):
            yield Mutation(scheduled(seed, call, order, "[0, 0, 1]"), (seed.place(call), seed.span(s)))


@operator("pipelines")
def consumer_in_an_earlier_stage(seed: Seed):
    for call, s in schedules(seed):
        for stage in ("[1, 1, 0]", "[2, 0, 1]", "[1, 0, 0]"):
            yield Mutation(scheduled(seed, call, "[0, 1, 2]", stage), (seed.place(call), seed.span(s)))


@operator("pipelines")
def consumer_before_producer(seed: Seed):
    for call, s in schedules(seed):
        for order in ("[2, 1, 0]", "[1, 2, 0]", "[0, 2, 1]"):
            yield Mutation(scheduled(seed, call, order, "[0, 0, 0]"), (seed.place(call), seed.span(s)))


@operator("pipelines")
def order_without_stages(seed: Seed):
    why = "order without stage is ignored silently"
    for call in loops(seed):
        stage = seed.keyword(call, "stage")
        if stage is not None:
            yield one(seed, call, seed.drop_argument(call, stage), because=why)
        elif body_length(seed, call) == 3 and seed.keyword(call, "num_stages") is not None:
            start, end = seed.span(seed.keyword(call, "num_stages"))
            yield one(seed, call, type(seed.replace(call, ""))(start, end, "order=[0, 1, 2]"), because=why)


@operator("pipelines")
def one_tile_for_both_operands(seed: Seed):
    """Two statements of one pipeline write one tile."""
    for call in loops(seed):
        s = seed.statement(call)
        assert isinstance(s, ast.For)
        copies = [x for x in s.body if isinstance(x, ast.Expr) and seed.source(x).startswith("T.copy(")]
        if len(copies) >= 1:
            names = tuple(seed.source(c.value.args[1]) for c in copies)  # type: ignore[attr-defined]
            yield Mutation((seed.insert_after(copies[0], seed.source(copies[0])),), (seed.span(copies[0]), seed.place(call)), names[:1])


@operator("pipelines")
def pipeline_inside_a_pipeline(seed: Seed):
    why = "the outer loop has no effect: TileLang pipelines the inner one only"
    for call in seed.calls("serial"):
        s = seed.statement(call)
        if isinstance(s, ast.For) and len(s.body) == 1 and "T.Pipelined" in seed.source(s.body[0]):
            yield one(seed, call, seed.rename(call, "Pipelined"), seed.add_argument(call, "num_stages=2"), because=why)
    for call in loops(seed):
        s = seed.statement(call)
        pad = seed.indent(s)
        if isinstance(s, ast.For) and seed.keyword(call, "num_stages") is not None:
            inner = seed.source(s).replace("\n", "\n    ")
            start = seed.span(s)[0]
            yield Mutation((seed.replace(s, f"for again in T.Pipelined(2, num_stages=2):\n{pad}    {inner}"),), ((start, start + 1),), (), why)
            yield Mutation((seed.replace(s, f"for again in T.Pipelined(1, num_stages=3):\n{pad}    {inner}"),), ((start, start + 1),), (), why)


@operator("pipelines")
def schedule_of_nothing(seed: Seed):
    for call in loops(seed):
        if seed.keyword(call, "num_stages") is not None:
            s = seed.statement(call)
            pad = seed.indent(s)
            yield Mutation((seed.insert_before(s, f"for idle in T.Pipelined(4, order=[0], stage=[0]):\n{pad}    pass"),), ())


@operator("pipelines")
def extent_no_number(seed: Seed):
    for call in loops(seed):
        yield one(seed, call, seed.replace(call.args[0], f"({seed.source(call.args[0])}) * 0.5"))
        yield one(seed, call, seed.replace(call.args[0], '"4"'))


@operator("pipelines")
def loop_unpacks(seed: Seed):
    for call in loops(seed):
        s = seed.statement(call)
        assert isinstance(s, ast.For)
        yield one(seed, call, seed.replace(s.target, f"{seed.source(s.target)}, other"))
