"""A mutant: the text an edit makes of a seed, and the lines a report belongs to."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass

from seed import Edit, Mutation, Seed


@dataclass(frozen=True)
class Mutant:
    key: str  # family/operator/seed/number
    family: str
    operator: str
    seed: str
    target: str
    text: str
    lines: tuple[int, ...]
    edit: str
    because: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def make(seed: Seed, family: str, operator: str, number: int, mutation: Mutation) -> Mutant | None:
    """None: the edit changes nothing, or two of its parts overlap."""
    edits = sorted(mutation.edits, key=lambda e: (e.start, e.end))
    if any(a.end > b.start for a, b in zip(edits, edits[1:])):
        return None
    text = apply(seed.text, edits)
    if text == seed.text:
        return None
    lines = set()
    for start, end in mutation.at:
        first, last = moved(edits, start, left=True), moved(edits, end, left=False)
        lines.update(range(line_at(text, first), line_at(text, max(first, last - 1)) + 1))
    for e in edits:
        if not e.text or seed.text[e.start : e.end].strip() or not e.text.strip():
            continue  # only pure insertions are places of their own
        first = moved(edits, e.start, left=True)
        lines.update(range(line_at(text, first), line_at(text, first + len(e.text.rstrip())) + 1))
    lines |= uses(text, mutation.follow)
    shown = "; ".join(f"{seed.text[e.start : e.end]!r} -> {e.text!r}" for e in edits)
    key = f"{family}/{operator}/{seed.name}/{number}"
    return Mutant(key, family, operator, seed.name, mutation.target or seed.target, text, tuple(sorted(lines)), shown, mutation.because)


def apply(text: str, edits: list[Edit]) -> str:
    made, done = [], 0
    for e in edits:
        made += [text[done : e.start], e.text]
        done = e.end
    return "".join([*made, text[done:]])


def moved(edits: list[Edit], offset: int, left: bool) -> int:
    """Where an offset of the seed lies in the mutant; at an insertion, before (``left``) or after it."""
    shift = 0
    for e in edits:
        if e.end < offset or (e.end == offset and not (left and e.start == e.end)):
            shift += len(e.text) - (e.end - e.start)
        elif e.start < offset:
            return e.start + shift + (0 if left else len(e.text))
    return offset + shift


def line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def uses(text: str, names: tuple[str, ...]) -> set[int]:
    """The lines of all statements that mention one of the names (of compound ones, the header), and of parallel loops around them."""
    if not names:
        return set()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    lines: set[int] = set()
    for s in ast.walk(tree):
        if isinstance(s, ast.For) and "Parallel" in ast.dump(s.iter) and _mentioned(s) & set(names):
            lines.add(s.lineno)
        if isinstance(s, ast.stmt) and not isinstance(s, (ast.FunctionDef, ast.ClassDef)):
            body = getattr(s, "body", None)
            last = body[0].lineno - 1 if body else s.end_lineno or s.lineno
            if _mentioned(*(v for k, v in ast.iter_fields(s) if k not in ("body", "orelse"))) & set(names):
                lines.update(range(s.lineno, max(last, s.lineno) + 1))
    return lines


def _mentioned(*parts: object) -> set[str]:
    trees = [q for p in parts for q in (p if isinstance(p, list) else [p]) if isinstance(q, ast.AST)]
    return {n.id for t in trees for n in ast.walk(t) if isinstance(n, ast.Name)}
