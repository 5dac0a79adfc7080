"""``--fix``, ``--diff`` and ``--unsafe-fixes``."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from cli_support import BAD, GOOD, IDLE, MISSPELT, check
from tilec.check.diagnostic import Diagnostic, Edit, Fix
from tilec.source.span import Span

from tile_lsp.cli.checking.edits import apply_edits, choose


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_safe_fixes(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(IDLE)
    code, out, _ = check(capsys, "a.py")
    assert code == 1 and out.rstrip().endswith("1 can be fixed with --fix.")
    code, out, _ = check(capsys, "--fix", "a.py")
    assert code == 0 and out.startswith("Fixed 1 fault in 1 file. No faults found")
    assert (folder / "a.py").read_text() == GOOD


def test_other_fixes_only_if_asked(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(MISSPELT)
    code, out, _ = check(capsys, "--fix", "a.py")
    assert code == 1 and "1 can be fixed with --fix --unsafe-fixes" in out
    assert (folder / "a.py").read_text() == MISSPELT
    assert check(capsys, "--fix", "--unsafe-fixes", "a.py")[0] == 0
    assert (folder / "a.py").read_text() == GOOD


def test_what_cannot_be_fixed_is_told(folder: Path, capsys) -> None:
    text = BAD.replace("T.copy(s, Y[bx * 128])", "T.copy(s, Y[bx * 128])  # tile-lsp: ignore[gemm]")
    (folder / "a.py").write_text(text)
    code, out, _ = check(capsys, "--fix", "--output-format", "concise", "a.py")
    assert code == 1
    assert "TL901" in out and "TL002" not in out and "Fixed 1 fault in 1 file. Found 1 error" in out


def test_a_cached_result_is_no_reason_not_to_fix(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(IDLE)
    os.utime(folder / "a.py", (1, 1))
    assert check(capsys, "a.py")[0] == check(capsys, "a.py")[0] == 1
    assert check(capsys, "--fix", "a.py")[0] == 0
    assert (folder / "a.py").read_text() == GOOD


@pytest.mark.parametrize(
    ("encode", "text"),
    [
        (lambda t: t.encode(), IDLE.replace("\n", "\r\n")),
        (lambda t: b"\xef\xbb\xbf" + t.encode(), IDLE),
        (lambda t: t.encode("latin-1"), "# -*- coding: latin-1 -*-\n# Größe\n" + IDLE),
        (lambda t: t.encode(), IDLE + "# ein \u2028 Zeichen, ein \f Vorschub\n"),
        (lambda t: t.encode(), IDLE.rstrip("\n")),
    ],
)
def test_bytes_outside_the_fix_stay(folder: Path, capsys, encode, text: str) -> None:
    file = folder / "a.py"
    file.write_bytes(encode(text))
    file.chmod(0o754)
    assert check(capsys, "--fix", "a.py")[0] == 0
    assert file.read_bytes() == encode(text).replace(b"  # tile-lsp: ignore[TL901]", b"")
    assert file.stat().st_mode & 0o777 == 0o754
    assert os.listdir(folder) == ["a.py"], "no temporary file is left"


def test_links_stay_links(folder: Path, capsys) -> None:
    (folder / "real.py").write_text(IDLE)
    (folder / "a.py").symlink_to("real.py")
    assert check(capsys, "--fix", "a.py")[0] == 0
    assert (folder / "a.py").is_symlink() and (folder / "real.py").read_text() == GOOD


def test_diff_changes_nothing(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(IDLE)
    code, out, err = check(capsys, "--diff")
    assert code == 1
    assert out.splitlines()[:2] == ["--- a.py", "+++ a.py"]
    assert "-        T.copy(s, Y[bx * 128])  # tile-lsp: ignore[TL901]\n+        T.copy(s, Y[bx * 128])\n" in out
    assert err == "Would fix 1 fault in 1 file.\n"
    assert (folder / "a.py").read_text() == IDLE
    (folder / "a.py").write_text(GOOD)
    assert check(capsys, "--diff") == (0, "", "No fixes to make.\n")


def test_standard_input_comes_back_fixed(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (IDLE, GOOD):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        code, out, err = check(capsys, "--fix", "-")
        assert (code, out) == (0, GOOD)
        assert "No faults found" in err


def test_several_fixes_of_a_file(folder: Path, capsys) -> None:
    text = IDLE.replace("as bx:", "as bx:  # tile-lsp: ignore").replace("import", "# tile-lsp: ignore-file[gemm]\nimport", 1)
    (folder / "a.py").write_text(text)
    assert check(capsys, "--fix", "a.py")[1].startswith("Fixed 3 faults in 1 file.")
    assert (folder / "a.py").read_text() == GOOD


def test_a_file_that_cannot_be_written(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    from tile_lsp.cli.checking import single

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    (folder / "a.py").write_text(IDLE)
    monkeypatch.setattr(single, "write_atomically", refuse)
    for path in ("a.py", "."):
        code, out, err = check(capsys, "--fix", "--output-format", "concise", path)
        assert code == 2 and err == "tile-lsp: a.py: cannot be written: Permission denied\n"
        assert "warning TL002 " in out and "Fixed" not in out and "Found 1 warning (1 file, " in out


def diagnostic(*edits: Edit, safe: bool = True) -> Diagnostic:
    return Diagnostic("TL001", "syntax-error", "error", "", edits[0].span, (), Fix("", edits, safe))


def edit(line: int, column: int, end_line: int, end_column: int, text: str, path: str = "a.py") -> Edit:
    return Edit(Span(path, line, column, end_line, end_column), text)


def test_overlapping_fixes_wait_for_the_next_pass() -> None:
    first, second, third = edit(1, 1, 1, 5, "x"), edit(1, 4, 1, 6, "y"), edit(1, 6, 1, 7, "z")
    chosen, count = choose([diagnostic(first), diagnostic(second), diagnostic(third), diagnostic(third)], ["a.py"], False)
    assert (chosen, count) == ([first, third], 2)
    assert choose([diagnostic(first, edit(2, 1, 2, 2, "", "b.py"))], ["a.py"], False) == ([], 0)
    assert choose([diagnostic(first, safe=False)], ["a.py"], False) == ([], 0)
    assert choose([diagnostic(first, safe=False)], ["a.py"], True) == ([first], 1)


def test_edits_of_texts() -> None:
    assert apply_edits("ab\r\ncd\r\n", [edit(1, 2, 2, 2, "X\nY"), edit(1, 1, 1, 1, "_")]) == "_aX\r\nYd\r\n"
    assert apply_edits("ab", [edit(1, 1, 2, 1, "")]) == ""
    assert apply_edits("", [edit(1, 1, 1, 1, "x")]) == "x"
