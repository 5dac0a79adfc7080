"""Calling kernels on a real GPU: results, streams, graphs, other devices' and misaligned tensors, the cost of a call."""
from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from tilec.emit.arguments import ArgumentError  # noqa: E402
from tilec.jit import compile, jit  # noqa: E402
from tilec.jit.language import member  # noqa: E402
from tilec.jit.trace import prim_func  # noqa: E402
from tilec.runtime import gpu  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu.available(), reason="no GPU")]


class _Language:
    prim_func = staticmethod(prim_func)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()


@jit(out_idx=[-1])
def add(dtype="float32", block=128):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return main


@jit
def copy(n, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(n // 512, threads=128) as bx:
            for i in T.Parallel(512):
                B[bx * 512 + i] = A[bx * 512 + i]

    return main


def test_one_kernel_serves_many_sizes():
    kernel = add()
    for n in (1, 1000, 0, 4096, 1000):
        a, b = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        assert torch.equal(kernel(a, b), a + b)


def test_another_dtype_or_device_after_a_good_call_is_refused():
    kernel = add()
    a = torch.randn(64, device="cuda")
    kernel(a, a)
    with pytest.raises(ArgumentError, match="dtype is expected to be float32, but it is float16"):
        kernel(a.half(), a)
    with pytest.raises(ArgumentError, match="device_type is expected to be cuda, but it is cpu"):
        kernel(a, a.cpu())
    with pytest.raises(ArgumentError, match="strides"):
        kernel(a, torch.randn(128, device="cuda")[::2])


def test_tensors_that_start_within_a_wide_access_are_refused():
    kernel = copy(1024)
    source = torch.randn(1025, device="cuda")
    out = torch.zeros(1024, device="cuda")
    kernel(source[:1024], out)
    assert torch.equal(out, source[:1024])
    with pytest.raises(ArgumentError, match=r"main\.A\.data is expected to be aligned to 16 bytes"):
        kernel(source[1:], out)


def test_streams_and_graphs():
    kernel = copy(1024)
    a, b = torch.randn(1024, device="cuda"), torch.zeros(1024, device="cuda")
    kernel(a, b)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        b.zero_()
        kernel(a, b)
    stream.synchronize()
    assert torch.equal(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b)
    a.copy_(torch.randn(1024))
    b.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(a, b)


def test_a_call_costs_microseconds(record_property):
    kernel = copy(1024)
    a, b = torch.randn(1024, device="cuda"), torch.zeros(1024, device="cuda")
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            kernel(a, b)
        times.append((time.perf_counter() - start) / 100 * 1e6)
    best = min(times)
    record_property("microseconds", best)
    print(f"call overhead {best:.2f} us")
    assert best < 20


def test_the_machines_gpu_is_the_default_target():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                A[i] = i

    kernel = compile(main)
    assert kernel.target.name == gpu.local_target().name
    out = torch.zeros(128, device="cuda")
    kernel(out)
    assert torch.equal(out.cpu(), torch.arange(128.0))
    assert kernel.n_regs and kernel.n_spills == 0
