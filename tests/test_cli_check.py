"""``tile-lsp check``, ``rule`` and ``doctor`` as a user meets them."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import sys
from pathlib import Path

import pytest
from cli_support import BAD, GOOD

from tile_lsp.cli.checking import files
from tile_lsp.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_clean(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(GOOD)
    assert run(capsys) == (0, "No faults found (1 file, 1 kernel, 1 instance, TileLang 0.1.15).\n", "")


def test_full(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(BAD)
    code, out, _ = run(capsys, "a.py")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith("error[TL901] T.copy of whole buffers of different shape: X is 1024, s is 128")
    assert lines[1:5] == [" --> a.py:7:9", "  |", "7 |         T.copy(X, s)", "  |         ^^^^^^^^^^^^"]
    assert "Found 1 error (1 file" in lines[-1]


def test_concise_statistics_and_exit_zero(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(BAD)
    code, out, _ = run(capsys, "--output-format", "concise", "--statistics", "--exit-zero", "a.py")
    assert code == 0
    assert out.splitlines()[0].startswith("a.py:7:9: error TL901 ")
    assert "    1 TL901 copy-extents" in out


def test_json(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(BAD)
    code, out, _ = run(capsys, "--output-format", "json", "a.py")
    (only,) = json.loads(out)
    assert code == 1
    assert (only["path"], only["code"], only["kernel"]) == ("a.py", "TL901", "main")
    (folder / "a.py").write_text(GOOD)
    assert json.loads(run(capsys, "--output-format", "json", "a.py")[1]) == []


def test_stdin(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(BAD))
    code, out, _ = run(capsys, "-", "--stdin-filename", "kernels/x.py", "--output-format", "concise")
    assert code == 1
    assert out.startswith("kernels/x.py:7:9: ")


def test_versions(folder: Path, capsys) -> None:
    (folder / "a.py").write_text("import tilelang.language as T\nT.tcgen05_gemm\n")
    assert run(capsys, "--tilelang-version", "0.1.15")[0] == 0
    code, out, _ = run(capsys, "--tilelang-version", "0.1.8")
    assert code == 1
    assert "added in 0.1.9" in out
    for version in ("new", "9.9.9", "0.1.99"):
        code, _, err = run(capsys, "--tilelang-version", version)
        assert code == 2
        assert version in err and "0.1.15" in err


def test_a_name_above_the_lowest_release_that_the_project_allows(folder: Path, capsys) -> None:
    (folder / "a.py").write_text("import tilelang.language as T\nT.tcgen05_gemm\n")
    (folder / "requirements.txt").write_text("tilelang>=0.1.8\n")
    code, out, _ = run(capsys, "--output-format", "concise")
    assert code == 1
    assert " warning TL109 " in out and "0.1.9" in out and "0.1.8" in out
    assert run(capsys, "--tilelang-version", "0.1.15")[0] == 0, "then the user says which one counts"
    (folder / "requirements.txt").write_text("tilelang<0.2\n")
    assert run(capsys)[0] == 0, "without a lower bound nothing is promised"


@pytest.mark.parametrize(
    ("make", "code", "word"),
    [
        (lambda p: (p / "x.py").write_bytes(b"\x7fELF\0\0\0"), 2, "binary file"),
        (lambda p: None, 2, "no such file"),
        (lambda p: (p / "x.py").write_bytes(b"a = '\xff\xfe'\n"), 2, "not text"),
    ],
)
def test_unreadable(folder: Path, capsys, make, code: int, word: str) -> None:
    make(folder)
    got, _, err = run(capsys, "x.py")
    assert got == code
    assert word in err
    assert "Traceback" not in err


def test_folders_without_kernels(folder: Path, capsys) -> None:
    assert run(capsys)[:2] == (0, "No Python files in this folder.\n")
    (folder / "a.py").write_text("print('hello')\n")
    assert run(capsys)[:2] == (0, "No TileLang kernels in this folder (1 Python file looked at).\n")


def test_syntax_error(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(GOOD.replace("T.copy(s, Y[bx * 128])", "T.copy(s, Y[bx * 128]"))
    code, out, _ = run(capsys, "--output-format", "concise")
    assert code == 1
    assert "TL001" in out


def test_selection(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(BAD)
    assert run(capsys, "--ignore", "copy-extents")[0] == 0
    assert run(capsys, "--select", "gemm,TL6")[0] == 0
    assert run(capsys, "--select", "gemm", "--extend-select", "TL9")[0] == 1
    code, _, err = run(capsys, "--select", "gemn")
    assert code == 2
    assert "gemn" in err


def test_target(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(GOOD.replace("threads=128", "threads=128, cluster_dims=2"))
    assert run(capsys)[0] == 0
    assert run(capsys, "--target", "sm_90a")[0] == 0
    assert run(capsys, "--target", "sm_80")[0] == 1
    code, _, err = run(capsys, "--target", "sm_42")
    assert code == 2
    assert "sm_90a" in err


def test_instance(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(
        f"import tilelang\n{GOOD}".replace("@T.prim_func\ndef main", "def make(n):\n  @T.prim_func\n  def main")
        .replace("\n    with", "\n     with")
        .replace("T.Kernel(8", "T.Kernel(n // 128")
        + "  return main\n"
    )
    assert run(capsys, "--instance", "make(1024)")[0] == 0
    code, out, _ = run(capsys, "--instance", "make(100)", "--output-format", "concise")
    assert code == 1
    assert "grid-zero" in out
    for call, word in (("nothing(1)", "nothing"), ("make(X=3)", "no parameter X; it has n"), ("make(1, 2)", "takes 1"), ("make()", "'n'"), ("make(", "call")):
        code, out, err = run(capsys, "--instance", call)
        assert (code, out) == (2, "")
        assert word in err and len(err.splitlines()) == 1


def test_configuration(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(BAD)
    project = folder / "pyproject.toml"
    project.write_text('[tool.tile-lsp]\nignore = ["copy-extents"]\n')
    assert run(capsys)[0] == 0
    project.write_text('[tool.tile-lsp.per-file-ignores]\n"a*.py" = ["TL9"]\n')
    assert run(capsys)[0] == 0
    project.write_text('[tool.tile-lsp]\ntargets = ["sm_90a"]\n[tool.tile-lsp.severity]\ncopy-extents = "warning"\n')
    code, out, _ = run(capsys, "--output-format", "concise")
    assert code == 1
    assert " warning TL901 " in out
    project.write_text('[tool.tile-lsp]\nexclude = ["a.py"]\n')
    assert run(capsys)[0] == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[tool.tile-lsp]\ntarget = 'sm_90a'\n", "did you mean targets?"),
        ("[tool.tile-lsp]\nselect = 3\n", "list of texts"),
        ("[tool.tile-lsp.severity]\ngemm-shape = 'loud'\n", "loud"),
        ("[tool.tile-lsp\n", "pyproject.toml:1:"),
        ("[tool.x]\ny = 1\n[tool.tile-lsp]\nignore = [\n  'gemm',\n  'gemn',\n]\n", "pyproject.toml:6: "),
        ("[tool.tile-lsp.severity]\ngemm-shap = 'off'\n", "did you mean gemm-shape"),
        ("[tool]\ntile-lsp = 3\n", "pyproject.toml:2: tool.tile-lsp must be a table"),
        ("[tool.tile-lsp]\ntargets = ['sm_42']\n", "sm_90a"),
        ("[tool.tile-lsp]\ntilelang-version = '9.9.9'\n", "0.1.15"),
    ],
)
def test_bad_configuration(folder: Path, capsys, text: str, word: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    (folder / "a.py").write_text(GOOD)
    code, _, err = run(capsys)
    assert code == 2
    assert word in err
    assert "pyproject.toml" in err


def test_rule(capsys) -> None:
    assert main(["rule", "TL603"]) == 0
    assert "power" in capsys.readouterr().out
    assert main(["rule", "gemm-shape"]) == 0
    assert capsys.readouterr().out.startswith("# gemm-shape (TL501)")
    assert main(["rule", "gemm-shap"]) == 2
    assert "gemm-shape" in capsys.readouterr().err
    assert main(["rule", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["code", "rule", "family", "severity", "summary"]
    assert any(line.split()[:4] == ["TL901", "copy-extents", "tile", "error"] for line in lines)


def test_doctor(capsys) -> None:
    assert main(["doctor", "--output-format", "json"]) == 0
    subjects = {f["subject"] for f in json.loads(capsys.readouterr().out)}
    assert {"tile-lsp", "TileLang", "nvcc", "cuobjdump", "GPU"} <= subjects
    assert main(["doctor", "/no/such/folder"]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_doctor_tells_whether_machine_code_can_be_shown(monkeypatch) -> None:
    from tilec.build import nvcc

    from tile_lsp.cli.doctor import MISSING, OK, _disassembler

    monkeypatch.setattr(nvcc, "_find_tool", lambda name: None)
    assert (_disassembler().state, "--stage sass" in _disassembler().text) == (MISSING, True)
    monkeypatch.setattr(nvcc, "_find_tool", lambda name: "/cuda/bin/nvdisasm" if name == "nvdisasm" else None)
    assert (_disassembler().state, _disassembler().text.split(":")[0]) == (OK, "/cuda/bin/nvdisasm")


EAGER = """import tilelang
import tilelang.language as T

