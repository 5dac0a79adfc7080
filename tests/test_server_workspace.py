"""Folders, settings, files on disk, notebooks, pulled diagnostics, the order of messages, many files."""
from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest
import pytest_lsp
from lsp_client import FAKE_SERVER, SERVER, Editor, begin, config
from lsp_kernels import FAULTY, MATMUL
from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from tilelang_installs import install

NEWER = MATMUL + "\n\nname = T.tcgen05_gemm\n"  # exported since 0.1.9


@pytest_lsp.fixture(config=config(FAKE_SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


async def until(what, timeout: float = 60.0):
    end = time.monotonic() + timeout
    while not (found := what()):
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.02)
    return found


# -- folders and settings -----------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_two_folders_with_different_tilelangs(client, tmp_path):
    for name, version in (("old", "0.1.8"), ("new", "0.1.15")):
        (tmp_path / name).mkdir()
        install(tmp_path / name, version)
    await client.initialize_session(types.InitializeParams(
        capabilities=client_capabilities("visual-studio-code"), initialization_options={"loweredInHover": False},
        workspace_folders=[types.WorkspaceFolder(uri=(tmp_path / n).as_uri(), name=n) for n in ("old", "new")]))
    (found,) = await Editor(client, tmp_path / "old" / "a.py", NEWER).diagnostics(lambda d: d)
    assert found.code == "TL103" and "0.1.8" in found.message and "0.1.9" in found.message
    fresh = Editor(client, tmp_path / "new" / "a.py", NEWER)
    assert await fresh.diagnostics() == []
    assert "0.1.15" in await fresh.hover("T.gemm", 3)


@pytest.mark.asyncio
async def test_each_folder_has_the_settings_that_the_client_tells(client, tmp_path):
    for name in ("strict", "lax"):
        (tmp_path / name).mkdir()
    client.set_configuration({"tile-lsp": {"loweredInHover": False}})
    client.set_configuration({"tile-lsp": {"ignore": ["TL101"]}}, scope_uri=(tmp_path / "lax").as_uri())
    await client.initialize_session(types.InitializeParams(
        capabilities=client_capabilities("visual-studio-code"), initialization_options={"tilelangVersion": "0.1.15"},
        workspace_folders=[types.WorkspaceFolder(uri=(tmp_path / n).as_uri(), name=n) for n in ("strict", "lax")]))
    await asyncio.sleep(0.3)
    strict, lax = Editor(client, tmp_path / "strict" / "a.py", FAULTY), Editor(client, tmp_path / "lax" / "a.py", FAULTY)
    assert len(await strict.diagnostics(lambda d: d)) == 1
    assert await lax.diagnostics() == []
    client.set_configuration({"tile-lsp": {"ignore": []}}, scope_uri=(tmp_path / "lax").as_uri())
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
    assert len(await lax.diagnostics(lambda d: d)) == 1


@pytest.mark.asyncio
async def test_a_folder_is_added_and_removed(client, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "b.py").write_text(MATMUL.replace("matmul", "product"))
    await begin(client, tmp_path / "one")

    async def names() -> set[str]:
        return {s.name for s in await client.workspace_symbol_async(types.WorkspaceSymbolParams(query="prod"))}

    folder = types.WorkspaceFolder(uri=(tmp_path / "two").as_uri(), name="two")
    assert await names() == set()
    client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event=types.WorkspaceFoldersChangeEvent(added=[folder], removed=[])))
    assert await names() == {"product"}
    client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event=types.WorkspaceFoldersChangeEvent(added=[], removed=[folder])))
    assert await names() == set()


@pytest.mark.asyncio
async def test_files_changed_on_disk(client, tmp_path):
    (tmp_path / "shapes.py").write_text("BLOCK = 64\n")
    await begin(client, tmp_path)
    await until(lambda: any(r.method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES for r in client.registered))
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("import tilelang\n", "import tilelang\nfrom shapes import BLOCK\n").replace(
        "block_M=64, ", "block_M=BLOCK, "))
    assert await editor.diagnostics() == []
    assert "64" in await editor.hover("A_shared = ", 2)

    def changed(name: str) -> None:
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(
            changes=[types.FileEvent(uri=(tmp_path / name).as_uri(), type=types.FileChangeType.Changed)]))

    (tmp_path / "shapes.py").write_text("BLOCK = 128  # wider\n")
    changed("shapes.py")
    text = ""
    for _ in range(50):
        text = await editor.hover("A_shared = ", 2)
        if "128" in text:
            break
        await asyncio.sleep(0.05)
    assert "(128, 32)" in text
    editor.replace("T.clear", "T.cleer")
    await editor.diagnostics(lambda d: len(d) == 1)
    (tmp_path / "tile-lsp.toml").write_text('ignore = ["TL101"]\n')
    changed("tile-lsp.toml")
    assert await editor.diagnostics(lambda d: not d) == []


