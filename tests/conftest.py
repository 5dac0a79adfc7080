"""What all tests have in common: nothing is written to, or read from, the user's own cache."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "tile-lsp-cache"))


def pytest_configure() -> None:
    """A shell's background jobs ignore interrupts, and so would the processes that tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
