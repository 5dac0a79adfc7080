"""Keys of pass_configs against those the configured release has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from .api import Api
from .diagnostic import Diagnostic
from .registry import BY_NAME
from .settings import OFF, Settings


def check_pass_configs(calls: Iterable[Any], api: Api, settings: Settings) -> Iterator[Diagnostic]:
    data = BY_NAME["pass-config"]
    severity = settings.severity(data, data.severity)
    keys: dict[str, str] = getattr(api, "pass_config_keys", {})
    if severity == OFF or not settings.wants(data) or not keys:
        return
    for call in calls:
        for index, (form, name) in enumerate(call.configs):
            message = _fault(form, name, keys, api.version)
            if message is not None:
                yield Diagnostic(data.code, data.name, severity, message, call.config_span(index))


def _fault(form: str, name: str, keys: dict[str, str], version: str) -> str | None:
    """What is wrong with one key. TileLang has texts beyond those of PassConfigKey, so only near misses are told."""
    if form == "member" and name not in keys:
        close = difflib.get_close_matches(name, keys, n=1, cutoff=0.7)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"tilelang.PassConfigKey of {version} has no {name}{hint}"
    if form != "text" or name in keys.values():
        return None
    renamed = name.replace("tir.", "tirx.", 1)
    if name.startswith("tir.") and renamed in keys.values():
        return f"the pass configuration {name!r} is called {renamed!r} in {version}"
    close = difflib.get_close_matches(name, keys.values(), n=1, cutoff=0.85) if name.startswith(("tl.", "tirx.")) else []
    return f"{version} has no pass configuration {name!r}; did you mean {close[0]!r}?" if close else None
