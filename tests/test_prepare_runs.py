"""The run worker gets ready when a file with kernels is opened: torch is loaded, nothing of the user's is executed."""
from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
import pytest_lsp
from lsp_client import SERVER, Editor, begin, config
from lsp_kernels import MATMUL
from pytest_lsp import LanguageClient

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at processes under /proc")
MARKER = '\nimport pathlib\npathlib.Path(__file__).with_suffix(".executed").write_text("")\n'


@pytest_lsp.fixture(config=config(SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


def workers(server: int) -> list[int]:
    """The server's child processes."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == server:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def has_torch(pid: int) -> bool:
    try:
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.asyncio
async def test_torch_is_loaded_when_a_kernel_is_open(client, tmp_path):
    pytest.importorskip("torch")
    await begin(client, tmp_path, prepareRuns=True, loweredInHover=False)
    editor = Editor(client, tmp_path / "gemm.py", MATMUL + MARKER)
    (tmp_path / "gemm.py").write_text(MATMUL + MARKER)
    await editor.diagnostics()
    server = client._server.pid
    end = time.monotonic() + 120
    while time.monotonic() < end and not any(map(has_torch, workers(server))):
        await asyncio.sleep(0.2)
    assert any(map(has_torch, workers(server)))
    assert not has_torch(server) and resident_mib(server) < 120
    assert not list(tmp_path.glob("*.executed"))


@pytest.mark.asyncio
@pytest.mark.parametrize("text, options", [(MATMUL, {"prepareRuns": False}), ("import torch\n", {"prepareRuns": True})])
async def test_nothing_is_started(client, tmp_path, text, options):
    """When the user does not want it, and for files without kernels."""
    await begin(client, tmp_path, loweredInHover=False, **options)
    await Editor(client, tmp_path / "file.py", text).diagnostics()
    await asyncio.sleep(1.0)
    assert workers(client._server.pid) == []


PREPARE = """
import sys
from tile_lsp.ide.execution import prepare
from tilec.runtime import loading
assert prepare({"kind": "prepare", "target": "cpu"}) == {}, "ready"
assert {"torch", "tvm"} <= set(loading._begun), loading._begun
loading.wait()
assert loading.torch_is_loaded()
"""


def test_a_prepared_process_has_what_a_run_needs():
    pytest.importorskip("torch")
    import subprocess

    done = subprocess.run([sys.executable, "-c", PREPARE], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr


def test_torch_for_the_cpu_alone_has_no_gpu(tmp_path, monkeypatch):
    """Read from its version file: importing torch for the answer would take the seconds that are to be saved."""
    from tilec.runtime import loading

    for text, expected in (("cuda: Optional[str] = None\n", False), ("cuda: Optional[str] = '13.0'\n", True), ("__version__ = '2'\ncuda = '12.6'\n", True)):
        package = tmp_path / f"torch{expected}{len(text)}"
        package.mkdir()
        (package / "__init__.py").write_text("raise AssertionError('imported')\n")
        (package / "version.py").write_text(text)

        class Spec:
            origin = str(package / "__init__.py")

        monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name, spec=Spec: spec)
        assert loading.torch_has_cuda() is expected
