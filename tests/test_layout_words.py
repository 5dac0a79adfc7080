"""What hovers tell of a buffer's layout."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from tilec.analysis.layout import REGISTER, THREAD, Digit, FragmentLayout, Replica
from tilec.target import chips

from tile_lsp.ide import hover
from tile_lsp.ide.layout_words import fragment_words
from tile_lsp.ide.lowered import LoweredView
from tile_lsp.ide.lowering import compile_checked, facts_of, find_program

GEMM = Path(__file__).resolve().parent.parent / "examples" / "gemm.py"


@pytest.mark.parametrize(("layout", "words"), [
    (FragmentLayout((4, 64), (Digit(1, 2, 1, REGISTER, 1), Digit(1, 32, 2, THREAD, 1), Digit(0, 4, 1, REGISTER, 2))),
     "[i, j] is in thread `j // 2 % 32`, its element `j % 2 + i % 4 * 2` · 8 elements a thread"),
    (FragmentLayout((32,), (Digit(0, 32, 1, THREAD, 1),), (Replica(4, 32),)), "[i] is in thread `i % 32` and 3 more, its element `0` · 1 element a thread"),
    (FragmentLayout((4,), (Digit(0, 4, 1, REGISTER, 1),), (Replica(128, 1),)), "every thread holds all 4"),
])
def test_words_of_fragments(layout: FragmentLayout, words: str) -> None:
    assert fragment_words(layout) == words


def _facts(target: str) -> dict[str, str]:
    found = find_program(str(GEMM), GEMM.read_text())
    return dict(facts_of(compile_checked(found, chips.find(target)))["layouts"])


def test_the_words_say_where_the_compiler_puts_an_element() -> None:
    """Read back, they give the accumulator of wgmma m64n128k16: rows of eight in a warp, pairs of columns in a thread."""
    words = _facts("sm_90a")["C_local"]
    thread, element = re.findall("`(.+?)`", words)
    places = {(i, j): (eval(thread, {"i": i, "j": j}), eval(element, {"i": i, "j": j})) for i in range(128) for j in range(128)}
    assert len(set(places.values())) == 128 * 128 and places[0, 0] == (0, 0) and places[0, 1] == (0, 1) and places[1, 0] == (4, 0) and places[8, 0] == (0, 2)


def test_words_of_shared_tiles() -> None:
    assert _facts("sm_90a")["B_shared"] == "panels of 32 rows of 128 bytes (64 elements), 16-byte pieces swizzled within 128 bytes"
    assert "swizzled within 64 bytes" in _facts("sm_80")["A_shared"]


def test_the_hover_of_a_buffer_has_its_layout_alone() -> None:
    view = LoweredView("k", "k()", "sm_90a", "cuda", "float c[4];\n", ((1, 1, 7),), {"layouts": [["c", "here"], ["d", "there"]]})
    asked = hover.LoweringQuestion("k", "k()", 7, 7, buffer="c")
    assert "\n- layout: here" in hover.lowered_markdown(asked, [view]) and "there" not in hover.lowered_markdown(asked, [view])
    assert "layout" not in hover.lowered_markdown(hover.LoweringQuestion("k", "k()", 7, 7), [view])
