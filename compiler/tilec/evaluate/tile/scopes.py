"""Context managers that change nothing about what their body does."""
from __future__ import annotations

from typing import Any


class Transparent:
    """``with T.ws_op("load"):`` and the like. ``value``: what ``as`` binds; ``block``: T.sblock, to which annotations inside belong."""

    def __init__(self, value: Any = None, block: bool = False):
        self.value = value
        self.block = block


class WhileLoop:
    """``with T.While(condition):``"""

    def __init__(self, cond: Any):
        self.cond = cond
