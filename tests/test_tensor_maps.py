"""Tensor maps before a launch: what the driver is told, and when it is told again."""
from __future__ import annotations

import ctypes

import pytest
from tilec.ir.buffer import GLOBAL, Buffer
from tilec.ir.build import const
from tilec.ir.expr import Var
from tilec.transform.bulk.tensor_map import TensorMap, Window

torch = pytest.importorskip("torch")

from tilec.runtime.tensor_maps import MadeMap  # noqa: E402


class Driver:
    def __init__(self):
        self.told = []

    def encode_pixel_map(self, place, arguments, name):
        self.encode_tensor_map(place, arguments, name)

    def encode_tensor_map(self, place, arguments, name):
        assert ctypes.addressof(place) % 64 == 0
        values = [list(a) if isinstance(a, ctypes.Array) else a.value for a in arguments]
        self.told.append((name, *values))


def described(shape, dtype="float16", box=(64, 64), swizzle=128, strides=None, values=None, combined=None):
    driver = Driver()
    buffer = Buffer("A", tuple(e if isinstance(e, Var) else const(e) for e in shape), dtype, GLOBAL, strides=strides)
    made = MadeMap(driver, TensorMap(buffer, box, swizzle, combined), values or {}, lambda: torch.zeros(16, dtype=torch.uint8))
    return driver, made


def test_dimensions_go_innermost_first():
    driver, made = described((4, 100, 512), box=(1, 64, 32), swizzle=64)
    made.point_at(4096)
    assert driver.told == [("A", 1, 3, 4096, [512, 100, 4], [1024, 102400], [32, 64, 1], [1, 1, 1], 0, 2, 2, 0)]


def test_run_time_extents_and_strides():
    m = Var("int32", None, "m", "dynamic")
    driver, made = described((m, 64), strides=(const(128), const(1)), values={m: 37}, dtype="float32", box=(8, 32))
    made.point_at(64)
    assert driver.told[0][2:6] == (2, 64, [64, 37], [512]) and driver.told[0][1] == 2


def test_the_driver_is_asked_again_only_where_the_tensor_moves():
    driver, made = described((64, 64))
    for address in (256, 256, 512, 512, 256):
        made.point_at(address)
    assert [t[3] for t in driver.told] == [256, 512, 256]


def test_a_tensor_without_elements_has_a_stand_in():
    driver, made = described((0, 64))
    assert driver.told and driver.told[0][3] and driver.told[0][4] == [1, 1]  # zeros, wherever they lie
    made.point_at(0)
    assert len(driver.told) == 1


@pytest.mark.parametrize("dtype, told", [("float32", 7), ("bfloat16", 9), ("float16", 6), ("int32", 3), ("uint64", 4)])
def test_values_that_are_combined_have_a_type(dtype, told):
    driver, made = described((64, 64), dtype=dtype, box=(8, 16), swizzle=0, combined=dtype)
    made.point_at(256)
    assert driver.told[0][1] == told  # CU_TENSOR_MAP_DATA_TYPE_*


def test_pixels_of_images():
    """cuTensorMapEncodeIm2col: type, rank, address, extents, strides, corners, channels and pixels, steps, and the options."""
    driver = Driver()
    image = Buffer("A", tuple(const(e) for e in (4, 30, 20, 128)), "float16", GLOBAL)
    made = MadeMap(driver, TensorMap(image, (96, 64), 128, window=Window(-1, -3, 2)), {}, lambda: torch.zeros(16, dtype=torch.uint8))
    made.point_at(4096)
    assert driver.told == [("A", 1, 4, 4096, [128, 20, 30, 4], [256, 5120, 153600], [-1, -1], [-3, -3], 64, 96, [1, 2, 2, 1], 0, 3, 2, 0)]
