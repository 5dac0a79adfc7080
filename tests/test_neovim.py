"""The server in real Neovims: see tests/editors/README.md."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EDITORS = Path(os.environ.get("TILE_LSP_EDITORS", ROOT / ".editors"))
NEOVIMS = {"0.7": Path("/usr/bin/nvim"), "0.11": EDITORS / "neovim" / "bin" / "nvim"}


@pytest.mark.editor
@pytest.mark.parametrize("version", NEOVIMS)
def test_diagnostics_hover_lens_run_and_lowered_code(version, tmp_path):
    program = NEOVIMS[version]
    if not program.is_file():
        pytest.skip(f"{program} is not installed (tests/editors/install-neovim.sh)")
    pytest.importorskip("tvm", reason="running on the CPU needs the extra compile")
    sample = tmp_path / "matmul.py"
    sample.write_text((ROOT / "tests/editors/workspace/matmul.py").read_text(encoding="utf-8"), encoding="utf-8")
    environment = {**os.environ, "SERVER_CMD": f"{sys.executable} -m tile_lsp.cli.main serve",
                   "NEOVIM_CONFIG": str(ROOT / "editors" / "neovim"),
                   **{f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "DATA", "STATE", "CACHE")}}
    done = subprocess.run([str(program), "--clean", "--headless", "-n", str(sample), "-S", str(ROOT / "tests/editors/nvim_check.lua")],
                          env=environment, capture_output=True, text=True, timeout=240)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and "PASS" in done.stdout, done.stdout + done.stderr
