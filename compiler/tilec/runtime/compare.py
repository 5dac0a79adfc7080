"""Comparing a kernel's outputs with the expected ones: tolerances, errors, where the wrong elements lie and what wrote them."""
from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..ir import dtypes
from ..ir.buffer import FRAGMENT, GLOBAL, LOCAL, VAR, Buffer
from ..ir.program import TileProgram
from ..ir.stmt import Stmt, Store, TileOp
from ..records import dataclass
from ..source.span import Span

# Distance from 1 to the next number.
_STEP = {"float64": 2.0**-52, "float32": 2.0**-23, "tfloat32": 2.0**-10, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3,
         "float8_e5m2": 2.0**-2}
_OUTPUT_STEPS = 2.0  # kernel and reference each round once to the output's type
_INTERMEDIATE_STEPS = 4.0  # of types that intermediate results are rounded to; these errors grow with the sums, not the element
_FLOAT32_FLOOR = 1e-5  # approximate exponentials and reciprocals
_MAP_ROWS, _MAP_COLUMNS = 16, 32


@dataclass(frozen=True)
class Tolerance:
    """``|actual - expected| <= atol + rtol * |expected|``; ``atol`` is a fraction ``scale`` of the expected values' root mean square."""

    rtol: float
    scale: float

    def atol(self, expected: torch.Tensor) -> float:
        finite = expected[torch.isfinite(expected)]
        rms = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
        return self.scale * (rms or 1.0) if self.scale else 0.0


def tolerance(program: TileProgram, output: Buffer, depth: int, tensor_cores: bool) -> Tolerance:
    """For sums over up to ``depth`` elements. Integers must be equal. ``tensor_cores``: float32 products are computed in tf32."""
    if not dtypes.is_float(output.dtype):
        return Tolerance(0.0, 0.0)
    output_step = _STEP.get(output.dtype, 2.0**-2)
    between = [_STEP.get(t, 2.0**-2) for t in _rounding_types(program)]
    if tensor_cores and any(isinstance(s, TileOp) and "gemm" in s.op and s.region("A").dtype == "float32" for s in program.statements()):
        between.append(_STEP["tfloat32"])
    intermediate = max(between, default=0.0)
    if max(output_step, intermediate) < _STEP["float32"]:
        return Tolerance(1e-11, 1e-11 * math.sqrt(depth))
    rtol = max(_OUTPUT_STEPS * output_step, _INTERMEDIATE_STEPS * intermediate, _FLOAT32_FLOOR)
    accumulation = _INTERMEDIATE_STEPS * _STEP["float32"] * math.sqrt(depth)
    return Tolerance(rtol, max(output_step + _INTERMEDIATE_STEPS * intermediate, _FLOAT32_FLOOR) + accumulation)


def _rounding_types(program: TileProgram) -> set[str]:
    """Types that intermediate results are rounded to: of on-chip buffers filled by computing or from wider on-chip tiles."""
    found: set[str] = set()
    for s in program.statements():
        if isinstance(s, Store) and s.buffer.storage().scope != GLOBAL and dtypes.is_float(s.buffer.dtype):
            found.add(s.buffer.dtype)
        elif isinstance(s, TileOp) and s.op in ("copy", "transpose"):
            src, dst = s.region("src"), s.region("dst")
            wider = dtypes.is_float(src.dtype) and dtypes.is_float(dst.dtype) and dtypes.bits(src.dtype) > dtypes.bits(dst.dtype)
            if wider and src.buffer.scope in (FRAGMENT, LOCAL, VAR, "shared", "shared.dyn") and dst.buffer.storage().scope != GLOBAL:
                found.add(dst.dtype)
    return found


@dataclass
class Mismatch:
    """``wrong_map``: rows of fractions of wrong elements over the output, seen as a matrix; ``cell``: rows and columns of elements a cell."""

    output: str
    shape: tuple[int, ...]
    count: int
    total: int
    first: tuple[int, ...]
    actual: float
    expected: float
    unwritten: bool
    wrong_map: list[list[float]]
    cell: tuple[int, int]
    writer: Span | None = None


@dataclass
class Comparison:
    max_abs: float
    max_rel: float
    mean_abs: float
    rtol: float
    atol: float
    mismatch: Mismatch | None


