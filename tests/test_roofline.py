"""The share of the roofline and the occupancy, with a driver that tells an H200's properties."""
from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from tilec.runtime.roofline import fastest, occupancy, share
from tilec.target import chips

from tile_lsp.ide.lowering import find_program

H200 = {13: 1_980_000, 16: 132, 36: 3_201_000, 37: 6144, 39: 2048}
GEMM = '''import tilelang.language as T


def gemm(M, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, M), dtype), B: T.Tensor((M, M), dtype), C: T.Tensor((M, M), "float32")):
        with T.Kernel(M // 128, M // 128, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), dtype)
            b = T.alloc_shared((64, 128), dtype)
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(M // 64, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])
    return main
'''


class Driver:
    def __init__(self, known: dict[int, int], blocks: int | None = 1):
        self.known, self.blocks = known, blocks

    def attributes(self, *numbers: int) -> list[int]:
        return [self.known.get(n, 0) for n in numbers]

    def resident_blocks(self, function: object, threads: int, shared_bytes: int) -> int | None:
        return self.blocks


def program(dtype: str = "float16", size: int = 8192):
    return find_program("k.py", GEMM, "", f"gemm({size}, {dtype!r})").program


def of(program, operations: float, moved: float, seconds: float, known: dict[int, int] = H200) -> float | None:
    return share(program, chips.find("sm_90a"), Driver(known), operations, moved, seconds)  # type: ignore[arg-type]


def test_a_product_is_held_against_the_tensor_cores() -> None:
    operations, moved = 2.0 * 8192**3, 2 * 8192**2 * 2.0 + 8192**2 * 4.0
    found = of(program(), operations, moved, operations / 700e12)
    assert found == pytest.approx(700e12 / (132 * 2048 * 2 * 1.98e9)) and 0.6 < found < 0.7
    assert of(program("float8_e4m3"), operations, moved, operations / 700e12) == pytest.approx(found / 2)
    assert fastest(program("float32")) == 0.5 and fastest(program("float64")) == 0.0


def test_what_moves_much_is_held_against_the_memory() -> None:
    assert of(program(size=128), 0.0, 4.0e9, 1e-3) == pytest.approx(4e12 / (3.201e9 * 2 * 6144 / 8))


@pytest.mark.parametrize(("operations", "moved", "seconds", "known"), [
    (0.0, 1e12, 1e-3, H200), (1e12, 1e6, 1e-9, H200), (0.0, 1e9, 1e-3, {**H200, 36: 0}), (0.0, 1e9, 0.0, H200), (0.0, 0.0, 1e-3, H200),
])
def test_what_is_not_known_is_not_told(operations: float, moved: float, seconds: float, known: dict[int, int]) -> None:
    assert of(program(), operations, moved, seconds, known) is None


def test_products_of_types_without_a_rate() -> None:
    assert of(program("float64"), 1e9, 1e6, 1e-3) is None


def test_occupancy_is_that_of_the_least_full_kernel() -> None:
    loaded = [(SimpleNamespace(block=(128, 1, 1), shared_bytes=0), 1), (SimpleNamespace(block=(128, 2, 1), shared_bytes=0), 2)]
    assert occupancy(Driver(H200, 4), loaded) == 0.25  # type: ignore[arg-type]
    assert occupancy(Driver(H200, None), loaded) is None  # type: ignore[arg-type]
    assert occupancy(Driver({}, 4), loaded) is None  # type: ignore[arg-type]
