"""Reducers as releases before 0.1.14 write them: cleared, added to as elements, finished in place."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from three_ways import three_ways  # noqa: E402


def numbers(*shape, seed=0):
    return torch.randint(-8, 8, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize("extent, threads", [(8, 128), (128, 128), (300, 64), (1, 32)])
def test_a_loop_shorter_and_longer_than_the_block(extent, threads):
    a, b = numbers(extent), torch.zeros(1)
    three_ways(f"A: T.Tensor(({extent},), 'float32'), B: T.Tensor((1,), 'float32')", f"""
    with T.Kernel(1, threads={threads}):
        src = T.alloc_fragment(({extent},), 'float32')
        T.copy(A, src)
        total = T.alloc_reducer((1,), 'float32')
        T.clear(total)
        for i in T.Parallel({extent}):
            total[0] += src[i]
        T.finalize_reducer(total)
        B[0] = total[0]
    """, a, b, interpreter=False)
    assert b[0] == a.sum()


def test_rows_whose_sums_are_read_in_another_loop():
    g, y, out = numbers(64, 8), numbers(64, 8, seed=1), torch.zeros(64, 8)
    three_ways("G: T.Tensor((64, 8), 'float32'), Y: T.Tensor((64, 8), 'float32'), O: T.Tensor((64, 8), 'float32')", """
    with T.Kernel(1, threads=128):
        g = T.alloc_fragment((64, 8), 'float32')
        y = T.alloc_fragment((64, 8), 'float32')
        o = T.alloc_fragment((64, 8), 'float32')
        total = T.alloc_reducer((64,), 'float32')
        T.copy(G, g)
        T.copy(Y, y)
        T.clear(total)
        for i, j in T.Parallel(64, 8):
            total[i] += g[i, j] * y[i, j]
        T.finalize_reducer(total)
        for i, j in T.Parallel(64, 8):
            o[i, j] = g[i, j] - total[i]
        T.copy(o, O)
    """, g, y, out, interpreter=False)
    assert torch.equal(out, g - (g * y).sum(1, keepdim=True))


@pytest.mark.parametrize("op, start, expected", [("max", "-T.infinity('float32')", torch.amax), ("min", "T.infinity('float32')", torch.amin)])
def test_extrema(op, start, expected):
    a, b = numbers(32, 16), torch.zeros(32)
    three_ways("A: T.Tensor((32, 16), 'float32'), B: T.Tensor((32,), 'float32')", f"""
    with T.Kernel(1, threads=64):
        a = T.alloc_fragment((32, 16), 'float32')
        r = T.alloc_reducer((32,), 'float32', '{op}')
        T.copy(A, a)
        T.fill(r, {start})
        for i, j in T.Parallel(32, 16):
            r[i] = T.{op}(r[i], a[i, j])
        T.finalize_reducer(r)
        T.copy(r, B)
    """, a, b, interpreter=False)
    assert torch.equal(b, expected(a, 1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["max", "sum"])
def test_narrow_floats_are_combined_in_float32(dtype, op):
    from emit_support import for_target, prim

    body = f"""
    with T.Kernel(1, threads=256):
        r = T.alloc_reducer((64,), '{dtype}', '{op}')
        T.clear(r)
        f = T.alloc_fragment((64, 128), '{dtype}')
        T.copy(A, f)
        for i, j in T.Parallel(64, 128):
            r[i] = {"T.max(r[i], f[i, j])" if op == "max" else "r[i] + f[i, j]"}
        T.finalize_reducer(r)
        T.copy(r, B)
    """
    signature = f"A: T.Tensor((64, 128), '{dtype}'), B: T.Tensor((64,), '{dtype}')"
    a, b = numbers(64, 128).to(getattr(torch, dtype)), torch.zeros(64, dtype=getattr(torch, dtype))
    three_ways(signature, body, a, b, interpreter=False)
    assert torch.equal(b, a.float().amax(1).clamp(min=0).to(b.dtype) if op == "max" else a.float().sum(1).to(b.dtype))
    assert "float r_1[64]" in for_target(prim(signature, body), "sm_90a").text("cuda")
