"""Running one kernel of a text in this process: inside the run worker, never in the server or the command itself."""
from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from typing import Any

from tilec.ir.buffer import TMEM
from tilec.source.file import SourceFile
from tilec.target import chips

from .lowering import Found, Refused, compile_checked, find_program
from .tilelang_oracle import Oracle, Unavailable

NAMES = ("kernel", "instance", "target", "device", "ok", "against", "max_abs_err", "max_rel_err", "rtol", "atol", "latency_ms", "tflops", "gbps", "smem_bytes",
         "registers", "error", "mean_abs_err", "roofline", "occupancy")  # the JSON of a run


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


def prepare(request: dict[str, Any]) -> dict[str, Any]:
    """A ``prepare`` request: load what a run needs before somebody asks for one. Nothing of the user's is read, no memory of a GPU is taken."""
    if importlib.util.find_spec("torch") is None:
        return {"end": True}  # the run will say so
    from tilec.runtime import loading

    loading.begin(tvm=request.get("target") == "cpu" or not loading.torch_has_cuda())
    for name in ("tilec.pipeline", "tilec.evaluate", "tilec.check.checker", "tilec.build.nvcc", "tilec.runtime.gpu"):
        importlib.import_module(name)
    return {}


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
    """Torch and the GPU's context are loaded beside the front end and the compiler of the CUDA text."""
    from tilec.runtime import loading

    wanted = request.get("target", "").strip().lower()
    loading.begin(gpu=_may_be_gpu(wanted), tvm=wanted == "cpu")
    report("reading the kernel")
    found = find_program(request["path"], request["text"], request.get("kernel", ""), request.get("instance", ""))
    reply.update(kernel=found.definition.qualname, instance=found.instance.text)
    target = _target(wanted, found)
    reply["target"] = target.name
    if target.kind == "cpu":
        loading.begin(tvm=True)
    report(f"lowering for {target.name}")
    artifact = compile_checked(found, target, request.get("tilelang_version", ""))
    if target.kind == "cuda" and target == _gpu_here():
        report("compiling")
        _compile(artifact)
    report("loading PyTorch")
    loading.wait()
    from tilec.runtime import execute, gpu

    if wanted in _AUTOMATIC and target.kind == "cuda" and not gpu.available():  # there is a GPU, but this torch cannot use it
        return _run({**request, "target": "cpu"}, reply, report)
    oracle = _oracle(found, request)
    given = {k: request[k] for k in ("against", "sizes", "seed", "warmup", "repeat", "time_reference") if request.get(k) is not None}
    try:
        result = execute.run(artifact, execute.Options(**given, oracle=oracle), _user_code(found, request), report)
    except Unavailable as error:
        return {"error": str(error), "ran": False}
    except execute.CannotRun as error:
        return {"error": str(error), "ran": False, **({"end": True} if error.fatal else {})}
    data = result.to_json()
    data.update(kernel=reply["kernel"], instance=reply["instance"])
    if artifact.remarks():
        data["remarks"] = artifact.remarks()
    if oracle is not None and oracle.median_ms is not None:
        data["against"], data["against_ms"] = f"TileLang {oracle.version} ({oracle.median_ms:.3g} ms)", oracle.median_ms
    return {**data, "details": result.details()}


def _oracle(found: Found, request: dict[str, Any]) -> Oracle | None:
    if request.get("against") != "tilelang":
        return None
    try:
        return Oracle(found, request)
    except Unavailable as error:
        raise Refused(str(error)) from error


_AUTOMATIC = ("", "auto")
_THIS_GPU = ("cuda", "gpu")


def _may_be_gpu(wanted: str) -> bool:
    return wanted in _AUTOMATIC or wanted in _THIS_GPU or wanted.startswith("sm_")


def _target(wanted: str, found: Found) -> chips.Target:
    """A target by name; ``cuda`` is this machine's GPU, ``auto`` that or, where it cannot run the kernel, the CPU."""
    from tilec.build.launch import LaunchError
    from tilec.runtime import gpu

    if wanted in _AUTOMATIC:
        return _automatic(found)
    if wanted in _THIS_GPU:
        try:
            return _gpu_here() or gpu.local_target()
        except LaunchError as error:
            raise Refused(str(error)) from error
    return chips.find(wanted)


def _automatic(found: Found) -> chips.Target:
    from tilec.build.launch import LaunchError
    from tilec.build.nvcc import can_compile

    needs_tensor_memory = any(b.scope == TMEM for b in found.program.buffers())
    try:
        here = _gpu_here()
    except LaunchError:
        here = None
    if here is not None and not can_compile(here):
        here = None
    return here if here is not None and (here.tcgen05 or not needs_tensor_memory) else chips.find("cpu")


def _gpu_here() -> chips.Target | None:
    """This machine's GPU. While torch is being loaded, the driver's word is enough to begin compiling."""
    from tilec.runtime import gpu, loading

    if not loading.torch_is_loaded():
        return gpu.likely_target()
    return gpu.local_target() if gpu.available() else None


def _compile(artifact: Any) -> None:
    from tilec.build.nvcc import ToolkitError

    try:
        artifact.cubin()
    except ToolkitError as error:
        raise Refused(str(error)) from error


def _user_code(found: Found, request: dict[str, Any]) -> Any:
    from tilec.runtime.execute import UserCode
    from tilec.runtime.reference import ReferenceFault, find_functions

    source: SourceFile = found.analysis.source
    if source.syntax_errors:
        message, span = source.syntax_errors[0]
        raise Refused(f"{span}: {message}; Python must be able to read the file before a kernel of it can be run and compared")
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
