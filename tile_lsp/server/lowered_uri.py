"""Addresses of lowered documents: ``tile-lsp:/matmul.sm_90a.cuda.cu?{...}``; the query says what to lower."""
from __future__ import annotations

import json
from dataclasses import asdict
from urllib.parse import quote, unquote

from tilec.records import dataclass

SCHEME = "tile-lsp"


@dataclass(frozen=True)
class LoweredAddress:
    """``uri``: the source document. Without an ``instance`` it is the one that is shown of the kernel, whichever that is."""

    uri: str
    kernel: str
    instance: str
    target: str
    stage: str

    def to_uri(self, file_name: str) -> str:
        return f"{SCHEME}:/{quote(file_name)}?{quote(json.dumps(asdict(self), separators=(',', ':')))}"


def parse(uri: str) -> LoweredAddress:
    """Raises ValueError for what is no such address."""
    scheme, _, rest = uri.partition(":")
    _, _, query = rest.partition("?")
    if scheme != SCHEME or not query:
        raise ValueError(f"{uri!r} is no address of lowered code")
    try:
        data = json.loads(unquote(query))
        return LoweredAddress(**{k: str(data[k]) for k in ("uri", "kernel", "instance", "target", "stage")})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{uri!r} is no address of lowered code: {error}") from None
