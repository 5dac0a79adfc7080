"""On a GPU: additions of neighbours, swizzled tiles, warps that meet, operations that run on, bulk copies that nobody waits for. Each several times."""
from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import test_bank_conflicts  # noqa: E402
import test_joined_adds  # noqa: E402
import test_overlap  # noqa: E402
import test_warp_places  # noqa: E402
from tilec.runtime import gpu  # noqa: E402
from transform_support import execute_on_gpu, lowered, numbers  # noqa: E402

pytestmark = pytest.mark.gpu
if not gpu.available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

ROUNDS = 20


def results(made, name, **arguments):
    program = lowered(made, "sm_90a")
    for _ in range(ROUNDS):
        yield execute_on_gpu(program, arguments)[name]


@pytest.mark.parametrize("index, columns", [("d * 4", 64), ("d * 4 + 1", 68), ("d * 4", 66)])
def test_additions(index, columns):
    made = test_joined_adds.kernel(index, columns)
    a, d = numbers((16, columns)), numbers((test_joined_adds.ROWS, columns), seed=1)
    rows = np.array([0, 3, 9, -1, 5, 0, 2, 6, 1, 1, 1, -7, 4, 3, 5, 2], dtype=np.int32)
    wanted = d.copy()
    for r, row in enumerate(rows):
        for q in range(columns // 4):
            for k in range(4):
                at = eval(index, {"d": q}) + k
                if 0 <= row < test_joined_adds.ROWS and at < columns:
                    wanted[row, at] += a[r, q * 4 + k]
    for got in results(made, "D", A=a, I=rows, D=d):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_swizzled_tiles(dtype):
    a, b = numbers((64, 32), "float16"), numbers((128, 32), "float16", seed=1)
    for got in results(test_bank_conflicts.through_shared(dtype), "C", A=a, B=b):
        np.testing.assert_allclose(got, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-2, atol=0.1)


def test_warps_that_meet():
    a = np.arange(64, dtype=np.int32)
    made = test_warp_places.kernel("r * 16 + tx // 8", "r * 16 + tx // 8", "if tx % 8 == 3: ")
    for got in results(made, "B", A=a, B=np.zeros(128, np.int32)):
        np.testing.assert_array_equal(got, np.where(a > 2, a, 0).reshape(4, 16).sum(0).repeat(8))


def test_bulk_copies():
    a = numbers((64, 64), "float16")
    for got in results(test_warp_places.bulk(128), "B", A=a, B=np.zeros_like(a)):
        np.testing.assert_array_equal(got, a[::-1])


def test_operations_that_run_on():
    v = {k: x.astype(np.float32) for k, x in test_overlap.values().items()}
    for body, wanted in ((test_overlap.SECOND, np.exp2((v["A"] @ v["B"].T) * 0.01) * (v["D"] @ v["B"].T)),
                         (test_overlap.OVERWRITTEN, v["A"] @ v["B"].T + v["D"].T)):
        for got in results(test_overlap.kernel(body), "C", **test_overlap.values(), E=np.zeros((64, 64), np.float32), C=np.zeros((64, 64), np.float32)):
            np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=0.5)
