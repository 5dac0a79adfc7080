"""The language server under somebody's hands: a real server over stdio and a file of 1,000 lines.

    python benchmarks/lsp_latency.py [--lines 1000] [--keys 60] [--pause 0.4] [--edits 500] [--requests 500] [--soak 10000] [--json FILE]

Three parts. *Keys*: keystroke to diagnostics, typed with pauses, steadily (a key every 120 ms), in bursts of ten, and as a statement in
the middle of the file. *Mixed*: ``--edits`` edits with ``--requests`` requests of all kinds between them, as an editor sends them while
somebody types and looks around; time by kind of request. *Soak*: ``--soak`` edits one after another; the server's memory at the
beginning and at the end, and whether the last diagnostics are those of the last text.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsp_wire import Wire

KERNEL = Path(__file__).resolve().parents[1] / "tests" / "editors" / "workspace" / "matmul.py"
GOALS = {"start and open": 400.0, "with pauses": 50.0, "hover": 30.0, "completion": 50.0, "references": 100.0}  # milliseconds at the 95th percentile


def source(lines: int) -> str:
    """Kernels one after another until there are enough lines; the last line has the place where the keys go."""
    body = KERNEL.read_text(encoding="utf-8").split("import tilelang.language as T\n")[1].split("kernel = ")[0]
    parts = ["import tilelang\nimport tilelang.language as T\n"]
    number = 0
    while sum(p.count("\n") for p in parts) < lines:
        parts.append(body.replace("matmul", f"matmul_{number}").replace("gemm(\n", f"gemm_{number}(\n").replace("return gemm", f"return gemm_{number}")
                     + f"\nkernel_{number} = matmul_{number}(128, 128, {128 + 32 * number})\n")
        number += 1
    return "".join(parts) + "marker = 1\n"


class Typist:
    """Somebody who types into one file."""

    def __init__(self, uri: str, text: str):
        self.uri, self.text, self.version = uri, text, 1
        self.published: dict[int, float] = {}
        self.last: dict[str, Any] = {}
        self.arrived = asyncio.Event()
        self.wire = Wire(self._heard)

    def _heard(self, method: str, params: Any) -> None:
        if method == "textDocument/publishDiagnostics":
            self.published[params.get("version") or 0] = time.perf_counter()
            self.last = params
            self.arrived.set()

    def open(self) -> None:
        self.wire.notify("textDocument/didOpen", {"textDocument": {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}})

    def key(self) -> float:
        """Type one digit behind the marker; returns when."""
        return self.insert(self.text.index("marker = ") + 9, "1")

    def insert(self, index: int, text: str, removed: int = 0) -> float:
        self.version += 1
        start, end = self.position(index), self.position(index + removed)
        self.text = self.text[:index] + text + self.text[index + removed:]
        begun = time.perf_counter()
        self.wire.notify("textDocument/didChange", {"textDocument": {"uri": self.uri, "version": self.version},
                                                    "contentChanges": [{"range": {"start": start, "end": end}, "text": text}]})
        return begun

    def position(self, index: int) -> dict[str, int]:
        before = self.text[:index]
        return {"line": before.count("\n"), "character": index - before.rfind("\n") - 1}

    async def diagnostics(self, version: int, timeout: float = 10.0) -> float:
        end = time.perf_counter() + timeout
        while version not in self.published:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), max(end - time.perf_counter(), 0.01))
        return self.published[version]


# -- keys ------------------------------------------------------------------------------------------------------------------------
async def keys(typist: Typist, count: int, pause: float, found: dict[str, list[float]]) -> None:
    found["with pauses"] = []
    for _ in range(count):
        await asyncio.sleep(pause)
        begun = typist.key()
        found["with pauses"].append(await typist.diagnostics(typist.version) - begun)
    await asyncio.sleep(pause)
    pressed = {}
    for _ in range(count):
        begun = typist.key()
        pressed[typist.version] = begun
        await asyncio.sleep(0.12)
    await typist.diagnostics(typist.version)
    found["steadily"] = [min(t for v, t in typist.published.items() if v >= version) - begun for version, begun in pressed.items()]
    found["burst"] = []
    for _ in range(max(count // 10, 3)):
        await asyncio.sleep(pause)
        for _ in range(10):
            begun = typist.key()
            await asyncio.sleep(0.02)
        found["burst"].append(await typist.diagnostics(typist.version) - begun)
    found["in a kernel"] = await _type_in_a_kernel(typist, pause)


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


# -- mixed -----------------------------------------------------------------------------------------------------------------------
def requests(typist: Typist, chance: random.Random) -> dict[str, Callable[[], Awaitable[Any]]]:
    """A request of each kind at a place that somebody would ask it at."""
    def ask(method: str, **params: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: typist.wire.request(f"textDocument/{method}", {"textDocument": {"uri": typist.uri}, **params})

    def somewhere(word: str, offset: int) -> dict[str, int]:
        return typist.position(chance.choice([m.start() for m in re.finditer(re.escape(word), typist.text)]) + offset)

    def lines(first: int, last: int) -> dict[str, Any]:
        return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}

    line = chance.randrange(typist.text.count("\n"))
    window, whole = lines(line, line + 50), lines(0, 99999)
    return {
        "hover": ask("hover", position=somewhere("T.copy", 3)),
        "completion": ask("completion", position=somewhere("T.copy", 2)),
        "signature help": ask("signatureHelp", position=somewhere("T.gemm(", 8)),
        "definition": ask("definition", position=somewhere("A_shared, B", 2)),
        "references": ask("references", position=somewhere("A_shared, B", 2), context={"includeDeclaration": True}),
        "highlight": ask("documentHighlight", position=somewhere("C_local", 2)),
        "rename": ask("rename", position=somewhere("C_local", 2), newName="accumulator"),
        "symbols": ask("documentSymbol"),
        "lenses": ask("codeLens"),
        "actions": ask("codeAction", range=window, context={"diagnostics": []}),
        "tokens": ask("semanticTokens/range", range=window),
        "hints": ask("inlayHint", range=window),
        "folding": ask("foldingRange"),
        "all tokens": ask("semanticTokens/full"),
        "all hints": ask("inlayHint", range=whole),
    }


async def mixed(typist: Typist, edits: int, count: int, interval: float, found: dict[str, list[float]]) -> int:
    """Edits with requests between them; returns how many requests had no answer."""
    chance = random.Random(7)
    unanswered = 0
    pending: list[asyncio.Task] = []

    async def timed(name: str, ask: Callable[[], Awaitable[Any]]) -> None:
        nonlocal unanswered
        begun = time.perf_counter()
        try:
            await asyncio.wait_for(ask(), 20)
            found.setdefault(name, []).append(time.perf_counter() - begun)
        except Exception as error:
            unanswered += "cannot be renamed" not in str(error) and "does not parse" not in str(error)

    marker = typist.text.index("marker = ") + 9
    for number in range(max(edits, count)):
        if number < edits:
            if number % 10 == 9:  # every tenth edit is in a kernel: a fault typed and taken back
                word = "T.clear(" if number % 20 == 9 else "T.cleer("
                if word not in typist.text:
                    word = "T.clear("
                typist.insert(typist.text.index(word), "T.cleer(" if word == "T.clear(" else "T.clear(", len(word))
            else:
                typist.insert(marker, "1" if number % 2 else "2", 1)
        if number < count:
            kinds = requests(typist, chance)
            name = list(kinds)[number % len(kinds)]
            pending.append(asyncio.create_task(timed(name, kinds[name])))
        await asyncio.sleep(interval)
    await asyncio.gather(*pending)
    while "T.cleer(" in typist.text:
        typist.insert(typist.text.index("T.cleer("), "T.clear(", 8)
    await typist.diagnostics(typist.version, 30)
    return unanswered


# -- soak ------------------------------------------------------------------------------------------------------------------------
async def soak(typist: Typist, edits: int, server: int) -> dict[str, Any]:
    """Memory before and after many edits. The first tenth warms up what is meant to be kept."""
    marker = typist.text.index("marker = ") + 9
    held = []
    for number in range(edits):
        typist.insert(marker, str(number % 9 + 1), 1)
        if number % 50 == 49:
            await typist.diagnostics(typist.version, 30)
        else:
            await asyncio.sleep(0.002)
        if number == edits // 10 or number == edits // 2:
            held.append(memory(server))
    typist.insert(typist.text.index("T.clear("), "T.cleer(", 8)
    await typist.diagnostics(typist.version, 30)
    await asyncio.sleep(1.0)
    last = typist.last
    stale = last.get("version") != typist.version or [d["code"] for d in last["diagnostics"]] != ["TL101"]
    return {"edits": edits, "after_a_tenth_mib": held[0], "half_way_mib": held[1], "at_the_end_mib": memory(server), "stale_diagnostics": stale}


def memory(pid: int) -> float:
    """Resident MiB of the server itself."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return round(int(file.read().split()[1]) * 4096 / 2**20, 1)
    except OSError:
        return 0.0


