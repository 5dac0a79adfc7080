"""Whole kernels and modules as CUDA text."""
from __future__ import annotations

from dataclasses import field
from typing import Any

from ...analysis.bounds import Ranges
from ...ir.buffer import GLOBAL, Buffer
from ...ir.build import const_int
from ...ir.expr import Call, Expr, Load, Var, walk
from ...ir.program import TileProgram
from ...ir.stmt import Alloc, Launch, Store, expressions
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ...source.span import Span
from ...target.chips import Target
from ...transform.bulk.tensor_map import TensorMap
from ...transform.errors import LoweringError
from ...transform.launch_order import WAITS_FOR_KERNEL_BEFORE
from .intrinsics import GENERATOR
from .statements import StatementPrinter

# What imported C sources may take for granted: the names of types that TileLang's headers give.
COMMON_NAMES = """typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef __half half_t;
typedef __nv_bfloat16 bfloat16_t;
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif
"""


@dataclass
class KernelSpec:
    """What launching a kernel takes. ``arguments``: Buffers (by pointer), Vars and TensorMaps (by value) in order; ``grid``: up to three extents.

    ``alignment``: bytes to which a tensor's data must be aligned, because the kernel accesses so many at once. ``resident``: the grid counts tiles, and so many blocks a multiprocessor do them all.
    ``overlaps``: it waits itself for the kernel before, during whose end it may start.
    """

    name: str
    arguments: list[Buffer | Var | TensorMap]
    grid: tuple[Expr, ...]
    block: tuple[int, int, int]
    shared_bytes: int
    cluster: tuple[int, int, int] | None = None
    alignment: dict[Buffer, int] = field(default_factory=dict)
    cooperative: bool = False  # its blocks wait for each other, so that all must run at once
    resident: int | None = None
    overlaps: bool = False


@dataclass
class CudaModule:
    text: str
    lines: list[Span | None]  # the source place of each line of the text
    kernels: list[KernelSpec] = field(default_factory=list)


def emit_cuda(program: TileProgram, target: Target) -> CudaModule:
    """Print a thread program. Raises LoweringError for what CUDA cannot express."""
    launches = program.launches()
    if not launches:
        raise LoweringError("the program launches no kernel (there is no T.Kernel)", program.span)
    printed: list[tuple[str, Span | None]] = []
    sources: dict[str, str] = {}
    headers: set[str] = set()
    kernels: list[KernelSpec] = []
    for number, launch in enumerate(launches):
        name = f"{program.name}_kernel" + (f"_{number}" if number else "")
        spec, out = _from_source(program, launch) if "source_text" in launch.attrs else _kernel(program, launch, name)
        kernels.append(spec)
        sources.update({k: v for k, v in out.expr.sources.items() if k not in sources})
        headers |= out.expr.headers
        printed += [("", None), *out.lines]
    texts = list(dict.fromkeys(text for launch in launches for text in launch.attrs.get("imported", ())))
    if texts:
        headers |= {"cuda_fp16.h", "cuda_bf16.h"}
        sources = {"imported": "\n".join([COMMON_NAMES, *texts]), **sources}
    head: list[tuple[str, Span | None]] = [(f"#include <{h}>", None) for h in sorted(headers)]
    for source in sources.values():
        head += [("", None)] + [(text, None) for text in source.rstrip("\n").split("\n")]
    everything = head + printed
    while everything and not everything[0][0]:
        everything.pop(0)
    return CudaModule("\n".join(text for text, _ in everything) + "\n", [span for _, span in everything], kernels)


