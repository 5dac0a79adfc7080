"""Machine code of specialised kernels: matrix instructions back to back, nothing in local memory, no memory fence in the loop."""
from __future__ import annotations

import re

import hopper_kernels as kernels
import pytest
from tilec.build.nvcc import ToolkitError, can_compile, disassemble
from tilec.target.chips import find

if not can_compile(find("sm_90a")):
    pytest.skip("needs a CUDA compiler", allow_module_level=True)

_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);")
_FILLER = ("U", "NOP")  # arithmetic of addresses in uniform registers, beside the warps' own


def instructions(program) -> list[tuple[int, str]]:
    from tilec.jit import compile

    try:
        text = disassemble(compile(program, target="sm_90a").artifact.cubin().data)
    except ToolkitError as error:
        pytest.skip(str(error))
    return [(int(at, 16), what) for at, what in _INSTRUCTION.findall(text)]


def opcode(what: str) -> str:
    return what.split()[1 if what.startswith("@") else 0]


def innermost(code: list[tuple[int, str]], wanted: str) -> list[str]:
    """The smallest loop with an instruction: from the target of a jump backwards to the jump."""
    loops = []
    for at, what in code:
        if opcode(what).startswith("BRA"):
            target = re.search(r"0x([0-9a-f]+)", what)
            if target and int(target[1], 16) < at:
                body = [w for a, w in code if int(target[1], 16) <= a <= at]
                if any(opcode(w).startswith(wanted) for w in body):
                    loops.append(body)
    assert loops, f"no loop with {wanted}"
    return min(loops, key=len)


@pytest.mark.parametrize("program, products", [
    (lambda: kernels.product(4096, 4096, 4096, block_N=256, dtype="bfloat16", out="bfloat16", swizzle=10), 4),
    (lambda: kernels.product(1024, 1024, 1024, block_M=64, block_K=128, threads=128, stages=4), 8),
], ids=["large", "small"])
def test_products(program, products):
    code = instructions(program())
    names = [opcode(w) for _, w in code]
    assert not [n for n in names if n.startswith(("LDL", "STL"))]
    loop = [opcode(w) for w in innermost(code, "HGMMA")]
    assert not [n for n in loop if n.startswith(("MEMBAR", "BAR", "LDS", "STS", "LDG", "STG"))]
    places = [i for i, n in enumerate(loop) if n.startswith("HGMMA")]
    assert len(places) % products == 0
    first = places[:products]
    between = {n for n in loop[first[0]:first[-1]] if not n.startswith("HGMMA")}
    assert all(n.startswith(_FILLER) for n in between), between
    assert any(n.startswith("UTMALDG") for n in names) and any(n.startswith("UTMASTG") for n in names) and any(n.startswith("STSM") for n in names)


def test_attention():
    code = instructions(kernels.attention(1, 2, 4096, 128, False, 128, 128, 2, 256))
    assert not [w for _, w in code if opcode(w).startswith(("LDL", "STL"))]
    loop = [opcode(w) for w in innermost(code, "HGMMA")]
    assert not [n for n in loop if n.startswith(("MEMBAR", "LDS", "STS", "LDG", "STG"))]
    assert sum(n.startswith("HGMMA") for n in loop) == 16 and sum(n.startswith("WARPGROUP.DEPBAR") for n in loop) == 2
