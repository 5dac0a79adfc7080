"""Small specialised kernels, run and compared with torch: what compute-sanitizer watches (test_specialise_sanitizer.py)."""
from __future__ import annotations

import hopper_kernels as kernels
import torch
from tilec.jit import compile


def product(M: int, N: int, K: int, **options: object) -> None:
    a, b = (torch.randn(*shape, device="cuda").half() for shape in ((M, K), (N, K) if options.get("trans_B") else (K, N)))
    kernel = compile(kernels.product(M, N, K, **options), out_idx=-1, target="sm_90a")
    assert "copying warp" in " ".join(map(str, kernel.artifact.decisions()))
    for _ in range(2):  # the second may start while the first ends
        found = kernel(a, b)
    torch.testing.assert_close(found.float(), (a.float() @ (b.T if options.get("trans_B") else b).float()), rtol=1e-2, atol=0.2)


def attention(batch: int, heads: int, length: int, dim: int, causal: bool, **options: object) -> None:
    q, k, v = (torch.randn(batch, length, heads, dim, device="cuda").half() for _ in range(3))
    found = compile(kernels.attention(batch, heads, length, dim, causal, **options), out_idx=-1, target="sm_90a")(q, k, v)
    wanted = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2).float() for x in (q, k, v)), is_causal=causal).transpose(1, 2)
    torch.testing.assert_close(found.float(), wanted, rtol=1e-2, atol=4e-3)


def main() -> None:
    torch.manual_seed(0)
    product(256, 256, 256)
    product(256, 512, 192, block_N=256, stages=2)
    product(128, 128, 256, block_M=64, threads=128, stages=4)
    product(200, 264, 136, trans_B=True)
    product(256, 256, 128, out="float32")
    product(2048, 2304, 128, block_N=128)  # more tiles than multiprocessors
    product(2048, 2048, 64, block_M=64, block_N=64, threads=128)
    attention(1, 2, 256, 64, False)
    attention(1, 2, 200, 128, True, block_M=128, block_N=128, threads=256)
    torch.cuda.synchronize()
    print("all right")


if __name__ == "__main__":
    main()
