"""Instances of autotuned kernels, of kernels inside functions and tests, and of none: TVM's own dialect."""
from __future__ import annotations

import pytest
from evaluate_support import FACTORY, HEADER, calls, gaps, programs, shapes
from tilec.evaluate import analyse, instantiate
from tilec.source.file import SourceFile

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
    assert calls(text) == ["Op(48).make(48)"] and shapes(text) == ["A: float32[48]"]


METHODS = HEADER + '''
class Op:
    def __init__(self, n, extra=0):
        self.n = n + extra

    def make(self, m):
        @T.prim_func
        def main(A: T.Tensor((self.n, m), "float32")):
            with T.Kernel(1, threads=32):
                A[0, 0] = 1.0
        return main

    @classmethod
    def of(cls, n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = 1.0
        return main

    @staticmethod
    def plain(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = 1.0
        return main

Op(48).make(4)
Op(96, extra=2).make(4)
grown = Op(1)
grown.make(4)
grown.n = 7
grown.make(4)
Op.of(3)
Op.plain(5)
'''


def test_receivers_tell_instances_apart() -> None:
    analysis = analyse(SourceFile("k.py", METHODS))
    found = {k.name: [i.text for i in k.instances] for k in analysis.kernels}
    assert found == {"make": ["Op(48).make(4)", "Op(96, extra=2).make(4)", "Op(1).make(4)", "Op(1).make(4)"], "of": ["Op.of(3)"], "plain": ["Op.plain(5)"]}
    make = analysis.kernel("make")
    sizes = [instantiate(analysis, make, i).params[0].static_shape()[0] for i in make.instances]
    assert sorted(sizes[:2]) == [48, 98] and sizes[3] == 7


@pytest.mark.parametrize("text", ["Op(48).make(4)", "Op(96, extra=2).make(4)", "Op.of(3)", "Op.plain(5)"])
def test_what_an_instance_is_called_can_be_given(text: str) -> None:
    analysis = analyse(SourceFile("k.py", METHODS), instances=(text,))
    assert not analysis.instance_errors
    assert [i.text for k in analysis.kernels for i in k.instances if i.origin == "command"] == [text]


AUTOTUNED = HEADER + '''
@tilelang.autotune(configs=[dict(block=16, other=1), dict(block=32, other=2)])
@tilelang.jit
def kernel(M, block=64, other=None):
    @T.prim_func
    def main(A: T.Tensor((M, block), "float32")):
        with T.Kernel(1, threads=32):
            A[0, 0] = 1.0
    return main
'''


@pytest.mark.parametrize(("text", "made"), [
    ("kernel(8)", ["kernel(8, block=16, other=1)", "kernel(8, block=32, other=2)"]), ("kernel(M=8,)", ["kernel(M=8, block=16, other=1)", "kernel(M=8, block=32, other=2)"]),
    ("kernel(8, 4)", ["kernel(8, 4, other=1)", "kernel(8, 4, other=2)"]), ("kernel(8, block=4, other=3)", ["kernel(8, block=4, other=3)"]),
])
def test_the_tuner_gives_what_a_given_instance_leaves_open(text: str, made: list[str]) -> None:
    """A default is never used where there are configurations."""
    for source, given in ((AUTOTUNED, (text,)), (AUTOTUNED + f"\n{text}\n", ())):
        analysis = analyse(SourceFile("k.py", source), instances=given)
        assert [i.text.replace(",)", ")") for i in analysis.kernel("kernel").instances] == made


def test_a_comment_that_is_no_call_leaves_the_command_line_alone() -> None:
    source = AUTOTUNED.replace("@tilelang.autotune", "# tile-lsp: instance M=(8\n@tilelang.autotune", 1)
    analysis = analyse(SourceFile("k.py", source), instances=("kernel(8)",))
    assert not analysis.instance_errors and len(analysis.directive_errors) == 1 and "is not a call" in analysis.directive_errors[0]
