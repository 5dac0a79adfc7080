"""Digit algebra and partitions, compared with enumeration."""
from __future__ import annotations

from itertools import product

import pytest
from tilec.analysis.bounds import Ranges
from tilec.analysis.digits import DigitSum, LoopDigits, Part, fragment_access, projected, pulled_back
from tilec.analysis.layout import REGISTER, Digit
from tilec.analysis.partition import row_major_partition, widest_vector
from tilec.ir.build import const
from tilec.ir.expr import Var
from tilec.transform.matrix.layouts import mma_accumulator
from tilec.transform.matrix.partition import WarpGrid


def variables(count):
    return tuple(Var("int32", None, f"i{k}", "loop") for k in range(count))


@pytest.mark.parametrize("extents, threads, vector", [
    ((64, 32), 128, 8), ((100,), 128, 1), ((7, 12), 32, 4), ((1, 300), 96, 4), ((3, 5, 8), 64, 2), ((2,), 64, 1)])
def test_a_partition_visits_every_iteration_once_per_copy(extents, threads, vector):
    layout = row_major_partition(extents, threads, vector)
    assert layout.threads == threads
    copies = 1
    for r in layout.replicas:
        copies *= r.extent
    seen: dict[tuple[int, ...], int] = {}
    for t, r in product(range(threads), range(layout.registers)):
        index = layout.index_of(t, r)
        if all(i < e for i, e in zip(index, extents)):
            seen[index] = seen.get(index, 0) + 1
    assert set(seen) == set(product(*map(range, extents)))
    assert set(seen.values()) == {copies}


def test_vectors_divide_the_last_extent_and_leave_every_thread_work():
    assert widest_vector((128, 64), 128, 8) == 8
    assert widest_vector((1, 256), 128, 8) == 2
    assert widest_vector((8, 6), 4, 8) == 2


def value(total: DigitSum, digits: dict[Digit, int]) -> int:
    return total.constant + sum(p.weight * (digits[p.digit] // p.below % p.extent) for p in total.parts if p.digit is not None)


@pytest.mark.parametrize("stride, extent", [
    (1, 4), (2, 2), (4, 8), (2, 8), (8, 2), (3, 2), (1, None), (4, None)])
@pytest.mark.parametrize("constant", [0, 1, 8])
def test_digits_of_sums(stride, extent, constant):
    low, high = Digit(0, 4, 1, REGISTER, 1), Digit(0, 8, 4, REGISTER, 4)
    total = DigitSum((Part(1, 4, low), Part(4, 8, high)), constant)
    found = total.digit(stride, extent)
    if found is None:
        assert constant or stride == 3  # a carry, or a stride that digits of powers of two do not have
        return
    for a, b in product(range(4), range(8)):
        expected = (a + 4 * b + constant) // stride
        assert value(found, {low: a, high: b}) == (expected if extent is None else expected % extent)


def holds(layout, thread, index):
    """Whether a thread holds an element."""
    return any(layout.index_of(thread, r) == index for r in range(layout.registers))


def test_access_to_a_fragment_is_direct_exactly_where_threads_agree():
    fragment = mma_accumulator(32, 32, WarpGrid(2, 1))
    i, j = variables(2)
    same = pulled_back(fragment, (i, j), (i, j), (32, 32))
    assert same is not None
    access = fragment_access(fragment, (i, j), LoopDigits((i, j), same, Ranges()))
    assert access.reads and access.writes
    turned = fragment_access(fragment, (j, i), LoopDigits((i, j), same, Ranges()))
    assert not turned.reads
    other = fragment_access(fragment, (i, j), LoopDigits((i, j), row_major_partition((32, 32), 64, 4), Ranges()))
    assert not other.reads


def test_a_projected_fragment_is_held_by_every_thread_that_needs_it():
    loop = mma_accumulator(32, 32, WarpGrid(2, 1))
    i, j = variables(2)
    rows = projected(loop, (i,), (i, j), (32,), 64)
    assert rows is not None and rows.threads == 64
    access = fragment_access(rows, (i,), LoopDigits((i, j), loop, Ranges()))
    assert access.reads and not access.writes  # the iterations of a row, on several threads, would all write it
    for t, r in product(range(64), range(loop.registers)):
        assert holds(rows, t, loop.index_of(t, r)[:1])


def test_a_loop_over_a_piece_of_a_fragment_runs_where_the_piece_is():
    fragment = mma_accumulator(32, 64, WarpGrid(2, 1))
    i, j, step = variables(3)
    ranges = Ranges()
    ranges.set_extent(step, const(8))
    loop = pulled_back(fragment, (i, step * 8 + j), (i, j), (32, 8), ranges)
    assert loop is not None and loop.threads == fragment.threads and loop.registers == 4
    access = fragment_access(fragment, (i, step * 8 + j), LoopDigits((i, j), loop, ranges))
    assert access.reads and access.writes
    # Pieces that are no whole number of the threads' columns lie on other threads in each step; a step of unknown range may leave the tile.
    for index, columns, known in ((step * 2 + j, 2, ranges), (step * 8 + j, 8, Ranges())):
        other = pulled_back(fragment, (i, index), (i, j), (32, columns), known)
        assert other is None or not fragment_access(fragment, (i, index), LoopDigits((i, j), other, known)).reads


def test_a_loop_over_a_fragment_in_another_shape_runs_where_its_elements_are():
    fragment = mma_accumulator(32, 64, WarpGrid(1, 2))
    i, j, k = variables(3)
    flat = (i * 2 + j) * 32 + k
    loop = pulled_back(fragment, (flat // 64, flat % 64), (i, j, k), (32, 2, 32))
    assert loop is not None
    for t, r in product(range(loop.threads), range(loop.registers)):
        a, b, c = loop.index_of(t, r)
        assert holds(fragment, t, (a, b * 32 + c))
    assert pulled_back(fragment, (flat // 64, flat % 64), (i, j, k), (32, 1, 32)) is None  # half of the columns: some threads hold none


@pytest.mark.parametrize("divisor", [2, 4, 8, 16])
def test_a_fragment_read_at_a_quotient_is_held_where_it_is_needed(divisor):
    """As packed numbers are, and scales of groups."""
    loop = mma_accumulator(32, 64, WarpGrid(2, 1))
    i, j = variables(2)
    held = projected(loop, (i, j // divisor), (i, j), (32, 64 // divisor), 64)
    assert held is not None and held.threads == 64
    for t, r in product(range(64), range(loop.registers)):
        a, b = loop.index_of(t, r)
        assert holds(held, t, (a, b // divisor))
    access = fragment_access(held, (i, j // divisor), LoopDigits((i, j), loop, Ranges()))
    assert access.reads
    assert projected(loop, (i, j // 3), (i, j), (32, 21), 64) is None
