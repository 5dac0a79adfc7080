"""Launching compiled kernels on an NVIDIA GPU with torch's CUDA tensors, on torch's current stream."""
from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from ..build.launch import C_TYPES, Driver, LaunchError, PreparedLaunch
from ..emit.arguments import ArgumentError, alignment_message, check_arguments, null_message, plan_arguments
from ..ir.buffer import Buffer
from ..ir.evaluate_int import evaluate
from ..target import chips
from ..transform.bulk.tensor_map import TensorMap
from ..transform.sizes import hold
from .loading import torch_has_cuda
from .tensor_maps import MadeMap


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

        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the primary context of the device current
        self._torch = torch
        self._artifact = artifact
        self._plan = plan_arguments(artifact.program)
        self._driver = Driver()
        self._functions: dict[int, list[tuple[Any, ctypes.c_void_p]]] = {}
        self.run: Callable[[Sequence[Any]], bool] = _unchecked  # launches a call like the one before; False for any other
        self._pointers = {i for i, p in enumerate(self._plan.params) if not isinstance(p, Buffer) and p.dtype == "handle"}
        self._workspaces: list[Buffer] = list(artifact.thread_program.attrs.get("workspaces", ()))
        self._general: GpuKernel | None = None  # for sizes and addresses that the artifact's assumptions leave out

    def __call__(self, *arguments: Any) -> None:
        """Raises ArgumentError. A call like the one before (shapes, strides, dtypes, device, numbers) is not checked anew."""
        if not self.run(arguments):
            if self._pointers:
                arguments = self._addresses(arguments)
                if self.run(arguments):
                    return
            self.run = self._made(arguments).run
            self.run(arguments)

    def _addresses(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Tensors given for pointers as their addresses."""
        return tuple(a.data_ptr() if i in self._pointers and hasattr(a, "data_ptr") else a for i, a in enumerate(arguments))

    def prepared(self, *arguments: Any) -> Callable[[], None]:
        """Check the arguments once; the function returned only launches, so that short kernels can be timed."""
        arguments = self._addresses(arguments)
        call = self._made(arguments)
        return lambda: (call.run(arguments), None)[1]

    def _made(self, arguments: Sequence[Any]) -> _Call:
        values = check_arguments(self._plan, arguments, "cuda")
        if not self._fits(arguments, values):
            if self._general is None:
                self._general = GpuKernel(self._artifact.general())
            return self._general._made(arguments)
        device = next((a.device for a in arguments if hasattr(a, "device")), self._torch.device("cuda", self._torch.cuda.current_device()))
        buffers = [p for p in (*self._plan.params, *self._workspaces) if isinstance(p, Buffer)]
        slots = (ctypes.c_uint64 * max(len(buffers), 1))()
        place = {p: k for k, p in enumerate(buffers)}
        maps: dict[TensorMap, MadeMap] = {}

        def holder(p: Any) -> Any:
            """Where a kernel parameter's value is read from at each launch."""
            if isinstance(p, Buffer):
                return ctypes.c_uint64.from_buffer(slots, 8 * place[p])
            if isinstance(p, TensorMap):
                if p not in maps:
                    maps[p] = MadeMap(self._driver, p, values, lambda: self._torch.zeros(128, dtype=self._torch.uint8, device=device))
                return maps[p].value
            return _scalar(p, values[p])

        launches = []
        with self._torch.cuda.device(device):
            for spec, function in self._loaded():
                grid = [int(evaluate(e, values)) for e in spec.grid]
                grid += [1] * (3 - len(grid))
                if all(grid):  # else there is nothing to do: a tensor with an empty dimension
                    _check_grid(spec.name, grid)
                    if spec.resident:
                        grid[0] = min(grid[0], spec.resident * self._torch.cuda.get_device_properties(device).multi_processor_count)
                    passed = [holder(p) for p in spec.arguments]
                    launches.append(PreparedLaunch(self._driver, function, grid, spec.block, spec.shared_bytes, passed, spec.cooperative, spec.overlaps))
        alignment = self._alignment()
        described = {p: [made for wanted, made in maps.items() if wanted.buffer is p] for p in buffers}
        tensors = [_Tensor(i, place[p], arguments[i], alignment.get(i, 1), described[p]) for i, p in enumerate(self._plan.params) if isinstance(p, Buffer)]
        memory = [_Workspace(place[b], [int(evaluate(e, values)) for e in b.shape], b.dtype) for b in self._workspaces]
        return _Call(self._torch, self._plan, arguments, device.index, launches, tensors, memory, slots, bool(self._artifact.assumed))

    def _fits(self, arguments: Sequence[Any], values: dict[Any, Any]) -> bool:
        """Whether the artifact is made for arguments like these; if not, its general version is."""
        if not self._artifact.assumed:
            return True
        return hold(self._artifact.assumed, values) and not any(arguments[i].data_ptr() % wanted for i, wanted in self._alignment().items())

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


class _Workspace:
    """Memory that a call makes for its kernels, in the order of the stream."""

    def __init__(self, slot: int, shape: list[int], dtype: str):
        from ..ir import dtypes

        count = 1
        for extent in shape:
            count *= extent
        self.slot, self.bytes = slot, max((count * dtypes.bits(dtype) + 7) // 8, 1)


class _Tensor:
    """What a tensor argument looked like when it was checked, and where its address goes."""

    def __init__(self, index: int, slot: int, tensor: Any, alignment: int, maps: list[MadeMap]):
        self.maps = maps
        self.index, self.slot, self.mask = index, slot, alignment - 1
        self.dtype, self.shape, self.device, self.empty = tensor.dtype, tensor.shape, tensor.get_device(), not tensor.numel()
        self.strides = None if tensor.is_contiguous() else tensor.stride()


class _Call:
    """A checked call: what its arguments look like, and the launches it makes.

    ``run`` launches if the arguments look like those that were checked, and returns False if they do not. It is made as source text
    for the arguments at hand, without loops: a call of a short kernel costs little more than the driver's own work.
    """

    def __init__(self, torch: Any, plan: Any, arguments: Sequence[Any], device: int, launches: list[PreparedLaunch], tensors: list[_Tensor],
                 workspaces: list[_Workspace], slots: Any, others: bool = False):
        self._torch, self._plan, self._launches, self._workspaces, self._device = torch, plan, launches, workspaces, device
        self._slots, self._others = slots, others  # others: there is a version for tensors that start elsewhere
        self._empty = {t.index for t in tensors if t.empty}
        self.run = self._made(arguments, tensors)

    def _made(self, arguments: Sequence[Any], tensors: list[_Tensor]) -> Callable[[Sequence[Any]], bool]:
        alone = self._torch.cuda.device_count() == 1  # then every tensor on a GPU is on this one, and it is the current one
        pack = struct.Struct(f"{len(tensors)}Q").pack_into
        space: dict[str, Any] = {"count": len(arguments), "pack": pack, "device": self._device, "slots": self._slots, "refuse": self._refuse, "lock": Lock(),
                                 "current": self._torch._C._cuda_getDevice, "stream_of": self._torch._C._cuda_getCurrentRawStream,
                                 "elsewhere": self._on_its_device, "launch": self._launch_all}
        if len(self._launches) == 1 and not self._workspaces:
            space["launch"] = self._launches[0]
        names = [f"a{i}" for i in range(len(arguments))]
        head = ["def run(arguments):", "    if len(arguments) != count: return False"]
        head += [f"    {', '.join(names)}{',' if len(names) == 1 else ''} = arguments"] if names else []
        looks, reads, checks, stores = [], [], [], []
        moved: list[str] = []  # tensor maps of tensors that lie elsewhere than in the call before
        for i, a in enumerate(arguments):
            if not hasattr(a, "shape"):
                space[f"kind{i}"], space[f"value{i}"] = type(a), a
                head.append(f"    if type(a{i}) is not kind{i} or a{i} != value{i}: return False")
        for t in tensors:
            i = t.index
            space |= {f"dtype{i}": t.dtype, f"shape{i}": t.shape, f"strides{i}": t.strides, f"device{i}": t.device}
            compact = f"a{i}.is_contiguous()" if t.strides is None else f"a{i}.stride() == strides{i}"
            here = f"a{i}.is_cuda" if alone else f"a{i}.get_device() == device{i}"
            looks.append(f"a{i}.dtype is dtype{i} and a{i}.shape == shape{i} and {compact} and {here}")
            reads.append(f"p{i} = a{i}.data_ptr()")
            if self._others and t.mask:
                checks.append(f"    if p{i} & {t.mask}: return False")
            checks.append(f"    if p{i} & {t.mask} or not p{i}: refuse({i}, p{i}, {t.mask + 1})")
            space |= {f"point{i}_{k}": made.point_at for k, made in enumerate(t.maps)}
            if t.maps:
                moved.append(f"if slots[{t.slot}] != p{i}: {'; '.join(f'point{i}_{k}(p{i})' for k in range(len(t.maps)))}")
            stores.append(f"p{i}")
        if tensors:
            head += ["    try:", f"        if not ({' and '.join(looks)}): return False", f"        {'; '.join(reads)}",
                     "    except AttributeError: return False  # not a tensor"]
        assert [t.slot for t in tensors] == list(range(len(tensors))), "the tensors' slots come first, in order"
        body = [*checks, "    with lock:  # the slots belong to one call at a time"]
        body += [f"        {text}" for text in moved]
        body += [f"        pack(slots, 0, {', '.join(stores)})"] if tensors else []
        body += ["        launch(stream_of(device))"] if alone else ["        if current() == device: launch(stream_of(device))", "        else: elsewhere()"]
        body += ["    return True"]
        exec(compile("\n".join([*head, *body]), "<call>", "exec"), space)
        return space["run"]

    def _on_its_device(self) -> None:
        with self._torch.cuda.device(self._device):
            self._launch_all(self._torch._C._cuda_getCurrentRawStream(self._device))

    def _launch_all(self, stream: int) -> None:
        made = []  # freed after the launches: torch hands the memory out again in the order of the stream
        for w in self._workspaces:
            made.append(self._torch.empty(w.bytes, dtype=self._torch.uint8, device=f"cuda:{self._device}"))
            self._slots[w.slot] = made[-1].data_ptr()
        for launch in self._launches:
            launch(stream)

    def _refuse(self, index: int, address: int, alignment: int) -> None:
        """Raises ArgumentError for an address the kernel cannot take; an empty tensor has none."""
        p = self._plan.params[index]
        if address:
            raise ArgumentError(f"{alignment_message(self._plan, p, alignment)}, but the tensor starts elsewhere; pass a copy (tensor.clone())")
        if index not in self._empty:
            raise ArgumentError(null_message(self._plan, p))


def _unchecked(arguments: Sequence[Any]) -> bool:
    """Before the first call."""
    return False


def _check_grid(name: str, grid: list[int]) -> None:
    for extent, most, axis in zip(grid, (2**31 - 1, 65535, 65535), "xyz"):
        if extent > most:
            raise LaunchError(f"{name}: the grid has {extent} blocks along {axis}; a GPU takes {most} at most")


def _scalar(var: Any, value: Any) -> Any:
    kind = C_TYPES.get(var.dtype)
    if kind is None:
        raise LaunchError(f"the number {var.name} of type {var.dtype} cannot be passed to a kernel")
    return kind(value)
