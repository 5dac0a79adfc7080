"""Everything known about one text of a document: kernels, instances, tile programs. Computed once, on demand."""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from tilec.ir.program import TileProgram
from tilec.source.file import SourceFile

from . import frontend
from .document import Document
from .environment import Environment
from .incremental import DiagnosticCache
from .preferences import Preferences
from .scopes import Names
from .values import Trail


class Cancelled(Exception):
    """The document has changed: nobody waits for the answer any more."""


class Snapshot:
    """``cancelled`` is asked between steps; when it says yes, :class:`Cancelled` is raised."""

    def __init__(self, document: Document, preferences: Preferences, environment: Environment,
                 cancelled: Callable[[], bool] = lambda: False, chosen: Mapping[str, str] | None = None,
                 cache: DiagnosticCache | None = None):
        self.document = document
        self.preferences = preferences
        self.environment = environment
        self.chosen = {} if chosen is None else chosen  # kernel -> text of the instance the user wants to see
        self._cache = cache or DiagnosticCache()
        self.source = SourceFile(document.path, document.normalized if document.readable else "", self._cache.source)
        self._cancelled = cancelled
        self._lock = threading.RLock()  # the analysis thread and the requests' threads share a snapshot
        self._analysis: Any = None
        self._programs: dict[tuple[str, str], TileProgram | None] = {}
        self._trails: dict[tuple[str, str], Trail] = {}
        self._diagnostics: list[Any] | None = None
        self._names: Names | None = None
        self._dependencies: dict[str, Any] | None = None

    def hand_over(self, cancelled: Callable[[], bool], chosen: Mapping[str, str]) -> DiagnosticCache:
        """To an owner that knows of edits and choices; returns what the analysis of the next text goes on from."""
        self._cancelled, self.chosen = cancelled, chosen
        return self._cache

    @property
    def names(self) -> Names:
        """The variables of the file, with every place where they stand."""
        with self._lock:
            if self._names is None:
                self._names = Names(self.source)
            return self._names

    @property
    def analysis(self) -> Any:
        with self._lock:
            if self._analysis is None:
                self.check_cancelled()
                self._analysis = frontend.analyse(self.source, self.preferences, self._cancelled)
                self._cache.source = self.source
            return self._analysis

    @property
    def kernels(self) -> list[Any]:
        return list(self.analysis.kernels)

    def diagnostics(self) -> list[Any]:
        """The checker's diagnostics for every instance and target."""
        with self._lock:
            if self._diagnostics is None:
                analysis = self.analysis
                self.check_cancelled()
                self._diagnostics = frontend.check(analysis, self.environment, self.preferences, self.program, self._cache, self.dependencies)
            return self._diagnostics

    def program(self, kernel: Any, instance: Any) -> TileProgram | None:
        """The tile program of a kernel at an instance; None where the front end could not make one."""
        key = (kernel.qualname, getattr(instance, "text", ""))
        with self._lock:
            if key not in self._programs:
                self.check_cancelled()
                self._programs[key] = self._cache.trace("program", kernel, key[1], self.dependencies.get(kernel.qualname),
                                                        lambda: frontend.instantiate(self.analysis, kernel, instance))
            return self._programs[key]

    def trail(self, kernel: Any, instance: Any) -> Trail:
        """What the names of a kernel were while it was traced at an instance."""
        key = (kernel.qualname, instance.text)
        with self._lock:
            if key not in self._trails:
                self.check_cancelled()
                self._trails[key] = self._cache.trace("trail", kernel, key[1], self.dependencies.get(kernel.qualname), lambda: self._traced(kernel, instance))
            return self._trails[key]

    def _traced(self, kernel: Any, instance: Any) -> Trail:
        trail = Trail()
        frontend.instantiate(self.analysis, kernel, instance, trail)
        return trail

    @property
    def dependencies(self) -> dict[str, Any]:
        """What each kernel depends on, by its qualified name."""
        with self._lock:
            if self._dependencies is None:
                self._dependencies = self._cache.dependencies(self.source, self.analysis.kernels)
            return self._dependencies

    def text_key(self, kernel: Any) -> Hashable:
        """What the lowered code of a kernel comes from: an edit of anything else leaves it as it is."""
        depends = self.dependencies.get(kernel.qualname)
        return self.document.key if depends is None else (self.document.path, depends[0], tuple(s.first for s in depends[1]))

    def arguments(self, kernel: Any, instance: Any) -> dict[str, Any]:
        """The values of a kernel's own parameters at an instance."""
        return frontend.arguments(kernel, instance)

    def kernel_named(self, qualname: str) -> Any:
        """A kernel by its qualified name, or by its own name if that is enough."""
        exact = [k for k in self.kernels if k.qualname == qualname]
        return exact[0] if exact else next((k for k in self.kernels if k.name == qualname), None)

    def kernel_at(self, line: int) -> Any:
        """The innermost kernel whose text contains a line."""
        holding = [k for k in self.kernels if k.span.line <= line <= k.span.end_line]
        return max(holding, key=lambda k: k.span.line, default=None)

    def instance(self, kernel: Any, text: str = "") -> Any:
        """The instance of that text, else the chosen one, else the first: what hover, lowering and run show."""
        instances = list(kernel.instances)
        text = text or self.chosen.get(kernel.qualname, "")
        return next((i for i in instances if i.text == text), instances[0] if instances else None)

    def check_cancelled(self) -> None:
        if self._cancelled():
            raise Cancelled
