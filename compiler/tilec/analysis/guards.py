"""The conditions under which an access to a buffer is inside it, without those that always hold."""
from __future__ import annotations

from collections.abc import Sequence

from ..ir.build import binary, const
from ..ir.expr import Expr
from .bounds import Ranges


def inside(indices: Sequence[Expr], shape: Sequence[Expr], ranges: Ranges) -> Expr | None:
    """``0 <= index < extent`` for every dimension, as one condition; None if that is proven."""
    condition: Expr | None = None
    for index, extent in zip(indices, shape):
        for known, test in (
            (ranges.proves_nonnegative(index), lambda i=index: binary("ge", i, const(0, i.dtype))),
            (ranges.proves_less(index, extent), lambda i=index, e=extent: binary("lt", i, e)),
        ):
            if not known:
                part = test()
                condition = part if condition is None else binary("and", condition, part)
    return condition
