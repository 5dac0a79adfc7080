"""The whole way over stdio, with the real compiler: open, edit to a fault, repair, hover with CUDA, run, result in the lens."""
from __future__ import annotations

import asyncio

import pytest
import pytest_lsp
from lsp_client import SERVER, Editor, begin, config
from lsp_kernels import MATMUL
from pytest_lsp import LanguageClient


@pytest_lsp.fixture(config=config(SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio
async def test_from_opening_to_the_result_in_the_lens(client, tmp_path):
    pytest.importorskip("tvm", reason="running on the CPU needs the extra compile")
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    assert await editor.diagnostics() == []

    editor.replace("T.alloc_fragment", "T.alloc_fragmnt")
    (found,) = await editor.diagnostics(lambda d: len(d) == 1)
    assert found.code == "TL101" and "alloc_fragment" in found.message
    editor.replace("T.alloc_fragmnt", "T.alloc_fragment")
    assert await editor.diagnostics(lambda d: not d) == []

    text = await hover_with_cuda(editor)
    assert "**lowers to** (sm_90a)" in text and "mma" in text

    result = await asyncio.wait_for(editor.click("▶ Run"), 180)
    assert result["ok"] is True, result
    assert result["target"] == "cpu" and result["latency_ms"]["median"] > 0
    titles = [lens.command.title for lens in await editor.lenses()]
    assert titles[:3] == ["▶ Run", "Compare", "CUDA"] and titles[3].startswith("✓ max err") and " ms · " in titles[3] and titles[3].endswith(" · cpu")
    assert any(r.kind == "begin" for reports in client.progress_reports.values() for r in reports)


async def hover_with_cuda(editor: Editor) -> str:
    """The first hovers may come while the compile worker starts."""
    text = ""
    for _ in range(8):
        text = await editor.hover("T.gemm", 4)
        if "CUDA" in text:
            break
    return text


@pytest.mark.asyncio
async def test_the_cuda_lens_shows_the_whole_kernel(client, tmp_path):
    await begin(client, tmp_path, virtualDocuments=True)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    reply = await asyncio.wait_for(editor.click("CUDA"), 120)
    assert "__global__" in reply["text"], reply
