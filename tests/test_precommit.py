"""The hooks of ``.pre-commit-hooks.yaml``, installed and run by the real pre-commit on a repository made for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import BAD, GOOD, IDLE

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pre_commit")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("scratch")
    git(folder, "init", "-q")
    (folder / "tile-lsp.toml").write_text('exclude = ["left_out.py"]\n')
    (folder / "left_out.py").write_text(BAD)
    (folder / "a.py").write_text(GOOD)
    (folder / "text.txt").write_text("import tilelang\n")
    git(folder, "add", ".")
    return folder


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working tree as a repository, new files included."""
    folder = tmp_path_factory.mktemp("product")
    names = ("tile_lsp", "compiler", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", "all")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def hook(product: Path, folder: Path, name: str, home: Path) -> tuple[int, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "VIRTUAL_ENV"))}
    environment |= {"PRE_COMMIT_HOME": str(home), "PRE_COMMIT_COLOR": "never"}
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(product), name, "--all-files", "--verbose"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=540)
    if "InstallationError" in done.stdout or "CalledProcessError" in done.stdout and "pip" in done.stdout:
        pytest.skip(f"the hook cannot be installed here: {done.stdout[-300:]}")
    return done.returncode, done.stdout


def test_both_hooks(product: Path, repository: Path, tmp_path: Path) -> None:
    code, out = hook(product, repository, "tile-lsp-check", tmp_path)
    assert code == 0, out
    assert "No faults found (1 file, 1 kernel" in out, "what is excluded stays excluded, though it is named"

    (repository / "a.py").write_text(BAD)
    (repository / "b.py").write_text(IDLE)
    git(repository, "add", ".")
    code, out = hook(product, repository, "tile-lsp-check", tmp_path)
    assert code == 1 and "error[TL901]" in out and "warning[TL002]" in out

    code, out = hook(product, repository, "tile-lsp-fix", tmp_path)
    assert code == 1 and "Fixed 1 fault in 1 file" in out and "files were modified by this hook" in out
    assert (repository / "b.py").read_text() == GOOD
