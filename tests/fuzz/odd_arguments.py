"""Every argument that real files give any function, replaced by values of other kinds:

    python odd_arguments.py FOLDER.. [--out failures]

The arguments are told apart by the function's name and their place or keyword; each is tried in the smallest file that has it. An exception
counts as a failure, and more than 2 s of this process; failing inputs are saved as those of edit_fuzz.py.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from edit_fuzz import Failure, Original, judge, load, save

ODD = ("T", "None", '"s"', 'b"x"', "[]", "{}", "(1, None)", "...", "object", "print", "lambda x: x", "slice(None)", "1j", 'float("nan")', "1e400", "-1", "0", "2**70", "True",
       "T.float16", "T.gemm", "[T]", "(i for i in ())", "A_missing")  # fmt: skip
Key = tuple[str, int | str]


@dataclass
class Slot:
    """An argument of a call: its characters in the text of a file."""

    original: Original
    begin: int
    end: int

    def filled(self, value: str) -> str:
        text = self.original.text
        return text[: self.begin] + value + text[self.end :]


def slots(originals: list[Original]) -> dict[Key, Slot]:
    found: dict[Key, Slot] = {}
    for original in sorted(originals, key=lambda o: o.seconds):
        for key, slot in _slots_of(original):
            found.setdefault(key, slot)
    return found


def _slots_of(original: Original) -> Iterator[tuple[Key, Slot]]:
    try:
        tree = ast.parse(original.text)
    except SyntaxError:
        return
    starts = [0]
    for line in original.text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    plain = original.text.isascii()  # else bytes are no characters
    for node in ast.walk(tree) if plain else ():
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            for key, value in [*enumerate(node.args), *((k.arg or "**", k.value) for k in node.keywords)]:
                end = starts[value.end_lineno - 1] + value.end_col_offset  # type: ignore[operator]
                yield (name, key), Slot(original, starts[value.lineno - 1] + value.col_offset, end)


def try_all(originals: list[Original], out: Path, values: tuple[str, ...] = ODD) -> dict[str, int]:
    """Kinds of failures with how often each was met; the first of each kind is saved."""
    from rich.progress import track

    met: dict[str, int] = {}
    found = slots(originals)
    for (name, key), slot in track(found.items(), description=f"{len(found)} arguments"):
        for value in values:
            failure = _crash(slot.original, slot.filled(value))
            if failure is not None:
                met[failure.kind] = met.get(failure.kind, 0) + 1
                if met[failure.kind] == 1:
                    print(f"{failure.kind}: {value} for argument {key} of {name}: {save(out, len(met), slot.original, slot.filled(value), failure)}", flush=True)
    print(f"{len(found)} arguments, {len(values)} values each: {sum(met.values())} failures of {len(met)} kinds")
    return met


def _crash(original: Original, text: str) -> Failure | None:
    failure = judge(original, text)
    return None if failure is None or failure.kind.startswith("changed ") else failure  # an argument may well change other kernels


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures"))
    options = parser.parse_args()
    originals = load(options.folders)
    if not originals:
        print("no TileLang files there")
        return 2
    return 1 if try_all(originals, options.out) else 0


if __name__ == "__main__":
    sys.exit(main())
