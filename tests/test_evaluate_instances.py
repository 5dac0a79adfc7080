"""Instances of autotuned kernels, of kernels inside functions and tests, and of none: TVM's own dialect."""
from __future__ import annotations

import pytest
from evaluate_support import FACTORY, HEADER, calls, gaps, programs, shapes

TUNED = FACTORY.replace("@tilelang.jit", "@tilelang.autotune(configs=CONFIGS)\n@tilelang.jit").replace("block=64", "block=None")


@pytest.mark.parametrize("configs", [
    "[{'block': 16}, {'block': 32}]",
    "[dict(block=b) for b in (16, 32)]",
    "(lambda *a, **k: [{'block': b} for b in (16, 32)])",
])
def test_configurations_fill_calls(configs: str) -> None:
    text = TUNED.replace("CONFIGS", configs) + "scale(128, 32)\n"
    assert calls(text) == ["scale(128, 32, block=16)", "scale(128, 32, block=32)"]
    assert gaps(text) == [None, None]


def test_configurations_from_a_function_of_the_arguments() -> None:
    text = TUNED.replace("CONFIGS", "configs").replace("\n@tilelang.autotune", "\ndef configs(M, N):\n    return [{'block': M // 4}]\n\n@tilelang.autotune")
    assert calls(text + "scale(128, 32)\n") == ["scale(128, 32, block=32)"]


def test_autotuner_objects() -> None:
    text = HEADER + '''
from tilelang.autotuner import AutoTuner

def tune(M=64):
    def kernel(block=None):
        @T.prim_func
        def main(A: T.Tensor((M,), "float32")):
            with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
                s = T.alloc_shared((block,), "float32")
                T.copy(A[bx * block], s)
        return main
    return AutoTuner.from_kernel(kernel=kernel, configs=[{"block": 8}, {"block": 16}]).run()

tune()
'''
    assert calls(text) == ["kernel(block=8)", "kernel(block=16)"] and gaps(text) == [None, None]


def test_a_factory_around_a_factory() -> None:
    text = HEADER + '''
@tilelang.jit(out_idx=[-1])
def outer(M, block=32):
    def inner(block, threads):
        @T.prim_func
        def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
            with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
                T.copy(A[bx * block], B[bx * block])
        return main
    return inner(block, 64)

outer(256)
'''
    assert calls(text) == ["inner(32, 64)"] and shapes(text) == ["A: float32[256], B: float32[256]"]
    assert [b.name for b in programs(text)[0].outputs] == ["B"]


INSIDE = HEADER + '''
import pytest

def test_copy():
    for n in (16, 32):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.copy(A, B)
        kernel = tilelang.compile(main)
        assert "nowhere" in kernel.get_kernel_source()
'''


def test_kernels_that_a_test_compiles_itself() -> None:
    assert shapes(INSIDE) == ["A: float32[16], B: float32[16]", "A: float32[32], B: float32[32]"]
    assert gaps(INSIDE) == [None, None]


def test_kernels_that_a_test_only_defines() -> None:
    text = INSIDE.replace("tilelang.compile(main)", "lower_by_hand(main)").replace("(16, 32)", "(16,)")
    assert shapes(text) == ["A: float32[16], B: float32[16]"]


@pytest.mark.parametrize("where", ["top", "inside"])
def test_tvm_script_is_no_kernel(where: str) -> None:
    line = "from tvm.script import tirx as TS\n"
    text = HEADER + (line if where == "top" else "") + "def test_pass():\n" + ("    " + line if where == "inside" else "") + '''
    @TS.prim_func
    def before(A: TS.Buffer((4,), "float32")):
        A[0] = 1.0
'''
    assert calls(text) == []


def test_class_methods_of_both_kinds() -> None:
    text = HEADER + '''
class Op:
    def __init__(self, n):
        self.n = n
        self.kernel = self.make(n)

    @tilelang.jit
    def make(self, n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = 1.0
        return main

Op(48)
'''
    assert calls(text) == ["make(48)"] and shapes(text) == ["A: float32[48]"]
