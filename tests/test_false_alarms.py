"""Valid kernels that the checker once accused, in their smallest form: nothing may be reported about them."""

from __future__ import annotations

import pytest
from alarm_support import HEAD, diagnostics, everything
from tilec.check.diagnostic import ERROR

VALID = {
    "out_idx=None of an eager kernel": '''
@tilelang.jit(out_idx=None)
def scale(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = A[bx * 32 + i] * 2
    return B

scale.compile(N=64)
''',
    "a packed atomic that returns the old values": '''
@T.prim_func
def fetch(D: T.Tensor((2,), T.float32), V: T.Tensor((2,), T.float32), Old: T.Tensor((2,), T.float32)):
    with T.Kernel(1, threads=1):
        Old[0:2] = T.atomic_addx2(D[0:2], V[0:2], return_prev=True)
''',
    "a packed operation on what a vector of indices loads": '''
@T.prim_func
def add(A: T.Tensor((256,), T.float32), B: T.Tensor((256,), T.float32), C: T.Tensor((256,), T.float32)):
    with T.Kernel(1, threads=128):
        pair = T.Ramp(T.get_thread_binding() * 2, 1, 2)
        C[pair] = T.add2(A[pair], B[pair])
''',
    "the same inside a block that says so": '''
@T.prim_func
def pad(A: T.Tensor((60, 60), T.int32), B: T.Tensor((64, 64), T.int32)):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.int32)
        with T.sblock("padded"):
            T.reads()
            T.writes()
            T.annotate_safe_value({A: -1})
            T.copy(A[0:64, 0:64], tile)
        T.copy(tile, B)
''',
    "a slice beyond a tensor whose outside has a value": '''
@T.prim_func
def pad(A: T.Tensor((60, 60), T.int32), B: T.Tensor((64, 64), T.int32)):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.int32)
        T.annotate_safe_value({A: -1})
        T.copy(A[0:64, 0:64], tile)
        T.copy(tile, B)
''',
    "a value whose meaning is not modelled": '''
@T.prim_func
def total(A: T.Tensor((32,), T.float32), C: T.Tensor((1,), T.float32)):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding(0)
        mine, out = T.alloc_local((1,), T.float32), T.alloc_local((1,), T.float32)
        mine[0] = A[tx]
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), mine[0], True, out[0], tx, dtype="handle"))
        C[0] = out[0]
''',
    "a variable that T.let binds": '''
@T.prim_func
def shift(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):
    with T.Kernel(2, threads=32) as bx:
        begin = T.int32()
        T.let(begin, bx * 32)
        for i in T.Parallel(32):
            B[begin + i] = A[begin + i]
''',
    "asynchronous copies of a schedule": '''
@T.prim_func
def staged(A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float16)):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.float16)
        T.annotate_ws_schedule(T.WSSchedule(num_warps=4, roles=[], pipelines=[], scopes=[]))
        T.async_copy(A[0:64, 0:64], tile)
        T.copy(tile, B)
''',
    "rows of tensor memory that a layout places": '''
@T.prim_func
def stacked(A: T.Tensor((256, 64), T.float32)):
    with T.Kernel(1, threads=128):
        acc = T.alloc_tmem((256, 64), T.float32)
        T.annotate_layout({acc: T.Layout((256, 64), lambda i, j: [i % 128, (i // 128) * 64 + j])})
        T.evaluate(acc[0, 0])
''',
    "a helper that returns or raises": '''
def size(names):
    for name in open(names):
        if name:
            return 1
    raise ValueError(names)

def make(M):
    @T.prim_func
    def main(A: T.Tensor((M,), T.float32), B: T.Tensor((M,), T.float32)):
        with T.Kernel(1, threads=128):
            acc = T.alloc_shared((M,), T.float32)
            T.copy(A, acc)
            T.copy(acc, B)

    return main

@tilelang.testing.requires_rocm
def test_size():
    size("names")
    make(128)
''',
    "parameters declared in the body of a prim_func": '''
@T.prim_func
def copy(A, B):
    A: T.Tensor((32,), T.float32)
    B: T.Tensor((32,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            B[i] = A[i]
''',
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_silent(text):
    assert diagnostics(text) == []


def test_a_smaller_slice_between_global_tensors_is_no_error():
    text = '''
@T.prim_func
def partial(A: T.Tensor((128, 128), T.float16), B: T.Tensor((128, 128), T.float16)):
    with T.Kernel(1, threads=128):
        T.copy(A[:, :2], B[:, :3])
        T.copy(A[:, :3], B[:, :2])
'''
    found = diagnostics(text)
    assert [(d.name, d.severity) for d in found] == [("copy-extents", "warning"), ("copy-extents", ERROR)]


def test_a_gemm_of_a_schedule_has_its_barrier_from_it():
    text = '''
@T.prim_func
def main(A: T.Tensor((128, 64), T.bfloat16), B: T.Tensor((128, 64), T.bfloat16), C: T.Tensor((128, 128), T.bfloat16)):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), T.bfloat16)
        b = T.alloc_shared((128, 64), T.bfloat16)
        acc = T.alloc_tmem((128, 128), T.float32)
        out = T.alloc_fragment((128, 128), T.float32)
        SCHEDULE
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, acc, transpose_B=True, clear_accum=True)
        T.copy(acc, out)
        T.copy(out, C)
'''
    assert "tcgen05-mbar" in [d.name for d in diagnostics(text.replace("SCHEDULE", "pass"))]
    assert diagnostics(text.replace("SCHEDULE", "T.annotate_ws_schedule(T.WSSchedule(num_warps=4, roles=[], pipelines=[], scopes=[]))")) == []


def test_the_type_of_a_tir_call_may_be_its_keyword():
    text = '''
@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_local((1,), "float32")
        a[0] = 1.0
        CALL
        A[0] = a[0]
'''
    assert diagnostics(text.replace("CALL", 'T.call_extern("f", T.address_of(a[0]), 1, dtype="handle")')) == []
    assert [d.name for d in diagnostics(text.replace("CALL", 'T.call_extern(3, T.address_of(a[0]), 1, dtype="handle")'))] == ["argument-kind"]


@pytest.mark.parametrize("condition", ["(i >= 0) * (i < n)", "(i >= 0) + (i < n)"])
def test_products_of_truth_values_are_truth_values(condition):
    text = f'''
@T.prim_func
def main(A: T.Tensor((128,), "float32"), n: T.int32):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            A[i] = T.if_then_else({condition}, A[i], 0.0)
        for i in T.Parallel(128):
            if {condition}:
                A[i] = 1.0
            else:
                A[i] = 2.0
'''
    assert diagnostics(text) == []
    assert {d.name for d in diagnostics(text.replace(condition, "n"))} == {"condition-dtype"}


def test_updates_of_a_reducer_by_values_that_are_not_known():
    text = '''
@T.prim_func
def main(B: T.Tensor((4, 512), "float32"), C: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=128):
        b = somewhere.fragment(B)
        c = T.alloc_reducer(4, "float32", replication="all")
        T.clear(c)
        for m in T.serial(4):
            for i in T.Parallel(512):
                c[m] += b[m, i]
        T.finalize_reducer(c)
        T.copy(c, C)
'''
    assert [d for d in diagnostics("import somewhere\n" + text) if d.severity == "error"] == []


def test_a_reduction_of_a_shared_tile_reads_it_into_a_fragment_that_places_the_result():
    text = '''
@T.prim_func
def main(X: T.Tensor((128, 64), "float32"), S: T.Tensor((1,), "float32")):
    with T.Kernel(1, threads=128):
        x = T.alloc_TILE((128, 64), "float32")
        rows = T.alloc_fragment((128,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.FIRST
        T.reduce_absmax(x, rows, dim=1)
        T.reduce_absmax(rows, total, dim=0)
        S[0] = total[0]
'''
    assert diagnostics(text.replace("TILE", "shared").replace("FIRST", "copy(X, x)")) == []
    filled = diagnostics(text.replace("TILE", "fragment").replace("FIRST", "clear(x)"))
    assert {d.name for d in filled} == {"layout-undefined"}
    one = diagnostics(text.replace("TILE", "shared").replace("FIRST", "copy(X, x)").replace("T.reduce_absmax(x, rows, dim=1)", "T.clear(rows)"))
    assert {d.name for d in one} == {"layout-undefined"}


def test_vectors_start_where_a_quotient_or_a_remainder_is_known_to_be_even():
    def hints(index: str) -> list[str]:
        text = f'''
@T.prim_func
def main(A: T.Tensor((512,), "float16"), B: T.Tensor((512,), "float16")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        for v in T.vectorized(4):
            B[tx * 4 + v] = A[{index} + v]
'''
        return [d.name for d in everything(HEAD + text, ["sm_90a"], explicit=True)]

    for even in ("tx * 8 // 2", "(tx * 16 >> 1)", "tx * 8 % 64", "T.min(tx * 8, 64)", "tx * 8 // 2 % 32 * 4"):
        assert hints(even) == [], even
    for odd in ("tx * 8 // 8", "tx * 8 // 16", "tx % 64", "T.min(tx * 8, 65)"):
        assert hints(odd) == ["scalar-vector-loop"], odd


def test_python_s_print_shows_what_it_is_given_while_a_kernel_is_made():
    text = '''
@T.prim_func
def main(A: T.Tensor((128,), "float32"), n: T.int32):
    with T.Kernel(1, threads=128) as bx:
        PRINT
        A[0] = 1
'''
    assert diagnostics(text.replace("PRINT", 'print("n", n, A, bx)')) == []
    assert [d.name for d in diagnostics(text.replace("PRINT", 'T.print("n")'))] == ["argument-kind"]
