"""Requests never bring the server down: what a handler raises is logged, and the client gets an empty answer."""
from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pygls.exceptions import JsonRpcException

from ..ide.snapshot import Cancelled

log = logging.getLogger("tile_lsp")
T = TypeVar("T")
_TRIES = 20


def guarded(empty: Any = None, again: bool = False) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
    """For handlers: answers ``empty`` when something unexpected happens, or the document changed meanwhile. ``again``: then
    the question is asked of the new text instead: for answers about whole documents, which clients show until the next one."""

    def decorate(handler: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        @functools.wraps(handler)
        async def run(*args: Any, **kwargs: Any) -> Any:
            for _ in range(_TRIES if again else 1):
                try:
                    return await handler(*args, **kwargs)
                except (asyncio.CancelledError, JsonRpcException):
                    raise
                except Cancelled:
                    await asyncio.sleep(0.02 if again else 0)
                except Exception:
                    log.exception("%s failed", handler.__name__)
                    return empty
            return empty

        return run

    return decorate
