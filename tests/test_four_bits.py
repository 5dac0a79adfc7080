"""4-bit floats, two to a byte in memory."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from emit_support import for_target, prim  # noqa: E402
from three_ways import agree, three_ways  # noqa: E402

VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def packed(rows, columns):
    return torch.randint(0, 256, (rows, columns // 2), generator=torch.Generator().manual_seed(1)).to(torch.uint8)


def unpacked(raw):
    return torch.stack([VALUES[(raw & 15).long()], VALUES[(raw >> 4).long()]], -1).reshape(*raw.shape[:-1], -1)


def test_reading():
    a, b = packed(8, 64), torch.zeros(8, 64)
    three_ways("A: T.Tensor((8, 64), 'float4_e2m1fn'), B: T.Tensor((8, 64), 'float32')", """
    with T.Kernel(1, threads=64):
        for i, j in T.Parallel(8, 64):
            B[i, j] = T.cast(A[i, j], 'float32')
    """, a, b, interpreter=False, threads=False)
    if torch.cuda.is_available() or bool(b.any()):
        assert torch.equal(b, unpacked(a))


@pytest.mark.parametrize("tile", [True, False])
def test_writing_neighbours(tile):
    a = torch.linspace(-8, 8, 8 * 64).reshape(8, 64)
    out = torch.full((8, 32), 0x5A, dtype=torch.uint8)
    body = """
        s = T.alloc_shared((8, 64), 'float4_e2m1fn')
        for i, j in T.Parallel(8, 64):
            s[i, j] = T.cast(A[i, j], 'float4_e2m1fn')
        T.copy(s, B)
    """ if tile else """
        for i, j in T.Parallel(8, 64):
            B[i, j] = T.cast(A[i, j], 'float4_e2m1fn')
    """
    three_ways("A: T.Tensor((8, 64), 'float32'), B: T.Tensor((8, 64), 'float4_e2m1fn')", f"""
    with T.Kernel(1, threads=64):
{body}
    """, a, out, interpreter=False, threads=False)
    if bool((out != 0x5A).any()):
        nearest = (a.abs()[..., None] - VALUES[:8]).abs()
        best = nearest.min(-1).values
        assert torch.equal((unpacked(out).abs() - a.abs()).abs(), best) and bool(((unpacked(out) < 0) <= (a < 0)).all())


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_it_assembles(target):
    made = for_target(prim("A: T.Tensor((64, 128), 'float4_e2m1fn'), B: T.Tensor((64, 128), 'float4_e2m1fn'), P: T.Tensor((64,), 'int32')", """
    with T.Kernel(64, threads=32) as i:
        f = T.alloc_fragment((128,), 'float4_e2m1fn')
        T.copy(A[i, 0], f)
        for k in T.Parallel(128):
            f[k] = f[k] + f[k]
        T.copy(f, B[P[i], 0])
        for k in T.serial(128):
            B[P[i], k] = A[i, k]
    """), target)
    made.cubin()


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_whole_numbers(dtype):
    """A copy, and arithmetic that wraps at four bits."""
    a, same, twice, wide = packed(8, 64), *(torch.zeros(8, 32, dtype=torch.uint8) for _ in range(2)), torch.zeros(8, 64, dtype=torch.int32)
    three_ways(f"A: T.Tensor((8, 64), '{dtype}'), B: T.Tensor((8, 64), '{dtype}'), C: T.Tensor((8, 64), '{dtype}'), D: T.Tensor((8, 64), 'int32')", f"""
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((8, 64), '{dtype}')
        T.copy(A, s)
        T.copy(s, B)
        for i, j in T.Parallel(8, 64):
            C[i, j] = s[i, j] + s[i, j]
            D[i, j] = T.cast(s[i, j], 'int32')
    """, a, same, twice, wide, interpreter=False, threads=False)
    codes = torch.stack([a & 15, a >> 4], -1).reshape(8, 64).int()
    values = torch.where(codes > 7, codes - 16, codes) if dtype == "int4" else codes
    if bool(wide.any()):
        assert torch.equal(same, a) and torch.equal(wide, values)
        doubled = torch.stack([twice & 15, twice >> 4], -1).reshape(8, 64).int()
        assert torch.equal(doubled, codes * 2 % 16)


@pytest.mark.parametrize("threads", [32, 64, 128])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_whole_numbers_assemble(dtype, threads):
    made = for_target(prim(f"A: T.Tensor((256,), '{dtype}'), B: T.Tensor((256,), '{dtype}'), C: T.Tensor((256,), 'float16')", f"""
    with T.Kernel(1, threads={threads}):
        s = T.alloc_shared((256,), '{dtype}')
        T.copy(A, s)
        T.copy(s, B)
        for i in T.Parallel(256):
            C[i] = T.cast(s[i], 'float16') * 0.5
            B[i] = ~B[i]
    """), "sm_80")
    made.cubin()


def _int4_product(k, dtype="int4"):
    return prim(f"A: T.Tensor((64, {k}), '{dtype}'), B: T.Tensor((32, {k}), '{dtype}'), C: T.Tensor((64, 32), 'int32')", f"""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, {k}), '{dtype}')
        b = T.alloc_shared((32, {k}), '{dtype}')
        c = T.alloc_fragment((64, 32), 'int32')
        T.clear(c)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C)
    """)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("k", [64, 192, 96])
def test_products_of_four_bit_integers(dtype, k):
    low, high = (-8, 8) if dtype == "int4" else (0, 16)
    a, b = torch.randint(low, high, (64, k)), torch.randint(low, high, (32, k))
    c = torch.zeros(64, 32, dtype=torch.int32)
    pairs = [((x[:, 0::2] & 15) | ((x[:, 1::2] & 15) << 4)).to(torch.uint8) for x in (a, b)]
    agree(_int4_product(k, dtype), *pairs, c, interpreter=False, threads=False)
    assert torch.equal(c.long(), a @ b.T)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
def test_products_of_four_bit_integers_use_the_tensor_cores(target):
    made = for_target(_int4_product(128), target)
    assert "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32" in made.text("cuda")
    assert "mma.sync" not in for_target(_int4_product(96), target).text("cuda")  # a part of an instruction: multiplied by the threads
    made.cubin()
