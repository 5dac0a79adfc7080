"""Convolutions whose pixels the copy engine gathers, on a Hopper GPU: against torch, at edges, with strides and dilation."""
from __future__ import annotations

import pytest
from test_im2col import IMAGES, any_row, flat_convolution  # noqa: F401

torch = pytest.importorskip("torch")

from tilec.runtime import gpu  # noqa: E402
from transform_support import on_gpu  # noqa: E402

pytestmark = pytest.mark.gpu
if not gpu.available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

LARGE = [{"n": 4, "h": 33, "w": 31, "c": 128, "f": 192, "k": 3, "s": 1, "d": 1, "p": 1, "m": 128, "step": 64, "stages": 3},
         {"n": 2, "h": 56, "w": 56, "c": 64, "f": 64, "k": 7, "s": 2, "d": 1, "p": 3}, {"n": 5, "h": 20, "w": 17, "c": 64, "f": 72, "k": 5, "s": 1, "d": 3, "p": 6, "step": 16},
         {"n": 3, "h": 40, "w": 24, "c": 32, "f": 64, "k": 3, "s": 2, "d": 2, "p": 1, "m": 192}, {"n": 2, "h": 9, "w": 8, "c": 128, "f": 64, "k": 2, "s": 1, "d": 1, "p": 1, "step": 128},
         {"n": 2, "h": 64, "w": 64, "c": 32, "f": 64, "k": 2, "s": 8, "d": 1, "p": 0}, {"n": 70, "h": 3, "w": 3, "c": 32, "f": 64, "k": 3, "s": 1, "d": 1, "p": 0}]


@pytest.mark.parametrize("case", [*IMAGES, *LARGE], ids=str)
def test_convolutions(case, any_row):  # noqa: F811
    n, h, w, c, f, k, s, d, p = (case[x] for x in "nhwcfksdp")
    run = on_gpu(flat_convolution(**case), "copy to a: bulk tensor copy (TMA) by the copying warp")
    torch.manual_seed(0)
    image, weights = torch.randn(n, h, w, c, device="cuda").half(), (torch.randn(k, k, c, f, device="cuda") / (k * c**0.5)).half()
    wanted = torch.nn.functional.conv2d(image.double().permute(0, 3, 1, 2), weights.double().permute(3, 2, 0, 1), stride=s, dilation=d, padding=p).permute(0, 2, 3, 1)
    for _ in range(3):
        out = torch.full(wanted.shape, float("nan"), device="cuda", dtype=torch.half)
        run(image, weights, out)
        torch.testing.assert_close(out.double(), wanted, rtol=1e-2, atol=1e-2)
