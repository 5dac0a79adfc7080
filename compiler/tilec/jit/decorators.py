"""``jit``, ``compile`` and ``lazy_jit`` with the arguments TileLang's take (tilelang/jit/__init__.py, 0.1.15)."""
from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

from .errors import CompileError
from .given import bound_arguments, refuse_arrays, refuse_tensors
from .kernel import JITKernel
from .targets import resolve
from .trace import PrimFunc, eager_program, is_lazy


def compile(func: Any = None, out_idx: Any = None, execution_backend: str | None = None, target: Any = None, target_host: Any = None,
            verbose: bool | None = None, pass_configs: dict[str, Any] | None = None, compile_flags: Any = None) -> JITKernel:
    """Compile a ``@T.prim_func``. ``out_idx``: parameters that the call allocates and returns. Raises CompileError."""
    if not isinstance(func, PrimFunc):
        raise CompileError(f"compile takes a @T.prim_func, not {type(func).__name__}")
    program = _with_outputs(func.program, out_idx)
    return JITKernel(program, resolve(target), pass_configs=pass_configs, verbose=bool(verbose), prim_func=func)


def _with_outputs(program: Any, out_idx: Any) -> Any:
    """The program with the parameters of ``out_idx`` as outputs. Raises CompileError for positions it lacks."""
    from dataclasses import replace

    if out_idx is None:
        return program
    if program.outputs:
        names = " and ".join(b.name for b in program.outputs)
        raise CompileError(f"{program.span}: {program.name} returns {names}, made by T.empty, and out_idx names outputs as well; leave out_idx out")
    count = len(program.params)
    positions = list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    for i in positions:
        if isinstance(i, bool) or not isinstance(i, int) or not -count <= i < count:
            raise CompileError(f"{program.span}: out_idx {i!r} is no parameter of {program.name}, which has {count} (-{count} to {count - 1})")
    chosen = sorted({i % count for i in positions})
    return replace(program, outputs=[program.params[i] for i in chosen])


class JITFunction:
    """A function under ``@jit``: calling it makes a kernel (a factory), or runs one (an eager kernel)."""

    def __init__(self, function: types.FunctionType, options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.func = function
        self.options = options
        self._kernels: dict[Any, JITKernel] = {}
        self._lazy: bool | None = None
        self._places: dict[tuple[JITKernel, int], list[int]] = {}  # by the number of arguments: which of them a kernel takes

    @property
    def lazy(self) -> bool:
        if self._lazy is None:
            self._lazy = is_lazy(self.func)
        return self._lazy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tuning = kwargs.pop("__tune_params", None)
        if tuning:
            kwargs.update(tuning)
        if self.lazy:
            return self.compile(*args, **kwargs)
        kernel = self.compile(*args, **kwargs)
        if kwargs:
            return kernel(*self._run_time(kernel, args, kwargs))
        places = self._places.get((kernel, len(args)))
        if places is None:
            places = self._places[kernel, len(args)] = self._places_of(kernel, len(args))
        return kernel(*[args[i] for i in places]) if places else kernel(*self._run_time(kernel, args, kwargs))

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, made once."""
        key = _key(args, kwargs)
        kernel = self._kernels.get(key) if key is not None else None
        if kernel is None:
            kernel = self._make(args, kwargs)
            if key is not None:
                self._kernels[key] = kernel
        return kernel

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        options = self.options
        bound = bound_arguments(self.func, args, kwargs, self.lazy)
        tensors: list[str] | None = None  # the parameters that are tensors, once they are known
        try:
            if self.lazy:
                tensors = []
                return compile(self.get_tir(*args, **kwargs), **options)
            program = eager_program(self.func, args, kwargs, {})
            tensors = [p.name for p in program.params if p not in program.outputs]
            refuse_arrays(self.func.__name__, bound, tensors)
            return JITKernel(program, resolve(options.get("target")), pass_configs=options.get("pass_configs"), verbose=bool(options.get("verbose")))
        except CompileError as error:
            refuse_tensors(self.func.__name__, bound, tensors, self.lazy, error)
            raise

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The prim_func for these arguments."""
        if not self.lazy:
            return PrimFunc.of(self.func, eager_program(self.func, args, kwargs, {}))
        made = self.func(*args, **kwargs)
        if not isinstance(made, PrimFunc):
            raise CompileError(f"{self.func.__name__} returns {type(made).__name__}, not the @T.prim_func it defines")
        return made

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        return self.compile(*args, **kwargs).get_kernel_source()

    def par_compile(self, configs: Iterable[Any], num_workers: int | None = None, ignore_error: bool = False) -> list[JITKernel]:
        """One kernel a configuration (a tuple of arguments or a dict); machine code is compiled in parallel."""
        made = [self.compile(**c) if isinstance(c, dict) else self.compile(*c) for c in configs]
        return _build(made, num_workers)

    def _run_time(self, kernel: JITKernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments that are parameters of the compiled kernel."""
        import inspect

        bound = inspect.signature(self.func).bind(*args, **kwargs)
        bound.apply_defaults()
        names = [kernel.program.params[i].name for i in kernel._inputs]
        return [bound.arguments[n] for n in names]

    def _places_of(self, kernel: JITKernel, count: int) -> list[int]:
        """Empty where one has no place among the arguments but its default."""
        import inspect

        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [n for n, p in inspect.signature(self.func).parameters.items() if p.kind in positional][:count]
        wanted = [kernel.program.params[i].name for i in kernel._inputs]
        return [names.index(n) for n in wanted] if len(names) == count and all(n in names for n in wanted) else []

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)


def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Arguments as a key; tensors count by shape, strides, dtype and device. None: they cannot be compared."""
    key = (tuple(map(_part, args)), tuple(sorted((k, _part(v)) for k, v in kwargs.items())) if kwargs else ())
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _part(value: Any) -> Any:
    if hasattr(type(value), "data_ptr"):  # names of the language have every attribute
        return ("tensor", value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_part, value))
    if isinstance(value, dict):
        return tuple(sorted((k, _part(v)) for k, v in value.items()))
    return (type(value).__name__, value)


_OPTIONS = ("out_idx", "execution_backend", "target", "target_host", "verbose", "pass_configs", "compile_flags")


def jit(func: Callable[..., Any] | None = None, *, out_idx: Any = None, target: Any = None, target_host: Any = None, execution_backend: str | None = None,
        verbose: bool | None = None, pass_configs: dict[str, Any] | None = None, debug_root_path: str | None = None, compile_flags: Any = None) -> Any:
    """``@jit`` or ``@jit(out_idx=[-1], target=...)`` above a kernel factory or an eager kernel."""
    given = {"out_idx": out_idx, "target": target, "target_host": target_host, "execution_backend": execution_backend, "verbose": verbose,
             "pass_configs": pass_configs, "compile_flags": compile_flags}
    options = {k: v for k, v in given.items() if v is not None}
    if isinstance(func, PrimFunc):
        return compile(func, **options)
    return JITFunction(func, options) if func is not None else lambda f: JITFunction(f, options)  # type: ignore[arg-type]


lazy_jit = jit


def par_compile(funcs: Iterable[Any], *, num_workers: int | None = None, ignore_error: bool = False, **options: Any) -> list[JITKernel]:
    """Compile several prim_funcs; machine code in parallel."""
    return _build([compile(f, **{k: v for k, v in options.items() if k in _OPTIONS}) for f in funcs], num_workers)


def _build(kernels: list[JITKernel], workers: int | None) -> list[JITKernel]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:  # nvcc runs as processes of their own
        list(pool.map(lambda k: k.build(), kernels))
    return kernels
