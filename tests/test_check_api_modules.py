"""Names of tilelang.testing, tilelang.profiler and tilelang.layout, with the signatures of the release."""

from __future__ import annotations

import pytest
from tilec.check import check_analysis
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

HEAD = """import tilelang
import tilelang.language as T
import tilelang.testing
import tilelang.layout
from tilelang import testing
from tilelang.layout import make_swizzled_layout
from tilelang.profiler import do_bench

"""


def reported(text: str, version: str = "0.1.15") -> list[tuple[str, str]]:
    """(rule, what is underlined)"""
    text = HEAD + text + "\n"
    found = check_analysis(analyse(SourceFile("m.py", text)), [find(t) for t in DECLARED], manifest.load(version), explicit=False)
    lines = text.splitlines()
    return [(d.name, lines[d.span.line - 1][d.span.column - 1 : d.span.end_column - 1]) for d in found]


@pytest.mark.parametrize(
    ("text", "rule", "underlined"),
    [
        ("do_bench(print, warmups=3)", "unknown-keyword", "warmups"),
        ("tilelang.profiler.do_bench()", "wrong-arity", "tilelang.profiler.do_bench()"),
        ("tilelang.profiler.do_bnch(print)", "unknown-attribute", "tilelang.profiler.do_bnch"),
        ("tilelang.testing.torch_assert_close(1)", "wrong-arity", "tilelang.testing.torch_assert_close(1)"),
        ("testing.torch_assert_close(1, 2, rtool=1e-2)", "unknown-keyword", "rtool"),
        ("testing.set_random_seed(1, 2)", "wrong-arity", "2"),
        ("make_swizzled_layout(1, True, True, 4)", "wrong-arity", "4"),
        ("tilelang.layout.make_swizzle_layout(1)", "unknown-attribute", "tilelang.layout.make_swizzle_layout"),
        ("def f():\n    from tilelang import testing\n    testing.set_random_sed(1)", "unknown-attribute", "testing.set_random_sed"),
        ("from tilelang.testing import set_random_sed", "unknown-attribute", "set_random_sed"),
    ],
)
def test_fault(text: str, rule: str, underlined: str) -> None:
    assert reported(text) == [(rule, underlined)]


@pytest.mark.parametrize(
    "text",
    [
        "do_bench(print, warmup=3)",
        "tilelang.profiler.do_bench(print, rep=10, backend='event')",
        "tilelang.testing.torch_assert_close(1, 2, rtol=1e-2, max_mismatched_ratio=0.1)",
        "@tilelang.testing.requires_cuda\ndef test(): ...",  # of tvm.testing
        "@tilelang.testing.requires_cuda_compute_version_ge(9, 0)\ndef test(): ...",
        "tilelang.testing.main()",
        "tilelang.layout.Layout((8, 8), lambda i, j: i * 8 + j)",
        "tilelang.layout.something_new(1)",  # not every name of these modules is known
        "tilelang.testing.torch.zeros(3)",
        "class testing:\n    pass\n\ntesting.set_random_sed(1)",
        "def f(testing):\n    testing.set_random_sed(1)",
        "if hasattr(testing, 'set_random_sed'):\n    testing.set_random_sed(1)",
    ],
)
def test_silent(text: str) -> None:
    assert reported(text) == []


def test_releases_differ() -> None:
    assert reported("make_swizzled_layout(1, k_major=True)", "0.1.15") == []
    assert reported("tilelang.testing.set_random_sed(1)", "0.1.5") == []  # not shipped for the oldest
