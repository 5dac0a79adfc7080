"""Reducers on the thread programs (or the GPU), the CPU and the interpreter, against numpy."""
from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from tilec.pipeline import compile_program
from tilec.runtime.oracle import interpret_arguments
from tilec.target.chips import find
from transform_support import numbers, prim, run

_NUMPY = {"sum": np.sum, "max": np.max, "min": np.min, "bitand": np.bitwise_and.reduce, "bitor": np.bitwise_or.reduce, "bitxor": np.bitwise_xor.reduce}


def everywhere(signature: str, body: str, **arguments: np.ndarray) -> list[np.ndarray]:
    """``B`` by the thread program, by the interpreter and (with TVM) by the CPU target."""
    results = [run(signature, body, **arguments)["B"]]
    program = prim(signature, body)
    doers = [lambda *a: interpret_arguments(program, list(a))]
    with contextlib.suppress(ModuleNotFoundError):
        doers.append(compile_program(prim(signature, body), find("cpu")).host_callable())
    for do in doers:
        tensors = []
        for p in program.params:
            shape = tuple(int(str(e.value)) for e in p.shape)
            given = arguments.get(p.name)
            tensors.append(torch.zeros(shape, dtype=getattr(torch, p.dtype)) if given is None else torch.tensor(given).to(getattr(torch, p.dtype)))
        do(*tensors)
        results.append(next(t for p, t in zip(program.params, tensors) if p.name == "B").numpy())
    return results


@pytest.mark.parametrize("kind, dtype", [("sum", "float32"), ("max", "float32"), ("min", "int32"), ("bitand", "int32"), ("bitor", "int32"), ("bitxor", "int32")])
@pytest.mark.parametrize("outs, n, threads", [(8, 64, 128), (3, 50, 64), (1, 40, 48)])
def test_rows(kind, dtype, outs, n, threads):
    a = numbers((outs, n), dtype)
    found = everywhere(f"A: T.Tensor(({outs}, {n}), '{dtype}'), B: T.Tensor(({outs},), '{dtype}')", f"""
    with T.Kernel(1, threads={threads}) as b:
        acc = T.alloc_reducer(({outs},), '{dtype}', op='{kind}')
        r = T.alloc_fragment(({outs},), '{dtype}')
        T.reducer_init(acc)
        for i, j in T.Parallel({outs}, {n}):
            T.reducer_update(acc[i], A[i, j])
        T.finalize_reducer(acc, r, batch=1)
        T.copy(r, B)
    """, A=a)
    for values in found:
        np.testing.assert_array_equal(values, _NUMPY[kind](a, axis=1))


def test_a_start_value_counts_once_and_epochs_follow_each_other():
    a = numbers((4, 64), "int32")
    found = everywhere("A: T.Tensor((4, 64), 'int32'), B: T.Tensor((4, 1), 'int32')", """
    with T.Kernel(1, threads=64) as b:
        acc = T.alloc_reducer((1,), 'int32', op='sum')
        r = T.alloc_fragment((1,), 'int32')
        for k in T.serial(4):
            T.reducer_init(acc, k * 100)
            for j in T.Parallel(64):
                T.reducer_update(acc[0], A[k, j])
            T.finalize_reducer(acc, r)
            T.copy(r, B[k, 0])
    """, A=a)
    for values in found:
        np.testing.assert_array_equal(values[:, 0], a.sum(1) + np.arange(4) * 100)


def test_several_loops_and_replicated_iterations_update_one_reducer():
    """Sixteen iterations on 128 threads: each counts once."""
    a = numbers((16,), "float32")
    found = everywhere("A: T.Tensor((16,), 'float32'), B: T.Tensor((2,), 'float32')", """
    with T.Kernel(1, threads=128) as b:
        acc = T.alloc_reducer((2,), 'float32', op='sum')
        r = T.alloc_fragment((2,), 'float32')
        T.reducer_init(acc)
        for j in T.Parallel(16):
            T.reducer_update(acc[j % 2], A[j])
        for j in T.Parallel(16):
            if j > 3:
                T.reducer_update(acc[0], A[j] * 2.0)
        T.finalize_reducer(acc, r)
        T.copy(r, B)
    """, A=a)
    for values in found:
        np.testing.assert_array_equal(values, [a[::2].sum() + 2 * a[4:].sum(), a[1::2].sum()])


@pytest.mark.parametrize("across, down", [(8, 4), (32, 2), (64, 2), (4, 3)])
@pytest.mark.parametrize("combiner, wanted", [("lambda x, y: x + y", np.sum), ("lambda x, y: T.max(x, y)", np.max)])
def test_a_value_a_thread_is_reduced_along_an_axis(across, down, combiner, wanted):
    a = numbers((down, 64), "float32")
    found = run(f"A: T.Tensor(({down}, 64), 'float32'), B: T.Tensor(({down},), 'float32')", f"""
    with T.Kernel(1, threads=({across}, {down})) as b:
        tk = T.get_thread_binding(0)
        tn = T.get_thread_binding(1)
        v = T.alloc_local((1,), 'float32')
        r = T.alloc_local((1,), 'float32')
        v[0] = A[tn, tk]
        for k in T.serial(1, {64 // across}):
            v[0] = ({combiner})(v[0], A[tn, k * {across} + tk])
        with T.attr(T.comm_reducer({combiner}, [T.cast(0, 'float32')]), 'reduce_scope', T.reinterpret(T.uint64(0), dtype='handle')):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), v[0], True, r[0], tk, dtype='handle'))
        if tk == 0:
            B[tn] = r[0]
    """, A=a)
    np.testing.assert_array_equal(found["B"], wanted(a, axis=1))


@pytest.mark.parametrize("name, wanted", [("all_of", np.all), ("any_of", np.any)])
def test_a_slice_of_flags_is_tested(name, wanted):
    a = (numbers((4, 3), "int32") > 0).astype(np.int32)
    for values in everywhere("A: T.Tensor((4, 3), 'int32'), B: T.Tensor((4, 1), 'int32')", f"""
    with T.Kernel(4, threads=32) as b:
        if T.{name}(A[b, :]):
            B[b, 0] = 1
        else:
            B[b, 0] = 2
    """, A=a):
        np.testing.assert_array_equal(values[:, 0], np.where(wanted(a, axis=1), 1, 2))


def test_a_reducer_with_a_dimension_of_one():
    a = numbers((16, 16), "float32")
    found = everywhere("A: T.Tensor((16, 16), 'float32'), B: T.Tensor((1, 16), 'float32')", """
    with T.Kernel(1, threads=128) as b:
        acc = T.alloc_reducer((1, 16), 'float32', op='sum')
        r = T.alloc_fragment((1, 16), 'float32')
        T.reducer_init(acc)
        for i, k in T.Parallel(16, 16):
            T.reducer_update(acc[0, i], A[i, k])
        T.finalize_reducer(acc, r)
        T.copy(r, B)
    """, A=a)
    for values in found:
        np.testing.assert_allclose(values[0], a.sum(1), rtol=1e-5)
