"""``tilelang.testing``: marks that skip what this machine lacks, and helpers of tests."""
from __future__ import annotations

import inspect
import operator
import random
import sys
from collections.abc import Callable
from typing import Any

from ..jit.targets import capability
from .tensors import torch_assert_close


def _skip(condition: bool, reason: str) -> Callable[[Any], Any]:
    import pytest

    return pytest.mark.skipif(condition, reason=reason)


def _mark(condition: Callable[[], bool], reason: str) -> Callable[[Any], Any]:
    """A decorator, with or without a call."""
    def apply(function: Any = None) -> Any:
        mark = _skip(not condition(), reason)
        return mark(function) if function is not None else mark

    return apply


def _has_cuda() -> bool:
    return capability() is not None


requires_cuda = _mark(_has_cuda, "needs an NVIDIA GPU")
requires_cuda_or_cdna = requires_cuda
requires_rocm = requires_cdna = requires_gfx950 = _mark(lambda: False, "needs an AMD GPU")
requires_metal = _mark(lambda: False, "needs Metal")
requires_llvm = _mark(lambda: True, "needs LLVM")


def requires_package(*names: str) -> Any:
    """Skip where a package is not installed."""
    import importlib.util

    missing = [n for n in names if importlib.util.find_spec(n) is None]
    return _skip(bool(missing), f"needs {', '.join(missing)}")


def requires_cuda_compute_version(major_version: int, minor_version: int = 0, mode: str = "ge") -> Any:
    """Skip unless this machine's GPU compares so with a compute capability."""
    found = capability() or (0, 0)
    fits = getattr(operator, mode)(found, (major_version, minor_version)) and found != (0, 0)
    return _skip(not fits, f"needs a compute capability {mode} {major_version}.{minor_version}; this machine has {found[0]}.{found[1]}")


def _versions(mode: str) -> Any:
    return lambda major_version, minor_version=0: requires_cuda_compute_version(major_version, minor_version, mode)


requires_cuda_compute_version_ge, requires_cuda_compute_version_gt = _versions("ge"), _versions("gt")
requires_cuda_compute_version_le, requires_cuda_compute_version_lt = _versions("le"), _versions("lt")
requires_cuda_compute_version_eq = _versions("eq")


def main() -> None:
    """Run the tests of the calling file."""
    import pytest

    path = inspect.getsourcefile(sys._getframe(1))
    sys.exit(pytest.main([str(path), *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Of random, numpy and torch."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def process_func(func: Callable[..., Any], name: str | None = None, /, **kwargs: Any) -> float:
    """Print and return the latency a benchmark function gives for its arguments."""
    latency = float(func(**kwargs))
    print(f"{name or func.__name__}: {latency}")
    return latency


def regression(prefix: str = "", *rest: Any, **kwargs: Any) -> None:
    """Run every ``regression_*`` function of the calling file."""
    names = sys._getframe(1).f_globals
    for name, function in sorted(names.items()):
        if name.startswith("regression_") and callable(function):
            function()


__all__ = [n for n in dir() if n.startswith("requires_")] + ["main", "process_func", "regression", "set_random_seed", "torch_assert_close"]
