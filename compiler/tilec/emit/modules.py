"""Host and device modules of a thread program as TIRx, for people to read as TVMScript."""
from __future__ import annotations

from typing import Any

from .. import tvm_compat as T
from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Launch, walk
from ..source.span import Span
from ..target.chips import Target
from ..transform.bulk.tensor_map import TensorMap
from .arguments import plan_arguments
from .cuda.kernel import KernelSpec, _used
from .host import HostBuilder, host_function
from .marks import LineMarks
from .tir import TirEmitter

_SCOPES = {"shared.dyn": "shared.dyn", "shared": "shared", "local": "local", "local.var": "local", "global": "", "shared.barrier": "shared",
           "shared.cluster_barrier": "shared"}


def host_text(program: TileProgram, kernels: list[KernelSpec], target: Target) -> str:
    """The host function: argument checks, then a launch per kernel with grid, block and dynamic shared memory."""
    plan = plan_arguments(program)

    def launch(b: HostBuilder) -> list[Any]:
        maps = dict.fromkeys(a for spec in kernels for a in spec.arguments if isinstance(a, TensorMap))
        calls = [T.evaluate(T.call_packed(spec.name, *_arguments(b, spec), *_configuration(b.emitter, spec, target))) for spec in kernels]
        return [*(statement for m in maps for statement in _encode(b, m)), *calls]

    return T.script(T.module({program.name: host_function(plan, "cuda", launch)}))


def _arguments(b: HostBuilder, spec: KernelSpec) -> list[Any]:
    for a in spec.arguments:
        if isinstance(a, Buffer) and a not in b.pointers:  # a workspace
            b.pointers[a] = b.bind(a.name, "handle", T.extern("workspace", "handle", [b.emitter.expr(e) for e in a.shape]))
    return [b.pointers[a] if isinstance(a, Buffer) else b.emitter.tensor_map(a) if isinstance(a, TensorMap) else b.emitter.var(a) for a in spec.arguments]


def _encode(b: HostBuilder, m: TensorMap) -> list[Any]:
    """A tensor map on the stack, told to the driver: type, rank, start, extents, strides in bytes, box, steps, interleaving, swizzle, L2, fill."""
    size = dtypes.bits(m.buffer.dtype) // 8

    def number(e: Any) -> Any:
        return T.constant(e, "int32") if isinstance(e, int) else b.emitter.expr(e)

    extents, strides = reversed(m.buffer.shape), [s * size for s in reversed(m.strides()[:-1])]
    moved: tuple[int, ...] = (*reversed(m.box), *[1] * m.buffer.ndim)
    if m.window is not None:
        moved = (*[m.window.lower] * 2, *[m.window.upper] * 2, *reversed(m.box), 1, m.window.stride, m.window.stride, 1)
    options = (*moved, 0, {0: 0, 32: 1, 64: 2, 128: 3}[m.swizzle], 2, 0)
    call = T.call_packed(f"runtime.cuTensorMapEncode{'Tiled' if m.window is None else 'Im2col'}", b.emitter.tensor_map(m), T.string(m.combined or m.buffer.dtype), number(m.buffer.ndim), b.pointers[m.tensor],
                         *(number(e) for e in (*extents, *strides, *options)))
    return [T.bind(b.emitter.tensor_map(m), T.tensor_map_storage()), T.evaluate(call)]


def _configuration(emitter: TirEmitter, spec: KernelSpec, target: Target) -> list[Any]:
    grid = [emitter.expr(e) for e in spec.grid] + [T.constant(1, "int32")] * (3 - len(spec.grid))
    if spec.resident:
        grid[0] = T.binary("min", grid[0], T.constant(spec.resident * target.sm_count, "int32"))
    return [*grid, *(T.constant(b, "int32") for b in spec.block), T.constant(spec.shared_bytes, "int32")]


def device_text(program: TileProgram, kernels: list[KernelSpec]) -> tuple[str, list[Span | None]]:
    """The kernels as TIRx functions with their thread axes, and the source place of each line."""
    marks = LineMarks()
    functions = {}
    for launch, spec in zip(program.launches(), kernels):
        functions[spec.name] = _kernel(program, launch, spec, marks)
    return marks.strip(T.script(T.module(functions)))


def _kernel(program: TileProgram, launch: Launch, spec: KernelSpec, marks: LineMarks) -> Any:
    emitter = TirEmitter(_SCOPES)
    emitter.marks = marks
    buffers, scalars = _used(program, launch)
    params = [emitter.buffer(b) for b in buffers] + [emitter.var(v) for v in scalars]
    params += [emitter.tensor_map(m) for m in spec.arguments if isinstance(m, TensorMap)]
    body = T.sequence([*_pool(emitter, launch), emitter.body(launch.body)])
    for var, axis, extent in zip(launch.attrs.get("thread_vars", ()), "xyz", spec.block):
        body = T.thread_extent(f"threadIdx.{axis}", emitter.var(var), T.constant(extent, "int32"), body)
    for var, axis, size in zip(launch.block_vars, "xyz", launch.grid):
        body = T.thread_extent(f"blockIdx.{axis}", emitter.var(var), emitter.expr(size), body)
    return T.function(spec.name, params, body, {"tirx.noalias": True})


def _pool(emitter: TirEmitter, launch: Launch) -> list[Any]:
    """The block's dynamic shared memory, and the buffers as views of it."""
    placed = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.attrs.get("byte_offset") is not None]
    if not placed:
        return []
    size = T.constant(max(int(launch.attrs.get("shared_bytes", 0)), 1), "int32")
    pool = T.buffer(emitter.name("pool"), [size], "uint8", "shared.dyn")
    statements = [T.allocate(pool)]
    for b in placed:
        offset = T.constant(b.attrs["byte_offset"] * 8 // dtypes.bits(b.dtype), "int32")
        shape = [emitter.expr(e) for e in b.shape]
        emitter.buffers[b] = T.buffer(emitter.name(b.name), shape, b.dtype, data=T.data_of(pool), elem_offset=offset)
        statements.append(T.declare(emitter.buffers[b], T.data_of(pool)))
    return statements
