"""The mutants of the examples and seeds, confirmed wrong by TileLang 0.1.15, the interpreter or the hardware's rules, are reported.

``confirmed.json`` holds the verdicts; ``confirm.py`` makes them where TileLang is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checked import reports, shown
from recall import measure
from seed import load_seeds

FAMILIES = ("api", "jit", "launch", "python", "buffers", "types", "gemm", "tmem", "barriers", "pipelines", "parallel", "copies", "reductions", "atomics",
            "layouts", "capacity")  # fmt: skip
LEAST_WRONG, LEAST_RECALL = 20, 0.95


@pytest.fixture(scope="module")
def measured():
    return measure()


@pytest.mark.parametrize("seed", load_seeds(), ids=lambda s: s.name)
def test_the_unmutated_file_is_silent(seed):
    found = reports(seed.text, seed.target)
    assert not found, shown(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_mutants_are_reported(measured, family: str):
    f = measured[family]
    assert not f.stale, f"mutants without a verdict; run confirm.py: {f.stale[:5]}"
    assert f.wrong >= LEAST_WRONG, f"{family} has {f.wrong} mutants that are wrong"
    assert f.recall >= LEAST_RECALL, f"{family}: {f.recall:.1%}\n" + "\n".join(f.missed)


@pytest.mark.parametrize("family", FAMILIES)
def test_right_mutants_are_not_called_wrong(measured, family: str):
    assert not measured[family].accused, "\n".join(measured[family].accused)


def test_the_generator_always_makes_the_same():
    from generate import mutants

    first, second = mutants(), mutants()
    assert [(m.key, m.digest) for m in first] == [(m.key, m.digest) for m in second]
