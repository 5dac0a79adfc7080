"""Kernels whose layouts do or do not fit, by name: products chained, accumulators shared, statistics between, loops and copies.

``layout_verdicts.json`` says for each what TileLang 0.1.15 makes of it for sm_80, sm_90a and sm_100a: ``o`` it lowers, ``x`` it refuses.
"""
from __future__ import annotations

from collections.abc import Iterator

POLICIES = {"S": "", "R": ", policy=T.GemmWarpPolicy.FullRow", "C": ", policy=T.GemmWarpPolicy.FullCol"}


def kernel(threads: int, params: dict[str, tuple[tuple[int, ...], str]], *lines: str) -> str:
    signature = ", ".join(f'{n}: T.Tensor({shape}, "{dtype}")' for n, (shape, dtype) in params.items())
    body = "".join(f"        {line}\n" for line in lines)
    return f"import tilelang.language as T\n\n\n@T.prim_func\ndef main({signature}):\n    with T.Kernel(1, threads={threads}) as bx:\n{body}"


def attention(threads: int, M: int, N: int, D: int, first: str, second: str, *between: str, s: str = "float32") -> str:
    params = {"Q": ((M, D), "float16"), "K": ((N, D), "float16"), "V": ((N, D), "float16"), "O": ((M, D), "float32")}
    return kernel(
        threads, params,
        f'q = T.alloc_shared(({M}, {D}), "float16")', f'k = T.alloc_shared(({N}, {D}), "float16")', f'v = T.alloc_shared(({N}, {D}), "float16")',
        f's = T.alloc_fragment(({M}, {N}), "{s}")', f'p = T.alloc_fragment(({M}, {N}), "float16")', f'o = T.alloc_fragment(({M}, {D}), "float32")',
        f'm = T.alloc_fragment(({M},), "float32")', "T.copy(Q, q)", "T.copy(K, k)", "T.copy(V, v)", "T.clear(s)", "T.clear(o)", "T.fill(m, 0)",
        f"T.gemm(q, k, s, transpose_B=True{POLICIES[first]})", *between, f"T.gemm({'p' if between else 's'}, v, o{POLICIES[second]})",
        f"for i in T.Parallel({M}):", "    m[i] = m[i] + 1.0" if "m" not in "".join(between) else "    m[i] = m[i] * 2.0", "T.copy(o, O)",
    )


def chained() -> Iterator[tuple[str, str]]:
    """s = q k, then p from s by nothing, a loop, a copy, or a softmax; then o = p v."""
    for threads in (128, 256):
        for M, N, D in ((64, 64, 64), (64, 128, 64)):
            for first, second in ("SS", "RR", "CR", "RC", "SR"):
                name = f"{threads}_{M}x{N}x{D}_{first}{second}"
                loop = (f"for i, j in T.Parallel({M}, {N}):", "    p[i, j] = s[i, j] * 0.125")
                softmax = ("T.reduce_max(s, m, dim=1, clear=False)", f"for i, j in T.Parallel({M}, {N}):", "    s[i, j] = T.exp2(s[i, j] - m[i])",
                           "T.copy(s, p)", f"for i, j in T.Parallel({M}, {D}):", "    o[i, j] *= m[i]")
                yield f"reuse_{name}", attention(threads, M, N, D, first, second, s="float16")
                yield f"loop_{name}", attention(threads, M, N, D, first, second, *loop)
                yield f"copy_{name}", attention(threads, M, N, D, first, second, "T.copy(s, p)")
                yield f"softmax_{name}", attention(threads, M, N, D, first, second, *softmax)


def product(threads: int, M: int, N: int, policy: str, *after: str) -> str:
    params = {"A": ((M, 32), "float16"), "B": ((32, N), "float16"), "X": ((M, N), "float32"), "Y": ((M,), "float32"), "Z": ((M, N), "float32")}
    return kernel(
        threads, params, f'a = T.alloc_shared(({M}, 32), "float16")', f'b = T.alloc_shared((32, {N}), "float16")',
        f'c = T.alloc_fragment(({M}, {N}), "float32")', f'm = T.alloc_fragment(({M},), "float32")', f'n = T.alloc_fragment(({N},), "float32")',
        f'x = T.alloc_fragment(({M}, {N}), "float32")', "T.copy(A, a)", "T.copy(B, b)", "T.clear(c)", f"T.gemm(a, b, c{POLICIES[policy]})",
        *after)


