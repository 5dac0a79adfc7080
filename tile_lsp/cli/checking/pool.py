"""Checking many files at once, in processes that may die: big files first, one file a process at a time, so that a crash names
its file."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .plan import Job
from .result import FileResult, pack, unpack

if TYPE_CHECKING:  # a check of one file starts no processes
    from multiprocessing.connection import Connection

SECONDS_A_FILE = 120.0  # a file that takes longer is given up
FEW = 4  # fewer files than this are checked in this process

if sys.version_info >= (3, 13):
    _cores = os.process_cpu_count
else:

    def _cores() -> int | None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def workers_for(jobs: int, wanted: int | None) -> int:
    return max(1, min(wanted or _cores() or 1, jobs))


def check_all(jobs: list[Job], wanted: int | None = None) -> Iterator[tuple[Job, Any]]:
    """``(job, Checked)`` in the order in which they are done."""
    workers = workers_for(len(jobs), wanted)
    if workers == 1 or len(jobs) < FEW:
        for job in jobs:
            yield job, check(job)
        return
    yield from _Pool(sorted(jobs, key=lambda j: -j.size), workers).run()


def check(job: Job) -> Any:
    """One job in this process. A fault of ours costs the file alone."""
    from .single import Checked, check_file

    try:
        return check_file(job)
    except Exception as error:
        from ..main import DEBUG_VARIABLE

        if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
            import traceback

            traceback.print_exc()
        text = " ".join(str(error).split())
        told = f"{job.name}: unexpected error, {type(error).__name__}: {text}. This is a fault of tile-lsp; run again with --debug for the trace"
        return Checked(FileResult(job.name, failure=f"{told} and please report it."))


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt waits, and a process that starts here never gets one: its parent tells it when it is over."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    def __init__(self, context: Any):
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.connection), daemon=True)
        with _uninterrupted():
            self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.since = 0.0

    def give(self, job: Job) -> None:
        self.job, self.since = job, time.monotonic()
        self.connection.send(job)

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(1.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class _Pool:
    def __init__(self, jobs: list[Job], workers: int):
        import multiprocessing

        self.waiting = list(reversed(jobs))
        self.context = multiprocessing.get_context(_start_method())
        if self.context.get_start_method() == "fork":
            _warm_up(jobs)
        self.size = workers
        self.workers: list[_Worker] = []

    def run(self) -> Iterator[tuple[Job, Any]]:
        from multiprocessing.connection import wait

        try:
            for _ in range(self.size):
                worker = _Worker(self.context)
                self.workers.append(worker)
                self._feed(worker)
            while self.workers:
                ready = wait([w.connection for w in self.workers], timeout=1.0)
                for worker in list(self.workers):
                    if worker.connection in ready:
                        yield self._collect(worker)
                    elif time.monotonic() - worker.since > SECONDS_A_FILE:
                        yield self._replace(worker, f"took more than {SECONDS_A_FILE:.0f} seconds and was given up; please report it")
        finally:  # also when the user interrupts
            for worker in self.workers:
                worker.end()

    def _feed(self, worker: _Worker) -> None:
        if self.waiting:
            worker.give(self.waiting.pop())
        else:
            self.workers.remove(worker)
            worker.end()

    def _collect(self, worker: _Worker) -> tuple[Job, Any]:
        from .single import Checked

        assert worker.job is not None
        job = worker.job
        try:
            packed, own, dependencies = worker.connection.recv()
        except (EOFError, OSError):
            return self._replace(worker, f"the process that checked it ended{_cause(worker)}; the other files were checked")
        self._feed(worker)
        return job, Checked(unpack(job.name, packed), own, dependencies)

    def _replace(self, worker: _Worker, what: str) -> tuple[Job, Any]:
        from .single import Checked

        assert worker.job is not None
        job = worker.job
        self.workers.remove(worker)
        worker.process.kill()
        worker.end()
        if self.waiting:
            new = _Worker(self.context)
            self.workers.append(new)
            self._feed(new)
        return job, Checked(FileResult(job.name, failure=f"{job.name}: {what}."))


def _cause(worker: _Worker) -> str:
    worker.process.join(1.0)
    code = worker.process.exitcode
    if code is None:
        return ""
    if code < 0:
        try:
            return f" by signal {signal.Signals(-code).name}"
        except ValueError:
            return f" by signal {-code}"
    return f" with status {code}"


def _start_method() -> str:
    """Forking is ten times faster, and safe on Linux while there is one thread."""
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"


def _warm_up(jobs: list[Job]) -> None:
    """Load what every worker needs before there are any: they share it."""
    from tilec.check.registry import program_rules

    from ...releases import discover, manifest
    from . import single  # noqa: F401

    program_rules()
    for plan in {id(j.plan): j.plan for j in jobs}.values():
        if plan.found is not None:
            discover.api(plan.found)
        else:
            manifest.load(plan.version)
    gc.freeze()


def _serve(connection: Connection, parents: Connection) -> None:
    """A worker's life: a job, an answer, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when it is over
    parents.close()
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        done = check(job)
        try:
            connection.send((pack(done.result), done.own, done.dependencies))
        except OSError:
            return
