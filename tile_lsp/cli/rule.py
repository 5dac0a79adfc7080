"""``tile-lsp rule CODE``: what a rule checks and why."""

from __future__ import annotations

import argparse
import difflib
import json

from tilec.check import registry

from .main import EXIT_OK, UsageError

_STYLES = {"error": "red", "warning": "yellow", "information": "cyan"}


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "rule", help="explain a rule", description="Print a rule's page, or the list of all rules."
    )
    parser.add_argument("rule", nargs="?", metavar="RULE", help="a code (TL501) or a name (gemm-shape)")
    parser.add_argument("--all", action="store_true", help="list every rule")
    parser.add_argument("--output-format", choices=("text", "json"), default="text")


def execute(args: argparse.Namespace) -> int:
    if args.all or not args.rule:
        _list(args.output_format)
        return EXIT_OK
    rule = registry.find(args.rule)
    if rule is None:
        near = difflib.get_close_matches(args.rule, [*registry.BY_NAME, *registry.BY_CODE], n=3, cutoff=0.5)
        raise UsageError(
            f"no rule is called {args.rule!r}"
            + (f"; did you mean {', '.join(near)}?" if near else "")
            + " (tile-lsp rule --all lists them)"
        )
    if args.output_format == "json":
        print(json.dumps({**registry.describe(rule.name), "page": rule.page()}, indent=2))
    else:
        print(
            (
                rule.page()
                or f"# {rule.name} ({rule.code})\n\n{rule.summary}\n\nSeverity: {rule.severity}. Family: {rule.family}."
            ).rstrip()
        )
    return EXIT_OK


def _list(output_format: str) -> None:
    if output_format == "json":
        print(json.dumps([registry.describe(name) for name in registry.BY_NAME], indent=2))
        return
    _table()


def _table() -> None:
    """The rules in columns; summaries are wrapped to the terminal, and not at all where the output is a file or pipe."""
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=200)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("code", "rule", "family", "severity", "summary"):
        table.add_column(title, no_wrap=title != "summary")
    for rule in registry.BY_NAME.values():
        table.add_row(rule.code, rule.name, rule.family, Text(rule.severity, style=_STYLES[rule.severity]), rule.summary)
    console.print(table)
