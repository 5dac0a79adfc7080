"""The CUDA toolkit as this compiler drives it."""
from __future__ import annotations

import stat

import pytest
from tilec.build import nvcc
from tilec.build.nvcc import ToolkitError, compile_source, find_nvcc, parse_resources
from tilec.target.chips import find

KERNEL = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }\n'
LOG = """ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEC_CUDA_COMPILER", "nvcc")


def test_figures_of_ptxas():
    found = parse_resources(LOG)
    assert found["first"] == nvcc.Resources(168, 32, 16, 1024)
    assert found["second"] == nvcc.Resources(10, 0, 0, 0)


@pytest.mark.nvcc
@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_compiles_and_takes_the_second_time_from_the_cache(monkeypatch):
    first = compile_source(KERNEL, find("sm_80"))
    assert first.data.startswith(b"\x7fELF") and first.resources["twice"].registers > 0
    monkeypatch.setattr(nvcc, "_run", lambda *args: pytest.fail("compiled again"))
    assert compile_source(KERNEL, find("sm_80")) == first


@pytest.mark.nvcc
@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_a_rejected_source_is_told_in_one_line():
    with pytest.raises(ToolkitError, match=r"sm_80.*undefined_name") as caught:
        compile_source(KERNEL.replace("2.0f", "undefined_name"), find("sm_80"))
    assert "\n" not in str(caught.value)


def test_a_kernel_that_spills_for_the_sake_of_more_blocks_is_compiled_again(monkeypatch):
    asked = []

    def ptxas(registers, spilled):
        return (b"made", f"Compiling entry function 'k'\n 0 bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads\nUsed {registers} registers")

    def run(tool, source, *rest):
        asked.append(source)
        return ptxas(212, 0) if ", 1)" in source else ptxas(255 if "big" in source else 168, 0 if "small" in source else 8)

    monkeypatch.setattr(nvcc, "find_nvcc", lambda: "/somewhere/nvcc")
    monkeypatch.setattr(nvcc, "_run", run)
    text = "__global__ void __launch_bounds__({}) k() {{ {} }}"
    assert compile_source(text.format("128", ""), find("sm_80")).resources["k"] == nvcc.Resources(212, 0, 0, 0)
    assert len(asked) == 2
    for bounds, body in (("128", "small"), ("128", "big"), ("512", ""), ("128, 2", "")):  # nothing spilled, or nothing to be had, or the user's own number
        asked.clear()
        compile_source(text.format(bounds, body), find("sm_80"))
        assert len(asked) == 1


def _fake(tmp_path, monkeypatch, script: str) -> None:
    program = tmp_path / "nvcc"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: str(program))


def test_a_compiler_that_hangs_is_stopped(tmp_path, monkeypatch):
    _fake(tmp_path, monkeypatch, "exec sleep 30\n")
    monkeypatch.setattr(nvcc, "TIMEOUT", 0.3)
    with pytest.raises(ToolkitError, match="did not finish"):
        compile_source(KERNEL, find("sm_80"))


def test_a_compiler_that_crashes_is_told(tmp_path, monkeypatch):
    _fake(tmp_path, monkeypatch, "echo 'fatal: internal trouble' >&2\nexit 3\n")
    with pytest.raises(ToolkitError, match="internal trouble"):
        compile_source(KERNEL, find("sm_80"))


def test_without_a_toolkit_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    with pytest.raises(ToolkitError, match="install the CUDA toolkit"):
        compile_source(KERNEL, find("sm_80"))
