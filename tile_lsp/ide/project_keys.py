"""The keys of a project's configuration as data: what each takes, and the JSON schema that editors use."""

from __future__ import annotations

from typing import Any

from tilec.records import dataclass

TEXT, TEXTS, TABLE_OF_TEXTS, SEVERITIES, INSTANCES = "text", "texts", "table of texts", "severities", "instances"
_SELECTORS = "Codes (TL501), beginnings of codes (TL5), names (gemm-shape) or families (gemm)."


@dataclass(frozen=True)
class Key:
    kind: str
    text: str  # what it is for
    example: Any = None


KEYS: dict[str, Key] = {
    "targets": Key(TEXTS, "Chips that the kernels are checked for. Without any: what each kernel is evidently written for.", ["sm_90a"]),
    "tilelang-version": Key(TEXT, "The TileLang release to check against. Without it: the one found in the project.", "0.1.15"),
    "select": Key(TEXTS, f"Check these rules only. {_SELECTORS}", ["gemm", "TL6"]),
    "extend-select": Key(TEXTS, f"Check these rules as well. {_SELECTORS}", ["TL412"]),
    "ignore": Key(TEXTS, f"Leave these rules out. {_SELECTORS}", ["TL603"]),
    "severity": Key(SEVERITIES, "How loud a rule is: rule name or code to error, warning, information or off.", {"tmem-columns": "error"}),
    "per-file-ignores": Key(TABLE_OF_TEXTS, "Rules that are left out in files: glob to rules.", {"tests/*": ["unused-buffer"]}),
    "instances": Key(INSTANCES, "Arguments that kernels are checked at: calls, or kernel names to argument lists.", ["matmul(1024, 1024, 1024)"]),
    "exclude": Key(TEXTS, "Files and folders that are not checked, as globs.", ["build", "*_generated.py"]),
    "cache-dir": Key(TEXT, "Where results are kept, relative to this file. Without it: the user's cache folder.", ".tile-lsp-cache"),
}


def schema() -> dict[str, Any]:
    """JSON schema of tile-lsp.toml and of ``[tool.tile-lsp]``."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "tile-lsp",
        "description": "Configuration of tile-lsp: tile-lsp.toml, or [tool.tile-lsp] of pyproject.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.text, **_type(key.kind, name), "examples": [key.example]} for name, key in KEYS.items()},
    }


def _type(kind: str, name: str) -> dict[str, Any]:
    texts = {"anyOf": [{"type": "string"}, {"type": "array", "items": _item(name)}]}
    if kind == TEXT:
        return {"type": "string"}
    if kind == TEXTS:
        return texts
    if kind == TABLE_OF_TEXTS:
        return {"type": "object", "additionalProperties": texts}
    if kind == SEVERITIES:
        from tilec.check.diagnostic import SEVERITIES as LEVELS
        from tilec.check.registry import BY_NAME
        from tilec.check.settings import OFF

        names = [t for rule in BY_NAME.values() for t in (rule.name, rule.code)]
        return {"type": "object", "propertyNames": {"enum": names}, "additionalProperties": {"enum": [*LEVELS, OFF]}}
    return {"anyOf": [texts, {"type": "object", "additionalProperties": texts}]}


def _item(name: str) -> dict[str, Any]:
    if name != "targets":
        return {"type": "string"}
    from tilec.target.chips import TARGETS

    return {"type": "string", "examples": list(TARGETS)}
