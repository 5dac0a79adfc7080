"""Atomic updates of whole tiles by the copy engine: what they do, thread by thread, and where they stay with the threads."""
from __future__ import annotations

import textwrap

import numpy as np
import pytest
from emit_support import for_target, prim, program
from transform_support import device_functions, execute, lowered, numbers, run

BODY = """
    with T.Kernel(T.ceildiv({N}, {n}), T.ceildiv({M}, {m}), 2, threads={threads}) as (bx, by, bz):
        tile = T.alloc_{scope}(({m}, {n}), "{dtype}")
        T.copy(A[bz, by * {m}, bx * {n}], tile)
        T.atomic_{kind}(C[by * {m}, bx * {n}], tile, use_tma=True)
"""


def text(M=100, N=96, m=32, n=64, threads=128, scope="shared", dtype="float32", kind="add"):
    body = BODY.format(**locals())
    return f'A: T.Tensor((2, {M}, {N}), "{dtype}"), C: T.Tensor(({M}, {N}), "{dtype}")', body


def mechanisms(program, target="sm_90a"):
    return [d.text() for d in for_target(program, target).decisions() if d.what.startswith("atomic")]


def is_bulk(program, target="sm_90a"):
    told = any("bulk tensor reduction" in text for text in mechanisms(program, target))
    assert told == ("cp.reduce.async.bulk.tensor" in for_target(program, target).text("cuda")), "what is told is what was done"
    return told


CASES = [
    {}, {"n": 32}, {"n": 8, "m": 8, "threads": 32}, {"m": 64, "n": 96}, {"M": 33, "N": 40, "m": 16, "n": 16}, {"m": 24, "n": 24}, {"scope": "fragment"},
    {"dtype": "float16"}, {"dtype": "bfloat16", "scope": "fragment"}, {"dtype": "float16", "n": 16, "N": 88}, {"dtype": "int32"}, {"dtype": "int64", "n": 32},
    {"dtype": "int32", "kind": "max"}, {"dtype": "int32", "kind": "min", "scope": "fragment"}, {"m": 304, "n": 8, "M": 333, "N": 8},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiles_are_combined_by_the_copy_engine(case):
    signature, body = text(**case)
    dtype = case.get("dtype", "float32")
    M, N, kind = case.get("M", 100), case.get("N", 96), case.get("kind", "add")
    A, C = numbers((2, M, N), dtype), numbers((M, N), dtype, seed=1)
    assert is_bulk(prim(signature, body))
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum}[kind]
    wanted = combine(combine(C, A[0]), A[1])
    np.testing.assert_array_equal(run(signature, body, "sm_90a", A=A, C=C)["C"], wanted)


def test_a_fragment_of_another_type_is_converted_on_its_way():
    signature = 'A: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float16")'
    body = """
    with T.Kernel(1, threads=128) as bx:
        sums = T.alloc_fragment((64, 64), "float32")
        T.copy(A, sums)
        T.atomic_add(C, sums, use_tma=True)
    """
    A, C = numbers((64, 64)), numbers((64, 64), "float16", seed=1)
    assert mechanisms(prim(signature, body)) == ["atomic add to C: through shared memory, then bulk tensor reduction (TMA)"]
    np.testing.assert_array_equal(run(signature, body, "sm_90a", A=A, C=C)["C"], A + C)


def test_axes_between_rows_and_columns():
    """dQ[batch, rows, head, columns], as attention adds to it."""
    signature = 'A: T.Tensor((2, 70, 3, 64), "float32"), C: T.Tensor((2, 70, 3, 64), "float32")'
    body = """
    with T.Kernel(3, 2, threads=128) as (h, b):
        tile = T.alloc_shared((32, 64), "float32")
        for k in T.serial(3):
            T.copy(A[b, k * 32 : (k + 1) * 32, h, :], tile)
            T.atomic_add(C[b, k * 32 : (k + 1) * 32, h, :], tile, use_tma=True)
    """
    A, C = numbers((2, 70, 3, 64)), numbers((2, 70, 3, 64), seed=1)
    assert is_bulk(prim(signature, body))
    np.testing.assert_array_equal(run(signature, body, "sm_90a", A=A, C=C)["C"], A + C)


def test_run_time_rows():
    signature = 'A: T.Tensor((m, 64), "float32"), C: T.Tensor((m, 64), "float32")'
    head = 'm = T.dynamic("m")\n'
    body = """
    with T.Kernel(T.ceildiv(m, 32), threads=128) as bx:
        tile = T.alloc_shared((32, 64), "float32")
        T.copy(A[bx * 32, 0], tile)
        T.atomic_add(C[bx * 32, 0], tile, use_tma=True)
    """
    made = program(f"{head}@T.prim_func\ndef kernel({signature}):\n" + textwrap.indent(textwrap.dedent(body), "    "))
    assert is_bulk(made)


