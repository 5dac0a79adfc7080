"""How the warps of a block share the M x N tile of a matrix operation.

The rule is TileLang's: a warp owns whole 16 x 8 tiles; ``full_row`` gives as many warps as possible to M, ``full_col``
to N, ``square`` takes the split whose tiles-per-warp ratio is nearest to M / N (the first such split wins).
"""

from __future__ import annotations

from collections.abc import Callable

from ...records import dataclass

TILE_M, TILE_N, WARP = 16, 8, 32


@dataclass(frozen=True, slots=True)
class WarpGrid:
    """``m`` x ``n`` warps; the warp number counts along M first."""

    m: int
    n: int

    @property
    def threads(self) -> int:
        return self.m * self.n * WARP


def warp_grid(M: int, N: int, threads: int, policy: str) -> WarpGrid | None:
    """The split of a block's warps, or None where they cannot cover M x N evenly."""
    warps = threads // WARP
    if warps == 0:
        return None
    legal = [
        WarpGrid(m, warps // m)
        for m in range(1, warps + 1)
        if warps % m == 0 and M % (m * TILE_M) == 0 and N % (warps // m * TILE_N) == 0
    ]
    if not legal:
        return None
    rank: dict[str, Callable[[WarpGrid], float]] = {
        "full_row": lambda g: -g.m,
        "full_col": lambda g: -g.n,
        "square": lambda g: abs((M / (g.m * TILE_M)) / (N / (g.n * TILE_N)) - M / N),
    }
    return min(legal, key=rank[policy])