CAPABILITIES = {"textDocument": {"completion": {"completionItem": {"documentationFormat": ["markdown"]}, "completionList": {
    "itemDefaults": ["commitCharacters", "editRange", "insertTextFormat", "data"]}}, "hover": {"contentFormat": ["markdown"]}}}  # as VS Code's


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, list[float]] = {"start and open": []}
    with tempfile.TemporaryDirectory() as folder:
        for start in range(args.starts):
            typist = Typist((Path(folder) / "kernels.py").as_uri(), source(args.lines))
            begun = time.perf_counter()
            await typist.wire.start(sys.executable, "-m", "tile_lsp.cli.main", "serve")
            await typist.wire.request("initialize", {"processId": os.getpid(), "rootUri": Path(folder).as_uri(), "capabilities": CAPABILITIES,
                                                     "initializationOptions": {"tilelangVersion": "latest", "loweredInHover": args.lowered, "prepareRuns": False}})
            typist.wire.notify("initialized", {})
            typist.open()
            found["start and open"].append(await typist.diagnostics(1) - begun)
            if start + 1 < args.starts:
                await typist.wire.stop()
        if args.keys:
            await keys(typist, args.keys, args.pause, found)
        unanswered = await mixed(typist, args.edits, args.requests, args.interval, found) if args.requests else 0
        report = {"lines": args.lines, "unanswered": unanswered, "times": found,
                  "soak": await soak(typist, args.soak, typist.wire.process.pid) if args.soak else None}
        await typist.wire.stop()
    return report


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--starts", type=int, default=3, help="servers started one after another; the last one is measured further")
    parser.add_argument("--lowered", action="store_true", help="hovers with IR and CUDA")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.4)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--interval", type=float, default=0.15, help="seconds between an edit with its request and the next")
    parser.add_argument("--soak", type=int, default=10_000)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    report = asyncio.run(measure(args))
    rows = {name: {"n": len(v), "p50_ms": statistics.median(v) * 1e3, "p95_ms": percentile(v, 0.95) * 1e3, "p99_ms": percentile(v, 0.99) * 1e3}
            for name, v in report.pop("times").items() if v}
    print(f"{args.lines} lines, milliseconds\n{'':16}{'n':>5}{'p50':>9}{'p95':>9}{'p99':>9}")
    for name, row in rows.items():
        goal = f"   goal {GOALS[name]:.0f}" if name in GOALS else ""
        print(f"{name:16}{row['n']:5}{row['p50_ms']:9.1f}{row['p95_ms']:9.1f}{row['p99_ms']:9.1f}{goal}")
    print(f"requests without an answer: {report['unanswered']}")
    if report["soak"]:
        s = report["soak"]
        print(f"memory over {s['edits']} edits: {s['after_a_tenth_mib']} MiB after a tenth, {s['half_way_mib']} half way, {s['at_the_end_mib']} at the end; "
              f"{'STALE diagnostics' if s['stale_diagnostics'] else 'the last diagnostics are those of the last text'}")
    if args.json:
        Path(args.json).write_text(json.dumps({"rows": rows, **report}, indent=1) + "\n")
    return 1 if report["unanswered"] or (report["soak"] and report["soak"]["stale_diagnostics"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
