"""Arguments that are not known: symbols for sizes, and what stays unknown; whether a kernel counts as analysed."""
from __future__ import annotations

import pytest
from evaluate_support import EAGER, FACTORY, HEADER, analysis_of, calls, describe, gaps, programs, shapes
from tilec.check.checker import check_analysis
from tilec.ir.printer import expr_text
from tilec.ir.stmt import If
from tilec.target import chips
from tilec.transform.errors import LoweringError

from tile_lsp.releases import manifest


def diagnostics(text: str) -> list[str]:
    return [d.name for d in check_analysis(analysis_of(text), [chips.find(t) for t in chips.DECLARED], manifest.load("0.1.15"), explicit=False)]


def test_unknown_sizes_become_symbols() -> None:
    text = FACTORY + "def use(x):\n    scale(x.shape[0], int(x.max()))\n"
    assert shapes(text) == ["A: float16[M, N], B: float16[M, N]"]
    assert gaps(text) == [None] and diagnostics(text) == []
    [launch] = programs(text)[0].launches()
    assert expr_text(launch.grid[0]) == "(M + 63) // 64"


def test_a_tile_size_must_be_known() -> None:
    text = FACTORY + "scale(128, 64, block=int(open('config').read()))"
    assert gaps(text) and gaps(text)[0] is not None


def test_a_factory_nobody_calls_has_symbolic_sizes() -> None:
    assert shapes(FACTORY) == ["A: float16[M, N], B: float16[M, N]"] and gaps(FACTORY) == [None]


def test_programs_of_symbols_are_not_compiled() -> None:
    from tilec.pipeline import compile_program

    with pytest.raises(LoweringError, match="is not known at compile time"):
        compile_program(programs(FACTORY)[0], chips.find("sm_90a")).text("cuda")


def test_an_eager_kernel_without_arguments_is_symbolic() -> None:
    assert shapes(EAGER) == ["A: float16[M, N], B: float16[M, N]"] and gaps(EAGER) == [None]


ARITHMETIC = HEADER + '''
import math

@tilelang.jit
def kernel(n, heads, scale=None):
    pages = math.ceil(n / 64)
    width = max(heads, 16) * min(n, 8) + int(n // 2)
    factor = 1.0 / math.sqrt(n) if scale is None else scale
    half = n ** -0.5
    @T.prim_func
    def main(A: T.Tensor((pages, width), "float32")):
        with T.Kernel(pages, threads=32) as bx:
            for i in T.Parallel(32):
                A[bx, i] = A[bx, i] * factor * half
    return main
'''


def test_host_arithmetic_on_symbols() -> None:
    assert shapes(ARITHMETIC) == ["A: float32[(n + 63) // 64, T.max(heads, 16) * T.min(n, 8) + n // 2]"]
    assert gaps(ARITHMETIC) == [None] and diagnostics(ARITHMETIC) == []


CHOICE = HEADER + '''
from tilelang.carver.arch import driver

@tilelang.jit
def kernel(M, N):
    sms = driver.get_num_sms()
    even = M % sms == 0
    @T.prim_func
    def main(A: T.Tensor((M, 64), "float32")):
        with T.Kernel(sms, threads=32) as bx:
            if even:
                first = bx * 2
            else:
                first = bx
            if M > N:
                missing[0] = 1.0
            for i in T.Parallel(64):
                A[first, i] = 0.0
    return main

kernel(4096, int(input()))
'''


def test_conditions_on_symbols_choose_at_compile_time() -> None:
    [program] = programs(CHOICE)
    assert gaps(CHOICE) == [None]
    conditions = [expr_text(s.cond) for s in program.statements() if isinstance(s, If)]
    assert conditions == ["4096 % num_sms == 0", "4096 > N"]
    assert diagnostics(CHOICE) == []  # what stands under such a condition may not be part of the kernel


def test_variants_of_a_kernel_borrow_its_arguments() -> None:
    text = FACTORY.replace("scale", "other") + FACTORY.removeprefix(HEADER) + "n = 256\nscale(128, 64, block=32)\n"
    text = text.replace("def other(M, N, block=64", "def other(M, n, block").replace("(M, N), dtype", "(M, n), dtype", 2)
    assert calls(text) == ["other()", "other(M=128, n=256, block=32)", "scale(128, 64, block=32)"]
    other = analysis_of(text).kernel("other")
    assert [i.is_assumed() for i in other.instances] == [False, True]
    assert None in gaps(text)[:2]


def test_reasons_of_gaps() -> None:
    body = FACTORY.replace("T.copy(tile, B[bx * block, 0])", "STATEMENT") + "scale(64, 32)\n"
    assert gaps(body.replace("STATEMENT", "tile[0, 0] = helper_of_nowhere(bx)"))[0].startswith("unknown value")
    assert gaps(body.replace("STATEMENT", "T.no_such_operator(tile)")) == ["not modelled: T.no_such_operator"]
    assert gaps(body.replace("STATEMENT", "pass").replace("def scale", "def scale").replace("return main", "raise ValueError('no')")) \
        == ["no program: it raises ValueError: no"]
    assert gaps(body.replace("STATEMENT", "pass").replace("threads=128", "threads=len(input())"))[0] is not None


def test_symbols_are_named_after_parameters() -> None:
    [program] = programs(FACTORY)
    assert [describe(p) for p in program.params] == ["A: float16[M, N]", "B: float16[M, N]"]
    assert {v.kind for p in program.params for v in p.shape} == {"size"}
