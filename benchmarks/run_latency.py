"""From the click on ▶ Run to the result in the lens, through a real language server, on this machine's GPU (or the CPU).

    python benchmarks/run_latency.py [--target cuda] [--repeats 5] [--faults] [--json FILE]

*cold*: a server that has just started, nothing in the cache, the click at once (with what happened when) and once more some seconds after the file
was opened, as people click; *edited*: a constant of the kernel is changed before each run, so that it
is lowered and compiled anew by the worker that is there; *again*: the same text once more. ``--faults`` adds a kernel whose mbarrier
nobody arrives at (as the data are: the checker cannot know) and one that writes far out of bounds: both must fail with a clear word, and the next run must work.

The client is written with the standard library: nothing but the server's own packages is needed.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GEMM = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=128, block_N=128, block_K=64, dtype="bfloat16", accum_dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def reference(A, B):
    return A @ B


matmul(1024, 1024, 1024)
'''
DEADLOCK = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def stuck(N):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), I: T.Tensor((N,), "int32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            mbar = T.alloc_barrier(128)
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i]
            if I[0] > 0:
                T.mbarrier_arrive(mbar)
            T.mbarrier_wait_parity(mbar, 0)

    return kernel


def inputs(N):
    import torch

    return torch.randn(N), torch.zeros(N, dtype=torch.int32)


def reference(A, I):
    return A


stuck(1024)
'''
OUTSIDE = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def outside(N):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), I: T.Tensor((N,), "int32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[I[bx * 128 + i] + 2000000000] = A[bx * 128 + i]

    return kernel


def inputs(N):
    import torch

    return torch.randn(N), torch.zeros(N, dtype=torch.int32)


def reference(A, I):
    return A


outside(1024)
'''


class Client:
    """Just enough of the protocol."""

    def __init__(self, command: list[str], folder: Path, options: dict[str, Any], env: dict[str, str]):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=folder)
        self.number = 0
        self.progress: list[tuple[float, str]] = []
        self.request("initialize", {"processId": os.getpid(), "rootUri": folder.as_uri(), "initializationOptions": options,
                                    "capabilities": {"window": {"workDoneProgress": True}}})
        self.send("initialized", {})

    def send(self, method: str, params: Any, number: int | None = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number is not None else {})}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def request(self, method: str, params: Any) -> Any:
        self.number += 1
        self.send(method, params, self.number)
        while True:
            message = self.read()
            if "method" in message and "id" in message:  # the server asks something: no
                self._reply(message["id"])
            elif message.get("method") == "$/progress":
                self.progress.append((time.perf_counter(), str(message["params"]["value"].get("message") or "")))
            elif message.get("id") == self.number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return message.get("result")

    def _reply(self, number: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": None}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        out = self.process.stdout
        assert out is not None
        length = 0
        while True:
            line = out.readline()
            if not line:
                raise RuntimeError("the server ended")
            if not line.strip():
                break
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(out.read(length))

    def close(self) -> None:
        try:
            self.request("shutdown", None)
            self.send("exit", None)
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()


class Document:
    def __init__(self, client: Client, path: Path, text: str):
        self.client, self.uri, self.version = client, path.as_uri(), 1
        client.send("textDocument/didOpen", {"textDocument": {"uri": self.uri, "languageId": "python", "version": 1, "text": text}})

    def change(self, text: str) -> None:
        self.version += 1
        self.client.send("textDocument/didChange", {"textDocument": {"uri": self.uri, "version": self.version}, "contentChanges": [{"text": text}]})

    def run(self) -> tuple[float, dict[str, Any], str]:
        """Seconds until the lens shows the result, the result, the lens."""
        begun = time.perf_counter()
        result = self.client.request("workspace/executeCommand", {"command": "tile-lsp.run", "arguments": [{"uri": self.uri}]})
        lenses = self.client.request("textDocument/codeLens", {"textDocument": {"uri": self.uri}})
        took = time.perf_counter() - begun
        titles = [lens["command"]["title"] for lens in lenses if lens.get("command")]
        return took, result or {}, next((t for t in titles if t[0] in "✓✗"), "")


def start(folder: Path, cache: Path, target: str, timeout: float, **options: Any) -> Client:
    env = {**os.environ, "TILE_LSP_CACHE_DIR": str(cache), "TILELANG_CACHE_DIR": str(cache)}
    return Client([sys.executable, "-m", "tile_lsp.cli.main", "serve"], folder,
                  {"runTarget": target, "runTimeout": timeout, "loweredInHover": False, **options}, env)


def cold(folder: Path, cache: Path, target: str, pause: float) -> tuple[Client, Document, dict[str, Any]]:
    """A server from nothing to the first result; ``pause``: seconds between opening the file and the click."""
    begun = time.perf_counter()
    client = start(folder, cache, target, 120)
    document = Document(client, folder / "gemm.py", GEMM)
    if pause:
        client.request("textDocument/codeLens", {"textDocument": {"uri": document.uri}})
        time.sleep(pause)
    clicked = time.perf_counter()
    took, result, lens = document.run()
    total = time.perf_counter() - begun
    steps = [(round(at - clicked, 2), text) for at, text in client.progress if text]
    row = {"seconds": total - pause, "of_which_run": took, "pause": pause, "steps": steps, "ok": result.get("ok"), "lens": lens, "error": result.get("error")}
    how = f"{took:.2f} s from the click, {pause:.0f} s after opening" if pause else f"{total:.2f} s from the server's start ({took:.2f} s from the click)"
    print(f"cold: {how}: {lens or result.get('error')}\n    " + ", ".join(f"{text} {at:.2f}" for at, text in steps), flush=True)
    return client, document, row


def measure(target: str, repeats: int, faults: bool, colds: int) -> dict[str, Any]:
    report: dict[str, Any] = {"cold": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, pause in enumerate([3.0, *[0.0] * colds]):
            client, document, row = cold(folder, folder / f"cache{number}", target, pause)
            report["cold"].append(row)
            if number < colds:
                client.close()
        edited, again = [], []
        for number in range(repeats):
            document.change(GEMM.replace("num_stages=2", f"num_stages={3 + number % 2}").replace("block_K=64", f"block_K={(64, 32)[number // 2 % 2]}")
                            .replace("matmul(1024, 1024, 1024)", f"matmul(1024, 1024, {1024 + 64 * number})"))
            time.sleep(0.5)  # as somebody who has stopped typing
            took, result, lens = document.run()
            edited.append(took)
            print(f"edited: {took:.2f} s: {lens or result}", flush=True)
            again.append(document.run()[0])
        report["edited"], report["again"] = edited, again
        print(f"after an edit: median {statistics.median(edited):.2f} s, worst {max(edited):.2f} s; the same text again: {statistics.median(again):.2f} s", flush=True)
        client.close()
        if faults:
            report["faults"] = fault_runs(folder, target)
    return report


def fault_runs(folder: Path, target: str) -> list[dict[str, Any]]:
    """Each fault, then the sound kernel in the same server."""
    client = start(folder, folder / "cache", target, 15)
    rows = []
    for name, text in (("deadlocked mbarrier", DEADLOCK), ("out of bounds", OUTSIDE)):
        took, result, lens = Document(client, folder / f"{name.split()[0]}.py", text).run()
        sound_took, sound, sound_lens = Document(client, folder / f"sound_{name.split()[0]}.py", GEMM).run()
        rows.append({"fault": name, "seconds": took, "ok": result.get("ok"), "error": result.get("error"), "place": result.get("place"), "next_ok": sound.get("ok")})
        print(f"{name}: {took:.1f} s, {lens}\n    {result.get('error')}\n    the next run: {sound_took:.1f} s, {sound_lens or sound.get('error')}", flush=True)
    client.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--colds", type=int, default=1, help="servers started from nothing, clicked at once")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    report = measure(args.target, args.repeats, args.faults, max(args.colds, 1))
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n")
    bad = not all(row["ok"] for row in report["cold"]) or any(r["ok"] or not r["next_ok"] for r in report.get("faults", ()))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
