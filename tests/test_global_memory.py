"""Global memory that is no parameter: workspaces, tensors made from pointers; kernels written in CUDA."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tvm")

from emit_support import for_target, on_cpu, prim, program  # noqa: E402
from three_ways import three_ways  # noqa: E402
from tilec.transform.errors import LoweringError  # noqa: E402

TARGETS = ["sm_80", "sm_90a", "sm_100a"]


def test_a_workspace_between_two_kernels():
    a, b = torch.arange(256.0), torch.zeros(256)
    three_ways("A: T.Tensor((256,), 'float32'), B: T.Tensor((256,), 'float32')", """
    C = T.alloc_global((256,), 'float32')
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            C[bx * 64 + i] = A[bx * 64 + i] * T.float32(2)
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = C[255 - bx * 64 - i]
    """, a, b)
    assert torch.equal(b, a.flip(0) * 2)


@pytest.mark.parametrize("target", TARGETS)
def test_a_workspace_is_an_argument_of_the_kernels(target):
    made = for_target(prim("A: T.Tensor((256,), 'float32'), B: T.Tensor((256,), 'float32')", """
    C = T.alloc_global((256,), 'float32')
    with T.Kernel(4, threads=64) as bx:
        T.copy(A[bx * 64:bx * 64 + 64], C[bx * 64:bx * 64 + 64])
        T.copy(C[bx * 64:bx * 64 + 64], B[bx * 64:bx * 64 + 64])
    """), target)
    assert [a.name for a in made.cuda().kernels[0].arguments] == ["A", "B", "C"]
    made.cubin()
    assert "workspace" in made.text("host")


POINTERS = """
@T.prim_func
def main(a_ptr: T.ptr, c_ptr: T.ptr, m: T.int32, n: T.int32):
    A = T.make_tensor(a_ptr, (m, n), 'float16')
    C = T.make_tensor(c_ptr, (m, n), 'float32')
    with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
        s = T.alloc_shared((64, 64), 'float16')
        T.copy(A[by * 64, bx * 64], s)
        T.copy(s, C[by * 64, bx * 64])
"""
TABLE = """
@T.prim_func
def main(ptrs: T.Tensor([4], T.ptr), out: T.Tensor([4, 64], 'float16')):
    with T.Kernel(4, threads=64) as bx:
        Src = T.make_tensor(ptrs[bx], (64,), 'float16')
        for i in T.Parallel(64):
            out[bx, i] = Src[i]
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", [POINTERS, TABLE], ids=["parameters", "table"])
def test_tensors_from_pointers(text, target):
    made = for_target(program(text), target)
    assert "reinterpret_cast" in made.text("cuda") and "__restrict__" not in made.text("cuda")
    made.cubin()
    made.text("host")


def test_tensors_from_pointers_are_refused_on_the_cpu():
    with pytest.raises(LoweringError, match="made from a pointer"):
        on_cpu(program(POINTERS))


def test_the_arguments_of_kernels_with_pointers():
    from tilec.emit.arguments import ArgumentError, check_arguments, plan_arguments

    plan = plan_arguments(program(POINTERS))
    check_arguments(plan, (4096, 8192, 2, 3), "cuda")
    with pytest.raises(ArgumentError, match="a_ptr.*a tensor or an address"):
        check_arguments(plan, (1.5, 8192, 2, 3), "cuda")
    table = plan_arguments(program(TABLE))
    with pytest.raises(ArgumentError, match="ptrs.dtype"):
        check_arguments(table, (torch.zeros(4), torch.zeros(4, 64, dtype=torch.float16)), "cpu")


SOURCE = '''
CODE = """
extern "C" __global__ void external_copy(float* A, float* B, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) B[i] = A[i];
}
"""
N = T.dynamic("N")

@T.prim_func
def main(A: T.Tensor((N,), T.float32), B: T.Tensor((N,), T.float32)):
    T.CUDASourceCodeKernel(T.ceildiv(N, 128), threads=128, source_code_or_path=CODE, entry_name="ENTRY")
'''


def test_a_kernel_written_in_cuda():
    made = for_target(program(SOURCE.replace("ENTRY", "external_copy")), "sm_90a")
    assert "B[i] = A[i];" in made.text("cuda")
    spec = made.cuda().kernels[0]
    assert spec.name == "external_copy" and [a.name for a in spec.arguments] == ["A", "B", "N"] and spec.block == (128, 1, 1)
    made.cubin()


def test_a_kernel_written_in_cuda_without_the_entry():
    with pytest.raises(LoweringError, match="Available entries: external_copy"):
        for_target(program(SOURCE.replace("ENTRY", "main_kernel2")), "sm_90a")
