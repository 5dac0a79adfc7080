"""The real server with real processes that go wrong when a text asks for it: for tests of supervision."""
from __future__ import annotations

import tile_lsp.server.compiler as compiler
from tile_lsp.server.backend import WorkerBackend
from tile_lsp.server.main import create
from tile_lsp.workers.process import HANDLERS, Child


def backend() -> WorkerBackend:
    made = WorkerBackend()
    handlers = {**HANDLERS, "lower": "fault_handlers:lower", "run": "fault_handlers:run"}
    made._children = {name: Child(handlers) for name in made._children}
    return made


if __name__ == "__main__":
    compiler.LOWER_TIMEOUT = 8.0
    create(compiler.Compiler(backend())).start_io()
