"""``tile-lsp api diff OLD NEW``: what a TileLang release exports that another does not, and how signatures changed."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..releases import discover, manifest
from ..releases.manifest import Entry, Manifest
from .main import EXIT_OK, UsageError

_MODULES = {"tilelang.language": "language", "tilelang": "top_level"}


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "api", help="tell what changed between two TileLang releases", description="Compare the names and signatures of two TileLang releases."
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    diff = actions.add_parser("diff", help="added, removed and changed names", description="What OLD has and NEW does not, and the other way round.")
    diff.add_argument("old", metavar="OLD", help="a release, such as 0.1.9")
    diff.add_argument("new", metavar="NEW", help="a release, such as 0.1.15, or latest")
    diff.add_argument("--json", action="store_true", help="print JSON")


def execute(args: argparse.Namespace) -> int:
    old, new = _load(args.old), _load(args.new)
    changes = {module: compare(getattr(old, table), getattr(new, table)) for module, table in _MODULES.items()}
    if args.json:
        print(json.dumps({"old": old.version, "new": new.version, "modules": changes}, indent=2))
    else:
        _print(old, new, changes)
    return EXIT_OK


def _load(text: str) -> Manifest:
    if text == "latest":
        return manifest.load(text)
    if not manifest.is_known(text):
        raise UsageError(f"there is no manifest of TileLang {text}; known are {', '.join(manifest.versions())}, and latest")
    return manifest.load(discover.public_version(text))


def compare(old: dict[str, Entry], new: dict[str, Entry]) -> dict[str, Any]:
    """Names a user may mean, by what became of them. A signature that one of the two does not tell is not compared."""
    before, after = ({n: e for n, e in table.items() if not e.incidental and not n.startswith("_")} for table in (old, new))
    changed = {}
    for name in sorted(before.keys() & after.keys()):
        was, now = before[name].signature, after[name].signature
        if was is not None and now is not None and was != now:
            changed[name] = {"old": was, "new": now}
    return {
        "added": {n: after[n].signature for n in sorted(after.keys() - old.keys())},
        "removed": {n: before[n].signature for n in sorted(before.keys() - new.keys())},
        "changed": changed,
    }


def _print(old: Manifest, new: Manifest, changes: dict[str, Any]) -> None:
    for module, found in changes.items():
        if not any(found.values()):
            continue
        print(f"{module}, {old.version} to {new.version}")
        for title, mark in (("added", "+"), ("removed", "-")):
            if found[title]:
                print(f"  {title} ({len(found[title])}):")
                for name, signature in found[title].items():
                    print(f"    {mark} {name}{_call(signature)}")
        if found["changed"]:
            print(f"  changed ({len(found['changed'])}):")
            for name, pair in found["changed"].items():
                print(f"    - {name}{_call(pair['old'])}\n    + {name}{_call(pair['new'])}")
    if not any(any(found.values()) for found in changes.values()):
        print(f"No difference between {old.version} and {new.version}.")


def _call(signature: str | None) -> str:
    return f"({signature})" if signature is not None else ""