def test_a_vector():
    signature = 'A: T.Tensor((200,), "float32"), C: T.Tensor((200,), "float32")'
    body = """
    with T.Kernel(4, threads=64) as bx:
        tile = T.alloc_shared((64,), "float32")
        T.copy(A[bx * 64], tile)
        T.atomic_add(C[bx * 64 : bx * 64 + 64], tile, use_tma=True)
    """
    A, C = numbers((200,)), numbers((200,), seed=1)
    assert is_bulk(prim(signature, body))
    np.testing.assert_array_equal(run(signature, body, "sm_90a", A=A, C=C)["C"], A + C)


LEFT = {
    "rows of 12 bytes": (text(N=99), "multiple of 16"),
    "no such type": (text(dtype="float64", n=32), "the copy engine has no add of float64"),
    "floats have no maximum": (text(kind="max"), "the copy engine has no max of float32"),
    "not asked for": ((text()[0], text()[1].replace(", use_tma=True", "")), "use_tma=True is not given"),
    "read too": ((text()[0], text()[1] + "        T.copy(C[by * 32, bx * 64], tile)\n"), "the kernel uses C otherwise too"),
    "a matrix operand": ((text(dtype="float16", m=64)[0], text(dtype="float16", m=64)[1] + "        sums = T.alloc_fragment((64, 64), 'float32')\n        T.clear(sums)\n"
                          "        T.gemm(tile, tile, sums)\n        T.copy(sums, A[bz, 0, 0])\n"), "operand of a matrix operation"),
    "its thread's": ((text()[0], text()[1].replace("C[by * 32,", "C[by * 32 + T.get_thread_binding(0),")), "its place depends on the thread"),
    "ordered": ((text()[0], text()[1].replace("use_tma=True", "use_tma=True, memory_order='release'")), "ordered"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_with_the_threads_says_why(name):
    (signature, body), reason = LEFT[name]
    found = mechanisms(prim(signature, body))
    assert len(found) == 1 and "atomics by all threads" in found[0] and reason in found[0], found


def test_other_chips_have_no_such_instruction():
    signature, body = text()
    assert not is_bulk(prim(signature, body.replace(", use_tma=True", "")), "sm_80") and is_bulk(prim(signature, body), "sm_100a")


def test_blocks_that_tell_each_other_wait_until_the_tile_has_arrived():
    signature, body = text()
    assert "wait_group.read 0" in for_target(prim(signature, body), "sm_90a").text("cuda")
    counted = body + "        T.atomic_add(N[0], 1)\n"
    cuda = for_target(prim(signature + ', N: T.Tensor((1,), "int32")', counted), "sm_90a").text("cuda")
    assert "cp.async.bulk.wait_group 0;" in cuda


def test_a_group_of_threads():
    signature = 'A: T.Tensor((64, 64), "float32"), C: T.Tensor((32, 64), "float32")'
    body = """
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding(0)
        first = T.alloc_shared((32, 64), "float32")
        other = T.alloc_shared((32, 64), "float32")
        if tx < 64:
            T.copy(A[0, 0], first)
            T.atomic_add(C, first, use_tma=True)
        else:
            T.copy(A[32, 0], other)
            T.atomic_add(C, other, use_tma=True)
    """
    A, C = numbers((64, 64)), numbers((32, 64), seed=1)
    assert is_bulk(prim(signature, body))
    np.testing.assert_array_equal(run(signature, body, "sm_90a", A=A, C=C)["C"], C + A[:32] + A[32:])


def test_beside_warps_that_copy():
    """The tile of a specialised kernel, whose copying warps leave the reduction to the others."""
    signature = 'A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")'
    body = """
    with T.Kernel(2, threads=128) as bz:
        a = T.alloc_shared((128, 32), "float16")
        b = T.alloc_shared((32, 128), "float16")
        out = T.alloc_shared((128, 128), "float32")
        sums = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[0, bz * 128 + k * 32], a)
            T.copy(B[bz * 128 + k * 32, 0], b)
            T.gemm(a, b, sums)
        T.copy(sums, out)
        T.atomic_add(C, out, use_tma=True)
    """
    made = prim(signature, body)
    assert is_bulk(made) and any("copying warp" in str(d) for d in for_target(made, "sm_90a").decisions())
    lowered(made, "sm_90a")


@pytest.mark.parametrize("dtype, target, function", [
    ("float16", "sm_90a", "float16x8"), ("bfloat16", "sm_90a", "bfloat16x8"), ("float16", "sm_80", "float16x2"), ("float32", "sm_90a", "float32x4")])
def test_threads_add_neighbours_of_a_shared_tile_at_once(dtype, target, function):
    signature, body = text(dtype=dtype)
    body = body.replace(", use_tma=True", "")
    made = lowered(prim(signature, body), target)
    assert f"tile_atomic_add_{function}" in device_functions(made)
    A, C = numbers((2, 100, 96), dtype), numbers((100, 96), dtype, seed=1)
    np.testing.assert_array_equal(execute(made, A=A, C=C)["C"], C + A[0] + A[1])
