"""Pack full API manifests into the small files carried as package data.

    python -m tile_lsp.releases.pack SOURCE_DIR

SOURCE_DIR holds ``tilelang-<version>.json`` (every public name of a release with its parameters) and ``history.json``.
Kept: kind, defining module and signature of each name; for names and parameters that came or went, when.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

from .versions import sort_key

MANIFESTS = Path(__file__).with_name("manifests")
KINDS = {"function": "f", "class": "c", "dtype": "d", "op": "o", "constant": "k", "module": "m", "macro-decorator": "x"}


def signature_text(parameters: list[list[Any]] | None) -> str | None:
    """The parameters as Python source, ``a, b=1, *, c: int``, or None if there are none to tell."""
    if parameters is None:
        return None
    parts: list[str] = []
    kinds = [p[1] for p in parameters]
    for i, (name, kind, has_default, default, annotation) in enumerate(parameters):
        if kind == "keyword_only" and "var_positional" not in kinds[:i] and "keyword_only" not in kinds[:i]:
            parts.append("*")
        prefix = {"var_positional": "*", "var_keyword": "**"}.get(kind, "")
        text = f"{prefix}{name}" + (f": {annotation}" if annotation and parses(annotation) else "")
        if has_default:
            text += f"={default if default and parses(default) else '...'}"
        parts.append(text)
        if kind == "positional_only" and (i + 1 == len(kinds) or kinds[i + 1] != "positional_only"):
            parts.append("/")
    return ", ".join(parts)


def parses(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def pack_entry(entry: dict[str, Any]) -> list[Any]:
    packed: list[Any] = [KINDS[entry["kind"]], entry["defined_in"], signature_text(entry["parameters"])]
    if entry.get("incidental"):
        packed.append("incidental")
    return packed


def pack_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    elsewhere = {}
    for name, entries in manifest["defined_not_exported"].items():
        modules = sorted(
            {m for e in entries for m in e.get("reachable_as") or [e["defined_in"]]}, key=lambda m: (m.count("."), m)
        )
        elsewhere[name] = modules[0]
    return {
        "version": manifest["version"],
        "language": {name: pack_entry(e) for name, e in manifest["language"].items()},
        "top_level": {name: pack_entry(e) for name, e in manifest["top_level"].items()},
        "elsewhere": elsewhere,
        "pass_config_keys": manifest["pass_config_keys"],
    }


def pack_history(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    """Per name ``[added_in, removed_in]``, per parameter of a name the same; what never changed is left out."""
    names: dict[str, list[str | None]] = {}
    parameters: dict[str, dict[str, list[str | None]]] = {}
    oldest = manifests[0]["version"]
    every = sorted({n for m in manifests for n in m["language"]})
    for name in every:
        having = [name in m["language"] for m in manifests]
        span = lifetime(having, manifests)
        if span != [oldest, None]:
            names[name] = span
        signatures = [signature_names(m["language"].get(name)) for m in manifests]
        changed = {}
        for parameter in sorted({p for s in signatures if s for p in s}):
            present = [s is not None and parameter in s for s in signatures]
            span = lifetime(present, manifests)
            gone = next(
                (i for i, s in enumerate(signatures) if s is not None and not present[i] and any(present[:i])), None
            )
            if gone is not None or present != having:
                back = gone is not None and any(present[gone:])
                changed[parameter] = [
                    span[0],
                    manifests[gone]["version"] if gone is not None else None,
                    *(
                        [next(manifests[i]["version"] for i in range(gone, len(present)) if present[i])]
                        if back and gone is not None
                        else []
                    ),
                ]
        if changed:
            parameters[name] = changed
    return {"versions": [m["version"] for m in manifests], "names": names, "parameters": parameters}


def signature_names(entry: dict[str, Any] | None) -> list[str] | None:
    if entry is None or entry["parameters"] is None:
        return None
    return [p[0] for p in entry["parameters"] if not p[1].startswith("var_")]


def lifetime(having: list[bool], manifests: list[dict[str, Any]]) -> list[str | None]:
    first = having.index(True)
    last = len(having) - 1 - having[::-1].index(True)
    return [manifests[first]["version"], manifests[last + 1]["version"] if last + 1 < len(having) else None]


def write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, separators=(",", ":"), sort_keys=True) + "\n")


def main(source: Path) -> None:
    MANIFESTS.mkdir(exist_ok=True)
    manifests = [json.loads(p.read_text()) for p in source.glob("tilelang-*.json")]
    manifests.sort(key=lambda m: sort_key(m["version"]))
    for manifest in manifests:
        write(MANIFESTS / f"{manifest['version']}.json", pack_manifest(manifest))
    write(MANIFESTS / "history.json", pack_history(manifests))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
