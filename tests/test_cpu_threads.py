"""Kernels that name their threads, on the CPU: what threads do for themselves, where they meet, what they exchange. Each is compared with the reference
interpreter, with the CUDA run thread by thread, and with what it should give."""
from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tvm")

from emit_support import on_cpu, prim  # noqa: E402
from three_ways import agree  # noqa: E402
from tilec.transform.errors import LoweringError  # noqa: E402

PAIR = "A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')"
WHOLE = "A: T.Tensor((64,), 'int32'), B: T.Tensor((64,), 'int32')"


def program(signature, body, kernel="1, threads=64"):
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return prim(signature, f"with T.Kernel({kernel}) as bx:\n{lines}\n")


def same(signature, body, *arguments, kernel="1, threads=64", interpreter=True, threads=True):
    agree(program(signature, body, kernel), *arguments, interpreter=interpreter, threads=threads)
    return arguments[-1]


def integers(*shape, low=-8, high=8):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3)).float()


# -- meeting in shared memory ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sync", ["T.sync_threads()", ""], ids=["sync", "TileLang's own"])
def test_a_neighbours_element(sync):
    a = integers(64)
    b = same(PAIR, f"""
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
s[tx] = A[tx] * 2
{sync}
B[tx] = s[63 - tx] + s[tx]
""", a, torch.zeros(64))
    assert torch.equal(b, a.flip(0) * 2 + a * 2)


def test_a_tree_of_sums():
    a = integers(256)
    b = same("A: T.Tensor((256,), 'float32'), B: T.Tensor((4,), 'float32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
s[tx] = A[bx * 64 + tx]
T.sync_threads()
for k in T.serial(6):
    if tx < (32 >> k):
        s[tx] = s[tx] + s[tx + (32 >> k)]
    T.sync_threads()
if tx == 0:
    B[bx] = s[0]
""", a, torch.zeros(4), kernel="4, threads=64")
    assert torch.equal(b, a.view(4, 64).sum(1))


def test_a_scan_whose_step_doubles():
    a = torch.arange(64, dtype=torch.int32) % 7
    b = same(WHOLE, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'int32')
d = T.alloc_var('int32')
s[tx] = A[tx]
d = 1
while d < 64:
    v = T.alloc_local((1,), 'int32')
    v[0] = 0
    if tx >= d:
        v[0] = s[tx - d]
    T.sync_threads()
    s[tx] += v[0]
    T.sync_threads()
    d = d * 2
B[tx] = s[tx]
""", a, torch.zeros(64, dtype=torch.int32))
    assert torch.equal(b, a.cumsum(0).int())


def test_two_dimensions_of_threads_turn_a_tile():
    a = integers(32, 32)
    b = same("A: T.Tensor((32, 32), 'float32'), B: T.Tensor((32, 32), 'float32')", """
tx = T.get_thread_binding(0)
ty = T.get_thread_binding(1)
s = T.alloc_shared((32, 33), 'float32')
for j in T.serial(4):
    s[ty + j * 8, tx] = A[ty + j * 8, tx]
T.sync_threads()
for j in T.serial(4):
    B[ty + j * 8, tx] = s[tx, ty + j * 8]
""", a, torch.zeros(32, 32), kernel="1, threads=(32, 8)")
    assert torch.equal(b, a.T)


def test_threads_meet_in_global_memory():
    a = integers(64)
    b = same(PAIR, """
tx = T.get_thread_binding()
B[tx] = A[tx] + 1
T.sync_threads()
x = B[63 - tx]
T.sync_threads()
B[tx] = x
""", a, torch.zeros(64))
    assert torch.equal(b, a.flip(0) + 1)


# -- what a thread keeps ------------------------------------------------------------------------------------------------------
def test_names_arrays_and_variables_live_across_a_meeting():
    a = integers(64)
    b = same(PAIR, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
r = T.alloc_local((2,), 'float32')
n = T.alloc_var('int32')
x = A[tx] * 2
n = tx * 3
for k in T.serial(2):
    r[k] = x + k
for k in T.serial(4):
    s[tx] = r[k % 2]
    T.sync_threads()
    r[k % 2] = s[(tx + 1) % 64]
    T.sync_threads()
B[tx] = r[0] + r[1] + x + n
""", a, torch.zeros(64))
    assert torch.equal(b, a.roll(-2) * 4 + 1 + a * 2 + torch.arange(64) * 3)


def test_a_value_read_before_it_is_overwritten():
    a = integers(64)
    b = same(PAIR, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
s[tx] = A[tx]
T.sync_threads()
first = s[0]
mine = s[63 - tx]
T.sync_threads()
s[tx] = first + mine
T.sync_threads()
B[tx] = s[tx] + first
""", a, torch.zeros(64))
    assert torch.equal(b, a.flip(0) + 2 * a[0])


