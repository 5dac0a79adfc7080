"""Valid programs that the checker once accused, in their smallest form: nothing may be reported about them."""

from __future__ import annotations

import sys

import pytest
from tilec.check import check_analysis
from tilec.check.diagnostic import ERROR, INFORMATION, Diagnostic
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

HEAD = "import pytest\nimport tilelang\nimport tilelang.testing\nimport tilelang.language as T\nfrom tilelang import tvm\n\n"


def diagnostics(text: str) -> list[Diagnostic]:
    return check(text, DECLARED)


def check(text: str, targets, explicit: bool = False, version: str = "0.1.15") -> list[Diagnostic]:
    """Errors and warnings about a file."""
    analysis = analyse(SourceFile("case.py", HEAD + text))
    found = check_analysis(analysis, [find(t) for t in targets], manifest.load(version), explicit=explicit)
    return [d for d in found if d.severity != INFORMATION]


VALID = {
    "out_idx=None of an eager kernel": '''
@tilelang.jit(out_idx=None)
def scale(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = A[bx * 32 + i] * 2
    return B

scale.compile(N=64)
''',
    "a packed atomic that returns the old values": '''
@T.prim_func
def fetch(D: T.Tensor((2,), T.float32), V: T.Tensor((2,), T.float32), Old: T.Tensor((2,), T.float32)):
    with T.Kernel(1, threads=1):
        Old[0:2] = T.atomic_addx2(D[0:2], V[0:2], return_prev=True)
''',
    "a packed operation on what a vector of indices loads": '''
@T.prim_func
def add(A: T.Tensor((256,), T.float32), B: T.Tensor((256,), T.float32), C: T.Tensor((256,), T.float32)):
    with T.Kernel(1, threads=128):
        pair = T.Ramp(T.get_thread_binding() * 2, 1, 2)
        C[pair] = T.add2(A[pair], B[pair])
''',
    "a slice beyond a tensor whose outside has a value": '''
@T.prim_func
def pad(A: T.Tensor((60, 60), T.int32), B: T.Tensor((64, 64), T.int32)):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.int32)
        T.annotate_safe_value({A: -1})
        T.copy(A[0:64, 0:64], tile)
        T.copy(tile, B)
''',
    "a value whose meaning is not modelled": '''
@T.prim_func
def total(A: T.Tensor((32,), T.float32), C: T.Tensor((1,), T.float32)):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding(0)
        mine, out = T.alloc_local((1,), T.float32), T.alloc_local((1,), T.float32)
        mine[0] = A[tx]
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), mine[0], True, out[0], tx, dtype="handle"))
        C[0] = out[0]
''',
    "a variable that T.let binds": '''
@T.prim_func
def shift(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):
    with T.Kernel(2, threads=32) as bx:
        begin = T.int32()
        T.let(begin, bx * 32)
        for i in T.Parallel(32):
            B[begin + i] = A[begin + i]
''',
    "asynchronous copies of a schedule": '''
@T.prim_func
def staged(A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float16)):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.float16)
        T.annotate_ws_schedule(T.WSSchedule(num_warps=4, roles=[], pipelines=[], scopes=[]))
        T.async_copy(A[0:64, 0:64], tile)
        T.copy(tile, B)
''',
    "rows of tensor memory that a layout places": '''
@T.prim_func
def stacked(A: T.Tensor((256, 64), T.float32)):
    with T.Kernel(1, threads=128):
        acc = T.alloc_tmem((256, 64), T.float32)
        T.annotate_layout({acc: T.Layout((256, 64), lambda i, j: [i % 128, (i // 128) * 64 + j])})
        T.evaluate(acc[0, 0])
''',
    "a helper that returns or raises": '''
def size(names):
    for name in open(names):
        if name:
            return 1
    raise ValueError(names)

def make(M):
    @T.prim_func
    def main(A: T.Tensor((M,), T.float32), B: T.Tensor((M,), T.float32)):
        with T.Kernel(1, threads=128):
            acc = T.alloc_shared((M,), T.float32)
            T.copy(A, acc)
            T.copy(acc, B)

    return main

@tilelang.testing.requires_rocm
def test_size():
    size("names")
    make(128)
''',
    "parameters declared in the body of a prim_func": '''
@T.prim_func
def copy(A, B):
    A: T.Tensor((32,), T.float32)
    B: T.Tensor((32,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            B[i] = A[i]
''',
}

