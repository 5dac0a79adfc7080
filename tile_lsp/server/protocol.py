"""The protocol's order of messages: nothing before ``initialize``, nothing after ``shutdown``."""
from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol

NOT_INITIALIZED, INVALID_REQUEST = -32002, -32600


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

    def _refusal(self, method: str) -> tuple[int, str] | None:
        if self._shutdown:
            return INVALID_REQUEST, f"{method} after shutdown: only exit is possible now"
        if not self._begun and method != types.INITIALIZE:
            return NOT_INITIALIZED, f"{method} before initialize"
        if self._begun and method == types.INITIALIZE:
            return INVALID_REQUEST, "initialize a second time"
        return None
