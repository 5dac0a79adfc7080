"""Loading cubins and launching kernels through the CUDA driver API (ctypes on libcuda; torch holds the context)."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CLUSTER_NON_PORTABLE = 13  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


class LaunchError(Exception):
    """The driver refused to load or launch a kernel, or the kernel failed."""


class Driver:
    """The calls used of libcuda, with every return code checked."""

    def __init__(self) -> None:
        for name in LIBRARIES:
            try:
                self._library = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise LaunchError("the CUDA driver (libcuda) is not found on this machine")
        self.check(self._library.cuInit(0), "cuInit")

    def check(self, code: int, what: str) -> None:
        if code != 0:
            name = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(name))
            raise LaunchError(f"{what} failed: {name.value.decode() if name.value else f'error {code}'}")

    def capability(self) -> tuple[int, int]:
        """Of the first device that may be used (``CUDA_VISIBLE_DEVICES`` counts)."""
        device, values = self._first_device(), []
        for attribute in _CAPABILITY:
            value = ctypes.c_int()
            self.check(self._library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device), "asking for the GPU's architecture")
            values.append(value.value)
        return values[0], values[1]

    def attributes(self, *numbers: int) -> list[int]:
        """Properties of the first device; 0 where the driver does not tell one."""
        device, found = self._first_device(), []
        for number in numbers:
            value = ctypes.c_int()
            found.append(value.value if self._library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else 0)
        return found

    def resident_blocks(self, function: ctypes.c_void_p, threads: int, shared_bytes: int) -> int | None:
        """How many blocks of a kernel a multiprocessor holds at once; None where the driver does not tell."""
        count = ctypes.c_int()
        ask = getattr(self._library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", None)
        if ask is None or ask(ctypes.byref(count), function, ctypes.c_int(threads), ctypes.c_size_t(shared_bytes)) != 0:
            return None
        return count.value

    def hold_context(self) -> None:
        """Make the first device's primary context, which the process then shares."""
        context = ctypes.c_void_p()
        self.check(self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), self._first_device()), "making the GPU's context")

    def _first_device(self) -> ctypes.c_int:
        device = ctypes.c_int()
        self.check(self._library.cuDeviceGet(ctypes.byref(device), 0), "finding a GPU")
        return device

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.check(self._library.cuModuleLoadData(ctypes.byref(module), cubin), "loading the kernel")
        return module

    def function(self, module: ctypes.c_void_p, name: str, shared_bytes: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.check(self._library.cuModuleGetFunction(ctypes.byref(handle), module, name.encode()), f"finding kernel {name}")
        if shared_bytes > 48 * 1024:
            self.check(self._library.cuFuncSetAttribute(handle, _MAX_DYNAMIC_SHARED, shared_bytes),
                       f"allowing {shared_bytes} bytes of dynamic shared memory")
        return handle

    def allow_large_clusters(self, handle: ctypes.c_void_p) -> None:
        self.check(self._library.cuFuncSetAttribute(handle, _CLUSTER_NON_PORTABLE, 1), "allowing large clusters")

    def raw_launch_cooperative(self) -> Any:
        function = self._library.cuLaunchCooperativeKernel
        function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p]
        return function

    def raw_launch_config(self) -> Any:
        """cuLaunchKernelEx: four arguments are quicker to pass than eleven. Its types are not declared: it is given pointers made beforehand, which ctypes
        then passes on as they are. None before CUDA 11.8."""
        try:
            return self._library["cuLaunchKernelEx"]
        except AttributeError:
            return None

    def encode_tensor_map(self, place: ctypes.Array[Any], arguments: Sequence[Any], name: str) -> None:
        """``arguments``: those of cuTensorMapEncodeTiled after the map itself."""
        self.check(self._library.cuTensorMapEncodeTiled(ctypes.byref(place), *arguments), f"describing {name} to the copy engine")

    def encode_pixel_map(self, place: ctypes.Array[Any], arguments: Sequence[Any], name: str) -> None:
        """As above, those of cuTensorMapEncodeIm2col."""
        self.check(self._library.cuTensorMapEncodeIm2col(ctypes.byref(place), *arguments), f"describing {name} to the copy engine")

    def raw_launch(self) -> Any:
        """cuLaunchKernel with its types declared, which makes calls of it quick."""
        function = self._library.cuLaunchKernel
        function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return function


class Config(ctypes.Structure):
    """CUlaunchConfig (cuda.h)."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint)]


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute (cuda.h): its value is a union of 64 bytes."""

    _fields_ = [("kind", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


_SERIALIZED = _Attribute(6)  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_SERIALIZED.value[0] = 1


class PreparedLaunch:
    """One kernel with its grid and its arguments, ctypes values that are read when it is launched.

    ``overlaps``: the kernel waits itself for the one before on the stream (griddepcontrol.wait), and may be started before that is over. ``config``: where
    to describe the launch, zeros.
    """

    def __init__(self, driver: Driver, handle: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], shared_bytes: int, passed: Sequence[Any],
                 cooperative: bool = False, overlaps: bool = False, config: Config | None = None):
        self._cooperative = driver.raw_launch_cooperative() if cooperative else None
        self._check, self._launch = driver.check, driver.raw_launch()
        self._fixed = (handle, *map(ctypes.c_uint, (*grid, *block, shared_bytes)))
        self._values = list(passed)  # kept alive: the array points at them
        self._array = (ctypes.c_void_p * max(len(passed), 1))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in self._values])
        self.config = config if config is not None else Config()
        self.config.grid, self.config.block, self.config.shared_bytes = tuple(grid), tuple(block), shared_bytes
        if overlaps:
            self.config.attributes, self.config.attribute_count = ctypes.addressof(_SERIALIZED), 1
        launch = driver.raw_launch_config() if not cooperative else None
        # The function and what to give it, once ``config.stream`` is set; None where the launch is made another way.
        self.direct: tuple[Any, ...] | None = (launch, ctypes.byref(self.config), handle, ctypes.byref(self._array)) if launch is not None else None

    def __call__(self, stream: int) -> None:
        """Not by two threads at once."""
        if self.direct is not None:
            function, config, handle, array = self.direct
            self.config.stream = stream
            code = function(config, handle, array, None)
        elif self._cooperative is not None:
            code = self._cooperative(*self._fixed, stream, self._array)
        else:
            code = self._launch(*self._fixed, stream, self._array, None)
        if code:
            self.failed(code)

    def failed(self, code: int) -> None:
        self._check(code, "launching the kernel")


C_TYPES = {"int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int16": ctypes.c_int16, "uint16": ctypes.c_uint16, "int32": ctypes.c_int32,
           "uint32": ctypes.c_uint32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "float32": ctypes.c_float, "float64": ctypes.c_double,
           "bool": ctypes.c_bool, "handle": ctypes.c_uint64}
