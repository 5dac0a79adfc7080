"""Running Python functions as the evaluator's functions: their syntax trees, and scopes that read their real names."""
from __future__ import annotations

import ast
import inspect
import linecache
import types
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..evaluate.scope import Scope
from ..evaluate.values import MISSING, Function
from ..source.file import SourceFile
from .errors import CompileError


class RealNames(dict):
    """Names assigned during tracing, over those of a running program: closure, enclosing frames, globals."""

    def __init__(self, layers: tuple[Any, ...], convert: Any):
        super().__init__()
        self._layers = layers
        self._convert = convert

    def get(self, name: str, default: Any = None) -> Any:
        if dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        for layer in self._layers:
            if name in layer:
                return self._convert(layer[name])
        return default

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or any(name in layer for layer in self._layers)

    def __getitem__(self, name: str) -> Any:
        found = self.get(name, MISSING)
        if found is MISSING:
            raise KeyError(name)
        return found


def real_scope(function: types.FunctionType, convert: Any, source: SourceFile, frames: tuple[Any, ...] = ()) -> Scope:
    """The scope a function's body sees. ``frames``: local names of the callers that define it, for annotations kept as text."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    scope = Scope(None, "module", source)
    scope.names = RealNames((cells, *frames, function.__globals__), convert)
    return scope


def traced_function(function: types.FunctionType, convert: Any, kind: str = "plain", frames: tuple[Any, ...] = ()) -> Function:
    """The evaluator's view of a real function. Raises CompileError where its source is not to be had."""
    source, node = syntax_of(function)
    scope = real_scope(function, convert, source, frames)
    defaults = [convert(d) for d in function.__defaults__ or ()]
    keyword_defaults = {k: convert(v) for k, v in (function.__kwdefaults__ or {}).items()}
    name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
    return Function(node, scope, name, defaults, keyword_defaults, kind=kind, source=source)


def syntax_of(function: types.FunctionType) -> tuple[SourceFile, ast.FunctionDef | ast.Lambda]:
    """The file of a function and its definition in it. Raises CompileError."""
    code = function.__code__
    source = _file(code.co_filename, _text_key(code.co_filename))
    nodes = _definitions(source).get((code.co_firstlineno, code.co_name), ()) if source is not None else ()
    node = nodes[0] if len(nodes) == 1 else _of_code(nodes, code)
    if source is None or node is None:
        raise CompileError(f"the source of {function.__qualname__} is not found ({code.co_filename}, line {code.co_firstlineno}); kernels are compiled "
                           "from their source text, so they must be defined in a file")
    return source, node


def has_source(function: types.FunctionType) -> bool:
    try:
        syntax_of(function)
    except CompileError:
        return False
    return True


def _text_key(path: str) -> int:
    linecache.checkcache(path)
    return hash("".join(linecache.getlines(path)))


@lru_cache(maxsize=256)
def _file(path: str, key: int) -> SourceFile | None:
    lines = linecache.getlines(path)
    return SourceFile(path, "".join(lines)) if lines else None


_FOUND: dict[int, tuple[SourceFile, dict[tuple[int, str], list[Any]]]] = {}


def _of_code(nodes: Sequence[Any], code: types.CodeType) -> Any:
    """Which of several lambdas in a line a code object was made of: the innermost around its instructions (before Python 3.11: that does the same)."""
    if not hasattr(code, "co_positions"):
        return next((n for n in nodes if _steps(_compiled(n)) == _steps(code)), None)
    places = [(line, column, end_line, end) for line, end_line, column, end in code.co_positions() if None not in (line, end_line, column, end) and end]
    around = [n for n in nodes if all((n.lineno, n.col_offset) <= p[:2] and p[2:] <= (n.end_lineno, n.end_col_offset) for p in places)]
    return min(around, key=lambda n: (n.end_lineno - n.lineno, n.end_col_offset - n.col_offset), default=None)


def _steps(code: types.CodeType) -> list[tuple[str, str]]:
    """What the code does, whether its free names are another function's or the module's."""
    import dis

    free = ("LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLOSURE")
    return [("LOAD" if i.opname in free else i.opname, repr(_steps(i.argval)) if isinstance(i.argval, types.CodeType) else
             "" if i.argrepr.endswith("<lambda>'") else i.argrepr) for i in dis.get_instructions(code)]


def _compiled(node: ast.Lambda) -> types.CodeType:
    whole = compile(ast.Expression(node), "<lambda>", "eval")
    return next(c for c in whole.co_consts if isinstance(c, types.CodeType))


def _definitions(source: SourceFile) -> dict[tuple[int, str], list[Any]]:
    """Functions by the line their code object names (the first decorator's) and their name."""
    known = _FOUND.get(id(source))
    if known is not None and known[0] is source:
        return known[1]
    found: dict[tuple[int, str], list[Any]] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            first = min([d.lineno for d in node.decorator_list] + [node.lineno])
            found[(first, node.name)] = [node]
        elif isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, "<lambda>"), []).append(node)
    _FOUND[id(source)] = (source, found)
    return found


def enclosing_locals(function: types.FunctionType, depth: int) -> tuple[dict[str, Any], ...]:
    """The local names of the frames that are defining a function, innermost first: what text annotations may name."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None else None
    found = []
    while frame is not None and frame.f_code.co_filename == function.__code__.co_filename:
        if frame.f_code.co_name != "<module>":
            found.append(dict(frame.f_locals))
        frame = frame.f_back
    return tuple(found)
