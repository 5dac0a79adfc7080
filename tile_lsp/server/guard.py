"""Requests never bring the server down: what a handler raises is logged, and the client gets an empty answer."""
from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..ide.snapshot import Cancelled

log = logging.getLogger("tile_lsp")
T = TypeVar("T")


def guarded(empty: Any = None) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
    """For handlers: answers ``empty`` when the document changed meanwhile or something unexpected happens."""

    def decorate(handler: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        @functools.wraps(handler)
        async def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return await handler(*args, **kwargs)
            except asyncio.CancelledError:
                raise
            except Cancelled:
                return empty
            except Exception:
                log.exception("%s failed", handler.__name__)
                return empty

        return run

    return decorate
