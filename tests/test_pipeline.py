"""The stages of a compilation, their texts and maps, and the checks of arguments."""
from __future__ import annotations

import re
import time

import pytest
import torch

pytest.importorskip("tvm")

from emit_support import prim, program
from hand_programs import gemm
from tilec.emit.arguments import ArgumentError, check_arguments, plan_arguments
from tilec.pipeline import STAGES, StageError, compile_program
from tilec.target.chips import find
from tilec.transform.errors import LoweringError

DYNAMIC = """
    N = T.dynamic("n")
    @T.prim_func
    def scale(A: T.Tensor((N, 8), "float16"), B: T.Tensor((N, 8), "float16"), alpha: T.float32):
        with T.Kernel(N, threads=32) as bx:
            for i in T.Parallel(8):
                B[bx, i] = A[bx, i] * T.cast(alpha, "float16")
"""
TEXT_STAGES = [s.name for s in STAGES if s.name not in ("ptx", "sass")]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "cpu"])
def test_every_stage_has_a_text_with_a_place_for_each_line(target):
    artifact = compile_program(gemm(), find(target))
    for stage in (s for s in STAGES if find(target).kind in s.kinds and s.name in TEXT_STAGES):
        text = artifact.text(stage.name)
        assert text.strip() and len(artifact.line_map(stage.name)) == len(text.splitlines()), stage.name
    for stage in ("device", "cuda") if target != "cpu" else ("device",):
        assert {line for _, _, line in artifact.runs(stage)} >= set(range(4, 11)), stage


def test_stages_a_target_does_not_have_are_told():
    artifact = compile_program(gemm(), find("cpu"))
    with pytest.raises(StageError, match="there is no stage 'cuda' for cpu; stages: tile, legalized"):
        artifact.text("cuda")


def test_facts_of_a_gemm():
    launch = compile_program(gemm(), find("sm_80")).facts()["launches"][0]
    assert launch["grid"] == ["8", "8"] and launch["threads"] == [128, 1, 1] and launch["shared_bytes"] == 49152


def test_lowering_a_gemm_to_cuda_is_fast_enough_to_show_while_typing():
    compile_program(gemm(), find("sm_80")).text("cuda")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        compile_program(gemm(), find("sm_80")).text("cuda")
        times.append(time.perf_counter() - start)
    assert min(times) < 0.15


def test_host_module_checks_every_argument():
    text = compile_program(gemm(), find("sm_90a")).text("host")
    for message in ("gemm: num_args should be 3", "gemm: Expect arg[1] (B) to be a tensor", "gemm.A.ndim is expected to equal 2",
                    "gemm.C.dtype is expected to be float16", "gemm.A.shape[0] is expected to equal 1024", "gemm.B.strides[0] is expected to equal 1024",
                    "gemm.B.strides[1] is expected to equal 1", "gemm.A.byte_offset is expected to equal 0", "gemm.A.device_type is expected to be cuda",
                    "gemm.C.device_id is expected to equal A.device_id", "gemm.A is expected to have non-NULL data pointer",
                    "gemm.A is expected to have non-NULL DLTensor* pointer"):
        assert message in text, message
    assert re.search(r'T\.call_packed\("runtime.cuTensorMapEncodeTiled", A_map, "float16", 2, A, 1024, 1024, 2048, 32, 128, 1, 1, 0, 2, 2, 0\)', text)
    assert re.search(r'T\.call_packed\("gemm_kernel", A_map, B_map, C_map, 8, 8, 1, 256, 1, 1, \d+\)', text)
    plain = compile_program(gemm(), find("sm_80")).text("host")
    assert re.search(r'T\.call_packed\("gemm_kernel", A, B, C, 8, 8, 1, 128, 1, 1, 49152\)', plain)


