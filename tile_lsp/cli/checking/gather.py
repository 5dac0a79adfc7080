"""From paths to results: the cache first, then worker processes for what it does not know."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilec.source.mentions import mentions_language

from ...releases.storage import cache_folder
from ..formats.report import Report
from . import notebook
from .cache import Cache, Seen, seen
from .files import STDIN, Absent, Found, Text, Unreadable, decode, find_files, may_use_language, read, read_state
from .plan import Fixing, Job, Plan, Planner
from .result import FileResult, Packed, pack

_SILENT_SECONDS = 1.0  # shorter runs show no progress


def gather(args: argparse.Namespace) -> Report:
    """Check what the command line names."""
    planner = Planner(args)
    return _Gathering(args, planner).run()


class _Gathering:
    def __init__(self, args: argparse.Namespace, planner: Planner):
        self.args, self.planner = args, planner
        self.report = Report()
        self.found = Found()
        self.results: list[FileResult | None] = []
        self.fresh: list[tuple[str, Seen, list[Seen], Packed]] = []
        self.contexts: dict[int, str] = {}
        self.fixing = Fixing(args.unsafe_fixes, write=not args.diff) if args.fix or args.diff else None
        self.cache = self._cache()

    def run(self) -> Report:
        jobs = [job for job in self._jobs() if job is not None]
        if self.cache is not None:
            self.cache.close()  # the workers must not inherit the connection
        if jobs:
            self._check(jobs)
        if self.cache is not None:
            self.cache.put(self.fresh)
            self.cache.close()
        self.report.results = [r for r in self.results if r is not None and r is not _SKIPPED]
        self.report.results += [FileResult(p.path, failure=str(p)) for p in self.found.problems]
        self.report.excluded = self.found.excluded
        return self.report

    def _cache(self) -> Cache | None:
        args = self.args
        if args.no_cache or args.paths == [STDIN]:
            return None
        first = Path(args.paths[0] if args.paths else ".")
        config = self.planner.config((first if os.path.isdir(first) else first.parent).absolute())
        chosen = args.cache_dir or (config.cache_dir and str((config.root or Path()) / config.cache_dir))
        return Cache(Path(chosen) if chosen else cache_folder())

    # -- what need not be checked -----------------------------------------------------------------------------------
    def _jobs(self) -> Iterator[Job | None]:
        """What is left to check; the results of everything else are filled in."""
        for path, named in find_files(self.args.paths or ["."], self.planner.config, self.args.force_exclude, self.found):
            number = len(self.results)
            self.results.append(None)
            if path == STDIN:
                yield self._stdin(number)
                continue
            plan = self.planner.plan(path)
            known = self._known(path, plan, named)
            if known is not None:
                self.results[number] = known
                continue
            size = 0
            with contextlib.suppress(OSError):
                size = os.stat(path).st_size
            yield Job(number, path, path, plan, size, self.fixing)

    def _stdin(self, number: int) -> Job | None:
        name = self.args.stdin_filename
        try:
            text: Text = read(STDIN)
        except Unreadable as problem:
            self.results[number] = FileResult(name, failure=str(problem))
            return None
        self.report.texts[name] = text.text
        return Job(number, STDIN, name, self.planner.plan(name), len(text.text), self.fixing, text)

    def _known(self, path: str, plan: Plan, named: bool) -> FileResult | None:
        """A result that needs no evaluator: of the cache, or of a file without any trace of TileLang."""
        if self.cache is not None:
            found = self.cache.get(path, self._context(plan))
            if found is not None:
                fixes = self.fixing is not None and any(d.fix is not None for d in found.diagnostics)
                return None if fixes else found
        data = None
        try:
            state, data = read_state(path)
            text = decode(data, path)
            if mentions_language(text.text):
                return None
            if path.endswith(notebook.SUFFIX):
                notebook.parse(path, text.text)
        except Unreadable as problem:
            return FileResult(path, failure=str(problem)) if named or _is_told(problem, path, data) else _SKIPPED
        result = FileResult(path)
        self._keep(plan, seen(os.path.abspath(path), state, data), [], result)
        return result

    def _context(self, plan: Plan) -> str:
        if id(plan) not in self.contexts:
            self.contexts[id(plan)] = plan.context()
        return self.contexts[id(plan)]

    def _keep(self, plan: Plan, own: Seen, dependencies: list[Seen], result: FileResult) -> None:
        if self.cache is not None and not result.failure:
            self.fresh.append((self._context(plan), own, dependencies, pack(result)))

    # -- what must be checked ---------------------------------------------------------------------------------------
    def _check(self, jobs: list[Job]) -> None:
        from .pool import check_all

        with _Progress(len(jobs)) as progress:
            for job, checked in check_all(jobs, self.args.jobs):
                self.results[job.number] = checked.result
                if checked.own is not None:
                    self._keep(job.plan, checked.own, checked.dependencies or [], checked.result)
                progress.step(job.name)


_SKIPPED = FileResult("")  # a file in a folder that is no Python source after all


def _is_told(problem: Unreadable, path: str, data: bytes | None) -> bool:
    """Whether a file of a folder should have been checked. One that has a name of Python's, is no text and has no trace of
    TileLang is none of ours."""
    if data is None:
        return not isinstance(problem, Absent)
    return path.endswith(notebook.SUFFIX) or may_use_language(data)


class _Progress:
    """A bar on standard error if that is a terminal and the work takes a while."""

    def __init__(self, total: int):
        self.total, self.done, self.begun = total, 0, time.monotonic()
        self.bar: Any = None
        self.task: Any = None
        self.wanted = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self, name: str) -> None:
        self.done += 1
        if not self.wanted or self.done == self.total:
            return
        if self.bar is None and time.monotonic() - self.begun > _SILENT_SECONDS:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            # No thread of its own: workers may have to be forked again.
            self.bar = Progress(TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[file]}"),
                                console=Console(stderr=True), transient=True, auto_refresh=False)  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task("", total=self.total, file="")
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, file=name)
            self.bar.refresh()
