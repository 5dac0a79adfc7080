"""``tile-lsp bench``: latency of kernels at all their instances. Exit 0: measured, 1: a wrong result or slower than before, 2: something could not run."""
from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .main import EXIT_FAILED, EXIT_FINDINGS, EXIT_OK, UsageError

if TYPE_CHECKING:
    from tilec.evaluate.definitions import KernelDefinition

    from .kernel_file import KernelFile

AGAINST = ("auto", "none", "interpreter", "reference", "torch", "tilelang")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("bench", help="measure kernels at all their instances, beside their reference",
                                   description="Measure the kernels of files at each of their instances: latency, rate, share of the roofline, and the time of "
                                               "what they are compared with.",
                                   epilog="Exit code: 0 measured, 1 a result is wrong or slower than the baseline, 2 something could not run.")
    parser.add_argument("files", metavar="FILE[::KERNEL]", nargs="+", help="the files; without a kernel's name, all of their kernels")
    parser.add_argument("--target", metavar="CHIP", default="auto", help="cpu, cuda (this machine's GPU), or a chip such as sm_90a (default: the GPU if "
                        "there is one that can run the kernel, else the CPU)")
    parser.add_argument("--instance", metavar="CALL", action="append", default=[], help="measure at these arguments, 'matmul(1024, 1024, block_N=48)'; repeatable")
    parser.add_argument("--against", choices=AGAINST, default="auto", help="what the outputs are compared with, and measured too where it is a function or "
                        "TileLang (default: the file's reference function, if it has one)")
    parser.add_argument("--tilelang-version", metavar="VERSION", default="", help="the release whose API the kernels use")
    parser.add_argument("--baseline", metavar="FILE", help="what an earlier bench --json printed: the change is told")
    parser.add_argument("--tolerance", type=float, default=5.0, metavar="PERCENT", help="how much slower than the baseline is no failure (default: 5)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="end a kernel's measurement after this time (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default: 0)")
    parser.add_argument("--warmup", type=int, default=10, metavar="N", help="calls before measuring (default: 10)")
    parser.add_argument("--repeat", type=int, default=100, metavar="N", help="measured calls (default: 100)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def execute(args: argparse.Namespace) -> int:
    requests = list(_requests(args))
    before = _baseline(args.baseline) if args.baseline else {}
    results = asyncio.run(_measured(requests, args.timeout, quiet=args.json or not sys.stderr.isatty()))
    for r in results:
        r["change"] = _change(r, before)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        from .bench_output import show

        show(results, bool(before))
    return _exit_code(results, args.tolerance)


def _requests(args: argparse.Namespace) -> Iterator[tuple[dict[str, Any], KernelFile]]:
    from .kernel_file import read
    from .lower import _version
    from .run import _check_target

    if args.timeout <= 0 or args.repeat < 1 or args.warmup < 0:
        raise UsageError("--timeout takes a number of seconds above 0, --repeat a number from 1, --warmup a number from 0")
    _check_target(args.target)
    version = _version(args.tilelang_version)
    for argument in args.files:
        file = read(argument)
        for kernel in _kernels(file, tuple(args.instance)):
            against = args.against if args.against != "auto" else "reference" if _has_reference(file, kernel) else "none"
            for instance in kernel.instances:
                if args.instance and instance.origin != "command":
                    continue
                yield {"kind": "run", "path": file.path, "text": file.text, "kernel": kernel.qualname, "instance": instance.text, "target": args.target,
                       "seed": args.seed, "tilelang_version": version, "against": against, "warmup": args.warmup, "repeat": args.repeat,
                       "time_reference": True, "details": True}, file


def _kernels(file: KernelFile, given: tuple[str, ...]) -> list[KernelDefinition]:
    """With their instances, as ``check`` has them."""
    from tilec.evaluate import analyse
    from tilec.source.file import SourceFile

    analysis = analyse(SourceFile(file.path, file.text), instances=given)
    if analysis.instance_errors:
        raise UsageError(f"--instance: {analysis.instance_errors[0]}")
    found = [k for k in analysis.kernels if not file.kernel or file.kernel in (k.name, k.qualname)]
    if not found:
        names = ", ".join(k.qualname for k in analysis.kernels)
        raise UsageError(f"{file.path} has no kernel {file.kernel!r}; its kernels: {names}" if names else f"{file.path} has no TileLang kernel")
    return found


def _has_reference(file: KernelFile, kernel: KernelDefinition) -> bool:
    from tilec.runtime.reference import ReferenceFault, find_functions
    from tilec.source.file import SourceFile

    try:
        return bool(find_functions(SourceFile(file.path, file.text), [kernel.name, kernel.qualname.split(".")[0]], kernel.first_line).reference)
    except ReferenceFault:
        return True  # the run says what is wrong with it


async def _measured(requests: list[tuple[dict[str, Any], KernelFile]], timeout: float, quiet: bool) -> list[dict[str, Any]]:
    """One after the other in one process of their own, which is replaced if a kernel ends it."""
    from ..workers.process import Child
    from .run import in_cells

    child, results = Child(), []
    try:
        for number, (request, file) in enumerate(requests, 1):
            if not quiet:
                print(f"{number} of {len(requests)}: {request['instance']}", file=sys.stderr)
            reply = in_cells(await child.request(request, timeout), file)
            results.append(_row(request, reply))
    finally:
        await child.end()
    return results


def _row(request: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    from ..ide.execution import NAMES

    ran = reply.get("ran", True) and "ok" in reply
    row = {"path": request["path"], **{n: reply.get(n) for n in NAMES}, "against_ms": reply.get("against_ms"), "ran": ran}
    row.update(kernel=request["kernel"], instance=request["instance"], ok=bool(reply.get("ok")))
    return row


def _baseline(path: str) -> dict[tuple[str, str, str], float]:
    """(kernel, instance, device) to milliseconds."""
    from pathlib import Path

    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return {(r["kernel"], r["instance"], r["device"]): float(r["latency_ms"]["median"]) for r in rows if r.get("latency_ms")}
    except OSError as error:
        raise UsageError(f"--baseline {path}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"--baseline {path}: is not what tile-lsp bench --json prints") from None


def _change(row: dict[str, Any], before: dict[tuple[str, str, str], float]) -> float | None:
    """Of the latency, as a share: -0.1 is a tenth faster."""
    was = before.get((row["kernel"], row["instance"], row["device"]))
    return row["latency_ms"]["median"] / was - 1 if was and row.get("latency_ms") else None


def _exit_code(results: list[dict[str, Any]], tolerance: float) -> int:
    if any(not r["ran"] for r in results):
        return EXIT_FAILED
    slower = any((r["change"] or 0.0) * 100 > tolerance for r in results)
    return EXIT_FINDINGS if slower or any(not r["ok"] for r in results) else EXIT_OK
