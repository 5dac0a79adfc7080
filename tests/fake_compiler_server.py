"""The real language server over stdio with a compiler that answers at once: for tests of the protocol alone."""
from __future__ import annotations

import asyncio

from tile_lsp.server.compiler import Compiler
from tile_lsp.server.main import create

CUDA = '__global__ void gemm() {\n  asm volatile("mma.sync.aligned.m16n8k16");\n}\n'


class FakeBackend:
    """``lower``: three lines of CUDA, the second from the source line with ``T.gemm``. ``run``: a result after a while."""

    async def request(self, request, timeout, report=None):
        if request["kind"] in ("warm", "prepare"):
            return {}
        if "crash_the_worker" in request["text"]:
            raise ConnectionResetError("the worker died")
        if request["kind"] == "lower":
            lines = request["text"].split("\n")
            line = next((n for n, text in enumerate(lines, 1) if "T.gemm" in text), 1)
            return {"text": CUDA, "lines": [[2, 2, line]], "facts": {"registers": 96, "asked": request["instance"]}}
        for step in ("compiling", "running"):
            if report is not None:
                report(step)
            await asyncio.sleep(0.2 if "run_slowly" not in request["text"] else 20)
        if "fail_at_the_copy" in request["text"]:
            line = next(n for n, text in enumerate(request["text"].split("\n"), 1) if "T.copy(C_local" in text)
            return {"ok": False, "target": "cpu", "max_abs_err": 3.0, "error": "C[3, 5], which is 2; expected 5.", "place": [line, 13]}
        return {"ok": True, "instance": request["instance"], "against": request["against"], "target": request["target"] or "cpu", "max_abs_err": 4.9e-4, "latency_ms": {"median": 0.195}, "error": None}

    def close(self):
        pass


if __name__ == "__main__":
    create(Compiler(FakeBackend())).start_io()
