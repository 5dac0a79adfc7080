"""Names and signatures of the language."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator

OTHER_NAMES = {
    "alloc_shared": ("alloc_smem", "AllocShared", "alloc_share"),
    "alloc_fragment": ("alloc_fragments", "alloc_register", "alloc_frag"),
    "copy": ("Copy", "cpy", "memcpy"),
    "gemm": ("matmul", "gemm_v1", "gemm_v2", "Gemm"),
    "clear": ("zero", "clear_", "Clear"),
    "Parallel": ("parallel", "Paralell"),
    "Pipelined": ("pipelined", "Pipeline"),
    "ceildiv": ("ceil_div", "cdiv_up"),
    "reduce_sum": ("reduce_add", "sum_reduce"),
    "reduce_max": ("reducemax", "max_reduce"),
    "Kernel": ("kernel", "Launch"),
    "atomic_add": ("atomicAdd", "atomic_addf"),
    "mbarrier_wait_parity": ("mbarrier_wait", "mbarrier_parity_wait"),
    "alloc_tmem": ("alloc_tensor_memory", "alloc_TMEM"),
    "serial": ("Range", "sequential"),
    "Tensor": ("tensor", "Tensors"),
    "if_then_else": ("where_", "ifelse"),
    "exp2": ("exp_2", "pow2"),
    "cast": ("to", "Cast_"),
    "infinity": ("inf", "Infinity"),
}
OTHER_KEYWORDS = {
    "transpose_B": ("trans_B", "transpose_b", "transposeB"),
    "num_stages": ("stages", "num_stage"),
    "threads": ("num_threads", "thread"),
    "dim": ("axis", "dims"),
    "clear": ("clear_out", "init"),
    "policy": ("warp_policy", "gemm_policy"),
    "clear_accum": ("clear_accumulator", "zero_init"),
    "mbar": ("mbarrier", "barrier_"),
    "barrier": ("mbarrier", "bar"),
    "memory_order": ("order", "memorder"),
    "reverse": ("reversed", "backward"),
    "init": ("initial", "init_value"),
    "op": ("reduce_type", "kind"),
    "return_prev": ("return_old", "prev"),
    "panel_size": ("panel", "width"),
}
SURPLUS_KEYWORDS = {
    "copy": ("async_=True", "dtype='float16'"),
    "gemm": ("wg_wait=0", "k_pack=1", "alpha=1.0"),
    "Pipelined": ("sync=[[0]]", "group=[[0, 1, 2]]", "unroll=2"),
    "Kernel": ("is_cpu=False", "block=128"),
    "clear": ("value=0",),
    "fill": ("dtype='float32'",),
    "alloc_shared": ("align=128", "swizzle=True"),
    "alloc_fragment": ("layout=None",),
    "reduce_sum": ("keepdim=True", "axis=1"),
    "ceildiv": ("up=True",),
}
REQUIRED = ("copy", "gemm", "fill", "alloc_shared", "alloc_fragment", "ceildiv", "reduce_sum", "reduce_max", "cast", "atomic_add", "mbarrier_wait_parity",
            "tcgen05_gemm", "alloc_tmem", "if_then_else", "cumsum", "finalize_reducer", "reducer_update", "alloc_barrier", "clear")  # fmt: skip


@operator("api")
def unknown_name(seed: Seed):
    for call in seed.calls(*OTHER_NAMES):
        for name in OTHER_NAMES[call.func.attr]:
            yield one(seed, call, seed.rename(call, name))


@operator("api")
def name_with_letters_swapped(seed: Seed):
    for call in seed.calls():
        name = call.func.attr
        if len(name) > 4:
            yield one(seed, call, seed.rename(call, name[:-2] + name[-1] + name[-2]))


@operator("api")
def unknown_keyword(seed: Seed):
    for call in seed.calls():
        for k in call.keywords:
            for name in OTHER_KEYWORDS.get(k.arg or "", ()):
                start, end = seed.span(k)
                yield one(seed, call, type(seed.replace(k, ""))(start, end, f"{name}={seed.source(k.value)}"))


@operator("api")
def surplus_keyword(seed: Seed):
    for call in seed.calls(*SURPLUS_KEYWORDS):
        for text in SURPLUS_KEYWORDS[call.func.attr]:
            yield one(seed, call, seed.add_argument(call, text))


@operator("api")
def missing_argument(seed: Seed):
    for call in seed.calls(*REQUIRED):
        if call.args:
            yield one(seed, call, seed.drop_argument(call, call.args[-1]))


@operator("api")
def surplus_argument(seed: Seed):
    for call in seed.calls("copy", "clear", "fill", "ceildiv", "alloc_fragment", "reduce_sum", "mbarrier_wait_parity", "exp2", "max", "rsqrt", "infinity"):
        if not call.keywords:
            extra = ", ".join(["1"] * (3 if call.func.attr in ("alloc_fragment", "reduce_sum") else 1))
            yield one(seed, call, seed.add_argument(call, extra))


@operator("api")
def argument_given_twice(seed: Seed):
    for call, keyword in ((c, k) for c in seed.calls("reduce_sum", "reduce_max", "Pipelined", "alloc_shared") for k in ("dim", "start", "shape")):
        if (call.func.attr.startswith("reduce") and keyword == "dim") or (call.func.attr == "Pipelined" and keyword == "start"):
            found = seed.keyword(call, keyword)
            if found is not None:
                yield one(seed, call, seed.replace(found, f"1, {seed.source(found)}"))
        elif call.func.attr == "alloc_shared" and keyword == "shape":
            yield one(seed, call, seed.add_argument(call, "shape=(1,)"))


@operator("api")
def misspelt_variable(seed: Seed):
    names = {name for name, _ in seed.allocations("shared", "fragment", "tmem", "barrier", "local")}
    for call in seed.calls("copy", "gemm", "clear", "reduce_sum", "tcgen05_gemm", "mbarrier_wait_parity", "cumsum"):
        for arg in call.args:
            if isinstance(arg, ast.Name) and arg.id in names:
                yield one(seed, call, seed.replace(arg, arg.id + "_"))


@operator("api")
def misspelt_index(seed: Seed):
    for s in seed.statements(ast.Assign):
        target = s.targets[0]
        if isinstance(target, ast.Subscript):
            for n in ast.walk(s.value):
                if isinstance(n, ast.Name) and n.id in ("i", "j", "bx", "by"):
                    yield one(seed, s, seed.replace(n, n.id * 2))
                    break


@operator("api")
def unknown_policy(seed: Seed):
    for k in (k for c in seed.calls("gemm") for k in c.keywords if k.arg == "policy"):
        for name in ("T.GemmWarpPolicy.FullRows", "T.GemmWarpPolicy.Rows", "T.WarpPolicy.FullRow"):
            yield one(seed, k.value, seed.replace(k.value, name))


@operator("api")
def unknown_name_of_tilelang(seed: Seed):
    for n in ast.walk(seed.tree):
        if isinstance(n, ast.FunctionDef):
            for d in n.decorator_list:
                f = d.func if isinstance(d, ast.Call) else d
                if seed.source(f) == "tilelang.jit":
                    start, end = seed.span(f)
                    yield Mutation((type(seed.replace(f, ""))(start, end, "tilelang.jitt"),), ((start, end),))
                    if isinstance(d, ast.Call):
                        yield Mutation((seed.add_argument(d, "out_index=[0]"),), ((start, end),))
                        yield Mutation((seed.add_argument(d, "threads=128"),), ((start, end),))
                    else:
                        yield Mutation((seed.replace(d, "tilelang.jit(outputs=[0])"),), ((start, end),))
