"""Launching compiled kernels on an NVIDIA GPU with torch's CUDA tensors, on torch's current stream."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..build.launch import Driver, LaunchError
from ..emit.arguments import check_arguments, plan_arguments
from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate
from ..ir.expr import Var, variables_in
from ..target import chips
from ..transform.sizes import hold
from .gpu_call import Call, Kernel
from .loading import torch_has_cuda
from .looks import MISS, Checked, Recent

KIND = "cuda"  # of the tensors, as torch says it


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
    found = _known(major, minor)
    if found is None:
        raise LaunchError(f"this machine's GPU ({torch.cuda.get_device_name()}, sm_{major}{minor}) is none this compiler knows: {', '.join(chips.TARGETS)}")
    return found


def likely_target() -> chips.Target | None:
    """The target of this machine's GPU as the driver tells it, while torch is still being loaded; None where torch could not use it or it is not known."""
    if not torch_has_cuda():
        return None
    try:
        return _known(*Driver().capability())
    except LaunchError:
        return None


def _known(major: int, minor: int) -> chips.Target | None:
    return next((chips.TARGETS[name] for name in (f"sm_{major}{minor}a", f"sm_{major}{minor}") if name in chips.TARGETS), None)


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

        try:
            torch.cuda.init()
            torch.zeros(1, device="cuda")  # makes the primary context of the device current
        except (AssertionError, RuntimeError) as error:  # AssertionError: torch was built without CUDA
            first = str(error).strip().splitlines()[0].rstrip(".")
            raise LaunchError(f"torch {torch.__version__} can use no NVIDIA GPU here ({first}); target='cpu' compiles the kernel for the CPU") from error
        self._torch = torch
        self._artifact = artifact
        self._plan = plan_arguments(artifact.program)
        self._driver = Driver()
        self._functions: dict[int, list[tuple[Any, ctypes.c_void_p]]] = {}
        self._recent = Recent()
        self._pointers = {i for i, p in enumerate(self._plan.params) if not isinstance(p, Buffer) and p.dtype == "handle"}
        self._workspaces: list[Buffer] = list(artifact.thread_program.attrs.get("workspaces", ()))
        self._free = self._numbers_of_kernels()
        self._general: GpuKernel | None = None  # for sizes and addresses that the artifact's assumptions leave out

    def __call__(self, *arguments: Any) -> None:
        """Raises ArgumentError. A call like one of the last (shapes, strides, dtypes, device, numbers) is not checked anew."""
        if self._recent.call(arguments)[0] is MISS:
            self._recent.first(self.checked(arguments), arguments)

    def prepared(self, *arguments: Any) -> Callable[[], None]:
        """Check the arguments once; the function returned only launches, so that short kernels can be timed."""
        attempt = self.checked(arguments).attempt
        return lambda: attempt(arguments)

    def occupancy(self) -> float | None:
        """The share of a multiprocessor's threads that blocks of the kernel take."""
        from .roofline import occupancy

        return occupancy(self._driver, self._loaded())

    def roofline(self, operations: float, moved: float, seconds: float) -> float | None:
        """The share of what the GPU could do, see :mod:`.roofline`."""
        from .roofline import share

        return share(self._artifact.program, local_target(), self._driver, operations, moved, seconds)

    def checked(self, arguments: Sequence[Any], made: Collection[int] = (), returned: Sequence[int] = (), odd: Mapping[int, int] | None = None) -> Checked:
        """Check the arguments. Raises ArgumentError.

        ``made``: positions of outputs that calls make themselves, where ``arguments`` has tensors of their shapes; ``returned``: of what they return;
        ``odd``: alignments not all of which the tensors have, since there is a faster version for those that do.
        """
        addresses = [a.data_ptr() if i in self._pointers and hasattr(a, "data_ptr") else a for i, a in enumerate(arguments)]
        values = check_arguments(self._plan, addresses, KIND, made)
        if not self._fits(arguments, values, made):
            if self._general is None:
                self._general = GpuKernel(self._artifact.general())
            return self._general.checked(arguments, made, returned, self._alignment() if hold(self._artifact.assumed, values) else None)
        device = next((a.device for i, a in enumerate(arguments) if i not in made and hasattr(a, "device")), None)
        if device is None:
            device = self._torch.device(KIND, self._torch.cuda.current_device())
        return Call(self._torch, self._driver, self._plan, arguments, made, returned, self._free, values, device, self._kernels(device, values),
                    [(b, _bytes(b, values)) for b in self._workspaces], self._alignment(), bool(self._artifact.assumed), odd or {}).checked()

    def _numbers_of_kernels(self) -> set[int]:
        """Positions of numbers that nothing but the kernels depends on: no grid, no extent."""
        needed = [e for spec in self._artifact.cuda().kernels for e in spec.grid]
        for b in (*self._plan.params, *self._workspaces):
            needed += (*b.shape, *(b.strides or ())) if isinstance(b, Buffer) else ()
        used = variables_in(needed) | set(self._artifact.assumed)
        return {i for i, p in enumerate(self._plan.params) if isinstance(p, Var) and p not in used}

    def _kernels(self, device: Any, values: dict[Any, Any]) -> list[Kernel]:
        made = []
        with self._torch.cuda.device(device):
            for spec, function in self._loaded():
                grid = [int(evaluate(e, values)) for e in spec.grid]
                grid += [1] * (3 - len(grid))
                if all(grid):  # else there is nothing to do: a tensor with an empty dimension
                    _check_grid(spec.name, grid)
                    if spec.resident:
                        grid[0] = min(grid[0], spec.resident * self._torch.cuda.get_device_properties(device).multi_processor_count)
                    made.append(Kernel(function, grid, spec.block, spec.shared_bytes, spec.arguments, spec.cooperative, spec.overlaps))
        return made

    def _fits(self, arguments: Sequence[Any], values: dict[Any, Any], made: Collection[int]) -> bool:
        """Whether the artifact is made for arguments like these; if not, its general version is."""
        if not self._artifact.assumed:
            return True
        aligned = not any(arguments[i].data_ptr() % wanted for i, wanted in self._alignment().items() if i not in made)
        return aligned and hold(self._artifact.assumed, values)

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


def _bytes(workspace: Buffer, values: dict[Any, Any]) -> int:
    count = 1
    for e in workspace.shape:
        count *= int(evaluate(e, values))
    return max((count * dtypes.bits(workspace.dtype) + 7) // 8, 1)


def _check_grid(name: str, grid: list[int]) -> None:
    for extent, most, axis in zip(grid, (2**31 - 1, 65535, 65535), "xyz"):
        if extent > most:
            raise LaunchError(f"{name}: the grid has {extent} blocks along {axis}; a GPU takes {most} at most")
