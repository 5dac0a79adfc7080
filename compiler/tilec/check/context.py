"""What a rule sees, and how it reports."""

from __future__ import annotations

from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from ..source.span import Span
from ..target.chips import Target
from .diagnostic import Diagnostic, Fix, Related
from .facts import Facts
from .registry import BY_NAME, ProgramRule
from .settings import OFF, Settings


class RuleContext:
    """``target`` is None for rules that do not depend on the chip."""

    def __init__(
        self,
        program: TileProgram,
        facts: Facts,
        target: Target | None,
        settings: Settings,
        blamed: dict[Buffer, str] | None = None,
        version: str = "",
        released: bool = True,
    ):
        self.program = program
        self.facts = facts
        self.target = target
        self.settings = settings
        self.version = version  # of TileLang, "" if unknown
        self.released = released  # False: a checkout of TileLang's sources, which may be ahead of its version
        self.rule: ProgramRule | None = None
        self.blamed: dict[Buffer, str] = (
            {} if blamed is None else blamed
        )  # buffers that an error was reported about, and by which rule

    def report(
        self,
        message: str,
        span: Span | None,
        *related: tuple[str, Span | None],
        name: str | None = None,
        severity: str | None = None,
        fix: Fix | None = None,
        buffer: Buffer | None = None,
    ) -> Diagnostic | None:
        """A diagnostic of the running rule (``name``: another of its names). ``buffer``: what it is about, so that
        later rules can leave a faulty buffer alone. None if the settings do not want it."""
        assert self.rule is not None
        data = BY_NAME[name or self.rule.names[0]]
        level = self.settings.severity(data, severity or data.severity)
        if buffer is not None:
            if self.blamed.get(buffer, data.name) != data.name:
                return None
            if (severity or data.severity) == "error":
                self.blamed[buffer] = data.name
        if level == OFF or not self.settings.wants(data):
            return None
        place = span or self.program.span
        if place is None:
            return None
        return Diagnostic(
            data.code,
            data.name,
            level,
            message,
            place,
            tuple(Related(m, s) for m, s in related if s is not None),
            fix,
            self.program.name,
            self.program.instance,
        )

    def wants(self, name: str) -> bool:
        """Whether anybody asked for a rule: for those that take work."""
        return self.settings.wants(BY_NAME[name])

    def is_blamed(self, *buffers: Buffer) -> bool:
        return any(b in self.blamed for b in buffers)
