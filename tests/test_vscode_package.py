"""The extension's own files: snippets that are sound kernels, settings that the server knows, commands that exist."""
from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tilec.check import check_analysis
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import find

from tile_lsp.ide.preferences import _NAMES
from tile_lsp.releases import manifest

FOLDER = Path(__file__).resolve().parents[1] / "vscode-extension"
PACKAGE = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
SNIPPETS = json.loads((FOLDER / "snippets" / "tilelang.json").read_text(encoding="utf-8"))
CALLS = {"tl-kernel": "scale(1024)", "tl-gemm": "matmul(1024, 1024, 1024)"}


def expanded(body: list[str]) -> str:
    """The text of a snippet whose reader accepts every default."""
    text = "\n".join(body)
    defaults = dict(re.findall(r"\$\{(\d+):([^}]*)\}", text))
    text = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", text)
    return re.sub(r"\$(\d+)", lambda m: defaults.get(m.group(1), ""), text)


@pytest.mark.parametrize("name", [n for n, s in SNIPPETS.items() if any("def " in line for line in s["body"])])
def test_snippets_are_sound_kernels(name):
    snippet = SNIPPETS[name]
    call = CALLS.get(snippet["prefix"], "")
    text = f"import tilelang\nimport tilelang.language as T\n\n\n{expanded(snippet['body'])}\n\n\n{call}\n"
    analysis = analyse(SourceFile("snippet.py", text))
    assert [k.name for k in analysis.kernels], text
    found = check_analysis(analysis, [find("sm_90a")], manifest.load("latest"))
    assert not found and not analysis.source.syntax_errors, (text, found)


def test_every_setting_reaches_the_server():
    own = {"serverCommand", "installPackage", "trace.server"}
    names = {n.removeprefix("tile-lsp.") for n in PACKAGE["contributes"]["configuration"]["properties"]}
    assert names - own <= set(_NAMES)


def test_every_command_is_registered_once():
    source = "\n".join(p.read_text(encoding="utf-8") for p in (FOLDER / "src").glob("*.ts"))
    for command in (c["command"] for c in PACKAGE["contributes"]["commands"]):
        assert len(re.findall(rf"(?:registerCommand\(|on\()\s*'{re.escape(command)}'", source)) == 1, command
    used = {i["command"] for items in PACKAGE["contributes"]["menus"].values() for i in items}
    assert used <= {c["command"] for c in PACKAGE["contributes"]["commands"]}


def test_the_walkthrough_and_snippets_are_there():
    files = [s["media"]["markdown"] for w in PACKAGE["contributes"]["walkthroughs"] for s in w["steps"]]
    files += [s["path"] for s in PACKAGE["contributes"]["snippets"]] + [PACKAGE["icon"]]
    assert all((FOLDER / f).is_file() for f in files)
