"""Which values index expressions take: the ranges of loop, block and thread variables, and exact bounds of sums of them."""

from __future__ import annotations

from ..ir.build import const_int
from ..ir.expr import Binary, Expr, Var
from ..ir.stmt import For, If, Launch, Parallel
from ..records import dataclass
from .facts import Place, has_jump


@dataclass(slots=True)
class Range:
    """``low``, ``low + step`` ... ``high``: all are taken."""

    low: int
    high: int
    step: int = 1

    @property
    def varies(self) -> bool:
        return self.low < self.high


Ranges = dict[Var, Range]


def loop_ranges(place: Place) -> Ranges:
    """The ranges of the enclosing loops that run to their end."""
    found: Ranges = {}
    for parent in place.parents:
        if isinstance(parent, For) and not has_jump(parent.body):
            start, extent = const_int(parent.start), const_int(parent.extent)
            if start is not None and extent is not None and extent > 0:
                ends = (start, start + (extent - 1) * parent.step)
                found[parent.var] = Range(min(ends), max(ends), abs(parent.step))
        elif isinstance(parent, Parallel) and not has_jump(parent.body):
            for var, size in zip(parent.vars, parent.extents):
                extent = const_int(size)
                if extent is not None and extent > 0:
                    found[var] = Range(0, extent - 1)
    return found


def launch_ranges(place: Place) -> Ranges:
    """Those of block and thread indices."""
    launch = place.launch
    found: Ranges = {}
    if not isinstance(launch, Launch):
        return found
    pairs = [*zip(launch.block_vars, launch.grid), *zip(launch.attrs.get("thread_vars", ()), launch.threads)]
    for var, size in pairs:
        extent = const_int(size)
        if extent is not None and extent > 0:
            found[var] = Range(0, extent - 1)
    return found


def ranges_at(place: Place) -> Ranges:
    return {**launch_ranges(place), **loop_ranges(place)}


def narrowed(ranges: Ranges, place: Place) -> Ranges | None:
    """The ranges as the enclosing branches leave them; None if a condition says more than bounds of one variable."""
    found = dict(ranges)
    for number, parent in enumerate(place.parents):
        if not isinstance(parent, If):
            continue
        inner = place.parents[number + 1] if number + 1 < len(place.parents) else place.stmt
        if not any(s is inner for s in parent.then) or not _narrow(parent.cond, found):
            return None
    return found


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _narrow(cond: Expr, ranges: Ranges) -> bool:
    """Apply ``variable < literal`` and the like, joined by ``and``."""
    if not isinstance(cond, Binary):
        return False
    if cond.op == "and":
        return _narrow(cond.a, ranges) and _narrow(cond.b, ranges)
    op, var, bound = cond.op, cond.a, const_int(cond.b)
    if op in _MIRRORED and isinstance(cond.b, Var):
        op, var, bound = _MIRRORED[op], cond.b, const_int(cond.a)
    if op not in _MIRRORED or not isinstance(var, Var) or bound is None or var not in ranges:
        return False
    old = ranges[var]
    if old.step != 1:
        return False
    if op in ("lt", "le"):
        ranges[var] = Range(old.low, min(old.high, bound - (op == "lt")))
    else:
        ranges[var] = Range(max(old.low, bound + (op == "gt")), old.high)
    return ranges[var].low <= ranges[var].high


def interval(e: Expr, ranges: Ranges, seen: set[Var]) -> tuple[int, int] | None:
    """The least and greatest value of sums, multiples and quotients of variables, both reached; None if not sure.

    Exact only while no variable occurs twice, hence ``seen``.
    """
    value = const_int(e)
    if value is not None:
        return value, value
    if isinstance(e, Var):
        if e in seen or e not in ranges:
            return None
        seen.add(e)
        return ranges[e].low, ranges[e].high
    if not isinstance(e, Binary):
        return None
    if e.op in ("floordiv", "floormod"):
        return _quotient(e, ranges, seen)
    if e.op not in ("add", "sub", "mul"):
        return None
    a, b = interval(e.a, ranges, seen), interval(e.b, ranges, seen)
    if a is None or b is None:
        return None
    if e.op == "add":
        return a[0] + b[0], a[1] + b[1]
    if e.op == "sub":
        return a[0] - b[1], a[1] - b[0]
    products = [x * y for x in a for y in b]
    return (min(products), max(products)) if a[0] == a[1] or b[0] == b[1] else None


def _quotient(e: Binary, ranges: Ranges, seen: set[Var]) -> tuple[int, int] | None:
    divisor = const_int(e.b)
    if divisor is None or divisor < 1:
        return None
    inner = interval(e.a, ranges, seen)
    if inner is None:
        return None
    low, high = inner
    if e.op == "floordiv":
        return low // divisor, high // divisor
    if low // divisor == high // divisor:
        return low % divisor, high % divisor
    consecutive = isinstance(e.a, Var) and ranges[e.a].step == 1
    return (0, divisor - 1) if consecutive and high - low + 1 >= divisor else None
