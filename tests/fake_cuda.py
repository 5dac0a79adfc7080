"""A CUDA driver that launches nothing and remembers what it was asked for, and a torch whose CPU tensors count as those of a GPU.

What a call costs in Python, and which pointers and numbers reach the driver, can be seen with them on a machine without a GPU.
"""
from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

SOURCE = r"""
#include <stdint.h>
#include <string.h>
typedef struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } Config;
typedef struct { int kind, padding; unsigned value[16]; } Attribute;
typedef struct { uint64_t function, stream; unsigned grid[3], block[3], shared, attributes; int first; unsigned parameters; uint64_t values[64]; } Launch;
#define LAUNCHES 4096
static Launch launches[LAUNCHES];
static long launched, encoded;
static int parameters = 0, result = 0;
long fake_launched(void) { return launched; }
long fake_encoded(void) { return encoded; }
void fake_parameters(int count) { parameters = count; }
void fake_result(int code) { result = code; }
void *fake_launch(long at) { return &launches[at % LAUNCHES]; }
int cuInit(unsigned flags) { return 0; }
int cuGetErrorString(int code, const char **text) { *text = "a fake error"; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuModuleLoadData(void **module, const void *image) { *module = (void *)2; return 0; }
static long functions = 0;
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = (void *)(++functions); return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
static int record(uint64_t f, const unsigned *grid, const unsigned *block, unsigned shared, void *stream, unsigned attributes, int first, void **values) {
    if (result) return result;
    Launch *l = &launches[__sync_fetch_and_add(&launched, 1) % LAUNCHES];
    l->function = f; l->stream = (uint64_t)stream; l->shared = shared; l->attributes = attributes; l->first = first; l->parameters = parameters;
    memcpy(l->grid, grid, 12); memcpy(l->block, block, 12);
    for (int i = 0; i < parameters && i < 64; i++) memcpy(&l->values[i], values[i], 8);
    return 0;
}
int cuLaunchKernelEx(const Config *c, void *f, void **values, void **extra) {
    return record((uint64_t)f, c->grid, c->block, c->shared, c->stream, c->count, c->count ? ((Attribute *)c->attributes)->kind : 0, values);
}
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned x, unsigned y, unsigned z, unsigned shared, void *stream, void **values, void **extra) {
    unsigned grid[3] = {a, b, c}, block[3] = {x, y, z};
    return record((uint64_t)f, grid, block, shared, stream, 0, 0, values);
}
int cuLaunchCooperativeKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned x, unsigned y, unsigned z, unsigned shared, void *stream, void **values) {
    unsigned grid[3] = {a, b, c}, block[3] = {x, y, z};
    return record((uint64_t)f, grid, block, shared, stream, 1, 2, values);
}
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides, const unsigned *box,
                           const unsigned *steps, int interleave, int swizzle, int promotion, int fill) {
    __sync_fetch_and_add(&encoded, 1);
    memset(map, 0, 128); memcpy(map, &address, 8); memcpy((char *)map + 8, sizes, 8 * rank);
    return 0;
}
"""


class Launch(ctypes.Structure):
    _fields_ = [("function", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("attributes", ctypes.c_uint), ("first", ctypes.c_int), ("parameters", ctypes.c_uint), ("values", ctypes.c_uint64 * 64)]


class FakeDriver:
    """The library, and what it was asked for."""

    def __init__(self, path: Path):
        self.path = path
        self._so = ctypes.CDLL(str(path))
        self._so.fake_launched.restype = self._so.fake_encoded.restype = ctypes.c_long
        self._so.fake_launch.restype = ctypes.POINTER(Launch)
        self._so.fake_launch.argtypes = [ctypes.c_long]
        self._seen = self._so.fake_launched()

    def expect(self, parameters: int) -> None:
        """How many kernel parameters to read of each launch."""
        self._so.fake_parameters(parameters)

    def fail(self, code: int) -> None:
        self._so.fake_result(code)

    @property
    def encoded(self) -> int:
        return self._so.fake_encoded()

    def launches(self) -> list[SimpleNamespace]:
        """Those since the last question."""
        first, self._seen = self._seen, self._so.fake_launched()
        return [self._one(i) for i in range(first, self._seen)]

    def _one(self, at: int) -> SimpleNamespace:
        made = self._so.fake_launch(at).contents
        return SimpleNamespace(function=made.function, stream=made.stream, grid=tuple(made.grid), block=tuple(made.block), shared=made.shared,
                               attributes=made.attributes, first=made.first, values=list(made.values[: made.parameters]))


class _Cuda:
    """torch.cuda of a machine with ``count`` GPUs, of which CPU tensors are on the first; what they say is None."""

    def __init__(self) -> None:
        self.count, self.now, self.stream = 1, 0, 0x5000
        self.entered: list[Any] = []

    def init(self) -> None:
        pass

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return self.count

    def current_device(self) -> int:
        return self.now

    def get_device_properties(self, device: Any) -> Any:
        return SimpleNamespace(multi_processor_count=132)

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        self.entered.append(device)
        before, self.now = self.now, 0
        yield
        self.now = before


class FakeTorch:
    """torch with another ``cuda``; all else is torch's own."""

    def __init__(self) -> None:
        self.cuda = _Cuda()
        self._C = SimpleNamespace(_cuda_getDevice=lambda: self.cuda.now or None, _cuda_getCurrentRawStream=lambda device: self.cuda.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *shape: Any, device: Any = None, **options: Any) -> Any:
        return torch.zeros(*shape, **options)

    def empty(self, *shape: Any, device: Any = None, **options: Any) -> Any:
        return torch.empty(*shape, **options)


def build(folder: Path) -> Path | None:
    """The library; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform == "win32":
        return None
    text, made = folder / "fake_cuda.c", folder / "libfakecuda.so"
    text.write_text(SOURCE, encoding="utf-8")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(text)], check=True, capture_output=True)
    return made