@tilelang.jit
def rs(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float32")
    Y = T.empty((M, N), "float32")
    with T.Kernel(M, threads=128) as bx:
        for j in T.Parallel(N):
            Y[bx, j] = X[bx, j]
    return Y
"""


@pytest.mark.parametrize(
    ("call", "word"),
    [("rs(M=128, N=128)", ""), ('rs(tensor((4, 128), "float32"))', ""), ("rs(K=3)", "no parameter K; it has X, M, N"), ("rs(X=3)", "X of rs is a tensor"), ("rs(3)", "tensor")],
)
def test_instances_of_eager_kernels(folder: Path, capsys, call: str, word: str) -> None:
    (folder / "a.py").write_text(EAGER)
    code, _, err = run(capsys, "--instance", call)
    assert (code, bool(err)) == ((2, True) if word else (0, False))
    assert word in err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["check", "--jobs", "x"], "--jobs"),
        (["check", "--output-format", "nope"], "'sarif'"),
        (["check", "--nope"], "--nope"),
        (["check", ""], "no such file"),
        (["chek"], "did you mean check?"),
        (["frobnicate"], "doctor"),
        (["api"], "ACTION"),
        (["api", "diff", "0.1.9"], "NEW"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(capsys, arguments: list[str], word: str) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("tile-lsp: ") and len(err.splitlines()) == 1 and word in err


def test_strange_options_are_told_with_the_command(capsys) -> None:
    assert run(capsys, "--nope")[2] == "tile-lsp: check: unrecognized arguments: --nope (tile-lsp check --help tells the options)\n"
    assert main(["--nope"]) == 2
    assert capsys.readouterr().err == "tile-lsp: unrecognized arguments: --nope (tile-lsp --help tells the options)\n"
    assert run(capsys, "--jobs", "x")[2].startswith("tile-lsp: check: argument --jobs: ")


@pytest.mark.parametrize(("name", "meant"), [("sm90", "sm_90a"), ("90a", "sm_90a"), ("sm-80", "sm_80"), ("sm_100b", "sm_100a"), ("hoper", ""), ("cp", "cpu")])
def test_targets_that_were_meant(capsys, name: str, meant: str) -> None:
    code, _, err = run(capsys, "--target", name)
    assert code == 2 and "known: cpu, sm_75" in err
    assert f"unknown target {name!r}; " + (f"did you mean {meant}? " if meant else "known") in err


def test_instances_of_no_kernel_are_told_once(folder: Path, capsys) -> None:
    for name in ("one", "two", "three"):
        (folder / f"{name}.py").write_text(GOOD.replace("def main", f"def {name}"))
    assert run(capsys, "--instance", "main(1)")[2] == (
        "tile-lsp: --instance: 'main(1)' does not reach a kernel of these files (kernels: one, three, two)\n"
    )
    assert run(capsys, "--instance", "main(1)", "one.py")[2] == "tile-lsp: --instance: 'main(1)' does not reach a kernel of this file (kernels: one)\n"


def test_names_that_the_file_does_not_have(folder: Path, capsys) -> None:
    (folder / "one.py").write_text("BIG = 64\n" + GOOD.replace("def main", "def one"))
    (folder / "two.py").write_text(_FACTORY)
    assert run(capsys, "--instance", "two(M=BIGG)", ".")[::2] == (2, "tile-lsp: --instance: two.py: 'two(M=BIGG)': the file has no name BIGG; did you mean 'BIG'?\n")
    assert run(capsys, "--instance", "two(M=max(BIG, len([x for x in range(3)])))", "two.py")[0] == 0


@pytest.mark.parametrize(("comment", "said"), [("M=(4", "is not a call such as"), ("M=NOPE", "the file has no name NOPE"), ("N=3", "two has no parameter N; it has M")])
def test_comments_that_are_no_instances(folder: Path, capsys, comment: str, said: str) -> None:
    (folder / "two.py").write_text(_FACTORY.replace("def two", f"# tile-lsp: instance {comment}\ndef two"))
    code, _, err = run(capsys, "two.py")
    assert code == 2 and said in err and err.startswith("tile-lsp: two.py: the comment's instance ")


_FACTORY = """import tilelang.language as T

BIG = 64


def two(M):
    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 1.0
    return main
"""


# -- what is found in folders and cannot be read ------------------------------------------------------------------------
def test_pipes_and_sockets_are_no_files(folder: Path, capsys) -> None:
    (folder / "a.py").write_text("import helper\n" + BAD)
    for name in ("pipe.py", "pipe.ipynb", "helper.py"):
        os.mkfifo(folder / name)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket.py")
    code, out, err = run(capsys, "--output-format", "concise")
    assert code == 1 and "Found 1 error (1 file, " in out and not err
    for name, word in (("pipe.py", "is a pipe, not a file"), ("socket.py", "is a socket, not a file"), ("/dev/null", "is a device, not a file")):
        assert run(capsys, name)[::2] == (2, f"tile-lsp: {name}: {word} (- stands for standard input)\n")


def test_a_pipe_in_the_place_of_a_known_file(folder: Path, capsys) -> None:
    (folder / "a.py").write_text("")
    assert run(capsys, "--cache-dir", "c")[0] == 0
    (folder / "a.py").unlink()
    os.mkfifo(folder / "a.py")
    assert run(capsys, "--cache-dir", "c")[:2] == (0, "No Python files in this folder.\n")


def test_dangling_links_are_left_out(folder: Path, capsys) -> None:
    (folder / "a.py").symlink_to("nowhere.py")
    (folder / "b.py").symlink_to("b.py")
    assert run(capsys) == (0, "No Python files in this folder.\n", "")
    assert run(capsys, "a.py")[0] == run(capsys, "b.py")[0] == 2


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("x.py", b"import tilelang\0", "binary file"),
        ("x.py", "import tilelang".encode("utf-16"), "binary file"),
        ("x.py", b"import tilelang  # \xff\n", "not text"),
        ("x.ipynb", b"import tilelang", "no notebook"),
        ("x.ipynb", b"hello", "no notebook"),
        ("x.ipynb", b'{"cells": 3}', "no notebook"),
        ("x.ipynb", b"\xff", "not text"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_files_of_a_folder_that_cannot_be_checked_are_told(folder: Path, capsys, name: str, data: bytes, word: str, named: bool) -> None:
    (folder / "bad.py").write_text(BAD)
    (folder / name).write_bytes(data)
    code, out, err = run(capsys, *(["bad.py", name] if named else []))
    assert code == 2 and err.startswith(f"tile-lsp: {name}: ") and word in err
    assert "Found 1 error (1 file, " in out, "the others are checked"


@pytest.mark.parametrize("data", [b"\x7fELF\0\0\0", b"a = '\xff\xfe'\n"])
def test_what_is_no_text_and_none_of_ours_is_left_out(folder: Path, capsys, data: bytes) -> None:
    (folder / "x.py").write_bytes(data)
    (folder / "empty.ipynb").write_bytes(b"")
    assert run(capsys) == (0, "No TileLang kernels in this folder (1 Python file looked at).\n", "")


def test_files_and_folders_that_must_not_be_read(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root nothing is forbidden, so that the system's answers are made here."""
    for name in ("a", "closed", "left/out"):
        (folder / name).mkdir(parents=True)
        (folder / name / "x.py").write_text(BAD)
    (folder / "bad.py").write_text(BAD)
    (folder / "tile-lsp.toml").write_text('exclude = ["left"]\n')
    scandir, opened = os.scandir, open

    def forbid(path: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "scandir", lambda path=".": forbid(path) if str(path).endswith(("closed", "left")) else scandir(path))
    monkeypatch.setattr(files, "open", lambda path, *rest: forbid(path) if str(path) == "a/x.py" else opened(path, *rest), raising=False)
    code, out, err = run(capsys)
    assert code == 2 and "Found 1 error (1 file, " in out
    assert err == "tile-lsp: a/x.py (and 1 other file): cannot be read: Permission denied\n"
    assert run(capsys, "closed")[::2] == (2, "tile-lsp: closed: cannot be read: Permission denied\n")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_must_not_be_entered(folder: Path, capsys) -> None:
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0)
    try:
        for name in ("closed", "closed/x.py"):
            assert run(capsys, name)[::2] == (2, f"tile-lsp: {name}: cannot be read: Permission denied\n")
    finally:
        (folder / "closed").chmod(0o700)


def test_a_file_is_checked_once(folder: Path, capsys) -> None:
    (folder / "x.py").write_text(BAD)
    (folder / "link.py").symlink_to("x.py")
    for arguments in (["x.py", "./x.py"], ["x.py", str(folder)], ["x.py", "link.py"], [".", "link.py"], []):
        assert "Found 1 error (1 file, " in run(capsys, *arguments)[1]