def test_counters_of_the_block_between_what_threads_do():
    b = same("B: T.Tensor((64,), 'int32')", """
tx = T.get_thread_binding()
n = T.alloc_var('int32')
B[tx] = 0
n = 5
for k in T.serial(3):
    B[tx] += n * tx
    n = n + k
B[tx] += n
""", torch.zeros(64, dtype=torch.int32))
    assert b.tolist() == [t * (5 + 5 + 6) + 8 for t in range(64)]


def test_a_variable_starts_anew_in_every_round():
    b = same("B: T.Tensor((4, 64), 'int32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'int32')
for k in T.serial(4):
    v = T.alloc_var('int32', init=3)
    if tx > k:
        v = tx
    s[tx] = v
    T.sync_threads()
    B[k, tx] = s[63 - tx] + v
    T.sync_threads()
""", torch.zeros(4, 64, dtype=torch.int32))
    v = torch.stack([torch.where(torch.arange(64) > k, torch.arange(64), 3) for k in range(4)])
    assert torch.equal(b, (v + v.flip(1)).int())


# -- some of the threads ------------------------------------------------------------------------------------------------------
def test_one_thread_works_for_all():
    a = integers(64)
    b = same(PAIR, """
tx = T.get_thread_binding()
s = T.alloc_shared((1,), 'float32')
if tx == 0:
    s[0] = 0
    for i in T.serial(64):
        s[0] += A[i]
T.sync_threads()
B[tx] = s[0] + tx
""", a, torch.zeros(64))
    assert torch.equal(b, a.sum() + torch.arange(64.0))


def test_branches_in_which_threads_meet():
    a = integers(64)
    b = same(PAIR, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
s[tx] = A[tx]
T.sync_threads()
if tx < 32:
    x = s[31 - tx]
    T.sync_warp()
    if tx < 16:
        s[tx] = x
        T.sync_warp()
        B[tx] = s[15 - tx]
    else:
        B[tx] = x * 2
else:
    B[tx] = s[tx] * 3
""", a, torch.zeros(64), threads=False)
    x = a[:32].flip(0)
    assert torch.equal(b, torch.cat([x[:16].flip(0), x[16:] * 2, a[32:] * 3]))


def test_a_condition_that_changes_in_its_branch():
    b = same("B: T.Tensor((64,), 'int32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'int32')
n = T.alloc_local((1,), 'int32')
n[0] = tx % 2
s[tx] = 0
T.sync_threads()
if n[0] == 0:
    n[0] = 1
    s[tx] = tx
    T.sync_warp()
    B[tx] = s[tx] + 100
else:
    n[0] = 0
    B[tx] = 7
""", torch.zeros(64, dtype=torch.int32), threads=False)
    assert b.tolist() == [t + 100 if t % 2 == 0 else 7 for t in range(64)]


def test_a_tile_copied_by_some_threads_is_copied_once():
    a = integers(64)
    b = same(PAIR, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
if tx < 32:
    T.copy(A, s)
T.sync_threads()
B[tx] = s[63 - tx]
""", a, torch.zeros(64), threads=False)
    assert torch.equal(b, a.flip(0))


