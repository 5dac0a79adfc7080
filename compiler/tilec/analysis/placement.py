"""Which threads hold what, compared exactly: does a loop's thread hold the elements it touches, and what follows for others.

Answers are True, False or None: None where the indices or extents do not split into digits, so that nothing is known.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.expr import Cast, Expr, Var
from .bounds import Ranges
from .digits import DigitSum, LoopDigits, Part
from .layout import REGISTER, THREAD, Digit, FragmentLayout, Replica

Sums = Sequence["DigitSum | None"]


class Space(LoopDigits):
    """The variables of a parallel loop, then those of the serial loops around and inside it, as digits."""

    def __init__(self, loop: Sequence[tuple[Var, int]], serial: Sequence[tuple[Var, int]], lets: dict[Var, Expr]) -> None:
        every = [*loop, *serial]
        base = tuple(Digit(k, extent, 1, REGISTER, 1) for k, (_, extent) in enumerate(every))
        super().__init__([v for v, _ in every], FragmentLayout(tuple(e for _, e in every), base), Ranges())
        self.loop_rank = len(loop)
        self.lets = lets
        self._own: list[DigitSum] | None = None

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the parallel loop."""
        return self.layout.shape[: self.loop_rank]

    def of(self, e: Expr) -> DigitSum | None:
        if isinstance(e, Var) and e in self.lets:
            return self.of(self.lets[e])
        if isinstance(e, Cast):
            return self.of(e.a)
        return super().of(e)

    def own(self) -> list[DigitSum]:
        """The loop's variables themselves."""
        if self._own is None:
            self._own = [DigitSum((Part(1, d.extent, d),)) for d in self.layout.digits[: self.loop_rank]]
        return self._own


def thread_sum(layout: FragmentLayout, indices: Sums) -> DigitSum | None:
    """The number of the thread that holds the element, replicas as digits of their own."""
    total = DigitSum(())
    for d in layout.digits:
        if d.axis != THREAD:
            continue
        index = indices[d.dim]
        value = None if index is None else index.digit(d.stride, d.extent)
        if value is None:
            return None
        total = total + value.times(d.scale)
    copies = tuple(Part(r.scale, r.extent, Digit(-1 - n, r.extent, 1, THREAD, 1)) for n, r in enumerate(layout.replicas))
    return total + DigitSum(copies)


def is_replicated(layout: FragmentLayout) -> bool:
    """Whether every thread holds everything."""
    return not any(d.axis == THREAD for d in layout.digits) and [r.scale for r in layout.replicas] == [1]


