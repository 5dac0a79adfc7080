"""The compile and run processes of the server."""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..ide.lowered import RESOURCES
from ..workers.process import Child

_TOOLKIT_STAGES = ("ptx", "sass", RESOURCES)  # nvcc takes seconds


class WorkerBackend:
    """``lower`` and ``warm`` go to one child, what needs the CUDA toolkit to another, ``run`` and ``prepare`` to a third: none holds up hovers."""

    def __init__(self) -> None:
        self._children = {"compile": Child(), "toolkit": Child(), "run": Child()}

    async def request(self, request: dict[str, Any], timeout: float, report: Callable[[str], None] | None = None) -> dict[str, Any]:
        return await self._children[_who(request)].request(request, timeout, report)

    async def end(self) -> None:
        """End all processes and wait until they are gone."""
        await asyncio.gather(*(child.end() for child in self._children.values()))

    def close(self) -> None:
        for child in self._children.values():
            child.kill()


def _who(request: dict[str, Any]) -> str:
    if request["kind"] in ("run", "prepare"):
        return "run"
    return "toolkit" if request.get("stage") in _TOOLKIT_STAGES else "compile"
