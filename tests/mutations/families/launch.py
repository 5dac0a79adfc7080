"""T.Kernel, the grid, the threads, clusters."""

from __future__ import annotations

import ast

from seed import Edit, Mutation, Seed

from . import one, operator, values

LIMIT = "CUDA C++ Programming Guide, Compute Capabilities: at most 1024 threads per block"
CLUSTERS = "CUDA C++ Programming Guide, Compute Capabilities: clusters need compute capability 9.0"
CLUSTER_SIZE = "CUDA C++ Programming Guide, Thread Block Clusters: at most 8 blocks portably, 16 at all"
GRID = "cuLaunchKernel: grid dimensions are at least 1"


@operator("launch")
def threads_no_number(seed: Seed):
    for call in seed.calls("Kernel"):
        yield from values(seed, call, "threads", ('"128"', "128.0", "0", "-32", "(128, 1, 1, 1)"))


@operator("launch")
def too_many_threads(seed: Seed):
    for call in seed.calls("Kernel"):
        yield from values(seed, call, "threads", ("2048", "(64, 32)", "1056"), LIMIT)


@operator("launch")
def grid_divided_with_a_fraction(seed: Seed):
    for call in seed.calls("Kernel"):
        for arg in call.args:
            if isinstance(arg, ast.Call) and seed.source(arg.func) == "T.ceildiv":
                yield one(seed, call, seed.replace(arg, f"{seed.source(arg.args[0])} / {seed.source(arg.args[1])}"))
            elif isinstance(arg, ast.BinOp) and isinstance(arg.op, ast.FloorDiv):
                yield one(seed, call, seed.replace(arg, f"{seed.source(arg.left)} / {seed.source(arg.right)}"))


@operator("launch")
def grid_of_four_dimensions(seed: Seed):
    for call in seed.calls("Kernel"):
        for extra in range(4 - len(call.args), 3):
            yield one(seed, call, seed.add_first(call, ", ".join(["1"] * extra)))


@operator("launch")
def grid_of_nothing(seed: Seed):
    for call in seed.calls("Kernel"):
        for arg in call.args[:2]:
            yield one(seed, call, seed.replace(arg, f"({seed.source(arg)}) // 100000"), because=GRID)
            yield one(seed, call, seed.replace(arg, "0"), because=GRID)


@operator("launch")
def names_and_grid_differ(seed: Seed):
    for s in seed.statements(ast.With):
        assert isinstance(s, ast.With)
        item = s.items[0]
        if item.optional_vars is None or "T.Kernel" not in seed.source(item.context_expr):
            continue
        v = item.optional_vars
        if isinstance(v, ast.Tuple):
            first = v.elts[0]
            yield one(seed, s, seed.replace(v, f"({seed.source(v)[1:-1]}, bw)"))
            yield one(seed, s, seed.replace(v, f"({', '.join(seed.source(e) for e in v.elts[:-1])},)"), follow=(seed.source(v.elts[-1]),))
            yield one(seed, s, seed.replace(v, seed.source(first)), follow=tuple(seed.source(e) for e in v.elts))
        elif isinstance(v, ast.Name):
            yield one(seed, s, seed.replace(v, f"({v.id}, bw)"))


@operator("launch")
def kernel_inside_kernel(seed: Seed):
    for s in seed.statements(ast.With):
        assert isinstance(s, ast.With)
        if "T.Kernel" in seed.source(s.items[0]) and s.body:
            last = s.body[-1]
            start = seed.span(last)[0]
            body = seed.source(last).replace("\n", "\n    ")
            pad = seed.indent(last)
            yield Mutation((Edit(start, seed.span(last)[1], f"with T.Kernel(2, threads=128) as inner:\n{pad}    {body}"),), ((start, start + 1),))


@operator("launch")
def kernel_outside(seed: Seed):
    pad = "\n\n"
    for text in ("with T.Kernel(1, threads=32) as b:\n    pass\n", "launched = T.Kernel(4, threads=64)\n"):
        end = len(seed.text)
        yield Mutation((Edit(end, end, pad + text),), ((end + 2, end + 3),))


@operator("launch")
def fourth_thread_dimension(seed: Seed):
    for call in seed.calls("get_thread_binding"):
        for text in ("3", "-1", "7"):
            edit = seed.replace(call.args[0], text) if call.args else seed.add_argument(call, text)
            yield one(seed, call, edit)


@operator("launch")
def warpgroup_that_is_not_there(seed: Seed):
    why = "the block has threads / 128 warpgroups: TileLang drops the branch"
    for call in seed.calls("ws"):
        for text in ("2", "5"):
            yield one(seed, call, seed.replace(call.args[0], text), because=why)


@operator("launch")
def warp_specialisation_without_threads(seed: Seed):
    if seed.calls("ws"):
        for call in seed.calls("Kernel"):
            found = seed.keyword(call, "threads")
            if found is not None:
                yield Mutation((seed.drop_argument(call, found),), (seed.place(call), *(seed.place(c) for c in seed.calls("ws"))))


@operator("launch")
def too_few_threads_for_the_roles(seed: Seed):
    why = "the block has threads / 128 warpgroups: TileLang drops the branch"
    if seed.calls("ws"):
        for call in seed.calls("Kernel"):
            yield Mutation((seed.set_keyword(call, "threads", "128"),), (seed.place(call), *(seed.place(c) for c in seed.calls("ws"))), (), why)


@operator("launch")
def impossible_cluster(seed: Seed):
    for call in seed.calls("Kernel"):
        if seed.target == "sm_80":
            yield from values(seed, call, "cluster_dims", ("(2, 1, 1)",), CLUSTERS)
        else:
            yield from values(seed, call, "cluster_dims", ("(32, 1, 1)", "(8, 4, 1)"), CLUSTER_SIZE)
        yield from values(seed, call, "cluster_dims", ('"2"', "2.0", "{2}"))


@operator("launch")
def block_index_outside_the_kernel(seed: Seed):
    """A block index used before its launch."""
    for s in seed.statements(ast.With):
        assert isinstance(s, ast.With)
        v = s.items[0].optional_vars
        if "T.Kernel" in seed.source(s.items[0]) and v is not None:
            name = seed.source(v.elts[0] if isinstance(v, ast.Tuple) else v)
            if name != "_":
                yield Mutation((seed.insert_before(s, f"first = {name} * 2"),), ())
