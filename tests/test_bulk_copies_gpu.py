"""T.tma_copy by the copy engine beside barriers of the program's own, on a Hopper GPU."""
from __future__ import annotations

import pytest
from emit_support import prim
from test_bulk_copies import ONE_ARRIVES, product

torch = pytest.importorskip("torch")

from tilec.runtime import gpu  # noqa: E402
from transform_support import on_gpu  # noqa: E402

pytestmark = pytest.mark.gpu
if not gpu.available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


@pytest.mark.parametrize("case", [{}, {"M": 100, "N": 72, "K": 136}, {"stages": 3, "K": 2000, "M": 1000, "N": 1032}, {"stages": 1}, ONE_ARRIVES, {"extra": "T.clear(b)"},
                                  {"M": 4096, "N": 4096, "K": 1024, "stages": 4}], ids=str)
def test_products(case):
    M, N, K = (case.get(n, 128) for n in "MNK")
    run = on_gpu(prim(*product(**case)), "copy to b: bulk tensor copy (TMA)")
    a, b = (torch.randint(-4, 5, s, device="cuda").half() for s in ((M, K), (K, N)))
    wanted = a.float() @ b.float()
    for _ in range(20):
        c = torch.full((M, N), float("nan"), device="cuda")
        run(a, b, c)
        assert torch.equal(c, wanted)
