"""``tile-lsp exec SCRIPT [ARGS]``: run a script that imports tilelang on this compiler, without TileLang."""
from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from .main import UsageError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("exec", help="run a script that imports tilelang on this compiler",
                                   description="Run a Python script whose `import tilelang` is answered by this compiler; TileLang need not be installed.",
                                   epilog="Exit code: the script's own; 2 if it could not be started.")
    parser.add_argument("script", metavar="SCRIPT", help="the Python file, or -m and a module (tile-lsp exec -m pytest tests)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="passed on to the script")


def execute(args: argparse.Namespace) -> int:
    if args.script != "-m" and not Path(args.script).is_file():
        raise UsageError(f"{args.script}: there is no such file; exec takes a Python script and its arguments")
    if args.script.endswith(".ipynb"):
        raise UsageError(f"{args.script}: is a notebook; tile-lsp run takes a kernel of it, exec the script that `jupyter nbconvert --to script` makes of it")
    # A process of its own: machine code the script loads, or a crash in it, is not ours.
    return subprocess.call([sys.executable, "-m", "tilec", args.script, *args.arguments])
