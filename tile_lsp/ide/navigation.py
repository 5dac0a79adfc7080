"""Where a name is defined and used: in the file, in other files of the workspace, in the user's TileLang."""
from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Iterable
from pathlib import Path

from tilec.records import dataclass
from tilec.source.file import SourceFile
from tilec.source.nodes import walk
from tilec.source.shared import shared_source
from tilec.source.span import Span

from ..releases import sources
from . import syntax, workspace_files
from .scopes import Binding, Names
from .snapshot import Snapshot

Read = Callable[[str], "str | None"]  # the text of a file as the editor has it, None if there is none


class Refused(Exception):
    """A rename that cannot be done; the text is shown to the user."""


@dataclass(frozen=True)
class Target:
    """The name under the cursor. ``binding``: the variable of this file; ``api``: (module, name) of TileLang."""

    span: Span
    binding: Binding | None = None
    api: tuple[str, str] | None = None


def target_at(snapshot: Snapshot, line: int, column: int) -> Target | None:
    """What stands at a place (from 1)."""
    use = next((u for u in snapshot.analysis.api_uses if syntax.holds(u.name_span, line, column)), None)
    binding = snapshot.names.at(line, column)
    if use is not None and (binding is None or use.imported):
        return Target(use.name_span, binding, (use.module, use.name))
    if binding is None:
        return None
    span = snapshot.names.span_at(line, column)
    return Target(span, binding) if span is not None else None


# -- definition ------------------------------------------------------------------------------------------------------------------
def definitions(snapshot: Snapshot, line: int, column: int, read: Read) -> list[Span]:
    target = target_at(snapshot, line, column)
    if target is None:
        return []
    if target.api is not None:
        return _in_tilelang(snapshot, *target.api)
    assert target.binding is not None
    if target.binding.kind == "import":
        return _imported(snapshot, target.binding, read) or target.binding.definitions[:1]
    return target.binding.definitions[:1] if target.binding.kind in ("parameter", "function", "class") else target.binding.definitions


def _in_tilelang(snapshot: Snapshot, module: str, name: str) -> list[Span]:
    package = snapshot.environment.sources
    if package is None:
        return []
    entry = snapshot.environment.api.entry(name, module)
    place = sources.locate(package, entry.module if entry is not None else module, name)
    return [Span(str(place.path), place.line, place.column, place.line, place.column + len(place.name))] if place is not None else []


def _imported(snapshot: Snapshot, binding: Binding, read: Read) -> list[Span]:
    """Where an imported name of the workspace is defined."""
    statement = next((s for s in ast.walk(snapshot.source.tree) if isinstance(s, (ast.Import, ast.ImportFrom)) and binding.node in s.names), None)
    if statement is None:
        return []
    assert isinstance(binding.node, ast.alias)
    for path, name in workspace_files.imported_files(snapshot.source.path, statement, binding.node):
        if name is None:
            return [Span(str(path), 1, 1, 1, 1)]
        text = read(str(path))
        found = Names(shared_source(str(path), text)).module.names.get(name) if text is not None else None
        if found is not None:
            return found.definitions[:1]
    if snapshot.environment.sources is not None and isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("tilelang"):
        place = sources.locate(snapshot.environment.sources, statement.module or "", binding.node.name)
        return [Span(str(place.path), place.line, place.column, place.line, place.column + len(place.name))] if place is not None else []
    return []


# -- references --------------------------------------------------------------------------------------------------------------------
def references(snapshot: Snapshot, line: int, column: int, roots: Iterable[Path], read: Read, with_declaration: bool = True) -> list[Span]:
    target = target_at(snapshot, line, column)
    if target is None:
        return []
    if target.binding is None or (target.api is not None and target.binding.kind != "import"):
        uses = [u.name_span for u in snapshot.analysis.api_uses if (u.module, u.name) == target.api]
        return sorted(dict.fromkeys(uses), key=Span.start)
    binding = target.binding
    found = list(binding.places) if with_declaration else [p for p in binding.places if p not in binding.definitions]
    home, name = _home(snapshot, binding, read)
    if home is not None:
        found += _elsewhere(home, name, snapshot.source.path, roots, read)
    return found


def highlights(snapshot: Snapshot, line: int, column: int) -> list[tuple[Span, bool]]:
    """The places of the name in this file, with whether it is bound there."""
    target = target_at(snapshot, line, column)
    if target is None:
        return []
    if target.binding is None:
        return [(u.name_span, False) for u in snapshot.analysis.api_uses if (u.module, u.name) == target.api]
    return [(p, p in target.binding.definitions) for p in target.binding.places]


