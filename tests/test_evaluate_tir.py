"""What kernels may take over from TIR: buffers, axes, vectors, slices."""
from __future__ import annotations

from evaluate_support import HEADER, gaps, programs, shapes
from tilec.ir.build import const_int
from tilec.ir.printer import expr_text, program_text
from tilec.ir.stmt import For, Store, TileOp, While


def kernel(body: str, parameters: str = 'A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")') -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return HEADER + f"@T.prim_func\ndef main({parameters}):\n{lines}"


def test_thread_axes_open_a_launch() -> None:
    for body in ('for bx in T.thread_binding(4, "blockIdx.x"):\n    for tx in T.thread_binding(32, thread="threadIdx.x"):\n        B[bx * 4 + tx] = 1.0',
                 'bx = T.launch_thread("blockIdx.x", 4)\ntx = T.launch_thread("threadIdx.x", 32)\nB[bx * 4 + tx] = 1.0',
                 'with T.launch_thread("blockIdx.x", 4) as bx:\n    with T.launch_thread("threadIdx.x", 32) as tx:\n        B[bx * 4 + tx] = 1.0',
                 'tx = T.env_thread("threadIdx.x")\nbx = T.launch_thread("blockIdx.x", 4)\nT.launch_thread(tx, 32)\nB[bx * 4 + tx] = 1.0'):
        text = kernel(body)
        [launch] = programs(text)[0].launches()
        assert [const_int(g) for g in launch.grid] == [4, 1, 1] and [const_int(t) for t in launch.threads] == [32, 1, 1], body
        assert gaps(text) == [None]
        store = next(s for s in programs(text)[0].statements() if isinstance(s, Store))
        assert expr_text(store.indices[0]) == "bx * 4 + tx"


def test_axes_inside_a_launch_are_its_own() -> None:
    text = kernel('with T.Kernel(4, threads=64):\n    tx = T.thread_binding(0, 64, thread="threadIdx.x")\n    B[tx] = A[tx]')
    [launch] = programs(text)[0].launches()
    assert [const_int(t) for t in launch.threads] == [64, 1, 1] and gaps(text) == [None]


def test_buffers_of_tir() -> None:
    text = kernel('with T.Kernel(1, threads=32):\n    s = T.alloc_buffer((16,), "float32", scope="shared.dyn")\n'
                  '    t = T.decl_buffer((4, 4), "float32", data=s.data)\n    T.copy(A, s)\n    B[0] = t[0, 0]')
    [program] = programs(text)
    s, t = program.buffers()[2:]
    assert (s.name, s.scope, t.name, t.view_of) == ("s", "shared.dyn", "t", s) and gaps(text) == [None]


def test_matched_buffers_are_parameters() -> None:
    text = kernel('A = T.match_buffer(a, (8, 4), "float16")\nwith T.Kernel(1, threads=32):\n    A[0, 0] = 1.0', "a: T.handle")
    assert shapes(text) == ["A: float16[8, 4]"] and gaps(text) == [None]


def test_slices_of_one_thread() -> None:
    text = kernel('with T.Kernel(1, threads=1):\n    B[0:4] = A[4:8]\n    B[8:12] = 2.0')
    first, second = (s for s in programs(text)[0].statements() if isinstance(s, For))
    assert (first.kind, const_int(first.extent)) == ("vectorized", 4)
    assert program_text(programs(text)[0]).count("T.vectorized") == 2 and gaps(text) == [None]
    [store] = [s for s in second.body if isinstance(s, Store)]
    assert expr_text(store.value) in ("2.0", "T.float32(2.0)")


def test_vectors() -> None:
    text = kernel('with T.Kernel(1, threads=1):\n    B[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)]\n    B[8:12] = T.Broadcast(T.float32(3.0), 4)')
    statements = list(programs(text)[0].statements())
    store = next(s for s in statements if isinstance(s, Store))
    assert (store.value.dtype, store.indices[0].dtype) == ("float32x4", "int32x4")
    assert [s.op for s in statements if isinstance(s, TileOp)] == ["store_slice"] and gaps(text) == [None]


def test_while_as_a_context() -> None:
    text = kernel('with T.Kernel(1, threads=1):\n    i = T.alloc_var("int32", 0)\n    with T.While(i < 4):\n        i = i + 1')
    assert any(isinstance(s, While) for s in programs(text)[0].statements()) and gaps(text) == [None]
