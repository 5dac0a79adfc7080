"""The protocol's order of messages: nothing before ``initialize``, nothing after ``shutdown``."""
from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol, default_converter

NOT_INITIALIZED, INVALID_REQUEST = -32002, -32600


class PlainJson(dict[str, Any]):
    """An answer that is JSON already: converting hundreds of the protocol's objects takes longer than finding what they say."""


def converter() -> Any:
    made = default_converter()
    made.register_unstructure_hook(PlainJson, lambda value: value)
    return made


class OrderedProtocol(LanguageServerProtocol):
    """pygls answers whatever comes; clients expect errors for requests out of order, and notifications to be ignored."""

    _begun = False

    def handle_message(self, message: Any) -> None:
        method = getattr(message, "method", None)
        if method is None or method == types.EXIT:
            super().handle_message(message)
            return
        refused = self._refusal(method)
        if refused is None:
            self._begun = self._begun or method == types.INITIALIZE
            super().handle_message(message)
        elif getattr(message, "id", None) is not None:
            self._send_response(message.id, None, types.ResponseError(code=refused[0], message=refused[1]))

    def _execute_handler(self, msg_id: Any, handler: Any, callback: Any, args: Any = None, kwargs: Any = None) -> None:
        """pygls keeps the futures of notifications for ever: one for each keystroke."""
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            loop = asyncio.get_running_loop()  # not at once: whoever cancels all futures is walking through them
            future.add_done_callback(lambda _: loop.call_soon(self._request_futures.pop, msg_id, None))

    def _refusal(self, method: str) -> tuple[int, str] | None:
        if self._shutdown:
            return INVALID_REQUEST, f"{method} after shutdown: only exit is possible now"
        if not self._begun and method != types.INITIALIZE:
            return NOT_INITIALIZED, f"{method} before initialize"
        if self._begun and method == types.INITIALIZE:
            return INVALID_REQUEST, "initialize a second time"
        return None
