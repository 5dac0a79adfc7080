"""Parsing after an edit gives the tree that parsing afresh gives."""
from __future__ import annotations

import ast
import random

import pytest
from lsp_kernels import MATMUL
from tilec.evaluate import analyse
from tilec.source.file import SourceFile

TEXT = MATMUL + '''
# a comment
x = 1; y = 2
@decorated
# between
@twice(
    3)
def f(a,
      b):
    """Text
over lines"""
    if a:
        return b
    else:
        return [
            a,
        ]

z = "é" + 'b' \\
    + "c"

class C: pass
if x:
    y = 3
elif y:
    y = 4
'''
PIECES = ["", "\n", " ", "    ", "x", "1", '"', "'''", "(", ")", "[", "]", ":", "\\", "\\\n", "#", "@", "else:\n", "\n    ", ";", "pass\n", "def g():\n",
          "ü", "=", ",", "    return 1\n", "except ValueError:\n", "\tq = 1\n", "x = 5\n"]


def edited(text: str, chance: random.Random) -> str:
    start = chance.randrange(len(text) + 1)
    end = min(start + chance.choice((0, 0, 0, 1, 1, 2, 7, 40)), len(text))
    return text[:start] + chance.choice(PIECES) + text[end:]


@pytest.mark.parametrize("seed", range(8))
def test_random_edits(seed):
    chance = random.Random(seed)
    kept = 0
    source = SourceFile("k.py", TEXT)
    for _ in range(250):
        text = edited(source.text, chance)
        if chance.random() < 0.1:
            text = TEXT
        before = {id(s) for s in source.tree.body}
        fresh, after = SourceFile("k.py", text), SourceFile("k.py", text, source)
        assert ast.dump(after.tree, include_attributes=True) == ast.dump(fresh.tree, include_attributes=True), (source.text, text)
        assert after.syntax_errors == fresh.syntax_errors
        kept += any(id(s) in before for s in after.tree.body)
        if not after.syntax_errors or chance.random() < 0.05:
            source = after
    assert kept > 20


@pytest.mark.parametrize("seed", range(2))
def test_analyses_of_kept_statements_are_those_of_a_fresh_look(seed):
    chance = random.Random(seed)
    source = SourceFile("k.py", TEXT)
    analyse(source)
    for _ in range(60):
        text = edited(source.text, chance)
        after, fresh = analyse(SourceFile("k.py", text, source)), analyse(SourceFile("k.py", text))
        assert after.api_uses == fresh.api_uses
        assert after.problems == fresh.problems
        assert [(k.qualname, k.kind, k.span, k.name_span, [i.text for i in k.instances]) for k in after.kernels] == \
            [(k.qualname, k.kind, k.span, k.name_span, [i.text for i in k.instances]) for k in fresh.kernels]
        if not after.source.syntax_errors:
            source = after.source


def test_uses_follow_the_meaning_of_the_modules_names():
    text = "import tilelang.language as T\nM = T\nT.nosuch(1)\nM.other(2)\n"
    source = SourceFile("k.py", text)
    assert [u.name for u in analyse(source).api_uses] == ["nosuch", "other"]
    changed = SourceFile("k.py", text.replace("M = T", "M = 0"), source)
    assert [u.name for u in analyse(changed).api_uses] == ["nosuch"]
    assert [u.name for u in analyse(SourceFile("k.py", text, changed)).api_uses] == ["nosuch", "other"]


def test_an_edit_keeps_the_statements_around_it():
    source = SourceFile("k.py", "a = 1\nb = 2\nc = 3\n")
    tree = source.tree
    after = SourceFile("k.py", "a = 1\nb = 20\nc = 3\n", source).tree
    assert [x is y for x, y in zip(tree.body, after.body)] == [True, False, True]


@pytest.mark.parametrize("old, new", [
    ("x = 1 \\\n\ny = 2\n", "x = 1 \\\n+ 3\ny = 2\n"),
    ("x = 1\nz = 3\ny = 2\n", "x = 1\nz = \\\ny = 2\n"),
    ("a = 1; b = 2\nc = 3\n", "a = 1; b = 4\nc = 3\n"),
    ("if a:\n    b\n\nc = 3\n", "if a:\n    b\nelse: d\nc = 3\n"),
    ("if a:\n    b\n\nc = 3\n", "if a:\n    b\n    d\nc = 3\n"),
    ("a = 1\n\nb = ''' '''\n", "a = 1\n'''\nb = ''' '''\n"),
    ("a = 1\n\ndef f(): pass\n", "a = 1\n@d\ndef f(): pass\n"),
    ("@d\ndef f(): pass\n", "@e\ndef f(): pass\n"),
    ("a = 1\n", ""), ("", "a = 1\n"), ("a\nb\n", "a\n"), ("a\n", "a\nb\n"),
])
def test_boundaries(old, new):
    source = SourceFile("k.py", old)
    assert source.tree
    after, fresh = SourceFile("k.py", new, source), SourceFile("k.py", new)
    assert ast.dump(after.tree, include_attributes=True) == ast.dump(fresh.tree, include_attributes=True)
    assert after.syntax_errors == fresh.syntax_errors
