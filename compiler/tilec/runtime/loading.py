"""What takes seconds to load before a kernel can run, loaded in threads beside other work: torch, the CUDA driver, TVM.

The threads import nothing of this package: two threads that import parts of one package in different orders may see half-made modules.
"""
from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from ..build.launch import Driver

_CUDA_VERSION = re.compile(r"^cuda\b[^=\n]*=\s*['\"]\d", re.MULTILINE)
_begun: dict[str, Thread] = {}


def begin(gpu: bool = False, tvm: bool = False) -> None:
    """Start loading torch and the driver. ``gpu``: make the context of the first GPU too, which takes memory there; ``tvm``: for the CPU."""
    _start("torch", lambda: importlib.import_module("torch"))
    if torch_has_cuda():
        _start("driver", Driver)
        if gpu:
            _start("context", _hold_context)
            _start("first tensor", _make_tensor)
    if tvm:
        _start("tvm", _load_tvm)


def wait() -> None:
    """Until everything that was begun is loaded, or has failed: whoever needs it meets the fault again, and tells it."""
    for thread in _begun.values():
        thread.join()


def torch_is_loaded() -> bool:
    """Loaded as a whole: while a thread imports it, it is among the modules already."""
    loading = _begun.get("torch")
    return "torch" in sys.modules and (loading is None or not loading.is_alive())


def torch_has_cuda() -> bool:
    """Whether the torch that is installed was built for CUDA, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return False
    try:
        return _CUDA_VERSION.search((Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")) is not None
    except OSError:
        return False


def _start(name: str, work: Callable[[], object]) -> None:
    if name in _begun:
        return

    def run() -> None:
        with contextlib.suppress(Exception):
            work()

    _begun[name] = Thread(target=run, name=f"loading {name}", daemon=True)
    _begun[name].start()


def _hold_context() -> None:
    """torch's context is the device's primary one: made here, it is there when torch has been imported."""
    _begun["driver"].join()
    Driver().hold_context()


def _make_tensor() -> None:
    _begun["torch"].join()
    _begun["context"].join()
    import torch

    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")


def _load_tvm() -> None:
    _begun["torch"].join()  # both import numpy
    importlib.import_module("tvm")
