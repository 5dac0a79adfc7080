"""JUnit XML: a suite a file, a test case a diagnostic. Hints are skipped cases: they do not fail a check."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from tilec.check.diagnostic import INFORMATION, Diagnostic

from ..checking.notebook import split_path
from .report import Report, shown_path

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    root = ElementTree.Element("testsuites", name="tile-lsp")
    by_path: dict[str, list[Diagnostic]] = {}
    for result in report.results:
        if result.failure or result.uses_tilelang or result.diagnostics:
            by_path.setdefault(result.path, [])
    for d in report.diagnostics:
        by_path.setdefault(split_path(d.span.path)[0], []).append(d)
    failures = {r.path: r.failure for r in report.results if r.failure}
    for path, found in by_path.items():
        _suite(root, shown_path(path), found, failures.get(path, ""))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _suite(root: ElementTree.Element, path: str, found: list[Diagnostic], failure: str) -> None:
    hints = sum(d.severity == INFORMATION for d in found)
    tests = len(found) + bool(failure) or 1
    numbers = {"tests": tests, "failures": len(found) - hints, "errors": int(bool(failure)), "skipped": hints}
    attributes = {"name": _clean(path), "package": "tile-lsp", **{k: str(v) for k, v in numbers.items()}}
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for d in found:
        case = _case(suite, path, f"{d.code} {d.name}", d.span.line)
        place = f"{shown_path(d.span.path)}:{d.span.line}:{d.span.column}"
        if d.severity == INFORMATION:
            ElementTree.SubElement(case, "skipped", message=_clean(d.message))
        else:
            ElementTree.SubElement(case, "failure", type=d.severity, message=_clean(d.message)).text = _clean(f"{place}: {d.message}")
    if failure:
        ElementTree.SubElement(_case(suite, path, "read", 1), "error", type="unreadable", message=_clean(failure))
    elif not found:
        _case(suite, path, "check", 1)


def _case(suite: ElementTree.Element, path: str, name: str, line: int) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", name=name, classname=_clean(path), file=_clean(path), line=str(line))


def _clean(text: str) -> str:
    """Without characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
