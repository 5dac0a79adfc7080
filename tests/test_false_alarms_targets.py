"""Kernels for other targets, releases or chips, and kernels that tests expect to be refused: once accused, now left alone."""

from __future__ import annotations

import pytest
from alarm_support import check, diagnostics
from tilec.check.diagnostic import ERROR
from tilec.target.chips import DECLARED

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
    narrow = SHARED_ACCUMULATOR.replace("(A: T.Tensor((64, 64)", "(A: T.Tensor((64, 32)").replace("a = T.alloc_shared((64, 64)", "a = T.alloc_shared((64, 32)")
    text = narrow.replace("c = T.alloc_shared", "c = T.alloc_fragment") + '''
@tilelang.testing.requires_rocm
def test_rocm():
    tilelang.compile(gemm(), out_idx=[2])
'''
    assert [d.name for d in diagnostics(text)] == ["gemm-shape"]


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
