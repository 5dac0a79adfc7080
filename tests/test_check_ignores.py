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


@pytest.mark.parametrize(
    "comment",
    ["ignore TL9", "ignore TL901", "ignore: TL901", "ignore=TL901", "ignore(TL901)", "ignore (copy-extents)", "ignore copy-extents because", "ignore tl901: why",
     "ignore because of TL901", "ignore[TL901", "ignore because", "ignore (it is meant)", "ignore-file TL901", "ignore tile"],
)  # fmt: skip
def test_forgotten_brackets(comment: str) -> None:
    assert names(KERNEL.replace("MARK", f"  # tile-lsp: {comment}")) == []


@pytest.mark.parametrize("comment", ["ignore TL603", "ignore: TL603", "ignore(TL603)", "ignore(gemm-shape)", "ignore gemm-shape", "ignore[TL603", "ignore gemm"])
def test_forgotten_brackets_silence_what_they_name_alone(comment: str) -> None:
    assert names(KERNEL.replace("MARK", f"  # tile-lsp: {comment}")) == ["copy-extents", "unused-ignore"]


@pytest.mark.parametrize("comment", ["ignore[copy-extens]", "ignore(copy-extens)", "ignore copy-extens"])
def test_names_that_no_rule_has(comment: str) -> None:
    text = KERNEL.replace("MARK", f"  # tile-lsp: {comment}")
    told = {name: message for _, name, message in check(text)}
    assert set(told) == {"copy-extents", "unused-ignore"}
    assert told["unused-ignore"].startswith("no rule is called copy-extens: the comment silences nothing; did you mean copy-extents")
    assert apply(text, "unused-ignore", safe=False) == text.replace("extens", "extents")
    assert names(text.replace("extens", "extents")) == []


@pytest.mark.parametrize(
    ("comment", "meant"),
    [("ignroe[TL901]", "ignore"), ("ignored", "ignore"), ("ignore-fil[TL901]", "ignore-file"), ("ignore_file", "ignore-file"), ("instanec A=1", "instance"),
     ("refrence=f", "reference"), ("Input = f", "inputs")],
)  # fmt: skip
def test_misspelt_comments(comment: str, meant: str) -> None:
    text = GOOD.replace("MARK", f"  # tile-lsp: {comment}")
    ((line, name, message),) = check(text)
    assert (line, name) == (7, "unused-ignore") and message.endswith(f"it does nothing; did you mean {meant}?")
    word = comment.split("[")[0].split("=")[0].split()[0]
    assert apply(text, safe=False) == text.replace(word, meant)
    assert names(text, Settings(ignore=frozenset(["TL002"]), unused_ignores=True)) == []
    assert names(text.replace("import", "# tile-lsp: ignore-file[unused-ignore]\nimport", 1)) == []


def test_comments_that_are_none_of_ours() -> None:
    ((_, _, message),) = check(GOOD.replace("MARK", "  # tile-lsp: disable[TL901]"))
    assert message.startswith("disable is no comment that tile-lsp knows") and "ignore-file" in message
    assert names(GOOD.replace("MARK", "  # tile-lsp: see the documentation")) == []
    assert names(GOOD.replace("MARK", "  # tile-lsp: instance A=1")) == []


def test_fixes_without_brackets() -> None:
    assert apply(GOOD.replace("MARK", "  # tile-lsp: ignore TL901 why")) == GOOD.replace("MARK", "")
    assert apply(KERNEL.replace("MARK", "  # tile-lsp: ignore(gemm-shape, TL901)")) == KERNEL.replace("MARK", "  # tile-lsp: ignore(TL901)")


def apply(text: str, rule: str = "", safe: bool = True) -> str:
    analysis = analyse(SourceFile("a.py", text))
    everything = check_analysis(analysis, [find("sm_90a")], manifest.load("latest"), Settings(unused_ignores=True))
    (found,) = (d for d in everything if rule in ("", d.name))
    assert found.fix is not None and found.fix.safe == safe
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
