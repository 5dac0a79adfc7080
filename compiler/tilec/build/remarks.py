"""What ptxas says about the speed of a kernel while it assembles it: operations that it serialises, register exchanges that it ignores."""
from __future__ import annotations

import re

from ..records import dataclass

_REMARK = re.compile(r"ptxas (?:info|warning)\s*: \((C7\d{3})\) (.*)")
_KERNEL = re.compile(r"\s*(?:in|around line \d+ in)?\s*(?:the )?(?:function|entry function) '(\w+)'\s*$")
_WORDS = {
    "C7508": "setmaxnreg is ignored, so that no warps give registers to others",
    "C7510": "wgmma operations are serialised: each is waited for before the next starts",
    "C7517": "wgmma operations are waited for early, because their registers are used",
    "C7519": "wgmma operations wait for registers that are set between them",
}
_PLACE = re.compile(r" in around line \d+| around line \d+")  # of the PTX text, which nobody sees


@dataclass(frozen=True, slots=True)
class Remark:
    """``code``: ptxas's number; ``kernel``: the function, if it is named; ``text``: its own words."""

    code: str
    kernel: str
    text: str

    def __str__(self) -> str:
        words = _WORDS.get(self.code)
        return f"ptxas {self.code}: {words} ({self.text})" if words else f"ptxas {self.code}: {self.text}"


def parse_remarks(log: str) -> list[Remark]:
    """The remarks of a compiler's log, one of a kind and kernel."""
    found: dict[tuple[str, str], Remark] = {}
    for line in log.splitlines():
        match = _REMARK.search(line)
        if match is None:
            continue
        text = _PLACE.sub("", match[2].strip())
        kernel = _KERNEL.search(text)
        text = text[: kernel.start()].rstrip() if kernel else text
        made = Remark(match[1], kernel[1] if kernel else "", text.removeprefix("Potential Performance Loss: "))
        found.setdefault((made.code, made.kernel), made)
    return list(found.values())