def contains(thread: DigitSum | None, layout: FragmentLayout, indices: Sums) -> bool | None:
    """Whether the thread (a number in digits) is among those that hold the element at ``indices``."""
    if is_replicated(layout):
        return True
    if thread is None:
        return None
    certain = True
    for d in layout.digits:
        if d.axis != THREAD:
            continue
        index = indices[d.dim]
        wanted = None if index is None else index.digit(d.stride, d.extent)
        verdict = same(thread.digit(d.scale, d.extent), wanted)
        if verdict is False:
            return False
        certain &= verdict is True
    for low, high in _gaps(layout):
        rest = thread.digit(low, None if high is None else high // low)
        verdict = same(rest, DigitSum(()))
        if verdict is False:
            return False
        certain &= verdict is True
    return True if certain else None


def same(a: DigitSum | None, b: DigitSum | None) -> bool | None:
    if a is None or b is None:
        return None
    if any(p.digit is None for p in (*a.parts, *b.parts)):
        return None  # terms known by their range only
    return a.constant == b.constant and _canonical(a) == _canonical(b)


def _canonical(s: DigitSum) -> list[tuple[int, int, int, int]]:
    """(variable, stride in it, extent, weight), neighbours joined."""
    found: list[tuple[int, int, int, int]] = []
    for p in sorted((p for p in s.parts if p.extent > 1), key=lambda p: (p.digit.dim, p.below)):  # type: ignore[union-attr]
        assert p.digit is not None
        if found:
            dim, below, extent, weight = found[-1]
            if dim == p.digit.dim and below * extent == p.below and weight * extent == p.weight:
                found[-1] = (dim, below, extent * p.extent, weight)
                continue
        found.append((p.digit.dim, p.below, p.extent, p.weight))
    return found


def _gaps(layout: FragmentLayout) -> list[tuple[int, int | None]]:
    """Ranges of weights of the thread number that no digit or replica of the layout fills."""
    spans = sorted([(d.scale, d.extent) for d in layout.digits if d.axis == THREAD] + [(r.scale, r.extent) for r in layout.replicas])
    gaps: list[tuple[int, int | None]] = []
    position = 1
    for scale, extent in spans:
        if scale > position:
            gaps.append((position, scale))
        position = max(position, scale * extent)
    return [*gaps, (position, None)]


def loop_of_buffer(layout: FragmentLayout, indices: Sums, space: Space) -> tuple[FragmentLayout, list[int]] | None:
    """The loop layout under which every thread runs the iterations whose element it holds; and the numbers of the serial
    loops' variables on which the threads depend as well."""
    thread = thread_sum(layout, indices)
    if thread is None:
        return None
    mine = [p for p in thread.parts if p.extent > 1 and (p.digit is None or p.digit.dim >= 0)]
    if any(p.digit is None for p in mine):
        return None
    serial = sorted({p.digit.dim for p in mine if p.digit is not None and p.digit.dim >= space.loop_rank})
    digits = [Digit(p.digit.dim, p.extent, p.below, THREAD, p.weight)
              for p in mine if p.digit is not None and p.digit.dim < space.loop_rank]
    filled = with_registers(space.extents, digits)
    return None if filled is None else (FragmentLayout(space.extents, filled, layout.replicas), serial)


def runs_along_diagonal(layout: FragmentLayout, indices: Sums) -> bool:
    """Whether one variable decides twice about the thread, as in ``f[i, i]``."""
    thread = thread_sum(layout, indices)
    spans = sorted((p.digit.dim, p.below, p.below * p.extent) for p in (thread.parts if thread is not None else ())
                   if p.digit is not None and p.digit.dim >= 0 and p.extent > 1)
    return any(a[0] == b[0] and b[1] < a[2] for a, b in zip(spans, spans[1:]))


def with_registers(shape: Sequence[int], threads: Iterable[Digit]) -> tuple[Digit, ...] | None:
    """What the thread digits leave of each dimension goes to registers, the last dimension first. None if digits overlap."""
    threads = list(threads)
    digits: list[Digit] = []
    scale = 1
    for dim in reversed(range(len(shape))):
        position = 1
        for d in sorted((d for d in threads if d.dim == dim), key=lambda d: d.stride):
            if d.stride % position or d.stride < position:
                return None
            if d.stride > position:
                digits.append(Digit(dim, d.stride // position, position, REGISTER, scale))
                scale *= d.stride // position
            digits.append(d)
            position = d.stride * d.extent
        rest = -(-shape[dim] // position)
        if rest > 1:
            digits.append(Digit(dim, rest, position, REGISTER, scale))
            scale *= rest
    return tuple(digits)


def completed(loop: FragmentLayout, indices: Sums, shape: Sequence[int], space: Space) -> FragmentLayout | None:
    """The fragment layout under which the loop's threads hold exactly what their iterations touch."""
    threads: list[Digit] = []
    used: list[tuple[int, int, int]] = []  # variable, from stride, to stride
    for dim, index in enumerate(indices):
        if index is None or index.constant:
            return None
        position = 1
        for p in sorted((p for p in index.parts if p.extent > 1), key=lambda p: p.weight):
            if p.digit is None or p.weight != position:
                return None
            position *= p.extent
            if p.digit.dim < space.loop_rank:
                used.append((p.digit.dim, p.below, p.below * p.extent))
                pieces = _pieces(loop, p)
                if pieces is None:
                    return None
                threads += [Digit(dim, e, stride, THREAD, scale) for e, stride, scale in pieces]
        if position != shape[dim]:
            return None
    copies = _unused(loop, used)
    if copies is None or _overlap(used):
        return None
    filled = with_registers(shape, threads)
    return None if filled is None else FragmentLayout(tuple(shape), filled, (*loop.replicas, *copies))


def _pieces(loop: FragmentLayout, p: Part) -> list[tuple[int, int, int]] | None:
    """The thread digits of the loop within a piece of its variable: (extent, stride in the index, scale)."""
    assert p.digit is not None
    found = []
    for d in loop.digits:
        if d.dim != p.digit.dim or d.axis != THREAD:
            continue
        low, high = max(d.stride, p.below), min(d.stride * d.extent, p.below * p.extent)
        if high <= low:
            continue
        if low % d.stride or low % p.below or high % low:
            return None
        found.append((high // low, p.weight * (low // p.below), d.scale * (low // d.stride)))
    return found


def _unused(loop: FragmentLayout, used: list[tuple[int, int, int]]) -> list[Replica] | None:
    """The thread digits of the loop that no index mentions: their threads hold copies."""
    copies = []
    for d in loop.digits:
        if d.axis != THREAD:
            continue
        low, top = d.stride, d.stride * d.extent
        for _, start, end in sorted(u for u in used if u[0] == d.dim):
            if end <= low or start >= top:
                continue
            if start > low:
                if start % low:
                    return None
                copies.append(Replica(start // low, d.scale * (low // d.stride)))
            low = max(low, end)
        if low < top:
            if top % low or low % d.stride:
                return None
            copies.append(Replica(top // low, d.scale * (low // d.stride)))
    return copies


def _overlap(used: list[tuple[int, int, int]]) -> bool:
    ordered = sorted(used)
    return any(a[0] == b[0] and b[1] < a[2] for a, b in zip(ordered, ordered[1:]))


# A layout that a plan gives and that does not split into digits of the dimensions: usable as a whole, not to be reduced.
TANGLED = FragmentLayout((), ())


def planned(extents: Sequence[int], threads: int, vector: int) -> FragmentLayout | None:
    """TileLang's own choice for a loop: neighbouring threads take neighbouring vectors of the flattened iterations.

    None if the threads cannot take as many each. ``TANGLED`` if the digits of the thread number straddle dimensions.
    """
    total = 1
    boundaries = [1]
    for extent in reversed(extents):
        total *= extent
        boundaries.append(total)
    share = min(threads, total // vector)
    if total % vector or total % (vector * share):
        return None
    cuts = sorted({*boundaries, vector, vector * share})
    if any(high % low for low, high in zip(cuts, cuts[1:])):
        return TANGLED
    digits: list[Digit] = []
    for low, high in zip(cuts, cuts[1:]):
        dim = len(extents) - 1 - max(k for k, b in enumerate(boundaries[:-1]) if b <= low)
        stride = low // boundaries[len(extents) - 1 - dim]
        if vector <= low < vector * share:
            digits.append(Digit(dim, high // low, stride, THREAD, low // vector))
        else:
            scale = low if low < vector else low // share
            digits.append(Digit(dim, high // low, stride, REGISTER, scale))
    copies = threads // share
    return FragmentLayout(tuple(extents), tuple(digits), (Replica(copies, share),) if copies > 1 else ())


def reduced(layout: FragmentLayout, dim: int) -> FragmentLayout:
    """Where the results of a reduction along ``dim`` are: with every thread that held some of what was reduced."""
    shape = tuple(e for k, e in enumerate(layout.shape) if k != dim) or (1,)
    digits = [Digit(d.dim - (d.dim > dim), d.extent, d.stride, THREAD, d.scale) for d in layout.digits if d.dim != dim and d.axis == THREAD]
    copies = tuple(Replica(d.extent, d.scale) for d in layout.digits if d.dim == dim and d.axis == THREAD)
    return FragmentLayout(shape, with_registers(shape, digits) or (), (*layout.replicas, *copies))


def equal_layouts(a: FragmentLayout, b: FragmentLayout) -> bool:
    """The same threads and the same registers."""
    return a.shape == b.shape and _joined(a) == _joined(b)


def _joined(layout: FragmentLayout) -> list[tuple[str, int, int, int, int]]:
    found: list[tuple[str, int, int, int, int]] = []
    for d in sorted((d for d in layout.digits if d.extent > 1), key=lambda d: (d.axis, d.dim, d.stride)):
        if found:
            axis, dim, extent, stride, scale = found[-1]
            if (axis, dim) == (d.axis, d.dim) and stride * extent == d.stride and scale * extent == d.scale:
                found[-1] = (axis, dim, extent * d.extent, stride, scale)
                continue
        found.append((d.axis, d.dim, d.extent, d.stride, d.scale))
    position = 0
    for r in sorted(layout.replicas, key=lambda r: r.scale):
        if r.extent > 1:
            if found and found[-1][0] == "copies" and position == r.scale:
                _, _, extent, _, scale = found[-1]
                found[-1] = ("copies", 0, extent * r.extent, 1, scale)
            else:
                found.append(("copies", 0, r.extent, 1, r.scale))
            position = r.scale * r.extent
    return found


def thread_runs(layout: FragmentLayout, dim: int) -> list[tuple[int, int]]:
    """The threads along a dimension: how many, and how far apart; neighbouring digits are one run."""
    runs: list[tuple[int, int]] = []
    stride = 0
    for d in sorted((d for d in layout.digits if d.dim == dim and d.axis == THREAD and d.extent > 1), key=lambda d: d.stride):
        if runs and d.stride == stride and d.scale == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * d.extent, runs[-1][1])
        else:
            runs.append((d.extent, d.scale))
        stride = d.stride * d.extent
    return runs


FINE, SCALE, SPREAD = "fine", "scale", "spread"


def thread_shape(layout: FragmentLayout) -> str:
    """Whether a layout's threads are consecutive: ``SCALE`` where they start with every n-th thread, ``SPREAD`` where they
    leave others out in between. TileLang cannot invert those (and fails in its own algebra)."""
    spans = sorted([(d.scale, d.extent) for d in layout.digits if d.axis == THREAD and d.extent > 1]
                   + [(r.scale, r.extent) for r in layout.replicas if r.extent > 1])
    if not spans:
        return FINE
    if spans[0][0] != 1:
        return SCALE
    position = 1
    for scale, extent in spans:
        if scale != position:
            return SPREAD
        position *= extent
    return FINE
