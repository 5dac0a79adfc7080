"""Which chip a kernel is compiled for."""
from __future__ import annotations

from typing import Any

from ..target import chips
from .errors import CompileError
from .surrounding import current_target


def resolve(target: Any) -> chips.Target:
    """``auto``, ``cuda`` (this machine's GPU), ``cuda -arch=sm_90a``, ``llvm``, a dict with ``arch``. Raises CompileError."""
    if isinstance(target, chips.Target):
        return target
    if target is None or target == "auto":
        target = current_target() or "auto"
    chip = getattr(target, "chip", None)  # tvm.target.Target as it is served
    if isinstance(chip, chips.Target):
        return chip
    text = str(target).strip()
    if not isinstance(target, dict) and text.startswith("{"):  # TVM's own, where TVM is installed
        target = _described(text)
    if isinstance(target, dict):
        text = str(target.get("arch") or target.get("kind") or "auto")
    kind = text.split()[0].lower()
    if kind == "auto":
        return _local() if _has_gpu() else chips.TARGETS["cpu"]
    if kind == "cuda" and "arch" not in text:
        return _local() if _has_gpu() else chips.find("sm_90a")
    try:
        return chips.find(text)
    except ValueError as error:
        raise CompileError(f"target {text!r}: {error}") from None


def _described(text: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text)
    except ValueError:
        raise CompileError(f"target {text!r} is no description of a target") from None
    return found if isinstance(found, dict) else {}


def _has_gpu() -> bool:
    from ..runtime import gpu

    return gpu.available()


def _local() -> chips.Target:
    from ..build.launch import LaunchError
    from ..runtime import gpu

    try:
        return gpu.local_target()
    except LaunchError as error:
        raise CompileError(str(error)) from None


def capability() -> tuple[int, int] | None:
    """Compute capability of this machine's GPU, None without one."""
    if not _has_gpu():
        return None
    import torch

    return torch.cuda.get_device_capability()
