"""The examples in the rules' pages: the first block of each gives exactly the marked diagnostics, the second none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rule_spans import UNDERLINED
from tilec.check import check_analysis
from tilec.check.diagnostic import Diagnostic
from tilec.check.registry import BY_NAME, PAGES
from tilec.check.settings import Settings
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.source.span import Span
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

BLOCK = re.compile(r"^```python(?P<info>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"#\s*(?P<severity>error|warning|information): \[(?P<name>[a-z0-9-]+)\]")
NAMES = sorted(p.stem for p in PAGES.glob("*.md"))


def blocks(name: str) -> list[tuple[dict[str, str], str]]:
    page = (PAGES / f"{name}.md").read_text()
    return [(dict(item.split("=") for item in m["info"].split()), m["text"]) for m in BLOCK.finditer(page)]


def marked(text: str) -> set[tuple[int, str, str]]:
    return {(n, m["severity"], m["name"]) for n, line in enumerate(text.splitlines(), 1) for m in MARK.finditer(line)}


def diagnostics(options: dict[str, str], text: str) -> list[Diagnostic]:
    chosen = (options["target"],) if "target" in options else DECLARED
    api = manifest.load(options.get("version", "latest"))
    lowest = manifest.load(options["lowest"]) if "lowest" in options else None
    analysis = analyse(SourceFile("page.py", text))
    select = frozenset((options["select"],)) if "select" in options else frozenset()
    settings = Settings(select, unused_ignores=True)
    return check_analysis(analysis, [find(t) for t in chosen], api, settings, "target" in options, lowest=lowest)


def reported(options: dict[str, str], text: str) -> set[tuple[int, str, str]]:
    return {(d.span.line, d.severity, d.name) for d in diagnostics(options, text)}


def underlined(text: str, span: Span) -> str:
    lines = text.splitlines()[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_page(name: str) -> None:
    bad, good = blocks(name)
    assert any(n == name for _, _, n in marked(bad[1])), "the first block shows the rule"
    assert reported(*bad) == marked(bad[1])
    assert not marked(good[1])
    assert reported(*good) == set()


@pytest.mark.parametrize("name", NAMES)
def test_underlined(name: str) -> None:
    """Exactly what is underlined in the first block."""
    options, text = blocks(name)[0]
    found = [underlined(text, d.span) for d in diagnostics(options, text) if d.name == name]
    assert found == UNDERLINED[name]


def test_every_rule_has_a_page() -> None:
    assert set(NAMES) == set(BY_NAME) == set(UNDERLINED)


def test_pages_belong_to_rules() -> None:
    for name in NAMES:
        head = (PAGES / f"{name}.md").read_text().splitlines()[0]
        assert head == f"# {name} ({BY_NAME[name].code})"


def test_index_lists_every_rule() -> None:
    index = (Path(__file__).parents[1] / "docs" / "rules" / "README.md").read_text()
    for rule in BY_NAME.values():
        assert f"| {rule.code} |" in index
        assert f"`{rule.name}`" in index or f"[{rule.name}]" in index
