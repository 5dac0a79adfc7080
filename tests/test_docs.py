"""The documentation: links that lead somewhere, pages that are up to date."""
from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def test_the_site_builds_with_strict_links(tmp_path):
    pytest.importorskip("mkdocs", reason="the documentation is built with mkdocs (extra dev)")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file() and (tmp_path / "site" / "rules" / "pages" / "gemm-shape" / "index.html").is_file()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "editors/README.md", "editors/neovim/README.md", "tests/editors/README.md", "vscode-extension/README.md"])
def test_links_between_files(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in _LINK.findall(text):
        if not re.match(r"[a-z]+:|#", target):
            assert ((ROOT / page).parent / target.split("#")[0]).exists(), f"{page}: {target}"


def test_the_settings_page_is_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "settings_page.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def stages_page():
    spec = importlib.util.spec_from_file_location("stages_page", ROOT / "tools" / "stages_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["stages_page"] = module
    spec.loader.exec_module(module)
    return module


def test_the_stages_of_a_gemm_are_equal_or_better_and_so_says_their_page():
    module = stages_page()
    kernel = module.made()
    assert [row.decision for row in module.ROWS if not row.holds(kernel)] == []
    assert (ROOT / "docs" / "stages.md").read_text(encoding="utf-8") == module.text(), "python tools/stages_page.py"


def test_what_tilelang_printed_is_what_was_published():
    """The words of the print, in the document where it is at hand."""
    documents = sorted((ROOT.parent / "shared" / "seeds").glob("*.txt"))
    text = next((t for d in documents if "__tvm_tensormap_create_tiled" in (t := d.read_text(encoding="utf-8"))), None)
    if text is None:
        pytest.skip("the published print is not at hand")
    for row in stages_page().ROWS:
        for words in row.printed:
            assert words in text, (row.decision, words)


def test_the_ci_example_is_the_one_of_the_page():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert (ROOT / "editors" / "ci" / "tile-lsp.yml").read_text(encoding="utf-8") in page


def test_the_readme_shows_the_whole_output_of_its_example(capsys, monkeypatch):
    from tile_lsp.cli.main import main

    monkeypatch.chdir(ROOT)
    assert main(["check", "examples/broken/gemm_shapes.py", "--no-cache"]) == 1
    assert capsys.readouterr().out.strip() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_all_pages_name_one_revision_for_pre_commit():
    revisions = {line.strip() for page in (ROOT / "docs").glob("*.md") for line in page.read_text(encoding="utf-8").splitlines() if line.strip().startswith("rev: ")}
    assert revisions == {"rev: main"}  # no release is tagged yet
