"""Random edits of a text, as values: the same value always makes the same change."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

TOKEN = re.compile(r"\w+|[^\w\s]|\n[ \t]*")
SNIPPETS = (
    "(", ")", "[", "]", "{", "}", ",", ":", "=", ".", "'", '"', '"""', "'''", "#", "\\", "@", "*", "**", "->", ":=", ";", "\t", "\f", "\r\n", "\r", "\n", "    ", "0",
    "-1", "1e400", "0x", "9" * 40, "None", "True", "lambda: ", "lambda x: ", "yield ", "await ", "async ", "return ", "pass\n", "if ", "else:\n", "for i in ", "while True:\n",
    "def f(", "class C:\n", "with ", "import ", "from . import x\n", "global T\n", "del T\n", "T.", "T.gemm(", "T.Kernel(", "T.Parallel(", "T.copy(", "T.alloc_shared((", "T.Pipelined(0)",
    "@T.prim_func\n", "@tilelang.jit\n", "@T.macro\n", "# tile-lsp: instance ", "# tile-lsp: ignore", "\u00e9", "\u4e2d\u6587", "\U0001f600", "\u2028", "\ufeff", "\u200b", "\x00", "\x0c",
    "f'{", "}'", "f\"{x!r:>{w}}\"", "...", "~", "not ", " if x else ", "[::-1]", "(*a, **k)", "M // 0", "% 0", "2 ** 99999", "'%s' % ", "float('nan')", "\ud800",
)  # fmt: skip
KINDS = ("insert", "delete", "truncate", "swap-tokens", "replace-token", "delete-token", "duplicate-token", "delete-lines", "duplicate-lines", "swap-lines", "indent", "dedent",
         "move-lines", "newlines", "number", "splice", "operand")  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """``where`` and ``other`` are places from 0 to 1; ``amount`` a length or a choice."""

    kind: str
    where: float
    other: float
    amount: int
    text: str = ""


def random_edit(source: random.Random) -> Edit:
    return Edit(source.choice(KINDS), source.random(), source.random(), source.choice((1, 1, 1, 2, 3, 5, 8, 20)), source.choice(SNIPPETS))


def apply(edit: Edit, text: str) -> str:
    return HANDLERS[edit.kind](edit, text)


def place(fraction: float, length: int) -> int:
    return min(int(fraction * (length + 1)), length)


def _insert(e: Edit, text: str) -> str:
    at = place(e.where, len(text))
    return text[:at] + e.text * min(e.amount, 3) + text[at:]


def _delete(e: Edit, text: str) -> str:
    at = place(e.where, len(text))
    return text[:at] + text[at + e.amount :]


def _truncate(e: Edit, text: str) -> str:
    at = place(e.where, len(text))
    return text[:at] if e.amount < 8 else text[at:]


def _tokens(text: str) -> list[re.Match[str]]:
    return list(TOKEN.finditer(text))


def _pick(fraction: float, items: list):
    return items[min(int(fraction * len(items)), len(items) - 1)] if items else None


def _swap_tokens(e: Edit, text: str) -> str:
    found = _tokens(text)
    a, b = _pick(e.where, found), _pick(e.other, found)
    if a is None or a.start() == b.start():
        return text
    if a.start() > b.start():
        a, b = b, a
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def _replace_token(e: Edit, text: str) -> str:
    found = _tokens(text)
    a, b = _pick(e.where, found), _pick(e.other, found)
    return text if a is None else text[: a.start()] + (b[0] if e.amount > 1 else e.text) + text[a.end() :]


def _delete_token(e: Edit, text: str) -> str:
    a = _pick(e.where, _tokens(text))
    return text if a is None else text[: a.start()] + text[a.end() :]


def _duplicate_token(e: Edit, text: str) -> str:
    a = _pick(e.where, _tokens(text))
    return text if a is None else text[: a.end()] + a[0] * e.amount + text[a.end() :]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _delete_lines(e: Edit, text: str) -> str:
    lines = _lines(text)
    at = place(e.where, len(lines))
    return "".join(lines[:at] + lines[at + e.amount :])


def _duplicate_lines(e: Edit, text: str) -> str:
    lines = _lines(text)
    at = place(e.where, len(lines))
    return "".join(lines[: at + e.amount] + lines[at:])


def _swap_lines(e: Edit, text: str) -> str:
    lines = _lines(text)
    if lines:
        a, b = place(e.where, len(lines) - 1), place(e.other, len(lines) - 1)
        lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def _move_lines(e: Edit, text: str) -> str:
    lines = _lines(text)
    at, to = place(e.where, len(lines)), place(e.other, len(lines))
    block = lines[at : at + e.amount]
    rest = lines[:at] + lines[at + e.amount :]
    return "".join(rest[:to] + block + rest[to:])


def _indent(e: Edit, text: str) -> str:
    lines = _lines(text)
    at = place(e.where, len(lines))
    return "".join(lines[:at] + ["    " + x for x in lines[at : at + e.amount]] + lines[at + e.amount :])


def _dedent(e: Edit, text: str) -> str:
    lines = _lines(text)
    at = place(e.where, len(lines))
    return "".join(lines[:at] + [x[4:] if x.startswith("    ") else x for x in lines[at : at + e.amount]] + lines[at + e.amount :])


def _newlines(e: Edit, text: str) -> str:
    """Windows line ends, in a part or throughout."""
    lines = _lines(text)
    at = place(e.where, len(lines)) if e.amount < 8 else 0
    return "".join(lines[:at] + [x.replace("\r\n", "\n").replace("\n", "\r\n") for x in lines[at : at + e.amount * 4]] + lines[at + e.amount * 4 :])


def _number(e: Edit, text: str) -> str:
    found = list(re.finditer(r"\b\d+\b", text))
    a = _pick(e.where, found)
    new = ("0", "1", "-1", "3", "7", "96", "100000", "0.5", "None", "2.0", "65536", "1_000", "x")[int(e.other * 13) % 13]
    return text if a is None else text[: a.start()] + new + text[a.end() :]


def _splice(e: Edit, text: str) -> str:
    """Characters of one place instead of another's."""
    at, to = place(e.where, len(text)), place(e.other, len(text))
    return text[:to] + text[at : at + e.amount * 5] + text[to + e.amount * 5 :]


ODD = ("T", "None", '"s"', "[]", "()", "{}", "lambda x: x", "T.float16", "T.gemm", "(1, None)", "object", "...", "print", "slice(None)", "float('nan')", "1e400", "-1", "True",
       "b'x'", "1j", "[T]", "T.GemmWarpPolicy", "tilelang")  # fmt: skip


def _operand(e: Edit, text: str) -> str:
    """A value of an unlikely kind where an argument, an index or a value stands."""
    found = _pick(e.where, list(re.finditer(r"(?<=[(,=\[])\s*(?:[\w.]+|\[\w*\]|\(\))(?=\s*[,)\]\n])", text)))
    return text if found is None else text[: found.start()] + ODD[int(e.other * len(ODD)) % len(ODD)] + text[found.end() :]


HANDLERS = {
    "insert": _insert, "delete": _delete, "truncate": _truncate, "swap-tokens": _swap_tokens, "replace-token": _replace_token, "delete-token": _delete_token,
    "duplicate-token": _duplicate_token, "delete-lines": _delete_lines, "duplicate-lines": _duplicate_lines, "swap-lines": _swap_lines, "move-lines": _move_lines,
    "indent": _indent, "dedent": _dedent, "newlines": _newlines, "number": _number, "splice": _splice, "operand": _operand,
}  # fmt: skip