def used() -> Iterator[tuple[str, str]]:
    """An accumulator in loops of all kinds."""
    for threads in (128, 256):
        for M, N in ((64, 64), (128, 64)):
            for policy in "SC":
                box = f"for i, j in T.Parallel({M}, {N}):"
                ends = {
                    "twice": ("T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullRow)", "T.copy(c, Z)"),
                    "row": (f"for j in T.Parallel({N}):", "    X[0, j] = c[0, j]"),
                    "half": (f"for i, j in T.Parallel({M // 2}, {N}):", "    Z[i, j] = c[i, j]"),
                    "column": (f"for i in T.Parallel({M}):", "    Y[i] = c[i, 0]"),
                    "turned": (box, "    Z[i, j] = c[i, j]", f"for i, j in T.Parallel({M}, {N}):", "    x[i, j] = c[i, j]", "T.copy(x, Z)"),
                    "rows": (f"for i in T.serial({M}):", f"    for j in T.Parallel({N}):", "        Z[i, j] = c[i, j]"),
                    "columns": (f"for j in T.serial({N}):", f"    for i in T.Parallel({M}):", "        Z[i, j] = c[i, j]"),
                    "inner": (f"for i in T.Parallel({M}):", f"    for j in T.serial({N}):", "        Z[i, j] = c[i, j]"),
                    "sum": ("T.clear(m)", box, "    m[i] += c[i, j]", "T.copy(m, Y)"),
                    "walk": ("T.clear(m)", f"for j in T.serial({N}):", f"    for i in T.Parallel({M}):", "        m[i] += c[i, j]", "T.copy(m, Y)"),
                    "broadcast": ("T.copy(Y, m)", box, "    c[i, j] += m[i]", "T.copy(c, Z)"),
                    "bias": (f"T.copy(X[0, 0:{N}], n)", box, "    c[i, j] += n[j]", "T.copy(c, Z)"),
                    "rowmax": ("T.reduce_max(c, m, dim=1)", box, "    c[i, j] -= m[i]", "T.copy(c, Z)"),
                    "guard": ("if c[0, 0] > 0:", "    T.copy(c, Z)"),
                    "diagonal": (f"for i in T.Parallel({M}):", "    Y[i] = c[i, i]"),
                }
                for kind, after in ends.items():
                    if kind == "diagonal" and M != N:
                        continue
                    yield f"{kind}_{threads}_{M}x{N}_{policy}", product(threads, M, N, policy, *after)


def shared_out() -> Iterator[tuple[str, str]]:
    """Fragments without a product: how many elements for how many threads."""
    for threads in (64, 96, 128):
        for extent in (48, 96, 100, 192, 200, 256, 320, 1024):
            params = {"X": ((extent,), "float32"), "Z": ((extent,), "float32")}
            yield f"vector_{threads}_{extent}", kernel(
                threads, params, f'x = T.alloc_fragment(({extent},), "float32")', "T.copy(X, x)", f"for i in T.Parallel({extent}):",
                "    x[i] = x[i] * 2.0", "T.copy(x, Z)")
        for M, N in ((64, 64), (16, 48), (32, 96), (8, 10), (128, 3)):
            params = {"X": ((M, N), "float32"), "Z": ((M,), "float32")}
            yield f"reduced_{threads}_{M}x{N}", kernel(
                threads, params, f'x = T.alloc_fragment(({M}, {N}), "float32")', f'm = T.alloc_fragment(({M},), "float32")', "T.copy(X, x)",
                "T.reduce_sum(x, m, dim=1)", "T.copy(m, Z)")


def all_kernels() -> dict[str, str]:
    return {name: text for family in (chained, used, shared_out) for name, text in family()}
