"""One kind of call of a kernel on a GPU: a function that compares the arguments with those that were checked and launches.

It is source text for the arguments at hand, without loops, keywords or objects made on the way: a call of a short kernel costs little more than the
driver's own work. What a call writes to (addresses, numbers, tensor maps, the launches' descriptions) is a frame, which belongs to one call at a time:
threads that call at once, or a finaliser that calls amid a call, have frames of their own.
"""
from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..build.launch import C_TYPES, Config, Driver, LaunchError, PreparedLaunch
from ..emit.arguments import ArgumentError, Plan, alignment_message, null_message
from ..ir.buffer import Buffer
from ..records import dataclass
from ..transform.bulk.tensor_map import TensorMap
from .looks import Checked, Looks
from .outputs import Outputs
from .tensor_maps import MadeMap

_CONFIG_WORDS = (ctypes.sizeof(Config) + 7) // 8
_STREAM = Config.stream.offset
_ADDRESSES = 8 * _CONFIG_WORDS
# From the stream to the end of the launch's description: stream, attributes, their number.
assert (Config.attributes.offset, Config.attribute_count.offset, _ADDRESSES) == (_STREAM + 8, _STREAM + 16, _STREAM + 24)


@dataclass
class Kernel:
    """A kernel of the call, with its grid for these arguments. ``arguments``: Buffers, Vars and TensorMaps."""

    function: ctypes.c_void_p
    grid: list[int]
    block: Sequence[int]
    shared_bytes: int
    arguments: Sequence[Any]
    cooperative: bool
    overlaps: bool


