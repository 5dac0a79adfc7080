"""A seed: a valid kernel file, its tree, and the small vocabulary mutation operators are written in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "examples", Path(__file__).resolve().parent / "seeds")
TARGET_COMMENT = "# mutation target: "


@dataclass(frozen=True)
class Edit:
    """Replace ``text[start:end]`` of the seed by ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Mutation:
    """What an operator yields. ``at``: where a report belongs, as spans of the seed; ``follow``: names whose uses are as good a
    place (the extent of an allocation is changed: its uses no longer fit). ``because``: why the result is wrong although TileLang
    compiles it and the interpreter cannot see it: a limit of the hardware, with its source."""

    edits: tuple[Edit, ...]
    at: tuple[tuple[int, int], ...]
    follow: tuple[str, ...] = ()
    because: str = ""
    target: str = ""  # other than the seed's


@dataclass
class Seed:
    name: str
    text: str
    target: str
    tree: ast.Module = field(init=False)
    _starts: list[int] = field(init=False)
    _statement: dict[ast.AST, ast.stmt] = field(init=False)
    _calls: list[ast.Call] = field(init=False)
    _statements: list[ast.stmt] = field(init=False)

    def __post_init__(self) -> None:
        assert self.text.isascii(), f"{self.name}: columns of ast are bytes"
        self.tree = ast.parse(self.text)
        self._starts = [0]
        for line in self.text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._statement = {}
        for s in ast.walk(self.tree):
            if isinstance(s, ast.stmt):
                for child in _header(s):
                    for n in ast.walk(child):
                        self._statement.setdefault(n, s)
                self._statement[s] = s
        nodes = list(ast.walk(self.tree))
        calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name)]
        self._calls = sorted(calls, key=self.span)
        self._statements = sorted((n for n in nodes if isinstance(n, ast.stmt)), key=self.span)

    # -- places ------------------------------------------------------------------------------------------------------
    def span(self, node: ast.AST) -> tuple[int, int]:
        if isinstance(node, ast.withitem):
            return self.span(node.context_expr)[0], self.span(node.optional_vars or node.context_expr)[1]
        return (
            self._starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def source(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def statement(self, node: ast.AST) -> ast.stmt:
        return self._statement[node]

    def place(self, node: ast.AST) -> tuple[int, int]:
        """The span of the statement around ``node``, without a compound statement's body."""
        s = self.statement(node)
        start, end = self.span(s)
        body = getattr(s, "body", None)
        if body and not isinstance(s, ast.ClassDef):
            end = self._starts[_first_line(body[0]) - 1] - 1
            if end < start:
                end = self.span(body[0])[0]
        if isinstance(s, ast.FunctionDef) and s.decorator_list:
            start = min(start, self.span(s.decorator_list[0])[0] - 1)
        return start, end

    # -- finding -----------------------------------------------------------------------------------------------------
    def calls(self, *names: str, base: str = "T") -> list[ast.Call]:
        """Calls of ``T.<name>``, in the order of the text."""
        return [c for c in self._calls if (not names or c.func.attr in names) and c.func.value.id == base]  # type: ignore[attr-defined]

    def statements(self, *kinds: type[ast.stmt]) -> list[ast.stmt]:
        return [s for s in self._statements if isinstance(s, kinds or ast.stmt)]

    def allocations(self, *kinds: str) -> list[tuple[str, ast.Call]]:
        """``name = T.alloc_<kind>(...)``."""
        wanted = tuple(f"alloc_{k}" for k in kinds)
        found = []
        for call in self.calls(*wanted):
            s = self.statement(call)
            if isinstance(s, ast.Assign) and s.value is call and isinstance(s.targets[0], ast.Name):
                found.append((s.targets[0].id, call))
        return found

    def scope_of(self, name: str) -> str | None:
        """fragment, shared ... of an allocated name."""
        for kind in ("fragment", "shared", "local", "tmem", "barrier", "var", "reducer"):
            if any(n == name for n, _ in self.allocations(kind)):
                return kind
        return None

    def extents(self, call: ast.Call) -> list[ast.expr]:
        shape = call.args[0] if call.args else None
        return list(shape.elts) if isinstance(shape, (ast.Tuple, ast.List)) else []

    def keyword(self, call: ast.Call, name: str) -> ast.keyword | None:
        return next((k for k in call.keywords if k.arg == name), None)

    # -- changing ----------------------------------------------------------------------------------------------------
    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def rename(self, call: ast.Call, name: str) -> Edit:
        """Another function of the language in a call."""
        end = self.span(call.func)[1]
        assert isinstance(call.func, ast.Attribute)
        return Edit(end - len(call.func.attr), end, name)

    def swap(self, a: ast.AST, b: ast.AST) -> tuple[Edit, Edit]:
        return self.replace(a, self.source(b)), self.replace(b, self.source(a))

    def add_argument(self, call: ast.Call, text: str) -> Edit:
        end = self.span(call)[1] - 1
        rest = self.text[self.span(call)[0] : end].rstrip()
        comma = "" if rest.endswith((",", "(")) else ", "
        return Edit(end, end, comma + text)

    def add_first(self, call: ast.Call, text: str) -> Edit:
        start = self.span(call.func)[1] + 1
        return Edit(start, start, text + (", " if call.args or call.keywords else ""))

    def drop_argument(self, call: ast.Call, arg: ast.AST) -> Edit:
        start, end = self.span(arg)
        before = self.text[:start].rstrip()
        if before.endswith(","):
            return Edit(len(before) - 1, end, "")
        after = end
        if self.text[after:].lstrip().startswith(","):
            after = self.text.index(",", after) + 1
            while self.text[after] == " ":
                after += 1
        return Edit(start, after, "")

    def set_keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        found = self.keyword(call, name)
        return self.replace(found.value, value) if found else self.add_argument(call, f"{name}={value}")

    def delete(self, s: ast.stmt) -> Edit:
        """A statement becomes ``pass``: the lines after it stay where they are."""
        return self.replace(s, "pass")

    def insert_before(self, s: ast.stmt, line: str) -> Edit:
        start = self._starts[_first_line(s) - 1]
        return Edit(start, start, self.indent(s) + line + "\n")

    def insert_after(self, s: ast.stmt, line: str) -> Edit:
        start = self._starts[s.end_lineno or s.lineno]
        return Edit(start, start, self.indent(s) + line + "\n")

    def indent(self, s: ast.stmt) -> str:
        return " " * s.col_offset


def _first_line(s: ast.stmt) -> int:
    decorators = getattr(s, "decorator_list", None)
    return min([s.lineno, *(d.lineno for d in decorators)]) if decorators else s.lineno


def _header(s: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that are not statements of its body."""
    for name, value in ast.iter_fields(s):
        if name in ("body", "orelse", "finalbody", "handlers", "cases"):
            continue
        for v in value if isinstance(value, list) else [value]:
            if isinstance(v, ast.AST):
                yield v


def load_seeds() -> list[Seed]:
    found = []
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.py")):
            text = path.read_text(encoding="utf-8")
            named = [line for line in text.splitlines() if line.startswith(TARGET_COMMENT)]
            target = named[0].removeprefix(TARGET_COMMENT).strip() if named else default_target(text)
            found.append(Seed(path.stem, text, target))
    return found


def default_target(text: str) -> str:
    if "alloc_tmem" in text:
        return "sm_100a"
    return "sm_90a" if "T.Pipelined" in text else "sm_80"
