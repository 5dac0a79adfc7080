"""What checking one file gives, as plain values: sent between processes and kept in the cache."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any

from tilec.check.diagnostic import Diagnostic, Edit, Fix, Related
from tilec.records import dataclass
from tilec.source.span import Span

Packed = dict[str, Any]


@dataclass(slots=True)
class FileResult:
    """``path``: as the user wrote it. ``failure``: why the file could not be checked, "" if it was."""

    path: str
    diagnostics: list[Diagnostic] = field(default_factory=list)
    uses_tilelang: bool = False
    kernels: int = 0
    instances: int = 0
    version: str = ""  # of TileLang, "" if the file does not use it
    how: str = ""  # where that version comes from
    gaps: list[tuple[str, str]] = field(default_factory=list)  # kernels that are not wholly known, and why (with coverage only)
    instance_errors: list[str] = field(default_factory=list)  # calls of the command line that reach no kernel of the file
    wrong_instances: list[str] = field(default_factory=list)  # those that reach one and do not fit its parameters
    wrong_directives: list[str] = field(default_factory=list)  # and those of "# tile-lsp: instance" comments
    failure: str = ""
    fixed: int = 0
    before: str | None = None  # the text that fixes changed, None if they changed nothing
    after: str = ""

    @property
    def analysed(self) -> int:
        return self.kernels - len(self.gaps)


def pack(result: FileResult) -> Packed:
    """Lists, texts and numbers. Paths besides the file's own are absolute, whatever the working folder."""
    paths: list[str] = [result.path]
    return {
        "diagnostics": [_pack_diagnostic(d, paths) for d in result.diagnostics],
        "paths": [os.path.abspath(p) for p in paths[1:]],
        "uses": result.uses_tilelang,
        "kernels": result.kernels,
        "instances": result.instances,
        "version": result.version,
        "how": result.how,
        "gaps": result.gaps,
        "instance_errors": result.instance_errors,
        "wrong_instances": result.wrong_instances,
        "wrong_directives": result.wrong_directives,
        "failure": result.failure,
        "fixed": result.fixed,
        "before": result.before,
        "after": result.after,
    }


def unpack(path: str, packed: Packed) -> FileResult:
    """Raises KeyError, TypeError, ValueError or IndexError for what :func:`pack` did not make."""
    paths = [path, *(_told(p, path) for p in packed["paths"])]
    return FileResult(
        path,
        [_unpack_diagnostic(d, paths) for d in packed["diagnostics"]],
        packed["uses"],
        packed["kernels"],
        packed["instances"],
        packed["version"],
        packed["how"],
        [(kernel, reason) for kernel, reason in packed["gaps"]],
        packed["instance_errors"],
        packed["wrong_instances"],
        packed["wrong_directives"],
        packed["failure"],
        packed["fixed"],
        packed["before"],
        packed["after"],
    )


def _told(absolute: str, own: str) -> str:
    """Another file's path in the way the user named this one."""
    here = os.getcwd() + os.sep
    return absolute[len(here) :] if not os.path.isabs(own) and absolute.startswith(here) else absolute


def _pack_span(s: Span, paths: list[str]) -> list[Any]:
    if s.path not in paths:
        paths.append(s.path)
    packed = [paths.index(s.path), s.line, s.column, s.end_line, s.end_column]
    return packed if s.caller is None else [*packed, _pack_span(s.caller, paths)]


def _unpack_span(packed: list[Any], paths: list[str]) -> Span:
    caller = _unpack_span(packed[5], paths) if len(packed) > 5 else None
    line, column, end_line, end_column = packed[1:5]
    return Span(paths[packed[0]], line, column, end_line, end_column, caller)


def _pack_diagnostic(d: Diagnostic, paths: list[str]) -> list[Any]:
    fix = None
    if d.fix is not None:
        fix = [d.fix.title, [[_pack_span(e.span, paths), e.text] for e in d.fix.edits], d.fix.safe]
    related = [[r.message, _pack_span(r.span, paths)] for r in d.related]
    return [d.code, d.name, d.severity, d.message, _pack_span(d.span, paths), related, fix, d.kernel, d.instance]


def _unpack_diagnostic(packed: list[Any], paths: list[str]) -> Diagnostic:
    code, name, severity, message, span, related, fix, kernel, instance = packed
    return Diagnostic(
        code,
        name,
        severity,
        message,
        _unpack_span(span, paths),
        tuple(Related(text, _unpack_span(s, paths)) for text, s in related),
        None if fix is None else Fix(fix[0], tuple(Edit(_unpack_span(s, paths), text) for s, text in fix[1]), fix[2]),
        kernel,
        instance,
    )
