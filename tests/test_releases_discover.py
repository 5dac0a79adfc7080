"""Finding the user's TileLang by looking at files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile_lsp.releases import discover


def environment(prefix: Path, version: str) -> Path:
    site = prefix / "lib" / "python3.11" / "site-packages"
    (site / "tilelang").mkdir(parents=True)
    (site / "tilelang" / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    info = site / f"tilelang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tilelang\nVersion: {version}\n\ntext\n")
    (prefix / "pyvenv.cfg").write_text("home = /usr\n")
    return prefix


def test_virtual_environment_of_the_shell(tmp_path: Path) -> None:
    prefix = environment(tmp_path / "shell", "0.1.9")
    found = discover.find(tmp_path, environ={"VIRTUAL_ENV": str(prefix)})
    assert found is not None
    assert (found.version, found.how) == ("0.1.9", "VIRTUAL_ENV")


def test_dot_venv_above_the_file(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "0.1.10")
    (tmp_path / "kernels" / "deep").mkdir(parents=True)
    found = discover.find(tmp_path / "kernels" / "deep" / "a.py", environ={})
    assert found is not None
    assert found.version == "0.1.10"


def test_interpreter_of_the_client_comes_first(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "0.1.10")
    chosen = environment(tmp_path / "chosen", "0.1.8")
    found = discover.find(tmp_path, str(chosen / "bin" / "python"), {"CONDA_PREFIX": str(tmp_path / "nowhere")})
    assert found is not None
    assert found.version == "0.1.8"


def test_conda(tmp_path: Path) -> None:
    prefix = environment(tmp_path / "conda", "0.1.12")
    found = discover.find(tmp_path, environ={"CONDA_PREFIX": str(prefix)})
    assert found is not None
    assert found.version == "0.1.12"


def test_source_tree(tmp_path: Path) -> None:
    tree = tmp_path / "3rdparty" / "tilelang"
    (tree / "tilelang" / "language").mkdir(parents=True)
    (tree / "tilelang" / "language" / "__init__.py").write_text("")
    (tree / "VERSION").write_text("0.1.13\n")
    found = discover.find(tmp_path, environ={})
    assert found is not None
    assert found.version == "0.1.13"
    assert found.path == tree / "tilelang"


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("requirements.txt", "torch\ntilelang>=0.1.8,<0.1.10  # kernels\n", "0.1.9"),
        ("requirements-dev.txt", "tilelang==0.1.7.post3\n", "0.1.7.post3"),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["tilelang~=0.1.10", "torch"]\n', "0.1.15"),
        ("requirements.txt", "tilelang[extra] == 0.1.12\n", "0.1.12"),
        ("requirements/base.txt", "tilelang==0.1.9\n", "0.1.9"),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.10"\ntilelang = "~0.1.9"\n', "0.1.15"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntilelang = "0.1.9"\n', "0.1.9"),
        ("pyproject.toml", '[tool.poetry.group.gpu.dependencies]\ntilelang = {version = "<0.1.11", optional = true}\n', "0.1.10"),
        ("pyproject.toml", '[tool.pixi.pypi-dependencies]\n"tilelang" = "==0.1.8"\n', "0.1.8"),
        ("pyproject.toml", '[dependency-groups]\ndev = ["tilelang==0.1.8"]\n', "0.1.8"),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    tilelang==0.1.8\n", "0.1.8"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['tilelang==0.1.8'])\n", "0.1.8"),
    ],
)
def test_requirement(tmp_path: Path, name: str, text: str, version: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    found = discover.find(tmp_path, environ={})
    assert found is not None
    assert found.version == version
    assert found.path is None


@pytest.mark.parametrize("text", ['[tool.uv.sources]\ntilelang = { git = "https://example.org" }\n', '[tool.poetry.dependencies]\ntilelang = "*"\n',
                                  '[tool.other]\ntilelang = "0.1.8"\n'])
def test_tables_that_say_no_version(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert discover.find(tmp_path, environ={}) is None


def test_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tilelang-tools==3\ntilelang\n")
    assert discover.find(tmp_path, environ={}) is None


def test_lowest_allowed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tilelang>=0.1.9\n")
    assert discover.lowest_allowed(tmp_path) == "0.1.9"
