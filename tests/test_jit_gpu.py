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


def test_producer_and_consumer_groups():
    """A ring of two stages between two warp groups: T.ws, mbarriers, T.tma_copy done by threads."""
    for copy in ("copy", "tma_copy"):
        kernel = _ring(copy)
        a, b = torch.randn(512, 256, device="cuda").half(), torch.randn(256, 512, device="cuda").half()
        for _ in range(3):
            torch.testing.assert_close(kernel(a, b), a.float() @ b.float(), rtol=1e-3, atol=1e-2)


def _ring(copy, size=512, depth=256, tile=64, step=32):
    bulk = copy == "tma_copy"

    @T.prim_func
    def main(A: T.Tensor((size, depth), "float16"), B: T.Tensor((depth, size), "float16"), C: T.Tensor((size, size), "float32")):
        with T.Kernel(size // tile, size // tile, threads=256) as (bx, by):
            a = T.alloc_shared((2, tile, step), "float16")
            b = T.alloc_shared((2, step, tile), "float16")
            c = T.alloc_fragment((tile, tile), "float32")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([128, 128])
            with T.ws(1):
                for k in T.serial(depth // step):
                    T.mbarrier_wait_parity(empty[k % 2], ((k // 2) % 2) ^ 1)
                    if bulk:
                        T.tma_copy(A[by * tile : (by + 1) * tile, k * step : (k + 1) * step], a[k % 2, :, :], barrier=full[k % 2])
                        T.tma_copy(B[k * step : (k + 1) * step, bx * tile : (bx + 1) * tile], b[k % 2, :, :], barrier=full[k % 2])
                    else:
                        T.copy(A[by * tile : (by + 1) * tile, k * step : (k + 1) * step], a[k % 2, :, :])
                        T.copy(B[k * step : (k + 1) * step, bx * tile : (bx + 1) * tile], b[k % 2, :, :])
                    T.mbarrier_arrive(full[k % 2])
            with T.ws(0):
                T.clear(c)
                for k in T.serial(depth // step):
                    T.mbarrier_wait_parity(full[k % 2], (k // 2) % 2)
                    T.gemm(a[k % 2, :, :], b[k % 2, :, :], c)
                    T.mbarrier_arrive(empty[k % 2])
                T.copy(c, C[by * tile, bx * tile])

    return compile(main, out_idx=-1)


@pytest.mark.parametrize("name, wanted", [("sum", lambda x: x.sum()), ("max", lambda x: x.max()), ("min", lambda x: x.min())])
def test_warp_reductions_and_shuffles(name, wanted):
    combine = getattr(T, f"warp_reduce_{name}")

    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32"), D: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            B[tx] = combine(A[tx])
            D[tx] = T.shfl_xor(A[tx], 1)

    a, b, d = torch.randint(-50, 50, (32,), device="cuda").float(), torch.zeros(32, device="cuda"), torch.zeros(32, device="cuda")
    compile(main)(a, b, d)
    assert torch.equal(b, wanted(a).expand(32)) and torch.equal(d, a.view(16, 2).flip(1).reshape(32))


@pytest.mark.parametrize("mode", ["rn", "rz", "ru", "rd"])
def test_rounding_modes(mode):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32"), D: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                C[i] = T.ieee_add(A[i], B[i], mode)
                D[i] = T.ieee_mul(A[i], B[i], mode)

    # Sums and products of these are exact in 64 bits.
    a, b = (torch.randint(-(2**23), 2**23, (128,), device="cuda").float() * scale for scale in (2.0**-22, 2.0**-33))
    c, d = torch.zeros(128, device="cuda"), torch.zeros(128, device="cuda")
    compile(main)(a, b, c, d)
    for got, exact in ((c, a.double() + b.double()), (d, a.double() * b.double())):
        nearest = exact.float()
        up = torch.where(nearest.double() >= exact, nearest, torch.nextafter(nearest, torch.full_like(nearest, torch.inf)))
        down = torch.where(nearest.double() <= exact, nearest, torch.nextafter(nearest, torch.full_like(nearest, -torch.inf)))
        zero = torch.where(exact > 0, down, up)
        assert torch.equal(got, {"rn": nearest, "ru": up, "rd": down, "rz": zero}[mode])
