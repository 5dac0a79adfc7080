"""T.cast(value, dtype, round="rs", rbits=r): the instruction where there is one, a refusal elsewhere."""
from __future__ import annotations

import pytest
import torch
from emit_support import prim
from tilec.build.nvcc import compile_source, find_nvcc
from tilec.check.checker import check_program
from tilec.pipeline import compile_program
from tilec.runtime.interpreter import interpret
from tilec.runtime.interpreter.memory import Unsupported
from tilec.target.chips import find
from tilec.transform.errors import LoweringError

INSTRUCTIONS = {"float16": "cvt.rs.satfinite.f16x2.f32", "bfloat16": "cvt.rs.satfinite.bf16x2.f32", "float8_e4m3fn": "cvt.rs.satfinite.e4m3x4.f32",
                "float8_e5m2": "cvt.rs.satfinite.e5m2x4.f32", "float4_e2m1fn": "cvt.rs.satfinite.e2m1x4.f32"}


def program(dtype: str, count: int = 256):
    return prim(f"A: T.Tensor(({count},), 'float32'), R: T.Tensor(({count},), 'uint32'), B: T.Tensor(({count},), '{dtype}')", f"""
    with T.Kernel(1, threads=128) as b:
        f = T.alloc_fragment(({count},), '{dtype}')
        for i in T.Parallel({count}):
            f[i] = T.cast(A[i], '{dtype}', round='rs', rbits=R[i])
        T.copy(f, B)
    """)


@pytest.mark.parametrize("dtype", INSTRUCTIONS)
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_text(dtype, target):
    text = compile_program(program(dtype), find(target)).text("cuda")
    assert INSTRUCTIONS[dtype] in text


@pytest.mark.nvcc
@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
@pytest.mark.parametrize("dtype", INSTRUCTIONS)
def test_assembles(dtype):
    compile_source(compile_program(program(dtype), find("sm_100a")).text("cuda"), find("sm_100a"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_other_chips_say_which_can(target):
    found = [d for d in check_program(program("float16"), find(target)) if d.name == "cast-target"]
    assert len(found) == 1 and "sm_100a" in found[0].message


def test_nothing_rounds_to_nearest_instead():
    tensors = [torch.ones(256), torch.ones(256, dtype=torch.uint32), torch.zeros(256, dtype=torch.float16)]
    with pytest.raises(Unsupported):
        interpret(program("float16"), tensors)
    with pytest.raises(LoweringError):
        compile_program(program("float16"), find("cpu")).host_callable()
