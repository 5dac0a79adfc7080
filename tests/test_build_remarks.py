"""What ptxas says about speed reaches the user: parsed, with --explain, among a document's diagnostics."""
from __future__ import annotations

import pytest
from tilec.build.nvcc import Compiled, ToolkitError, can_compile, compile_source
from tilec.build.remarks import parse_remarks
from tilec.target.chips import find

LOG = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage in the function 'main_kernel'
ptxas info    : 0 bytes gmem
ptxas warning : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirement.
ptxas info    : Used 168 registers, used 1 barriers
"""
# An accumulator that threads touch while wgmma operations are on their way.
SERIALISED = """
extern "C" __global__ void __launch_bounds__(128) main_kernel(float* out, unsigned long long a, unsigned long long b) {
  float c[4] = {1.f, 2.f, 3.f, 4.f};
  asm volatile("wgmma.fence.sync.aligned;");
  for (int i = 0; i < 8; ++i) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a), "l"(b));
    c[0] *= 2.f;
  }
  asm volatile("wgmma.commit_group.sync.aligned;"); asm volatile("wgmma.wait_group.sync.aligned 0;");
  out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}
"""


def test_remarks_of_a_log():
    serialised, ignored = parse_remarks(LOG + LOG)
    assert (serialised.code, serialised.kernel) == ("C7510", "main_kernel") and serialised.text.startswith("wgmma.mma_async instructions are serialized")
    assert str(serialised).startswith("ptxas C7510: wgmma operations are serialised") and str(ignored).startswith("ptxas C7508: setmaxnreg is ignored")
    assert parse_remarks("ptxas info    : Used 168 registers") == []
    assert Compiled(b"", LOG, {}).remarks() == [serialised, ignored]


@pytest.mark.skipif(not can_compile(find("sm_90a")), reason="needs a CUDA compiler")
def test_a_real_remark():
    try:
        made = compile_source(SERIALISED, find("sm_90a"))
    except ToolkitError as error:
        pytest.skip(str(error))
    assert {"C7517", "C7519"} <= {r.code for r in made.remarks()} and {r.kernel for r in made.remarks()} == {"main_kernel"}
    assert len(made.remarks()) < 4


def test_explain_and_facts(monkeypatch):
    import hopper_kernels as kernels
    from tilec.jit import compile

    from tile_lsp.cli.lower import _assembled

    artifact = compile(kernels.product(512, 512, 512), target="sm_90a").artifact
    artifact._cubin = Compiled(b"", LOG, {})
    monkeypatch.setattr("tilec.build.nvcc.can_compile", lambda target: True)
    assert [line.split(":")[1].strip() for line in _assembled(artifact)] == ["ptxas C7510", "ptxas C7508"]
    assert sum("ptxas" in n for n in artifact.facts()["notes"]) == 2


def test_diagnostics_of_a_run():
    from types import SimpleNamespace

    from tile_lsp.server.failures import run_diagnostics

    document = SimpleNamespace(key="k")
    span = SimpleNamespace(line=3)
    snapshot = SimpleNamespace(document=document, kernel_named=lambda name: SimpleNamespace(name_span=span) if name == "gemm" else None)
    places = SimpleNamespace(uri_of=lambda line: "file:///a.py", range=lambda s: _range(s.line))
    data = {"ok": True, "target": "sm_90a", "instance": "gemm(512)", "remarks": [str(r) for r in parse_remarks(LOG)]}
    session = SimpleNamespace(results={("gemm", "gemm(512)"): SimpleNamespace(data=data, document_key="k")})
    found = list(run_diagnostics(snapshot, places, session))
    assert [(d.code, int(d.severity), d.range.start.line) for _, d in found] == [("ptxas-C7510", 2, 3), ("ptxas-C7508", 2, 3)]
    assert "gemm(512) on sm_90a: ptxas C7510: wgmma operations are serialised" in found[0][1].message
    document.key = "edited"
    assert list(run_diagnostics(snapshot, places, session)) == []


def _range(line):
    from lsprotocol import types

    return types.Range(types.Position(line, 0), types.Position(line, 4))
