"""One file: read, checked, fixed if that is asked. The module that loads the evaluator and the rules."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilec.check.checker import check_analysis
from tilec.check.diagnostic import Diagnostic
from tilec.check.suppress import selectors
from tilec.evaluate import analyse, instantiate
from tilec.records import dataclass
from tilec.source.file import SourceFile
from tilec.source.shared import shared_source
from tilec.target import chips

from ...ide.document import MAX_CHARACTERS, Document
from ...ide.given import misfit
from ...releases import discover, manifest
from ...releases.storage import write_atomically
from . import notebook
from .cache import Seen, seen
from .edits import apply_edits, choose
from .files import STDIN, Text, Unreadable, decode, read_state
from .plan import Fixing, Job, Plan
from .result import FileResult

MAX_PASSES = 10  # of fixing: a fix may make room for another
_MAX_IMPORTED = 2_000_000  # bytes of a module that is read for what a file imports from it


@dataclass(slots=True)
class Checked:
    """``own`` and ``dependencies``: the files that the result follows from, for the cache."""

    result: FileResult
    own: Seen | None = None
    dependencies: list[Seen] | None = None


def check_file(job: Job) -> Checked:
    """Read, check, and fix if the job says so."""
    path, name, text = job.path, job.name, job.text
    state, data = None, None
    try:
        if text is None:
            state, data = read_state(path)
            text = decode(data, path)
        read = _Reader()
        result = check_text(name, text.text, job.plan, read)
        if job.fixing is not None:
            result = _fix(job, text, result, read, job.fixing)
    except Unreadable as problem:
        return Checked(FileResult(name, failure=str(problem)))
    if path == STDIN or result.before is not None:
        return Checked(result)
    return Checked(result, seen(os.path.abspath(path), state, data), read.seen(os.path.abspath(path)))


def check_text(name: str, text: str, plan: Plan, read: Any = None) -> FileResult:
    """Raises Unreadable for a notebook that is none."""
    if name.endswith(notebook.SUFFIX):
        book = notebook.parse(name, text)
        result = _check(_source(name, book.text), plan, read)
        result.diagnostics = [book.diagnostic(d) for d in result.diagnostics]
        return result
    return _check(_source(name, text), plan, read)


def _source(name: str, text: str) -> SourceFile:
    document = Document(name, text)
    if not document.readable:
        raise Unreadable(name, f"is too big to be a kernel's source: {len(text)} characters, the limit is {MAX_CHARACTERS}")
    return shared_source(name, document.normalized)


def _check(source: SourceFile, plan: Plan, read: Any) -> FileResult:
    result = FileResult(source.path)
    if any(d.kind == "ignore-file" and not d.text.startswith("[") and not selectors(d) for d in source.directives):
        return result
    analysis = analyse(source, instances=plan.instances, config_instances=plan.config_instances, read=read)
    if analysis.scope is None:
        return result  # no trace of TileLang
    result.uses_tilelang = True
    result.version, result.how = plan.version, plan.how
    result.kernels = len(analysis.kernels)
    result.instances = sum(len(k.instances) for k in analysis.kernels)
    result.instance_errors = list(analysis.instance_errors)
    result.wrong_directives = list(analysis.directive_errors)
    told = {"command": result.wrong_instances, "directive": result.wrong_directives}
    gaps: dict[str, list[str | None]] = {k.qualname: [] for k in analysis.kernels}

    def program(kernel: Any, instance: Any) -> Any:
        made = instantiate(analysis, kernel, instance)
        if instance.origin in told:
            told[instance.origin].extend(w for w in misfit(kernel, instance, made) if w not in told[instance.origin])
        if plan.coverage:
            from tilec.evaluate.coverage import gap

            gaps[kernel.qualname].append(gap(made) if made is not None else "no program")
        return made

    api = discover.api(plan.found) if plan.found is not None else manifest.load(plan.version)
    lowest = manifest.load(plan.lowest) if plan.lowest else None
    targets = [chips.find(t) for t in plan.targets]
    result.diagnostics = check_analysis(analysis, targets, api, plan.settings, plan.explicit, program, lowest, assumed=plan.coverage)
    if plan.coverage:
        result.gaps = [(k, next((r for r in found if r), "no instance is known")) for k, found in gaps.items() if None not in found]
    return result


# -- fixing ---------------------------------------------------------------------------------------------------------
def _fix(job: Job, text: Text, result: FileResult, read: Any, fixing: Fixing) -> FileResult:
    """Fixes are made until none is left that may be; the file is checked anew after each pass."""
    name, now, count, found = job.name, text.text, 0, result
    for _ in range(MAX_PASSES):
        changed, made = _one_pass(name, now, result.diagnostics, fixing.unsafe)
        if not made or changed == now:
            break
        after = check_text(name, changed, job.plan, read)
        if _syntax_errors(after.diagnostics) > _syntax_errors(result.diagnostics):
            return replace(result, failure=f"{name}: a fix would have made the file invalid Python; it was left as it is. Please report this.")
        now, count, result = changed, count + made, after
    if not count:
        return result
    if fixing.write and job.path != STDIN:
        try:
            write_atomically(Path(job.path), text.encode(now))
        except (OSError, UnicodeEncodeError) as error:
            return replace(found, failure=f"{name}: cannot be written: {getattr(error, 'strerror', None) or error}")
    result.fixed, result.before, result.after = count, text.text, now
    return result


def _one_pass(name: str, text: str, diagnostics: list[Diagnostic], unsafe: bool) -> tuple[str, int]:
    if name.endswith(notebook.SUFFIX):
        paths = {d.span.path for d in diagnostics if notebook.split_path(d.span.path)[0] == name}
        edits, count = choose(diagnostics, paths, unsafe)
        return (notebook.parse(name, text).edited(edits) if edits else text), count
    edits, count = choose(diagnostics, (name,), unsafe)
    return (apply_edits(text, edits) if edits else text), count


def _syntax_errors(diagnostics: list[Diagnostic]) -> int:
    return sum(d.name == "syntax-error" for d in diagnostics)


class _Reader:
    """Reads the files that a file imports, and remembers them and those that were looked for in vain."""

    def __init__(self) -> None:
        self._read: dict[str, Seen] = {}
        self._texts: dict[str, str | None] = {}

    def __call__(self, path: Path, probe: bool = False) -> Any:
        name = str(path)
        if name not in self._texts:
            self._texts[name] = self._load(name)
        return self._texts[name] is not None if probe else self._texts[name]

    def _load(self, name: str) -> str | None:
        absolute = os.path.abspath(name)
        try:
            state = os.stat(absolute)
            if state.st_size > _MAX_IMPORTED:
                return None
            state, data = read_state(absolute)
        except (OSError, Unreadable):
            self._read[absolute] = Seen(absolute)
            return None
        self._read[absolute] = seen(absolute, state, data)
        try:
            return Document(name, decode(data, name).text).normalized
        except Unreadable:
            return None

    def seen(self, own: str) -> list[Seen]:
        return [s for s in self._read.values() if s.path != own]
