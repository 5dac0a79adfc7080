"""Kernels for Hopper's copying warp: products and attention in the usual forms, as functions of their sizes."""
from __future__ import annotations

from tilec.jit.language import member
from tilec.jit.trace import prim_func


class _Language:
    prim_func = staticmethod(prim_func)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()


def product(M, N, K, block_M=128, block_N=128, block_K=64, stages=3, threads=256, dtype="float16", out="float16", trans_B=False, disable_tma=False, swizzle=0,
            trans_A=False, policy="Square", sums="float32"):
    """C = A @ B, tile by tile."""
    @T.prim_func
    def main(A: T.Tensor((K, M) if trans_A else (M, K), dtype), B: T.Tensor((N, K) if trans_B else (K, N), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_K, block_M) if trans_A else (block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K) if trans_B else (block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), sums)
            if swizzle:
                T.use_swizzle(swizzle)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], a)
                else:
                    T.copy(A[by * block_M, k * block_K], a, disable_tma=disable_tma)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], b)
                else:
                    T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c, transpose_A=trans_A, transpose_B=trans_B, policy=getattr(T.GemmWarpPolicy, policy))
            T.copy(c, C[by * block_M, bx * block_N])

    return main


def persistent(M, N, K, blocks=7, block_M=128, block_N=128, block_K=64, stages=2, threads=256, dtype="float16"):
    """The same with a loop over tiles in the text, so that the pipelined loop comes again and again."""
    tiles_N = N // block_N
    tiles = M // block_M * tiles_N

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(blocks, threads=threads) as (bx,):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            out = T.alloc_shared((block_M, block_N), dtype)
            for turn in T.serial(T.ceildiv(tiles, blocks)):
                if turn * blocks + bx < tiles:
                    T.clear(c)
                    for k in T.Pipelined(K // block_K, num_stages=stages):
                        T.copy(A[(turn * blocks + bx) // tiles_N * block_M, k * block_K], a)
                        T.copy(B[k * block_K, (turn * blocks + bx) % tiles_N * block_N], b)
                        T.gemm(a, b, c)
                    T.copy(c, out)
                    T.copy(out, C[(turn * blocks + bx) // tiles_N * block_M, (turn * blocks + bx) % tiles_N * block_N])

    return main


def scaled(M, N, K, block_M=128, block_N=128, block_K=64, stages=3, threads=128, dtype="float16"):
    """C = (A @ B) scaled by columns: a vector is copied with the tiles, a part of the sum is kept apart for each iteration."""
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), S: T.Tensor((K // block_K, N), "float32"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            s = T.alloc_shared((block_N,), "float32")
            c = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.copy(S[k, bx * block_N], s)
                T.clear(c)
                T.gemm(a, b, c)
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += c[i, j] * s[j]
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def attention(batch, heads, length, dim, causal, block_M=64, block_N=64, stages=2, threads=128, dtype="float16", policy="FullRow"):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = [batch, length, heads, dim]

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), O: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            q = T.alloc_shared([block_M, dim], dtype)
            k_tile = T.alloc_shared([block_N, dim], dtype)
            v_tile = T.alloc_shared([block_N, dim], dtype)
            o_tile = T.alloc_shared([block_M, dim], dtype)
            s = T.alloc_fragment([block_M, block_N], "float32")
            p = T.alloc_fragment([block_M, block_N], dtype)
            o = T.alloc_fragment([block_M, dim], "float32")
            m = T.alloc_fragment([block_M], "float32")
            before = T.alloc_fragment([block_M], "float32")
            factor = T.alloc_fragment([block_M], "float32")
            part = T.alloc_fragment([block_M], "float32")
            total = T.alloc_fragment([block_M], "float32")
            T.copy(Q[bz, bx * block_M:(bx + 1) * block_M, by, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(m, -T.infinity("float32"))
            last = T.min(T.ceildiv(length, block_N), T.ceildiv((bx + 1) * block_M, block_N)) if causal else T.ceildiv(length, block_N)
            for k in T.Pipelined(last, num_stages=stages):
                T.copy(K[bz, k * block_N:(k + 1) * block_N, by, :], k_tile)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity("float32"))
                else:
                    for i, j in T.Parallel(block_M, block_N):
                        s[i, j] = T.if_then_else(k * block_N + j >= length, -T.infinity("float32"), 0)
                T.gemm(q, k_tile, s, transpose_B=True, policy=getattr(T.GemmWarpPolicy, policy))
                T.copy(m, before)
                T.fill(m, -T.infinity("float32"))
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    m[i] = T.max(m[i], before[i])
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2(before[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(s, p)
                for i, j in T.Parallel(block_M, dim):
                    o[i, j] *= factor[i]
                T.copy(V[bz, k * block_N:(k + 1) * block_N, by, :], v_tile)
                T.gemm(p, v_tile, o, policy=getattr(T.GemmWarpPolicy, policy))
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= total[i]
            T.copy(o, o_tile)
            T.copy(o_tile, O[bz, bx * block_M:(bx + 1) * block_M, by, :])

    return main


def shared_values(length, heads, dim, block_M=64, block_N=64, stages=2, threads=128, dtype="float16"):
    """Keys are values too, as in latent attention: one tile is read by both products. No maximum is subtracted: scores are small."""
    @T.prim_func
    def main(Q: T.Tensor((heads, length, dim), dtype), K: T.Tensor((length, dim), dtype), O: T.Tensor((heads, length, dim), dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, threads=threads) as (bx, by):
            q = T.alloc_shared([block_M, dim], dtype)
            tile = T.alloc_shared([block_N, dim], dtype)
            s = T.alloc_fragment([block_M, block_N], "float32")
            p = T.alloc_fragment([block_M, block_N], dtype)
            o = T.alloc_fragment([block_M, dim], "float32")
            part = T.alloc_fragment([block_M], "float32")
            total = T.alloc_fragment([block_M], "float32")
            T.copy(Q[by, bx * block_M, 0], q)
            T.clear(o)
            T.clear(total)
            for k in T.Pipelined(length // block_N, num_stages=stages):
                T.copy(K[k * block_N, 0], tile)
                T.clear(s)
                T.gemm(q, tile, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp(s[i, j])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] += part[i]
                T.copy(s, p)
                T.gemm(p, tile, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= total[i]
            T.copy(o, O[by, bx * block_M, 0])

    return main


def weights_in_shared(length, heads, dim, block_M=64, block_N=64, stages=2, threads=256, dtype="float16", policy="FullCol"):
    """Weights go to the second product through shared memory; rows are split over warpgroups, so that sums cross them."""
    @T.prim_func
    def main(Q: T.Tensor((heads, length, dim), dtype), K: T.Tensor((length, dim), dtype), V: T.Tensor((length, dim), dtype), O: T.Tensor((heads, length, dim), dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, threads=threads) as (bx, by):
            q = T.alloc_shared([block_M, dim], dtype)
            k_tile = T.alloc_shared([block_N, dim], dtype)
            v_tile = T.alloc_shared([block_N, dim], dtype)
            p = T.alloc_shared([block_M, block_N], dtype)
            s = T.alloc_fragment([block_M, block_N], "float32")
            o = T.alloc_fragment([block_M, dim], "float32")
            part = T.alloc_fragment([block_M], "float32")
            total = T.alloc_fragment([block_M], "float32")
            sums = T.alloc_shared([block_M], "float32")
            T.copy(Q[by, bx * block_M, 0], q)
            T.clear(o)
            T.clear(total)
            for k in T.Pipelined(length // block_N, num_stages=stages):
                T.copy(K[k * block_N, 0], k_tile)
                T.copy(V[k * block_N, 0], v_tile)
                T.clear(s)
                T.gemm(q, k_tile, s, transpose_B=True, policy=getattr(T.GemmWarpPolicy, policy))
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp(s[i, j])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] += part[i]
                T.copy(s, p)
                T.gemm(p, v_tile, o, policy=getattr(T.GemmWarpPolicy, policy))
            T.copy(total, sums)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] /= sums[i]
            T.copy(o, O[by, bx * block_M, 0])

    return main


def block_sparse(M, N, K, block_M=128, block_N=128, block_K=64, stages=2, threads=128, dtype="float16", held="tensor"):
    """A product that leaves out the pieces along K which a mask does not name. ``held``: where a block's part of the mask is read from."""
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), mask: T.Tensor((M // block_M, N // block_N, K // block_K), "bool"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // block_N, M // block_M, threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            row = mask
            if held == "fragment":
                row = T.alloc_fragment((K // block_K,), "bool")
                T.copy(mask[by, bx, :], row)
            if held == "local":
                row = T.alloc_local((K // block_K,), "bool")
                for i in T.serial(K // block_K):
                    row[i] = mask[by, bx, i]
            for k in T.Pipelined(K // block_K, num_stages=stages):
                if mask[by, bx, k] if held == "tensor" else row[k]:
                    T.copy(A[by * block_M, k * block_K], a)
                    T.copy(B[k * block_K, bx * block_N], b)
                    T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


def parts_of_tiles(M, N, K, trans_A=False, trans_B=False, stages=2, threads=128, dtype="float16"):
    """A product whose operands are parts of larger shared tiles: of several stages, beside other rows and columns."""
    a_shape, b_shape = (K, M) if trans_A else (M, K), (N, K) if trans_B else (K, N)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((stages, a_shape[0] + 8, a_shape[1] + 64), dtype)
            b = T.alloc_shared((b_shape[0] + 16, b_shape[1] + 64), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a[stages - 1, 8 : 8 + a_shape[0], 64 : 64 + a_shape[1]])
            T.copy(B, b[16 : 16 + b_shape[0], 0 : b_shape[1]])
            T.clear(c)
            T.gemm(a[stages - 1, 8 : 8 + a_shape[0], 64 : 64 + a_shape[1]], b[16 : 16 + b_shape[0], 0 : b_shape[1]], c, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(c, C)

    return main
