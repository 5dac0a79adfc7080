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
