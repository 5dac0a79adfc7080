"""The server in a real Emacs with eglot: see tests/editors/README.md."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def emacs_with_eglot() -> str:
    emacs = shutil.which("emacs")
    if emacs is None:
        pytest.skip("emacs is not installed (tests/editors/install-emacs.sh)")
    has = subprocess.run([emacs, "-q", "--batch", "--eval", "(progn (require 'package) (package-initialize) (require 'eglot))"], capture_output=True, timeout=60)
    if has.returncode != 0:
        pytest.skip("this emacs has no eglot (tests/editors/install-emacs.sh)")
    return emacs


@pytest.mark.editor
def test_diagnostics_hover_run_and_lowered_code(tmp_path):
    emacs = emacs_with_eglot()
    pytest.importorskip("tvm", reason="running on the CPU needs the extra compile")
    sample = tmp_path / "matmul.py"
    sample.write_text((ROOT / "tests/editors/workspace/matmul.py").read_text(encoding="utf-8"), encoding="utf-8")
    environment = {**os.environ, "SERVER_CMD": f"{sys.executable} -m tile_lsp.cli.main serve", "TILE_LSP_EL": str(ROOT / "editors/emacs/tile-lsp.el"),
                   "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"}
    done = subprocess.run([emacs, "-q", "--batch", "-l", str(ROOT / "tests/editors/emacs_check.el"), str(sample)],
                          env=environment, capture_output=True, text=True, timeout=240)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and "PASS" in done.stderr, done.stdout + done.stderr
