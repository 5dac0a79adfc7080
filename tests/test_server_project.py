"""The server follows the configuration of the project a file belongs to."""
from __future__ import annotations

import pytest
import pytest_lsp
from lsp_client import SERVER, Editor, begin, config
from lsp_kernels import MATMUL
from lsprotocol import types
from pytest_lsp import LanguageClient

FAULTY = MATMUL.replace("T.alloc_fragment(", "T.alloc_fragmnt(")


@pytest_lsp.fixture(config=config(SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio
async def test_severities_and_ignored_rules(client, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.tile-lsp.severity]\nunknown-attribute = "warning"\n', encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "tile-lsp.toml").write_text('ignore = ["unknown-attribute"]\n', encoding="utf-8")
    await begin(client, tmp_path, loweredInHover=False)
    (found,) = await Editor(client, tmp_path / "a.py", FAULTY).diagnostics(lambda d: d)
    assert found.severity == types.DiagnosticSeverity.Warning
    assert await Editor(client, tmp_path / "inner" / "b.py", FAULTY).diagnostics() == []


@pytest.mark.asyncio
async def test_instances(client, tmp_path):
    (tmp_path / "tile-lsp.toml").write_text('instances = ["matmul(256, 256, 256)", "matmul(512, 512, 512)"]\n', encoding="utf-8")
    await begin(client, tmp_path, loweredInHover=False)
    editor = Editor(client, tmp_path / "a.py", MATMUL)
    await editor.diagnostics()
    commands = [lens.command for lens in await editor.lenses()]
    run = next(c for c in commands if c.title == "▶ Run")
    assert "256" in str(run.arguments), commands


@pytest.mark.asyncio
async def test_a_senseless_configuration_is_told_once_and_not_obeyed(client, tmp_path):
    (tmp_path / "tile-lsp.toml").write_text('ignroe = ["x"]\n', encoding="utf-8")
    await begin(client, tmp_path, loweredInHover=False)
    editor = Editor(client, tmp_path / "a.py", FAULTY)
    assert len(await editor.diagnostics(lambda d: d)) == 1
    editor.replace("import tilelang\n", "import tilelang \n")
    await editor.diagnostics(lambda d: d)
    told = [m.message for m in client.messages if "ignroe" in m.message]
    assert len(told) == 1 and "did you mean ignore?" in told[0]


@pytest.mark.asyncio
async def test_targets_excluded_files_and_the_lowest_release(client, tmp_path):
    clusters = MATMUL.replace("threads=", "cluster_dims=2, threads=")
    assert clusters != MATMUL
    (tmp_path / "tile-lsp.toml").write_text('targets = ["sm_80"]\nexclude = ["generated"]\n', encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("tilelang>=0.1.8\n", encoding="utf-8")
    (tmp_path / "generated").mkdir()
    await begin(client, tmp_path, loweredInHover=False, tilelangVersion="")
    found = await Editor(client, tmp_path / "a.py", clusters).diagnostics(lambda d: d)
    assert any("sm_80" in d.message for d in found)
    assert await Editor(client, tmp_path / "generated" / "b.py", FAULTY).diagnostics() == []
    newer = MATMUL + "\n\nname = T.tcgen05_gemm\n"
    (only,) = await Editor(client, tmp_path / "c.py", newer).diagnostics(lambda d: d)
    assert only.severity == types.DiagnosticSeverity.Warning and "0.1.8" in only.message
