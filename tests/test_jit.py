"""Kernels compiled and called from Python, on the CPU target: results against torch, arguments, errors, tuning, scripts."""
from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tilec.emit.arguments import ArgumentError
from tilec.jit import CompileError, JITKernel, compile, jit
from tilec.jit.autotune import autotune
from tilec.jit.language import macro, member
from tilec.jit.trace import prim_func

pytest.importorskip("tvm")

HERE = Path(__file__).parent


class _Language:
    """``T`` as a script sees it."""

    prim_func = staticmethod(prim_func)
    macro = staticmethod(macro)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()


@jit(out_idx=[-1], target="llvm")
def matmul(M, N, K, block=32, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, block), dtype)
            b = T.alloc_shared((block, block), dtype)
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], a)
                T.copy(B[k * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block])

    return main


@jit(target="llvm")
def add(A, B, block: int = 64):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "float32")
    C = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return C


def _rows(width):
    count = T.dynamic("count")

    @T.prim_func
    def main(X: T.Tensor((count, width), "float32"), Y: T.Tensor((count, width), "float32")):
        with T.Kernel(count, threads=32) as r:
            for c in T.Parallel(width):
                Y[r, c] = -X[r, c]

    return main


def test_a_factory_gives_a_kernel_that_allocates_its_outputs():
    kernel = matmul(100, 64, 48)
    assert isinstance(kernel, JITKernel) and kernel.out_idx == [2]
    a, b = torch.randn(100, 48).half(), torch.randn(48, 64).half()
    torch.testing.assert_close(kernel(a, b), a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    out = torch.empty(100, 64)
    assert kernel(a, b, out) is out
    torch.testing.assert_close(out, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    assert matmul(100, 64, 48) is kernel and matmul(100, 64, 48, block=16) is not kernel


def test_an_eager_kernel_takes_tensors_and_finds_its_constants():
    for n in (1, 64, 1000):
        x, y = torch.randn(n), torch.randn(n)
        assert torch.equal(add(x, y), x + y)
    assert torch.equal(add(x, y, block=128), x + y)
    assert len(add._kernels) == 4


def test_run_time_extents_need_no_second_kernel():
    kernel = compile(_rows(48), target="llvm", out_idx=-1)
    for count in (1, 5, 0, 33):
        x = torch.randn(count, 48)
        assert torch.equal(kernel(x), -x)


def test_a_kernel_keeps_the_values_its_definition_saw():
    kernels = [compile(_rows(width), target="llvm") for width in (32, 96)]
    for width, kernel in zip((32, 96), kernels):
        x, y = torch.randn(3, width), torch.empty(3, width)
        kernel(x, y)
        assert torch.equal(y, -x)


def test_deferred_annotations_see_the_enclosing_function():
    from jit_future import negate

    x = torch.randn(32)
    assert torch.equal(negate(32)(x), -x)


def test_configuration_objects_and_helpers_are_read_from_the_running_program():
    settings = SimpleNamespace(blocks=[16, 32], scale={"x": 3.0})

    class Helper:
        offset = 2.0

        def apply(self, value):
            return value * settings.scale["x"] + self.offset

    helper = Helper()

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(64 // settings.blocks[1], threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = helper.apply(A[bx * 32 + i])

    x = torch.randn(64)
    torch.testing.assert_close(compile(main, out_idx=[1], target="llvm")(x), x * 3 + 2)


@pytest.mark.parametrize("arguments, message", [
    (lambda a, b: (a,), r"main takes 2 arguments \(A, B\); 1 was given"),
    (lambda a, b: (a, b.float()), r"main\.B\.dtype is expected to be float16, but it is float32"),
    (lambda a, b: (a[:, :40], b), r"main\.A\.shape\[1\] is expected to equal 48, but it is 40"),
    (lambda a, b: (a, b.T.contiguous().T), r"main\.B\.strides\[1\] is expected to equal 1.*must be contiguous"),
    (lambda a, b: (a, 3), r"Expect arg\[1\] \(B\) to be a tensor, but it is int"),
    (lambda a, b: (a, b.flatten()), r"main\.B\.ndim is expected to equal 2, but it is 1"),
])
def test_arguments_that_do_not_fit_are_told(arguments, message):
    kernel = matmul(100, 64, 48)
    with pytest.raises(ArgumentError, match=message):
        kernel(*arguments(torch.zeros(100, 48).half(), torch.zeros(48, 64).half()))


def test_a_faulty_kernel_is_refused_with_its_place():
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.gemm(a, a, c)
            T.copy(c, C)

    with pytest.raises(CompileError, match=r"test_jit\.py:\d+:\d+: TL\d+ T\.gemm: A is 64x32, B is 64x32: K differs") as caught:
        compile(main, target="llvm")
    assert caught.value.diagnostics[0].span.path.endswith("test_jit.py")


def test_positions_of_outputs_are_checked():
    with pytest.raises(CompileError, match=r"out_idx 5 is no parameter of main, which has 2 \(-2 to 1\)"):
        compile(_rows(8), out_idx=5, target="llvm")


@pytest.mark.parametrize("call, told", [
    (lambda: T.cast(T.float32(1.0), "float8_e4m3fn", round="nearest"), "no way of rounding"), (lambda: T.ieee_add(1.0, 2.0, "xy"), "no rounding mode"),
    (lambda: T.any_sync(0.5), "integer or a truth value")])
def test_faulty_calls_outside_kernels_say_why(call, told):
    with pytest.raises(CompileError, match=told):
        call()


def test_outputs_are_named_once():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        B = T.empty((8,), "float32")
        with T.Kernel(1, threads=8):
            T.copy(A, B)
        return B

    with pytest.raises(CompileError, match="returns B, made by T.empty, and out_idx names outputs as well"):
        compile(main, out_idx=-1, target="llvm")


def test_tuning_takes_the_fastest_configuration_that_is_right():
    tried = []

    def reference(x):
        tried.append(1)
        return x * 2

    @autotune(configs=[{"factor": 3.0}, {"factor": 2.0, "block": 16}, {"factor": 2.0}], ref_prog=reference, warmup=1, rep=2)
    @jit(out_idx=[-1], target="llvm")
    def scale(n, factor=None, block=32):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i] * factor

        return main

    kernel = scale(256)
    x = torch.randn(256)
    assert torch.equal(kernel(x), x * 2)
    assert kernel.config["factor"] == 2.0 and kernel.latency > 0 and len(tried) == 3
    assert scale(256) is kernel
    wrong = scale(256, factor=3.0, block=16)
    assert torch.equal(wrong(x), x * 3)


def test_a_profiler_compares_and_times():
    profiler = matmul(64, 64, 64).get_profiler()
    assert profiler.func is profiler.kernel
    profiler.assert_allclose(lambda a, b: a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    with pytest.raises(AssertionError, match="elements differ"):
        profiler.assert_allclose(lambda a, b: a.float() @ b.float() + 1)
    assert profiler.do_bench(warmup=1, rep=2) > 0


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tilec", *arguments], capture_output=True, text=True, timeout=300)


def test_a_script_that_imports_tilelang_runs():
    done = run_script(str(HERE / "jit_script.py"), "2.5")
    assert (done.returncode, done.stdout) == (0, "right 0.1.15\n"), done.stderr


def test_a_missing_script_is_told():
    done = run_script("no_such_script.py")
    assert done.returncode == 2 and "there is no file no_such_script.py" in done.stderr


def _adder(amount):
    @T.macro
    def shifted(A, B, i):
        B[i] = A[i] + amount

    return shifted


def test_a_function_called_inside_a_kernel_makes_a_macro():
    @jit(out_idx=[-1], target="llvm")
    def shift(n, amount):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.serial(n):
                    _adder(amount)(A, B, i)

        return main

    given = torch.arange(8.0)
    assert torch.equal(shift(8, 3)(given), given + 3)


# -- a caller's mistakes, in a caller's words ------------------------------------------------------------------------
def test_two_tensors_that_disagree_on_a_size_are_both_named():
    with pytest.raises(ArgumentError, match=r"^add: N is 64 by A\.shape\[0\] but 10 by B\.shape\[0\]$"):
        add(torch.zeros(64), torch.zeros(10))


@pytest.mark.parametrize("call, error, message", [
    (lambda: add(torch.zeros(64).numpy(), torch.zeros(64)), ArgumentError, r"Expect arg\[0\] \(A\) to be a tensor, but it is ndarray; pass torch\.from_numpy\(A\)"),
    (lambda: add(torch.zeros(64), [1.0] * 64), ArgumentError, r"Expect arg\[1\] \(B\) to be a tensor, but it is list; pass torch\.tensor\(B\)"),
    (lambda: add(torch.zeros(64), torch.zeros(64), torch.zeros(64)), ArgumentError, r"Expect arg\[2\] \(block\) to be a number.*the kernel's tensors are A, B$"),
    (lambda: add(torch.zeros(64), torch.zeros(64), 64, 1), TypeError, r"add: too many positional arguments; its parameters: A, B, block"),
    (lambda: matmul(torch.zeros(64, 64), 64, 64), ArgumentError, r"Expect arg\[0\] \(M\) to be a number.*the tensors go to the kernel that the call makes"),
    (lambda: matmul("M", 64, 64), CompileError, r"the arguments of the call do not tell it"),
    (lambda: autotune(add, configs=[3]), TypeError, r"configs holds 3, which is no configuration; write one dict"),
    (lambda: autotune(add, configs=[]), ValueError, r"configs is empty"),
    (lambda: autotune(add, configs={"block": 64}), TypeError, r"not a list of configurations"),
    (lambda: autotune(add, configs=lambda A, B: [3])(torch.zeros(64), torch.zeros(64)), TypeError, r"configs holds 3"),
])
def test_mistakes_of_a_caller(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "give an instance" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_kernel_without_a_gpu_says_what_torch_lacks():
    from tilec.build.launch import LaunchError

    with pytest.raises(LaunchError, match=r"torch .* can use no NVIDIA GPU here \(.*\); target='cpu'"):
        jit(add.func, target="cuda")(torch.zeros(64), torch.zeros(64))


def test_a_misspelt_pass_configuration_is_told():
    import warnings

    with pytest.warns(UserWarning, match="no 'tl.disable_tma_lowr', which is ignored; did you mean 'tl.disable_tma_lower'"):
        compile(matmul.get_tir(64, 64, 64), target="llvm", pass_configs={"tl.disable_tma_lowr": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(matmul.get_tir(64, 64, 64), target="llvm", pass_configs={"tl.disable_tma_lower": True, "tir.disable_vectorize": True, "tl.of_another_release": 1})


def test_names_of_pass_configurations_of_all_releases_are_known():
    from tilec.served.passes import PassConfigKey
    from tilec.transform.configs import misspelt

    from tile_lsp.releases import manifest

    for version in manifest.versions():
        for name, text in manifest.load(version).pass_config_keys.items():
            assert misspelt([text, getattr(PassConfigKey, name)]) == []


def test_the_source_for_the_cpu_is_printed_without_warnings():
    script = "import tilec, test_jit; source = test_jit.add.compile(test_jit.torch.zeros(64), test_jit.torch.zeros(64)).get_kernel_source(); assert 'add' in source"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr


def test_lambdas_in_one_line_are_told_apart():
    from tilec.jit.functions import syntax_of

    k = 3
    several = [lambda a, b: a + b, lambda a, b: a * b, lambda a: a + k, lambda a: (lambda c: c * a)(a + k), lambda a: (lambda c: c + a)(a + k)]
    assert [ast.unparse(syntax_of(f)[1]) for f in several] == ["lambda a, b: a + b", "lambda a, b: a * b", "lambda a: a + k",
                                                               "lambda a: (lambda c: c * a)(a + k)", "lambda a: (lambda c: c + a)(a + k)"]


def test_none_for_a_tensor_that_the_kernel_does_not_mention():
    def factory():
        n = T.dynamic("n")

        @T.prim_func
        def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "float16"), C: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=4):
                for i in T.Parallel(4):
                    C[i] = i

        @T.prim_func
        def over(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
            with T.Kernel(n, threads=1) as b:
                A[b] = 1

        return main, over

    unused, used = (compile(f, target="cpu") for f in factory())
    a, b = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.float16)
    for arguments in ((a, b), (None, b), (a, None), (None, None), (a, b)):
        c = torch.zeros(4, dtype=torch.int32)
        unused(*arguments, c)
        assert c.tolist() == [0, 1, 2, 3], arguments
    used(a, None)
    assert a.tolist() == [1] * 8
    with pytest.raises(ArgumentError, match="A.*tensor.*NoneType"):
        used(None, a)
    with pytest.raises(ArgumentError, match="n, an extent of B, is used by the kernel"):
        used(None, None)
