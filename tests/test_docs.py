"""The documentation: links that lead somewhere, pages that are up to date, a tutorial whose steps work."""
from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def test_the_site_builds_with_strict_links(tmp_path):
    pytest.importorskip("mkdocs", reason="the documentation is built with mkdocs (extra dev)")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file() and (tmp_path / "site" / "rules" / "pages" / "gemm-shape" / "index.html").is_file()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "editors/README.md", "editors/neovim/README.md", "tests/editors/README.md", "vscode-extension/README.md"])
def test_links_between_files(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in _LINK.findall(text):
        if not re.match(r"[a-z]+:|#", target):
            assert ((ROOT / page).parent / target.split("#")[0]).exists(), f"{page}: {target}"


def test_the_settings_page_is_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "settings_page.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_ci_example_is_the_one_of_the_page():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert (ROOT / "editors" / "ci" / "tile-lsp.yml").read_text(encoding="utf-8") in page


# -- the tutorial ------------------------------------------------------------------------------------------------------------------
BLOCK = re.compile(r'```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.DOTALL)


def test_every_step_of_the_tutorial(tmp_path):
    """Files are written, edits made and commands run in order, as a reader would; what the page shows of an output must be in it."""
    for missing in ("tvm", "torch"):
        if importlib.util.find_spec(missing) is None:
            pytest.skip(f"the tutorial runs a kernel, which needs {missing}")
    steps = 0
    for language, title, body in BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
        if language in ("python", "yaml") and title:
            (tmp_path / title).write_text(body, encoding="utf-8")
        elif language == "diff":
            change(tmp_path / title, body)
        elif language == "console":
            steps += console(body, tmp_path)
    assert steps == 6


def change(file: Path, diff: str) -> None:
    removed = "".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("-"))
    added = "".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("+"))
    text = file.read_text(encoding="utf-8")
    assert text.count(removed) == 1, f"{file.name} has not the lines\n{removed}"
    file.write_text(text.replace(removed, added), encoding="utf-8")


def console(body: str, folder: Path) -> int:
    """Run the commands of a block; the lines below a command are in its output, in order. pip is not run: the package is what is tested."""
    ran = 0
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        if command.startswith("pip "):
            continue
        program, *arguments = command.split()
        assert program == "tile-lsp"
        done = subprocess.run([sys.executable, "-m", "tile_lsp.cli.main", *arguments], cwd=folder, capture_output=True, text=True, timeout=240)
        at = 0
        for line in filter(None, (t.strip() for t in shown.splitlines())):
            found = done.stdout.find(line, at)
            assert found >= 0, f"{command}: {line!r} is not in\n{done.stdout}{done.stderr}"
            at = found + len(line)
        assert done.returncode in (0, 1) and (done.returncode == 0 or "error[" in shown or arguments[0] == "doctor"), done.stderr
        ran += 1
    return ran
