"""What lies in a workspace beside texts: pipes, devices, huge files. Nothing waits for them."""
from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsp_client import SERVER, Editor, begin, config
from lsp_kernels import MATMUL
from lsprotocol import types
from pytest_lsp import LanguageClient

from tile_lsp.ide import project, workspace_files
from tile_lsp.releases import discover, sources
from tile_lsp.releases.storage import read_regular

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of Unix")
PATIENCE = 60


@pytest_lsp.fixture(config=config(SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Every name that the server might read, as something that never ends."""
    os.mkfifo(tmp_path / "pipe.py")
    os.symlink("/dev/zero", tmp_path / "zeros.py")
    os.symlink(tmp_path / "round.py", tmp_path / "round.py")
    os.mkfifo(tmp_path / "requirements.txt")
    os.mkfifo(tmp_path / "pyproject.toml")
    os.symlink("/dev/zero", tmp_path / "tile-lsp.toml")
    (tmp_path / "huge.py").write_text("import tilelang\n" + "x = 1  # matmul\n" * 200_000, encoding="utf-8")
    (tmp_path / "kernels.py").write_text(MATMUL, encoding="utf-8")
    package = tmp_path / "package"
    package.mkdir()
    os.mkfifo(package / "__init__.py")
    return tmp_path


@pytest.mark.asyncio
async def test_no_request_waits_for_a_pipe_or_a_device(client, workspace):
    await begin(client, workspace, loweredInHover=False, tilelangVersion="")
    text = "from kernels import matmul\nimport pipe, zeros, huge, package\nfrom pipe import something\n\nmatmul(128, 128, 128)\nsomething(1)\n"
    user = Editor(client, workspace / "user.py", text)
    editor = Editor(client, workspace / "kernels.py", MATMUL)
    assert await asyncio.wait_for(editor.diagnostics(lambda d: not d), PATIENCE) == []

    def at(needle: str, offset: int = 1) -> dict:
        return {"text_document": user.id, "position": user.position(needle, offset)}

    async def soon(answer):
        return await asyncio.wait_for(answer, PATIENCE)

    found = await soon(client.workspace_symbol_async(types.WorkspaceSymbolParams(query="matmul")))
    assert [s.location.uri for s in found] == [editor.uri]
    assert await soon(client.text_document_definition_async(types.DefinitionParams(**at("matmul(128"))))
    for needle in ("pipe, ", "zeros", "huge", "package", "something(1"):
        await soon(client.text_document_definition_async(types.DefinitionParams(**at(needle))))
        await soon(client.text_document_hover_async(types.HoverParams(**at(needle))))
    await soon(client.text_document_references_async(types.ReferenceParams(context=types.ReferenceContext(include_declaration=True), **at("matmul(128"))))
    renamed = await soon(client.text_document_rename_async(types.RenameParams(text_document=editor.id, position=editor.position("def matmul", 5), new_name="product")))
    assert editor.uri in str(renamed)
    for name in ("pipe.py", "zeros.py", "round.py", "huge.py", "nothing.py"):  # documents that nobody has opened
        uri = (workspace / name).as_uri()
        await soon(client.text_document_hover_async(types.HoverParams(text_document=types.TextDocumentIdentifier(uri=uri), position=types.Position(0, 0))))
    assert "matmul" in await soon(editor.hover("def matmul", 5))


def test_nothing_is_read_of_what_is_no_file(workspace):
    for name in ("pipe.py", "zeros.py", "round.py", "requirements.txt", "nothing"):
        assert read_regular(workspace / name) == "" == workspace_files.text_of(workspace / name)
    assert read_regular(workspace / "huge.py", 1000) == "" and read_regular(workspace / "kernels.py") == MATMUL
    assert discover.requirement(workspace / "requirements.txt") is None and discover.requirement(workspace / "pyproject.toml") is None
    assert project.find(workspace) == project.Config()
    assert [p.name for p in workspace_files.mentioning([workspace], "matmul")] == ["kernels.py"]
    os.makedirs(workspace / "tilelang")
    os.mkfifo(workspace / "tilelang" / "__init__.py")
    assert sources.locate(workspace / "tilelang", "tilelang", "jit") is None
