"""Where TileLang puts the elements of a matrix operand held in a fragment, by instruction and warp policy.

Facts: PTX ISA, "Matrix Fragments for mma" and "Register Fragments for wgmma"; TileLang 0.1.15 for how warps share a tile.
A lane's place is written with g = lane / 4 and t = lane % 4, as the tables do.
"""
from __future__ import annotations

import struct

from ..records import dataclass
from .layout import REGISTER, THREAD, Digit, FragmentLayout, Replica

WARP, ROWS, COLUMNS = 32, 16, 8
MMA, WGMMA = "mma.sync", "wgmma"
POLICIES = ("square", "full_row", "full_col")


@dataclass(eq=False, repr=False)
class Product:
    """One matrix product as the layouts see it. ``bits``: of an element of A and B. ``m``, ``n``: warps along M and N."""

    instruction: str
    M: int
    N: int
    K: int
    bits: int
    m: int
    n: int


def warp_split(M: int, N: int, warps: int, policy: str, instruction: str) -> tuple[int, int] | None:
    """How many warps go along M and along N, or None where they cannot share the tile."""
    group = 4 if instruction == WGMMA else 1
    legal = [
        (m, warps // m)
        for m in range(group, warps + 1, group)
        if warps % m == 0 and M % (m * ROWS) == 0 and N % (warps // m * COLUMNS) == 0
    ]
    if not legal or policy not in POLICIES:
        return None
    if policy == "full_row":
        return max(legal)
    if policy == "full_col":
        return min(legal)
    ideal = _single(M / N)
    return min(legal, key=lambda s: _single(abs(_single(_single(M / (s[0] * ROWS)) / _single(N / (s[1] * COLUMNS))) - ideal)))


def _single(x: float) -> float:
    """Rounded to single precision, in which TileLang compares splits."""
    return struct.unpack("f", struct.pack("f", x))[0]


def accumulator(p: Product) -> FragmentLayout:
    """c0, c1: row g, columns 2t and 2t + 1; c2, c3: row g + 8."""
    rows, cols = p.M // p.m, p.N // p.n
    tiles = cols // COLUMNS
    if p.instruction == WGMMA:
        atoms = rows // ROWS  # 64-row instructions of a warpgroup, which lie next to each other
        down: tuple[Digit, ...] = (
            Digit(0, 4, 16, THREAD, WARP),
            Digit(0, atoms, 64, REGISTER, 4 * tiles),
            Digit(0, p.m // 4, 64 * atoms, THREAD, 4 * WARP),
        )
    else:
        down = (Digit(0, rows // ROWS, ROWS, REGISTER, 4 * tiles), Digit(0, p.m, rows, THREAD, WARP))
    return _layout(
        (p.M, p.N),
        (
            Digit(0, 8, 1, THREAD, 4),
            Digit(0, 2, 8, REGISTER, 2),
            *down,
            Digit(1, 2, 1, REGISTER, 1),
            Digit(1, 4, 2, THREAD, 1),
            Digit(1, tiles, COLUMNS, REGISTER, 4),
            Digit(1, p.n, cols, THREAD, WARP * p.m),
        ),
    )


def operand(which: str, p: Product, k_contiguous: bool) -> FragmentLayout | None:
    """A or B in a fragment; ``k_contiguous``: stored with K last. None where no instruction takes it."""
    k = min(256 // p.bits, p.K)
    pack = 32 // p.bits
    if pack < 1 or p.K % k or k % (4 * pack) or (which == "B" and p.instruction == WGMMA):
        return None
    outer, mine, others = (p.M, p.m, p.n) if which == "A" else (p.N, p.n, p.m)
    tile = ROWS if which == "A" or (outer // mine) % 16 == 0 else COLUMNS
    digits = (Digit(0, 8, 1, THREAD, 4), *_down(which, p, outer, mine, tile, pack, k), *_along_k(which, p, outer, mine, tile, pack, k))
    if which == "A":
        replica = Replica(others, WARP * mine)
    else:
        replica = Replica(others, WARP)
    layout = _layout((outer, p.K), digits, (replica,) if others > 1 else ())
    return layout if k_contiguous else transposed(layout)


def _down(which: str, p: Product, outer: int, mine: int, tile: int, pack: int, k: int) -> tuple[Digit, ...]:
    held = tile * k // WARP  # elements a lane holds of one instruction's operand
    rows = outer // mine
    half = Digit(0, tile // 8, 8, REGISTER, pack if which == "A" else pack * (k // (4 * pack)))
    if p.instruction == WGMMA:  # the warps take turns, 16 rows each
        return half, Digit(0, mine, 16, THREAD, WARP), Digit(0, rows // ROWS, 16 * mine, REGISTER, held)
    scale = WARP if which == "A" else WARP * p.m
    return half, Digit(0, rows // tile, tile, REGISTER, held), Digit(0, mine, rows, THREAD, scale)


def _along_k(which: str, p: Product, outer: int, mine: int, tile: int, pack: int, k: int) -> tuple[Digit, ...]:
    halves, held = k // (4 * pack), tile * k // WARP
    step = pack * (tile // 8) if which == "A" else pack
    return (
        Digit(1, pack, 1, REGISTER, 1),
        Digit(1, 4, pack, THREAD, 1),
        Digit(1, halves, 4 * pack, REGISTER, step),
        Digit(1, p.K // k, k, REGISTER, held * (outer // mine // tile)),
    )


def transposed(layout: FragmentLayout) -> FragmentLayout:
    digits = tuple(Digit(1 - d.dim, d.extent, d.stride, d.axis, d.scale) for d in layout.digits)
    return FragmentLayout((layout.shape[1], layout.shape[0]), digits, layout.replicas)


def _layout(shape: tuple[int, ...], digits: tuple[Digit, ...], replicas: tuple[Replica, ...] = ()) -> FragmentLayout:
    return FragmentLayout(shape, tuple(d for d in digits if d.extent > 1), replicas)
