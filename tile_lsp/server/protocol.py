"""The protocol's order of messages: nothing before ``initialize``, nothing after ``shutdown``."""
from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol, default_converter

_LAST_WAIT = 5.0  # seconds between an early exit and leaving in any case
NOT_INITIALIZED, INVALID_REQUEST = -32002, -32600


class PlainJson(dict[str, Any]):
    """An answer that is JSON already: converting hundreds of the protocol's objects takes longer than finding what they say."""


def converter() -> Any:
    made = default_converter()
    made.register_unstructure_hook(PlainJson, lambda value: value)
    return made


class _Futures(dict[Any, Any]):
    """Requests that are being answered. On shutdown pygls cancels them while it walks through them, and each takes itself out."""

    def items(self) -> Any:
        return list(super().items())


class _Refusals(logging.Filter):
    """A request that is refused, a rename to a keyword say, is no failure: one line instead of pygls's trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, JsonRpcException):
            record.msg, record.args, record.exc_info = "%s", (f"refused: {error}",), None
        return True


class OrderedProtocol(LanguageServerProtocol):
    """pygls answers whatever comes; clients expect errors for requests out of order, and notifications to be ignored."""

    _begun = False
    _leaving = False  # a shutdown is being answered
    _exiting: asyncio.Task[None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request_futures = _Futures(self._request_futures)
        logging.getLogger("pygls.protocol.json_rpc").addFilter(_Refusals())

    def handle_message(self, message: Any) -> None:
        method = getattr(message, "method", None)
        reading = getattr(self._server, "reading", None)
        if method == types.EXIT and reading is not None:
            self._exiting = asyncio.get_running_loop().create_task(self._exit(reading))
            return
        if method is None or method == types.EXIT:
            super().handle_message(message)
            return
        refused = self._refusal(method)
        if refused is None:
            self._begun = self._begun or method == types.INITIALIZE
            self._leaving = self._leaving or method == types.SHUTDOWN
            super().handle_message(message)
        elif getattr(message, "id", None) is not None:
            self._send_response(message.id, None, types.ResponseError(code=refused[0], message=refused[1]))

    async def _exit(self, reading: Any) -> None:
        """A client that does not wait for the answer to shutdown is sent it nevertheless, after the workers are gone. The end of the input is the end
        of the server; leaving from here would cut off what is going on."""
        end = time.monotonic() + _LAST_WAIT
        while self._leaving and not self._shutdown and time.monotonic() < end:
            await asyncio.sleep(0.01)
        reading.stop()

    def _execute_handler(self, msg_id: Any, handler: Any, callback: Any, args: Any = None, kwargs: Any = None) -> None:
        """pygls keeps the futures of notifications for ever: one for each keystroke."""
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future = self._request_futures.get(msg_id)
        asked = getattr(callback, "keywords", {}).get("result_future")
        if asked is not None and future is not None:  # a step of a request, of a command say: who cancels the request means the step
            asked.add_done_callback(lambda done: future.cancel() if done.cancelled() else None)
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
