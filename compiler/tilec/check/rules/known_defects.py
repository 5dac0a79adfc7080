"""What the user's TileLang is known to miscompile or crash on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ..context import RuleContext
from ..diagnostic import INFORMATION, WARNING
from ..registry import rule
from ..versions import key

if TYPE_CHECKING:
    from ..known_defects.defect import Defect


CONFIRMED = "0.1.15"  # what later releases do has not been looked at


@lru_cache(maxsize=4)
def of_release(version: str) -> tuple[Defect, ...]:
    """The rows that hold for a release."""
    from ..known_defects.table import DEFECTS

    mine = key(version)
    if mine > key(CONFIRMED):
        return ()
    return tuple(d for d in DEFECTS if key(d.first) <= mine and (d.last is None or mine <= key(d.last)))


@rule("known-defect")
def known_defects(ctx: RuleContext):
    """A warning where a later release is right; where none is, just information: there is no better TileLang to take."""
    if not ctx.version or not ctx.released or ctx.program.attrs.get("incomplete"):
        return
    for defect in of_release(ctx.version):
        cure = f"; {defect.last} is the last release with it" if defect.last else ""
        for span in defect.pattern(ctx):
            yield ctx.report(
                f"TileLang {ctx.version}: {defect.effect} (tile-ai/tilelang#{defect.number}{cure}); way round: {defect.instead}",
                span,
                severity=WARNING if defect.last else INFORMATION,
            )
