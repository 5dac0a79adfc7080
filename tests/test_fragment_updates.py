"""Iterations of several threads that update one element of a fragment: the CPU, the interpreter and the thread program, against torch."""
from __future__ import annotations

import pytest
import torch
from emit_support import prim
from three_ways import agree, three_ways
from tilec.pipeline import compile_program
from tilec.target.chips import find
from tilec.transform.errors import LoweringError

OPERATIONS = {"sum": ("y[{i}] += x[r, c]", torch.sum), "max": ("y[{i}] = T.max(y[{i}], x[r, c])", torch.amax), "min": ("y[{i}] = T.min(x[r, c], y[{i}])", torch.amin)}


def grouped(dtype: str, update: str, threads: int = 128, start: str = "0", atomic: bool = False):
    return prim(f"X: T.Tensor((16, 280), '{dtype}'), Y: T.Tensor((16, 10), '{dtype}')", f"""
    with T.Kernel(1, threads={threads}):
        x = T.alloc_fragment((16, 280), '{dtype}')
        y = T.alloc_fragment((16, 10), '{dtype}')
        T.copy(X, x)
        T.fill(y, {start})
        for r, c in T.Parallel(16, 280):
            {update}
        T.copy(y, Y)
    """)


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint32"])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("threads", [32, 128, 96])
def test_groups_of_columns(dtype, name, threads):
    text, torch_way = OPERATIONS[name]
    x = torch.randint(0, 50, (16, 280)).to(getattr(torch, dtype))
    y = torch.zeros(16, 10, dtype=x.dtype)
    agree(grouped(dtype, text.format(i="r, c // 28"), threads, "7"), x, y)
    grouped_x = x.to(torch.int64).reshape(16, 10, 28)
    want = grouped_x.sum(2) + 7 if name == "sum" else torch_way(torch.cat([grouped_x, torch.full((16, 10, 1), 7)], 2), 2)
    assert torch.equal(y.to(torch.int64), want)


def test_atomics_on_a_fragment_are_updates():
    x, y = torch.randint(0, 50, (16, 280)).to(torch.int32), torch.zeros(16, 10, dtype=torch.int32)
    agree(grouped("int32", "T.atomic_add(y[r, c // 28], x[r, c])"), x, y)
    assert torch.equal(y, x.reshape(16, 10, 28).sum(2).to(torch.int32))


def test_an_atomic_on_the_own_element():
    x, y = torch.randint(0, 50, (128,)).to(torch.int32), torch.zeros(128, dtype=torch.int32)
    three_ways("X: T.Tensor((128,), 'int32'), Y: T.Tensor((128,), 'int32')", """
    with T.Kernel(1, threads=64):
        y = T.alloc_fragment((128,), 'int32')
        T.fill(y, 3)
        for i in T.Parallel(128):
            T.atomic_add(y[i], X[i])
            T.atomic_max(y[i], 20)
        T.copy(y, Y)
    """, x, y)
    assert torch.equal(y, torch.clamp(x + 3, min=20))


def test_a_histogram():
    x, y = torch.randint(0, 64, (1024,)).to(torch.int32), torch.zeros(64, dtype=torch.int32)
    three_ways("X: T.Tensor((1024,), 'int32'), Y: T.Tensor((64,), 'int32')", """
    with T.Kernel(1, threads=128):
        y = T.alloc_fragment((64,), 'int32')
        T.clear(y)
        for i in T.Parallel(1024):
            y[X[i]] += 1
        T.copy(y, Y)
    """, x, y)
    assert torch.equal(y.to(torch.int64), torch.bincount(x, minlength=64))


def test_one_element_in_a_loop_and_under_a_condition():
    x, y = torch.randint(-9, 9, (4, 256)).to(torch.int32), torch.zeros(2, dtype=torch.int32)
    three_ways("X: T.Tensor((4, 256), 'int32'), Y: T.Tensor((2,), 'int32')", """
    with T.Kernel(1, threads=128):
        acc = T.alloc_fragment((2,), 'int32')
        T.clear(acc)
        for k in T.serial(4):
            for i in T.Parallel(256):
                if X[k, i] > 0:
                    acc[0] += X[k, i]
                else:
                    acc[1] -= X[k, i]
        T.copy(acc, Y)
    """, x, y)
    assert y.tolist() == [int(x[x > 0].sum()), -int(x[x < 0].sum())]


@pytest.mark.parametrize("op, want", [("|", 0), ("&", 1), ("^", 2)])
def test_bits(op, want):
    x, y = torch.randint(0, 1 << 30, (16, 280)).to(torch.int32), torch.zeros(16, 10, dtype=torch.int32)
    agree(grouped("int32", f"y[r, c // 28] {op}= x[r, c]", start="12345"), x, y)
    expected = torch.full((16, 10), 12345, dtype=torch.int32)
    for k in range(28):
        part = x.reshape(16, 10, 28)[:, :, k]
        expected = (expected | part, expected & part, expected ^ part)[want]
    assert torch.equal(y, expected)


def test_products_and_half_precision():
    x, y = torch.randint(1, 3, (16, 280)).to(torch.float16), torch.zeros(16, 10, dtype=torch.float16)
    agree(grouped("float16", "y[r, c // 28] += x[r, c]", start="0.5"), x, y)
    assert torch.equal(y.float(), x.float().reshape(16, 10, 28).sum(2) + 0.5)
    x, y = torch.where(torch.rand(16, 280) < 0.1, 2.0, 1.0), torch.zeros(16, 10)
    agree(grouped("float32", "y[r, c // 28] *= x[r, c]", start="3"), x, y)
    assert torch.equal(y, x.reshape(16, 10, 28).prod(2) * 3)


@pytest.mark.parametrize("update", ["y[r, c // 28] = y[r, c // 28] * 2 + x[r, c]", "y[r, c // 28] = x[r, c] - y[r, c // 28]",
                                    "y[r, c // 28] += y[r, (c // 28 + 1) % 10]"])
def test_what_depends_on_the_order_is_refused(update):
    with pytest.raises(LoweringError, match="Several iterations of this loop update one element"):
        compile_program(grouped("int32", update), find("sm_90a")).text("cuda")


def test_other_uses_in_the_loop_are_refused():
    program = grouped("int32", "y[r, c // 28] += x[r, c]\n            x[r, c] = y[r, c // 28]")
    with pytest.raises(LoweringError, match="Several iterations of this loop update one element"):
        compile_program(program, find("sm_90a")).text("cuda")