@dataclass
class Call:
    """What is known of a checked call.

    ``arguments``: of all parameters, with what stands for the outputs that are made; ``made``: positions of outputs that the call makes itself;
    ``returned``: of what it returns; ``free``: of numbers that only the kernels read; ``alignment``: bytes, by position; ``elsewhere``: there is another
    version of the kernels for tensors that start at odd addresses; ``odd``: alignments of which some tensor lacks its own, else there is a faster version.
    """

    torch: Any
    driver: Driver
    plan: Plan
    arguments: Sequence[Any]
    made: Collection[int]
    returned: Sequence[int]
    free: Collection[int]
    values: Mapping[Any, Any]
    device: Any
    kernels: list[Kernel]
    workspaces: list[tuple[Buffer, int]]  # and their bytes
    alignment: Mapping[int, int]
    elsewhere: bool
    odd: Mapping[int, int]

    def __post_init__(self) -> None:
        self._tensors = [i for i, p in enumerate(self.plan.params) if isinstance(p, Buffer)]
        buffers = [*(self.plan.params[i] for i in self._tensors), *(b for b, _ in self.workspaces)]
        self._slots = {b: k for k, b in enumerate(buffers)}
        self._numbers = [i for i in self.free if any(self.plan.params[i] is p for k in self.kernels for p in k.arguments)]
        self._maps = list(dict.fromkeys(p for k in self.kernels for p in k.arguments if isinstance(p, TensorMap)))

    def checked(self) -> Checked:
        """Of all parameters but ``made``."""
        given = [i for i in range(len(self.plan.params)) if i not in self.made]
        place = {i: k for k, i in enumerate(given)}
        alone = self.torch.cuda.device_count() == 1  # then every tensor on a GPU is on this one, and it is the current one
        inputs = [i for i in self._tensors if i in place]
        looks = Looks([self.arguments[i] for i in given], [place[i] for i in inputs], [place[i] for i in self.free], self.device.type, alone)
        outputs = Outputs(self.torch, self.device, {i: self.arguments[i] for i in self.made}, {i: f"a{place[i]}" for i in self.returned if i in place})
        frames: list[tuple[Any, ...]] = [self._frame()]
        space: dict[str, Any] = {"fresh": self._frame, "take": frames.pop, "give": frames.append, "device": self.device.index, "current": self.torch._C._cuda_getDevice,
                                 "stream_of": self.torch._C._cuda_getCurrentRawStream, **outputs.space}
        body = [] if alone else self._on_its_device(space) if inputs else ["    if current() != device: return MISS"]
        body += outputs.lines
        body += [f"    p{i} = a{place[i]}.data_ptr()" for i in inputs]
        body += [f"    p{i} = o{i}.data_ptr()" for i in self._tensors if i in self.made]
        body += self._address_checks(inputs, space)
        if self.kernels:
            body += self._launching(place, frames[0], space)
        self._empty = {i for i in inputs if not self.arguments[i].numel()}
        self.arguments = ()  # what is remembered of a call keeps no tensor alive
        return looks.checked([*body, f"    return {outputs.result}"], space)

    def _on_its_device(self, space: dict[str, Any]) -> list[str]:
        torch, device = self.torch, self.device

        def elsewhere(run: Any, arguments: Sequence[Any]) -> Any:
            with torch.cuda.device(device):
                return run(arguments)

        space["elsewhere"] = elsewhere
        return ["    if current() != device: return elsewhere(attempt, arguments)"]

    def _address_checks(self, inputs: Sequence[int], space: dict[str, Any]) -> list[str]:
        if not inputs:
            return []
        wrong = _misaligned(inputs, self.alignment)
        names = [f"p{i}" for i in inputs]
        wrong.append(f"not ({' and '.join(names)})")
        space |= {"odd": self._odd, "inputs": tuple(inputs)}
        lines = [f"    if {' or '.join(wrong)}:", f"        if odd(inputs, ({', '.join(names)},)): return MISS"]
        needed = _misaligned(inputs, self.odd)
        return [*lines, f"    if not ({' or '.join(needed)}): return MISS"] if needed else lines

    def _odd(self, inputs: Sequence[int], addresses: Sequence[int]) -> bool:
        """Whether another version of the kernels takes these addresses. Raises ArgumentError if none does; an empty tensor has none."""
        for i, address in zip(inputs, addresses):
            p, alignment = self.plan.params[i], self.alignment.get(i, 1)
            assert isinstance(p, Buffer)
            if address % alignment:
                if self.elsewhere:
                    return True
                raise ArgumentError(f"{alignment_message(self.plan, p, alignment)}, but the tensor starts elsewhere; pass a copy (tensor.clone())")
            if not address and i not in self._empty:
                raise ArgumentError(null_message(self.plan, p))
        return False

    def _launching(self, place: Mapping[int, int], frame: tuple[Any, ...], space: dict[str, Any]) -> list[str]:
        """Take a frame, fill it in, launch, and give it back; a frame in which something failed is left to the collector."""
        launches: list[PreparedLaunch] = frame[1]
        direct = launches[0].direct if len(launches) == 1 else None
        parts = ["memory", "launches", "config", "values", "before"]
        parts += [f"point{k}" for k in range(len(self._maps))] + [f"number{i}" for i in self._numbers]
        body = ["    try: frame = take()", "    except IndexError: frame = fresh()", f"    {', '.join(parts)} = frame"]
        for k, wanted in enumerate(self._maps):  # encoded anew where a tensor lies elsewhere than in the frame's last call
            i = self.plan.params.index(wanted.tensor)
            body.append(f"    if before[{_CONFIG_WORDS + self._slots[wanted.tensor]}] != p{i}: point{k}(p{i})")
        for i in self._numbers:
            address = ".data_ptr()" if hasattr(self.arguments[i], "data_ptr") else ""
            body.append(f"    number{i}.value = a{place[i]}{address}")
        stored = [f"p{i}" for i in self._tensors]
        for k, (_, size) in enumerate(self.workspaces):  # freed after the launches: torch hands the memory out again in the order of the stream
            space[f"size{k}"] = size
            body.append(f"    w{k} = workspace(size{k})")
            stored.append(f"w{k}.data_ptr()")
        space["workspace"] = lambda size: self.torch.empty(size, dtype=self.torch.uint8, device=self.device)
        if direct is None:
            space["pack"] = struct.Struct(f"{len(stored)}Q").pack_into
            body += [f"    pack(memory, {_ADDRESSES}, {', '.join(stored)})"] if stored else []
            return [*body, "    stream = stream_of(device)", "    for launch in launches: launch(stream)", "    give(frame)"]
        space |= {"launch": direct[0], "function": direct[2], "pack": struct.Struct(f"QQII{len(stored)}Q").pack_into}
        space |= {"attributes": launches[0].config.attributes or 0, "count": launches[0].config.attribute_count}
        body.append(f"    pack(memory, {_STREAM}, stream_of(device), attributes, count, 0, {', '.join(stored)})")
        return [*body, "    code = launch(config, function, values, None)", "    give(frame)", "    if code: launches[0].failed(code)"]

    def _frame(self) -> tuple[Any, ...]:
        """Memory, launches, what a single launch is given, the memory as words, and functions and numbers to fill in."""
        memory = (ctypes.c_uint64 * (_CONFIG_WORDS + max(len(self._slots), 1)))()
        maps = {p: MadeMap(self.driver, p, self.values, self._zeros) for p in self._maps}
        numbers = {p: _number(p, self.values[p]) for p in (self.plan.params[i] for i in self._numbers)}

        def holder(p: Any) -> Any:
            """Where a kernel parameter's value is read from at each launch."""
            if isinstance(p, Buffer):
                return ctypes.c_uint64.from_buffer(memory, 8 * (_CONFIG_WORDS + self._slots[p]))
            if isinstance(p, TensorMap):
                return maps[p].value
            return numbers[p] if p in numbers else _number(p, self.values[p])

        launches = []
        for k in self.kernels:
            config = Config.from_buffer(memory) if len(self.kernels) == 1 else None
            launches.append(PreparedLaunch(self.driver, k.function, k.grid, k.block, k.shared_bytes, [holder(p) for p in k.arguments], k.cooperative,
                                           k.overlaps, config))
        direct = launches[0].direct if len(launches) == 1 else None
        config, values = (direct[1], direct[3]) if direct is not None else (None, None)
        before = memoryview(memory).cast("B").cast("Q")
        return (memory, launches, config, values, before, *(maps[p].point_at for p in self._maps), *numbers.values())

    def _zeros(self) -> Any:
        return self.torch.zeros(128, dtype=self.torch.uint8, device=self.device)


def _misaligned(inputs: Sequence[int], alignment: Mapping[int, int]) -> list[str]:
    """Conditions of which one holds where some address is no multiple of its alignment."""
    by_mask: dict[int, list[str]] = {}
    for i in inputs:
        by_mask.setdefault(alignment.get(i, 1) - 1, []).append(f"p{i}")
    return [f"({' | '.join(names)}) & {mask}" for mask, names in sorted(by_mask.items()) if mask]


def _number(var: Any, value: Any) -> Any:
    kind = C_TYPES.get(var.dtype)
    if kind is None:
        raise LaunchError(f"the number {var.name} of type {var.dtype} cannot be passed to a kernel")
    return kind(value)
