"""Lowering kernels given as source text and running the result thread by thread, for tests of the transformation."""
from __future__ import annotations

from typing import Any

import numpy as np
from emit_support import prim
from matrix_machine import decode, encode
from thread_interpreter import execute
from tilec.ir.buffer import GLOBAL, Buffer
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
