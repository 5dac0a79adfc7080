"""``tile-lsp check``: report faults in TileLang kernels without running them. Exit 0: none, 1: findings, 2: could
not run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilec.check.checker import check_analysis
from tilec.check.diagnostic import INFORMATION, Diagnostic
from tilec.check.settings import Settings, unknown_selectors
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target import chips

from ..releases import discover, manifest
from . import config as configuration
from .check_files import Unreadable, find_files, read_text
from .check_output import FORMATS, FullText, concise, json_text, statistics, summary, wants_colour
from .config import Config
from .main import EXIT_FAILED, EXIT_FINDINGS, EXIT_OK, UsageError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="report faults in TileLang kernels without running them",
        description="Report faults in TileLang kernels. The files are read, never imported or run.",
        epilog="Exit code: 0 nothing found, 1 findings, 2 could not run.",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders; - for standard input (default: the working folder)"
    )
    parser.add_argument("--output-format", choices=FORMATS, default="full")
    for option, what in (
        ("--select", "check these rules only"),
        ("--extend-select", "check these rules too"),
        ("--ignore", "leave these rules out"),
    ):
        parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="RULES",
            help=f"{what}: codes, beginnings of codes, names or families, with commas",
        )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="CHIP",
        help="check for this chip (sm_90a ...; repeatable); default: what the kernels are evidently written for",
    )
    parser.add_argument(
        "--tilelang-version",
        metavar="VERSION",
        help="check against this release (default: the one installed here, else the newest)",
    )
    parser.add_argument(
        "--instance",
        action="append",
        default=[],
        metavar="CALL",
        help="check a kernel at these arguments, 'matmul(1024, 1024, block_N=48)'; repeatable",
    )
    parser.add_argument(
        "--stdin-filename", default="stdin.py", metavar="NAME", help="the name of what comes over standard input"
    )
    parser.add_argument("--statistics", action="store_true", help="count findings by rule")
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 even with findings")
    parser.add_argument("--config", metavar="FILE", help="read this tile-lsp.toml or pyproject.toml")


@dataclass
class Result:
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, list[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    instance_errors: list[list[str]] = field(default_factory=list)  # per file with kernels
    versions: dict[str, str] = field(default_factory=dict)  # version -> how it was found
    files: int = 0
    kernels: int = 0
    instances: int = 0


@dataclass(frozen=True)
class Checker:
    """The options of one run, ready to be applied to files."""

    args: argparse.Namespace
    config: Config
    targets: tuple[chips.Target, ...]
    explicit: bool

    def check(self, path: Path, named: bool, result: Result) -> None:
        try:
            text = read_text(path)
        except Unreadable as problem:
            if named:
                result.failures.append(str(problem))
            return
        name = self.args.stdin_filename if str(path) == "-" else str(path)
        source = SourceFile(name, text)
        analysis = analyse(source, instances=tuple(self.args.instance), config_instances=self.config.instances)
        result.files += 1
        if analysis.scope is None:
            return  # no trace of TileLang
        api, version, how = self._api(Path(name))
        result.versions.setdefault(version, how)
        result.kernels += len(analysis.kernels)
        result.instances += sum(len(k.instances) for k in analysis.kernels)
        if self.args.instance and analysis.kernels:
            result.instance_errors.append(list(analysis.instance_errors))
        result.sources[name] = source.lines
        result.diagnostics += check_analysis(analysis, self.targets, api, self._settings(Path(name)), self.explicit)

    def _settings(self, path: Path) -> Settings:
        select = _split(self.args.select) or self.config.select
        if select:
            select = (*select, *self.config.extend_select, *_split(self.args.extend_select))
        ignore = (*self.config.ignore, *_split(self.args.ignore), *self.config.ignored_in(path))
        return Settings(frozenset(select), frozenset(ignore), self.config.severity)

    def _api(self, path: Path) -> tuple[Any, str, str]:
        wanted = self.args.tilelang_version or self.config.tilelang_version
        if wanted:
            try:
                api = manifest.load(wanted)
            except ValueError:
                raise UsageError(
                    f"--tilelang-version {wanted}: no such release; known are {', '.join(manifest.versions())}, and "
                    "latest"
                ) from None
            return api, api.version, "chosen"
        return _found(str(path.absolute().parent))


_FOUND: dict[str, tuple[Any, str, str]] = {}


def _found(folder: str) -> tuple[Any, str, str]:
    """The TileLang of a folder: looked for once."""
    if folder not in _FOUND:
        found = discover.find(Path(folder))
        if found is None:
            _FOUND[folder] = manifest.load("latest"), manifest.latest(), "the newest known; none was found"
        else:
            api = discover.api(found)
            _FOUND[folder] = api, found.version, found.how
    return _FOUND[folder]


def _split(values: list[str]) -> tuple[str, ...]:
    return tuple(v.strip() for value in values for v in value.split(",") if v.strip())


def _targets(args: argparse.Namespace, config: Config) -> tuple[tuple[chips.Target, ...], bool]:
    names = _split(args.target) or config.targets
    try:
        return tuple(chips.find(n) for n in names or chips.DECLARED), bool(names)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _config(args: argparse.Namespace) -> Config:
    if args.config:
        path = Path(args.config)
        if not path.is_file():
            raise UsageError(f"--config {path}: no such file")
        return configuration.read(path)
    first = (
        Path(args.paths[0]) if args.paths and args.paths[0] != "-" else Path(args.stdin_filename if args.paths else ".")
    )
    return configuration.find(first if first.is_dir() else first.parent)


def execute(args: argparse.Namespace) -> int:
    config = _config(args)
    for option, selectors in (
        ("--select", args.select),
        ("--extend-select", args.extend_select),
        ("--ignore", args.ignore),
    ):
        _check_selectors(option, _split(selectors))
    for key in ("select", "extend_select", "ignore"):
        _check_selectors(f"{key.replace('_', '-')} of the configuration", getattr(config, key))
    targets, explicit = _targets(args, config)
    checker = Checker(args, config, targets, explicit)
    result = Result()
    for path, named in find_files(args.paths or ["."], config):
        checker.check(path, named, result)
    if result.instance_errors and all(result.instance_errors):
        raise UsageError(
            "--instance: " + "; ".join(dict.fromkeys(e for errors in result.instance_errors for e in errors))
        )
    return _report(args, result)


def _check_selectors(where: str, selectors: tuple[str, ...]) -> None:
    unknown = unknown_selectors(selectors)
    if unknown:
        raise UsageError(
            f"{where}: no rule, family or code is called {', '.join(unknown)} (tile-lsp rule --all lists them)"
        )


def _report(args: argparse.Namespace, result: Result) -> int:
    found = result.diagnostics
    if args.output_format == "json":
        print(json_text(found))
    elif args.output_format == "concise":
        for d in found:
            print(concise(d))
    else:
        text = FullText(result.sources, wants_colour(sys.stdout))
        for d in found:
            print(text.render(d) + "\n")
    if args.statistics and found:
        print(statistics(found), file=sys.stderr if args.output_format == "json" else sys.stdout)
    for failure in result.failures:
        print(f"tile-lsp: {failure}", file=sys.stderr)
    if args.output_format != "json":
        print(_last_line(args, result))
    if result.failures:
        return EXIT_FAILED
    findings = any(d.severity != INFORMATION for d in found)
    return EXIT_FINDINGS if findings and not args.exit_zero else EXIT_OK


def _last_line(args: argparse.Namespace, result: Result) -> str:
    where = ", ".join(args.paths) or "this folder"
    if not result.files:
        return f"No Python files in {where}." if not result.failures else "Nothing was checked."
    if not result.versions and not result.diagnostics:
        return (
            f"No TileLang kernels in {where} ({result.files} Python file{'s' if result.files != 1 else ''} looked at)."
        )
    return summary(
        result.diagnostics, result.files, result.kernels, result.instances, ", ".join(result.versions) or "not used"
    )