def test_host_function_runs_its_checks():
    torch = pytest.importorskip("torch")
    f = compile_program(program(DYNAMIC), find("cpu")).host_callable()
    a, b = torch.ones(5, 8, dtype=torch.float16), torch.zeros(5, 8, dtype=torch.float16)
    f(a, b, 2.0)
    assert torch.equal(b, a * 2)
    f(a, b, 3)  # a Python int will do for a float
    assert torch.equal(b, a * 3)
    for bad, message in ((((a, b)), "num_args should be 3"), ((a, b[:4], 1.0), r"B\.shape\[0\] is expected to equal n \(= A\.shape\[0\]\)"),
                         ((a.float(), b, 1.0), r"A\.dtype is expected to be float16"), ((a[0], b, 1.0), r"A\.ndim is expected to equal 2"),
                         ((a, b, "x"), r"arg\[2\] \(alpha\) to be a number"), ((None, b, 1.0), r"arg\[0\] \(A\) to be a tensor"),
                         ((torch.ones(8, 5, dtype=torch.float16).T, b, 1.0), r"A\.strides\[1\] is expected to equal 1")):
        with pytest.raises((TypeError, ValueError), match=message):
            f(*bad)


def test_the_same_checks_in_python():
    torch = pytest.importorskip("torch")
    plan = plan_arguments(program(DYNAMIC))
    a, b = torch.ones(5, 8, dtype=torch.float16), torch.zeros(5, 8, dtype=torch.float16)
    assert [(v.name, value) for v, value in check_arguments(plan, (a, b, 2.0), "cpu").items()] == [("alpha", 2.0), ("n", 5)]
    for bad, message in (((a, b), "num_args should be 3, but 2 were given"), ((a, b[:4], 1.0), r"B\.shape\[0\].*but it is 4, not 5"),
                         ((a.float(), b, 1.0), r"expected to be float16, but it is float32"), ((a[0], b, 1.0), "but it is 1"),
                         ((a, b, "x"), "to be a number"), ((torch.ones(8, 5, dtype=torch.float16).T, b, 1.0), r"must be contiguous")):
        with pytest.raises(ArgumentError, match=message):
            check_arguments(plan, bad, "cpu")
    with pytest.raises(ArgumentError, match=r"device_type is expected to be cuda, but it is cpu"):
        check_arguments(plan, (a, b, 1.0), "cuda")


def test_an_extent_that_no_argument_tells_is_refused():
    made = program("""
        N = T.dynamic("n")
        @T.prim_func
        def k(A: T.Tensor((N * N,), "float32")):
            with T.Kernel(N, threads=32) as bx:
                A[bx] = 1.0
    """)
    with pytest.raises(LoweringError, match="no argument tells the value of n in the shape of A"):
        compile_program(made, find("cpu")).text("host")


def test_a_kernel_that_cannot_be_lowered_says_where():
    made = prim('A: T.Tensor((64,), "float32")', """
        with T.Kernel(1, threads=32) as bx:
            s = T.alloc_shared((32,), "float32")
            tx = T.get_thread_binding(0)
            for k in T.serial(tx % 3):
                s[tx] = A[tx]
                T.sync_threads()
                A[tx] = s[31 - tx]
    """)
    with pytest.raises(LoweringError, match="choose a CUDA target") as caught:
        compile_program(made, find("cpu"))
    assert caught.value.span is not None


def test_an_extent_follows_from_a_multiple_of_it():
    made = program("""
        N = T.dynamic("n")
        @T.prim_func
        def k(A: T.Tensor((N * 4 + 1,), "float32")):
            with T.Kernel(N, threads=32) as bx:
                A[bx] = 1.0
    """)
    plan = plan_arguments(made)
    assert list(check_arguments(plan, (torch.zeros(17),), "cpu").values()) == [4]
    with pytest.raises(ArgumentError, match=r"A\.shape\[0\] is expected to equal n \* 4 \+ 1.*but it is 16, not 13"):
        check_arguments(plan, (torch.zeros(16),), "cpu")


def test_an_empty_tensor_has_no_wrong_strides():
    made = program("""
        N = T.dynamic("n")
        @T.prim_func
        def k(A: T.Tensor((8, N), "float32")):
            with T.Kernel(1, threads=32) as bx:
                for i in T.serial(N):
                    A[0, i] = 1.0
    """)
    empty = torch.zeros(0).reshape(8, 0)
    assert empty.stride() == (1, 1)
    check_arguments(plan_arguments(made), (empty,), "cpu")
    compile_program(made, find("cpu")).host_callable()(empty)
