"""docs/tutorial.md, as a new user would try it: a fresh environment, an empty home folder, every command as it stands there."""
from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import fresh_environment
import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r'```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.DOTALL)
STEPS = 7


@pytest.mark.skipif(os.name == "nt", reason="commands of a Unix shell")
def test_every_step(tmp_path):
    """Files are written, edits made and commands run in order; what the page shows of an output must be in it. pip takes the package from a wheel of
    this checkout, and what it depends on from the environment of the tests."""
    for missing in ("tvm", "torch"):
        if importlib.util.find_spec(missing) is None:
            pytest.skip(f"the tutorial runs a kernel, which needs {missing}")
    python = fresh_environment.environment(tmp_path)
    user = fresh_environment.clean(tmp_path, python, fresh_environment.wheel(tmp_path).parent)
    folder = tmp_path / "project"
    folder.mkdir()
    ran = []
    for language, title, body in BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
        if language in ("python", "yaml") and title:
            (folder / title).write_text(body, encoding="utf-8")
        elif language == "diff":
            change(folder / title, body)
        elif language == "console":
            ran += console(body, folder, user)
    assert len(ran) == STEPS and ran[0].startswith("pip install"), ran
    installed = subprocess.run([str(python), "-c", "import tilec, tile_lsp; print(tilec.__file__, tile_lsp.__file__)"], env=user, cwd=folder, capture_output=True, text=True)
    assert str(ROOT) not in installed.stdout and str(python.parent.parent) in installed.stdout, "the wheel is what was tried"


def change(file: Path, diff: str) -> None:
    removed = "".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("-"))
    added = "".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("+"))
    text = file.read_text(encoding="utf-8")
    assert text.count(removed) == 1, f"{file.name} has not the lines\n{removed}"
    file.write_text(text.replace(removed, added), encoding="utf-8")


def console(body: str, folder: Path, user: dict[str, str]) -> list[str]:
    """Run the commands of a block in a shell; the lines below a command are in its output, in order."""
    ran = []
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=user, capture_output=True, text=True, timeout=300)
        at = 0
        for line in filter(None, (t.strip() for t in shown.splitlines())):
            found = done.stdout.find(line, at)
            assert found >= 0, f"{command}: {line!r} is not in\n{done.stdout}{done.stderr}"
            at = found + len(line)
        assert done.returncode == (1 if "error[" in shown else 0), f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        ran.append(command)
    return ran
