"""What is answered before the server is loaded: the same as the server would say, once, and only where all is as expected."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pygls.workspace import PositionCodec

from tile_lsp.ide import environment, preferences
from tile_lsp.ide.document import Document
from tile_lsp.ide.snapshot import Snapshot
from tile_lsp.server import convert, early, plain
from tile_lsp.server.places import Places
from tile_lsp.server.protocol import converter

ROOT = Path(__file__).resolve().parents[1]
BROKEN = sorted((ROOT / "examples" / "broken").glob("*.py"))
TEXT = (ROOT / "tests" / "editors" / "workspace" / "matmul.py").read_text(encoding="utf-8")
FAULT = TEXT.replace("T.clear(", "T.cleer(", 1)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="elsewhere the server waits until it is loaded")


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def initialize(**options: Any) -> bytes:
    return frame({"id": 0, "method": "initialize", "params": {"processId": os.getpid(), "rootUri": None, "initializationOptions": {"tilelangVersion": "latest", "prepareRuns": False, **options},
                                                              "capabilities": {"textDocument": {"publishDiagnostics": {}, "hover": {"contentFormat": ["markdown"]}}}}})


INITIALIZED = frame({"method": "initialized", "params": {}})
END = frame({"id": 99, "method": "shutdown"}) + frame({"method": "exit"})


def opened(path: Path, text: str) -> bytes:
    return frame({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}}})


def asked(number: int, method: str, path: Path, **params: Any) -> bytes:
    return frame({"id": number, "method": f"textDocument/{method}", "params": {"textDocument": {"uri": path.as_uri()}, **params}})


def talk(sent: list[bytes], until: Any, pause: float = 0.0) -> list[dict[str, Any]]:
    """All messages of a server, which is told to leave when ``until`` says of what came that it is enough."""
    server = subprocess.Popen([sys.executable, "-m", "tile_lsp.cli.main", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    for part in sent:
        server.stdin.write(part)
        server.stdin.flush()
        time.sleep(pause)
    came: list[dict[str, Any]] = []
    left = False
    watchdog = threading.Timer(40, server.kill)
    watchdog.start()
    while line := server.stdout.readline():
        length = int(line.split(b":")[1])
        while (line := server.stdout.readline()).strip():
            pass
        came.append(json.loads(server.stdout.read(length)))
        if not left and until(came):
            left = True
            server.stdin.write(END)
            server.stdin.flush()
    assert server.wait(20) == 0
    watchdog.cancel()
    server.stdin.close()
    server.stdout.close()
    return came


def published(came: list[dict[str, Any]], version: int = 1) -> list[dict[str, Any]]:
    return [m["params"] for m in came if m.get("method") == "textDocument/publishDiagnostics" and m["params"].get("version") == version]


def answers(came: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [m for m in came if "method" not in m and m.get("id") == number]


def has_published(came: list[dict[str, Any]]) -> bool:
    return bool(published(came))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_plain_diagnostics_are_those_of_the_protocols_classes(encoding: str):
    seen = 0
    for path in BROKEN:
        text = path.read_text(encoding="utf-8").replace("T.Kernel(", "T.Kernel(  ", 1)
        for made in (text, "\n".join(f"{line}  # 𝓜é" if line.strip().endswith(")") and "#" not in line else line for line in text.split("\n"))):
            document = Document(str(path), made, 1)
            chosen = preferences.Preferences(tilelang_version="latest")
            found = Snapshot(document, chosen, environment.for_document(document.path, chosen)).diagnostics()
            places = Places(path.as_uri(), document, PositionCodec(encoding), (), lambda path: [])
            theirs = json.loads(json.dumps(converter().unstructure([convert.to_diagnostic(places, d) for d in found])))
            ours = plain.published(path.as_uri(), document, found, encoding)
            if ours is not None:
                seen += len(found)
                assert ours["diagnostics"] == theirs and ours["version"] == 1, path
    assert seen > 50


def test_the_second_start_says_the_same_as_the_first(tmp_path):
    path = tmp_path / "kernels.py"
    line = next(i for i, text in enumerate(FAULT.split("\n")) if "T.copy(" in text)
    sent = [initialize(), INITIALIZED, opened(path, FAULT), asked(1, "hover", path, position={"line": line, "character": FAULT.split("\n")[line].index("T.copy") + 3}),
            asked(2, "documentSymbol", path)]

    def all_there(came: list[dict[str, Any]]) -> bool:
        return has_published(came) and bool(answers(came, 1)) and bool(answers(came, 2))

    first, second = talk(sent, all_there), talk(sent, all_there)
    assert [m.get("id", m.get("method")) for m in second[:2]] == [0, "textDocument/publishDiagnostics"]  # before all else
    for number in (0, 1, 2, 99):
        assert len(answers(first, number)) == len(answers(second, number)) == 1
        assert answers(first, number)[0].get("result") == answers(second, number)[0].get("result"), number
    assert published(second)[0] == published(first)[0] and published(second)[0]["diagnostics"][0]["code"] == "TL101"
    assert answers(second, 1)[0]["result"] and answers(second, 2)[0]["result"]


def test_an_edit_right_behind_the_opening_counts(tmp_path):
    path = tmp_path / "kernels.py"
    edit = frame({"method": "textDocument/didChange", "params": {"textDocument": {"uri": path.as_uri(), "version": 2}, "contentChanges": [{"text": FAULT}]}})
    for _ in range(2):
        came = talk([initialize(), INITIALIZED, opened(path, TEXT), edit], lambda came: bool(published(came, 2)))
        assert [d["code"] for d in published(came, 2)[-1]["diagnostics"]] == ["TL101"]
        assert [m["params"].get("version") for m in came if m.get("method") == "textDocument/publishDiagnostics"][-1] == 2
        assert all(not p["diagnostics"] for p in published(came))


def test_settings_told_before_the_opening_count(tmp_path):
    path = tmp_path / "kernels.py"
    told = frame({"method": "workspace/didChangeConfiguration", "params": {"settings": {"tile-lsp": {"ignore": ["TL101"]}}}})
    for _ in range(2):
        came = talk([initialize(), INITIALIZED, told, opened(path, FAULT)], has_published)
        assert all(not p["diagnostics"] for p in published(came))


def test_what_comes_in_crumbs_or_out_of_order_is_answered(tmp_path):
    path = tmp_path / "kernels.py"
    whole = initialize() + INITIALIZED + opened(path, FAULT)
    talk([whole], has_published)
    came = talk([whole[i:i + 700] for i in range(0, len(whole), 700)], has_published, pause=0.01)
    assert [d["code"] for d in published(came)[0]["diagnostics"]] == ["TL101"] and len(answers(came, 0)) == 1
    came = talk([asked(5, "hover", path, position={"line": 0, "character": 0}), whole], has_published)
    assert answers(came, 5)[0]["error"]["code"] == -32002 and len(answers(came, 0)) == 1
    came = talk([initialize(), INITIALIZED, asked(6, "documentSymbol", path), opened(path, FAULT)], lambda came: has_published(came) and bool(answers(came, 6)))
    assert len(answers(came, 0)) == 1 and len(answers(came, 6)) == 1
    came = talk([initialize(), initialize(), INITIALIZED, opened(path, FAULT)], has_published)
    assert sorted("error" in m for m in answers(came, 0)) == [False, True]  # the second one is refused


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"capabilities": 3}', b"\xff\x00"])
def test_damaged_memory_is_forgotten(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernels.py"
    sent = [initialize(), INITIALIZED, opened(path, FAULT)]
    first = talk(sent, has_published)
    files = list((tmp_path / "cache" / "answers").iterdir())
    assert len(files) == 1
    files[0].write_bytes(damage)
    came = talk(sent, has_published)
    assert answers(came, 0) == answers(first, 0) and published(came)[0]["diagnostics"]
    assert json.loads(files[0].read_bytes()) == answers(first, 0)[0]["result"]


def test_only_so_many_answers_are_kept(tmp_path, monkeypatch):
    from tile_lsp.server import answers as memory

    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path / "cache"))
    for number in range(40):
        memory.remember(memory.key({"capabilities": {"number": number}}), {"capabilities": {"number": number}})
    assert len(list((tmp_path / "cache" / "answers").iterdir())) <= 16
    assert memory.recall(memory.key({"capabilities": {"number": 39}, "processId": 4})) == {"capabilities": {"number": 39}}
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(Path(__file__) / "below-a-file"))
    memory.remember("x", {"capabilities": {}})
    assert memory.recall("x") is None


def test_a_client_that_leaves_at_once_ends_the_server():
    for sent in (b"", initialize(), initialize()[:40], b"Content-Length: x\r\n\r\n"):
        server = subprocess.Popen([sys.executable, "-m", "tile_lsp.cli.main", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        server.communicate(sent, timeout=30)
        assert server.returncode is not None


def test_what_was_read_is_given_again_and_a_read_can_be_ended():
    read, write = os.pipe()
    os.write(write, initialize() + INITIALIZED + b"Content-Length: 5\r\n\r\nab")
    stdin = early.Input(read)
    assert stdin.message(None)["method"] == "initialize" and stdin.message(0.1)["method"] == "initialized"
    os.write(write, b"cde")
    size = int(stdin.readline().split(b":")[1])
    assert stdin.readline() == b"\r\n" and json.loads(stdin.read(size))["method"] == "initialize"
    size = int(stdin.readline().split(b":")[1])
    assert stdin.readline() == b"\r\n" and json.loads(stdin.read(size))["method"] == "initialized"
    assert stdin.readline() == b"Content-Length: 5\r\n" and stdin.readline() == b"\r\n" and stdin.read(5) == b"abcde"
    threading.Timer(0.1, stdin.stop).start()
    assert stdin.readline() == b"" == stdin.read(3)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("wait", [0.0, 3.0])
def test_an_exit_that_does_not_wait_for_the_answer_to_shutdown(tmp_path, wait):
    server = subprocess.Popen([sys.executable, "-m", "tile_lsp.cli.main", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(initialize() + INITIALIZED + opened(tmp_path / "kernels.py", TEXT))
    server.stdin.flush()
    time.sleep(wait)
    server.stdin.write(END)
    server.stdin.flush()  # and it stays open
    assert server.wait(30) == 0
    assert b'"id": 99' in server.stdout.read()
    server.stdin.close()
    server.stdout.close()
