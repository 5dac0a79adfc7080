"""Host and device modules of a thread program as TIRx, for people to read as TVMScript."""
from __future__ import annotations

from typing import Any

from .. import tvm_compat as T
from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from ..ir.stmt import Launch
from ..target.chips import Target
from .arguments import plan_arguments
from .cuda.kernel import KernelSpec, _used
from .host import HostBuilder, host_function
from .tir import TirEmitter

_SCOPES = {"shared.dyn": "shared.dyn", "shared": "shared", "local": "local", "local.var": "local", "global": "", "shared.barrier": "shared",
           "shared.cluster_barrier": "shared"}


def host_text(program: TileProgram, kernels: list[KernelSpec], target: Target) -> str:
    """The host function: argument checks, then a launch per kernel with grid, block and dynamic shared memory."""
    plan = plan_arguments(program)

    def launch(b: HostBuilder) -> list[Any]:
        return [T.evaluate(T.call_packed(spec.name, *_arguments(b, spec), *_configuration(b.emitter, spec))) for spec in kernels]

    return T.script(T.module({program.name: host_function(plan, "cuda", launch)}))


def _arguments(b: HostBuilder, spec: KernelSpec) -> list[Any]:
    return [b.pointers[a] if isinstance(a, Buffer) else b.emitter.var(a) for a in spec.arguments]


def _configuration(emitter: TirEmitter, spec: KernelSpec) -> list[Any]:
    grid = [emitter.expr(e) for e in spec.grid] + [T.constant(1, "int32")] * (3 - len(spec.grid))
    return [*grid, *(T.constant(b, "int32") for b in spec.block), T.constant(spec.shared_bytes, "int32")]


def device_text(program: TileProgram, kernels: list[KernelSpec]) -> str:
    """The kernels as TIRx functions with their thread axes."""
    functions = {}
    for launch, spec in zip(program.launches(), kernels):
        functions[spec.name] = _kernel(program, launch, spec)
    return T.script(T.module(functions))


def _kernel(program: TileProgram, launch: Launch, spec: KernelSpec) -> Any:
    emitter = TirEmitter(_SCOPES)
    buffers, scalars = _used(program, launch)
    params = [emitter.buffer(b) for b in buffers] + [emitter.var(v) for v in scalars]
    body = emitter.body(launch.body)
    for var, axis, extent in zip(launch.attrs.get("thread_vars", ()), "xyz", spec.block):
        body = T.thread_extent(f"threadIdx.{axis}", emitter.var(var), T.constant(extent, "int32"), body)
    for var, axis, size in zip(launch.block_vars, "xyz", launch.grid):
        body = T.thread_extent(f"blockIdx.{axis}", emitter.var(var), emitter.expr(size), body)
    return T.function(spec.name, params, body, {"tirx.noalias": True, "dyn_shared_memory_buf": spec.shared_bytes})
