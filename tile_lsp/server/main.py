"""Putting the server together and starting it."""
from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
from typing import Any

from . import commands, completion, decorations, documents, hover, lenses, navigation
from .app import TileServer
from .compiler import Compiler


def create(compiler: Compiler | None = None) -> TileServer:
    server = TileServer(_version(), compiler)
    for part in (documents, hover, lenses, completion, navigation, decorations, commands):
        part.register(server)
    return server


def serve(tcp: str | None = None, log_file: str | None = None, log_level: str = "warning", opening: Any = None) -> int:
    """Serve one client until it leaves. ``opening``: what was said to it before (``early.py``)."""
    logging.basicConfig(filename=log_file, level=log_level.upper(),
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("pygls").setLevel(max(logging.WARNING, getattr(logging, log_level.upper())))
    server = create()
    # Syntax trees are many small objects that live briefly: a full collection in the middle of a keystroke costs 0.2 s.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    gc.enable()
    if tcp is None:
        try:
            if opening is None:
                server.start_io()
            else:
                server.opening, server.reading = opening, opening.stdin
                opening.stdin.at_end = server.farewell
                server.start_io(opening.stdin, opening.stdout)
        except (ValueError, OSError) as error:  # the client has closed its ends before we noticed that it left
            logging.getLogger("tile_lsp").info("the connection ended: %s", error)
        return 0 if server.protocol._shutdown else 1  # as the protocol wants it of an exit without a shutdown
    host, _, port = tcp.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        print(f"tile-lsp: --tcp {tcp}: expected [HOST:]PORT with a port between 1 and 65535, such as --tcp 127.0.0.1:8765", file=sys.stderr)
        return 2
    server.start_tcp(host or "127.0.0.1", int(port))
    return 0


def _version() -> str:
    """Of the installed distribution. importlib.metadata, which reads it as e-mail, is loaded only where no folder's name says it."""
    for folder in sys.path:
        with contextlib.suppress(OSError):
            found = [n for n in os.listdir(folder or ".") if n.startswith("tilec-") and n.endswith(".dist-info")]
            if len(found) == 1:
                return found[0][len("tilec-"):-len(".dist-info")]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tilec")
    except PackageNotFoundError:
        return "0"
