"""Collecting garbage when nobody is typing: a full collection in the middle of a keystroke would be felt."""
from __future__ import annotations

import asyncio
import gc
import time

IDLE = 1.5  # seconds without an edit
MOST_EDITS = 400  # without a pause: then a collection is due in any case


class Tidy:
    """Analyses are full of cycles, and the automatic collection of what has lived for a while is practically off (``main.serve``)."""

    def __init__(self) -> None:
        self._edits = 0
        self._last = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    def edited(self) -> None:
        self._edits += 1
        self._last = time.monotonic()
        if self._edits >= MOST_EDITS:
            self._collect()
        elif self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(IDLE, self._look)

    def _look(self) -> None:
        left = IDLE - (time.monotonic() - self._last)
        if left > 0:
            self._waiting = asyncio.get_running_loop().call_later(left, self._look)
        else:
            self._collect()

    def _collect(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = None
        self._edits = 0
        gc.collect()
