"""Workers that go wrong where the text says so, and do their work otherwise: see faulty_workers_server.py."""
from __future__ import annotations

import os
import signal
import time
from typing import Any

from tile_lsp.ide import execution, lowering


def lower(request: dict[str, Any]) -> dict[str, Any]:
    _go_wrong(request["text"], "lowering")
    return lowering.answer(request)


def run(request: dict[str, Any], report) -> dict[str, Any]:
    def watched(stage: str) -> None:
        report(stage)
        _go_wrong(request["text"], stage.split()[0])

    return execution.answer(request, watched)


def _go_wrong(text: str, stage: str) -> None:
    """``# segfault while STAGE``, ``# hang while STAGE``, ``# killed while STAGE`` in the text."""
    if f"# segfault while {stage}" in text:
        import ctypes

        ctypes.string_at(0)
    if f"# killed while {stage}" in text:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)
    if f"# hang while {stage}" in text:
        while True:
            pass
