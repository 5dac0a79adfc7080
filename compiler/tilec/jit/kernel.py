"""A compiled kernel as a function of torch tensors."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate
from ..ir.program import TileProgram
from ..pipeline import Artifact, compile_program
from ..runtime.looks import Checked, Recent
from ..target.chips import Target
from ..transform.configs import misspelt
from ..transform.errors import LoweringError
from .errors import CompileError, with_place
from .surrounding import current_configs
from .trace import refuse_faulty


class JITKernel:
    """Call it with the parameters that are no outputs, in order; outputs are allocated and returned.

    Raises CompileError when it is made, ``ArgumentError`` when an argument does not fit, ``LaunchError`` from the driver.
    """

    # A slot, so that a call of the kernel is one of the function made for the last call's arguments, without another function around it.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, program: TileProgram, target: Target, out_idx: Any = None, execution_backend: str | None = None, *,
                 pass_configs: dict[str, Any] | None = None, verbose: bool = False, prim_func: Any = None):
        if not isinstance(program, TileProgram):  # TileLang's own: JITKernel(prim_func, target="cuda", out_idx=...)
            from .decorators import _with_outputs
            from .targets import resolve

            prim_func, program, target = program, _with_outputs(program.program, out_idx), resolve(target)
        refuse_faulty(program, target)
        pass_configs = {**current_configs(), **(pass_configs or {})}
        for told in misspelt(pass_configs):
            warnings.warn(told, stacklevel=4)
        known = program.attrs.get("pass_configs")
        if pass_configs and (known is None or isinstance(known, dict)):
            program = replace(program, attrs={**program.attrs, "pass_configs": {**(known or {}), **pass_configs}})
        self.program, self.target = program, target
        self.prim_func = prim_func
        self.pass_configs = pass_configs
        self.artifact = _lower(program, target)
        self.config: dict[str, Any] | None = None
        self.latency: float | None = None
        self.ref_latency: float | None = None
        self._launch: Any = None
        self._arguments: Any = None
        self._recent = Recent()
        self.__call__ = self._call
        outputs = set(program.outputs)
        self._outputs = [i for i, p in enumerate(program.params) if p in outputs]
        self._inputs = [i for i in range(len(program.params)) if i not in self._outputs]
        if verbose:
            print(self.get_kernel_source())

    # -- calling -------------------------------------------------------------------------------------------------
    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """A call unlike the one before: like an earlier one, or one whose arguments are still to be checked."""
        if kwargs:
            args = self._by_name(args, kwargs)
        if any(a is None for a in args):
            from .missing import with_stand_ins

            positions = self._inputs if len(args) != len(self.program.params) else range(len(args))
            args = with_stand_ins(self.program, args, positions, "cpu" if self.target.kind == "cpu" else "cuda")
        result, kind = self._recent.call(args)
        if kind is None:
            kind = self._checked(args)
            result = self._recent.first(kind, args)
        self.__call__ = kind.call(self._call)
        return result

    def _checked(self, args: tuple[Any, ...]) -> Checked:
        """Raises ArgumentError, and CompileError where the kernel is yet to be compiled."""
        launch = self.launcher()
        if self._outputs and len(args) != len(self.program.params):
            return launch.checked(self._with_outputs(args), self._outputs, self._outputs)
        return launch.checked(args, (), self._outputs)  # the caller brings the outputs as well

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        names = [self.program.params[i].name for i in self._inputs]
        rest = names[len(args):]
        unknown = [k for k in kwargs if k not in rest]
        if unknown:
            from ..emit.arguments import ArgumentError

            raise ArgumentError(f"{self.program.name}: there is no parameter {unknown[0]!r} left to give; its parameters: {', '.join(names)}")
        return (*args, *(kwargs[n] for n in rest if n in kwargs))

    def _with_outputs(self, args: tuple[Any, ...]) -> list[Any]:
        """All arguments, with tensors without memory for the outputs that the call makes."""
        from ..emit.arguments import ArgumentError, extents_given

        if len(args) != len(self._inputs):
            names = ", ".join(self.program.params[i].name for i in self._inputs)
            count = f"{len(self._inputs)} argument{'s' if len(self._inputs) != 1 else ''}"
            raise ArgumentError(f"{self.program.name} takes {count} ({names}); {len(args)} {'was' if len(args) == 1 else 'were'} given. Its outputs "
                                f"({', '.join(self.program.params[i].name for i in self._outputs)}) are made by the call")
        arguments: list[Any] = [None] * len(self.program.params)
        for i, a in zip(self._inputs, args):
            arguments[i] = a
        values = extents_given(self._plan(), arguments)
        for i in self._outputs:
            output = self.program.params[i]
            assert isinstance(output, Buffer)
            arguments[i] = self._empty(output, values)
        return arguments

    def _plan(self) -> Any:
        from ..emit.arguments import plan_arguments

        if self._arguments is None:
            self._arguments = plan_arguments(self.program)
        return self._arguments

    def _empty(self, output: Buffer, values: dict[Any, Any]) -> Any:
        import torch

        from ..emit.arguments import ArgumentError

        try:
            shape = [int(evaluate(e, values)) for e in output.shape]
        except (KeyError, TypeError, ValueError):
            raise ArgumentError(f"{self.program.name}: the shape of the output {output.name} does not follow from the arguments") from None
        if shape:
            shape[-1] //= self._plan().packed(output)
        return torch.empty(shape, dtype=_torch_dtype(output.dtype), device="meta")

    def launcher(self) -> Any:
        """The kernel as a function of all its parameters in order (``runtime.gpu.GpuKernel``, ``runtime.cpu_call.CpuKernel``)."""
        if self._launch is None:
            self._launch = self._load()
        return self._launch

    def _load(self) -> Any:
        from ..build.nvcc import ToolkitError

        try:
            if self.target.kind == "cpu":
                from ..runtime.cpu_call import CpuKernel

                return CpuKernel(self._plan(), self.artifact.host_callable())
            from ..runtime.gpu import GpuKernel

            return GpuKernel(self.artifact)
        except LoweringError as error:
            raise CompileError(with_place(str(error), error.span)) from error
        except ToolkitError as error:
            raise CompileError(f"{self.program.name}: {error}") from error

    def build(self) -> JITKernel:
        """Compile the machine code now (a GPU target: nvcc), so that the first call is quick."""
        if self.target.kind != "cpu":
            from ..build.nvcc import ToolkitError

            try:
                self.artifact.cubin()
            except ToolkitError as error:
                raise CompileError(f"{self.program.name}: {error}") from error
        return self

    # -- texts ---------------------------------------------------------------------------------------------------
    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """CUDA text (CPU: the device module)."""
        return self._text("cuda" if self.target.kind == "cuda" else "device")

    def get_host_source(self) -> str:
        return self._text("host")

    kernel_source = property(get_kernel_source)
    host_source = property(get_host_source)

    def _text(self, stage: str) -> str:
        try:
            return self.artifact.text(stage)
        except LoweringError as error:
            raise CompileError(with_place(str(error), error.span)) from error

    def show_source(self, which: str = "kernel") -> None:
        if which in ("kernel", "both"):
            print(self.get_kernel_source())
        if which in ("host", "both"):
            print(self.get_host_source())

    print_source_code = show_source

    def export_sources(self, kernel_path: str | None = None, host_path: str | None = None) -> None:
        for path, text in ((kernel_path, self.get_kernel_source), (host_path, self.get_host_source)):
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(text(), encoding="utf-8")

    def export_ptx(self, path: str) -> None:
        Path(path).write_text(self._text("ptx"), encoding="utf-8")

    def export_sass(self, path: str) -> None:
        Path(path).write_text(self._text("sass"), encoding="utf-8")

    # -- facts ---------------------------------------------------------------------------------------------------
    @property
    def out_idx(self) -> list[int]:
        return list(self._outputs)

    @property
    def params(self) -> list[Any]:
        return list(self.program.params)

    @property
    def n_regs(self) -> int | None:
        return max((r.registers for r in self._resources()), default=None)

    @property
    def n_spills(self) -> int | None:
        return max((r.spill_bytes for r in self._resources()), default=None)

    def _resources(self) -> list[Any]:
        return [] if self.target.kind == "cpu" else list(self.artifact.cubin().resources.values())

    def get_profiler(self, tensor_supply_type: Any = None) -> Any:
        from .profiler import Profiler

        return Profiler(self, tensor_supply_type)

    def run_once(self, func: Callable[..., Any] | None = None) -> None:
        self.get_profiler().run_once(func)

    def update_tuner_result(self, latency: float, config: dict[str, Any], ref_latency: float | None = None) -> JITKernel:
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        if self.latency is None:
            raise ValueError("this kernel was not tuned")
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}


def _lower(program: TileProgram, target: Target) -> Artifact:
    try:
        return compile_program(program, target)
    except LoweringError as error:
        raise CompileError(with_place(str(error), error.span)) from error


def _torch_dtype(name: str) -> Any:
    from .values import dtype

    return dtype(name).as_torch()
