"""The matrix thread programs on a real GPU: fragments, ldmatrix, mma.sync and mbarriers as the hardware has them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import torch
from matrix_cuda_text import Printer, kernel
from matrix_machine import Machine
from matrix_programs import Context, buffer, gemm_op
from matrix_semantics import FUNCTIONS
from test_matrix_mma import CASES, prepare, read_fragment
from tilec.ir.buffer import BARRIER, FRAGMENT, LOCAL, SHARED_DYN, Region
from tilec.ir.build import const
from tilec.ir.expr import Load
from tilec.ir.stmt import Store, TileOp
from tilec.target.chips import TARGETS, find
from tilec.transform.matrix import barriers
from tilec.transform.matrix.lower import lower_matrix_op

pytestmark = pytest.mark.gpu


def this_gpu():
    if not torch.cuda.is_available() or shutil.which("nvcc") is None:
        pytest.skip("needs an NVIDIA GPU and nvcc")
    major, minor = torch.cuda.get_device_capability()
    name = next((n for n in (f"sm_{major}{minor}", f"sm_{major}{minor}a") if n in TARGETS), None)
    return find(name or "sm_80"), f"{major}{minor}"


def operations():
    for a, b, c in CASES:
        for ta in (False, True):
            for tb in (False, True):
                yield gemm_op(32, 48, 64, a, c, ta, tb, b_dtype=b), 64, False
    for a, c in (("float16", "float32"), ("float32", "float32"), ("int8", "int32")):
        yield gemm_op(64, 64, 64, a, c, False, True), 64, True
        yield gemm_op(64, 64, 64, a, c, True, False), 64, True
        yield gemm_op(32, 32, 20, a, c), 64, False
        for scopes in ((FRAGMENT, SHARED_DYN), (FRAGMENT, FRAGMENT)):
            yield gemm_op(32, 32, 32, a, c, transpose_B=True, a_scope=scopes[0], b_scope=scopes[1]), 128, False
    for policy, threads, M, N in (
        ("full_row", 128, 64, 16),
        ("full_col", 128, 16, 64),
        ("square", 80, 32, 32),
        ("square", 256, 64, 64),
    ):
        yield gemm_op(M, N, 32, policy=policy), threads, False


def launch(library, name, threads, machine, buffers):
    """Run a kernel on the contents of a machine's buffers, and put the results back."""
    tensors = [torch.from_numpy(np.ascontiguousarray(machine.memory[b])).cuda() for b in buffers]
    error = getattr(library, f"launch_{name}")(threads, *(ctypes.c_void_p(t.data_ptr()) for t in tensors))
    assert error == 0, f"{name}: CUDA error {error}"
    for b, t in zip(buffers, tensors):
        machine.memory[b][...] = t.cpu().numpy()


def build(texts, printer, code, folder):
    source = folder / "kernels.cu"
    source.write_text("\n".join([*printer.functions.values(), *texts]))
    subprocess.run(
        [
            "nvcc",
            "-O2",
            "-w",
            "-std=c++17",
            "-gencode",
            f"arch=compute_{code},code=sm_{code}",
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-o",
            str(folder / "kernels.so"),
            str(source),
        ],
        check=True,
        timeout=500,
    )
    return ctypes.CDLL(str(folder / "kernels.so"))


def test_products_are_exact(tmp_path):
    target, code = this_gpu()
    printer, texts, work = Printer(), [], []
    for i, (op, threads, swizzle) in enumerate(operations()):
        ctx = Context(target, threads)
        machine, start, a, b = prepare(op, ctx, swizzle=swizzle)
        body = lower_matrix_op(op, ctx)
        shared = [op.region(x).buffer for x in "AB" if op.region(x).buffer.is_shared()]
        registers = [ctx.registers_of(op.region(x).buffer) for x in "ABC" if op.region(x).buffer.scope == FRAGMENT]
        texts.append(kernel(f"k{i}", ctx.thread, body, shared, registers, printer))
        work.append((op, ctx, machine, start + a @ b, [*shared, *registers]))
    library = build(texts, printer, code, tmp_path)
    for i, (op, ctx, machine, expected, buffers) in enumerate(work):
        launch(library, f"k{i}", ctx.threads, machine, buffers)
        got = read_fragment(machine, ctx, op.region("C").buffer)
        what = {k: v for k, v in op.args.items() if isinstance(v, (bool, str))}
        np.testing.assert_array_equal(got, expected, err_msg=f"{op.region('A').buffer} {op.region('B').buffer} {what}")
    print(f"{len(work)} products exact on {torch.cuda.get_device_name()}")


def test_barriers_complete_their_phases(tmp_path):
    """Each thread arrives and waits; what others wrote before arriving is seen after waiting."""
    target, code = this_gpu()
    if target.sm < 80:
        pytest.skip("mbarriers need sm_80")
    threads = 96
    mbar, data = buffer("mbar", (1,), "uint64", BARRIER), buffer("data", (96,), "int32", SHARED_DYN)
    mbar.attrs["arrive_counts"] = [threads]
    out = buffer("out", (3,), "int32", LOCAL)
    ctx = Context(target, threads)
    region = Region(mbar, (const(0),), (const(1),), "element")
    body = list(barriers.initialise((mbar,), ctx))
    for i in range(3):
        body.append(Store(None, data, (ctx.thread,), ctx.thread * 10 + i))
        body += barriers.lower_barrier_op(TileOp(None, "mbarrier_arrive", {"mbar": region, "count": None}), ctx)
        body += barriers.lower_barrier_op(
            TileOp(None, "mbarrier_wait_parity", {"mbar": region, "parity": const(0)}), ctx
        )
        body.append(Store(None, out, (const(i),), Load("int32", None, data, (95 - ctx.thread,))))
        body += barriers.lower_barrier_op(TileOp(None, "mbarrier_arrive", {"mbar": region, "count": None}), ctx)
        body += barriers.lower_barrier_op(
            TileOp(None, "mbarrier_wait_parity", {"mbar": region, "parity": const(1)}), ctx
        )
    machine, printer = Machine(threads, FUNCTIONS), Printer()
    for b in (mbar, data, out):
        machine.place(b)
    # Two waits a round: the parities alternate 0, 1.
    text = kernel("bars", ctx.thread, tuple(body), [mbar, data], [out], printer)
    library = build([text], printer, code, tmp_path)
    launch(library, "bars", threads, machine, [mbar, data, out])
    got = machine.memory[out].view(np.int32)
    np.testing.assert_array_equal(got, (95 - np.arange(96))[:, None] * 10 + np.arange(3))
