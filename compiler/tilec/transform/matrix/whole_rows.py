"""Whether ldmatrix can bring an operand from shared memory: it moves 16 aligned bytes of a row."""
from __future__ import annotations

from ...ir.build import const_int
from ..sizes import is_multiple
from .shape import MatrixShape


def moves_whole_rows(which: str, shape: MatrixShape, bits: int, k: int) -> bool:
    """``bits`` of an element, ``k`` of an instruction. ldmatrix's transposing form knows 16-bit elements only."""
    operand = shape.A if which == "A" else shape.B
    buffer, chunk = operand.region.buffer, 128 // bits
    if bits > 32 or (bits != 16 and not shape.k_contiguous(which)) or shape.K % k:
        return False
    row = const_int(buffer.shape[-1])
    return (
        buffer.is_shared()
        and buffer.strides is None
        and row is not None
        and row % chunk == 0
        and is_multiple(operand.region.mins[-1], chunk)
        and (buffer.offset is None or is_multiple(buffer.offset, chunk))
    )
