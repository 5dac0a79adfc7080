"""The language server over stdio, with a compiler that answers at once."""
from __future__ import annotations

import asyncio

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


def edit_key(found):
    return [(d.code, d.range.start.line, d.range.start.character, d.range.end.character) for d in found]


@pytest.mark.asyncio
async def test_capabilities(client, tmp_path):
    found = (await begin(client, tmp_path)).capabilities
    assert found.hover_provider and found.code_lens_provider and found.code_action_provider and found.document_symbol_provider
    assert "tile-lsp.run" in found.execute_command_provider.commands
    assert found.text_document_sync.change == types.TextDocumentSyncKind.Incremental


@pytest.mark.asyncio
async def test_fault_and_quick_fix(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "faulty.py", FAULTY)
    (found,) = await editor.diagnostics(lambda d: len(d) == 1)
    assert found.code == "TL101" and found.source == "tile-lsp"
    assert found.range == types.Range(start=editor.position("T.Paralel"), end=editor.position("T.Paralel", 9))
    assert found.code_description.href.endswith(".md")
    fix = next(a for a in await editor.actions("Paralel") if a.kind == types.CodeActionKind.QuickFix)
    (edit,) = fix.edit.changes[editor.uri]
    assert edit.new_text == "Parallel"
    assert edit.range == types.Range(start=editor.position("Paralel"), end=editor.position("Paralel", 7))
    editor.replace("Paralel", edit.new_text)
    assert await editor.diagnostics(lambda d: not d) == []


@pytest.mark.asyncio
async def test_only_the_asked_kinds_of_actions(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "faulty.py", FAULTY)
    place = types.Range(start=editor.position("Paralel"), end=editor.position("Paralel"))
    found = await client.text_document_code_action_async(types.CodeActionParams(
        text_document=editor.id, range=place, context=types.CodeActionContext(diagnostics=[], only=[types.CodeActionKind.QuickFix])))
    assert found and all(a.kind == types.CodeActionKind.QuickFix for a in found)
    assert any(a.command for a in await editor.actions("Paralel"))


