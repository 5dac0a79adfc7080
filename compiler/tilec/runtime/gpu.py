"""Launching compiled kernels on an NVIDIA GPU with torch's CUDA tensors, on torch's current stream."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ..build.launch import C_TYPES, Driver, LaunchError
from ..emit.arguments import check_arguments, plan_arguments
from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate
from ..target import chips


def available() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def local_target() -> chips.Target:
    """The target of this machine's GPU. Raises LaunchError."""
    if not available():
        raise LaunchError("no NVIDIA GPU that torch can use is found on this machine; --target cpu runs the kernel on the CPU")
    import torch

    major, minor = torch.cuda.get_device_capability()
    plain = f"sm_{major}{minor}"
    for name in (f"{plain}a", plain):
        if name in chips.TARGETS:
            return chips.TARGETS[name]
    raise LaunchError(f"this machine's GPU ({torch.cuda.get_device_name()}, {plain}) is none this compiler knows: {', '.join(chips.TARGETS)}")


def runs_here(target: chips.Target) -> str:
    """Why a target's kernels cannot run on this machine's GPU, "" if they can."""
    here = local_target()
    if target.sm == here.sm or (target.sm < here.sm and target.sm // 10 == here.sm // 10 and not target.name.endswith("a")):
        return ""
    return f"kernels for {target.name} do not run on this machine's GPU, which is {here.name}"


class GpuKernel:
    """A compiled artifact as a function of its parameters in order: CUDA tensors and numbers."""

    def __init__(self, artifact: Any):
        import torch

        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the primary context of the device current
        self._torch = torch
        self._artifact = artifact
        self._plan = plan_arguments(artifact.program)
        self._driver = Driver()
        self._functions: dict[int, list[tuple[Any, ctypes.c_void_p]]] = {}

    def __call__(self, *arguments: Any) -> None:
        self.prepared(*arguments)()

    def prepared(self, *arguments: Any) -> Callable[[], None]:
        """Check the arguments once; the function returned only launches, so that short kernels can be timed."""
        values = check_arguments(self._plan, arguments, "cuda")
        by_param = dict(zip(self._plan.params, arguments))
        device = next((a.device for a in arguments if hasattr(a, "device")), self._torch.device("cuda"))
        launches = []
        with self._torch.cuda.device(device):
            for spec, function in self._loaded():
                grid = [int(evaluate(e, values)) for e in spec.grid]
                grid += [1] * (3 - len(grid))
                if not all(grid):
                    continue  # nothing to do: a tensor with an empty dimension
                _check_grid(spec.name, grid)
                passed = [_pointer(by_param[p]) if isinstance(p, Buffer) else _scalar(p, values[p]) for p in spec.arguments]
                launches.append((function, grid, spec.block, spec.shared_bytes, passed))

        def launch() -> None:
            with self._torch.cuda.device(device):
                stream = self._torch.cuda.current_stream().cuda_stream
                for function, grid, block, shared_bytes, passed in launches:
                    self._driver.launch(function, grid, block, shared_bytes, stream, passed)

        return launch

    def _loaded(self) -> list[tuple[Any, ctypes.c_void_p]]:
        """The functions in the current device's context."""
        index = self._torch.cuda.current_device()
        if index not in self._functions:
            module = self._driver.load(self._artifact.cubin().data)
            found = []
            for spec in self._artifact.cuda().kernels:
                function = self._driver.function(module, spec.name, spec.shared_bytes)
                if spec.cluster is not None and spec.cluster[0] * spec.cluster[1] * spec.cluster[2] > 8:
                    self._driver.allow_large_clusters(function)
                found.append((spec, function))
            self._functions[index] = found
        return self._functions[index]


def _check_grid(name: str, grid: list[int]) -> None:
    for extent, most, axis in zip(grid, (2**31 - 1, 65535, 65535), "xyz"):
        if extent > most:
            raise LaunchError(f"{name}: the grid has {extent} blocks along {axis}; a GPU takes {most} at most")


def _pointer(tensor: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _scalar(var: Any, value: Any) -> Any:
    kind = C_TYPES.get(var.dtype)
    if kind is None:
        raise LaunchError(f"the number {var.name} of type {var.dtype} cannot be passed to a kernel")
    return kind(value)
