"""The first diagnostics of a session, before the server itself is loaded.

Loading asyncio, the protocol's classes and pygls takes twice as long as checking a file, and the first diagnostics need none of it. What ``initialize`` is
answered with depends only on the client's capabilities and on the files of this program, so the answer of the last start is remembered (``answers.py``) and
sent at once. The document that the client opens next is checked and its diagnostics are published. Then the server is loaded and is given every byte that was
read here, as if it had just come; its own answer to ``initialize`` goes nowhere, and it takes over the analysis. Whatever is not as expected (no remembered
answer, another order of messages, a notebook, a client that pulls) is simply left to the server.
"""
from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Callable
from typing import Any, BinaryIO

from tilec.records import dataclass

from . import answers

_PATIENCE = 0.05  # seconds to wait for the client's next message, once the checker is loaded
_LARGEST = 1 << 26  # bytes of a message


@dataclass(eq=False)
class Opening:
    """What was done before the server: it reads from ``stdin`` and writes to ``stdout``."""

    stdin: Input
    stdout: Any
    uri: str = ""  # of the document that was checked
    snapshot: Any = None  # its analysis


def begin(stdin: BinaryIO, stdout: BinaryIO) -> Opening:
    """Answer what can be answered now. Never raises: the server does the same again, and says what is wrong."""
    incoming = Input(stdin.fileno())
    opening = Opening(incoming, stdout)
    try:
        _greet(incoming, stdout, opening)
    except Exception as error:
        import logging

        logging.getLogger("tile_lsp").info("nothing is answered before the server is loaded: %r", error)
    return opening


def _greet(incoming: Input, stdout: BinaryIO, opening: Opening) -> None:
    first = incoming.message(None)
    if first is None or first.get("method") != "initialize" or "id" not in first or not isinstance(first.get("params"), dict):
        return
    params = first["params"]
    key = answers.key(params)
    known = answers.recall(key)
    opening.stdout = _Answers(stdout, first["id"], key, known)
    if known is None:
        return
    _send(stdout, {"id": first["id"], "jsonrpc": "2.0", "result": known})
    if "diagnosticProvider" not in known.get("capabilities", {}):
        _check_what_opens(incoming, stdout, opening, params.get("initializationOptions"), known["capabilities"].get("positionEncoding") or "utf-16")


def _check_what_opens(incoming: Input, stdout: BinaryIO, opening: Opening, options: Any, encoding: str) -> None:
    """Load the checker while the client reads the answer; then see whether it has opened a file."""
    from ..ide import environment, preferences
    from ..ide.frontend import load
    from ..ide.snapshot import Snapshot
    from .plain import document_of, published

    load()
    chosen, _ = preferences.taken(options, preferences.Preferences())
    while True:
        message = incoming.message(_PATIENCE)
        method = message.get("method") if message is not None else None
        if method == "workspace/didChangeConfiguration" and message is not None:
            chosen, _ = preferences.taken(message["params"].get("settings"), chosen)
        elif method != "initialized":
            break
    if method != "textDocument/didOpen" or message is None or message["params"]["textDocument"].get("languageId") != "python":
        return
    item = message["params"]["textDocument"]
    document = document_of(item)
    if document is None:
        return
    settled, complaint = preferences.of_project(document.path, chosen)
    if complaint:
        return  # the user is told first
    snapshot = Snapshot(document, settled, environment.for_document(document.path, settled))
    found = published(item["uri"], document, snapshot.diagnostics(), encoding)
    opening.uri, opening.snapshot = item["uri"], snapshot
    if found is not None:
        _send(stdout, {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": found})


def _send(stdout: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    stdout.write(b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" % len(body) + body)
    stdout.flush()


class Input:
    """Standard input: messages first, for those who want them early; then all of it from its beginning, as a file. Unlike a file's, a read that waits can be
    ended: by :meth:`stop`, from another thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._taken = bytearray()  # and not given yet
        self._at = 0  # where the next message begins
        self._end = False
        self.at_end: Callable[[], None] = lambda: None  # called once, by the reader, before it tells of the end
        self._woken, self._wake = os.pipe()

    def message(self, patience: float | None) -> dict[str, Any] | None:
        """The next one; None where it does not begin to arrive in time, or is none."""
        while (end := self._taken.find(b"\r\n\r\n", self._at)) < 0:
            if not self._more(patience):
                return None
        header = bytes(self._taken[self._at:end])
        length = next((int(line.split(b":")[1]) for line in header.split(b"\r\n") if line.lower().startswith(b"content-length:")), -1)
        begin, self._at = end + 4, end + 4 + length
        if not 0 <= length <= _LARGEST:
            return None
        while len(self._taken) < self._at:
            if not self._more(None):
                return None
        found = json.loads(bytes(self._taken[begin:self._at]))
        return found if isinstance(found, dict) else None

    def readline(self) -> bytes:
        seen = 0
        while (end := self._taken.find(b"\n", seen)) < 0:
            seen = len(self._taken)
            if not self._more(None):
                return self._give(seen)
        return self._give(end + 1)

    def read(self, count: int) -> bytes:
        while len(self._taken) < count and self._more(None):
            pass
        return self._give(count)

    def stop(self) -> None:
        """Nothing more is wanted: a reader that waits is told the end."""
        with contextlib.suppress(OSError):
            os.write(self._wake, b"x")

    def _give(self, count: int) -> bytes:
        part = bytes(self._taken[:count])
        del self._taken[:count]
        return part

    def _more(self, patience: float | None) -> bool:
        if self._end or not (ready := select.select([self._descriptor, self._woken], [], [], patience)[0]):
            return False
        data = os.read(self._descriptor, 1 << 16) if self._woken not in ready else b""
        self._taken += data
        if not data:
            self._end = True
            self.at_end()
        return bool(data)


class _Answers:
    """Standard output, less the answer to ``initialize`` where that was given already; it is remembered for the next start."""

    def __init__(self, stdout: BinaryIO, request: Any, key: str, known: dict[str, Any] | None) -> None:
        self._stdout, self._request, self._key, self._known = stdout, request, key, known
        self._waiting = True

    def write(self, data: bytes) -> None:
        if self._waiting and self._is_the_answer(data) and self._known is not None:
            return
        self._stdout.write(data)

    def flush(self) -> None:
        self._stdout.flush()

    def close(self) -> None:
        self._stdout.close()

    def _is_the_answer(self, data: bytes) -> bool:
        message = json.loads(data[data.index(b"\r\n\r\n") + 4:])
        if "method" in message or "result" not in message or message.get("id") != self._request:
            return False
        self._waiting = False
        result = message["result"]
        if isinstance(result, dict) and result != self._known:
            answers.remember(self._key, result)
        return True
