"""``tile-lsp check``: report faults in TileLang kernels without running them. Exit 0: none, 1: findings, 2: could
not run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .checking.files import STDIN
from .formats import DOCUMENTS, FORMATS, render
from .formats.report import Report, count, fixable, output, severities, statistics, wants_colour
from .main import EXIT_FAILED, EXIT_FINDINGS, EXIT_OK, UsageError

_SHOWN = 10  # kernels that a message names
_SELECTORS = "codes, beginnings of codes, names or families, with commas"


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="report faults in TileLang kernels without running them",
        description="Report faults in TileLang kernels. The files are read, never imported or run.",
        epilog="Exit code: 0 nothing found, 1 findings, 2 could not run.",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, notebooks and folders; - for standard input (default: the working folder)")
    rules = parser.add_argument_group("rules")
    for option, what in (("--select", "check these rules only"), ("--extend-select", "check these rules too"), ("--ignore", "leave these rules out")):
        rules.add_argument(option, action="append", default=[], metavar="RULES", help=f"{what}: {_SELECTORS}")
    rules.add_argument("--config", metavar="FILE", help="read this tile-lsp.toml or pyproject.toml (default: the nearest above each file)")
    rules.add_argument("--force-exclude", action="store_true", help="leave out what the configuration excludes even if it is named here")
    kernels = parser.add_argument_group("kernels")
    kernels.add_argument(
        "--target", action="append", default=[], metavar="CHIP",
        help="check for this chip (sm_90a ...; repeatable); default: what the kernels are evidently written for",
    )  # fmt: skip
    kernels.add_argument("--tilelang-version", metavar="VERSION", help="check against this release (default: the one installed here, else the newest)")
    kernels.add_argument(
        "--instance", action="append", default=[], metavar="CALL",
        help="check a kernel at these arguments, 'matmul(1024, 1024, block_N=48)'; repeatable",
    )  # fmt: skip
    shown = parser.add_argument_group("output")
    shown.add_argument("--output-format", choices=FORMATS, default="full")
    shown.add_argument("--output-file", metavar="FILE", help="write the findings there instead of to standard output")
    shown.add_argument("--statistics", action="store_true", help="count findings by rule, and kernels that were wholly analysed")
    shown.add_argument("--no-hints", action="store_true", help="errors and warnings only")
    shown.add_argument("--exit-zero", action="store_true", help="exit 0 even with findings")
    shown.add_argument("--stdin-filename", default="stdin.py", metavar="NAME", help="the name of what comes over standard input")
    fixes = parser.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="make the fixes that cannot change what a program does")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="make the other fixes too")
    fixes.add_argument("--diff", action="store_true", help="print what --fix would change, and change nothing")
    running = parser.add_argument_group("running")
    running.add_argument("--watch", action="store_true", help="check again whenever a file changes")
    running.add_argument("--jobs", type=int, metavar="N", help="processes (default: one a core)")
    running.add_argument("--cache-dir", metavar="FOLDER", help="keep results there (default: the user's cache folder)")
    running.add_argument("--no-cache", action="store_true", help="neither use nor keep results of earlier runs")


def execute(args: argparse.Namespace) -> int:
    if args.jobs is not None and args.jobs < 1:
        raise UsageError("--jobs takes a number from 1")
    if args.cache_dir and args.no_cache:
        raise UsageError("--cache-dir and --no-cache exclude each other")
    if args.watch:
        from .checking.watch import watch

        return watch(args, lambda: run(args))
    return run(args)


def run(args: argparse.Namespace) -> int:
    from .checking.gather import gather

    report = gather(args)
    _refuse_instances(args, report)
    if args.no_hints:
        report.leave_out_hints()
    if args.diff:
        return _show_diff(report)
    _show(args, report)
    _tell_failures(report)
    wrong = [f"{r.path}: the comment's instance {w}" for r in report.results for w in r.wrong_directives]
    for text in wrong:
        print(f"tile-lsp: {text}", file=sys.stderr)
    if report.failures or wrong:
        return EXIT_FAILED
    return EXIT_FINDINGS if report.has_findings and not args.exit_zero else EXIT_OK


def _tell_failures(report: Report) -> None:
    """Each reason once, with the first file that has it."""
    files: dict[str, list[str]] = {}
    for result in report.results:
        if result.failure:
            files.setdefault(result.failure.removeprefix(f"{result.path}: "), []).append(result.path)
    for reason, paths in files.items():
        others = f" (and {count(len(paths) - 1, 'other file')})" if len(paths) > 1 else ""
        print(f"tile-lsp: {paths[0]}{others}: {reason}", file=sys.stderr)


def _refuse_instances(args: argparse.Namespace, report: Report) -> None:
    """Instances that no file has a kernel for, or that do not fit the kernel."""
    wrong = [f"{r.path}: {w}" for r in report.results for w in r.wrong_instances]
    if wrong:
        raise UsageError("--instance: " + "; ".join(wrong))
    errors = [r.instance_errors for r in report.results if r.kernels]
    if args.instance and errors and all(errors):
        raise UsageError("--instance: " + "; ".join(_together([e for one in errors for e in one])))


def _together(errors: list[str]) -> list[str]:
    """Each sentence once: what no file has a kernel for, with the kernels of all of them."""
    from tilec.evaluate.instances import NOT_REACHED

    kernels: dict[str, list[str]] = {}
    for error in errors:
        call, mark, known = error.partition(NOT_REACHED)
        kernels.setdefault(call, []).extend(known.removesuffix(")").split(", ") if mark else ())
    told = []
    reached = NOT_REACHED if len(errors) == len(kernels) else NOT_REACHED.replace("this file", "these files")
    for call, found in kernels.items():
        all_known = list(dict.fromkeys(found))
        more = f" and {count(len(all_known) - _SHOWN, 'other')}" if len(all_known) > _SHOWN else ""
        told.append(f"{call}{reached}{', '.join(all_known[:_SHOWN])}{more})" if all_known else call)
    return told


def _show(args: argparse.Namespace, report: Report) -> None:
    fixes_stdin = args.fix and STDIN in args.paths
    document = args.output_format in DOCUMENTS
    notes = sys.stderr if document or fixes_stdin else sys.stdout
    report.colour = not args.output_file and wants_colour(notes if fixes_stdin else sys.stdout)
    text = render(args.output_format, report)
    if fixes_stdin:
        _write_fixed(report)
    if args.output_file:
        _write(args.output_file, text)
    elif text or (document and not fixes_stdin):
        output(text, sys.stderr if fixes_stdin else sys.stdout)
    if args.statistics:
        told = statistics(report)
        if told:
            output(told, notes)
    if not document or args.output_file:
        output(_last_line(args, report), notes)


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text + "\n" if text else "", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output-file {path}: cannot be written: {error.strerror or error}") from None


def _write_fixed(report: Report) -> None:
    """The fixed text of standard input goes to standard output."""
    for result in report.results:
        text = report.texts.get(result.path)
        if text is not None:
            sys.stdout.write(result.after if result.before is not None else text)


def _show_diff(report: Report) -> int:
    """What fixes would change. Exit 1 if there is anything."""
    import difflib
    import re

    changed = [r for r in report.results if r.before is not None]
    for r in changed:
        assert r.before is not None
        before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (r.before, r.after))
        lines = difflib.unified_diff(before, after, r.path, r.path)
        output("".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines).rstrip("\n"))
    _tell_failures(report)
    fixes = sum(r.fixed for r in changed)
    told = f"Would fix {count(fixes, 'fault')} in {count(len(changed), 'file')}." if changed else "No fixes to make."
    print(told, file=sys.stderr)
    if report.failures:
        return EXIT_FAILED
    return EXIT_FINDINGS if changed else EXIT_OK


def _last_line(args: argparse.Namespace, report: Report) -> str:
    """One line about the whole run."""
    where = ", ".join("this folder" if p in (".", "./") else p for p in args.paths) or "this folder"
    files = report.files
    if not files and report.failures:
        return "Nothing was checked."
    if not files and report.excluded:
        return f"Nothing to check in {where}: the configuration excludes {count(report.excluded, 'file')}."
    if not files:
        return f"No Python files in {where}."
    fixed = sum(r.fixed for r in files)
    done = f"Fixed {count(fixed, 'fault')} in {count(sum(bool(r.fixed) for r in files), 'file')}. " if fixed else ""
    if not report.versions and not report.diagnostics:
        return f"{done}No TileLang kernels in {where} ({count(len(files), 'Python file')} looked at)."
    kernels, instances = sum(r.kernels for r in files), sum(r.instances for r in files)
    version = ", ".join(report.versions) or "not used"
    what = f"{count(len(files), 'file')}, {count(kernels, 'kernel')}, {count(instances, 'instance')}, TileLang {version}"
    found = severities(report)
    line = f"{done}Found {found} ({what})." if found else f"{done}No faults found ({what})."
    return line + _offer(args, report)


def _offer(args: argparse.Namespace, report: Report) -> str:
    """How many of the findings could be fixed."""
    safe = sum(is_safe for is_safe, _ in fixable(report))
    unsafe = sum(not is_safe for is_safe, _ in fixable(report))
    if safe and not args.fix:
        return f" {safe} can be fixed with --fix."
    if unsafe and not (args.fix and args.unsafe_fixes):
        return f" {unsafe} can be fixed with --fix --unsafe-fixes; look at the changes before you keep them."
    return ""