def compare(output: Buffer, actual: torch.Tensor, expected: torch.Tensor, allowed: Tolerance, tile: tuple[int, int] | None = None) -> Comparison:
    """Compare in float64 (integers exactly). NaN equals NaN, infinities of one sign are equal."""
    a, e = actual.detach().cpu().to(torch.float64), expected.detach().cpu().to(torch.float64)
    rtol, atol = allowed.rtol, allowed.atol(e)
    same = (a == e) | (torch.isnan(a) & torch.isnan(e))
    if not dtypes.is_float(output.dtype) and not expected.dtype.is_floating_point:
        same = actual.cpu().to(torch.int64) == expected.cpu().to(torch.int64)  # float64 does not hold all of int64
    difference = torch.where(same, torch.zeros_like(a), (a - e).abs())
    bounded = torch.isfinite(a) & torch.isfinite(e)  # otherwise an expected infinity would allow any difference
    close = same | (bounded & (difference <= atol + rtol * e.abs()) & bool(rtol or atol))
    bad = ~close
    finite = difference[torch.isfinite(difference)]
    relative = difference / e.abs().clamp_min(max(atol, 1e-30))
    relative = relative[torch.isfinite(relative)]
    unbounded = bool(bad.any()) and finite.numel() < difference.numel()
    found = Comparison(math.inf if unbounded else _largest(finite), math.inf if unbounded else _largest(relative),
                       float(finite.mean()) if finite.numel() else 0.0, rtol, atol, None)
    if bool(bad.any()):
        found.mismatch = _describe(output, a, e, bad, tile)
    return found


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _describe(output: Buffer, a: torch.Tensor, e: torch.Tensor, bad: torch.Tensor, tile: tuple[int, int] | None) -> Mismatch:
    flat = int(bad.reshape(-1).to(torch.uint8).argmax())
    first: list[int] = []
    rest = flat
    for extent in reversed(bad.shape):
        first.insert(0, rest % extent)
        rest //= extent
    fractions, cell = _wrong_map(bad, tile)
    value = float(a.reshape(-1)[flat])
    return Mismatch(output.name, tuple(bad.shape), int(bad.sum()), bad.numel(), tuple(first), value, float(e.reshape(-1)[flat]), math.isnan(value),
                    fractions, cell)


def _wrong_map(bad: torch.Tensor, tile: tuple[int, int] | None) -> tuple[list[list[float]], tuple[int, int]]:
    """The tensor as a matrix (leading dimensions stacked), cut into the kernel's tiles or, where they are too many, larger cells."""
    matrix = bad.reshape(-1, bad.shape[-1]) if bad.ndim > 1 else bad.reshape(1, -1)
    rows = _cell(matrix.shape[0], tile[0] if tile else 1, _MAP_ROWS)
    columns = _cell(matrix.shape[1], tile[1] if tile else 1, _MAP_COLUMNS)
    cells = [[float(block.float().mean()) for block in band.split(columns, 1)] for band in matrix.split(rows, 0)]
    return cells, (rows, columns)


def _cell(extent: int, tile: int, most: int) -> int:
    """The smallest multiple of the tile that divides the extent into at most ``most`` cells."""
    tile = max(min(tile, extent), 1)
    return tile * max(-(-extent // (tile * most)), 1)


def output_tile(program: TileProgram, output: Buffer) -> tuple[int, int] | None:
    """Rows and columns of what one block writes of an output, where a copy tells."""
    for s in program.statements():
        if isinstance(s, TileOp) and s.op in ("copy", "tma_copy"):
            dst = s.region("dst")
            extents = dst.static_extents()
            if dst.buffer.storage() is output and extents:
                return (extents[-2] if len(extents) > 1 else 1), extents[-1]
    return None


def writer_of(statements: Sequence[Stmt], writers: torch.Tensor | None, shape: Sequence[int], index: Sequence[int]) -> Span | None:
    """The place of the statement that wrote an element."""
    if writers is None:
        return None
    flat = 0
    for extent, i in zip(shape, index):
        flat = flat * extent + i
    number = int(writers[flat]) if flat < writers.numel() else -1
    return statements[number].span if number >= 0 else None
