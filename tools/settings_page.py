"""Writes docs/settings.md from the extension's package.json, the project keys and the command line's own tables.

    python tools/settings_page.py            # write it
    python tools/settings_page.py --check    # exit 1 if it is not up to date
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "settings.md"
_INTRO = """# Settings

<!-- Written by tools/settings_page.py; do not edit. -->

There are two places: the **editor** says what one person wants (which interpreter, where kernels run), the **project** says what holds for
everybody who works on it (targets, rules, instances). Where both say something, the editor wins, except that ignored rules add up.

## In the editor

In VS Code these are settings under `tile-lsp.`; in other editors they go into the initialization options, or are answered to
`workspace/configuration` as `tile-lsp`, per workspace folder if they differ.

| setting | default | what |
|---|---|---|
"""
_ONLY_VSCODE = {"serverCommand", "installPackage", "trace.server"}
_PROTOCOL = """
Initialization options of other clients, besides those not marked *VS Code*:

| option | what |
|---|---|
| `interpreter` | the Python whose TileLang is checked against, `/path/to/bin/python` |
| `instances` | calls to check kernels at, `["matmul(1024, 1024, 1024)"]` |
| `virtualDocuments` | `true`: the client shows lowered code itself, from the answer of `tile-lsp.showLowered`; else a read-only file is written and shown |
| `diagnosticMode` | `"push"` (default) or `"pull"`, for clients that ask for diagnostics |

"""
_PROJECT = """## In the project

In `tile-lsp.toml`, or in `[tool.tile-lsp]` of `pyproject.toml`; the nearest one above a file holds. `tile-lsp config` shows which one that is,
`tile-lsp config --schema` prints a JSON schema.

| key | what | example |
|---|---|---|
"""
_COMMENTS = """
## In a file

| comment | what |
|---|---|
| `# tile-lsp: instance M=4096, N=4096, dtype="float16"` | above a kernel: arguments to check, show and run it at; may be repeated |
| `# tile-lsp: ignore[TL501, gemm]` | in a line (or on a line of its own, for the next): leaves rules out; without brackets all of them |
| `# tile-lsp: ignore-file[TL603]` | anywhere: for the whole file |
| `# tile-lsp: reference=name` | the function that results are compared with |
| `# tile-lsp: inputs=name` | the function that makes the inputs |

## In the environment

| variable | what |
|---|---|
| `TILE_LSP_CACHE_DIR` | where results of checks, lowered files and the history of runs are kept |
| `TILELANG_CACHE_DIR`, `TILELANG_DISABLE_CACHE` | where compiled kernels are kept; `1` keeps none |
| `TILE_LSP_WORKER_MEMORY_MB` | memory a worker may hold before it is ended; default: 80 % of the machine's |
| `CUDA_HOME` | the CUDA toolkit, where `nvcc` is not on the path |
| `TILEC_CUDA_COMPILER` | `nvcc` compiles with nvcc even where NVRTC, which is faster, is found |
"""


def page() -> str:
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    from tile_lsp.ide.project_keys import KEYS

    properties = json.loads((ROOT / "vscode-extension" / "package.json").read_text())["contributes"]["configuration"]["properties"]
    rows = []
    for name, schema in properties.items():
        own = name.removeprefix("tile-lsp.")
        text = schema.get("markdownDescription") or schema["description"]
        rows.append(f"| `{own}`{' (VS Code)' if own in _ONLY_VSCODE else ''} | `{json.dumps(schema['default'])}` | {_cell(text)} |")
    keys = [f"| `{name}` | {_cell(key.text)} | `{_cell(json.dumps(key.example))}` |" for name, key in KEYS.items()]
    return _INTRO + "\n".join(rows) + "\n" + _PROTOCOL + _PROJECT + "\n".join(keys) + "\n" + _COMMENTS


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from page import keep

    sys.exit(keep(PAGE, page(), "tools/settings_page.py"))
