"""Random edits of real files against the checker:

    python edit_fuzz.py FOLDER.. [--seconds 60] [--seed 0] [--out failures]

Three things count as failures: an exception, more than 2 s (of this process) for a file, and another diagnostic in a kernel whose text, names
and instances the edit left alone. A failing input is reduced line by line and saved, with what was wrong, in the folder ``--out``.
"""

from __future__ import annotations

import argparse
import difflib
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import edits
import untouched

LIMIT = 2.0
LARGEST = 60_000  # characters; larger files are for the benchmarks


class Slow(BaseException):
    """Not an Exception: the code under test must not catch it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises Slow after so much processor time: a busy machine is no hang."""

    def ring(*_: object) -> None:
        raise Slow

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass
class Failure:
    """``kind`` identifies the fault: inputs with the same one are the same fault."""

    kind: str
    detail: str


@dataclass
class Original:
    path: str
    text: str
    checked: untouched.Checked
    seconds: float


def load(folders: list[Path]) -> list[Original]:
    """The files about TileLang. One whose unchanged text already takes long is left out, and said so."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
            text = path.read_text(encoding="utf-8", errors="replace")
            if "tilelang" not in text or len(text) > LARGEST:
                continue
            start = time.process_time()
            checked = untouched.check(str(path), text)
            seconds = time.process_time() - start
            if seconds > LIMIT / 2:
                print(f"left out, {seconds:.1f} s as it is: {path}", file=sys.stderr)
                continue
            found.append(Original(str(path), text, checked, seconds))
    return found


def judge(original: Original, text: str) -> Failure | None:
    try:
        with limited(LIMIT):
            after = untouched.check(original.path, text)
    except Slow:
        return Failure("slow", f"more than {LIMIT:g} s")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Failure(f"{type(error).__name__} {Path(last.filename).name}:{last.name}", traceback.format_exc(limit=-12))
    found = untouched.differences(original.checked, after)
    if found:
        code = found[0].split(": ")[2].split(" ")[0]
        return Failure(f"changed {found[0].split(': ')[1]} {code}", "\n".join(found))
    return None


def edited(original: Original, source: random.Random) -> str:
    text = original.text
    for _ in range(source.choice((1, 1, 1, 2, 3, 6))):
        text = edits.apply(edits.random_edit(source), text)
    return text


# -- reducing ----------------------------------------------------------------------------------------------------------
def reduced(original: Original, text: str, kind: str, seconds: float = 40.0) -> tuple[str, str]:
    """A smaller (original, edited) pair that fails in the same way: lines the two share are taken out of both."""
    end = time.monotonic() + seconds
    before, after = original.text.splitlines(keepends=True), text.splitlines(keepends=True)
    shared = [(i + n, j + n) for i, j, size in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks() for n in range(size)]

    def fails(kept: list[tuple[int, int]]) -> bool:
        smaller, changed = build(before, after, shared, kept)
        try:
            with limited(LIMIT * 2):
                base = Original(original.path, smaller, untouched.check(original.path, smaller), 0.0)
        except (Slow, Exception):
            base = Original(original.path, smaller, untouched.Checked({}, False), 0.0)
        found = judge(base, changed)
        return found is not None and found.kind == kind

    kept = shrink(shared, fails, end)
    return build(before, after, shared, kept)


def build(before: list[str], after: list[str], shared: list[tuple[int, int]], kept: list[tuple[int, int]]) -> tuple[str, str]:
    gone = set(shared) - set(kept)
    old, new = {i for i, _ in gone}, {j for _, j in gone}
    return "".join(x for i, x in enumerate(before) if i not in old), "".join(x for j, x in enumerate(after) if j not in new)


def shrink(items: list, fails: Callable[[list], bool], end: float) -> list:
    """Delta debugging: leave out ever smaller parts while it still fails."""
    part = max(1, len(items) // 2)
    while items and time.monotonic() < end:
        at, progress = 0, False
        while at < len(items) and time.monotonic() < end:
            smaller = items[:at] + items[at + part :]
            if fails(smaller):
                items, progress = smaller, True
            else:
                at += part
        if part == 1 and not progress:
            break
        part = max(1, part // 2) if not progress or part > len(items) else part
    return items


def save(folder: Path, number: int, original: Original, text: str, failure: Failure) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    small, changed = reduced(original, text, failure.kind)
    name = f"{number:03}-{''.join(c if c.isalnum() else '-' for c in failure.kind)[:60]}"
    for suffix, content in (("original.py", small), ("edited.py", changed), ("txt", f"{failure.kind}\nfile {original.path}\n\n{failure.detail}\n")):
        (folder / f"{name}.{suffix}").write_bytes(content.encode("utf-8", "surrogatepass"))
    return folder / f"{name}.txt"


# -- the command -------------------------------------------------------------------------------------------------------
def fuzz(originals: list[Original], seconds: float, seed: int, out: Path) -> dict[str, int]:
    """Kinds of failures with how often each was met; the first of each kind is saved."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    source = random.Random(seed)
    met: dict[str, int] = {}
    rounds, slowest, begun = 0, 0.0, time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, refresh_per_second=2) as progress:
        task = progress.add_task("fuzzing", total=seconds)
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))  # told to end: the figures so far count
        while time.monotonic() - begun < seconds and not stopped:
            original = source.choice(originals)
            text = edited(original, source)
            start = time.process_time()
            failure = judge(original, text)
            slowest = max(slowest, time.process_time() - start)
            rounds += 1
            if failure is not None:
                met[failure.kind] = met.get(failure.kind, 0) + 1
                if met[failure.kind] == 1:
                    path = save(out, len(met), original, text, failure)
                    progress.console.print(f"{failure.kind}: {path}", markup=False)
            progress.update(task, completed=time.monotonic() - begun, description=f"{rounds} edits, {len(met)} kinds of failures, slowest {slowest:.2f} s")
    print(f"{rounds} edits of {len(originals)} files in {time.monotonic() - begun:.0f} s (seed {seed}): {sum(met.values())} failures of {len(met)} kinds; slowest {slowest:.2f} s")
    for kind, count in sorted(met.items(), key=lambda x: -x[1]):
        print(f"  {count:5} {kind}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures"))
    options = parser.parse_args()
    originals = load(options.folders)
    if not originals:
        print("no TileLang files there")
        return 2
    return 1 if fuzz(originals, options.seconds, options.seed, options.out) else 0


if __name__ == "__main__":
    sys.exit(main())
