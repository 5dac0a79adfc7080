"""Choosing the fastest of several configurations of a kernel."""
from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..records import dataclass
from .decorators import JITFunction, compile
from .errors import CompileError
from .kernel import JITKernel
from .profiler import Profiler
from .trace import PrimFunc

_INPUTS: list[tuple[Any, ...]] = []


@contextlib.contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Tensors that kernels tuned inside are measured with."""
    given = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    _INPUTS.append(given)
    try:
        yield
    finally:
        _INPUTS.pop()


@dataclass
class AutotuneResult:
    """``latency`` in milliseconds; ``config``: the arguments of the fastest; ``kernel``: compiled with them."""

    latency: float
    config: dict[str, Any]
    kernel: JITKernel
    ref_latency: float | None = None
    tried: int = 0

    @property
    def libcode(self) -> str:
        return self.kernel.get_kernel_source()


def listed(configs: Any, kinds: tuple[type, ...]) -> list[Any]:
    """The configurations. Raises TypeError for what is none, ValueError if there is none."""
    example = "write one dict of arguments each, as in configs=[{'block_M': 128}]"
    if isinstance(configs, (str, dict)) or not isinstance(configs, Iterable):
        raise TypeError(f"autotune: configs is {configs!r}, not a list of configurations; {example}")
    found = list(configs)
    wrong = [c for c in found if not isinstance(c, kinds)]
    if wrong:
        raise TypeError(f"autotune: configs holds {wrong[0]!r}, which is no configuration; {example}")
    if not found:
        raise ValueError(f"autotune: configs is empty; {example}, or leave configs out for the usual tiles")
    return found


class AutoTuner:
    """Compiles every configuration (machine code in parallel), drops those that are wrong or cannot be compiled, measures the rest.

    A configuration is left after a short look if it takes twice the best time so far.
    """

    def __init__(self, make: Callable[..., Any], configs: Iterable[Any]):
        self._make = make
        self._configs = [dict(c) if isinstance(c, dict) else c for c in listed(configs, (dict, tuple, list))]
        self._compile: dict[str, Any] = {}
        self._profile: dict[str, Any] = {}

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Iterable[Any]) -> AutoTuner:
        return cls(kernel, configs)

    def set_compile_args(self, out_idx: Any = None, target: Any = "auto", **options: Any) -> AutoTuner:
        self._compile = {"out_idx": out_idx, "target": target, "pass_configs": options.get("pass_configs")}
        return self

    def set_profile_args(self, warmup: int = 25, rep: int = 100, timeout: int = 30, supply_type: Any = None, ref_prog: Any = None, supply_prog: Any = None,
                         rtol: float = 1e-2, atol: float = 1e-2, max_mismatched_ratio: float = 0.01, skip_check: bool = False, **others: Any) -> AutoTuner:
        self._profile = {"warmup": warmup, "rep": rep, "supply_type": supply_type, "ref_prog": ref_prog, "supply_prog": supply_prog, "rtol": rtol,
                         "atol": atol, "max_mismatched_ratio": max_mismatched_ratio, "skip_check": skip_check}
        return self

    def run(self, warmup: int | None = None, rep: int | None = None, timeout: int | None = None) -> AutotuneResult:
        """Raises CompileError if no configuration works."""
        kernels, failures = self._compiled()
        best: AutotuneResult | None = None
        for config, kernel in kernels:
            try:
                latency = self._measure(kernel, warmup, rep, best.latency if best is not None else None)
            except (AssertionError, ValueError, RuntimeError) as error:
                failures.append(str(error))
                continue
            if best is None or latency < best.latency:
                best = AutotuneResult(latency, config, kernel)
        if best is None:
            raise CompileError(f"none of {len(self._configs)} configurations works; the first failure: {failures[0] if failures else 'there is none'}")
        best.tried = len(kernels)
        best.kernel.update_tuner_result(best.latency, best.config)
        return best

    def _compiled(self) -> tuple[list[tuple[dict[str, Any], JITKernel]], list[str]]:
        made, failures = [], []
        for config in self._configs:
            try:
                made.append((config, self._kernel(config)))
            except CompileError as error:
                failures.append(str(error))

        def build(item: tuple[dict[str, Any], JITKernel]) -> tuple[dict[str, Any], JITKernel] | str:
            try:
                return item[0], item[1].build()
            except CompileError as error:
                return str(error)

        with ThreadPoolExecutor() as pool:
            built = list(pool.map(build, made))
        failures += [b for b in built if isinstance(b, str)]
        return [b for b in built if not isinstance(b, str)], failures

    def _kernel(self, config: Any) -> JITKernel:
        made = self._make(**config) if isinstance(config, dict) else self._make(*config)
        if isinstance(made, JITKernel):
            return made
        if not isinstance(made, PrimFunc):
            raise CompileError(f"a configuration gives {type(made).__name__}, not a kernel")
        return compile(made, **{k: v for k, v in self._compile.items() if v is not None})

    def _measure(self, kernel: JITKernel, warmup: int | None, rep: int | None, best: float | None) -> float:
        options = self._profile
        profiler = Profiler(kernel, options.get("supply_type"))
        supply = options.get("supply_prog")
        inputs = list(_INPUTS[-1]) if _INPUTS else list(supply(kernel.params)) if supply is not None else profiler.get_inputs()
        reference = options.get("ref_prog")
        if reference is not None and not options.get("skip_check"):
            profiler.assert_allclose(reference, inputs, options.get("atol", 1e-2), options.get("rtol", 1e-2), options.get("max_mismatched_ratio", 0.01))
        quick = profiler.do_bench(warmup=1, rep=5, input_tensors=inputs)
        if best is not None and quick > 2 * best:
            return quick
        return profiler.do_bench(warmup=warmup or options.get("warmup", 25), rep=rep or options.get("rep", 100), input_tensors=inputs)


class TunedFunction:
    """A jitted function under ``@autotune``: a call without the tuned arguments finds the fastest configuration, once per arguments.

    Without ``configs`` they are the usual values of the parameters that name tiles (``candidates``). With ``top`` a model ranks them first, and
    so many of the best are measured; one is taken as it is.
    """

    def __init__(self, function: Any, configs: Any, profile: dict[str, Any], top: int | None = None):
        functools.update_wrapper(self, function)
        self.function = function if isinstance(function, JITFunction) else JITFunction(function, {})
        self._configs = configs if configs is None or callable(configs) else listed(configs, (dict,))
        self._profile = profile
        self._top = 1 if configs is None and top is None else top
        self._best: dict[Any, AutotuneResult] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        configs = self._candidates(args, kwargs)
        signature = inspect.signature(self.function.func)
        constants = {k for k in kwargs if k not in signature.parameters}  # T.const names of an eager kernel
        bound = signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if k not in constants})
        if configs and all(name in bound.arguments for name in configs[0]):
            return self.function(*args, **kwargs)
        if not configs and self._configs is None:  # everything is given
            return self.function(*args, **kwargs)
        result = self.tune(args, kwargs, configs)
        if self.function.lazy:
            return result.kernel
        return self.function(*args, **{**kwargs, **result.config})

    def _candidates(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._configs is not None:
            return listed(self._configs(*args, **kwargs) if callable(self._configs) else self._configs, (dict,))
        from .candidates import configurations, meaning

        signature = inspect.signature(self.function.func)
        given = signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if k in signature.parameters}).arguments
        names = [n for n in signature.parameters if n not in given and meaning(n) is not None]
        return configurations(names) if names else []

    def ranked(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The configurations for these arguments with the model's estimates, the fastest first; nothing is compiled to machine code or run."""
        from .candidates import ranked
        from .targets import resolve

        return ranked(self._candidates(args, kwargs), lambda config: self.function.get_tir(*args, **{**kwargs, **config}), resolve(self.function.options.get("target")))

    def tune(self, args: tuple[Any, ...], kwargs: dict[str, Any], configs: list[Any]) -> AutotuneResult:
        from .decorators import _key

        key = _key(args, kwargs)
        if key is None or key not in self._best:
            found = self._run(args, kwargs, configs)
            if key is None:
                return found
            self._best[key] = found
        return self._best[key]

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], configs: list[Any]) -> AutotuneResult:
        if self._top is not None:
            best = self.ranked(*args, **kwargs)
            if self._top <= 1 or not best:
                return self._first(args, kwargs, best)
            configs = [config for config, _ in best[:self._top]]
        tuner = AutoTuner(lambda **config: self.function.compile(*args, **{**kwargs, **config}), configs).set_profile_args(**self._profile)
        if self.function.lazy:
            return tuner.run()
        kernel_inputs = [a for a in (*args, *kwargs.values()) if hasattr(type(a), "data_ptr")]
        if not kernel_inputs:  # compiled without arguments: random ones are measured with
            return tuner.run()
        with set_autotune_inputs(*kernel_inputs):
            return tuner.run()

    def _first(self, args: tuple[Any, ...], kwargs: dict[str, Any], best: list[tuple[Any, Any]]) -> AutotuneResult:
        """The best that can be compiled."""
        failure = "the model can estimate none of them"
        for config, expected in best:
            try:
                kernel = self.function.compile(*args, **{**kwargs, **config})
            except CompileError as error:
                failure = str(error)
                continue
            result = AutotuneResult(expected.seconds * 1e3, config, kernel, tried=0)
            kernel.update_tuner_result(result.latency, config)
            return result
        raise CompileError(f"no tiles were found for {self.function.func.__name__}: {failure}. Give the tiles as arguments, or configs= to autotune")

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel of the fastest configuration, or of the one that is given."""
        if self.function.lazy:
            return self(*args, **kwargs)
        configs = self._candidates(args, kwargs)
        if configs and all(name in kwargs for name in configs[0]):
            return self.function.compile(*args, **kwargs)
        return self.tune(args, kwargs, configs).kernel


def autotune(func: Any = None, *, configs: Any = None, top: int | None = None, warmup: int = 25, rep: int = 100, timeout: int = 100,
             supply_type: Any = None, ref_prog: Any = None, supply_prog: Any = None, rtol: float = 1e-2, atol: float = 1e-2,
             max_mismatched_ratio: float = 0.01, skip_check: bool = False, manual_check_prog: Any = None, cache_input_tensors: bool = False) -> Any:
    """``@autotune(configs=[...])`` above ``@jit``. ``configs``: dicts of arguments, or a function of the call's arguments that gives them.

    Without ``configs`` the usual values of the tile parameters that a call leaves open (``block_M``, ``block_N``, ``block_K``, ``num_stages``,
    ``threads``, and other spellings) are ranked by a model of the chip and the best is taken; ``top``: measure so many of the best instead.
    """
    profile = {"warmup": warmup, "rep": rep, "timeout": timeout, "supply_type": supply_type, "ref_prog": ref_prog, "supply_prog": supply_prog,
               "rtol": rtol, "atol": atol, "max_mismatched_ratio": max_mismatched_ratio, "skip_check": skip_check}
    if func is not None:
        return TunedFunction(func, configs, profile, top)
    return lambda f: TunedFunction(f, configs, profile, top)
