"""A syntax error is reported by itself, without faults that only follow from it."""
from __future__ import annotations

import pytest
from lsp_kernels import MATMUL
from tilec.check.checker import check_analysis
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target import chips

from tile_lsp.releases import manifest

WHOLE = '''

@tilelang.jit(out_idx=[-1])
def scale(N):
    @T.prim_func
    def main(A: T.Tensor((N, WIDTH), "float32"), B: T.Tensor((N, WIDTH), "float32")):
        with T.Kernel(N, threads=2048) as bx:
            S = T.alloc_shared((WIDTH,), "float32")
            T.copy(A[bx, 0], S)
            T.copy(S, B[bx, 0])

    return main


scale(64)
'''


def codes(text: str) -> list[str]:
    targets = [chips.find(t) for t in chips.DECLARED]
    return [d.name for d in check_analysis(analyse(SourceFile("k.py", text)), targets, manifest.load("0.1.15"), explicit=False)]


def test_a_torn_kernel_has_no_follow_on_faults():
    torn = MATMUL.replace('C_local = T.alloc_fragment(', 'C_local = T.alloc_fragment((')
    assert torn != MATMUL
    assert codes(torn) == ["syntax-error"]


def test_other_kernels_are_checked_still():
    torn = MATMUL.replace('C_local = T.alloc_fragment(', 'C_local = T.alloc_fragment((')
    assert codes(torn + WHOLE.replace("WIDTH", "32")) == ["syntax-error", "threads-range"]


def test_a_name_may_be_bound_where_nothing_parses():
    text = MATMUL + "\nWIDTH = 32 +\n" + WHOLE.replace("2048", "128")
    assert codes(text) == ["syntax-error"]
    assert codes(MATMUL + WHOLE.replace("2048", "128")) and "undefined-name" in codes(MATMUL + WHOLE.replace("2048", "128"))


def test_a_line_left_out_above_the_error_accuses_nobody():
    """An unexpected indentation is repaired from above: the line before it may end another kernel."""
    whole = MATMUL + WHOLE.replace("WIDTH", "32").replace("2048", "128")
    text = whole + "\n        stray = 1\n"
    assert codes(whole) == [] and codes(text) == ["syntax-error"]


TABS = '''

@T.macro
def double(acc):
    for i, j in T.Parallel(64, 64):
        acc[i, j] = acc[i, j] * 2.0


# tile-lsp: instance A=tensor((64, 64), "float16")
@tilelang.jit
def k(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float16")
    C = T.empty((M, N), "float16")
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((64, 64), "float16")
        acc = T.alloc_fragment((64, 64), "float32")
        T.copy(A, s)
        T.copy(s, acc)
        for n in T.serial(2):
            double(acc)
        T.copy(acc, C)
    return C
'''


@pytest.mark.parametrize("line", [
    "        T.copy(A, s)", "        T.copy(s, acc)", "        T.copy(acc, C)", "        for n in T.serial(2):",
    "        acc[i, j] = acc[i, j] * 2.0", '        s = T.alloc_shared((64, 64), "float16")',
])
@pytest.mark.parametrize("instead", ["\t", "          ", "       "])
def test_what_a_wrong_indentation_cuts_off_is_not_missed(line, instead):
    """The statements after it are lost to the end of the kernel, past the end that the tree knows; a macro's are lost to those who call it."""
    text = "import tilelang\nimport tilelang.language as T\n" + TABS
    assert codes(text) == []
    assert set(codes(text.replace(line + "\n", instead + line.lstrip() + "\n"))) <= {"syntax-error"}


def test_a_surrogate_before_a_fault():
    """An editor may send half a character."""
    assert codes(MATMUL.replace("T.ceildiv(N", "'\ud800', T.ceil_div(N", 1))


def test_a_function_that_calls_itself_over_and_over():
    import time

    text = MATMUL + "\n\ndef run_all(n=128):\n    matmul(n, n, n)\n" + "    run_all(n)\n" * 4
    started = time.process_time()
    codes(text)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("kernel", [
    "        f = T.alloc_fragment((64,), 'float32')\n        for i in T.Parallel(32):\n            f[i] = 1.0\n        T.copy(f, A)\n",
    "        f = T.alloc_fragment((), 'float32')\n        for i in T.Parallel(64):\n            A[i] = f[()]\n",
    "        f = T.alloc_fragment((8, 8), 'float32')\n        for i in T.Parallel(8):\n            f[i] = 1.0\n",
])
@pytest.mark.parametrize("threads", [0, 64])
def test_odd_shapes_and_counts_are_no_crash(kernel, threads):
    """Found by random edits: no threads, a fragment without dimensions, too few indices."""
    text = ("import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\ndef main(A: T.Tensor((64,), 'float32')):\n"
            f"    with T.Kernel(1, threads={threads}) as b:\n{kernel}")
    found = check_analysis(analyse(SourceFile("k.py", text)), [chips.find(t) for t in chips.DECLARED], manifest.load("0.1.9"), explicit=False)
    assert ("threads-range" in [d.name for d in found]) == (threads == 0)
