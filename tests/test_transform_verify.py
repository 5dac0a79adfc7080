"""The verifier accepts what the passes make, and refuses what they must not make."""
from __future__ import annotations

from dataclasses import replace

import hand_programs
import pytest
from tilec.ir.buffer import LOCAL, Buffer
from tilec.ir.build import const
from tilec.ir.stmt import Store
from tilec.target.chips import find
from tilec.transform.registry import run_passes
from tilec.transform.verify import MalformedProgram, verify


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_a_lowered_gemm(target):
    verify(run_passes(hand_programs.gemm(128, 128, 64, 64, 64, 32), find(target)), lowered=True)


def test_a_tile_program_is_no_thread_program():
    program = hand_programs.gemm()
    verify(program)
    with pytest.raises(MalformedProgram):
        verify(program, lowered=True)


def test_a_store_of_another_type_and_a_buffer_nobody_allocated():
    program = run_passes(hand_programs.gemm(128, 128, 64, 64, 64, 32), find("sm_80"))
    launch = program.launches()[0]
    stray = Buffer("stray", (const(4),), "float32", LOCAL)
    for value, text in ((const(1, "int32"), "int32 is stored"), (const(1.0, "float32"), "not allocated")):
        body = (*launch.body, Store(None, stray, (const(0),), value))
        with pytest.raises(MalformedProgram, match=text):
            verify(replace(program, body=(replace(launch, body=body),)), lowered=True)
