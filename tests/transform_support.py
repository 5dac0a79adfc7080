"""Lowering kernels given as source text and running the result thread by thread, for tests of the transformation."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
from emit_support import prim
from matrix_machine import decode, encode
from thread_interpreter import execute as interpret
from tilec.ir.buffer import GLOBAL, Buffer
from tilec.ir.build import const_int
from tilec.ir.program import TileProgram
from tilec.ir.stmt import Alloc, Evaluate, For, If, Jump, Launch, Let, Store, While, walk
from tilec.target.chips import find
from tilec.transform.registry import Pass, run_passes
from tilec.transform.verify import verify

# Between the lowering to threads and the planning of memory, buffers of tile operations have no declarations yet.
_VERIFIED = ("canonical-indices", "software-pipeline", "expand-tiles", "guard-accesses", "infer-layouts", "insert-barriers")
ALLOWED = (Alloc, Let, Store, For, While, If, Jump, Evaluate)


def lowered(program: TileProgram, target: str = "sm_80") -> TileProgram:
    def check(p: Pass, result: TileProgram) -> None:
        if p.name in _VERIFIED:
            verify(result, lowered=p.name == "insert-barriers")

    made = run_passes(program, find(target), check)
    for launch in made.launches():
        assert all(isinstance(s, ALLOWED) for s in walk(launch.body))
    return made


def execute(program: TileProgram, **arguments: Any) -> dict[str, np.ndarray]:
    """The tensors after a thread program: by the interpreter, or, with TILEC_EXECUTE_ON=gpu, by this machine's GPU."""
    if os.environ.get("TILEC_EXECUTE_ON") == "gpu":
        return execute_on_gpu(program, arguments)
    return interpret(program, **arguments)


def execute_on_gpu(program: TileProgram, arguments: dict[str, Any]) -> dict[str, np.ndarray]:
    import torch
    from tilec.pipeline import Artifact
    from tilec.runtime import gpu

    tensors: dict[str, torch.Tensor] = {}
    extents = {e: n for p in program.params if isinstance(p, Buffer) and p.name in arguments
               for e, n in zip(p.shape, arguments[p.name].shape)}
    for p in program.params:
        assert isinstance(p, Buffer)
        shape = [const_int(e) if const_int(e) is not None else extents[e] for e in p.shape]
        values = np.broadcast_to(np.asarray(arguments.get(p.name, 0)), shape)
        raw = torch.from_numpy(encode(np.ascontiguousarray(values), p.dtype).reshape(-1).copy())
        tensors[p.name] = raw.cuda().view(getattr(torch, p.dtype)).reshape(shape)
    target = gpu.local_target()
    gpu.GpuKernel(Artifact(program, target, program, program))(*tensors.values())
    torch.cuda.synchronize()
    found = {}
    for p in program.params:
        shape = tuple(tensors[p.name].shape)
        raw = tensors[p.name].contiguous().cpu().reshape(-1).view(torch.uint8).numpy().reshape(*shape, -1)
        found[p.name] = decode(raw, p.dtype)
    return found


def on_gpu(program: TileProgram, decision: str = "") -> Any:
    """A program compiled for this machine's GPU, to be called with tensors; ``decision``: a part of what the lowering must have chosen."""
    from tilec.pipeline import compile_program
    from tilec.runtime import gpu

    made = compile_program(program, gpu.local_target())
    assert decision in " ".join(map(str, made.decisions()))
    return gpu.GpuKernel(made)


def run(signature: str, body: str, target: str = "sm_80", **arguments: Any) -> dict[str, np.ndarray]:
    """The tensors of a kernel after it was lowered for a target and run."""
    return execute(lowered(prim(signature, body), target), **arguments)


def rounded(values: Any, dtype: str) -> np.ndarray:
    """Values as a type holds them."""
    return decode(encode(np.asarray(values, np.float32), dtype), dtype)


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Small random values, exact in the type."""
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        return rng.integers(-8 if dtype[0] == "i" else 0, 8, shape).astype(dtype)
    return rounded(rng.integers(-8, 8, shape) / 4, dtype)


def text_of(program: TileProgram) -> str:
    from tilec.ir.printer import program_text

    return program_text(program)


def device_functions(program: TileProgram) -> list[str]:
    """Names of the device functions called, in program order."""
    from tilec.ir.expr import Call
    from tilec.ir.expr import walk as walk_expr
    from tilec.ir.stmt import expressions

    return [x.attrs["name"] for s in walk(program.body) for e in expressions(s) for x in walk_expr(e)
            if isinstance(x, Call) and x.op == "device_function" and x.attrs]


__all__ = ["GLOBAL", "Buffer", "Launch", "device_functions", "execute", "lowered", "numbers", "prim", "rounded", "run", "text_of"]