# -- notebooks ------------------------------------------------------------------------------------------------------------------
class Notebook:
    def __init__(self, client: LanguageClient, path, texts: list[str]):
        self.client, self.uri, self.texts, self.version = client, path.as_uri(), texts, 1
        self.cells = [f"vscode-notebook-cell:{path}#c{i}" for i in range(len(texts))]
        client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(
            notebook_document=types.NotebookDocument(uri=self.uri, notebook_type="jupyter-notebook", version=1, cells=[
                types.NotebookCell(kind=types.NotebookCellKind.Code, document=uri) for uri in self.cells]),
            cell_text_documents=[types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text) for uri, text in zip(self.cells, texts)]))

    def replace(self, cell: int, old: str, new: str) -> None:
        self.version += 1
        text = self.texts[cell] = self.texts[cell].replace(old, new)
        self.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(
            notebook_document=types.VersionedNotebookDocumentIdentifier(uri=self.uri, version=self.version),
            change=types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[types.NotebookDocumentCellContentChanges(
                document=types.VersionedTextDocumentIdentifier(uri=self.cells[cell], version=self.version),
                changes=[types.TextDocumentContentChangeWholeDocument(text=text)])]))))

    async def diagnostics(self, cell: int, wanted) -> list[types.Diagnostic]:
        return list(await until(lambda: (found := self.client.diagnostics.get(self.cells[cell])) is not None and wanted(found) and (list(found) or [None])))

    def place(self, cell: int, needle: str) -> dict:
        before = self.texts[cell][:self.texts[cell].index(needle)]
        return {"text_document": types.TextDocumentIdentifier(uri=self.cells[cell]),
                "position": types.Position(line=before.count("\n"), character=len(before) - before.rfind("\n") - 1)}


@pytest.mark.asyncio
async def test_notebooks(client, tmp_path):
    await begin(client, tmp_path)
    imports, rest = MATMUL.split("\n\n\n", 1)
    definition, call = rest.split("\n\n\n")
    book = Notebook(client, tmp_path / "n.ipynb", ["%pip install tilelang\n" + imports, definition.replace("T.clear", "T.cleer"), "!nvidia-smi\n" + call])
    (found,) = await book.diagnostics(1, lambda d: len(d) == 1)
    line = definition[:definition.index("T.clear")].count("\n")
    assert found.code == "TL101" and found.range.start.line == line and client.diagnostics[book.cells[0]] == ()
    await client.text_document_hover_async(types.HoverParams(**book.place(1, "A_shared")))
    book.replace(1, "T.cleer", "T.clear")
    await book.diagnostics(1, lambda d: not d)
    hover = await client.text_document_hover_async(types.HoverParams(**book.place(1, "A_shared")))
    assert "(64, 32)" in hover.contents.value and hover.range.start.line == book.place(1, "A_shared")["position"].line
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(text_document=types.TextDocumentIdentifier(uri=book.cells[1])))
    assert lenses[0].command.title == "▶ Run" and lenses[0].range.start.line == definition[:definition.index("def matmul")].count("\n")
    assert not await client.text_document_code_lens_async(types.CodeLensParams(text_document=types.TextDocumentIdentifier(uri=book.cells[0])))
    (place,) = await client.text_document_definition_async(types.DefinitionParams(**book.place(2, "matmul")))
    assert place.uri == book.cells[1] and place.range.start.line == lenses[0].range.start.line
    edit = await client.text_document_rename_async(types.RenameParams(**book.place(2, "matmul"), new_name="product"))
    assert {c.text_document.uri for c in edit.document_changes} == {book.cells[1], book.cells[2]}
    result = await client.workspace_execute_command_async(types.ExecuteCommandParams(command=lenses[0].command.command, arguments=list(lenses[0].command.arguments)))
    assert result["ok"] is True
    client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(
        notebook_document=types.NotebookDocumentIdentifier(uri=book.uri), cell_text_documents=[types.TextDocumentIdentifier(uri=u) for u in book.cells]))
    await client.workspace_symbol_async(types.WorkspaceSymbolParams(query="x"))


