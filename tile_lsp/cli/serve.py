"""``tile-lsp serve``: the language server."""
from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from typing import Any

LOG_LEVELS = ("debug", "info", "warning", "error")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("serve", help="run the language server",
                                   description="Speak the Language Server Protocol over standard input and output.")
    parser.add_argument("--stdio", action="store_true", help="use standard input and output (the default)")
    parser.add_argument("--tcp", metavar="[HOST:]PORT", help="listen on a TCP port instead; the host defaults to 127.0.0.1")
    parser.add_argument("--log-file", metavar="FILE", help="write the server's log there instead of standard error")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="warning")


def _load_asyncio() -> None:
    """asyncio does without TLS where Python has none; the server, which speaks to one client on this machine, saves loading OpenSSL that way."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        importlib.import_module("asyncio")
    finally:
        del sys.modules["ssl"]


def execute(args: argparse.Namespace) -> int:
    gc.disable()  # many objects and no garbage, until the server serves
    opening = _begin() if args.tcp is None else None
    _load_asyncio()
    from ..server import protocol_types

    protocol_types.load()
    from ..server.main import serve

    return serve(tcp=args.tcp, log_file=args.log_file, log_level=args.log_level, opening=opening)


def _begin() -> Any:
    """Diagnostics before anything else. Elsewhere than on POSIX pipes cannot be waited for."""
    if os.name != "posix":
        return None
    from ..server import early

    return early.begin(sys.stdin.buffer, sys.stdout.buffer)
