"""``--watch``: check again whenever a file changes, until the user interrupts."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ...releases import discover
from ..main import EXIT_OK, UsageError
from .files import STDIN, SUFFIXES

_NAMES = ("pyproject.toml", "tile-lsp.toml", "requirements.txt")


def watch(args: argparse.Namespace, run: Callable[[], int]) -> int:
    if STDIN in args.paths:
        raise UsageError("--watch: standard input cannot be watched")
    try:
        from watchfiles import watch as changes
    except ModuleNotFoundError:
        raise UsageError("--watch needs the Python package 'watchfiles', which is not installed here. Install it with: pip install 'tilec[watch]'") from None
    folders = {p if os.path.isdir(p) else p.parent for p in map(Path, args.paths or ["."])}
    missing = [str(f) for f in folders if not f.is_dir()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or folder")
    _round(run)
    try:
        for _ in changes(*folders, watch_filter=lambda _, path: _concerns_us(path, folders), raise_interrupt=True):
            _round(run)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return EXIT_OK


def _round(run: Callable[[], int]) -> None:
    discover.api.cache_clear()
    if sys.stdout.isatty():
        print("\033[2J\033[H", end="")
    try:
        run()
    except UsageError as error:  # a configuration that is being edited
        print(f"tile-lsp: {error}", file=sys.stderr)
    sys.stdout.flush()
    print(f"[{time.strftime('%H:%M:%S')}] Watching for changes; Ctrl-C ends.", file=sys.stderr, flush=True)


def _concerns_us(path: str, folders: Iterable[Path]) -> bool:
    """Sources and configurations, not what lies in hidden folders below the watched ones."""
    changed = Path(path).absolute()
    inner = min((changed.relative_to(f.absolute()).parts for f in folders if changed.is_relative_to(f.absolute())), key=len, default=changed.parts)
    if any(p.startswith(".") or p == "__pycache__" for p in inner):
        return False
    return path.endswith(SUFFIXES) or changed.name in _NAMES