def _home(snapshot: Snapshot, binding: Binding, read: Read) -> tuple[str | None, str]:
    """The file whose module variable a binding is: its own, or the one it is imported from."""
    if not binding.is_global:
        return None, binding.name
    if binding.kind == "import":
        defined = _imported(snapshot, binding, read)
        assert isinstance(binding.node, ast.alias)
        return (defined[0].path, binding.node.name) if defined and defined[0].path != snapshot.source.path else (None, binding.name)
    return snapshot.source.path, binding.name


def _elsewhere(home: str, name: str, but: str, roots: Iterable[Path], read: Read) -> list[Span]:
    """The places of a module's variable in the other files of the workspace: where it is defined and where it is imported."""
    found: list[Span] = []
    if home != but:
        text = read(home)
        binding = Names(shared_source(home, text)).module.names.get(name) if text is not None else None
        found += binding.places if binding is not None else []
    for path in workspace_files.mentioning(roots, Path(home).stem, name):
        if str(path) in (home, but):
            continue
        text = read(str(path))
        if text is not None:
            found += _importing(SourceFile(str(path), text), home, name)
    return found


def _importing(source: SourceFile, home: str, name: str) -> list[Span]:
    names = Names(source)
    found: list[Span] = []
    for statement in ast.walk(source.tree):
        if not isinstance(statement, ast.ImportFrom):
            continue
        for alias in statement.names:
            if alias.name != name or not any(str(p) == home and n == name for p, n in workspace_files.imported_files(source.path, statement, alias)):
                continue
            start = source.span(alias)
            own = Span(start.path, start.line, start.column, start.line, start.column + len(name))
            binding = names.at(own.line, own.column)
            found += binding.places if binding is not None and not alias.asname else [own]
    return found


# -- rename ------------------------------------------------------------------------------------------------------------------------
def renameable(snapshot: Snapshot, line: int, column: int) -> Span:
    """The place of the name that can be renamed. Raises Refused."""
    target = target_at(snapshot, line, column)
    if target is None:
        raise Refused("There is no variable here that could be renamed.")
    if target.binding is None or target.api is not None:
        raise Refused(f"{target.api[1] if target.api else 'this name'} belongs to TileLang and cannot be renamed here.")
    if snapshot.source.syntax_errors:
        message, span = snapshot.source.syntax_errors[0]
        raise Refused(f"Line {span.line} does not parse ({message}), so places of the name might be missed. Repair it first.")
    return target.span


def rename(snapshot: Snapshot, line: int, column: int, new: str, roots: Iterable[Path], read: Read) -> list[Span]:
    """The places to write the new name at. Raises Refused."""
    renameable(snapshot, line, column)
    if not new.isidentifier() or keyword.iskeyword(new):
        raise Refused(f"{new!r} is no name that Python takes.")
    target = target_at(snapshot, line, column)
    assert target is not None and target.binding is not None
    binding = target.binding
    if binding.kind == "import" and isinstance(binding.node, ast.alias) and not binding.node.asname and _home(snapshot, binding, read)[0] is None:
        raise Refused(f"{binding.name} is imported from another package; write `import … as {new}` instead.")
    taken = _taken(snapshot, binding, new)
    if taken is not None:
        raise Refused(f"{new} is already the name of something in line {taken.line}.")
    return references(snapshot, line, column, roots, read)


def _taken(snapshot: Snapshot, binding: Binding, new: str) -> Span | None:
    """A variable of the new name that one of the places would then stand for, or that would be hidden."""
    for other in snapshot.names.bindings:
        if other.name != new or other is binding:
            continue
        if other.scope is binding.scope or _encloses(other.scope, binding.scope) or _encloses(binding.scope, other.scope):
            return other.definitions[0]
    for node in walk(snapshot.source.tree):  # a builtin, say: it would mean the renamed variable where that can be seen
        if isinstance(node, ast.Name) and node.id == new:
            span = snapshot.source.span(node)
            if snapshot.names.at(span.line, span.column) is None:
                return span
    return None


def _encloses(outer: object, inner: object) -> bool:
    scope = getattr(inner, "parent", None)
    while scope is not None:
        if scope is outer:
            return True
        scope = scope.parent
    return False
