"""``tile-lsp rule CODE``: what a rule checks and why."""

from __future__ import annotations

import argparse
import difflib
import json

from tilec.check import registry

from .main import EXIT_OK, UsageError


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
    family = ""
    for rule in registry.BY_NAME.values():
        if rule.family != family:
            family = rule.family
            print(f"{family}:")
        print(f"  {rule.code} {rule.name:26} {rule.severity:11} {rule.summary}")
