"""Random edits of the examples: no exception, no hang, no other diagnostic in kernels that were left alone. ``edit_fuzz.py`` does it for hours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import edit_fuzz  # noqa: E402
import edits  # noqa: E402
import odd_arguments  # noqa: E402
import untouched  # noqa: E402

ROOT = HERE.parents[1]
TWO_KERNELS = '''import tilelang
import tilelang.language as T

BLOCK = 128


@tilelang.jit(out_idx=[-1])
def doubled(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK), threads=128) as bx:
            for i in T.Parallel(BLOCK):
                B[bx * BLOCK + i] = A[bx * BLOCK + i] * 2.0

    return main


@tilelang.jit(out_idx=[-1])
def faulty(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=2048) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] + 1.0

    return main


doubled(1024)
faulty(1024)
'''


@pytest.fixture(scope="module")
def originals():
    return edit_fuzz.load([ROOT / "examples"])


EDITS = st.builds(
    edits.Edit,
    kind=st.sampled_from(edits.KINDS),
    where=st.floats(0, 1),
    other=st.floats(0, 1),
    amount=st.sampled_from((1, 2, 3, 8, 20)),
    text=st.sampled_from(edits.SNIPPETS) | st.text(max_size=8),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), changes=st.lists(EDITS, min_size=1, max_size=4))
def test_edits_of_the_examples(originals, data, changes):
    original = data.draw(st.sampled_from(originals))
    text = original.text
    for change in changes:
        text = edits.apply(change, text)
    failure = edit_fuzz.judge(original, text)
    assert failure is None, f"{failure.kind}\n{failure.detail}\n{text}"


def test_a_kernel_that_was_left_alone_is_recognised():
    before = untouched.check("k.py", TWO_KERNELS)
    assert {k: len(v.reports) for k, v in before.kernels.items()} == {"doubled": 0, "faulty": 1}
    after = untouched.check("k.py", TWO_KERNELS.replace("* 2.0", "* )"))
    assert untouched.differences(before, after) == []
    assert after.kernels["faulty"].surroundings == before.kernels["faulty"].surroundings


def test_what_a_kernel_depends_on_counts():
    before = untouched.check("k.py", TWO_KERNELS)
    after = untouched.check("k.py", TWO_KERNELS.replace("BLOCK = 128", "BLOCK = -128"))
    assert after.kernels["doubled"].surroundings != before.kernels["doubled"].surroundings
    assert after.kernels["faulty"].surroundings == before.kernels["faulty"].surroundings


def test_another_diagnostic_in_an_untouched_kernel_is_a_failure():
    before = untouched.check("k.py", TWO_KERNELS)
    after = untouched.check("k.py", TWO_KERNELS)
    after.kernels["faulty"].reports = frozenset()
    assert len(untouched.differences(before, after)) == 1


def test_a_block_of_any_number_of_threads_is_no_hang():
    text = "import tilelang.language as T\n\n@T.prim_func\ndef f(A: T.Tensor((64, 64), 'float16'), B: T.Tensor((64, 64), 'float16')):\n"
    text += "    with T.Kernel(1, threads=128128128128128128) as bx:\n        S = T.alloc_shared((64, 64), 'float16')\n"
    text += "        C = T.alloc_fragment((64, 64), 'float32')\n        T.copy(A, S)\n        T.clear(C)\n        T.gemm(S, S, C)\n        T.copy(C, B)\n"
    with edit_fuzz.limited(2.0):
        found = untouched.check("k.py", text)
    assert [r[0] for r in found.kernels["f"].reports] == ["TL301"]


def test_many_names_that_are_bound_nowhere_are_no_hang():
    body = "".join(f"        X[{i}] = missing_{i} + X[{i}]\n" for i in range(400))
    text = "import tilelang.language as T\n\n@T.prim_func\ndef f(X: T.Tensor((400,), 'float32')):\n    with T.Kernel(1, threads=128) as bx:\n" + body
    with edit_fuzz.limited(2.0):
        found = untouched.check("k.py", text)
    assert {r[0] for r in found.kernels["f"].reports} == {"TL108"}


def test_what_a_prim_func_finds_around_itself_counts():
    host = "def f(n):\n    @T.prim_func\n    def main(A: T.Tensor((n,), 'float32')):\n        with T.Kernel(1, threads=128):\n            A[0] = 0.0\n\n"
    text = "import tilelang\nimport tilelang.language as T\n\n" + host + "    tilelang.compile(main, out_idx=[0])\n\n\nf(64)\n"
    before = untouched.check("k.py", text)
    assert untouched.differences(before, untouched.check("k.py", text.replace("f(64)", "f(0.5)"))) == []
    assert untouched.differences(before, untouched.check("k.py", text.replace("[0])", "[65536])"))) == []


def test_reducing_keeps_the_failure():
    assert edit_fuzz.shrink(list(range(40)), lambda kept: {7, 23} <= set(kept), end=float("inf")) == [7, 23]


def test_a_function_given_to_a_kernel_counts():
    text = TWO_KERNELS.replace("def doubled(N):", "def doubled(N, of=None):").replace("doubled(1024)", "doubled(1024, lambda place: place)")
    before, after = untouched.check("k.py", text), untouched.check("k.py", text.replace("lambda place: place)", "lambda place: place ^ 1)"))
    assert after.kernels["doubled"].surroundings != before.kernels["doubled"].surroundings
    assert after.kernels["faulty"].surroundings == before.kernels["faulty"].surroundings


PERSISTENT = TWO_KERNELS.replace("for i in T.Parallel(64):", "for i, in T.Persistent([64], 1, bx):")
HANDED_OVER = """import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((256, 64), "float16")):
    with T.Kernel(1, threads=256):
        s = T.alloc_shared((64, 64), "float16")
        ready = T.alloc_barrier(arrive_count=128)
        with T.ws(0):
            for k in T.serial(4):
                T.copy(A[k * 64, 0], s)
                T.barrier_arrive(ready)
        with T.ws(1):
            for k in T.serial(4):
                T.barrier_wait(ready, PARITY)
                T.copy(s, A[k * 64, 0])
