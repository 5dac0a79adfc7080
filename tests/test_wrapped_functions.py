"""What code around kernels reads of served functions (names, signatures), and decorators inside code that is traced."""
from __future__ import annotations

import functools
import inspect

import pytest

torch = pytest.importorskip("torch")

from tilec.jit import compile, jit  # noqa: E402
from tilec.jit.language import macro, member  # noqa: E402
from tilec.jit.trace import prim_func  # noqa: E402


class _Language:
    prim_func = staticmethod(prim_func)
    macro = staticmethod(macro)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()


@T.macro
def double(x):
    """Twice as much."""
    x[0] = x[0] * 2


@T.prim_func
def nothing(A: T.Tensor((8,), "float32")):
    """Does nothing."""
    with T.Kernel(1, threads=32):
        T.clear(A)


@jit
def factory(n: int):
    """Makes one."""
    return nothing


@pytest.mark.parametrize(("made", "name", "doc"), [(double, "double", "Twice as much."), (nothing, "nothing", "Does nothing."), (factory, "factory", "Makes one.")])
def test_functions_keep_what_wrappers_read(made, name, doc):
    @functools.wraps(made)
    def wrapper(*args):
        return made(*args)

    for f in (made, wrapper):
        assert (f.__name__, f.__qualname__, f.__doc__, f.__module__) == (name, name, doc, __name__)
    assert list(inspect.signature(wrapper).parameters) == list(inspect.signature(made.__wrapped__).parameters)


def scaling(factor):
    @T.macro
    def scale(x, i):
        x[i] = x[i] * factor

    return scale


def named(f):
    return f.__name__ + f.__qualname__ + f.__doc__


def test_a_macro_made_inside_a_kernel():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                scaling(len(named(double)))(A, i)

    a = torch.ones(32)
    compile(main, target="cpu")(a)
    assert a.tolist() == [float(len("doubledoubleTwice as much."))] * 32


@jit
def reduced(operation, policy, n: int = 32):
    @T.prim_func
    def main(A: T.Tensor((n, n), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((n, n), "int32")
            b = T.alloc_fragment((n,), "int32")
            T.copy(A, a)
            operation(a, b)
            T.copy(b, B)

    return main


def test_names_of_the_language_are_arguments():
    """They have every attribute and every item a name can have, and are no tensors and no sequences for it."""
    a, b = torch.arange(32 * 32, dtype=torch.int32).reshape(32, 32), torch.zeros(32, dtype=torch.int32)
    reduced.options["target"] = "cpu"
    for operation, combine in ((T.reduce_max, torch.maximum), (T.reduce_bitand, torch.bitwise_and)):
        reduced(operation, T.GemmWarpPolicy.FullRow)(a, b)
        expected = a[:, 0]
        for column in range(1, 32):
            expected = combine(expected, a[:, column])
        assert torch.equal(b, expected)
    assert reduced(T.reduce_max, T.GemmWarpPolicy.FullRow) is reduced(T.reduce_max, T.GemmWarpPolicy.FullRow)
    assert not hasattr(T.reduce_max, "shape") and hasattr(T.GemmWarpPolicy, "FullRow")
    with pytest.raises(TypeError):
        iter(T.reduce_max)
