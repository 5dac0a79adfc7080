"""Matrix operations through mma.sync and scalar multiply-adds, executed thread by thread and compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_machine import Machine, decode, encode
from matrix_programs import Context, buffer, gemm_op
from matrix_semantics import FUNCTIONS
from tilec.ir.buffer import FRAGMENT, SHARED_DYN, Buffer, Region, whole
from tilec.ir.build import binary, const
from tilec.ir.expr import Call, Var, walk
from tilec.ir.stmt import Evaluate, For
from tilec.ir.stmt import walk as statements
from tilec.target.chips import find
from tilec.transform.matrix.layouts import accumulator_layout, operand_layout
from tilec.transform.matrix.lower import lower_matrix_op
from tilec.transform.matrix.problem import MatrixProblem


def numbers(shape, dtype, seed):
    """Small random values that the type holds exactly."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, shape) if dtype == "uint8" else rng.integers(-4, 5, shape)
    return decode(encode(values.astype(np.int64 if "int" in dtype else np.float32), dtype), dtype).astype(np.float64)


class Swizzle:
    """Sixteen-byte pieces of a row exchanged by the row's number, as bank-conflict-free tiles are stored."""

    def __init__(self, bits: int, pieces: int) -> None:
        self.chunk, self.pieces = 128 // bits, pieces

    def physical(self, b, indices):
        *front, row, col = indices
        piece = binary("bitxor", col // self.chunk, row % self.pieces)
        return (*front, row, piece * self.chunk + col % self.chunk)


def fill_fragment(machine, ctx, b, values):
    """Put a matrix into a fragment's registers, every copy of it."""
    layout, registers = ctx.layout_of(b), ctx.registers_of(b)
    machine.place(registers)
    size = machine.memory[registers].shape[1] // layout.registers
    raw = encode(values, b.dtype)
    for thread in range(ctx.threads):
        for r in range(layout.registers):
            index = layout.index_of(thread, r)
            if all(i < n for i, n in zip(index, layout.shape)):
                machine.memory[registers][thread, r * size : (r + 1) * size] = raw[index]


def read_fragment(machine, ctx, b):
    layout, registers = ctx.layout_of(b), ctx.registers_of(b)
    raw = machine.memory[registers].reshape(ctx.threads, layout.registers, -1)
    out = np.zeros(layout.shape)
    for index in np.ndindex(*layout.shape):
        out[index] = decode(raw[layout.thread_of(index), layout.register_of(index)], b.dtype)
    return out


def execute(op, ctx, env=None, swizzle=False):
    """Run the operation on random operands; returns the result, C before, op(A) and op(B)."""
    machine, start, a, b = prepare(op, ctx, env, swizzle)
    machine.run(lower_matrix_op(op, ctx))
    return read_fragment(machine, ctx, op.region("C").buffer), start, a, b


def prepare(op, ctx, env=None, swizzle=False):
    """A machine whose memory holds random operands; C before, op(A) and op(B)."""
    A, B, C = (op.region(x).buffer for x in "ABC")
    machine = Machine(ctx.threads, FUNCTIONS)
    machine.env[ctx.thread] = np.arange(ctx.threads, dtype=np.int32)
    machine.env.update(env or {})
    values = {}
    for i, (which, b) in enumerate((("A", A), ("B", B))):
        values[which] = numbers(b.static_shape(), b.dtype, i)
        if b.scope == FRAGMENT:
            ctx.layouts[b] = operand_layout(op, which, ctx.threads, ctx.target)
            fill_fragment(machine, ctx, b, values[which])
        else:
            machine.write(b, values[which])
            if swizzle:
                ctx.shared_layouts[b] = s = Swizzle(8 * b.size_bytes() // values[which].size, 4)
                stored = np.empty_like(values[which])
                for index in np.ndindex(*stored.shape):
                    target = tuple(int(i.value) for i in s.physical(b, tuple(const(i) for i in index)))
                    stored[target] = values[which][index]
                machine.write(b, stored)
    ctx.layouts[C] = accumulator_layout(op, ctx.threads, ctx.target)
    start = numbers(C.static_shape(), C.dtype, 2)
    fill_fragment(machine, ctx, C, start)
    a = values["A"].swapaxes(-1, -2) if op.args["transpose_A"] else values["A"]
    b = values["B"].swapaxes(-1, -2) if op.args["transpose_B"] else values["B"]
    return machine, start, a, b


def functions_of(body):
    return {
        e.attrs["name"]
        for s in statements(body)
        if isinstance(s, Evaluate)
        for e in walk(s.value)
        if isinstance(e, Call) and e.op == "device_function"
    }


CASES = [
    ("float16", "float16", "float32"),
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "float32", "float32"),
    ("int8", "int8", "int32"),
    ("int8", "uint8", "int32"),
    ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("float64", "float64", "float64"),
]


@pytest.mark.parametrize("a, b, c", CASES)
@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize("transpose_B", [False, True])
def test_every_type_and_transpose(a, b, c, transpose_A, transpose_B):
    op = gemm_op(32, 48, 64, a, c, transpose_A, transpose_B, b_dtype=b)
    got, start, x, y = execute(op, Context(find("sm_90a"), 64))
    np.testing.assert_array_equal(got, start + x @ y)


@pytest.mark.parametrize("a, c", [("float16", "float32"), ("float32", "float32"), ("int8", "int32")])
@pytest.mark.parametrize("transpose_A, transpose_B", [(False, False), (True, True)])
def test_swizzled_shared_tiles(a, c, transpose_A, transpose_B):
    op = gemm_op(64, 64, 64, a, c, transpose_A, transpose_B)
    got, start, x, y = execute(op, Context(find("sm_80"), 64), swizzle=True)
    np.testing.assert_array_equal(got, start + x @ y)


@pytest.mark.parametrize("a, b, c", CASES)
@pytest.mark.parametrize("transpose_A, transpose_B", [(False, False), (True, True), (False, True)])
def test_two_tiles_of_b_at_a_time_where_fragments_take_all_registers(a, b, c, transpose_A, transpose_B):
    op = gemm_op(64, 64, 64, a, c, transpose_A, transpose_B, b_dtype=b)
    roomy, crowded = Context(find("sm_90a"), 64), Context(find("sm_90a"), 64, words=255)
    got, start, x, y = execute(op, crowded, swizzle=a != "float64")
    np.testing.assert_array_equal(got, start + x @ y)
    execute(op, roomy)
    loops = [s for s in statements(lower_matrix_op(op, crowded)) if isinstance(s, For) and s.var.name == "pair"]
    by_ldmatrix = a != "float64" and (a in ("float16", "bfloat16") or transpose_B)
    assert len(loops) == by_ldmatrix and not any(isinstance(s, For) and s.var.name == "pair" for s in statements(lower_matrix_op(op, roomy)))


@pytest.mark.parametrize("N", [24, 40])
def test_an_odd_number_of_tiles_is_loaded_at_once(N):
    op = gemm_op(16, N, 32)
    got, start, x, y = execute(op, Context(find("sm_80"), 32, words=255))
    np.testing.assert_array_equal(got, start + x @ y)


@pytest.mark.parametrize(
    "policy, threads, M, N",
    [("full_row", 128, 64, 16), ("full_col", 128, 16, 64), ("square", 128, 32, 40), ("square", 32, 16, 24)],
)
def test_policies(policy, threads, M, N):
    op = gemm_op(M, N, 32, policy=policy)
    got, start, x, y = execute(op, Context(find("sm_80"), threads))
    np.testing.assert_array_equal(got, start + x @ y)


@pytest.mark.parametrize("K", [8, 20, 17])
@pytest.mark.parametrize("dtype, accum", [("float16", "float32"), ("int8", "int32"), ("float64", "float64")])
def test_k_that_is_no_multiple_of_the_instruction(K, dtype, accum):
    op = gemm_op(32, 32, K, dtype, accum)
    got, start, x, y = execute(op, Context(find("sm_90a"), 64))
    np.testing.assert_array_equal(got, start + x @ y)


@pytest.mark.parametrize(
    "target, dtype, accum, M, N, K",
    [
        ("sm_75", "float32", "float32", 17, 20, 5),
        ("sm_75", "float64", "float64", 16, 24, 9),
        ("sm_80", "float8_e4m3fn", "float32", 16, 16, 16),
        ("sm_90a", "float16", "float32", 20, 12, 9),
        ("sm_90a", "bfloat16", "bfloat16", 16, 16, 4),
        ("sm_90a", "int32", "int32", 8, 8, 8),
    ],
)
def test_scalar_path(target, dtype, accum, M, N, K):
    op = gemm_op(M, N, K, dtype, accum)
    ctx = Context(find(target), 64)
    got, start, x, y = execute(op, ctx)
    assert functions_of(lower_matrix_op(op, ctx)) == set()
    np.testing.assert_array_equal(got, start + x @ y)


def test_turing_halves_use_its_own_instruction():
    op = gemm_op(32, 32, 32)
    ctx = Context(find("sm_75"), 64)
    got, start, x, y = execute(op, ctx)
    assert "tile_mma_m16n8k16_f16_f16_f32_by_k8" in functions_of(lower_matrix_op(op, ctx))
    np.testing.assert_array_equal(got, start + x @ y)


@pytest.mark.parametrize(
    "dtype, accum, target",
    [
        ("float16", "float32", "sm_80"),
        ("float32", "float32", "sm_80"),
        ("int8", "int32", "sm_80"),
        ("float32", "float32", "sm_75"),
    ],
)
@pytest.mark.parametrize("a_scope, b_scope", [(FRAGMENT, SHARED_DYN), (SHARED_DYN, FRAGMENT), (FRAGMENT, FRAGMENT)])
def test_operands_in_registers(dtype, accum, target, a_scope, b_scope):
    op = gemm_op(32, 32, 32, dtype, accum, transpose_B=True, a_scope=a_scope, b_scope=b_scope)
    got, start, x, y = execute(op, Context(find(target), 128))
    np.testing.assert_array_equal(got, start + x @ y)


def test_clearing_always_never_and_on_a_condition():
    flag = Var("bool", None, "first", "let")
    for clear, env, cleared in (
        (True, {}, True),
        (False, {}, False),
        (flag, {flag: np.bool_(True)}, True),
        (flag, {flag: np.bool_(False)}, False),
    ):
        op = gemm_op(32, 32, 32, clear_accum=clear)
        got, start, x, y = execute(op, Context(threads=64), env)
        np.testing.assert_array_equal(got, x @ y + (0 if cleared else start))


def test_threads_that_are_no_whole_warp_stay_out():
    op = gemm_op(32, 32, 32)
    got, start, x, y = execute(op, Context(threads=80))
    np.testing.assert_array_equal(got, start + x @ y)


def test_a_stage_of_a_buffered_tile():
    op = gemm_op(32, 32, 32)
    A = buffer("A_stages", (3, 32, 64), "float16", SHARED_DYN)
    stage = Var("int32", None, "stage", "loop")
    op.args["A"] = Region(A, (stage, const(0), const(32)), (const(1), const(32), const(32)), "slice")
    ctx = Context(threads=64)
    got, start, x, y = execute(op, ctx, {stage: np.int32(2)})
    assert any(n.startswith("tile_ldmatrix") for n in functions_of(lower_matrix_op(op, ctx)))
    np.testing.assert_array_equal(got, start + x[2][:, 32:64] @ y)


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_fragments_with_a_leading_dimension_of_one(target):
    op = gemm_op(32, 32, 16, "bfloat16")
    for which, dtype in (("A", "bfloat16"), ("C", "float32")):
        extents = op.region(which).buffer.static_shape()
        op.args[which] = whole(buffer(f"{which}_local", (1, *extents), dtype, FRAGMENT))
    got, start, x, y = execute(op, Context(find(target), 64))
    np.testing.assert_array_equal(got, start + x @ y)


def test_a_row_that_is_not_aligned_for_ldmatrix():
    op = gemm_op(32, 32, 32)
    A = buffer("A_padded", (32, 36), "float16", SHARED_DYN)
    op.args["A"] = Region(A, (const(0), const(3)), (const(32), const(32)), "slice")
    got, start, x, y = execute(op, Context(threads=64))
    np.testing.assert_array_equal(got, start + x[:, 3:35] @ y)


def test_faults_are_explained():
    op = gemm_op(32, 32, 32)
    C: Buffer = op.region("C").buffer
    other = accumulator_layout(gemm_op(32, 32, 32, policy="full_row"), 64, find("sm_80"))
    with pytest.raises(MatrixProblem, match="already laid out"):
        lower_matrix_op(op, Context(find("sm_80"), 64, {C: other}))
    with pytest.raises(MatrixProblem, match="K must agree"):
        op.args["B"] = Region(
            buffer("B", (48, 32), "float16", SHARED_DYN), (const(0), const(0)), (const(48), const(32))
        )
        accumulator_layout(op, 64, find("sm_80"))
