"""The child process of :mod:`.process`: JSON lines in, JSON lines out. Whatever else prints goes to standard error.

Started with the search path of its parent and a table of handlers, ``{"run": "package.module:function"}``. A handler takes the
request and, if it has a second parameter, a function that reports progress.
"""
from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

_MEMORY_SHARE = 0.8  # of the machine's (or container's) memory that one worker may hold
_WATCH_SECONDS = 0.25


def main(handlers: dict[str, str]) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a print in native code or in the user's reference function must not be taken for an answer
    sys.stdout = sys.stderr
    channel = Channel(answers)
    threading.Thread(target=_watch, args=(channel, os.getppid()), daemon=True).start()
    for line in sys.stdin:
        reply = answer(handlers, json.loads(line), lambda text: channel.send({"progress": text}))
        channel.send(reply)
        if reply.get("end"):
            return  # a CUDA context after a fault is of no further use


class Channel:
    """Writes whole lines, from several threads."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()


def answer(handlers: dict[str, str], request: dict[str, Any], report: Callable[[str], None]) -> dict[str, Any]:
    try:
        name = handlers.get(request["kind"])
        if name is None:
            return {"error": f"unknown request {request['kind']!r}"}
        module, _, function = name.partition(":")
        handler = getattr(importlib.import_module(module), function)
        takes_report = len(inspect.signature(handler).parameters) > 1
        return handler(request, report) if takes_report else handler(request)
    except MemoryError:
        return {"error": "it needs more memory than there is", "end": True}
    except Exception as error:
        return {"error": f"unexpected {type(error).__name__}: {' '.join(str(error).split())}; this is a fault of tile-lsp"}


def warm(request: dict[str, Any]) -> dict[str, Any]:
    """Load the compiler, so that the next request does not wait for it."""
    importlib.import_module("tilec.pipeline")
    return {}


# -- limits ----------------------------------------------------------------------------------------------------------------------
def _watch(channel: Channel, parent: int) -> None:
    """End the process when its parent is gone or when it holds too much memory."""
    limit = memory_limit()
    while True:
        time.sleep(_WATCH_SECONDS)
        if os.getppid() != parent:
            os._exit(1)
        held = _resident_bytes()
        if limit and held > limit:
            channel.send({"error": f"it held {held >> 20} MiB of memory, more than the {limit >> 20} MiB allowed, and was ended", "end": True})
            os._exit(1)


def memory_limit() -> int:
    """Bytes a worker may hold; 0 where the machine's memory is not known."""
    given = os.environ.get("TILE_LSP_WORKER_MEMORY_MB", "")
    if given.isdigit():
        return int(given) << 20
    sizes = []
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        with open("/sys/fs/cgroup/memory.max", encoding="utf-8") as file:
            sizes.append(int(file.read()))
    except (OSError, ValueError, AttributeError):
        pass
    return int(min(sizes) * _MEMORY_SHARE) if sizes else 0


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
