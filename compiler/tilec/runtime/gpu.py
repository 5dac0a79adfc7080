"""Launching compiled kernels on an NVIDIA GPU with torch's CUDA tensors, on torch's current stream."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ..build.launch import C_TYPES, Driver, LaunchError, PreparedLaunch
from ..emit.arguments import ArgumentError, alignment_message, check_arguments, null_message, plan_arguments
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
    """A compiled artifact as a function of its parameters in order: CUDA tensors and numbers, on torch's current stream."""

    def __init__(self, artifact: Any):
        import torch

        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the primary context of the device current
        self._torch = torch
        self._artifact = artifact
        self._plan = plan_arguments(artifact.program)
        self._driver = Driver()
        self._functions: dict[int, list[tuple[Any, ctypes.c_void_p]]] = {}
        self._last: _Call | None = None

    def __call__(self, *arguments: Any) -> None:
        """Raises ArgumentError. A call like the one before (shapes, strides, dtypes, device, numbers) is not checked anew."""
        call = self._last
        if call is None or not call.fits(arguments):
            call = self._last = self._made(arguments)
        call.launch(arguments)

    def prepared(self, *arguments: Any) -> Callable[[], None]:
        """Check the arguments once; the function returned only launches, so that short kernels can be timed."""
        call = self._made(arguments)
        return lambda: call.launch(arguments)

    def _made(self, arguments: Sequence[Any]) -> _Call:
        values = check_arguments(self._plan, arguments, "cuda")
        device = next((a.device for a in arguments if hasattr(a, "device")), self._torch.device("cuda", self._torch.cuda.current_device()))
        launches = []
        with self._torch.cuda.device(device):
            for spec, function in self._loaded():
                grid = [int(evaluate(e, values)) for e in spec.grid]
                grid += [1] * (3 - len(grid))
                if all(grid):  # else there is nothing to do: a tensor with an empty dimension
                    _check_grid(spec.name, grid)
                    launches.append(PreparedLaunch(self._driver, function, grid, spec.block, spec.shared_bytes, self._passed(spec, values)))
        return _Call(self._torch, self._plan, arguments, device.index, launches, self._alignment())

    def _passed(self, spec: Any, values: Any) -> list[tuple[int | None, Any]]:
        """For each argument of a kernel: the position of its tensor, or the number itself."""
        positions = {p: i for i, p in enumerate(self._plan.params)}
        return [(positions[p], ctypes.c_void_p()) if isinstance(p, Buffer) else (None, _scalar(p, values[p])) for p in spec.arguments]

    def _alignment(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for i, p in enumerate(self._plan.params):
            for spec in self._artifact.cuda().kernels:
                if p in spec.alignment:
                    found[i] = max(found.get(i, 1), spec.alignment[p])
        return found

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


class _Call:
    """A checked call: what its arguments look like, and the launches it makes."""

    def __init__(self, torch: Any, plan: Any, arguments: Sequence[Any], device: int, launches: list[PreparedLaunch], alignment: dict[int, int]):
        self._device = device
        self._launches = launches
        self._plan = plan
        self._alignment = [(i, size - 1) for i, size in alignment.items()]
        self._tensors = [(i, a.shape, a.stride(), a.dtype, a.device) for i, a in enumerate(arguments) if hasattr(a, "shape")]
        self._numbers = [(i, type(a), a) for i, a in enumerate(arguments) if not hasattr(a, "shape")]
        self._count = len(arguments)
        self._empty = {i for i, shape, *_ in self._tensors if 0 in shape}
        self._get_device, self._stream = torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
        self._on = torch.cuda.device

    def fits(self, arguments: Sequence[Any]) -> bool:
        if len(arguments) != self._count:
            return False
        try:
            for i, shape, stride, dtype, device in self._tensors:
                a = arguments[i]
                if a.dtype is not dtype or a.shape != shape or a.stride() != stride or a.device != device:
                    return False
        except AttributeError:  # not a tensor
            return False
        return all(type(arguments[i]) is kind and arguments[i] == value for i, kind, value in self._numbers)

    def launch(self, arguments: Sequence[Any]) -> None:
        pointers = {i: arguments[i].data_ptr() for i, *_ in self._tensors}
        for i, mask in self._alignment:
            if pointers[i] & mask:
                self._misaligned(i, mask + 1)
        if 0 in pointers.values():
            self._refuse_null(pointers)
        if self._get_device() != self._device:
            with self._on(self._device):
                self._launch(pointers)
        else:
            self._launch(pointers)

    def _launch(self, pointers: dict[int, int]) -> None:
        stream = self._stream(self._device)
        for launch in self._launches:
            launch(pointers, stream)

    def _misaligned(self, index: int, size: int) -> None:
        message = alignment_message(self._plan, self._plan.params[index], size)
        raise ArgumentError(f"{message}, but the tensor starts elsewhere; pass a copy (tensor.clone())")

    def _refuse_null(self, pointers: dict[int, int]) -> None:
        for i, address in pointers.items():
            if not address and i not in self._empty:
                raise ArgumentError(null_message(self._plan, self._plan.params[i]))


def _check_grid(name: str, grid: list[int]) -> None:
    for extent, most, axis in zip(grid, (2**31 - 1, 65535, 65535), "xyz"):
        if extent > most:
            raise LaunchError(f"{name}: the grid has {extent} blocks along {axis}; a GPU takes {most} at most")


def _scalar(var: Any, value: Any) -> Any:
    kind = C_TYPES.get(var.dtype)
    if kind is None:
        raise LaunchError(f"the number {var.name} of type {var.dtype} cannot be passed to a kernel")
    return kind(value)
