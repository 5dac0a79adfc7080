"""Running one kernel of a text in this process: inside the run worker, never in the server or the command itself."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tilec.ir.buffer import TMEM
from tilec.source.file import SourceFile
from tilec.target import chips

from .lowering import Found, Refused, compile_checked, find_program
from .tilelang_oracle import Oracle, Unavailable

NAMES = ("kernel", "instance", "target", "device", "ok", "against", "max_abs_err", "max_rel_err", "rtol", "atol", "latency_ms", "tflops", "gbps", "smem_bytes",
         "registers", "error")  # the JSON of a run


def answer(request: dict[str, Any], report: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """A ``run`` request: ``{path, text, kernel, instance, target}``, optionally ``against, sizes, seed, warmup, repeat, tilelang_version``.

    The answer is the JSON of ``tile-lsp run``; with ``details`` in the request also what a terminal shows, and the ``place`` of a fault. ``"ran": False`` marks a
    kernel that could not be run.
    """
    reply: dict[str, Any] = dict.fromkeys(NAMES)
    reply.update(kernel=request.get("kernel", ""), instance=request.get("instance", ""), target=request.get("target", ""), ok=False)
    try:
        reply.update(_run(request, reply, report))
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "torch":
            raise
        reply.update(error="running kernels needs PyTorch, which is not installed here: pip install 'tilec[run]'", ran=False)
    except (Refused, ValueError) as error:
        reply.update(error=str(error), ran=False)
    if request.get("details"):
        reply["place"] = _place(request["path"], reply)
    else:
        reply.pop("details", None)
        reply.pop("ran", None)
    return reply


def _place(path: str, reply: dict[str, Any]) -> list[int] | None:
    """Line and column of what went wrong in the user's file, as far as that is known."""
    details = reply.get("details") or {}
    texts = [(details.get("mismatch") or {}).get("writer"), *(details.get("faults") or ()), reply.get("error")]
    for text in texts:
        match = re.match(rf"{re.escape(path)}:(\d+):(\d+)(?::|$)", str(text or ""))
        if match:
            return [int(match.group(1)), int(match.group(2))]
    return None


def _run(request: dict[str, Any], reply: dict[str, Any], report: Callable[[str], None]) -> dict[str, Any]:
    report("reading the kernel")
    found = find_program(request["path"], request["text"], request.get("kernel", ""), request.get("instance", ""))
    reply.update(kernel=found.definition.qualname, instance=found.instance.text)
    from tilec.runtime import execute

    target = _target(request.get("target", ""), found)
    reply["target"] = target.name
    report(f"lowering for {target.name}")
    artifact = compile_checked(found, target, request.get("tilelang_version", ""))
    oracle = _oracle(found, request)
    given = {k: request[k] for k in ("against", "sizes", "seed", "warmup", "repeat") if request.get(k) is not None}
    try:
        result = execute.run(artifact, execute.Options(**given, oracle=oracle), _user_code(found, request), report)
    except Unavailable as error:
        return {"error": str(error), "ran": False}
    except execute.CannotRun as error:
        return {"error": str(error), "ran": False, **({"end": True} if error.fatal else {})}
    data = result.to_json()
    data.update(kernel=reply["kernel"], instance=reply["instance"])
    if oracle is not None and oracle.median_ms is not None:
        data["against"] = f"TileLang {oracle.version} ({oracle.median_ms:.3g} ms)"
    return {**data, "details": result.details()}


def _oracle(found: Found, request: dict[str, Any]) -> Oracle | None:
    if request.get("against") != "tilelang":
        return None
    try:
        return Oracle(found, request)
    except Unavailable as error:
        raise Refused(str(error)) from error


def _target(name: str, found: Found) -> chips.Target:
    """A target by name; ``cuda`` is this machine's GPU, ``auto`` that or, where it cannot run the kernel, the CPU."""
    from tilec.build.launch import LaunchError
    from tilec.runtime import gpu

    wanted = name.strip().lower()
    if wanted in ("", "auto"):
        return _automatic(found)
    if wanted in ("cuda", "gpu"):
        try:
            return gpu.local_target()
        except LaunchError as error:
            raise Refused(str(error)) from error
    return chips.find(name)


def _automatic(found: Found) -> chips.Target:
    from tilec.build.launch import LaunchError
    from tilec.build.nvcc import can_compile
    from tilec.runtime import gpu

    needs_tensor_memory = any(b.scope == TMEM for b in found.program.buffers())
    try:
        here = gpu.local_target() if gpu.available() else None
    except LaunchError:
        here = None
    if here is not None and not can_compile(here):
        here = None
    return here if here is not None and (here.tcgen05 or not needs_tensor_memory) else chips.find("cpu")


def _user_code(found: Found, request: dict[str, Any]) -> Any:
    from tilec.runtime.execute import UserCode
    from tilec.runtime.reference import ReferenceFault, find_functions

    source: SourceFile = found.analysis.source
    names = dict.fromkeys((found.definition.name, found.definition.qualname.split(".")[0], found.program.name))
    try:
        functions = find_functions(source, list(names), found.definition.first_line)
    except ReferenceFault as error:
        raise Refused(str(error)) from error
    return UserCode(source, functions, _instance_values(found))


def _instance_values(found: Found) -> dict[str, Any]:
    """The instance's arguments by name, as far as they are plain Python values; data types by their names."""
    from tilec.evaluate.functions import bind_arguments
    from tilec.evaluate.values import DType

    values, _ = bind_arguments(found.instance.function, found.instance.args, found.instance.kwargs)
    plain = {k: v.name if isinstance(v, DType) else v for k, v in values.items()}
    return {k: v for k, v in plain.items() if _is_plain(v)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, str))
