"""The house rules: who may import whom, what every folder says of itself, what never appears in the project."""
from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TILEC = ROOT / "compiler" / "tilec"
SERVER = ROOT / "tile_lsp"

# folder -> project folders it may import (besides itself); docs/architecture.md says why
ALLOWED = {
    "tilec.source": set(),
    "tilec.ir": {"tilec.source"},
    "tilec.language": {"tilec.source", "tilec.ir"},
    "tilec.evaluate": {"tilec.source", "tilec.ir", "tilec.language"},
    "tilec.target": set(),
    "tilec.check": {"tilec.source", "tilec.ir", "tilec.language", "tilec.evaluate", "tilec.target", "tilec.analysis"},
    "tilec.analysis": {"tilec.source", "tilec.ir", "tilec.target"},
    "tilec.transform": {"tilec.source", "tilec.ir", "tilec.analysis", "tilec.target"},
    "tilec.emit": {"tilec.source", "tilec.ir", "tilec.analysis", "tilec.target", "tilec.transform", "tilec.tvm_compat"},
    "tilec.build": {"tilec.folders", "tilec.source", "tilec.ir", "tilec.target"},
    "tilec.runtime": {"tilec.source", "tilec.ir", "tilec.target", "tilec.build", "tilec.emit", "tilec.evaluate", "tilec.pipeline", "tilec.transform"},
    "tilec.jit": {"tilec.source", "tilec.ir", "tilec.target", "tilec.evaluate", "tilec.check", "tilec.build", "tilec.emit", "tilec.runtime", "tilec.pipeline",
                  "tilec.transform"},
    "tilec.served": {"tilec.ir", "tilec.target", "tilec.build", "tilec.jit"},
    "tile_lsp.releases": {"tilec.folders"},
    "tile_lsp.workers": {"tilec"},
    "tile_lsp.ide": {"tilec", "tile_lsp.releases", "tile_lsp.workers"},
    "tile_lsp.server": {"tilec", "tile_lsp.releases", "tile_lsp.workers", "tile_lsp.ide"},
    "tile_lsp.cli": {"tilec", "tile_lsp.releases", "tile_lsp.workers", "tile_lsp.ide", "tile_lsp.server"},
}
ANYWHERE = ("tilec.records", "tilec.records.dataclass", "tilec.__version__", "tile_lsp.__version__", "tile_lsp.__file__")
STANDARD_LIBRARY_ONLY = ("tilec.source", "tilec.ir", "tilec.language", "tilec.evaluate", "tilec.check", "tilec.target", "tilec.analysis", "tile_lsp.releases")
OUTSIDE = {"tvm", "tvm_ffi", "torch", "numpy", "rich", "pygls", "lsprotocol", "cuda", "tilelang"}


def modules() -> list[tuple[str, Path]]:
    found = []
    for base, package in ((TILEC, "tilec"), (SERVER, "tile_lsp")):
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found.append((".".join((package, *parts)), path))
    return found


def imports(name: str, path: Path) -> set[str]:
    """Absolute names of what a module imports, relative imports resolved."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    if path.name == "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *(node.module.split(".") if node.module else [])])
            found.update(f"{target}.{a.name}" for a in node.names)
    return found


def folder_of(name: str) -> str | None:
    return next((f for f in ALLOWED if name == f or name.startswith(f + ".")), None)


@pytest.mark.parametrize("name, path", modules(), ids=[n for n, _ in modules()])
def test_imports_go_one_way(name: str, path: Path):
    folder = folder_of(name)
    if folder is None:
        return
    for target in imports(name, path):
        top = target.split(".")[0]
        if top in ("tilec", "tile_lsp"):
            if target.startswith(folder + ".") or target == folder or target in ANYWHERE:
                continue
            assert any(target == a or target.startswith(a + ".") for a in ALLOWED[folder]), f"{name} imports {target}"
        elif folder in STANDARD_LIBRARY_ONLY:
            assert top not in OUTSIDE, f"{name} imports {target}: {folder} needs the standard library only"


def test_only_one_module_imports_tvm():
    found = [n for n, p in modules() if any(i.split(".")[0] in ("tvm", "tvm_ffi") for i in imports(n, p))]
    assert found == ["tilec.tvm_compat"]


def test_every_folder_says_what_it_is_for():
    folders = {p.parent for base in (TILEC, SERVER) for p in base.rglob("*.py")}
    for folder in sorted(folders):
        init = folder / "__init__.py"
        assert init.is_file(), folder
        assert ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))), f"{init} has no purpose line"


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in done.stdout.splitlines()]


def test_no_path_of_a_machine_appears():
    pattern = re.compile("|".join(("/" + "work/", "/" + "opt/w", r"\." + "library", "/" + "root/")))
    for path in tracked():
        if path.suffix in (".png", ".json", ".lock") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        found = pattern.search(text)
        assert found is None, f"{path.relative_to(ROOT)} names {found.group(0)!r}"


def test_readme_names_the_test_command():
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
