"""Tiles that threads number through themselves: wide accesses, and no waiting where no other thread writes the same elements."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import prim
from role_machine import simulate
from tilec.emit.cuda.vectors import is_vector_loop
from tilec.ir.expr import Var
from tilec.ir.stmt import Evaluate, For, Store, walk
from tilec.transform.sizes import is_multiple
from transform_support import execute, lowered


def decoding(rows: int, width: int, packed: int, made: int, threads: int = 32) -> str:
    """Bytes of a shared tile decoded by each thread for itself and stored to another shared tile, as examples of 4-bit weights do."""
    return f"""
with T.Kernel(1, threads={threads}) as bx:
    tx = T.get_thread_binding()
    packed = T.alloc_shared(({rows}, {width // 2}), 'uint8')
    made = T.alloc_shared(({rows}, {width}), 'float16')
    x = T.alloc_local(({packed},), 'uint8')
    y = T.alloc_local(({made},), 'float16')
    T.copy(A, packed)
    for k in T.serial(2):
        for i in T.serial({rows * width // threads // made}):
            for v in T.vectorized({packed}):
                n = (i * {threads} + tx) * {packed} + v
                x[v] = packed[n // {width // 2}, n % {width // 2}]
            for v in T.serial({made}):
                y[v] = T.cast((x[v // 2] >> (4 * (v % 2))) & 15, 'float16') + T.cast(k, 'float16')
            for v in T.vectorized({made}):
                n = (i * {threads} + tx) * {made} + v
                made[n // {width}, n % {width}] = y[v]
        T.copy(made, C[k, 0:{rows}, 0:{width}])
"""


def run_decoding(rows: int, width: int, packed: int, made: int):
    program = lowered(prim(f"A: T.Tensor(({rows}, {width // 2}), 'uint8'), C: T.Tensor((2, {rows}, {width}), 'float16')", decoding(rows, width, packed, made)))
    a = np.random.default_rng(0).integers(0, 256, (rows, width // 2)).astype(np.uint8)
    numbers = np.stack([a & 15, a >> 4], -1).reshape(rows, width).astype(np.float32)
    assert np.array_equal(execute(program, A=a)["C"], np.stack([numbers, numbers + 1]))
    return program


def loops(program, name: str) -> list[For]:
    return [s for launch in program.launches() for s in walk(launch.body) if isinstance(s, For) and s.var.name == name]


def wide(program) -> list[tuple[str, int]]:
    """The stores of loops over ``v`` that are one access, and their lanes."""
    found = [s for launch in program.launches() for s in walk(launch.body) if isinstance(s, For) and s.var.name.startswith("v") and is_vector_loop(s)]
    return [(s.body[0].buffer.name, s.extent.value) for s in found if isinstance(s.body[0], Store)]


def synchronised(body) -> int:
    return sum(isinstance(s, Evaluate) and "sync" in str((getattr(s.value, "attrs", None) or {}).get("name", "")) for s in walk(body))


def test_a_number_taken_apart_by_rows_is_a_wide_access():
    program = run_decoding(16, 64, 4, 8)
    assert wide(program) == [("x", 4), ("made", 8)]
    inner, outer = loops(program, "i")[0], loops(program, "k")[0]
    assert synchronised(inner.body) == 0 and synchronised(outer.body) == 2


def test_a_number_that_carries_into_the_next_row_is_not():
    """Rows of 12 elements: eight from a multiple of eight may lie in two."""
    assert wide(run_decoding(32, 12, 2, 4)) == [("x", 2), ("made", 4)]
    assert wide(run_decoding(64, 12, 4, 8)) == []


@pytest.mark.parametrize("place, waits", [("i * 32 + tx", 0), ("tx * 4 + i", 0), ("i * 16 + tx", 1), ("(tx + i) % 128", 1), ("tx * 4 + i * 4", 1), ("i * 32 + 31 - tx", 0)])
def test_rounds_wait_where_another_thread_writes_the_same_element(place, waits):
    body = f"""
with T.Kernel(1, threads=32) as bx:
    tx = T.get_thread_binding()
    s = T.alloc_shared((256,), 'float32')
    T.clear(s)
    for i in T.serial(4):
        s[{place}] = A[tx] + i
    T.copy(s, C)
"""
    program = lowered(prim("A: T.Tensor((32,), 'float32'), C: T.Tensor((256,), 'float32')", body))
    assert synchronised(loops(program, "i")[0].body) == waits
    a, expected = np.arange(32, dtype=np.float32), np.zeros(256, np.float32)
    for i in range(4):
        for tx in range(32):
            expected[eval(place, {"i": i, "tx": tx})] = a[tx] + i
    assert np.array_equal(execute(program, A=a)["C"], expected)


def test_what_came_before_a_loop_is_waited_for_before_it():
    body = """
with T.Kernel(1, threads=32) as bx:
    tx = T.get_thread_binding()
    s = T.alloc_shared((128,), 'float32')
    for k in T.serial(3):
        for i in T.serial(4):
            s[i * 32 + tx] = A[tx] + i + k
        for i in T.serial(4):
            C[k, tx * 4 + i] = s[tx * 4 + i]
"""
    program = lowered(prim("A: T.Tensor((32,), 'float32'), C: T.Tensor((3, 128), 'float32')", body))
    (outer,) = loops(program, "k")
    assert synchronised(outer.body) == 2 and all(synchronised(s.body) == 0 for s in loops(program, "i"))
    a = np.arange(32, dtype=np.float32)
    expected = np.stack([np.concatenate([a + i + k for i in range(4)]) for k in range(3)])
    assert np.array_equal(execute(program, A=a)["C"], expected)


def test_quotients_of_multiples_are_multiples():
    k = Var("int32", None, "k", "loop")
    assert is_multiple(k * 128 // 2, 64) and not is_multiple(k * 128 // 2, 128) and not is_multiple(k * 12 // 8, 2)


WEIGHTS = """
with T.Kernel(2, 2, threads=256) as (bx, by):
    a = T.alloc_shared((128, 64), 'float16')
    packed = T.alloc_shared((128, 32), 'uint8')
    b = T.alloc_shared((128, 64), 'float16')
    x = T.alloc_local((4,), 'uint8')
    y = T.alloc_local((8,), 'float16')
    c = T.alloc_fragment((128, 128), 'float32')
    tx = T.get_thread_binding()
    T.clear(c)
    for k in T.Pipelined(4, num_stages=2):
        T.copy(A[by * 128, k * 64], a)
        T.copy(B[bx * 128, k * 64 // 2], packed)
        for i in T.serial(4):
            for v in T.vectorized(4):
                n = (i * 256 + tx) * 4 + v
                x[v] = packed[n // 32, n % 32]
            for v in T.serial(8):
                y[v] = T.cast((x[v // 2] >> (4 * (v % 2))) & 15, 'float16')
            for v in T.vectorized(8):
                n = (i * 256 + tx) * 8 + v
                b[n // 64, n % 64] = y[v]
        T.gemm(a, b, c, transpose_B=True)
    T.copy(c, C[by * 128, bx * 128])
"""


def test_decoded_weights_beside_a_copying_warp():
    """One fence and one wait for the whole tile that the tensor cores read, none in the loop that decodes it."""
    signature = "A: T.Tensor((256, 256), 'float16'), B: T.Tensor((256, 128), 'uint8'), C: T.Tensor((256, 256), 'float32')"
    program = lowered(prim(signature, WEIGHTS), "sm_90a")
    assert program.launches()[0].attrs.get("specialised")
    (decode,) = loops(program, "i")
    names = [str((getattr(s.value, "attrs", None) or {}).get("name", "")) for s in walk(decode.body) if isinstance(s, Evaluate)]
    assert not [n for n in names if "fence" in n or "sync" in n]
    assert [s.body[0].buffer.name for s in walk(decode.body) if isinstance(s, For) and is_vector_loop(s)] == ["x", "b"]
    simulate(program)
