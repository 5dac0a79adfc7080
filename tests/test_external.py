"""Functions written in C: imported text, pointers and scalars, results; assembled, and run on a GPU."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import for_target, prim
from tilec.build.nvcc import find_nvcc
from tilec.transform.errors import LoweringError
from transform_support import lowered

torch = pytest.importorskip("torch")

from tilec.runtime import gpu  # noqa: E402

UNPACK = '''"""
template <typename T1, typename T2>
__device__ void unpack(T1 *packed, T2 *out, const int N = 8) {
  uint const word = *reinterpret_cast<uint *>(packed);
  for (int i = 0; i < N; ++i) out[i] = static_cast<T2>(static_cast<float>((word >> (4 * i)) & 15u));
}
__device__ int twice(int x) { return 2 * x; }
"""'''
SIGNATURE = "A: T.Tensor((64, 4), 'int8'), C: T.Tensor((64, 8), 'float16'), D: T.Tensor((64,), 'int32')"
BODY = f"""
with T.Kernel(2, threads=32) as bx:
    tx = T.get_thread_binding()
    T.import_source({UNPACK})
    a = T.alloc_local((4,), 'int8')
    c = T.alloc_local((8,), 'float16')
    for v in T.vectorized(4):
        a[v] = A[bx * 32 + tx, v]
    T.call_extern('unpack', T.access_ptr(a, 'r'), T.access_ptr(c, 'w'), dtype='float16')
    for v in T.vectorized(8):
        C[bx * 32 + tx, v] = c[v]
    D[bx * 32 + tx] = T.call_pure_extern('int32', 'twice', tx)
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_imported_functions_are_called(target):
    artifact = for_target(prim(SIGNATURE, BODY), target)
    text = artifact.text("cuda")
    assert "unpack(&a[0], &c[0]);" in text and "twice(tx)" in text and text.count("__device__ int twice") == 1
    if find_nvcc() is None:
        pytest.skip("no nvcc")
    artifact.cubin()


def test_what_a_function_may_write_is_waited_for():
    """The tile is handed to the function, filled and read by other threads: two barriers."""
    made = for_target(prim("C: T.Tensor((32,), 'float32')", """
with T.Kernel(1, threads=32) as bx:
    tx = T.get_thread_binding()
    s = T.alloc_shared((32,), 'float32')
    s[tx] = 0.0
    T.call_extern('handle', 'fill', T.access_ptr(s[0], 'w'), tx)
    C[tx] = s[31 - tx]
"""), "sm_80")
    text = made.text("cuda")
    assert text.index("s[tx] = ") < text.index("tile_sync_threads();\n  fill(") < text.rindex("tile_sync_threads();\n  C[tx]")


def test_a_fragment_has_no_address():
    with pytest.raises(LoweringError, match="has no address"):
        lowered(prim("C: T.Tensor((32,), 'float32')", """
with T.Kernel(1, threads=32) as bx:
    f = T.alloc_fragment((32,), 'float32')
    T.clear(f)
    T.call_extern('handle', 'fill', f)
    T.copy(f, C)
"""))


@pytest.mark.gpu
@pytest.mark.skipif(not gpu.available(), reason="no GPU")
def test_imported_functions_run():
    a = torch.randint(-128, 128, (64, 4), dtype=torch.int8)
    c, d = torch.zeros(64, 8, dtype=torch.float16, device="cuda"), torch.zeros(64, dtype=torch.int32, device="cuda")
    gpu.GpuKernel(for_target(prim(SIGNATURE, BODY), gpu.local_target().name))(a.cuda(), c, d)
    words = a.numpy().view(np.uint32)[:, 0]
    expected = np.stack([(words >> (4 * i)) & 15 for i in range(8)], 1)
    assert np.array_equal(c.cpu().numpy(), expected.astype(np.float16)) and d.tolist() == [2 * (i % 32) for i in range(64)]
