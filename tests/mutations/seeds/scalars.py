"""Python around and inside a kernel: macros, run-time variables, device loops and branches, helpers, compile-time loops."""
import tilelang
import tilelang.language as T


@T.macro
def larger(best: T.Ref, value):
    best = T.max(best, value)


@T.macro
def shifted(x, by):
    return x * 2.0 + by


def bounds(n, block):
    return n // block


# tile-lsp: instance N=512
@tilelang.jit
def scan_lanes(N, lanes=64):
    per_lane = bounds(N, lanes)

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), best: T.Tensor((lanes,), "float32"), runs: T.Tensor((lanes,), "int32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=lanes) as _:
            t = T.get_thread_binding()
            top = T.alloc_var("float32", init=-1.0e30)
            count = T.alloc_var("int32", init=0)
            i = T.alloc_var("int32", init=0)
            while i < per_lane:
                value = X[t * per_lane + i]
                larger(top, value)
                if value > 0.0:
                    count = count + 1
                i = i + 1
            best[t] = top
            runs[t] = count
            for k in T.serial(per_lane):
                Y[k * lanes + t] = shifted(X[k * lanes + t], T.cast(k, "float32"))
            for step in [0, 1]:
                if X[t] > 100.0 + step:
                    Y[t] = 0.0

    return main


def reference(X):
    import torch

    lanes, n = 64, X.shape[0]
    grouped = X.reshape(lanes, -1)
    y = X * 2 + torch.arange(n // lanes).repeat_interleave(lanes)
    return grouped.amax(1), (grouped > 0).sum(1).to(torch.int32), y
