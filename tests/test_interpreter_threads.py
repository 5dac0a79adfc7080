"""Kernels that name their thread run with all threads at once, statement by statement; roles and barriers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from emit_support import prim  # noqa: E402
from tilec.runtime.interpreter import Unsupported, interpret  # noqa: E402


def run(signature: str, body: str, *arguments, kernel: str = "1, threads=64"):
    inner = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return interpret(prim(signature, f"with T.Kernel({kernel}) as bx:\n{inner}\n"), arguments)


def test_each_thread_keeps_its_own_values():
    a, b = torch.randn(3, 64, 4), torch.zeros(3, 64)
    result = run(
        'A: T.Tensor((3, 64, 4), "float32"), B: T.Tensor((3, 64), "float32")',
        """
tx = T.get_thread_binding()
row = T.alloc_local((4,), "float32")
total = T.alloc_local((1,), "float32")
T.clear(total)
T.copy(A[bx, tx, 0:4], row)
for k in T.serial(4):
    total[0] += row[k] * (k + 1)
B[bx, tx] = total[0]
""",
        a,
        b,
        kernel="3, threads=64",
    )
    assert result.faults == []
    torch.testing.assert_close(b, (a * torch.arange(1.0, 5.0)).sum(2))


def test_threads_meet_in_shared_memory_between_barriers():
    a, b = torch.arange(64.0), torch.zeros(64)
    result = run(
        'A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")',
        """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), "float32")
s[tx] = A[tx]
T.sync_threads()
B[tx] = s[63 - tx]
""",
        a,
        b,
    )
    assert result.faults == [] and torch.equal(b, a.flip(0))


def test_loops_and_branches_that_differ_between_threads():
    b = torch.zeros(64, dtype=torch.int32)
    result = run(
        'B: T.Tensor((64,), "int32")',
        """
tx = T.get_thread_binding()
n = T.alloc_local((1,), "int32")
n[0] = 0
for k in T.serial(tx % 5):
    n[0] += k
if tx >= 32:
    n[0] += 100
B[tx] = n[0]
""",
        b,
    )
    assert result.faults == []
    assert b.tolist() == [sum(range(t % 5)) + (100 if t >= 32 else 0) for t in range(64)]


def test_three_dimensions_of_threads():
    b = torch.zeros(2, 4, 8, dtype=torch.int32)
    result = run(
        'B: T.Tensor((2, 4, 8), "int32")',
        """
x, y, z = T.get_thread_binding(0), T.get_thread_binding(1), T.get_thread_binding(2)
B[z, y, x] = z * 100 + y * 10 + x
""",
        b,
        kernel="1, threads=(8, 4, 2)",
    )
    assert result.faults == []
    assert b[1, 3, 7] == 137 and b[0, 2, 1] == 21 and b.unique().numel() == 64


def test_tile_operators_belong_to_the_whole_block():
    a, b = torch.randn(16, 16), torch.zeros(16, 16)
    flag = torch.zeros(1, dtype=torch.int32)
    result = run(
        'A: T.Tensor((16, 16), "float32"), B: T.Tensor((16, 16), "float32"), C: T.Tensor((1,), "int32")',
        """
tx = T.get_thread_binding()
x = T.alloc_fragment((16, 16), "float32")
T.copy(A, x)
for i, j in T.Parallel(16, 16):
    x[i, j] = x[i, j] + 1
T.copy(x, B)
if tx == 0:
    T.atomic_add(C[0], 1)
""",
        a,
        b,
        flag,
    )
    assert result.faults == [] and flag.item() == 1
    torch.testing.assert_close(b, a + 1)


def test_atomics_count_the_threads_that_take_part():
    b = torch.zeros(2, dtype=torch.int32)
    result = run(
        'B: T.Tensor((2,), "int32")',
        """
tx = T.get_thread_binding()
T.atomic_add(B[0], 1)
if tx < 10:
    T.atomic_add(B[1], tx)
""",
        b,
    )
    assert result.faults == [] and b.tolist() == [64, 45]


def test_all_threads_writing_one_place_of_shared_memory_is_refused():
    with pytest.raises(Unsupported, match="all threads write the same place") as refused:
        run(
            'A: T.Tensor((64, 4), "float32"), B: T.Tensor((4,), "float32")',
            """