@pytest.mark.asyncio
async def test_fast_typing_ends_with_the_diagnostics_of_the_last_text(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    await editor.diagnostics()
    for name in ("clea", "cle", "cl", "cle", "clee", "cleer"):
        current = next(n for n in ("T.clear(", "T.clea(", "T.cle(", "T.cl(", "T.clee(") if n in editor.text)
        editor.replace(current, f"T.{name}(")
        await asyncio.sleep(0.02)
    (found,) = await editor.diagnostics(lambda d: len(d) == 1 and "cleer" in d[0].message)
    assert found.code == "TL101"
    editor.replace("T.cleer(", "T.clear(")
    assert await editor.diagnostics(lambda d: not d) == []


@pytest.mark.asyncio
async def test_hover_has_the_lines_cuda(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    text = await editor.hover("T.gemm", 4)
    assert "**lowers to** (sm_90a): tensor core MMA (mma.sync)" in text
    assert 'asm volatile("mma.sync.aligned.m16n8k16");' in text
    assert "lowers to" not in await editor.hover("T.clear", 4), "this line has no CUDA of its own in the fake"
    assert "registers a thread: **96**" in await editor.hover("matmul(M", 1)


@pytest.mark.asyncio
async def test_run_lens_shows_progress_and_result(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    result = await editor.click("▶ Run")
    assert result["ok"] is True and result["kernel"] == "matmul"
    titles = [lens.command.title for lens in await editor.lenses()]
    assert titles == ["▶ Run", "Compare", "CUDA", "✓ max err 4.9e-4 · 0.195 ms · cpu"]
    (reports,) = client.progress_reports.values()
    assert [r.kind for r in reports] == ["begin", "report", "report", "end"]
    assert any("max err 4.9e-4" in m.message for m in client.log_messages)
    assert not client.messages, "the result stands in the lens, which this client draws anew"
    assert client.lens_refreshes >= 2, "when the run begins and when it has ended"


@pytest.mark.asyncio
async def test_a_run_can_be_cancelled(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL + "\nrun_slowly = True\n")
    running = asyncio.ensure_future(editor.click("▶ Run"))
    while not client.progress_reports:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    (token,) = client.progress_reports
    client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token=token))
    assert await asyncio.wait_for(running, 5) is None
    assert any("cancelled" in m.message for m in client.messages)
    assert [lens.command.title for lens in await editor.lenses()] == ["▶ Run", "Compare", "CUDA"]


@pytest.mark.asyncio
async def test_lowered_code_is_shown_as_a_readonly_file(client, tmp_path, monkeypatch):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    reply = await editor.click("CUDA")
    (shown,) = client.shown_documents
    assert shown.uri == reply["uri"] and shown.uri.startswith("file:") and shown.uri.endswith("matmul.sm_90a.cuda.cu")
    assert "__global__" in reply["text"]


@pytest.mark.asyncio
async def test_lowered_code_for_a_client_with_virtual_documents(client, tmp_path):
    await begin(client, tmp_path, virtualDocuments=True)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL)
    reply = await editor.click("CUDA")
    assert reply["uri"].startswith("tile-lsp:/matmul.sm_90a.cuda.cu?") and not client.shown_documents
    text = await client.protocol.send_request_async("tile-lsp/lowered", {"uri": reply["uri"]})
    assert "__global__" in (text["text"] if isinstance(text, dict) else text.text)
    wrong = await client.protocol.send_request_async("tile-lsp/lowered", {"uri": "tile-lsp:/nothing"})
    assert "no address" in (wrong["error"] if isinstance(wrong, dict) else wrong.error)
    assert "command:tile-lsp.showLowered?" in await editor.hover("matmul(M", 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding, units", [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
async def test_position_encodings(client, tmp_path, encoding, units):
    await begin(client, tmp_path, encodings=[encoding])
    text = FAULTY.replace("for i in T.Paralel(block_N):", "for i in (\"\U0001f600\", T.Paralel(block_N))[1]:")
    editor = Editor(client, tmp_path / "faulty.py", text)
    (found,) = await editor.diagnostics(lambda d: len(d) == 1)
    line = next(t for t in text.split("\n") if "Paralel" in t)
    plain = line.index("T.Paralel") - 1  # without the emoji
    assert found.range.start.character == plain + units
    assert found.range.end.character == plain + units + len("T.Paralel")


@pytest.mark.asyncio
async def test_edits_behind_exotic_line_separators(client, tmp_path):
    """A form feed and U+2028 break lines for str.splitlines() but neither for Python nor for editors."""
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "faulty.py", "# a\x0cb\u2028c\n" + MATMUL.replace("T.clear", "T.cleer"))
    (found,) = await editor.diagnostics(lambda d: len(d) == 1)
    assert found.range.start == editor.position("T.cleer")
    editor.replace("cleer", "clear")
    assert await editor.diagnostics(lambda d: not d) == []


@pytest.mark.asyncio
async def test_windows_line_ends(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "faulty.py", FAULTY.replace("\n", "\r\n"))
    (found,) = await editor.diagnostics(lambda d: len(d) == 1)
    assert found.range.start == editor.position("T.Paralel")


@pytest.mark.asyncio
async def test_settings_change_what_is_reported(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "faulty.py", FAULTY)
    await editor.diagnostics(lambda d: len(d) == 1)
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings={"tile-lsp": {"ignore": ["TL101"]}}))
    assert await editor.diagnostics(lambda d: not d) == []
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings={"tile-lsp": {"target": "sm_9000"}}))
    while not any("sm_9000" in m.message for m in client.messages):
        await asyncio.sleep(0.02)


@pytest.mark.asyncio
async def test_closing_clears_the_diagnostics(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "faulty.py", FAULTY)
    await editor.diagnostics(lambda d: len(d) == 1)
    client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=editor.id))
    assert await editor.diagnostics(lambda d: not d) == []
