"""Timing kernels and comparing them, with the methods of TileLang's profiler."""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate


class TensorSupplyType(enum.Enum):
    """What inputs are filled with."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, _n_warmup: int = 0, _n_repeat: int = 0, quantiles: Any = None, fast_flush: bool = True,
             backend: str = "event", return_mode: str = "mean", cache_size: int = 256, **ignored: Any) -> Any:
    """Milliseconds of a call (warmup and rep: milliseconds spent on each), the level-2 cache cleared between calls."""
    from . import bench

    if return_mode not in bench.MODES:
        raise ValueError(f"do_bench: return_mode is one of {', '.join(bench.MODES)}, not {return_mode!r}")
    taken = bench.measure(fn, backend, warmup, rep, _n_warmup, _n_repeat, cache_size) if _cuda_is_there() else _on_cpu(fn, warmup, rep, _n_warmup, _n_repeat)
    if quantiles is not None:
        found = [_quantile(taken, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    return bench.MODES[return_mode](taken)


def _on_cpu(fn: Callable[[], Any], warmup: float, rep: float, warmups: int, repeats: int) -> list[float]:
    """Calls are timed for ``CPU_SECONDS`` at most."""
    from ..runtime import timing

    first = max(timing.measure_cpu(fn, 1, 3).median, 1e-4)
    return timing.times_cpu(fn, warmups or max(1, int(warmup / first)), repeats or min(max(3, int(rep / first)), 2000))


def _quantile(values: list[float], fraction: float) -> float:
    from ..runtime.timing import quantile

    return quantile(sorted(values), fraction)


def _cuda_is_there() -> bool:
    from ..runtime import gpu

    return gpu.available()


class Profiler:
    """Inputs of a kernel, comparison with a reference, latency."""

    def __init__(self, kernel: Any, supply: Any = None):
        self.kernel = kernel
        self.supply = supply or TensorSupplyType.Auto

    # -- inputs --------------------------------------------------------------------------------------------------
    def _get_inputs(self, with_output: bool = False, dynamic_symbolic_constraints: dict[str, int] | None = None) -> list[Any]:
        program = self.kernel.program
        sizes = dynamic_symbolic_constraints or {}
        chosen = range(len(program.params)) if with_output else self.kernel._inputs
        return [self._input(program.params[i], sizes) for i in chosen]

    get_inputs = _get_inputs

    def _input(self, p: Any, sizes: dict[str, int]) -> Any:
        if not isinstance(p, Buffer):
            return sizes.get(p.name, 1)
        from ..ir.expr import Var, walk

        symbols = {v: sizes.get(v.name) for e in p.shape for v in walk(e) if isinstance(v, Var)}
        missing = [v.name for v, size in symbols.items() if size is None]
        if missing:
            raise ValueError(f"{p.name} has the run-time extent {missing[0]}; give it in dynamic_symbolic_constraints, or pass input_tensors")
        shape = [int(evaluate(e, symbols)) for e in p.shape]
        if not isinstance(self.supply, TensorSupplyType) and callable(self.supply):  # of get_tensor_supply, or the user's own
            return self.supply(p)
        return make_input(shape, p.dtype, self.supply, "cpu" if self.kernel.target.kind == "cpu" else "cuda")

    # -- comparing -----------------------------------------------------------------------------------------------
    def assert_allclose(self, reference_program: Callable[..., Any], input_tensors: Any = None, atol: float = 1e-2, rtol: float = 1e-2,
                        max_mismatched_ratio: float = 0.01) -> None:
        """The kernel's outputs equal those of a function of the same inputs. Raises AssertionError."""
        inputs = list(input_tensors) if input_tensors is not None else self._get_inputs()
        expected = reference_program(*inputs)
        actual = self.kernel(*inputs)
        if self.kernel._outputs == []:
            return
        pairs = zip(_listed(actual), _listed(expected))
        for a, e in pairs:
            if e is not None:
                compare(a, e, rtol, atol, max_mismatched_ratio)

    def manual_assert_close(self, reference_program: Callable[..., Any], input_tensors: Any = None, manual_check_prog: Callable[..., Any] | None = None) -> None:
        inputs = list(input_tensors) if input_tensors is not None else self._get_inputs()
        expected, actual = reference_program(*inputs), self.kernel(*inputs)
        if manual_check_prog is not None:
            manual_check_prog(_listed(actual), _listed(expected))

    def assert_consistent(self, repeat: int = 10) -> None:
        """Repeated calls give the same bits."""
        import torch

        inputs = self._get_inputs()
        first = _listed(self.kernel(*inputs))
        for _ in range(repeat):
            for a, b in zip(first, _listed(self.kernel(*inputs))):
                assert torch.equal(a, b), "repeated calls differ"

    # -- running -------------------------------------------------------------------------------------------------
    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        return (func or self.kernel)(*self._get_inputs())

    def do_bench(self, func: Callable[..., Any] | None = None, warmup: float = 25, rep: float = 100, n_warmup: int = 0, n_repeat: int = 0,
                 input_tensors: Any = None, backend: str = "event", quantiles: Any = None, return_mode: str = "mean",
                 dynamic_symbolic_constraints: dict[str, int] | None = None, **ignored: Any) -> Any:
        """Milliseconds of the kernel, or of a function of the same inputs."""
        inputs = list(input_tensors) if input_tensors is not None else self._get_inputs(False, dynamic_symbolic_constraints)
        call = func or self.kernel
        return do_bench(lambda: call(*inputs), warmup, rep, n_warmup, n_repeat, quantiles, backend=backend, return_mode=return_mode)

    @property
    def func(self) -> Any:
        """What is called: ``profiler.do_bench(profiler.func)``."""
        return self.kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs)


