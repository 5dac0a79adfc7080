"""A quick start: attrs and cattrs write the methods of the protocol's 500 classes as Python text and compile it each time the server starts,
which is a quarter of the start. What was compiled is kept in the cache folder, as Python keeps the code of modules."""
from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import logging
import marshal
import os
from types import CodeType
from typing import Any

from tilec.build import cache

_WRITERS = ("attr._make", "cattrs.gen")  # the modules that compile what they have written
_MOST = 4000  # texts kept: several times what one version of the protocol needs


class CompiledTexts:
    """Stands in for ``compile`` in modules that write Python. A text that is not known is compiled."""

    def __init__(self) -> None:
        self._name = cache.key("methods", importlib.util.MAGIC_NUMBER)
        self._known = self._read()
        self._used: set[bytes] = set()
        self._fresh = False

    def compile(self, text: Any, filename: str, mode: str) -> CodeType:
        key = hashlib.sha256(f"{filename}\0{mode}\0{text}".encode("utf-8", "surrogatepass")).digest()
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = builtins.compile(text, filename, mode)
            self._fresh = True
        self._used.add(key)
        return code

    def keep(self) -> None:
        """Write down what had to be compiled."""
        if self._fresh:
            self._fresh = False
            kept = self._known if len(self._known) <= _MOST else {k: v for k, v in self._known.items() if k in self._used}
            cache.write(self._name, marshal.dumps(kept))

    def _read(self) -> dict[bytes, CodeType]:
        data = cache.read(self._name)
        try:
            found = marshal.loads(data) if data is not None else {}
        except (ValueError, EOFError, TypeError):
            return {}
        return found if isinstance(found, dict) else {}


_texts: CompiledTexts | None = None


def begin() -> None:
    """Before the protocol's classes are imported."""
    global _texts
    if _texts is None and os.environ.get("TILE_LSP_QUICK_START", "1") != "0":
        _texts = CompiledTexts()
        for name in _WRITERS:
            module = importlib.import_module(name)
            module.compile = _texts.compile  # type: ignore[attr-defined]  # found before the built-in one


def keep() -> None:
    """When there is time: what was compiled this time need not be the next time."""
    if _texts is not None:
        try:
            _texts.keep()
        except Exception:
            logging.getLogger("tile_lsp").exception("the compiled methods could not be kept")
