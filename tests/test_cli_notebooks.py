"""Notebooks: faults by cell, magics out of the way, fixes written back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_support import BAD, GOOD, IDLE, check

from tile_lsp.cli.checking import notebook
from tile_lsp.cli.checking.files import Unreadable
from tile_lsp.cli.main import main

HEAD, KERNEL = BAD.split("\n\n", 1)


def cell(source: str, kind: str = "code") -> dict[str, Any]:
    found: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return found if kind == "markdown" else {**found, "execution_count": None, "outputs": []}


def write(path: Path, *sources: str, language: str = "python") -> dict[str, Any]:
    data = {"cells": [cell("# Title", "markdown"), *map(cell, sources)], "metadata": {"language_info": {"name": language}}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return data


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_faults_are_told_by_cell(folder: Path, capsys) -> None:
    write(folder / "a.ipynb", f"%matplotlib inline\n!pip install tilelang\n{HEAD}\nfiles = !ls", KERNEL)
    code, out, _ = check(capsys, "--output-format", "concise")
    assert code == 1
    assert out.startswith("a.ipynb:cell 3:5:9: error TL901 ")
    code, out, _ = check(capsys)
    assert "--> a.ipynb:cell 3:5:9\n  |\n5 |         T.copy(X, s)" in out
    (only,) = json.loads(check(capsys, "--output-format", "json")[1])
    assert (only["path"], only["cell"], only["range"]["start"]) == ("a.ipynb", 3, {"line": 5, "column": 9})
    assert "file=a.ipynb::a.ipynb%3Acell 3" in check(capsys, "--output-format", "github")[1].replace(":cell", "%3Acell", 1)


@pytest.mark.parametrize("magic", ["%%bash\nls (\n", "%time x = 1", "!ls \\\n  -l (", "?x", "x?", "%%time", "if 1:\n    !ls"])
def test_magics_are_no_faults(folder: Path, capsys, magic: str) -> None:
    write(folder / "a.ipynb", magic, GOOD)
    assert check(capsys)[0] == 0


def test_python_that_looks_like_a_magic_stays() -> None:
    text = json.dumps({"cells": [cell("x = (17\n     %y)\ns = '''\n!ls\n'''")], "nbformat": 4})
    assert "%y)" in notebook.parse("a.ipynb", text).text and "!ls" in notebook.parse("a.ipynb", text).text


@pytest.mark.parametrize("indent", [1, 4, None])
def test_fixes_are_written_into_the_cell(folder: Path, capsys, indent: int | None) -> None:
    file = folder / "a.ipynb"
    data = write(file, "%matplotlib inline", IDLE, "print('ü')")
    file.write_text(json.dumps(data, indent=indent, ensure_ascii=False), encoding="utf-8")
    assert check(capsys, "--fix")[0] == 0
    fixed = json.loads(file.read_text(encoding="utf-8"))
    assert fixed["cells"].pop(2)["source"] == GOOD.splitlines(keepends=True)
    data["cells"].pop(2)
    assert fixed == data
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") == 0 if indent is None else text.splitlines()[1] == " " * indent + '"cells": ['


def test_diff_of_a_notebook(folder: Path, capsys) -> None:
    write(folder / "a.ipynb", IDLE)
    code, out, _ = check(capsys, "--diff")
    assert code == 1
    removed = [line for line in out.splitlines()[2:] if line.startswith("-")]
    assert len(removed) == 1 and "ignore[TL901]" in removed[0]


def test_standard_input(capsys, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    write(folder / "a.ipynb", BAD)
    monkeypatch.setattr(sys, "stdin", io.StringIO((folder / "a.ipynb").read_text()))
    _, out, _ = check(capsys, "-", "--stdin-filename", "x.ipynb", "--output-format", "concise")
    assert out.startswith("x.ipynb:cell 2:7:9: ")


def test_other_languages_and_broken_files(folder: Path, capsys) -> None:
    write(folder / "julia.ipynb", "tilelang = (", language="julia")
    assert check(capsys)[0] == 0
    for text in ('{"cells": 3, "tilelang": 1}', "{ tilelang", '["tilelang"]'):
        (folder / "julia.ipynb").write_text(text)
        code, _, err = check(capsys, "julia.ipynb")
        assert code == 2 and "is no notebook" in err and "Traceback" not in err
        with pytest.raises(Unreadable):
            notebook.parse("julia.ipynb", text)
    (folder / "julia.ipynb").write_text("")
    assert check(capsys, "julia.ipynb")[0] == 0


# -- a kernel of a notebook is lowered and run like one of a file --------------------------------------------------------
ADD = """@tilelang.jit(out_idx=[-1])
def add(N=256):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] + 1
    return kernel
"""


def _command(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    return (code, *capsys.readouterr())


def test_lowering_a_cell(folder: Path, capsys) -> None:
    write(folder / "a.ipynb", "import tilelang\nimport tilelang.language as T\n%matplotlib inline", ADD)
    code, out, _ = _command(capsys, "lower", "a.ipynb::add", "--target", "sm_80")
    assert code == 0 and "__global__" in out
    write(folder / "b.ipynb", "import tilelang\nimport tilelang.language as T", ADD.replace("A[bx * 128 + i]", "T.nothing(A)"))
    code, _, err = _command(capsys, "lower", "b.ipynb", "--target", "sm_80")
    assert code == 2 and err.startswith("b.ipynb:cell 3:7:35: error TL101 ") and "tile-lsp: b.ipynb is not lowered because of 1 error." in err


def test_explaining_a_cell(folder: Path, capsys) -> None:
    gemm = (Path(__file__).parent.parent / "examples" / "gemm.py").read_text()
    write(folder / "a.ipynb", "!nvidia-smi", gemm)
    lines = [n for n, text in enumerate(gemm.splitlines(), 1) if "T.gemm(" in text]
    code, out, _ = _command(capsys, "lower", "a.ipynb", "--target", "sm_90a", "--explain")
    assert code == 0 and f"cell 3, line {lines[0]}: T.gemm: wgmma" in out


def test_running_a_cell(folder: Path, capsys) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tvm")
    write(folder / "a.ipynb", "import tilelang\nimport tilelang.language as T\n%time", ADD, "def reference(A):\n    return A + 2")
    code, out, err = _command(capsys, "run", "a.ipynb", "--target", "cpu", "--json", "--repeat", "0")
    assert code == 1, err
    assert "It is written by the statement at a.ipynb:cell 3:7:17." in json.loads(out)["error"]
    write(folder / "a.ipynb", "import tilelang\nimport tilelang.language as T\n%time", ADD, "def reference(A):\n    return A + 1")
    assert _command(capsys, "run", "a.ipynb", "--target", "cpu", "--json", "--repeat", "0")[0] == 0
