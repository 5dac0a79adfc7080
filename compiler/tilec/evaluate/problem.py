"""What the front end reports besides tile programs: problems it saw itself, and uses of the TileLang API."""
from __future__ import annotations

from dataclasses import field

from ..records import dataclass
from ..source.span import Span


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault found while evaluating. ``rule`` is the rule's name (``undefined-name``, ``grid-float`` ...)."""

    rule: str
    message: str
    span: Span
    related: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class ApiCall:
    """The call of an API name: how many positional arguments, which keywords, and whether ``*``/``**`` hides some."""

    positional: int
    keywords: tuple[tuple[str, Span], ...]
    has_star: bool
    span: Span  # the whole call
    argument_spans: tuple[Span, ...] = ()  # the positional ones


@dataclass(slots=True)
class ApiUse:
    """A name of TileLang used in a file.

    ``module``: the dotted module the name was looked up in (``tilelang.language``, ``tilelang``); ``name``: the attribute.
    ``span``: the whole expression as written (``T.copy``); ``name_span``: its last part (``copy``).
    ``text``: as written. ``imported``: it came from ``from tilelang.language import name``.
    """

    module: str
    name: str
    span: Span
    name_span: Span
    text: str
    imported: bool = False
    call: ApiCall | None = field(default=None)
