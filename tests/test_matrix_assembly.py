"""Every device function assembles for the targets it is for."""

from __future__ import annotations

import re
import shutil
import subprocess

import matrix_blackwell  # noqa: F401  registers the semantics
import pytest
from matrix_semantics import FUNCTIONS
from tilec.target.chips import find
from tilec.transform.matrix.catalogue import device_functions

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


def test_every_function_has_semantics():
    for chip in CHIPS:
        for f in device_functions(find(chip)):
            assert FUNCTIONS[f.name] is not None
