"""Diagnostics taken over from the last text are those a fresh look finds."""
from __future__ import annotations

import random

from lsp_kernels import FAULTY, MATMUL
from tilec.source.file import SourceFile

from tile_lsp.ide import environment
from tile_lsp.ide.document import Document
from tile_lsp.ide.incremental import DiagnosticCache, names_of
from tile_lsp.ide.preferences import Preferences
from tile_lsp.ide.snapshot import Snapshot

PREFERENCES = Preferences(tilelang_version="0.1.15")
HELPERS = '''
WIDTH = 64
SIZES = {"k": 32}


def width():
    return WIDTH


@tilelang.jit(out_idx=[-1])
def wide(M, N):
    block = width() * 2
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            S = T.alloc_shared((block, SIZES["k"]), "float16")
            F = T.alloc_fragment((block, 32), "float16")
            T.copy(S, F)
            T.copy(A[by * block, bx * block], S)
            T.copy(S, B[by * block, bx * block])

    return main


wide(512, 512)
'''
TEXT = MATMUL + HELPERS + FAULTY.split("import tilelang.language as T\n")[1]
EDITS = [
    ("WIDTH = 64", "WIDTH = 4096"), ("WIDTH = 4096", "WIDTH = 64"), ('"k": 32', '"k": 48'), ('"k": 48', '"k": 32'), ("T.Paralel", "T.Parallel"),
    ("T.Parallel", "T.Paralel"), ("def width():", "# a comment\n\ndef width():"), ("# a comment\n\ndef width", "def width"),
    ("T.clear(C_local)", "T.cleer(C_local)"), ("T.cleer(C_local)", "T.clear(C_local)"), ("block_N=64", "block_N=60"), ("block_N=60", "block_N=64"),
    ("matmul(128, 128, 128)", "matmul(128, 100, 128)"), ("matmul(128, 100, 128)", "matmul(128, 128, 128)"), ("import tilelang\n", "\nimport tilelang\n"),
    ("\nimport tilelang\n", "import tilelang\n"), ("return WIDTH", "return WIDTH * 100"), ("return WIDTH * 100", "return WIDTH"),
    ("wide(512, 512)", 'SIZES.update(k=64)\nwide(512, 512)'), ("SIZES.update(k=64)\n", ""), ("threads=128) as bx", "threads=2048) as bx"),
    ("threads=2048) as bx", "threads=128) as bx"), ("T.copy(S, F)", "T.copy(S, F"), ("T.copy(S, F\n", "T.copy(S, F)\n"),
]


def diagnostics(text: str, cache: DiagnosticCache | None = None):
    document = Document("kernels.py", text)
    snapshot = Snapshot(document, PREFERENCES, environment.for_document(document.path, PREFERENCES), cache=cache)
    return [(d.code, d.message, d.span, d.related, d.fix, d.severity) for d in snapshot.diagnostics()]


def test_a_walk_of_edits_equals_fresh_looks():
    random.seed(7)
    cache = DiagnosticCache()
    text = TEXT
    seen = set()
    for _ in range(120):
        usable = [(old, new) for old, new in EDITS if old in text]
        old, new = random.choice(usable)
        text = text.replace(old, new, 1)
        expected = diagnostics(text)
        assert diagnostics(text, cache) == expected, (old, new)
        seen.update(code for code, *_ in expected)
    assert len(seen) >= 4, f"the edits make different faults: {seen}"


def test_an_edit_elsewhere_does_not_trace_kernels_again(monkeypatch):
    cache = DiagnosticCache()
    diagnostics(TEXT, cache)
    from tile_lsp.ide import frontend

    traced = []
    original = frontend.instantiate
    monkeypatch.setattr(frontend, "instantiate", lambda a, k, i, trail=None: traced.append(k.name) or original(a, k, i, trail))
    diagnostics("# a line above everything\nmarker = 1\n" + TEXT, cache)
    assert traced == []
    diagnostics(TEXT.replace("WIDTH = 64", "WIDTH = 32"), cache)
    assert traced == ["wide"]


def test_names_a_statement_reads_and_changes():
    def names(text):
        return tuple(set(found) for found in names_of(SourceFile("f.py", text).tree.body[0]))

    assert names("x = f(y)") == ({"f", "y"}, {"x"}, {"f", "y"})
    assert names("x = y") == ({"y"}, {"x"}, set())
    assert names("a.b = 1") == ({"a"}, set(), {"a"})
    assert names("a[0] = 1") == ({"a"}, set(), {"a"})
    assert names("def f(a=b): return c") == ({"b", "c"}, {"f"}, set())
    assert names("import tilelang.language as T") == (set(), {"T"}, set())


def test_a_new_binding_of_an_imported_name_counts():
    cache = DiagnosticCache()
    text = TEXT.replace("WIDTH = 64\n", "from math import pi as WIDTH\nWIDTH = 64\n")
    diagnostics(text, cache)
    wider = text.replace("WIDTH = 64", "WIDTH = 4096")
    assert diagnostics(wider, cache) == diagnostics(wider) != diagnostics(text)