tx = T.get_thread_binding()
x = T.alloc_local((4,), "float32")
s = T.alloc_shared((4,), "float32")
T.copy(A[tx, 0:4], x)
T.copy(x, s)
T.copy(s, B)
""",
            torch.randn(64, 4),
            torch.zeros(4),
        )
    assert refused.value.span is not None


# -- barriers ---------------------------------------------------------------------------------------------------------------------------
BULK = """
s = T.alloc_shared((8,), "float32")
ready = T.alloc_barrier(1)
for k in T.serial(4):
    T.tma_copy(A[k, 0:8], s, barrier=ready)
    {arrive}
    T.mbarrier_wait_parity(ready, {parity})
    for i in T.Parallel(8):
        B[k, i] = s[i]
"""


@pytest.mark.parametrize(
    "arrive, parity, faulty",
    [
        ("T.barrier_arrive(ready)", "k % 2", False),
        ("T.barrier_arrive(ready)", "(k + 1) % 2", True),
        ("", "k % 2", True),
    ],
)
def test_bulk_copies_announce_bytes_and_the_user_arrives(arrive, parity, faulty):
    a, b = torch.randn(4, 8), torch.zeros(4, 8)
    result = run('A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")', BULK.format(arrive=arrive, parity=parity), a, b)
    assert [f.kind for f in result.faults] == (["barrier"] if faulty else []) or (faulty and {f.kind for f in result.faults} == {"barrier"})
    assert torch.equal(a, b)


PRODUCER_CONSUMER = """
tx = T.get_thread_binding()
s = T.alloc_shared((2, 8), "float32")
full = T.alloc_barrier([64, 64])
free = T.alloc_barrier([64, 64])
if tx < 64:
    for k in T.serial({rounds}):
        T.mbarrier_wait_parity(free[k % 2], (k // 2 + 1) % 2)
        T.copy(A[k, 0:8], s[k % 2, 0:8])
        T.mbarrier_arrive(full[k % 2])
else:
    for k in T.serial({rounds}):
        T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
        T.copy(s[k % 2, 0:8], B[k, 0:8])
        T.mbarrier_arrive(free[k % 2])
"""


def test_roles_that_never_wait_for_each_other_twice():
    a, b = torch.randn(2, 8), torch.zeros(2, 8)
    result = run('A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")', PRODUCER_CONSUMER.format(rounds=2), a, b, kernel="1, threads=128")
    assert result.faults == [] and torch.equal(a, b)


def test_roles_side_by_side_are_refused_and_no_false_alarm():
    with pytest.raises(Unsupported, match="roles of a block") as refused:
        run(
            'A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")',
            PRODUCER_CONSUMER.format(rounds=4),
            torch.randn(4, 8),
            torch.zeros(4, 8),
            kernel="1, threads=128",
        )
    assert refused.value.span is not None


# -- leaving loops ------------------------------------------------------------------------------------------------------------------
def test_iterations_that_skip_the_rest():
    b = torch.full((8,), -1, dtype=torch.int32)
    result = run(
        'B: T.Tensor((8,), "int32")',
        """
for i in T.Parallel(8):
    if i % 2 == 0:
        continue
    B[i] = i
""",
        b,
    )
    assert result.faults == [] and b.tolist() == [-1, 1, -1, 3, -1, 5, -1, 7]


def test_a_loop_goes_on_after_a_parallel_loop_that_skips_everything():
    b = torch.zeros(4, dtype=torch.int32)
    result = run(
        'B: T.Tensor((4,), "int32")',
        """
for k in T.serial(4):
    for i in T.Parallel(4):
        if k < 2:
            continue
        B[i] = k
    B[0] = k + 10
""",
        b,
    )
    assert result.faults == [] and b.tolist() == [13, 3, 3, 3]


def test_threads_leave_loops_and_the_kernel_one_by_one():
    b = torch.full((64,), -1, dtype=torch.int32)
    result = run(
        'B: T.Tensor((64,), "int32")',
        """
tx = T.get_thread_binding()
n = T.alloc_local((1,), "int32")
n[0] = 0
for k in T.serial(10):
    if k == tx:
        break
    if k % 2 == 1:
        continue
    n[0] += 1
B[tx] = n[0]
""",
        b,
    )
    assert result.faults == []
    assert b.tolist() == [sum(k % 2 == 0 for k in range(min(t, 10))) for t in range(64)]


def test_parallel_loops_inside_parallel_loops():
    a, b = torch.randn(4, 6), torch.zeros(4, 6)
    result = run(
        'A: T.Tensor((4, 6), "float32"), B: T.Tensor((4, 6), "float32")',
        """
for i in T.Parallel(4):
    x = A[i, 0]
    if i > 0:
        for j in T.Parallel(6):
            B[i, j] = A[i, j] + x
""",
        a,
        b,
    )
    assert result.faults == []
    expected = a + a[:, :1]
    expected[0] = 0
    torch.testing.assert_close(b, expected)
