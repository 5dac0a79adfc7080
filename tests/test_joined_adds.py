"""Atomic additions to neighbours become one instruction where the first place is aligned and all lanes are added or none."""
from __future__ import annotations

import re

import numpy as np
import pytest
from emit_support import for_target, prim
from transform_support import execute, lowered, numbers

ROWS, COLUMNS = 6, 64


def kernel(index="d * 4", columns=COLUMNS, op="T.atomic_addx4(D[I[r], {index}], s[r, d * 4])", dtype="float32", width=4):
    """Rows of a tile added to rows of a tensor that another one names; numbers out of range name none."""
    return prim(f"A: T.Tensor((16, {columns}), '{dtype}'), I: T.Tensor((16,), 'int32'), D: T.Tensor(({ROWS}, {columns}), '{dtype}')", f"""
    with T.Kernel(1, threads=64) as b:
        s = T.alloc_shared((16, {columns}), '{dtype}')
        T.copy(A, s)
        for r, d in T.Parallel(16, {columns} // {width}):
            {op.format(index=index)}
    """)


def functions(made, target="sm_90a"):
    text = for_target(made, target).text("cuda")
    return re.findall(r"(tile_atomic_add_\w+)\(&", text)


def expected(a, rows, d):
    total = d.copy()
    for k, r in enumerate(rows):
        if 0 <= r < ROWS:
            total[r] += a[k]
    return total


def test_four_at_rows_that_are_looked_up():
    made = kernel()
    assert functions(made) == ["tile_atomic_add_float32x4"]
    text = for_target(made, "sm_90a").text("cuda")
    assert re.search(r"reinterpret_cast<const uint4\*>\(&s\[", text), "what is added is read at once"
    a, d = numbers((16, COLUMNS)), numbers((ROWS, COLUMNS), seed=1)
    rows = np.array([0, 3, 9, -1, 5, 0, 2, 6, 1, 1, 1, -7, 4, 3, 5, 2], dtype=np.int32)
    got = execute(lowered(made, "sm_90a"), A=a, I=rows, D=d)["D"]
    np.testing.assert_array_equal(got, expected(a, rows, d))


@pytest.mark.parametrize("index, columns", [("d * 4 + 1", 64), ("d * 4", 66), ("d * 3", 64)])
def test_places_that_are_not_aligned_are_added_one_by_one(index, columns):
    made = kernel(index, columns)
    assert set(functions(made)) <= {"tile_atomic_add_float32", "tile_atomic_add_float32x2"}
    a, d = numbers((16, columns)), numbers((ROWS, columns), seed=1)
    rows = np.arange(16, dtype=np.int32) % 8
    after = execute(lowered(made, "sm_90a"), A=a, I=rows, D=d)["D"]
    total = d.copy().reshape(-1)
    for r in range(16):
        for q in range(columns // 4):
            for k in range(4):
                at = eval(index, {"d": q}) + k
                if rows[r] < ROWS and at < columns:
                    total[rows[r] * columns + at] += a[r, q * 4 + k]
    np.testing.assert_array_equal(after.reshape(-1), total)


def test_chips_without_the_instruction_add_one_by_one():
    assert set(functions(kernel(), "sm_80")) == {"tile_atomic_add_float32"}


def test_pairs_of_halves():
    made = kernel("d * 2", op="T.atomic_addx2(D[I[r], {index}], s[r, d * 2])", dtype="float16", width=2)
    assert functions(made) == ["tile_atomic_add_float16x2"]
    a, d = numbers((16, COLUMNS), "float16"), np.zeros((ROWS, COLUMNS), np.float32)
    rows = np.array([k % 7 for k in range(16)], dtype=np.int32)
    got = execute(lowered(made, "sm_90a"), A=a, I=rows, D=d)["D"]
    np.testing.assert_allclose(got, expected(a, rows, d), rtol=1e-2)


def test_lanes_under_conditions_of_their_own_stay_apart():
    made = kernel(op="T.atomic_add(D[I[r], d * 4], s[r, d * 4])\n            if s[r, d * 4 + 1] > 0:\n                T.atomic_add(D[I[r], d * 4 + 1], s[r, d * 4 + 1])")
    assert set(functions(made)) == {"tile_atomic_add_float32"}


def test_what_reads_the_tensor_itself_stays_apart():
    made = kernel(op="T.atomic_add(D[r, d * 4], D[r, d * 4 + 1])\n            T.atomic_add(D[r, d * 4 + 1], D[r, d * 4])")
    assert set(functions(made)) == {"tile_atomic_add_float32"}
