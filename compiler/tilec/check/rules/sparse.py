"""Sparse matrix products. TileLang 0.1.15, language/experimental/gemm_sp_op.py, cuda/op/gemm_sp."""

from __future__ import annotations

from ...ir.buffer import Region
from ...ir.build import const_int
from ...ir.sparsity import metadata_factor
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span, is_runtime
from ..registry import rule
from .gemm import known, size

SPARSE = ("gemm_sp", "wgmma_gemm_sp", "tcgen05_gemm_sp")


@rule("gemm-sp")
def gemm_sp(ctx: RuleContext):
    for place in ctx.facts.ops(*SPARSE):
        op = place.stmt
        assert isinstance(op, TileOp)
        operands = {n: op.args.get(n) for n in ("A", "E", "B", "C")}
        if all(isinstance(r, Region) for r in operands.values()):
            yield _check(ctx, op, **operands)  # type: ignore[arg-type]


def _span(op: TileOp, name: str):
    return argument_span(op, "A_sparse" if name == "A" and "A_sparse" in op.arg_spans else name)


def _check(ctx: RuleContext, op: TileOp, A: Region, E: Region, B: Region, C: Region):
    for name, region in (("A", A), ("E", E), ("B", B), ("C", C)):
        if len(region.extents) < 2 or (name == "C" and len(region.extents) != 2):
            return ctx.report(
                f"T.{op.op}: {name} ({region.buffer.name}) is {size(region)}; it must be a matrix", _span(op, name)
            )
        for extent in region.extents[-2:]:
            if is_runtime(extent):
                return ctx.report(
                    f"T.{op.op}: the extents of {region.buffer.name} must be constants", _span(op, name)
                )
    flags = [op.args.get(n) for n in ("transpose_A", "transpose_E", "transpose_B")]
    if not all(isinstance(f, (bool, int)) for f in flags):
        return None
    transpose_a, transpose_e, transpose_b = map(bool, flags)
    m_a, half = _matrix(A, transpose_a)
    k_b, n_b = _matrix(B, transpose_b)
    m, n = (const_int(e) for e in C.extents)
    if half is not None and k_b is not None and 2 * half != k_b:
        uncompressed = f"; {A.buffer.name} seems to be given uncompressed" if half == k_b else ""
        return ctx.report(
            f"T.{op.op}: A keeps two of four elements, so its K is half of B's: {A.buffer.name} has {half}, "
            f"{B.buffer.name} {k_b}{uncompressed}",
            op.span,
        )
    for what, mine, theirs, name in (("M", m_a, m, "A"), ("N", n_b, n, "B")):
        if mine is not None and theirs is not None and mine != theirs:
            return ctx.report(
                f"T.{op.op}: {what} is {mine} in {name} and {theirs} in C", _span(op, name)
            )
    if known(A.dtype) and known(B.dtype) and A.dtype != B.dtype:
        return ctx.report(f"T.{op.op}: A is {A.dtype} and B is {B.dtype}; both have one type", _span(op, "B"))
    return _check_metadata(ctx, op, E, transpose_e, A.dtype, m_a, half)


def _matrix(region: Region, transposed: bool) -> tuple[int | None, int | None]:
    rows, columns = (const_int(e) for e in region.extents[-2:])
    return (columns, rows) if transposed else (rows, columns)


def _check_metadata(ctx: RuleContext, op: TileOp, E: Region, transposed: bool, dtype: str, m: int | None, half: int | None):
    rows, columns = _matrix(E, transposed)
    per_element = metadata_factor(dtype, E.dtype)
    if m is not None and rows is not None and rows != m:
        return ctx.report(
            f"T.{op.op}: the metadata {E.buffer.name} has {rows} rows, A has {m}", _span(op, "E"), (E.buffer.name, E.buffer.span)
        )
    if per_element is None or half is None or columns is None or columns * per_element == 2 * half:
        return None
    return ctx.report(
        f"T.{op.op}: one {E.dtype} of metadata stands for {per_element} elements of a row of {dtype}, so "
        f"{E.buffer.name} has {2 * half // per_element} columns, not {columns}",
        _span(op, "E"),
        (E.buffer.name, E.buffer.span),
    )

