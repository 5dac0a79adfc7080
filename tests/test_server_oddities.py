"""What nobody should do, and somebody does: renames to keywords, instances that are gone, documents closed while they run, leaving in the middle."""
from __future__ import annotations

import asyncio
import json
import os
import subprocess

import pytest
import pytest_lsp
from lsp_client import FAKE_SERVER, Editor, begin, config
from lsprotocol import types
from pytest_lsp import LanguageClient
from test_server_protocol import MATMUL

from tile_lsp.ide import execution

SLOW = MATMUL + "\nrun_slowly = True\n"
TWO = MATMUL + "\nmatmul(256, 256, 256)\n"


@pytest_lsp.fixture(config=config(FAKE_SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


async def command(client, name: str, editor: Editor, **arguments):
    asked = types.ExecuteCommandParams(command=f"tile-lsp.{name}", arguments=[{"uri": editor.uri, **arguments}])
    return await client.workspace_execute_command_async(asked)


def rename(client, editor: Editor, new: str):
    return client.text_document_rename_async(types.RenameParams(text_document=editor.id, position=editor.position("C_local", 1), new_name=new))


@pytest.mark.asyncio
@pytest.mark.parametrize(("new", "why"), [("lambda", "no name that Python takes"), ("1x", "no name"), ("", "no name"), ("block_M", "already the name"),
                                          ("T", "already the name"), ("print", "already the name")])
async def test_a_name_that_cannot_be_taken_is_refused_in_words(client, tmp_path, new, why):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL + "\nprint(kernel)\n")
    with pytest.raises(Exception, match=why):
        await rename(client, editor, new)
    assert (await rename(client, editor, "acc")).document_changes


@pytest.mark.asyncio
async def test_an_instance_that_is_gone_is_not_exchanged_for_another(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", TWO)
    assert await command(client, "run", editor, kernel="matmul", instance="matmul(7, 7, 7)") is None
    assert client.messages[-1].message.startswith("matmul has no instance matmul(7, 7, 7) any more. Its instances: matmul(128")
    kept = await command(client, "chooseInstance", editor, kernel="matmul", text="matmul(7, 7, 7)")
    assert kept["instance"] == "matmul(128, 128, 128)" and client.messages[-1].message.startswith("matmul has no instance")


@pytest.mark.asyncio
async def test_a_run_goes_on_when_its_document_is_closed_and_its_result_is_there_when_it_is_opened_again(client, tmp_path):
    await begin(client, tmp_path)
    path = tmp_path / "matmul.py"
    editor = Editor(client, path, MATMUL)
    running = asyncio.ensure_future(editor.click("▶ Run"))
    while not client.progress_reports:
        await asyncio.sleep(0.01)
    client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=editor.id))
    again = Editor(client, path, MATMUL)
    assert [lens.command.title for lens in await again.lenses()] == ["… running", "CUDA"]
    assert (await running)["ok"]
    assert [lens.command.title for lens in await again.lenses()][3:] == ["✓ max err 4.9e-4 · 0.195 ms · cpu"]


@pytest.mark.asyncio
async def test_lowered_code_follows_the_instance_that_is_shown(client, tmp_path):
    """What was opened for the shown instance is that of the next one once it is chosen; what was opened for another stays."""
    await begin(client, tmp_path, virtualDocuments=True)
    editor = Editor(client, tmp_path / "matmul.py", MATMUL + "\nmatmul(256, 256, 256)\n")

    async def lowered(uri: str) -> str:
        return (await client.protocol.send_request_async("tile-lsp/lowered", {"uri": uri})).facts.asked

    async def show(**arguments) -> str:
        command = types.ExecuteCommandParams(command="tile-lsp.showLowered", arguments=[{"uri": editor.uri, "kernel": "matmul", **arguments}])
        return (await client.workspace_execute_command_async(command))["uri"]

    shown, other = await show(), await show(instance="matmul(256, 256, 256)")
    assert (await lowered(shown), await lowered(other)) == ("matmul(128, 128, 128)", "matmul(256, 256, 256)")
    await editor.click("matmul(128, 128, 128) (1 of 2)")
    assert (await lowered(shown), await lowered(other), client.chosen) == ("matmul(256, 256, 256)", "matmul(256, 256, 256)", ["matmul"])


@pytest.mark.asyncio
async def test_a_cancelled_request_ends_its_run(client, tmp_path):
    """The client's own cancel, not that of the progress."""
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "matmul.py", SLOW)
    asked = types.ExecuteCommandParams(command="tile-lsp.run", arguments=[{"uri": editor.uri, "kernel": "matmul"}])
    client.protocol.send_request(types.WORKSPACE_EXECUTE_COMMAND, asked, msg_id="the run")
    while not client.progress_reports:
        await asyncio.sleep(0.01)
    client.cancel_request(types.CancelParams(id="the run"))
    for _ in range(200):
        if client.messages:
            break
        await asyncio.sleep(0.02)
    assert "cancelled" in client.messages[-1].message
    assert [lens.command.title for lens in await editor.lenses()] == ["▶ Run", "Compare", "CUDA"]


def test_a_file_that_does_not_parse_is_not_run_and_says_where():
    text = MATMUL + "\nif\n"
    reply = execution.answer({"path": "kernel.py", "text": text, "kernel": "matmul", "target": "cpu"}, lambda step: None)
    line = len(text.splitlines())
    assert not reply["ok"] and f"kernel.py:{line}:" in reply["error"] and "fault of tile-lsp" not in reply["error"], reply


def test_leaving_while_a_kernel_runs_is_answered_and_a_refusal_leaves_no_trace(tmp_path):
    def message(body: dict) -> bytes:
        text = json.dumps({"jsonrpc": "2.0", **body}).encode()
        return b"Content-Length: %d\r\n\r\n" % len(text) + text

    uri = (tmp_path / "matmul.py").as_uri()
    arguments = [{"uri": uri, "kernel": "matmul"}]
    sent = [{"id": 1, "method": "initialize", "params": {"processId": os.getpid(), "rootUri": tmp_path.as_uri(), "capabilities": {}}},
            {"method": "initialized", "params": {}},
            {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": SLOW}}},
            {"id": 2, "method": "textDocument/rename", "params": {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}, "newName": "x"}},
            {"id": 3, "method": "workspace/executeCommand", "params": {"command": "tile-lsp.run", "arguments": arguments}},
            {"id": 4, "method": "workspace/executeCommand", "params": {"command": "tile-lsp.run", "arguments": arguments}}]
    server = subprocess.Popen(FAKE_SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    server.stdin.write(b"".join(map(message, sent)))
    server.stdin.flush()
    seen = b""
    while b'"id": 4' not in seen and b'"id":4' not in seen:  # the second run is told that there is one; the first one goes on
        seen += os.read(server.stdout.fileno(), 1 << 16)
    said, errors = server.communicate(message({"id": 5, "method": "shutdown"}) + message({"method": "exit"}), timeout=30)
    (answer,) = [part for part in said.split(b"Content-Length") if b'"id": 5' in part or b'"id":5' in part]
    assert b'"error"' not in answer and b"Traceback" not in errors, (answer, errors.decode())
    assert server.returncode == 0
