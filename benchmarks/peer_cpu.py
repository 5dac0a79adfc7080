"""A pytest plugin that lets GPU tests run where there is no GPU: kernels are compiled for sm_90a, then executed by the CPU target.

``torch``'s CUDA device is the CPU. A kernel that the CPU target refuses is skipped, saying so, after it was compiled for sm_90a.
"""
from __future__ import annotations

from typing import Any

import pytest
import torch
from tilec.jit import kernel as jit_kernel
from tilec.jit import targets
from tilec.pipeline import compile_program
from tilec.runtime.cpu_call import CpuKernel
from tilec.target import chips
from tilec.transform.errors import LoweringError
from torch.overrides import TorchFunctionMode


class _CudaIsCpu(TorchFunctionMode):
    """Every mention of the device ``cuda`` means the CPU."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return args[0]
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        return function(*["cpu" if _is_cuda(a) else a for a in args], **kwargs)


def _is_cuda(value: Any) -> bool:
    return (isinstance(value, str) and value.startswith("cuda")) or (isinstance(value, torch.device) and value.type == "cuda")


def _load(kernel: Any) -> Any:
    kernel.get_kernel_source()
    try:
        return CpuKernel(kernel._plan(), compile_program(kernel.program, chips.TARGETS["cpu"]).host_callable())
    except LoweringError as error:
        pytest.skip(f"compiled for {kernel.target.name}; the CPU target refuses it: {error}")


def pytest_configure(config: Any) -> None:
    targets.capability = lambda: (9, 0)
    targets._has_gpu = lambda: True
    targets._local = lambda: chips.TARGETS["sm_90a"]
    load = jit_kernel.JITKernel._load
    jit_kernel.JITKernel._load = lambda self: load(self) if self.target.kind == "cpu" else _load(self)
    torch.cuda.synchronize = lambda *a: None
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.is_available = lambda: True
    torch.cuda.manual_seed_all = lambda seed: None
    config._cuda_is_cpu = _CudaIsCpu()
    config._cuda_is_cpu.__enter__()