def test_threads_leave_loops_one_by_one():
    b = same("B: T.Tensor((64,), 'int32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'int32')
n = T.alloc_local((1,), 'int32')
n[0] = 0
for k in T.serial(10):
    if k == tx:
        break
    if k % 2 == 1:
        continue
    n[0] += 1
s[tx] = n[0]
T.sync_threads()
B[tx] = s[63 - tx]
""", torch.zeros(64, dtype=torch.int32), threads=False)
    assert b.tolist() == [sum(k % 2 == 0 for k in range(min(63 - t, 10))) for t in range(64)]


def test_threads_that_are_through():
    b = same("B: T.Tensor((64,), 'float32')", """
tx = T.get_thread_binding()
n = T.alloc_local((1,), 'float32')
n[0] = 1
if tx >= 10:
    T.thread_return()
n[0] = n[0] + tx
B[tx] = n[0]
""", torch.zeros(64))
    assert b.tolist() == [t + 1 if t < 10 else 0 for t in range(64)]


def test_what_does_not_depend_on_the_thread_is_done_once():
    a, b = torch.zeros(4), torch.zeros(64)
    same("A: T.Tensor((4,), 'float32'), B: T.Tensor((64,), 'float32')", """
tx = T.get_thread_binding()
B[tx] = tx
A[0] = A[0] + 1
""", a, b)
    assert a.tolist() == [1, 0, 0, 0]


# -- tiles beside threads -----------------------------------------------------------------------------------------------------
def test_rows_of_a_tile_in_each_threads_own_array():
    a = integers(64, 4)
    b = same("A: T.Tensor((64, 4), 'float32'), B: T.Tensor((64, 4), 'float32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((64, 4), 'float32')
row = T.alloc_local((4,), 'float32')
T.copy(A, s)
T.copy(s[tx, 0:4], row)
for k in T.serial(4):
    row[k] = row[k] * 2 + tx
T.sync_threads()
T.copy(row, s[63 - tx, 0:4])
T.copy(s, B)
""", a, torch.zeros(64, 4))
    assert torch.equal(b, (a * 2 + torch.arange(64.0)[:, None]).flip(0))


