"""What the server remembers of an open document."""
from __future__ import annotations

import time
from dataclasses import field
from typing import Any

from tilec.records import dataclass

from ..ide import environment
from ..ide.document import Document
from ..ide.incremental import DiagnosticCache
from ..ide.preferences import Preferences
from ..ide.runs import RunResult
from ..ide.snapshot import Snapshot
from .places import Cell

_IDLE = 0.3  # seconds without an edit after which the next edit is answered at once
_STARVING = 1.0  # seconds without diagnostics after which typing does not postpone them any more
_SHORTEST, _LONGEST = 0.01, 0.15  # seconds to wait while edits keep coming


@dataclass
class Session:
    """``generation`` counts edits: work begun for an older one is stale."""

    uri: str
    document: Document
    cells: list[Cell] = field(default_factory=list)  # of a notebook
    generation: int = 0
    last_edit: float = 0.0
    due: float = 0.0  # when to analyse, on the monotonic clock
    last_published: float = 0.0
    last_duration: float = 0.05  # seconds the last analysis took
    results: dict[tuple[str, str], RunResult] = field(default_factory=dict)  # kernel and instance -> the last run
    tokens: tuple[str, list[int]] = ("", [])  # what the client has: an id and the encoded semantic tokens
    running: dict[str, Any] = field(default_factory=dict)  # kernel -> the task that runs it
    chosen: dict[str, str] = field(default_factory=dict)
    publishing: Any = None  # the task that will publish diagnostics
    cache: DiagnosticCache = field(default_factory=DiagnosticCache)
    early: Snapshot | None = None  # the analysis of the same text made before the server was loaded
    _snapshot: Snapshot | None = None

    def edit(self, document: Document) -> float:
        """Take a new text; returns how long to wait before analysing it."""
        now = time.monotonic()
        waited = now - self.last_edit
        self.document = document
        self.generation += 1
        self.last_edit = now
        self._snapshot = None
        if waited > _IDLE or self.is_starving():
            return 0.0
        return min(max(self.last_duration / 2, _SHORTEST), _LONGEST)

    def is_starving(self) -> bool:
        """Edits have kept diagnostics away for too long: those of a text that is not the newest are better than none."""
        return time.monotonic() - self.last_published > _STARVING

    def forget_analysis(self) -> None:
        """The settings changed: analyse again when asked."""
        self.generation += 1
        self._snapshot = None
        self.cache = DiagnosticCache()

    def snapshot(self, preferences: Preferences) -> Snapshot:
        if self._snapshot is None:
            generation = self.generation

            def cancelled() -> bool:
                return self.generation != generation and not self.is_starving()

            early, self.early = self.early, None
            if early is not None and early.document == self.document and early.preferences == preferences:
                self._snapshot, self.cache = early, early.hand_over(cancelled, self.chosen)
            else:
                self._snapshot = Snapshot(self.document, preferences, environment.for_document(self.document.path, preferences),
                                          cancelled, self.chosen, self.cache)
        return self._snapshot
