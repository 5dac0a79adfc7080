"""tcgen05 programs executed by a model of the PTX ISA: descriptors, swizzles, tensor memory, phases, ordering."""

from __future__ import annotations

import matrix_blackwell  # registers the semantics
import numpy as np
import pytest
from matrix_machine import Machine, encode
from matrix_programs import Context, buffer, gemm_op
from matrix_semantics import FUNCTIONS
from test_matrix_mma import fill_fragment, numbers, read_fragment
from tilec.ir.buffer import BARRIER, FRAGMENT, SHARED_DYN, TMEM, Buffer, Region, whole
from tilec.ir.build import const
from tilec.ir.expr import Var
from tilec.ir.stmt import For, TileOp
from tilec.target.chips import find
from tilec.transform.matrix import barriers, tensor_memory
from tilec.transform.matrix.lower import lower_matrix_op
from tilec.transform.matrix.problem import MatrixProblem
from tilec.transform.matrix.shape import matrix_shape
from tilec.transform.matrix.shared import LAYOUT_TYPE, canonical_tile, required_shared_layout
from tilec.transform.matrix.tcgen05 import descriptor_strides, select_atom

SM100 = find("sm_100a")


def barrier(count: int = 1) -> Buffer:
    b = buffer("mbar", (count,), "uint64", BARRIER)
    b.attrs["arrive_counts"] = [1] * count
    return b


def one(mbar: Buffer, index: int = 0) -> Region:
    return Region(mbar, (const(index),), (const(1),), "element")


