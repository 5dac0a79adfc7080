"""``python -m tilec script.py [args]``: run a script that imports tilelang on this compiler."""
from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import TracebackType


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m tilec script.py [args]\n\nRuns a script that imports tilelang on this compiler; TileLang need not be installed.")
        return 0 if len(sys.argv) > 1 else 2
    script = sys.argv[1]
    if script == "-m" and len(sys.argv) > 2:
        return _run_module(sys.argv[2], sys.argv[2:])
    if not Path(script).is_file():
        print(f"tilec: there is no file {script}", file=sys.stderr)
        return 2
    from tilec.served import install

    install()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    sys.excepthook = _told
    runpy.run_path(script, run_name="__main__")
    return 0


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The script's own trace, without the frames that started it: as Python would print it."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename in _STARTERS:
        first = first.tb_next
    sys.__excepthook__(kind, error.with_traceback(first), first)


_STARTERS = (__file__, runpy.run_path.__code__.co_filename)


def _run_module(name: str, argv: list[str]) -> int:
    """``python -m tilec -m pytest tests``."""
    from tilec.served import install

    install()
    sys.argv = argv
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
