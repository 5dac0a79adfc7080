"""The call that a cursor stands in, from the text alone: it works while the text is half typed."""
from __future__ import annotations

import re

from tilec.records import dataclass

_TOKEN = re.compile(r'#[^\n]*|("""|\'\'\')|(["\'])|([\[({])|([\])}])|(,)|(\b[A-Za-z_]\w*\s*=(?!=))|(\n(?=(?:@|def |class |import |from |if __name__)))')
_CALLEE = re.compile(r"([A-Za-z_][\w.]*)\s*$")
_MOST_LINES = 200


@dataclass(frozen=True)
class CallContext:
    """``callee``: the dotted name before the parenthesis; ``argument``: how many commas before; ``keyword``: the one being given;
    ``used``: all keywords given so far; ``string``: what has been typed of a string literal at the cursor, None outside of one."""

    callee: str
    argument: int
    keyword: str
    used: frozenset[str]
    string: str | None = None


@dataclass
class _Open:
    bracket: str
    callee: str
    argument: int = 0
    keyword: str = ""
    used: tuple[str, ...] = ()


def text_before(lines: list[str], line: int, column: int) -> str:
    """The text in front of a place (from 1), as far back as a call may begin."""
    first = max(0, line - 1 - _MOST_LINES)
    kept = lines[first:line - 1]
    last = lines[line - 1][:column - 1] if line <= len(lines) else ""
    return "\n".join([*kept, last])


def at(text: str) -> CallContext | None:
    """The innermost open call at the end of ``text``; None outside every call."""
    stack: list[_Open] = []
    index, string = 0, None
    while match := _TOKEN.search(text, index):
        index = match.end()
        triple, quote, opened, closed, comma, keyword, statement = match.groups()
        if triple or quote:
            end = _string_end(text, index, triple or quote)
            if end is None:
                string = text[index:]
                break
            index = end
        elif opened:
            callee = _CALLEE.search(text[max(0, match.start() - 200):match.start()]) if opened == "(" else None
            stack.append(_Open(opened, callee.group(1) if callee else ""))
        elif closed:
            if stack:
                stack.pop()
        elif statement is not None:
            stack.clear()  # a new definition at the margin: whatever is open above is torn
        elif stack and comma:
            stack[-1].argument += 1
            stack[-1].keyword = ""
        elif stack and keyword and stack[-1].bracket == "(":
            name = keyword.rstrip("= \t\n")
            stack[-1].keyword = name
            stack[-1].used += (name,)
    for frame in reversed(stack):
        if frame.bracket == "(" and frame.callee:
            return CallContext(frame.callee, frame.argument, frame.keyword, frozenset(frame.used), string)
    return None


def in_string_or_comment(text: str) -> bool:
    """Whether the end of a text lies in a comment or a string."""
    index = 0
    while match := _TOKEN.search(text, index):
        index = match.end()
        if match.group().startswith("#"):
            if index == len(text):
                return True
            continue
        quote = match.group(1) or match.group(2)
        if quote:
            end = _string_end(text, index, quote)
            if end is None:
                return True
            index = end
    return False


def _string_end(text: str, index: int, quote: str) -> int | None:
    """Behind the closing quote; None if the string is still open at the end. A short string ends with its line in any case."""
    while index < len(text):
        if text[index] == "\\":
            index += 2
            continue
        if text.startswith(quote, index):
            return index + len(quote)
        if len(quote) == 1 and text[index] == "\n":
            return index
        index += 1
    return None
