"""The user's own TileLang as an oracle: a process of the user's interpreter runs the same kernel on the same inputs."""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..releases import discover

SCRIPT = Path(__file__).resolve().parents[1] / "workers" / "user_tilelang.py"
TIMEOUT = 300.0


class Unavailable(Exception):
    """There is no answer of TileLang's; the text says why."""


def interpreter_of(path: str, chosen: str = "") -> str:
    """The Python that has the TileLang which a file belongs to. Raises Unavailable."""
    found = discover.Finder(chosen or None).find(Path(path).absolute().parent)
    if found is None or found.path is None:
        where = f"neither in the chosen interpreter ({chosen}) nor beside the project" if chosen else "for this file"
        raise Unavailable(f"no TileLang is installed {where}: choose the interpreter that has it in the editor, or put a .venv with tilelang beside the project")
    for folder in found.path.parents:
        for program in ("bin/python", "Scripts/python.exe"):
            if (folder / program).is_file():
                return str(folder / program)
    raise Unavailable(f"the TileLang at {found.path} belongs to no environment with a Python")


class Oracle:
    """Called with all arguments in order and the numbers of those that are outputs; returns the outputs."""

    def __init__(self, found: Any, request: dict[str, Any]):
        self._interpreter = interpreter_of(request["path"], str(request.get("interpreter") or ""))
        self._found, self._request = found, request
        self.version = ""
        self.median_ms: float | None = None

    def __call__(self, values: list[Any], outputs: list[int]) -> list[Any]:
        import torch

        with tempfile.TemporaryDirectory(prefix="tile-lsp-") as name:
            folder = Path(name)
            (folder / "request.json").write_text(json.dumps(self._question(outputs)), encoding="utf-8")
            torch.save(values, folder / "inputs.pt")
            command = [self._interpreter, str(SCRIPT), str(folder)]
            try:
                done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, cwd=folder, check=False)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"TileLang did not finish within {TIMEOUT:.0f} s") from None
            except OSError as error:
                raise Unavailable(f"{self._interpreter} could not be started: {error}") from None
            if not (folder / "result.pt").is_file():
                file = folder / "error.txt"
                said = file.read_text(encoding="utf-8") if file.is_file() else (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
                raise Unavailable(f"TileLang ({self._interpreter}) did not run it: {said}")
            result = torch.load(folder / "result.pt", weights_only=True)
        self.version, self.median_ms = str(result["version"]), result["median_ms"]
        return list(result["outputs"])

    def _question(self, outputs: list[int]) -> dict[str, Any]:
        from tilec.evaluate.values import HostTensor

        definition, instance = self._found.definition, self._found.instance
        keywords = {k: v for k, v in instance.kwargs.items() if not isinstance(v, HostTensor) and isinstance(v, (bool, int, float, str))}
        return {"path": self._request["path"], "text": self._request["text"], "kind": definition.kind, "call": instance.text, "function": definition.qualname,
                "keywords": keywords, "outputs": outputs, "repeat": int(self._request.get("repeat") or 20)}
