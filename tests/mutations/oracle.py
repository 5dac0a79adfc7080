"""The client of ``oracle_server.py``: verdicts of the real TileLang on kernel files."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SERVER = Path(__file__).resolve().parent / "oracle_server.py"
DIRECTIVE = re.compile(r"# tile-lsp: instance (.*)\n")
DEFINITION = re.compile(r"^def (\w+)", re.MULTILINE)


class Oracle:
    """One compiler process; every job runs in a fork of it."""

    def __init__(self, python: str):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([python, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._answer() == {"ready": True}

    def judge(self, text: str, target: str, nvcc: bool = False) -> dict[str, Any]:
        """The verdict on the instances of the file, up to the first that is refused."""
        found: dict[str, Any] = {}
        for kernel, call in ways(text):
            found = self._judge(text, kernel, call, target, nvcc)
            if found["stage"] is not None:
                break
        return found

    def _judge(self, text: str, kernel: str, call: str, target: str, nvcc: bool) -> dict[str, Any]:
        path = Path(self.folder.name) / "mutant_kernel.py"
        path.write_text(text, encoding="utf-8")
        job = {"path": str(path), "kernel": kernel, "call": call, "target": target, "nvcc": nvcc}
        assert self.process.stdin is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the oracle ended; does its Python have tilelang?")
        return json.loads(line)


def ways(text: str) -> list[tuple[str, str]]:
    """The kernel and the text of its arguments for each instance comment of the file; a ``make()`` is called as well."""
    made = [("script:make", "")] if re.search(r"^def make\(\):", text, re.MULTILINE) else []
    for found in DIRECTIVE.finditer(text):
        definition = DEFINITION.search(text, found.end())
        assert definition is not None
        made.append((definition[1], ", ".join(split(found[1]))))
    return made


def split(arguments: str) -> list[str]:
    """``A=tensor((1, 2), "x") B=3`` at the blanks outside brackets."""
    parts, depth = [""], 0
    for c in arguments.strip():
        depth += (c in "([") - (c in ")]")
        if c == " " and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p for p in parts if p]
