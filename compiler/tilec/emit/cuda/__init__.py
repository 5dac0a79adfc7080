"""Thread programs as CUDA text. May import: source, ir, analysis, target, transform.errors; no TVM.

The text comes straight from the thread program, not from TVM's CUDA generator: every line knows the source line it came
from, nothing but what the kernel uses is printed, and 8-bit floats work.
"""
from .kernel import CudaModule, KernelSpec, emit_cuda

__all__ = ["CudaModule", "KernelSpec", "emit_cuda"]