def _kernel(program: TileProgram, launch: Launch, name: str) -> tuple[KernelSpec, StatementPrinter]:
    out = StatementPrinter(Ranges())
    out.depth = 0
    buffers, scalars = _used(program, launch)
    block = tuple(const_int(t) for t in launch.threads)
    if any(t is None for t in block):
        raise LoweringError("the number of threads is not a constant", launch.span, "threads-range")
    threads = block[0] * block[1] * block[2]  # type: ignore[operator]
    minimum = launch.attrs.get("min_blocks_per_sm")
    bounds = f"{threads}, {minimum}" if isinstance(minimum, int) else f"{threads}"
    written = {s.buffer.storage() for s in walk_statements(launch.body) if isinstance(s, Store)} | _address_taken(launch)
    out.read_only = {b for b in buffers if b not in written}
    alone = not any(isinstance(s, Alloc) and "address" in s.buffer.attrs for s in walk_statements(launch.body))
    parameters = [_pointer(out, b, b not in written and alone, alone) for b in buffers] + [f"{out.expr.type(v.dtype)} {out.expr.name(v)}" for v in scalars]
    if not alone:
        out.read_only = set()
    cluster = _cluster(launch)
    attributes = f" __cluster_dims__({', '.join(map(str, cluster))})" if cluster else ""
    head = len(out.lines)
    out.depth = 1
    _indices(out, launch)
    _pool(out, launch)
    _generator(out, launch)
    out.body(launch.body)
    out.depth = 0
    out.line("}", launch.span)
    parameters += [f"const __grid_constant__ tile_tensor_map {text}" for text in out.expr.maps.values()]
    out.lines.insert(head, (f'extern "C" __global__ void __launch_bounds__({bounds}){attributes} {name}({", ".join(parameters)}) {{', launch.span))
    spec = KernelSpec(name, [*buffers, *scalars, *out.expr.maps], launch.grid, block, int(launch.attrs.get("shared_bytes", 0)), cluster,  # type: ignore[arg-type]
                      out.expr.alignment, "tile_sync_grid" in out.expr.sources, launch.attrs.get("persistent"),
                      WAITS_FOR_KERNEL_BEFORE in out.expr.sources)
    return spec, out


def _pointer(out: StatementPrinter, buffer: Buffer, read_only: bool, alone: bool) -> str:
    """``alone``: nothing else points to the same memory; tensors made from pointers may."""
    restrict = " __restrict__" if alone else ""
    return f"{'const ' if read_only else ''}{out.expr.type(buffer.dtype, buffer.span)}*{restrict} {out.expr.name(buffer)}"


def _from_source(program: TileProgram, launch: Launch) -> tuple[KernelSpec, StatementPrinter]:
    """A kernel written in CUDA: it gets the parameters in order, then the run-time extents."""
    out = StatementPrinter(Ranges())
    out.depth = 0
    for line in launch.attrs["source_text"].strip("\n").split("\n"):
        out.line(line, launch.span)
    block = tuple(const_int(t) for t in launch.threads)
    if any(t is None for t in block):
        raise LoweringError("the number of threads is not a constant", launch.span, "threads-range")
    arguments = [*program.params, *(v for v in program.dynamic if v not in program.params)]
    return KernelSpec(launch.attrs["entry"], arguments, launch.grid, block, 0, _cluster(launch)), out  # type: ignore[arg-type]


def _cluster(launch: Launch) -> tuple[int, int, int] | None:
    dims = launch.attrs.get("cluster_dims")
    if dims is None:
        return None
    values = [dims] if isinstance(dims, int) else list(dims)
    if not all(isinstance(v, int) for v in values):
        raise LoweringError("cluster_dims is not known", launch.span, "cluster-size")
    values += [1] * (3 - len(values))
    return None if values == [1, 1, 1] else (values[0], values[1], values[2])


