"""``tile-lsp config``: the configuration that applies to a folder, or the JSON schema of configurations."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..ide import project
from ..ide.project import Config
from .main import EXIT_OK, UsageError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "config",
        help="show the configuration that applies, or its JSON schema",
        description="Print the settings that apply to a file or folder, from tile-lsp.toml or [tool.tile-lsp] of pyproject.toml.",
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="a file or folder (default: the working folder)")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the settings, for editors")
    parser.add_argument("--output-format", choices=("text", "json"), default="text")


def execute(args: argparse.Namespace) -> int:
    if args.schema:
        from ..ide.project_keys import schema

        print(json.dumps(schema(), indent=2))
        return EXIT_OK
    path = Path(args.path)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    try:
        config = project.find(path if path.is_dir() else path.parent)
    except project.ConfigError as error:
        raise UsageError(str(error)) from None
    values = settings(config)
    if args.output_format == "json":
        print(json.dumps({"file": str(config.file) if config.file else None, "settings": values}, indent=2))
        return EXIT_OK
    print(f"# {config.file}" if config.file else "# no tile-lsp.toml and no [tool.tile-lsp] in a pyproject.toml; these are the defaults")
    for key, value in values.items():
        print(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return EXIT_OK


def settings(config: Config) -> dict[str, Any]:
    """The settings by their names in the file."""
    values = {k.replace("_", "-"): v for k, v in asdict(config).items() if k not in ("root", "file")}
    return json.loads(json.dumps(values))
