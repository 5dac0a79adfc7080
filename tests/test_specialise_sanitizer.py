"""compute-sanitizer on small specialised kernels: no access out of bounds, no race in shared memory, no misuse of barriers."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tilec.runtime import gpu  # noqa: E402

pytestmark = pytest.mark.gpu
TESTS = Path(__file__).parent
SANITIZER = shutil.which("compute-sanitizer") or next((p for p in ("/usr/local/cuda/bin/compute-sanitizer",) if os.path.exists(p)), None)
if not (gpu.available() and torch.cuda.get_device_capability()[0] == 9) or SANITIZER is None:
    pytest.skip("needs a Hopper GPU and compute-sanitizer", allow_module_level=True)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_clean(tool):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    command = [str(SANITIZER), "--tool", tool, "--error-exitcode", "9", "--kernel-name", "kernel_substring=main_kernel", sys.executable, str(TESTS / "sanitized_kernels.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0 and "all right" in done.stdout, (done.stdout + done.stderr)[-3000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout + done.stderr or "0 hazards" in done.stdout + done.stderr