# -- pulling --------------------------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_pulled_diagnostics(client, tmp_path):
    (tmp_path / "closed.py").write_text(FAULTY)
    await begin(client, tmp_path, pull=True, diagnosticMode="pull")
    editor = Editor(client, tmp_path / "a.py", FAULTY)

    async def pull(previous: str | None = None):
        return await client.text_document_diagnostic_async(types.DocumentDiagnosticParams(text_document=editor.id, previous_result_id=previous))

    first = await pull()
    assert [d.code for d in first.items] == ["TL101"] and editor.uri not in client.diagnostics, "nothing is published besides"
    assert (await pull(first.result_id)).kind == "unchanged"
    editor.replace("Paralel", "Parallel")
    assert (await pull(first.result_id)).items == ()
    whole = await client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(previous_result_ids=[]))
    (report,) = whole.items
    assert report.uri.endswith("closed.py") and [d.code for d in report.items] == ["TL101"]
    again = await client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(previous_result_ids=[types.PreviousResultId(uri=report.uri, value=report.result_id)]))
    assert again.items[0].kind == "unchanged"


# -- runs -------------------------------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_a_failed_run_becomes_a_diagnostic_until_the_text_changes(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL + "fail_at_the_copy = 1\n")
    assert (await editor.click("▶ Run"))["ok"] is False
    (found,) = await editor.diagnostics(lambda d: len(d) == 1)
    assert found.source == "tile-lsp run" and found.code == "run-mismatch" and "C[3, 5]" in found.message
    assert found.range.start == editor.position("T.copy(C_local")
    editor.replace("fail_at_the_copy = 1\n", "")
    assert await editor.diagnostics(lambda d: not d) == []


@pytest.mark.asyncio
async def test_results_are_kept_with_their_change(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL)
    await editor.click("▶ Run")
    editor.replace("block_K=32", "block_K=64")
    await editor.click("▶ Run")
    kept = await client.protocol.send_request_async("tile-lsp/results", {"uri": editor.uri})
    kept = [k if isinstance(k, dict) else k._asdict() for k in kept]
    assert len(kept) == 2 and kept[0]["change"] == 0.0 and kept[1]["change"] is None and "0.195 ms" in kept[0]["summary"]
    compared = await editor.click("Compare")
    assert compared["ok"] is True and [r["against"] for r in compared["results"]] == ["interpreter", "reference"]
    (kernel,) = await client.protocol.send_request_async("tile-lsp/kernels", {"uri": editor.uri})
    kernel = kernel if isinstance(kernel, dict) else kernel._asdict()
    assert kernel["kernel"] == "matmul" and kernel["target"] == "sm_90a" and kernel["tilelang"] == "0.1.15"


