"""Variants of faults and their silent counterparts (``variants/*.txt``).

A block is ``=== name | targets [| parameters [| grid | threads]]`` and a module, or with parameters the body of a kernel; lines that
begin with ``^`` stand before it. ``# call: ...`` in a module says how the kernel is made. What is reported at a line, hints
left out, is what the comment at the line says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tilec.check import check_analysis
from tilec.check.diagnostic import INFORMATION, Diagnostic
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import find

from tile_lsp.releases import manifest

FOLDER = Path(__file__).parent / "variants"
HEAD = "import tilelang\nimport tilelang.language as T\n"
MARK = re.compile(r"(error|warning): \[([a-z0-9-]+)\]")


def variants() -> Iterator[tuple[str, str, str]]:
    """(name, target, program)"""
    for path in sorted(FOLDER.glob("*.txt")):
        for block in re.split(r"(?m)^=== ", path.read_text())[1:]:
            head, _, body = block.partition("\n")
            name, target, *more = [p.strip() for p in head.split("|")]
            yield f"{path.stem}-{name}", target, program(body.rstrip("\n"), more)


def program(body: str, more: list[str]) -> str:
    if not more:
        return HEAD + body + "\n"
    params, grid, threads = (*more, *("1", "128")[len(more) - 1 :])
    lines = body.split("\n")
    before = "".join(line[1:] + "\n" for line in lines if line.startswith("^"))
    inside = "".join(" " * 8 + line + "\n" for line in lines if not line.startswith("^"))
    return (
        f"{HEAD}{before}@T.prim_func\ndef main({params}):\n    with T.Kernel({grid}, threads={threads}) as bx:\n{inside}"
    )


def diagnostics(text: str, targets: tuple[str, ...], explicit: bool) -> list[Diagnostic]:
    given = re.search(r"(?m)^# call: (.*)", text)
    factory = re.search(r"(?m)^@tilelang\.jit.*\ndef (\w+)\(|^def (factory)\(", text)
    instances = (given[1],) if given else (f"{factory[1] or factory[2]}()",) if factory else ()
    analysis = analyse(SourceFile("variant.py", text), instances=instances)
    return check_analysis(analysis, [find(t) for t in targets], manifest.load("0.1.15"), explicit=explicit)


@pytest.mark.parametrize(("target", "text"), [pytest.param(t, p, id=n) for n, t, p in variants()])
def test_variant(target: str, text: str) -> None:
    wanted = {(n, *m) for n, line in enumerate(text.splitlines(), 1) for m in MARK.findall(line)}
    for chip in target.split():
        found = diagnostics(text, (chip,), True)
        assert {(d.span.line, d.severity, d.name) for d in found if d.severity != INFORMATION} == wanted, chip