class Kernel:
    """A block on a model of Blackwell: set up as the passes would, then fed operations."""

    def __init__(
        self, op: TileOp, threads: int = 128, mbar: Buffer | None = None, extra: tuple[Buffer, ...] = ()
    ) -> None:
        self.op, self.mbar = op, mbar or barrier()
        if op.args["mbar"] is None:
            op.args["mbar"] = one(self.mbar)
        self.C = op.region("C").buffer
        tmem = tuple(dict.fromkeys(b for b in (self.C, op.region("A").buffer, *extra) if b.scope == TMEM))
        self.plan = tensor_memory.plan_tensor_memory(tmem)
        self.ctx = Context(SM100, threads, tensor_memory=self.plan)
        self.ctx.phases[self.mbar] = barriers.phase_array(self.mbar)
        self.machine = Machine(threads, FUNCTIONS)
        self.machine.env[self.ctx.thread] = np.arange(threads, dtype=np.int32)
        self.slot = buffer("slot", (1,), "uint32", SHARED_DYN)
        self.run(
            barriers.initialise((self.mbar,), self.ctx),
            barriers.start_phases(self.ctx.phases[self.mbar]),
            tensor_memory.allocate(self.plan, self.slot, self.ctx.tensor_base, self.ctx, None),
        )

    def run(self, *bodies) -> None:
        for body in bodies:
            self.machine.run(body)

    def put(self, which: str, values: np.ndarray) -> None:
        """Write a shared operand as generic stores of all threads would: in its required layout, not yet fenced."""
        b = self.op.region(which).buffer
        layout = self.ctx.shared_layouts.setdefault(b, required_shared_layout(self.op, which, self.ctx.threads, SM100))
        extents = b.static_shape()
        raw, stored = (
            encode(values, b.dtype),
            np.zeros(encode(values, b.dtype).shape, np.uint8).reshape(values.size, -1),
        )
        for index in np.ndindex(*extents):
            stored[layout.offset(index, extents[:-2])] = raw[index]
        self.machine.place(b)
        self.machine.memory[b][0] = stored.reshape(-1)
        matrix_blackwell.note_shared_write(self.machine, set(range(self.ctx.threads)))

    def operands(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Fresh random operands; returns op(A) and op(B)."""
        values = []
        for i, which in enumerate("AB"):
            b = self.op.region(which).buffer
            values.append(numbers(b.static_shape(), b.dtype, 2 * seed + i))
            if b.scope != TMEM:
                self.put(which, values[-1])
        a = values[0].T if self.op.args["transpose_A"] else values[0]
        b = values[1].T if self.op.args["transpose_B"] else values[1]
        return a, b

    def result(self) -> np.ndarray:
        """Copy the accumulator to a fragment and read that."""
        rows, cols = self.C.static_shape()
        local = buffer("C_local", (rows, cols), self.C.dtype, FRAGMENT)
        copy = TileOp(None, "copy", {"src": whole(self.C), "dst": whole(local)})
        self.ctx.layouts[local] = tensor_memory.copy_fragment_layout(copy, self.ctx.threads)
        self.run(tensor_memory.lower_tensor_memory_copy(copy, self.ctx))
        return read_fragment(self.machine, self.ctx, local)

    def finish(self) -> None:
        self.run(tensor_memory.deallocate(self.plan, self.ctx.tensor_base, self.ctx, None))
        assert matrix_blackwell.chip(self.machine).columns is None


def multiply(op: TileOp, threads: int = 128) -> None:
    kernel = Kernel(op, threads)
    a, b = kernel.operands()
    kernel.run(lower_matrix_op(op, kernel.ctx))
    np.testing.assert_array_equal(kernel.result(), a @ b)
    kernel.finish()


def tmem_gemm(M, N, K, dtype="float16", accum="float32", transpose_A=False, transpose_B=True, **args):
    return gemm_op(M, N, K, dtype, accum, transpose_A, transpose_B, c_scope=TMEM, **{"clear_accum": True, **args})


@pytest.mark.parametrize(
    "dtype, accum",
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float8_e4m3fn", "float32"),
        ("float8_e5m2", "float32"),
        ("int8", "int32"),
        ("uint8", "int32"),
    ],
)
@pytest.mark.parametrize("transpose_A, transpose_B", [(False, True), (False, False), (True, True), (True, False)])
def test_types_and_majors(dtype, accum, transpose_A, transpose_B):
    multiply(tmem_gemm(128, 32, 64, dtype, accum, transpose_A, transpose_B))


@pytest.mark.parametrize("K", [16, 32, 64, 128, 48, 80])
def test_k_major_swizzles(K):
    """K = 16, 32, 64 halves are rows of 32, 64, 128 bytes; 128 is two panels, 48 and 80 panels of 32."""
    multiply(tmem_gemm(128, 16, K))


@pytest.mark.parametrize("N", [16, 32, 64, 128, 48, 256])
def test_mn_major_swizzles(N):
    multiply(tmem_gemm(128, N, 32, transpose_B=False))


@pytest.mark.parametrize("N", [8, 24, 64])
@pytest.mark.parametrize("transpose_B", [False, True])
def test_64_rows(N, transpose_B):
    """N = 8 and 24, not transposed, are unswizzled panels of 16 bytes."""
    multiply(tmem_gemm(64, N, 32, transpose_B=transpose_B))


@pytest.mark.parametrize(
    "M, N, threads", [(256, 64, 128), (128, 320, 128), (128, 64, 256), (256, 32, 256), (128, 16, 512), (64, 16, 256)]
)
def test_more_rows_columns_and_threads(M, N, threads):
    multiply(tmem_gemm(M, N, 16), threads)


def test_a_tile_of_tensor_memory_as_operand():
    """P @ V of attention: A goes from a fragment to tensor memory, two halves a column."""
    op = tmem_gemm(128, 32, 64, a_scope=TMEM, transpose_B=False)
    kernel = Kernel(op)
    A = op.region("A").buffer
    values, b = kernel.operands()
    local = buffer("A_local", (128, 64), "float16", FRAGMENT)
    copy = TileOp(None, "copy", {"src": whole(local), "dst": whole(A)})
    kernel.ctx.layouts[local] = tensor_memory.copy_fragment_layout(copy, 128)
    fill_fragment(kernel.machine, kernel.ctx, local, values)
    kernel.run(tensor_memory.lower_tensor_memory_copy(copy, kernel.ctx), lower_matrix_op(op, kernel.ctx))
    np.testing.assert_array_equal(kernel.result(), values @ b)
    kernel.finish()


def test_implicit_waits_flip_their_phase_in_a_loop():
    k = Var("int32", None, "k", "loop")
    op = tmem_gemm(128, 16, 32, clear_accum=k.__class__("bool", None, "first", "let"))
    first = op.args["clear_accum"]
    kernel = Kernel(op)
    total = 0
    lowered = lower_matrix_op(op, kernel.ctx)
    for i in range(5):
        a, b = kernel.operands(i)
        total = total + a @ b
        kernel.machine.env[first] = np.bool_(i == 0)
        kernel.run((For(None, k, const(0), const(1), lowered),))
    np.testing.assert_array_equal(kernel.result(), total)
    kernel.finish()


def test_explicit_form_and_both_forms_on_one_barrier():
    op = tmem_gemm(128, 16, 32, clear_accum=False, name="tcgen05_gemm")
    kernel = Kernel(op)
    implicit = TileOp(None, "gemm", dict(op.args, clear_accum=True))
    a, b = kernel.operands(0)
    kernel.run(lower_matrix_op(implicit, kernel.ctx))
    total = a @ b
    for i in (1, 2):
        a, b = kernel.operands(i)
        total = total + a @ b
        wait = TileOp(None, "mbarrier_wait_parity", {"mbar": one(kernel.mbar), "parity": const(i % 2)})
        kernel.run(lower_matrix_op(op, kernel.ctx), barriers.lower_barrier_op(wait, kernel.ctx))
    implicit = TileOp(None, "gemm", dict(op.args))
    a, b = kernel.operands(3)
    kernel.run(lower_matrix_op(implicit, kernel.ctx))
    np.testing.assert_array_equal(kernel.result(), total + a @ b)


def test_reading_before_waiting_is_noticed_by_the_model():
    kernel = Kernel(tmem_gemm(128, 16, 32, name="tcgen05_gemm"))
    kernel.operands()
    kernel.run(lower_matrix_op(kernel.op, kernel.ctx))
    with pytest.raises(AssertionError, match="before the wait"):
        kernel.result()


def test_two_barriers_and_stages_of_a_buffered_tile():
    op = tmem_gemm(128, 32, 64)
    A = buffer("A_stages", (2, 128, 64), "float16", SHARED_DYN)
    stage = Var("int32", None, "stage", "loop")
    op.args["A"] = Region(A, (stage, const(0), const(0)), (const(1), const(128), const(64)), "slice")
    mbar = barrier(2)
    op.args["mbar"] = one(mbar, 1)
    kernel = Kernel(op, mbar=mbar)
    values = numbers((2, 128, 64), "float16", 7)
    b = numbers((32, 64), "float16", 8)
    kernel.put("A", values)
    kernel.put("B", b)
    for s in (1, 0):
        kernel.machine.env[stage] = np.int32(s)
        kernel.run(lower_matrix_op(op, kernel.ctx))
        np.testing.assert_array_equal(kernel.result(), values[s] @ b.T)


@pytest.mark.parametrize("start", [0, 16, 32, 64, 96])
def test_parts_of_a_tile_along_k(start):
    op = tmem_gemm(128, 16, 48)
    for which, rows in (("A", 128), ("B", 16)):
        b = buffer(which, (rows, 192), "float16", SHARED_DYN)
        op.args[which] = Region(b, (const(0), const(start)), (const(rows), const(48)), "slice")
    kernel = Kernel(op)
    a, b = numbers((128, 192), "float16", 1), numbers((16, 192), "float16", 2)
    kernel.put("A", a)
    kernel.put("B", b)
    kernel.run(lower_matrix_op(op, kernel.ctx))
    np.testing.assert_array_equal(kernel.result(), a[:, start : start + 48] @ b[:, start : start + 48].T)


def test_parts_along_m_and_n():
    op = tmem_gemm(128, 64, 32, transpose_A=True, transpose_B=False)
    A, B = buffer("A", (32, 256), "float16", SHARED_DYN), buffer("B", (64, 128), "float16", SHARED_DYN)
    op.args["A"] = Region(A, (const(0), const(128)), (const(32), const(128)), "slice")
    op.args["B"] = Region(B, (const(16), const(64)), (const(32), const(64)), "slice")
    kernel = Kernel(op)
    a, b = numbers((32, 256), "float16", 1), numbers((64, 128), "float16", 2)
    kernel.put("A", a)
    kernel.put("B", b)
    kernel.run(lower_matrix_op(op, kernel.ctx))
    np.testing.assert_array_equal(kernel.result(), a[:, 128:].T @ b[16:48, 64:])


@pytest.mark.parametrize(
    "rows, columns, dtype, width",
    [
        (128, 64, "float16", 128),
        (16, 96, "float16", 64),
        (8, 16, "bfloat16", 32),
        (8, 24, "float16", 16),
        (64, 32, "float8_e4m3fn", 32),
        (8, 256, "int8", 128),
    ],
)
def test_canonical_tiles_are_permutations_that_keep_16_bytes_together(rows, columns, dtype, width):
    tile = canonical_tile(rows, columns, dtype)
    assert tile is not None and tile.width == width
    piece = 128 // tile.bits
    seen = set()
    for r in range(rows):
        for c in range(0, columns, piece):
            first = tile.offset((r, c))
            assert first % piece == 0
            seen |= {first + i for i in range(piece)}
            assert [tile.offset((r, c + i)) for i in range(piece)] == list(range(first, first + piece))
    assert seen == set(range(rows * columns))


def test_columns_are_packed_and_rounded_up():
    def plan(*widths):
        return tensor_memory.plan_tensor_memory(
            tuple(buffer(f"t{i}", (128, n), "float32", TMEM) for i, n in enumerate(widths))
        )

    assert [plan(n).columns for n in (16, 32, 48, 96, 128, 384, 512)] == [32, 32, 64, 128, 128, 512, 512]
    both = plan(128, 384)
    assert both.columns == 512 and sorted(both.first.values()) == [0, 384]
    with pytest.raises(MatrixProblem, match="512"):
        plan(640)
    with pytest.raises(MatrixProblem, match="100 rows"):
        tensor_memory.plan_tensor_memory((buffer("t", (100, 32), "float32", TMEM),))


@pytest.mark.parametrize(
    "op, words",
    [
        (tmem_gemm(128, 24, 32), "N a multiple of 16"),
        (tmem_gemm(128, 32, 24), "K a multiple of 16"),
        (tmem_gemm(128, 32, 32, "float32"), "not supported in tensor memory"),
        (tmem_gemm(128, 32, 32, accum="float16"), "not supported in tensor memory"),
    ],
)
def test_what_the_instruction_cannot_do_is_said(op, words):
    with pytest.raises(MatrixProblem, match=words):
        lower_matrix_op(op, Kernel(op).ctx)


def test_gemm_into_tensor_memory_needs_a_barrier_and_the_right_target():
    with pytest.raises(MatrixProblem, match="mbar="):
        lower_matrix_op(tmem_gemm(128, 32, 32), Context(SM100))
    with pytest.raises(MatrixProblem, match="does not have"):
        lower_matrix_op(tmem_gemm(128, 32, 32), Context(find("sm_90a")))


@pytest.mark.parametrize(
    "op, instruction, a, b",
    [
        # Instruction descriptor; leading, stride (16-byte units) and layout type of A and B: as TileLang 0.1.15 encodes
        # them for sm_100a. Leading is free (None) where a single panel leaves nothing to lead to.
        (tmem_gemm(128, 128, 64, "bfloat16"), 136316048, (1, 64, 2), (1, 64, 2)),
        (tmem_gemm(128, 128, 64, "bfloat16", transpose_B=False), 136381584, (1, 64, 2), (512, 64, 2)),
        (tmem_gemm(128, 32, 64, transpose_A=True, transpose_B=False), 134840336, (512, 64, 2), (None, 32, 4)),
        (tmem_gemm(128, 64, 32, "float8_e4m3fn"), 135266320, (1, 16, 6), (1, 16, 6)),
    ],
)
def test_descriptors_agree_with_tilelang(op, instruction, a, b):
    shape = matrix_shape(op)
    assert select_atom(shape, SM100).descriptor == instruction
    for which, (leading, stride, layout) in (("A", a), ("B", b)):
        tile = required_shared_layout(op, which, 128, SM100)
        mine = descriptor_strides(tile, shape.k_contiguous(which))
        assert mine[1] // 16 == stride and LAYOUT_TYPE[tile.width] == layout
        assert leading is None or mine[0] // 16 == leading
