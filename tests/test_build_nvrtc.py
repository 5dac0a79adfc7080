"""NVRTC in place of nvcc: what it takes, and what happens to what it does not."""
from __future__ import annotations

import pytest
from tilec.build import nvcc, nvrtc
from tilec.build.nvcc import ToolkitError, compile_source, find_nvcc
from tilec.target.chips import find

KERNEL = '#include <cuda_fp16.h>\nextern "C" __global__ void twice(__half* x) { x[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]); }\n'
LIBRARY = nvrtc.Library("libnvrtc.so", "include", "13.0", frozenset((80, 90)))
has_nvrtc = pytest.mark.skipif(nvrtc.find(find("sm_80")) is None, reason="no NVRTC with its headers")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))


def test_only_headers_that_need_nothing_of_the_host():
    assert nvrtc.takes(KERNEL) and nvrtc.takes("__global__ void f() {}")
    assert not nvrtc.takes("#include <curand_kernel.h>\n" + KERNEL)
    assert not nvrtc.takes('  # include "mine.h"\n')


def test_a_library_is_taken_for_the_chips_it_knows(monkeypatch):
    monkeypatch.setattr(nvrtc, "_libraries", lambda: (LIBRARY,))
    assert nvrtc.find(find("sm_90a")) is LIBRARY
    assert nvrtc.find(find("sm_100a")) is None
    monkeypatch.setenv("TILEC_CUDA_COMPILER", "nvcc")
    assert nvrtc.find(find("sm_90a")) is None


def test_what_it_rejects_goes_to_nvcc_and_is_remembered(monkeypatch):
    asked = []

    def reject(*args):
        asked.append("nvrtc")
        raise nvrtc.Rejected("kernel.cu(1): error: unknown")

    monkeypatch.setattr(nvrtc, "_libraries", lambda: (LIBRARY,))
    monkeypatch.setattr(nvrtc, "compile_source", reject)
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: "/somewhere/nvcc")
    monkeypatch.setattr(nvcc, "_run", lambda *args: (asked.append("nvcc") or b"made", "log"))
    assert compile_source(KERNEL, find("sm_90a")).data == b"made"
    assert compile_source(KERNEL, find("sm_90a")).data == b"made"
    assert asked == ["nvrtc", "nvcc"]
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    with pytest.raises(ToolkitError, match=r"NVRTC rejects the generated source for sm_90a: .*unknown"):
        compile_source(KERNEL, find("sm_90a"))


def test_neither_of_them(monkeypatch):
    monkeypatch.setattr(nvrtc, "_libraries", lambda: ())
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    assert not nvcc.can_compile(find("sm_90a"))
    with pytest.raises(ToolkitError, match="install the CUDA toolkit"):
        compile_source(KERNEL, find("sm_90a"))


@has_nvrtc
@pytest.mark.parametrize("kind, start", [("cubin", b"\x7fELF"), ("ptx", b"//")])
def test_compiles_without_nvcc(monkeypatch, kind, start):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    made = compile_source(KERNEL, find("sm_80"), kind)
    assert made.data.startswith(start)
    assert kind == "ptx" or made.resources["twice"].registers > 0
    assert compile_source(KERNEL, find("sm_80"), kind) == made


@has_nvrtc
@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_the_same_figures_as_nvcc(monkeypatch):
    by_library = compile_source(KERNEL, find("sm_90a"))
    monkeypatch.setenv("TILEC_CUDA_COMPILER", "nvcc")
    assert compile_source(KERNEL, find("sm_90a")).resources == by_library.resources


@has_nvrtc
def test_a_fault_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    with pytest.raises(ToolkitError, match="no_such_name") as caught:
        compile_source(KERNEL.replace("__hadd(", "no_such_name("), find("sm_80"))
    assert "\n" not in str(caught.value)
