"""Keystroke to diagnostics: a real server over stdio, a file of 1,000 lines, one character at a time.

    python benchmarks/lsp_latency.py [--lines 1000] [--keys 60] [--pause 0.4] [--json FILE]

Prints a table of p50 and p95 for ways of typing: with pauses (each key is answered by itself), steadily (a key every 120 ms) and
in a burst (ten keys 20 ms apart, measured from the last), all at module level; a new line and a statement in a kernel in the
middle of the file, with pauses; and the time of hovers and lenses on the same file.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

KERNEL = Path(__file__).resolve().parents[1] / "tests" / "editors" / "workspace" / "matmul.py"


def source(lines: int) -> str:
    """Kernels one after another until there are enough lines; the last has the place where the keys go."""
    body = KERNEL.read_text(encoding="utf-8").split("import tilelang.language as T\n")[1].split("kernel = ")[0]
    parts = ["import tilelang\nimport tilelang.language as T\n"]
    number = 0
    while sum(p.count("\n") for p in parts) < lines:
        parts.append(body.replace("matmul", f"matmul_{number}").replace("gemm(\n", f"gemm_{number}(\n").replace("return gemm", f"return gemm_{number}")
                     + f"\nkernel_{number} = matmul_{number}(128, 128, {128 + 32 * number})\n")
        number += 1
    return "".join(parts) + "marker = 1\n"


class Typist:
    def __init__(self, client: LanguageClient, uri: str, text: str):
        self.client, self.uri, self.text, self.version = client, uri, text, 1
        self.published: dict[int, float] = {}
        self.arrived = asyncio.Event()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published[params.version or 0] = time.perf_counter()
            self.arrived.set()

        client.text_document_did_open(types.DidOpenTextDocumentParams(
            text_document=types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)))

    def key(self) -> float:
        """Type one digit behind the marker; returns when."""
        return self.insert(self.text.index("marker = ") + 9, "1")

    def insert(self, index: int, character: str) -> float:
        self.version += 1
        before = self.text[:index]
        place = types.Position(line=before.count("\n"), character=index - before.rfind("\n") - 1)
        self.text = before + character + self.text[index:]
        begun = time.perf_counter()
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(
            text_document=types.VersionedTextDocumentIdentifier(uri=self.uri, version=self.version),
            content_changes=[types.TextDocumentContentChangePartial(range=types.Range(start=place, end=place), text=character)]))
        return begun

    async def diagnostics(self, version: int, timeout: float = 10.0) -> float:
        end = time.perf_counter() + timeout
        while version not in self.published:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), max(end - time.perf_counter(), 0.01))
        return self.published[version]


async def measure(lines: int, keys: int, pause: float) -> dict[str, list[float]]:
    client = LanguageClient("latency", "1")
    await client.start_io(sys.executable, "-m", "tile_lsp.cli.main", "serve")
    with tempfile.TemporaryDirectory() as folder:
        await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities(), root_uri=Path(folder).as_uri(),
                                                             initialization_options={"tilelangVersion": "latest", "loweredInHover": False}))
        client.initialized(types.InitializedParams())
        uri = (Path(folder) / "kernels.py").as_uri()
        begun = time.perf_counter()
        typist = Typist(client, uri, source(lines))
        found = {"open": [await typist.diagnostics(1) - begun], "with pauses": [], "steadily": [], "burst": [], "hover": [], "lenses": []}
        for _ in range(keys):
            await asyncio.sleep(pause)
            begun = typist.key()
            found["with pauses"].append(await typist.diagnostics(typist.version) - begun)
        await asyncio.sleep(pause)
        pressed = {}
        for _ in range(keys):
            begun = typist.key()
            pressed[typist.version] = begun
            await asyncio.sleep(0.12)
        await typist.diagnostics(typist.version)
        found["steadily"] = [min(t for v, t in typist.published.items() if v >= version) - begun for version, begun in pressed.items()]
        for _ in range(max(keys // 10, 3)):
            await asyncio.sleep(pause)
            for _ in range(10):
                begun = typist.key()
                await asyncio.sleep(0.02)
            found["burst"].append(await typist.diagnostics(typist.version) - begun)
        found["in a kernel"] = await _type_in_a_kernel(typist, pause)
        await _requests(client, typist, found, keys)
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
    return found


async def _type_in_a_kernel(typist: Typist, pause: float) -> list[float]:
    """A statement typed at the end of a line in the middle of the file, from the new line on; most keys leave a syntax error."""
    index = typist.text.index("T.clear(C_local)", len(typist.text) // 2) + len("T.clear(C_local)")
    line = typist.text[:index].rsplit("\n", 1)[-1]
    typed = "\n" + " " * (len(line) - len(line.lstrip())) + "T.fill(C_local, 0)"
    times = []
    for offset, character in enumerate(typed):
        await asyncio.sleep(pause)
        begun = typist.insert(index + offset, character)
        times.append(await typist.diagnostics(typist.version) - begun)
    return times


async def _requests(client: LanguageClient, typist: Typist, found: dict[str, list[float]], keys: int) -> None:
    item = types.TextDocumentIdentifier(uri=typist.uri)
    lines = typist.text.split("\n")
    places = [(n, t.index("T.copy") + 3) for n, t in enumerate(lines) if "T.copy" in t]
    for n, column in places[:keys]:
        begun = time.perf_counter()
        await client.text_document_hover_async(types.HoverParams(text_document=item, position=types.Position(line=n, character=column)))
        found["hover"].append(time.perf_counter() - begun)
    for _ in range(10):
        begun = time.perf_counter()
        await client.text_document_code_lens_async(types.CodeLensParams(text_document=item))
        found["lenses"].append(time.perf_counter() - begun)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.4)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    found = asyncio.run(measure(args.lines, args.keys, args.pause))
    rows = {name: {"n": len(v), "p50_ms": statistics.median(v) * 1e3, "p95_ms": percentile(v, 0.95) * 1e3, "max_ms": max(v) * 1e3}
            for name, v in found.items() if v}
    print(f"{args.lines} lines, milliseconds\n{'':14}{'n':>5}{'p50':>9}{'p95':>9}{'max':>9}")
    for name, row in rows.items():
        print(f"{name:14}{row['n']:5}{row['p50_ms']:9.1f}{row['p95_ms']:9.1f}{row['max_ms']:9.1f}")
    if args.json:
        Path(args.json).write_text(json.dumps({"lines": args.lines, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
