"""One kernel run by the CPU target, by the reference interpreter, thread by thread as CUDA and, where there is one, by a GPU, on the same arguments."""
from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import torch
from emit_support import on_cpu, prim
from thread_interpreter import execute
from tilec.ir.program import TileProgram
from tilec.runtime.interpreter import interpret
from transform_support import lowered

_BY_INTEGERS = {torch.uint32: torch.int32, torch.uint16: torch.int16, torch.uint64: torch.int64}


def three_ways(signature: str, body: str, *arguments: Any, cpu: bool = True, interpreter: bool = True, threads: bool = True) -> None:
    """Every tensor is the same after each way of running the kernel; the arguments are left as the last way left them."""
    agree(prim(signature, body), *arguments, cpu=cpu, interpreter=interpreter, threads=threads)


def agree(program: TileProgram, *arguments: Any, cpu: bool = True, interpreter: bool = True, threads: bool = True) -> None:
    results = []
    if cpu and importlib.util.find_spec("tvm") is not None:
        mine = [_copied(a) for a in arguments]
        on_cpu(program)(*mine)
        results.append(("cpu", mine))
    if interpreter:
        mine = [_copied(a) for a in arguments]
        found = interpret(program, mine)
        assert not found.faults, found.faults
        results.append(("interpreter", mine))
    if threads:
        results.append(("threads", _by_threads(program, arguments)))
    if torch.cuda.is_available():
        results.append(("gpu", _on_gpu(program, arguments)))
    name, first = results[0]
    for other, made in results[1:]:
        for p, a, b in zip(program.params, first, made):
            if isinstance(a, torch.Tensor):
                np.testing.assert_array_equal(_numbers(a), _numbers(b), err_msg=f"{p.name}: {name} and {other}")
    for a, made in zip(arguments, first):
        if isinstance(a, torch.Tensor):
            a.copy_(made if isinstance(made, torch.Tensor) else torch.from_numpy(made))


def _by_threads(program: TileProgram, arguments: Any) -> list[Any]:
    given = {p.name: a if not isinstance(a, torch.Tensor) else _numbers(a) for p, a in zip(program.params, arguments)}
    after = execute(lowered(program), **given)
    return [after.get(p.name) for p in program.params]


def _on_gpu(program: TileProgram, arguments: Any) -> list[Any]:
    from tilec.pipeline import compile_program
    from tilec.runtime import gpu

    mine = [a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments]
    gpu.GpuKernel(compile_program(program, gpu.local_target()))(*mine)
    torch.cuda.synchronize()
    return [a.cpu() if isinstance(a, torch.Tensor) else a for a in mine]


def _copied(a: Any) -> Any:
    return a.clone() if isinstance(a, torch.Tensor) else a


def _numbers(a: Any) -> np.ndarray:
    if isinstance(a, np.ndarray):
        return a
    if a.dtype in _BY_INTEGERS:
        return a.view(_BY_INTEGERS[a.dtype]).numpy().view(str(a.dtype).removeprefix("torch."))
    return a.float().numpy() if a.dtype.is_floating_point and a.dtype != torch.float64 else a.numpy()
