"""What the processes of test_workers are asked to do."""
from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any


def do(request: dict[str, Any], report) -> dict[str, Any]:
    return globals()[f"_{request['what']}"](request, report)


def _echo(request, report):
    return {"value": request["value"]}


def _pid(request, report):
    return {"pid": os.getpid()}


def _progress(request, report):
    report("one")
    report("two")
    return {"done": True}


def _segfault(request, report):
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(10)


def _abort(request, report):
    os.abort()


def _exit(request, report):
    print("goodbye", file=sys.stderr, flush=True)
    os._exit(3)


def _loop(request, report):
    while True:
        pass


def _print(request, report):
    for _ in range(50):
        print("x" * 100_000)
    os.write(1, b"{}\n")  # as native code prints
    return {"printed": True}


def _raise(request, report):
    return 1 // 0


def _memory(request, report):
    held = []
    for _ in range(400):
        held.append(b"x" * (10 << 20))
        time.sleep(0.02)
    return {"held": len(held)}
