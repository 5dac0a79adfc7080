"""Valid Python around kernels that the checker once accused, in its smallest form."""

from __future__ import annotations

import sys

import pytest
from alarm_support import HEAD, diagnostics, everything


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
        return [d.name for d in everything(text, [])]

    broken = "class Functor:\n    def visit_prim_func(self:\n        pass\n"
    assert told(broken) == []
    assert told("import tilelang\n\n\n" + broken) == ["syntax-error"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python understands the form")
def test_a_form_of_a_newer_python_is_named():
    [found] = everything("import tilelang\n\n\nclass Functor[T]:\n    pass\n", [])
    assert found.name == "syntax-error" and "needs Python 3.12" in found.message


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
        return [d.name for d in everything(HEAD + text, ["sm_90a"], explicit=True)]

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


def test_lambdas_that_a_module_calls_are_functions_like_others():
    assert diagnostics("make = lambda size: size * 2\n\nWIDTH = make(4)\n(lambda: None)()\n") == []
