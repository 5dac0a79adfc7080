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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``gpu`` skip without one; files that need a certain GPU say so themselves."""
    marked = [item for item in items if item.get_closest_marker("gpu") is not None]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


def _has_gpu() -> bool:
    try:
        from tilec.runtime import gpu
    except ImportError:
        return False
    return gpu.available()