"""
SCHEDULER = TWO_KERNELS.replace("            for i in T.Parallel(64):", "            tiles = T.PersistentTileScheduler(8, 8, swizzle_size=2)\n"
                                "            tiles.init(bx)\n            for i in T.Parallel(64):")


@pytest.mark.parametrize("text", [TWO_KERNELS, PERSISTENT, SCHEDULER, HANDED_OVER.replace("PARITY", "k % 2")])
def test_arguments_of_odd_kinds(text, tmp_path):
    original = edit_fuzz.Original("k.py", text, untouched.check("k.py", text), 0.0)
    assert len(odd_arguments.slots([original])) >= 10
    assert odd_arguments.try_all([original], tmp_path) == {}


@pytest.mark.parametrize("parity", ["k % 0.5", "0.5", "1.5 * k", "k / 2", "k % 2"])
def test_parities_that_are_no_integers(parity):
    untouched.check("k.py", HANDED_OVER.replace("PARITY", parity))


def test_an_odd_argument_that_stops_the_checker_is_found_and_saved(tmp_path, monkeypatch):
    original = edit_fuzz.Original("k.py", TWO_KERNELS, untouched.check("k.py", TWO_KERNELS), 0.0)
    real = untouched.check

    def check(path, text):
        if "threads=T)" in text:
            raise ZeroDivisionError("planted")
        return real(path, text)

    monkeypatch.setattr(untouched, "check", check)
    assert odd_arguments.try_all([original], tmp_path, ("T", "None")) == {"ZeroDivisionError test_edit_fuzz.py:check": 1}
    assert "threads=T)" in next(tmp_path.glob("*.edited.py")).read_text()