def test_a_product_of_what_threads_put_together():
    a = integers(16, 16).half()
    b = same("A: T.Tensor((16, 16), 'float16'), B: T.Tensor((16, 16), 'float32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((16, 16), 'float16')
c = T.alloc_fragment((16, 16), 'float32')
for k in T.serial(4):
    s[(tx + k * 64) // 16, tx % 16] = A[(tx + k * 64) // 16, tx % 16] + 1
T.clear(c)
T.gemm(s, s, c)
for i, j in T.Parallel(16, 16):
    c[i, j] = c[i, j] + i
T.copy(c, B)
""", a, torch.zeros(16, 16), threads=False)
    assert torch.equal(b, (a.float() + 1) @ (a.float() + 1) + torch.arange(16.0)[:, None])


def test_a_histogram():
    a = torch.arange(256, dtype=torch.int32) ** 2
    b = same("A: T.Tensor((256,), 'int32'), B: T.Tensor((8,), 'int32')", """
tx = T.get_thread_binding()
h = T.alloc_shared((8,), 'int32')
if tx < 8:
    h[tx] = 0
T.sync_threads()
T.atomic_add(h[A[bx * 64 + tx] % 8], 1)
T.sync_threads()
if tx < 8:
    T.atomic_add(B[tx], h[tx])
""", a, torch.zeros(8, dtype=torch.int32), kernel="4, threads=64")
    assert torch.equal(b, torch.bincount(a % 8, minlength=8).int())


# -- exchange between threads -------------------------------------------------------------------------------------------------
LANES = torch.arange(64) % 32


@pytest.mark.parametrize("call, source", [
    ("T.shfl_xor(x, 5)", LANES ^ 5), ("T.shfl_xor(x, 16)", LANES ^ 16), ("T.shfl_down(x, 3)", torch.where(LANES + 3 < 32, LANES + 3, LANES)),
    ("T.shfl_up(x, 7)", torch.where(LANES >= 7, LANES - 7, LANES)), ("T.shfl_sync(x, 9)", LANES * 0 + 9), ("T.shfl_sync(x, (tx * 3) % 32)", (torch.arange(64) * 3) % 32),
    ("T.shfl_down(x, 3, 8)", torch.where(LANES % 8 < 5, LANES + 3, LANES)), ("T.shfl_up(x, 1, 4)", torch.where(LANES % 4 >= 1, LANES - 1, LANES)),
    ("T.shfl_xor(x, 2, 8)", LANES ^ 2), ("T.shfl_sync(x, 3, 16)", LANES // 16 * 16 + 3),
])
def test_shuffles(call, source):
    a = integers(64)
    b = same(PAIR, f"""
tx = T.get_thread_binding()
x = A[tx] + 1
B[tx] = {call} * 2 + x
""", a, torch.zeros(64), interpreter=False, threads=False)
    assert torch.equal(b, (a + 1)[torch.arange(64) // 32 * 32 + source] * 2 + a + 1)


def test_a_sum_over_a_block_by_warps():
    a = integers(128)
    b = same("A: T.Tensor((128,), 'float32'), B: T.Tensor((1,), 'float32')", """
tx = T.get_thread_binding()
s = T.alloc_shared((4,), 'float32')
v = T.alloc_local((1,), 'float32')
v[0] = A[tx]
for k in T.serial(5):
    v[0] += T.shfl_xor(v[0], 16 >> k)
if tx % 32 == 0:
    s[tx // 32] = v[0]
T.sync_threads()
if tx < 32:
    p = T.if_then_else(tx < 4, s[tx % 4], T.float32(0))
    q = T.warp_reduce_sum(p)
    if tx == 0:
        B[0] = q
""", a, torch.zeros(1), kernel="1, threads=128", interpreter=False, threads=False)
    assert b.item() == a.sum().item()


@pytest.mark.parametrize("name, combine", [("sum", lambda x: x.sum(1)), ("max", lambda x: x.amax(1)), ("min", lambda x: x.amin(1))])
def test_warp_reductions(name, combine):
    a = integers(64)
    b = same(PAIR, f"""
tx = T.get_thread_binding()
B[tx] = T.warp_reduce_{name}(A[tx])
""", a, torch.zeros(64), interpreter=False, threads=False)
    assert torch.equal(b, combine(a.view(2, 32)).repeat_interleave(32))


def test_votes():
    a = integers(64).int()
    b, c, d = torch.zeros(64, dtype=torch.int64), torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    same("A: T.Tensor((64,), 'int32'), B: T.Tensor((64,), 'int64'), C: T.Tensor((64,), 'int32'), D: T.Tensor((64,), 'int32')", """
tx = T.get_thread_binding()
B[tx] = T.cast(T.ballot_sync(A[tx] > 0), 'int64')
C[tx] = T.any_sync(A[tx] > 6) * 10 + T.all_sync(A[tx] > -8)
D[tx] = T.syncthreads_count(A[tx] > 0) * 100 + T.syncthreads_and(A[tx] > -9) * 10 + T.syncthreads_or(A[tx] > 8)
""", a, b, c, d, interpreter=False, threads=False)
    warps = a.view(2, 32)
    assert b.view(2, 32)[:, 0].tolist() == [sum(1 << k for k in range(32) if w[k] > 0) for w in warps] and (b.view(2, 32) == b.view(2, 32)[:, :1]).all()
    assert torch.equal(c.view(2, 32)[:, 0], ((warps > 6).any(1) * 10 + (warps > -8).all(1)).int())
    assert set(d.tolist()) == {int((a > 0).sum()) * 100 + 10}


def test_an_elected_thread_copies():
    a = integers(64)
    b = same(PAIR, """
s = T.alloc_shared((64,), 'float32')
if T.shuffle_elect(64):
    T.copy(A, s)
T.sync_threads()
T.copy(s, B)
""", a, torch.zeros(64), interpreter=False, threads=False)
    assert torch.equal(b, a)


# -- programs made at random ---------------------------------------------------------------------------------------------------
class Made:
    """Statements of threads over two shared tiles, an array, a variable and names of their own; loops and branches; sometimes a tile operator."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = 0

    def text(self):
        head = ["tx = T.get_thread_binding()", "s0 = T.alloc_shared((64,), 'int32')", "s1 = T.alloc_shared((64,), 'int32')", "f = T.alloc_fragment((64,), 'int32')",
                "r = T.alloc_local((2,), 'int32')", "n = T.alloc_var('int32')", "u = T.alloc_var('int32')",
                "s0[tx] = A[tx]", "s1[tx] = tx", "r[0] = tx % 5", "r[1] = A[63 - tx]", "u = 2"]
        tail = ["B[tx] = s0[tx] + s1[63 - tx] * 3 + r[0] + r[1] + n + u"]
        return "\n".join(head + self.body(self.r.randint(3, 7), 0, [], False) + tail)

    def body(self, count, depth, names, some):
        """``some``: not all threads come by, so that the block does nothing together."""
        out, names = [], list(names)
        for _ in range(count):
            out += self.statement(depth, names, some)
        return out

    def statement(self, depth, names, some):
        kind = self.r.random()
        if kind < 0.3:
            return [f"s{self.r.randint(0, 1)}[tx] = {self.value(names)}"]
        if kind < 0.45:
            return [f"r[{self.r.randint(0, 1)}] = {self.value(names)}"]
        if kind < 0.55:
            return [f"n = {self.value(names)}"]
        if kind < 0.65 and not some:
            return [self.r.choice(["T.copy(s0, f)\nT.copy(f, s1)", "for i in T.Parallel(64):\n    s0[i] = s0[i] + s1[63 - i]", "u = u + s0[3] % 3", "T.copy(s1, s0)",
                                   "s0[5] = s1[7] + u"])]
        if kind < 0.75 or depth > 1:
            name = f"x{self.names}"
            self.names += 1
            made = [f"{name} = {self.value(names)}"]
            names.append(name)
            return made
        if kind < 0.8:
            return ["T.sync_threads()" if not some else "T.sync_warp()"]
        if kind < 0.9:
            return [f"for k{depth} in T.serial({self.r.randint(1, 3)}):", *self.inner(self.body(self.r.randint(1, 3), depth + 1, [*names, f"k{depth}"], some))]
        made = [f"if {self.condition(names)}:", *self.inner(self.body(self.r.randint(1, 3), depth + 1, names, True))]
        return made if self.r.random() < 0.5 else [*made, "else:", *self.inner(self.body(self.r.randint(1, 2), depth + 1, names, True))]

    def inner(self, lines):
        return ["    " + line for text in lines for line in text.split("\n")]

    def condition(self, names):
        return self.r.choice(["tx < 20", "tx % 3 == 1", "r[0] > 2", "s0[tx] > s1[tx]", "n > 4", f"{self.value(names)} > 3"])

    def value(self, names):
        leaf = lambda: self.r.choice(["tx", "s0[tx]", "s1[tx]", "s0[63 - tx]", "s1[(tx + 1) % 64]", "s0[0]", "r[0]", "r[1]", "n", "u", "A[tx]", "3", *names])  # noqa: E731
        return f"({leaf()} {self.r.choice(['+', '-', '+'])} {leaf()}) % 17"


@pytest.mark.parametrize("seed", range(12))
def test_programs_made_at_random(seed):
    text = Made(seed).text()
    a = torch.arange(64, dtype=torch.int32) * 7 % 23
    try:
        same(WHOLE, text, a, torch.zeros(64, dtype=torch.int32), threads=False)
    except LoweringError as error:
        pytest.fail(f"{error}\n{text}")


# -- what needs threads that run at once --------------------------------------------------------------------------------------
REFUSED = {
    "round this loop a different number of times": ("B: T.Tensor((64,), 'float32')", 3, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'float32')
for k in T.serial(tx % 3):
    s[tx] = k
    T.sync_threads()
    B[tx] = s[63 - tx]
"""),
    "asks which threads run at the moment": ("B: T.Tensor((64,), 'int32')", 2, """
tx = T.get_thread_binding()
B[tx] = T.cast(T.match_any_sync(tx % 4), 'int32')
"""),
    "groups of threads wait for each other": ("A: T.Tensor((2, 8), 'float32'), B: T.Tensor((2, 8), 'float32')", 6, """
tx = T.get_thread_binding()
s = T.alloc_shared((2, 8), 'float32')
full = T.alloc_barrier([32, 32])
if tx < 32:
    for k in T.serial(2):
        T.mbarrier_wait_parity(full[k % 2], (k // 2 + 1) % 2)
        T.copy(A[k, 0:8], s[k % 2, 0:8])
        T.mbarrier_arrive(full[k % 2])
"""),
    "some threads leave at this break": (WHOLE, 6, """
tx = T.get_thread_binding()
s = T.alloc_shared((64,), 'int32')
for k in T.serial(8):
    s[tx] = A[tx] + k
    if s[tx] > 9:
        break
    T.sync_threads()
    B[tx] = s[63 - tx]
    T.sync_threads()
"""),
    "done by the block as a whole": (PAIR, 4, """
tx = T.get_thread_binding()
x = T.alloc_local((4,), 'float32')
x[0] = A[tx]
for i in T.Parallel(64):
    B[i] = x[0]
"""),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_cpu_cannot_do_is_told_at_its_line(why):
    signature, line, body = REFUSED[why]
    made = program(signature, body)
    with pytest.raises(LoweringError, match=why) as refused:
        on_cpu(made)
    assert "CUDA target" in str(refused.value) and refused.value.span is not None
    assert refused.value.span.line - made.launches()[0].span.line == line