def _used(program: TileProgram, launch: Launch) -> tuple[list[Buffer], list[Var]]:
    """The parameters a kernel reads or writes, and the scalars it needs."""
    buffers: dict[Buffer, None] = {}
    scalars: dict[Var, None] = {}

    def visit(e: Any) -> None:
        for part in walk(e):
            if isinstance(part, Load):
                note(part.buffer)
            elif isinstance(part, Var) and part.kind in ("dynamic", "const", "param"):
                scalars.setdefault(part)

    def note(b: Buffer) -> None:
        b = b.storage() if b.view_of is not None and b.scope == GLOBAL else b
        if b.scope == GLOBAL and b not in buffers:
            buffers[b] = None
            for e in (*b.shape, *(b.strides or ())):
                visit(e)

    for s in walk_statements(launch.body):
        if isinstance(s, Store):
            note(s.buffer)
        for e in expressions(s):
            visit(e)
    order = {p: i for i, p in enumerate([*program.params, *program.attrs.get("workspaces", ())])}
    buffers = {b: None for b in buffers if "address" not in b.attrs}
    foreign = next((b for b in buffers if b not in order), None)
    if foreign is not None:
        raise LoweringError(f"{foreign.name} is a global buffer that is no parameter of the kernel", foreign.span)
    ordered = sorted(buffers, key=lambda b: order[b])
    return ordered, sorted(scalars, key=lambda v: (order.get(v, len(order)), v.name))


def _address_taken(launch: Launch) -> set[Buffer]:
    """Buffers whose address goes to a device function, which may write them."""
    found: set[Buffer] = set()
    for s in walk_statements(launch.body):
        for e in expressions(s):
            for part in walk(e):
                if isinstance(part, Call) and part.op == "address_of":
                    found.add(part.args[0].buffer.storage())
    return found


def _indices(out: StatementPrinter, launch: Launch) -> None:
    body_parts = {part for s in walk_statements(launch.body) for e in expressions(s) for part in walk(e) if isinstance(part, Var)}
    for var, axis in zip(launch.block_vars, "xyz"):
        if var in body_parts:
            out.line(f"const int {out.expr.name(var)} = blockIdx.{axis};", launch.span)
    for var, axis, extent in zip(launch.attrs.get("thread_vars", ()), "xyz", launch.threads):
        out.ranges.set_extent(var, extent)
        if var in body_parts:
            out.line(f"const int {out.expr.name(var)} = threadIdx.{axis};", launch.span)
            # The C++ compiler does not know it and divides by powers of two in four instructions instead of one.
            out.line(f"__builtin_assume({out.expr.name(var)} >= 0 && {out.expr.name(var)} < {out.expr.text(extent)});", launch.span)
    for var, extent in zip(launch.block_vars, launch.grid):
        out.ranges.set_extent(var, extent)


def _generator(out: StatementPrinter, launch: Launch) -> None:
    """The state of a thread's random numbers."""
    draws = [part for s in walk_statements(launch.body) for e in expressions(s) for part in walk(e) if isinstance(part, Call) and part.op.startswith("rng_")]
    if not draws:
        return
    kinds = {str((d.attrs or {}).get("generator")) for d in draws if d.op == "rng_init"}
    if len(kinds) != 1:
        what = "is drawn from before T.rng_init" if not kinds else f"is started as {' and as '.join(sorted(kinds))}"
        raise LoweringError(f"The generator of random numbers {what}.", draws[0].span, "rng-argument")
    out.line(f"{kinds.pop()} {GENERATOR};", draws[0].span)


def _pool(out: StatementPrinter, launch: Launch) -> None:
    """The block's dynamic shared memory and the buffers in it."""
    pooled = [s for s in walk_statements(launch.body) if isinstance(s, Alloc) and s.buffer.attrs.get("byte_offset") is not None]
    if not pooled:
        return
    out.line("extern __shared__ __align__(1024) unsigned char pool[];", launch.span)
    for s in sorted(pooled, key=lambda s: s.buffer.attrs["byte_offset"]):
        element = out.expr.type(s.buffer.dtype, s.span)
        offset = s.buffer.attrs["byte_offset"]
        out.line(f"{element}* const {out.expr.name(s.buffer)} = reinterpret_cast<{element}*>(pool{f' + {offset}' if offset else ''});", s.span)