def make_input(shape: list[int], name: str, supply: Any, device: str) -> Any:
    """A random tensor of a data type. ``supply``: a TensorSupplyType; Auto is what TileLang's Auto is: floats between -1 and 1,
    small integers (tilelang/utils/tensor.py, 0.1.15), so that its tests' tolerances mean the same here."""
    import torch

    from .values import dtype

    kind = getattr(supply, "name", "Auto")
    torch_dtype = dtype(name).as_torch()
    if dtypes.bits(name) < 8:
        shape = [*shape[:-1], shape[-1] * dtypes.bits(name) // 8]
        return torch.randint(0, 127, shape, dtype=torch.int8, device=device).to(torch_dtype)
    if kind == "Zero":
        return torch.zeros(shape, dtype=torch_dtype, device=device)
    if kind == "One":
        return torch.ones(shape, device=device).to(torch_dtype)
    if name == "bool":
        return torch.randint(0, 2, shape, device=device).to(torch.bool)
    if not dtypes.is_float(name):
        low = 0 if dtypes.is_unsigned(name) else -2
        return torch.randint(low, 3, shape, device=device).to(torch_dtype)
    if name.startswith("float8") and kind in ("Integer", "Auto"):
        return torch.randint(-128, 128, shape, dtype=torch.int8, device=device).to(torch_dtype)
    if kind == "Integer" or (kind == "Auto" and name == "float64"):
        return torch.randint(-2, 3, shape, device=device).to(torch_dtype)
    if kind in ("Uniform", "Auto"):
        return (torch.rand(shape, device=device) * 2 - 1).to(torch_dtype)
    return torch.randn(shape, device=device).to(torch_dtype)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def compare(actual: Any, expected: Any, rtol: float, atol: float, max_mismatched_ratio: float = 0.01, **ignored: Any) -> None:
    """Raises AssertionError where more than a share of the elements differs."""
    import torch

    a, e = actual.to(torch.float32) if actual.dtype.is_floating_point else actual, expected
    e = e.to(a.dtype) if hasattr(e, "to") else torch.as_tensor(e, dtype=a.dtype)
    e = e.to(a.device)
    assert a.shape == e.shape, f"shapes differ: {tuple(a.shape)} and {tuple(e.shape)}"
    wrong = ~torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
    count = int(wrong.sum())
    if count > max_mismatched_ratio * a.numel():
        first = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(f"{count} of {a.numel()} elements differ (rtol {rtol}, atol {atol}); first at {first}: {a[first].item()} and {e[first].item()}")
