"""Every device function assembles for the targets it is for."""

from __future__ import annotations

import re
import shutil
import subprocess

import matrix_blackwell  # noqa: F401  registers the semantics
import pytest
from matrix_cuda_text import Printer, kernel
from matrix_programs import Context, buffer, gemm_op
from matrix_semantics import FUNCTIONS
from tilec.ir.buffer import BARRIER, FRAGMENT, SHARED_DYN, TMEM, Region, whole
from tilec.ir.build import const
from tilec.ir.expr import Var
from tilec.ir.stmt import Alloc, Let, TileOp
from tilec.target.chips import find
from tilec.transform.matrix import barriers, tensor_memory
from tilec.transform.matrix.catalogue import device_functions
from tilec.transform.matrix.lower import lower_matrix_op
from tilec.transform.matrix.shared import required_shared_layout

TYPES = {"unsigned int": "7u", "unsigned long long": "7ull"}
CHIPS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")


def caller(function) -> str:
    """A kernel that calls a function, so that its body is compiled."""
    parameters = re.search(r"\((.*?)\) \{", function.source).group(1)
    kinds = [p.rsplit(" ", 1)[0].strip() for p in parameters.split(",") if p.strip()]
    declarations, arguments = [], []
    for i, kind in enumerate(kinds):
        name = re.split(r"\W", parameters.split(",")[i].strip())[-1]
        if not kind.endswith("*"):
            arguments.append(TYPES[kind])
        elif name in ("row", "slot", "barrier", "base"):
            arguments.append("pool")
        else:
            declarations.append(f"unsigned long long r{i}[32]; for (int i = 0; i < 32; ++i) r{i}[i] = out[i];")
            arguments.append(f"r{i}")
    keep = "".join(
        f"for (int i = 0; i < 32; ++i) out[i] += r{i}[i];" for i in range(len(kinds)) if f"r{i}" in arguments
    )
    call = f"{function.name}({', '.join(arguments)})"
    call = call if function.result == "void" else f"out[0] = {call}"
    return (
        f'{function.source}extern "C" __global__ void call_{function.name}(unsigned long long* out) {{\n'
        f"  __shared__ __align__(1024) unsigned char pool[4096];\n  {' '.join(declarations)}\n  {call};\n  "
        f"{keep}\n}}\n"
    )


@pytest.mark.nvcc
@pytest.mark.parametrize("chip", CHIPS)
def test_all_functions_assemble(chip, tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    functions = device_functions(find(chip))
    assert len({f.name for f in functions}) == len(functions)
    source = tmp_path / "all.cu"
    source.write_text("\n".join(caller(f) for f in functions))
    code = chip.removeprefix("sm_")
    result = subprocess.run(
        [
            "nvcc",
            "-O1",
            "-w",
            "-std=c++17",
            "-gencode",
            f"arch=compute_{code},code=sm_{code}",
            "-cubin",
            "-o",
            str(tmp_path / "all.cubin"),
            str(source),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert (tmp_path / "all.cubin").stat().st_size > 0


@pytest.mark.nvcc
def test_a_whole_blackwell_program_assembles(tmp_path):
    """Allocation, multiplication, wait, copy to a fragment, deallocation; the types of all expressions fit."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    op = gemm_op(128, 64, 64, transpose_B=False, c_scope=TMEM, clear_accum=Var("bool", None, "first", "let"))
    mbar, slot = buffer("mbar", (1,), "uint64", BARRIER), buffer("slot", (1,), "uint32", SHARED_DYN)
    op.args["mbar"] = Region(mbar, (const(0),), (const(1),), "element")
    A, B, C = (op.region(x).buffer for x in "ABC")
    ctx = Context(find("sm_100a"), 128, tensor_memory=tensor_memory.plan_tensor_memory((C,)))
    ctx.shared_layouts.update({b: required_shared_layout(op, w, ctx.threads, ctx.target) for w, b in (("A", A), ("B", B))})
    ctx.phases[mbar] = phases = barriers.phase_array(mbar)
    local = buffer("C_local", (128, 64), "float32", FRAGMENT)
    copy = TileOp(None, "copy", {"src": whole(C), "dst": whole(local)})
    ctx.layouts[local] = tensor_memory.copy_fragment_layout(copy, 128)
    body = (
        Alloc(None, phases),
        *barriers.initialise((mbar,), ctx),
        *barriers.start_phases(phases),
        *tensor_memory.allocate(ctx.tensor_memory, slot, ctx.tensor_base, ctx, None),
        Let(None, op.args["clear_accum"], const(True)),
        *lower_matrix_op(op, ctx),
        *tensor_memory.lower_tensor_memory_copy(copy, ctx),
        *tensor_memory.deallocate(ctx.tensor_memory, ctx.tensor_base, ctx, None),
    )
    printer = Printer()
    text = kernel("program", ctx.thread, body, [A, B, mbar, slot], [ctx.registers_of(local)], printer)
    source = tmp_path / "program.cu"
    source.write_text("\n".join([*printer.functions.values(), text]))
    arch = "arch=compute_100a,code=sm_100a"
    command = ["nvcc", "-O2", "-w", "-std=c++17", "-gencode", arch, "-cubin", "-Xptxas", "-v", "-o"]
    result = subprocess.run(
        [*command, str(tmp_path / "p.cubin"), str(source)], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert "0 bytes stack frame, 0 bytes spill stores" in result.stderr
    for instruction in ("tcgen05.alloc", "tcgen05.mma", "tcgen05.commit", "try_wait", "tcgen05.ld", "tcgen05.dealloc"):
        assert instruction in source.read_text()


def test_every_function_has_semantics():
    for chip in CHIPS:
        for f in device_functions(find(chip)):
            assert FUNCTIONS[f.name] is not None
