"""Whatever a document holds or a client sends, the next request is answered."""
from __future__ import annotations

import asyncio
import time

import pytest
import pytest_lsp
from lsp_client import FAKE_SERVER, Editor, begin, config
from lsp_kernels import FAULTY, MATMUL
from lsprotocol import types
from pytest_lsp import LanguageClient


@pytest_lsp.fixture(config=config(FAKE_SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


async def still_answers(client, tmp_path) -> None:
    """A sound document opened now gets its lenses and a faulty one its diagnostic."""
    editor = Editor(client, tmp_path / "sound.py", MATMUL)
    assert [lens.command.title for lens in await asyncio.wait_for(editor.lenses(), 60)][:3] == ["▶ Run", "Compare", "CUDA"]
    faulty = Editor(client, tmp_path / "unsound.py", FAULTY)
    await faulty.diagnostics(lambda d: len(d) == 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("text", [
    "", "\0\1\2\3tilelang\0" * 100, "\ud800 tilelang".encode("utf-8", "replace").decode(), "import tilelang.language as T\n" + "(" * 5000,
    "import tilelang\n" + "x = [" * 200 + "]" * 200, "import tilelang\n" + "-" * 20000 + "1", "tilelang" * 100_000,
    "\tdef f(:\n  import tilelang\n x", "import tilelang\nclass A(A, metaclass=A): x = A.x",
], ids=["empty", "binary", "surrogate", "parentheses", "brackets", "minuses", "long line", "torn", "self reference"])
async def test_malformed_text(client, tmp_path, text):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "odd.py", text)
    await editor.diagnostics()
    assert await editor.lenses() == []
    assert await client.text_document_hover_async(types.HoverParams(text_document=editor.id, position=types.Position(line=0, character=3))) is None
    await still_answers(client, tmp_path)


@pytest.mark.asyncio
async def test_syntax_error_in_the_middle_of_a_kernel(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL.replace("T.clear(C_local)", "T.clear(C_local"))
    found = await editor.diagnostics(lambda d: len(d) >= 1)
    assert [d.code for d in found] == ["TL001"]
    assert "A_shared" in await editor.hover("A_shared", 2), "the rest of the kernel is still understood"
    editor.replace("T.clear(C_local", "T.clear(C_local)")
    assert await editor.diagnostics(lambda d: not d) == []


@pytest.mark.asyncio
async def test_infinite_loops_at_module_level(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "loops.py", MATMUL + "\nwhile True:\n    x = 1\n")
    await editor.diagnostics()
    begun = time.monotonic()
    await still_answers(client, tmp_path)
    assert time.monotonic() - begun < 60


@pytest.mark.asyncio
async def test_twenty_thousand_lines(client, tmp_path):
    await begin(client, tmp_path)
    kernels = [MATMUL.split("kernel = ")[0].replace("matmul", f"matmul_{i}").replace("gemm(\n", f"gemm_{i}(\n").replace("return gemm", f"return gemm_{i}")
               for i in range(40)]
    filler = "".join(f"value_{i} = {i} * 2\n" for i in range(20_000 - 25 * 40))
    text = kernels[0] + filler + "".join(k.split("import tilelang.language as T\n")[1] for k in kernels[1:]) + "matmul_3(128, 128, 128)\n"
    assert text.count("\n") > 19_500
    editor = Editor(client, tmp_path / "long.py", text)
    await editor.diagnostics(timeout=60)
    assert len(await asyncio.wait_for(editor.lenses(), 60)) >= 120
    await still_answers(client, tmp_path)


@pytest.mark.asyncio
async def test_the_worker_dies(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL + "crash_the_worker = 1\n")
    text = await editor.hover("T.gemm", 4)
    assert "the compile worker could not answer" in text and "Traceback" not in text
    result = await editor.click("▶ Run")
    assert result["ok"] is False and "the run worker could not answer" in result["error"]
    assert any(lens.command.title.startswith("✗") for lens in await editor.lenses())
    editor.replace("crash_the_worker = 1\n", "")
    assert "lowers to" in await editor.hover("T.gemm", 4)


@pytest.mark.asyncio
async def test_senseless_requests(client, tmp_path):
    await begin(client, tmp_path)
    for arguments in (None, [], [{}], [{"uri": 5}], [{"uri": "file:///no/such/file.py", "kernel": "k"}], ["file:///no/such/file.py"], [[]]):
        for command in ("tile-lsp.run", "tile-lsp.showLowered", "tile-lsp.showResult", "tile-lsp.chooseInstance"):
            assert await client.workspace_execute_command_async(types.ExecuteCommandParams(command=command, arguments=arguments)) is None
    missing = types.TextDocumentIdentifier(uri="file:///no/such/file.py")
    assert await client.text_document_hover_async(types.HoverParams(text_document=missing, position=types.Position(line=5, character=5))) is None
    odd = types.TextDocumentIdentifier(uri="untitled:Untitled-1")
    assert not await client.text_document_code_lens_async(types.CodeLensParams(text_document=odd))
    editor = Editor(client, tmp_path / "faulty.py", FAULTY)
    far = types.Range(start=types.Position(line=10_000, character=10_000), end=types.Position(line=10_000, character=10_000))
    client.text_document_did_change(types.DidChangeTextDocumentParams(
        text_document=types.VersionedTextDocumentIdentifier(uri=editor.uri, version=2),
        content_changes=[types.TextDocumentContentChangePartial(range=far, text="\n# end\n")]))
    await editor.diagnostics(lambda d: len(d) == 1)
    await still_answers(client, tmp_path)


@pytest.mark.asyncio
async def test_an_unknown_command_is_refused(client, tmp_path):
    await begin(client, tmp_path)
    with pytest.raises(Exception, match="not defined"):
        await client.workspace_execute_command_async(types.ExecuteCommandParams(command="tile-lsp.nothing", arguments=[]))
    await still_answers(client, tmp_path)