# -- order, cancelling, many files ----------------------------------------------------------------------------------------------
class Raw:
    """A client that sends what it likes."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.number = 0

    @classmethod
    async def start(cls, command=FAKE_SERVER) -> Raw:
        return cls(await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL))

    def send(self, method: str, params=None, request: bool = True) -> int:
        self.number += request
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **({"id": self.number} if request else {})}
        body = json.dumps(message).encode()
        self.process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return self.number

    async def answer(self, number: int) -> dict:
        while True:
            length = 0
            while line := (await asyncio.wait_for(self.process.stdout.readline(), 60)).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            message = json.loads(await self.process.stdout.readexactly(length))
            if message.get("id") == number and "method" not in message:
                return message


@pytest.mark.asyncio
async def test_before_initialize_and_after_shutdown(tmp_path):
    raw = await Raw.start()
    hover = {"textDocument": {"uri": (tmp_path / "a.py").as_uri()}, "position": {"line": 0, "character": 0}}
    raw.send("textDocument/didOpen", {"textDocument": {"uri": hover["textDocument"]["uri"], "languageId": "python", "version": 1, "text": MATMUL}}, request=False)
    assert (await raw.answer(raw.send("textDocument/hover", hover)))["error"]["code"] == -32002
    assert "capabilities" in (await raw.answer(raw.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}})))["result"]
    assert (await raw.answer(raw.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}})))["error"]["code"] == -32600
    assert "error" not in await raw.answer(raw.send("textDocument/hover", hover)), "a request before the notification initialized is answered"
    raw.send("initialized", {}, request=False)
    assert (await raw.answer(raw.send("no/such/method", {})))["error"]["code"] == -32601
    assert "result" in await raw.answer(raw.send("shutdown"))
    assert (await raw.answer(raw.send("textDocument/hover", hover)))["error"]["code"] == -32600
    raw.send("exit", request=False)
    assert await asyncio.wait_for(raw.process.wait(), 60) == 0


@pytest.mark.asyncio
async def test_exit_without_shutdown_and_a_closed_pipe(tmp_path):
    raw = await Raw.start(SERVER)
    raw.send("exit", request=False)
    assert await asyncio.wait_for(raw.process.wait(), 60) == 1
    raw = await Raw.start()
    await raw.answer(raw.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}))
    raw.process.stdin.close()
    await asyncio.wait_for(raw.process.wait(), 60)


@pytest.mark.asyncio
async def test_cancelled_requests(tmp_path):
    raw = await Raw.start()
    await raw.answer(raw.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}))
    raw.send("initialized", {}, request=False)
    uri = (tmp_path / "a.py").as_uri()
    raw.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": MATMUL + "run_slowly = 1\n"}}, request=False)
    run = raw.send("workspace/executeCommand", {"command": "tile-lsp.run", "arguments": [{"uri": uri, "kernel": "matmul"}]})
    hover = raw.send("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 5, "character": 6}})
    raw.send("$/cancelRequest", {"id": run}, request=False)
    raw.send("$/cancelRequest", {"id": 999}, request=False)
    cancelled = await raw.answer(run)
    assert cancelled.get("error", {}).get("code") == -32800 or cancelled.get("result") is None
    answered = await raw.answer(raw.send("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 5, "character": 6}}))
    assert "matmul" in answered["result"]["contents"]["value"] and hover
    await raw.answer(raw.send("shutdown"))
    raw.send("exit", request=False)
    await asyncio.wait_for(raw.process.wait(), 60)


@pytest.mark.asyncio
async def test_fifty_files(client, tmp_path):
    await begin(client, tmp_path)
    begun = time.monotonic()
    editors = [Editor(client, tmp_path / f"k{i}.py", MATMUL.replace("matmul", f"matmul_{i}") if i % 2 else FAULTY) for i in range(50)]
    for i, editor in enumerate(editors):
        await editor.diagnostics(lambda d, i=i: len(d) == (0 if i % 2 else 1))
    opened = time.monotonic() - begun
    for i, editor in enumerate(editors):
        editor.replace(*(("T.clear", "T.cleer") if i % 2 else ("Paralel", "Parallel")))
    for i, editor in enumerate(editors):
        await editor.diagnostics(lambda d, i=i: len(d) == (1 if i % 2 else 0))
    assert opened < 60, f"{opened:.1f} s"
    if sys.platform == "linux":
        held = resident(client._server.pid)
        assert held < 200, f"{held:.0f} MiB with 50 files open"


def resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_every_answer_counts_in_the_clients_units(client, tmp_path, encoding):
    """Names, edits and tokens behind characters outside of the BMP, with Windows line ends."""
    await begin(client, tmp_path, encodings=[encoding])
    width = {"utf-8": lambda t: len(t.encode()), "utf-16": lambda t: len(t.encode("utf-16-le")) // 2, "utf-32": len}[encoding]
    line = '    note = "\U0001f600é"; block_M = block_M'
    text = MATMUL.replace("    @T.prim_func", line + "\n\n    @T.prim_func").replace("\n", "\r\n")
    editor = Editor(client, tmp_path / "a.py", text)
    number = next(i for i, t in enumerate(text.split("\r\n")) if t == line)
    second = types.Position(line=number, character=width(line[:line.rindex("block_M")]))
    marks = await client.text_document_document_highlight_async(types.DocumentHighlightParams(text_document=editor.id, position=second))
    here = [m.range for m in marks if m.range.start.line == number]
    assert [(r.start.character, r.end.character) for r in here] == [(width(line[:i]), width(line[:i + 7])) for i in (line.index("block_M"), line.rindex("block_M"))]
    items = await client.text_document_completion_async(types.CompletionParams(text_document=editor.id, position=types.Position(line=number, character=width(line))))
    assert items.items[0].text_edit.range == types.Range(start=second, end=types.Position(line=number, character=width(line)))
