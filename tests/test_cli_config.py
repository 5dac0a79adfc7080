"""``tile-lsp config``, its JSON schema, and which configuration applies to which file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import BAD, GOOD, check, command

from tile_lsp.ide import project
from tile_lsp.ide.project_keys import KEYS, schema
from tile_lsp.ide.toml_places import line_of

EXAMPLE = """
targets = ["sm_90a", "sm_100a"]
tilelang-version = "0.1.9"
select = "gemm"
ignore = ["TL603"]
exclude = ["build"]
cache-dir = ".cache"
[severity]
tmem-columns = "error"
TL412 = "off"
[per-file-ignores]
"tests/*" = ["gemm-shape", "TL9"]
[instances]
matmul = ["1024, 1024, 1024"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def toml(text: str):
    try:
        import tomllib
    except ModuleNotFoundError:
        import tomli as tomllib  # type: ignore[no-redef]
    return tomllib.loads(text)


def test_the_schema_accepts_what_the_tool_accepts(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator(schema())
    validator.check_schema(schema())
    (folder / "tile-lsp.toml").write_text(EXAMPLE)
    assert project.find(folder).severity == {"tmem-columns": "error", "TL412": "off"}
    assert list(validator.iter_errors(toml(EXAMPLE))) == []
    for text in ("target = 'sm_90a'", "select = 3", "targets = [1]", "severity.gemm-shape = 'loud'", "severity.gemm-shap = 'off'", "instances = 3", "cache-dir = []"):
        (folder / "tile-lsp.toml").write_text(text)
        with pytest.raises(project.ConfigError, match=r"tile-lsp\.toml:1"):
            project.find(folder)
        assert list(validator.iter_errors(toml(text))), text


def test_the_schema_is_printed(capsys) -> None:
    code, out, _ = command(capsys, "config", "--schema")
    assert code == 0
    assert json.loads(out) == schema()
    assert set(schema()["properties"]) == set(KEYS)
    assert "gemm-shape" in schema()["properties"]["severity"]["propertyNames"]["enum"], "editors complete rule names"


def test_settings_are_shown(folder: Path, capsys) -> None:
    assert "these are the defaults" in command(capsys, "config")[1]
    (folder / "tile-lsp.toml").write_text(EXAMPLE)
    out = command(capsys, "config", ".")[1]
    assert out.startswith(f"# {folder / 'tile-lsp.toml'}\n") and 'select = ["gemm"]' in out
    data = json.loads(command(capsys, "config", "--output-format", "json")[1])
    assert data["settings"]["instances"] == ["matmul(1024, 1024, 1024)"]
    assert command(capsys, "config", "nowhere")[0] == 2
    (folder / "tile-lsp.toml").write_text("x = 1")
    code, _, err = command(capsys, "config")
    assert code == 2 and "unknown key x" in err


def test_each_file_has_the_nearest_configuration(folder: Path, capsys) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "k.py").write_text(BAD)
    (folder / "pyproject.toml").write_text('[tool.tile-lsp]\nseverity = { copy-extents = "warning" }\n')
    (folder / "b" / "tile-lsp.toml").write_text('ignore = ["copy-extents"]\n')
    out = check(capsys, "--output-format", "concise")[1]
    assert "a/k.py:7:9: warning TL901" in out and "b/k.py" not in out
    (folder / "other.toml").write_text("")
    out = check(capsys, "--output-format", "concise", "--config", "other.toml")[1]
    assert "a/k.py:7:9: error TL901" in out and "b/k.py:7:9: error TL901" in out
    assert check(capsys, "--config", "missing.toml")[0] == 2


def test_foreign_files_above_are_none_of_our_business(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(GOOD)
    (folder / "pyproject.toml").write_bytes(b"[project\nname = '\xff'")
    assert check(capsys)[0] == 0
    (folder / "pyproject.toml").write_bytes(b"[tool.tile-lsp]\nignore = []\nx = '\xff'")
    code, _, err = check(capsys)
    assert code == 2 and "pyproject.toml:3: not text in UTF-8" in err
    (folder / "pyproject.toml").write_bytes(b"\xef\xbb\xbf[tool.tile-lsp]\r\nignore = []\r\n")
    assert check(capsys)[0] == 0


def test_excluded_files(folder: Path, capsys) -> None:
    (folder / "gen").mkdir()
    (folder / "gen" / "k.py").write_text(BAD)
    (folder / "tile-lsp.toml").write_text('exclude = ["gen"]\n')
    for arguments in ((), (".",), ("--force-exclude", "gen/k.py")):
        code, out, _ = check(capsys, *arguments)
        assert code == 0 and out.startswith("Nothing to check in ") and out.endswith(": the configuration excludes 1 file.\n")
    assert check(capsys, "gen")[0] == check(capsys, "gen/k.py")[0] == 1, "the user names it"
    assert check(capsys, "--force-exclude", "gen/k.py")[0] == check(capsys, "--force-exclude", "gen")[0] == 0


def test_lines_of_keys() -> None:
    text = "a = 1\n[tool.x]  # here\n'b c' = [\n  \"one\",\n  'two',\n]\nd.e = 2\n[tool.x.f]\ng = { h = 1 }\n"
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("tool", "x")) == 2
    assert line_of(text, ("tool", "x", "b c"), "two") == 5
    assert line_of(text, ("tool", "x", "b c"), "three") == 3
    assert line_of(text, ("tool", "x", "d", "e")) == 7
    assert line_of(text, ("tool", "x", "f", "g", "h")) == 9
    assert line_of(text, ("z",)) is None
