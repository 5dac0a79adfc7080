"""The extension in a real VS Code (code-server with a headless browser): see tests/editors/README.md."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fresh_environment
import pytest

ROOT = Path(__file__).resolve().parents[1]
EDITORS = Path(os.environ.get("TILE_LSP_EDITORS", ROOT / ".editors"))
HERE = ROOT / "tests" / "editors"
ENTRY = EDITORS / "code-server" / "node_modules" / "code-server" / "out" / "node" / "entry.js"
VSIX = ROOT / "vscode-extension" / "tile-lsp.vsix"


def environment(tmp_path: Path) -> dict[str, str]:
    """A copy of the workspace, so that nothing the editor does touches the checkout."""
    for needed, how in ((ENTRY, "tests/editors/install-code-server.sh"), (VSIX, "npm run package in vscode-extension"),
                        (HERE / "node_modules" / "playwright-core", "npm install in tests/editors")):
        if not needed.exists():
            pytest.skip(f"{needed} is missing ({how})")
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    pytest.importorskip("tvm", reason="running on the CPU needs the extra compile")
    workspace = tmp_path / "workspace"
    shutil.copytree(HERE / "workspace", workspace)
    command = [sys.executable, "-m", "tile_lsp.cli.main", "serve"]
    return {**os.environ, "CODE_SERVER_ENTRY": str(ENTRY), "VSIX": str(VSIX), "WORKSPACE": str(workspace), "RUN_DIR": str(tmp_path / "run"),
            "SHOTS": os.environ.get("SHOTS", str(tmp_path / "shots")), "API_TESTS": str(HERE / "apitest"), "SERVER_CMD": json.dumps(command)}


def drive(script: str, tmp_path: Path, **more: str) -> str:
    done = subprocess.run(["node", str(HERE / script)], env={**environment(tmp_path), **more}, capture_output=True, text=True, timeout=420, cwd=HERE)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.editor
def test_through_the_api(tmp_path):
    assert "10 passed, 0 failed" in drive("api.mjs", tmp_path)


@pytest.mark.editor
def test_as_a_person_sees_it(tmp_path):
    assert "PASS" in drive("drive.mjs", tmp_path)


@pytest.mark.editor
def test_a_workspace_that_is_not_trusted(tmp_path):
    """It is checked; running says why not, and runs once the folder is trusted. Nothing of it was executed before."""
    assert "PASS" in drive("trust.mjs", tmp_path)


@pytest.mark.editor
def test_installing_the_missing_server(tmp_path):
    """Offered, accepted, installed from wheels into the environment that was chosen; then the faults appear."""
    environment(tmp_path / "asked")  # skips before wheels are made
    made = fresh_environment.wheel(tmp_path)
    python = fresh_environment.environment(tmp_path)
    shown = drive("install.mjs", tmp_path, ENVIRONMENT_PYTHON=str(python), INSTALL=str(made), PIP_NO_INDEX="1", PYTHONPATH="")
    assert "PASS" in shown
    version = subprocess.run([python.parent / "tile-lsp", "--version"], capture_output=True, text=True, timeout=60)
    assert version.returncode == 0, version.stderr