REFUSED = '''
@tilelang.jit
def local_in_parallel():
    @T.prim_func
    def main(A: T.Tensor((32,), T.float32)):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((32,), T.float32)
            for i in T.Parallel(32):
                own[i] = A[i]

    return main

'''
SHARED_ACCUMULATOR = '''
def gemm():
    @T.prim_func
    def main(A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_shared((64, 64), T.float32)
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main

'''
EXPECTED = {
    "called under pytest.raises": REFUSED + '''
def test_refused():
    with pytest.raises(ValueError, match="thread"):
        local_in_parallel()
''',
    "under assertRaises of a test case": REFUSED + '''
class TestRefused:
    def test_refused(self):
        with self.assertRaises(ValueError):
            local_in_parallel()
''',
    "made first, compiled under pytest.raises": '''
def make(order):
    @T.prim_func
    def main(A: T.Tensor((32,), T.float32)):
        with T.Kernel(1, threads=32):
            T.use_swizzle(4, order=order)
            own = T.alloc_local((32,), T.float32)
            for i in T.Parallel(32):
                own[i] = A[i]

    return main

def test_refused():
    func = make("row")
    with pytest.raises(Exception) as info, tvm.target.Target("cuda"):
        tilelang.lower(func, target="cuda")
    assert "local" in str(info.value)
''',
    "one of the cases of a test": REFUSED + '''
@pytest.mark.parametrize("factory", [local_in_parallel])
def test_refused(factory):
    with pytest.raises(ValueError):
        factory()
''',
    "a wrong keyword": '''
def test_keyword():
    with pytest.raises(TypeError):
        T.gemm(None, None, None, no_such_keyword=True)
''',
    "written where an exception is expected": '''
def test_reducer():
    with pytest.raises(AssertionError, match="integer"):

        @T.prim_func
        def main(A: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=32):
                own = T.alloc_local((32,), T.float32)
                for i in T.Parallel(32):
                    own[i] = A[i]
''',
    "written in a try that must not end": '''
def test_refused():
    try:

        @T.prim_func
        def main(A: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=32):
                own = T.alloc_local((32,), T.float32)
                for i in T.Parallel(32):
                    own[i] = A[i]

        raise AssertionError("an error is expected")
    except ValueError:
        pass
''',
    "a local prim_func handed on": '''
def test_refused():
    @T.prim_func
    def main(A: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((32,), T.float32)
            for i in T.Parallel(32):
                own[i] = A[i]

    with pytest.raises(ValueError):
        apply_passes(main)
''',
    "a call that does not bind": REFUSED + '''
def test_call():
    with pytest.raises(TypeError):
        local_in_parallel(1, 2, 3)
    with pytest.raises(ValueError):
        local_in_parallel()
''',
}
ELSEWHERE = {
    "lowered for the CPU": '''
def test_cpu():
    with tvm.target.Target("c"):
        tilelang.lower(gemm(), target="c")
''',
    "compiled for Metal by a target object": '''
METAL = tvm.target.Target({"kind": "metal", "keys": ["metal", "gpu"]})

def test_metal():
    tilelang.compile(gemm(), target=METAL)
''',
    "in a test that requires ROCm": '''
@tilelang.testing.requires_rocm
def test_rocm():
    tilelang.compile(gemm(), out_idx=[2])
''',
    "in a file of tensors on Apple's GPU": '''
import torch

def run():
    kernel = tilelang.compile(gemm(), out_idx=[2])
    return kernel(torch.empty(64, 64, device="mps"), torch.empty(64, 64, device="mps"))
''',
    "in a file about AMD's chips": '''
def is_rdna():
    return "gfx11" in tilelang.get_device_name()

def run():
    return tilelang.compile(gemm(), out_idx=[2])
''',
    "through a helper": '''
def build(target):
    with target:
        return tilelang.lower(gemm(), target=target)

def test_metal():
    build(tvm.target.Target("metal", "llvm"))
''',
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_silent(text):
    assert diagnostics(text) == []


@pytest.mark.parametrize("text", EXPECTED.values(), ids=EXPECTED)
def test_a_kernel_that_a_test_expects_to_be_refused_is_left_alone(text):
    assert diagnostics(text) == []


def test_the_same_kernel_used_otherwise_as_well_is_reported():
    text = REFUSED + "def test_a():\n    with pytest.raises(ValueError):\n        local_in_parallel()\n\nlocal_in_parallel()\n"
    assert [d.name for d in diagnostics(text)] == ["parallel-local-index"]


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_kernels_for_other_targets_are_not_judged_by_the_rules_of_cuda(text):
    assert diagnostics(SHARED_ACCUMULATOR + text) == []


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_nor_where_the_user_names_a_cuda_target_for_the_whole_run(text):
    assert check(SHARED_ACCUMULATOR + text, ("sm_90a",), explicit=True) == []


@pytest.mark.parametrize("call", ['tilelang.compile(gemm(), target="cuda")', "tilelang.compile(gemm())"])
def test_on_cuda_the_same_kernel_is_faulty(call):
    assert [d.name for d in diagnostics(f"{SHARED_ACCUMULATOR}\ndef test_cuda():\n    {call}\n")] == ["gemm-operand-scope"]


def test_the_language_s_own_rules_hold_on_every_target():
    text = '''
def gemm():
    @T.prim_func
    def main(A: T.Tensor((64, 32), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main

@tilelang.testing.requires_rocm
def test_rocm():
    tilelang.compile(gemm(), out_idx=[2])
'''
    assert [d.name for d in diagnostics(text)] == ["gemm-shape"]


def test_a_smaller_slice_between_global_tensors_is_no_error():
    text = '''
@T.prim_func
def partial(A: T.Tensor((128, 128), T.float16), B: T.Tensor((128, 128), T.float16)):
    with T.Kernel(1, threads=128):
        T.copy(A[:, :2], B[:, :3])
        T.copy(A[:, :3], B[:, :2])
'''
    found = diagnostics(text)
    assert [(d.name, d.severity) for d in found] == [("copy-extents", "warning"), ("copy-extents", ERROR)]


def test_a_kernel_for_a_chip_beyond_the_candidates():
    """Block-scaled warp instructions exist on sm_120 alone, which no user who names no target is asked about."""
    text = '''
@T.prim_func
def main(A: T.Tensor((128, 64), T.bfloat16), C: T.Tensor((128, 64), T.float32)):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), T.bfloat16)
        acc = T.alloc_fragment((128, 128), T.float32)
        T.copy(A, a)
        T.clear(acc)
        T.wgmma_gemm(a, a, acc, transpose_B=True)
        T.wait_wgmma(0)
        T.copy(acc[:, 0:64], C)
'''
    assert [d.name for d in check(text, ("sm_80", "sm_100a"))] == []
    assert "op-target" in [d.name for d in check(text, ("sm_80",), explicit=True)]


@pytest.mark.parametrize(("version", "severity"), [("0.1.13", "warning"), ("0.1.15", ERROR)])
def test_nan_propagation_of_float32_is_refused_since_0_1_15(version, severity):
    text = '''
@T.prim_func
def main(A: T.Tensor((128, 64), T.float32), C: T.Tensor((128,), T.float32)):
    with T.Kernel(1, threads=128):
        a = T.alloc_fragment((128, 64), T.float32)
        c = T.alloc_fragment((128,), T.float32)
        T.copy(A, a)
        T.reduce_max(a, c, dim=1, nan_propagate=True)
        T.copy(c, C)
'''
    assert [(d.name, d.severity) for d in check(text, DECLARED, version=version)] == [("reduce-nan", severity)]


def test_a_gemm_of_a_schedule_has_its_barrier_from_it():
    text = '''
@T.prim_func
def main(A: T.Tensor((128, 64), T.bfloat16), B: T.Tensor((128, 64), T.bfloat16), C: T.Tensor((128, 128), T.bfloat16)):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), T.bfloat16)
        b = T.alloc_shared((128, 64), T.bfloat16)
        acc = T.alloc_tmem((128, 128), T.float32)
        out = T.alloc_fragment((128, 128), T.float32)
        SCHEDULE
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, acc, transpose_B=True, clear_accum=True)
        T.copy(acc, out)
        T.copy(out, C)
'''
    assert "tcgen05-mbar" in [d.name for d in diagnostics(text.replace("SCHEDULE", "pass"))]
    assert diagnostics(text.replace("SCHEDULE", "T.annotate_ws_schedule(T.WSSchedule(num_warps=4, roles=[], pipelines=[], scopes=[]))")) == []


def test_the_type_of_a_tir_call_may_be_its_keyword():
    text = '''
@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_local((1,), "float32")
        a[0] = 1.0
        CALL
        A[0] = a[0]
'''
    assert diagnostics(text.replace("CALL", 'T.call_extern("f", T.address_of(a[0]), 1, dtype="handle")')) == []
    assert [d.name for d in diagnostics(text.replace("CALL", 'T.call_extern(3, T.address_of(a[0]), 1, dtype="handle")'))] == ["argument-kind"]


def test_tiles_that_a_tuner_gives_are_not_none():
    text = '''
def best(N):
    def kernel(block=None, threads=None):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
                a = T.alloc_shared((block,), "float32")
                T.copy(A[bx * block], a)
                T.copy(a, A[bx * block])

        return main

    return AutoTuner.from_kernel(kernel=kernel, configs=somewhere_else(N)).run()
'''
    assert diagnostics("from tilelang.autotuner import AutoTuner\nfrom configs import somewhere_else\n" + text) == []


def test_a_name_that_becomes_a_macro_later_is_none_before():
    """As cells of a notebook do: the kernel of one is replaced by the macro of another."""
    kernel = '''
@tilelang.jit
def add_one(A):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            A[bx * 128 + i] = A[bx * 128 + i] + 1


add_one(torch.empty(1024, device="cuda"))
'''
    macro = '''
@T.macro
def add_one(x):
    return x + 1
'''
    assert diagnostics("import torch\nimport tilelang\n" + kernel + macro) == []
    assert [d.name for d in diagnostics(macro + "\n\nadd_one(2)\n")] == ["macro-outside"]


def test_dimensions_of_a_matched_buffer_are_dimensions():
    text = '''
import tilelang
@tilelang.jit
def fill(A: T.ptr, is_2d=False):
    if is_2d:
        M, N = T.const("M, N")
        A = T.match_buffer(A, [M, N], T.float32)
        with T.Kernel(1) as _:
            A[0, 0] = 1.0
    else:
        L = T.const("L")
        A = T.match_buffer(A, [L], T.float32)
        with T.Kernel(1) as _:
            A[0] = 1.0


fill(torch.randn(64, 96, device="cuda"), is_2d=True)
'''
    assert diagnostics("import torch\n" + text) == []


def test_arguments_nobody_names_may_be_truth_values():
    """``causal`` of a factory that is called elsewhere is no size; ``num_sms`` is one, and a literal in the kernel."""
    text = '''
import tilelang
@tilelang.jit
def attend(causal, num_sms, transposed):
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(num_sms * 2, threads=128) as bx:
            tx = T.get_thread_binding()
            a = T.alloc_fragment((128,), "float32")
            T.clear(a)
            last = T.ceildiv((bx + 1) * 128, 64) if causal else 4
            for k in T.serial(last):
                if causal:
                    for i in T.Parallel(128):
                        a[i] = a[i] + 1.0
                else:
                    T.clear(a)
            if not transposed:
                T.copy(a, A[bx * 128])
            for i in T.serial(bx * 128 + tx, N, num_sms * 256):
                A[i] = 1.0

    return main
'''
    assert diagnostics(text) == []


@pytest.mark.parametrize("condition", ["(i >= 0) * (i < n)", "(i >= 0) + (i < n)"])
def test_products_of_truth_values_are_truth_values(condition):
    text = f'''
@T.prim_func
def main(A: T.Tensor((128,), "float32"), n: T.int32):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            A[i] = T.if_then_else({condition}, A[i], 0.0)
        for i in T.Parallel(128):
            if {condition}:
                A[i] = 1.0
            else:
                A[i] = 2.0
'''
    assert diagnostics(text) == []
    assert {d.name for d in diagnostics(text.replace(condition, "n"))} == {"condition-dtype"}


def test_a_factory_may_leave_its_prim_func_to_another_function():
    text = '''
import tilelang
def scale(N, block):
    @tilelang.jit(out_idx=[])
    def make(threads):
        if block > 64:
            return _large(N, threads)
        return _small(N, threads)

    return make
'''
    assert diagnostics(text + "\n\nfrom elsewhere import _large, _small\n") == []


def test_constants_that_callers_out_of_sight_may_name():
    text = '''
import tilelang
@tilelang.jit
def unpack(B, block: int):
    N, K = T.const("N, K")
    B: T.Tensor((K, N // 2), "uint8")
    C = T.empty((K, N), "float16")
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            C[0, bx * block + i] = 0.0
    return C
'''
    assert diagnostics(text) == []
    called = text + '\n\nimport torch\nunpack(torch.empty(64, 64, dtype=torch.uint8, device="cuda"), 32)\n'
    assert [d.name for d in diagnostics(called)] == ["const-unused"]


def test_updates_of_a_reducer_by_values_that_are_not_known():
    text = '''
@T.prim_func
def main(B: T.Tensor((4, 512), "float32"), C: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=128):
        b = somewhere.fragment(B)
        c = T.alloc_reducer(4, "float32", replication="all")
        T.clear(c)
        for m in T.serial(4):
            for i in T.Parallel(512):
                c[m] += b[m, i]
        T.finalize_reducer(c)
        T.copy(c, C)
'''
    assert [d for d in diagnostics("import somewhere\n" + text) if d.severity == "error"] == []


def test_names_of_tvm_imported_from_there_are_not_of_the_language():
    text = '''
from tvm.tir import IndexMap
import tilelang


def layout():
    return IndexMap([1], [2], None)


@T.prim_func
def main(A: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            a, b = T.meta_var((i, 1))
            A[a] = 1.0
'''
    assert diagnostics(text) == []


def test_a_star_import_brings_the_tuner():
    text = '''
from tilelang.autotuner import *


def configs():
    return somewhere_else()


def best(N):
    @autotune(configs=configs(), warmup=3, rep=5)
    @jit(out_idx=[1])
    def kernel(block=None, threads=None):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
                a = T.alloc_shared((block,), "float32")
                T.copy(A[bx * block], a)
                T.copy(a, B[bx * block])

        return main

    return kernel()


best(1024)
'''
    assert diagnostics("from configs import somewhere_else\n" + text) == []


def test_python_that_is_not_about_tilelang_is_for_other_tools():
    def told(text: str) -> list[str]:
        return [d.name for d in check_analysis(analyse(SourceFile("case.py", text)), [], manifest.load("0.1.15"))]

    broken = "class Functor:\n    def visit_prim_func(self:\n        pass\n"
    assert told(broken) == []
    assert told("import tilelang\n\n\n" + broken) == ["syntax-error"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python understands the form")
def test_a_form_of_a_newer_python_is_named():
    analysis = analyse(SourceFile("case.py", "import tilelang\n\n\nclass Functor[T]:\n    pass\n"))
    [found] = check_analysis(analysis, [], manifest.load("0.1.15"))
    assert found.name == "syntax-error" and "needs Python 3.12" in found.message


def test_a_reduction_of_a_shared_tile_reads_it_into_a_fragment_that_places_the_result():
    text = '''
@T.prim_func
def main(X: T.Tensor((128, 64), "float32"), S: T.Tensor((1,), "float32")):
    with T.Kernel(1, threads=128):
        x = T.alloc_TILE((128, 64), "float32")
        rows = T.alloc_fragment((128,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.FIRST
        T.reduce_absmax(x, rows, dim=1)
        T.reduce_absmax(rows, total, dim=0)
        S[0] = total[0]
'''
    assert diagnostics(text.replace("TILE", "shared").replace("FIRST", "copy(X, x)")) == []
    filled = diagnostics(text.replace("TILE", "fragment").replace("FIRST", "clear(x)"))
    assert {d.name for d in filled} == {"layout-undefined"}
    one = diagnostics(text.replace("TILE", "shared").replace("FIRST", "copy(X, x)").replace("T.reduce_absmax(x, rows, dim=1)", "T.clear(rows)"))
    assert {d.name for d in one} == {"layout-undefined"}


def test_vectors_start_where_a_quotient_or_a_remainder_is_known_to_be_even():
    def hints(index: str) -> list[str]:
        text = f'''
@T.prim_func
def main(A: T.Tensor((512,), "float16"), B: T.Tensor((512,), "float16")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        for v in T.vectorized(4):
            B[tx * 4 + v] = A[{index} + v]
'''
        analysis = analyse(SourceFile("case.py", HEAD + text))
        return [d.name for d in check_analysis(analysis, [find("sm_90a")], manifest.load("0.1.15"), explicit=True)]

    for even in ("tx * 8 // 2", "(tx * 16 >> 1)", "tx * 8 % 64", "T.min(tx * 8, 64)", "tx * 8 // 2 % 32 * 4"):
        assert hints(even) == [], even
    for odd in ("tx * 8 // 8", "tx * 8 // 16", "tx % 64", "T.min(tx * 8, 65)"):
        assert hints(odd) == ["scalar-vector-loop"], odd


def test_a_buffer_for_a_branch_that_other_arguments_take_is_used():
    def hints(scaled: bool, used: str) -> list[str]:
        text = f'''
def build(scaled=False):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((128,), "float32")
            scale = T.alloc_fragment((128,), "float32")
            T.copy(A, a)
            if scaled:
                T.copy(A, {used})
            T.copy(a, B)

    return main


build({scaled})
'''
        analysis = analyse(SourceFile("case.py", HEAD + text))
        return [d.name for d in check_analysis(analysis, [find("sm_90a")], manifest.load("0.1.15"), explicit=True)]

    assert hints(True, "scale") == [] and hints(False, "scale") == []
    assert hints(False, "a") == ["unused-buffer"] and hints(True, "a") == ["unused-buffer"]


def test_a_type_that_a_template_fills_in_is_no_type_yet():
    text = '''
@T.prim_func
def main(A: T.Tensor((128,), "TYPE")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128,), "TYPE")
        T.copy(A, a)
'''
    assert diagnostics(text.replace("TYPE", "{{tl_dtype}}")) == []
    assert {d.name for d in diagnostics(text.replace("TYPE", "tl_dtype"))} == {"dtype-name"}


def test_faults_of_the_language_are_told_for_the_cpu_too():
    text = '''
count = T.dynamic("count")


@T.prim_func
def main(A: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.serial(BOUND):
            A[i] = 1.0
'''
    assert [d.name for d in check(text.replace("BOUND", "count"), ["cpu"], explicit=True)] == ["unbound-symbol"]
    assert check(text.replace("BOUND", "128"), ["cpu"], explicit=True) == []
