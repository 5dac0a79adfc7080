"""Outputs that a call makes, as source text of the function that calls go through."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Outputs:
    """``wanted``: tensors like those to make, by position; they may lie anywhere. ``given``: the names of those that the caller brings.

    ``lines`` make ``o<position>``; ``result`` is what the call returns.
    """

    def __init__(self, torch: Any, device: Any, wanted: Mapping[int, Any], given: Mapping[int, str]):
        self.space: dict[str, Any] = {"empty": _quick(torch, device) or _plain(torch, device)}
        self.lines = []
        for i, t in wanted.items():
            self.space |= {f"size{i}_": tuple(t.shape), f"steps{i}_": tuple(t.stride()), f"type{i}_": t.dtype}
            self.lines.append(f"    o{i} = empty(size{i}_, steps{i}_, type{i}_)")
        names = [name for _, name in sorted([*((i, f"o{i}") for i in wanted), *given.items()])]
        self.result = "None" if not names else names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _quick(torch: Any, device: Any) -> Any:
    """torch's way around its dispatcher, for the current device; a quarter of ``torch.empty``'s time. It is no public interface."""
    try:
        from torch._C._dynamo import guards

        return getattr(guards, f"_empty_strided_{device.type}")
    except (ImportError, AttributeError):
        return None


def _plain(torch: Any, device: Any) -> Any:
    return lambda size, steps, dtype: torch.empty_strided(size, steps, dtype=dtype, device=device)
