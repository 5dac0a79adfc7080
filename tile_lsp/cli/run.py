"""``tile-lsp run``: compile and run a kernel, compare its result, measure its time. Exit 0: correct, 1: wrong, 2: could not run."""
from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from .main import EXIT_FAILED, EXIT_FINDINGS, EXIT_OK, UsageError

if TYPE_CHECKING:
    from .kernel_file import KernelFile

AGAINST = ("auto", "interpreter", "reference", "torch", "tilelang")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("run", help="compile and run a kernel, compare the result, measure the time",
                                   description="Run a kernel on seeded inputs, compare its outputs and measure its latency.",
                                   epilog="Exit code: 0 correct, 1 wrong, 2 could not run.")
    parser.add_argument("file", metavar="FILE[::KERNEL]", help="the file, and the kernel if it has several")
    parser.add_argument("--target", metavar="CHIP", default="auto", help="cpu, cuda (this machine's GPU), or a chip such as sm_90a (default: the GPU if "
                        "there is one that can run the kernel, else the CPU)")
    parser.add_argument("--instance", metavar="CALL", default="", help="the arguments, 'matmul(1024, 1024, 1024, block_N=128)'")
    parser.add_argument("--size", metavar="NAME=VALUE", action="append", default=[], help="a run-time extent or number parameter; may be repeated")
    parser.add_argument("--against", choices=AGAINST, default="auto", help="what the outputs are compared with: the file's reference function, the tile "
                        "interpreter, the TileLang installed for the file's project, or (auto) the first where there is one")
    parser.add_argument("--tilelang-version", metavar="VERSION", default="", help="the release whose API the kernel uses")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="end the run after this time (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default: 0)")
    parser.add_argument("--warmup", type=int, default=5, metavar="N", help="calls before measuring (default: 5)")
    parser.add_argument("--repeat", type=int, default=50, metavar="N", help="measured calls, 0 for none (default: 50)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(args: argparse.Namespace) -> int:
    from .kernel_file import read

    file = read(args.file)
    request = _request(args, file)
    reply = in_cells(_supervised(request, args.timeout, quiet=args.json), file)
    details, ran = reply.pop("details", None), reply.pop("ran", True)
    from ..ide.execution import NAMES

    if args.json:
        print(json.dumps({n: reply.get(n) for n in NAMES}, indent=2))
    elif ran and "ok" in reply:
        from .run_output import show

        show(reply, details or {})
    else:
        print(f"tile-lsp: {reply['error']}", file=sys.stderr)
    if not ran or "ok" not in reply:
        return EXIT_FAILED
    return EXIT_OK if reply["ok"] else EXIT_FINDINGS


def in_cells(reply: Any, file: KernelFile) -> Any:
    """The answer with the places that a notebook's reader knows."""
    if file.book is None:
        return reply
    if isinstance(reply, dict):
        return {k: in_cells(v, file) for k, v in reply.items()}
    if isinstance(reply, list):
        return [in_cells(v, file) for v in reply]
    return file.words(reply) if isinstance(reply, str) else reply


def _request(args: argparse.Namespace, file: KernelFile) -> dict[str, Any]:
    from .lower import _version

    if args.timeout <= 0:
        raise UsageError("--timeout takes a number of seconds above 0")
    if args.warmup < 0 or args.repeat < 0:
        raise UsageError("--warmup and --repeat take numbers from 0")
    _check_target(args.target)
    return {"kind": "run", "path": file.path, "text": file.text, "kernel": file.kernel, "instance": args.instance, "target": args.target,
            "tilelang_version": _version(args.tilelang_version), "against": args.against, "sizes": _sizes(args.size), "seed": args.seed,
            "warmup": args.warmup, "repeat": args.repeat, "details": True}


def _check_target(name: str) -> None:
    from tilec.target import chips

    if name.strip().lower() in ("auto", "cuda", "gpu"):
        return
    try:
        chips.find(name)
    except ValueError as error:
        raise UsageError(f"--target: {error}; cuda is this machine's GPU") from None


def _sizes(given: list[str]) -> dict[str, int]:
    sizes = {}
    for text in given:
        name, _, value = text.partition("=")
        if not name or not value.strip().lstrip("-").isdigit():
            raise UsageError(f"--size {text}: write NAME=VALUE with a whole number, as in --size M=4096")
        sizes[name.strip()] = int(value)
    return sizes


def _supervised(request: dict[str, Any], timeout: float, quiet: bool) -> dict[str, Any]:
    """The answer of a child process: the user's code and machine code never run in this one."""
    from ..workers.process import Child

    async def ask(report) -> dict[str, Any]:
        child = Child()
        try:
            return await child.request(request, timeout, report)
        finally:
            await child.end()

    if quiet or not sys.stderr.isatty():
        reply = asyncio.run(ask(None))
    else:
        from .run_output import status

        with status(request["path"]) as report:
            reply = asyncio.run(ask(report))
    if "ok" not in reply:  # the process ended, hung or was ended: it was not the kernel's result
        blank = {"kernel": request["kernel"] or None, "instance": request["instance"] or None, "target": request["target"], "device": None, "ok": False}
        reply = {**blank, "ran": False, "error": f"{request['path']}: running it failed: {reply.get('error', 'no answer')}"}
    return reply
