"""``tile-lsp api diff``."""

from __future__ import annotations

import json

import pytest
from cli_support import command

from tile_lsp.cli.api import compare
from tile_lsp.releases.manifest import Entry


def test_between_two_releases(capsys) -> None:
    code, out, _ = command(capsys, "api", "diff", "0.1.8", "0.1.15")
    assert code == 0
    assert out.startswith("tilelang.language, 0.1.8 to 0.1.15\n")
    assert "\n    + tcgen05_gemm(" in out and "\n    - sync_global()" in out
    data = json.loads(command(capsys, "api", "diff", "0.1.9", "latest", "--json")[1])
    language = data["modules"]["tilelang.language"]
    assert (data["old"], data["new"]) == ("0.1.9", "0.1.15")
    assert "gemm_blockscaled" in language["added"] and "tcgen05_gemm" not in language["added"], "0.1.9 has it"
    assert language["changed"]["Kernel"]["new"].startswith("*blocks")
    assert command(capsys, "api", "diff", "0.1.15", "0.1.15")[1] == "No difference between 0.1.15 and 0.1.15.\n"


@pytest.mark.parametrize("versions", [("9.9.9", "0.1.15"), ("0.1.15", "newest")])
def test_unknown_releases(capsys, versions: tuple[str, str]) -> None:
    code, out, err = command(capsys, "api", "diff", *versions)
    assert (code, out) == (2, "") and "0.1.8" in err and len(err.splitlines()) == 1


def test_what_counts_as_a_change() -> None:
    def entry(signature, incidental=False):
        return Entry("function", "m", signature, incidental)

    old = {"same": entry("a"), "gone": entry("a"), "more": entry("a"), "untold": entry(None), "left": entry("", True), "_own": entry("")}
    new = {"same": entry("a"), "come": entry("b"), "more": entry("a, b"), "untold": entry("x"), "found": entry("", True)}
    assert compare(old, new) == {"added": {"come": "b"}, "removed": {"gone": "a"}, "changed": {"more": {"old": "a", "new": "a, b"}}}
