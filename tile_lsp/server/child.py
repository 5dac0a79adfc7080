"""The process behind :mod:`.backend`: JSON lines in, JSON lines out. Whatever else prints goes to standard error."""
from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a print in native code or in the user's reference function must not be taken for an answer
    sys.stdout = sys.stderr
    for line in sys.stdin:
        reply = _answer(json.loads(line))
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request["kind"] == "warm":
            importlib.import_module("tilec.pipeline")
            return {}
        if request["kind"] == "lower":
            from ..ide.lowering import answer

            return answer(request)
        return {"error": f"unknown request {request['kind']!r}"}
    except Exception as error:
        return {"error": f"unexpected {type(error).__name__}: {' '.join(str(error).split())}; this is a fault of tile-lsp"}


if __name__ == "__main__":
    main()
