"""The compile and run processes of the server."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..workers.process import Child


class WorkerBackend:
    """``lower`` and ``warm`` go to one child, ``run`` to another: a run must not hold up hovers."""

    def __init__(self) -> None:
        self._children = {"compile": Child(), "run": Child()}

    async def request(self, request: dict[str, Any], timeout: float, report: Callable[[str], None] | None = None) -> dict[str, Any]:
        return await self._children["run" if request["kind"] == "run" else "compile"].request(request, timeout, report)

    def close(self) -> None:
        for child in self._children.values():
            child.kill()
