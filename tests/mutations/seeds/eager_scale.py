"""The eager form with a size that comes from the tensors, a run-time one, and a compile-time argument; one result."""
import tilelang
import tilelang.language as T


# tile-lsp: instance X=tensor((64, 256), "float32") W=tensor((256,), "float32")
@tilelang.jit
def scaled(X, W, rows: int = 16, shift: float = 0.5):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        w = T.alloc_fragment((N,), T.float32)
        x = T.alloc_fragment((rows, N), T.float32)
        T.copy(W, w)
        T.copy(X[bx * rows, 0], x)
        for i, j in T.Parallel(rows, N):
            x[i, j] = x[i, j] * w[j] + shift
        T.copy(x, Y[bx * rows, 0])

    return Y


def reference(X, W):
    return X * W + 0.5
