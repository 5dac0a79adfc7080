"""``python -m tilec script.py [args]``: run a script that imports tilelang on this compiler."""
from __future__ import annotations

import runpy
import sys
from pathlib import Path


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
    runpy.run_path(script, run_name="__main__")
    return 0


def _run_module(name: str, argv: list[str]) -> int:
    """``python -m tilec -m pytest tests``."""
    from tilec.served import install

    install()
    sys.argv = argv
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
