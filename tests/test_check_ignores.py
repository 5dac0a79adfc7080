"""``# tile-lsp: ignore[...]`` comments: what they silence, and those that silence nothing."""

from __future__ import annotations

import pytest
from tilec.check import check_analysis
from tilec.check.settings import Settings, near_selectors, unknown_selectors
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import find

from tile_lsp.releases import manifest

KERNEL = """import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((1024,), "float32"), Y: T.Tensor((1024,), "float32")):
    with T.Kernel(8, threads=128) as bx:
        s = T.alloc_shared((128,), "float32")
        T.copy(X, s)MARK
        T.copy(s, Y[bx * 128])
"""
GOOD = KERNEL.replace("T.copy(X, s)", "T.copy(X[bx * 128], s)")


def check(text: str, settings: Settings | None = None) -> list[tuple[int, str, str]]:
    analysis = analyse(SourceFile("a.py", text))
    found = check_analysis(analysis, [find("sm_90a")], manifest.load("latest"), settings or Settings(unused_ignores=True))
    return [(d.span.line, d.name, d.message) for d in found]


def names(text: str, settings: Settings | None = None) -> list[str]:
    return [name for _, name, _ in check(text, settings)]


@pytest.mark.parametrize("comment", ["ignore", "ignore[TL901]", "ignore[copy-extents]", "ignore[tile]", "ignore[TL9, gemm-shape]"])
def test_a_comment_silences_its_line(comment: str) -> None:
    text = KERNEL.replace("MARK", f"  # tile-lsp: {comment}")
    assert "copy-extents" not in names(text)


def test_only_what_silences_something_is_used() -> None:
    (found,) = check(KERNEL.replace("MARK", "  # tile-lsp: ignore[TL901, gemm-shape]"))
    assert found[:2] == (7, "unused-ignore")
    assert "gemm-shape" in found[2] and "TL901" not in found[2]


@pytest.mark.parametrize("comment", ["ignore", "ignore[TL901]", "ignore-file", "ignore[TL999]"])
def test_comments_that_silence_nothing(comment: str) -> None:
    assert names(GOOD.replace("MARK", f"  # tile-lsp: {comment}")) == ["unused-ignore"]


def test_who_sees_part_of_a_file_does_not_judge() -> None:
    assert names(GOOD.replace("MARK", "  # tile-lsp: ignore"), Settings()) == []


@pytest.mark.parametrize(
    "settings",
    [
        Settings(select=frozenset(["copy-extents"]), unused_ignores=True),  # unused-ignore is not asked for
        Settings(ignore=frozenset(["TL901"]), unused_ignores=True),  # the comment has no chance to be of use
        Settings(severities={"copy-extents": "off"}, unused_ignores=True),
        Settings(severities={"unused-ignore": "off"}, unused_ignores=True),
    ],
)
def test_what_the_settings_leave_out_is_not_judged(settings: Settings) -> None:
    assert names(GOOD.replace("MARK", "  # tile-lsp: ignore[TL901]"), settings) == []


def test_kernels_not_wholly_known_are_not_judged() -> None:
    text = GOOD.replace("(128,)", "(unknown_size(),)").replace("MARK", "  # tile-lsp: ignore[TL901]")
    assert "unused-ignore" not in names("from elsewhere import unknown_size\n" + text)


def test_an_ignore_can_be_kept_on_purpose() -> None:
    assert names(GOOD.replace("MARK", "  # tile-lsp: ignore[TL901, unused-ignore]")) == []


def apply(text: str) -> str:
    analysis = analyse(SourceFile("a.py", text))
    (found,) = check_analysis(analysis, [find("sm_90a")], manifest.load("latest"), Settings(unused_ignores=True))
    assert found.fix is not None and found.fix.safe
    (edit,) = found.fix.edits
    lines = [*text.splitlines(keepends=True), ""]
    start = sum(map(len, lines[: edit.span.line - 1])) + edit.span.column - 1
    end = sum(map(len, lines[: edit.span.end_line - 1])) + edit.span.end_column - 1
    return text[:start] + edit.text + text[end:]


def test_fixes() -> None:
    assert apply(GOOD.replace("MARK", "  # tile-lsp: ignore[TL901]")) == GOOD.replace("MARK", "")
    assert apply(GOOD.replace("MARK", "  # noqa  # tile-lsp: ignore")) == GOOD.replace("MARK", "  # noqa")
    assert apply(GOOD.replace("MARK", "\n        # tile-lsp: ignore because")) == GOOD.replace("MARK", "")
    kept = KERNEL.replace("MARK", "  # tile-lsp: ignore[TL901]  why")
    assert apply(KERNEL.replace("MARK", "  # tile-lsp: ignore[gemm-shape,TL901]  why")) == kept


def test_selectors() -> None:
    assert unknown_selectors(["TL5", "gemm", "GEMM-shape", "all", "", "gemn"]) == ["", "gemn"]
    assert "gemm" in near_selectors("gemn")
