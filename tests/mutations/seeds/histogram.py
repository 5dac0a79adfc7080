"""Atomics on single elements: in shared memory, in global memory, with a previous value, with a memory order."""
import tilelang
import tilelang.language as T


# tile-lsp: instance N=2048 bins=64
@tilelang.jit
def histogram(N, bins, block=1024):
    @T.prim_func
    def main(
        X: T.Tensor((N,), "int32"),
        counts: T.Tensor((bins,), "int32"),
        largest: T.Tensor((1,), "int32"),
        smallest: T.Tensor((1,), "int32"),
        ticket: T.Tensor((N // block,), "int32"),
        flags: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(N // block, threads=256) as b:
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            for i in T.Parallel(block):
                T.atomic_add(local[X[b * block + i] & 63], 1)
            for i in T.Parallel(bins):
                T.atomic_add(counts[i], local[i], memory_order="relaxed")
            for i in T.Parallel(block):
                T.atomic_max(largest[0], X[b * block + i])
                T.atomic_min(smallest[0], X[b * block + i])
            for i in T.Parallel(1):
                ticket[b] = T.atomic_add(flags[0], 0, return_prev=True)

    return main


def inputs(N, bins):
    import torch

    ints = dict(dtype=torch.int32)
    return (torch.randint(0, 1000, (N,), **ints), torch.zeros(bins, **ints), torch.zeros(1, **ints), torch.full((1,), 5000, **ints),
            torch.full((N // 1024,), -1, **ints), torch.full((1,), 7, **ints))  # fmt: skip


def reference(X, counts, largest, smallest, ticket, flags):
    import torch

    found = torch.bincount(X & 63, minlength=counts.shape[0]).to(torch.int32)
    return counts + found, X.amax().reshape(1), X.amin().reshape(1), torch.full_like(ticket, 7), flags.clone()
