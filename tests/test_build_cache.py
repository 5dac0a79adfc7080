"""The cache on disk: atomic, checked, bounded, and never in the way."""
from __future__ import annotations

import os
import threading
import time

import pytest
from tilec.build import cache


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    return tmp_path


def test_what_is_written_is_read_again_and_keys_depend_on_every_part():
    name = cache.key("a", b"b")
    assert cache.read(name) is None
    assert cache.write(name, b"body")
    assert cache.read(name) == b"body"
    assert len({cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), name}) == 4


def test_damaged_entries_are_not_used(folder):
    name = cache.key("x")
    cache.write(name, b"some bytes")
    path = next(p for p in folder.rglob(name))
    path.write_bytes(path.read_bytes()[:-3])
    assert cache.read(name) is None
    path.write_bytes(b"")
    assert cache.read(name) is None
    assert cache.write(name, b"again") and cache.read(name) == b"again"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(blocked))
    assert cache.write(cache.key("x"), b"body") is False
    assert cache.read(cache.key("x")) is None


def test_old_entries_go_when_the_cache_outgrows_its_bound(folder, monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 3000)
    names = [cache.key(str(n)) for n in range(5)]
    for age, name in enumerate(names):
        cache.write(name, b"x" * 900)
        for path in folder.rglob(name):
            os.utime(path, (time.time() - 1000 + age, time.time() - 1000 + age))
    (folder / "tilec" / ".trimmed").unlink(missing_ok=True)
    cache.write(cache.key("new"), b"x" * 900)
    assert cache.read(cache.key("new")) is not None and cache.read(names[0]) is None
    assert sum(p.stat().st_size for p in folder.rglob("??/*") if p.is_file()) <= 3000


def test_writers_at_once_leave_one_whole_entry(folder):
    name = cache.key("shared")
    bodies = [bytes([n]) * 5000 for n in range(8)]
    threads = [threading.Thread(target=cache.write, args=(name, body)) for body in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.read(name) in bodies
    assert not list(folder.rglob(".new-*"))


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert not cache.write(cache.key("x"), b"body")
