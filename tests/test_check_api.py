"""API uses against releases; merging over instances and targets; ignore comments."""

from __future__ import annotations

import pytest
from tilec.check import check_analysis
from tilec.check.settings import Settings, check_severities, unknown_selectors
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

BLACKWELL = """import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((128, 64), "bfloat16"), B: T.Tensor((64, 64), "bfloat16"), C: T.Tensor((128, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        acc = T.alloc_tmem((128, 64), "float32")
        mbar = T.alloc_barrier(1)
        out = T.alloc_fragment((128, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.tcgen05_gemm(a, b, acc, transpose_B=True, mbar=mbar, clear_accum=True)
        T.mbarrier_wait_parity(mbar, 0)
        T.copy(acc, out)
        T.copy(out, C)
"""
COPY = """import tilelang
import tilelang.language as T

@tilelang.jit
def mm(block_M, block_N, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((1024, 1024), "float16"), B: T.Tensor((1024, 1024), "float16"),
             C: T.Tensor((1024, 1024), "float32")):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            T.copy(A[0, 0], a)
            T.copy(B[0, 0], b)
            T.gemm(a, b, c)
            T.copy(c, C[0, 0])
    return main

mm(128, 128)
"""


def check(text: str, version: str = "latest", targets: tuple[str, ...] = (), settings: Settings | None = None):
    analysis = analyse(SourceFile("k.py", text))
    return check_analysis(
        analysis, [find(t) for t in targets or DECLARED], manifest.load(version), settings, explicit=bool(targets)
    )


def test_newer_name_offers_the_older_form() -> None:
    assert check(BLACKWELL, "0.1.15") == []
    (only,) = check(BLACKWELL, "0.1.8")
    assert only.message == (
        "T.tcgen05_gemm is not exported by tilelang.language 0.1.8 (added in 0.1.9); use T.gemm(A, B, C, mbar=mbar)"
    )
    assert (only.severity, only.span.line, only.span.column, only.span.end_column) == ("error", 13, 9, 23)
    assert only.fix is not None
    assert [(e.span.column, e.span.end_column, e.text) for e in only.fix.edits] == [(11, 23, "gemm")]


def test_alias_is_kept_in_the_message() -> None:
    (only,) = check(BLACKWELL.replace("language as T", "language as tl").replace("T.", "tl."), "0.1.8")
    assert "tl.tcgen05_gemm is not exported" in only.message
    assert "use tl.gemm(A, B, C, mbar=mbar)" in only.message


def test_json_of_a_diagnostic() -> None:
    (only,) = check(BLACKWELL, "0.1.8")
    data = only.to_json()
    assert list(data) == [
        "path",
        "kernel",
        "instance",
        "code",
        "name",
        "severity",
        "message",
        "range",
        "related",
        "fix",
        "url",
    ]
    assert data["range"] == {"start": {"line": 13, "column": 9}, "end": {"line": 13, "column": 23}}
    assert data["code"] == "TL103"
    assert data["url"].endswith("newer-api.md")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("alloc_smem", "alloc_shared"), ("ceil_div", "ceildiv"), ("Tensr", "Tensor"), ("Pipeline", "Pipelined")],
)
def test_did_you_mean(written: str, meant: str) -> None:
    (only,) = check(f"import tilelang.language as T\n\nx = T.{written}\n")
    assert only.name == "unknown-attribute"
    assert f"did you mean T.{meant}?" in only.message


@pytest.mark.parametrize(
    "text",
    [
        "import tilelang.language as T\nT.copy(*args, **options)\n",
        "import tilelang.language as T\nif hasattr(T, 'new_name'):\n    T.new_name()\n",
        "import tilelang.language as T\ntry:\n    T.new_name()\nexcept AttributeError:\n    pass\n",
        "import tilelang.language as T\nT.exp(1.0)\nT.float32(2)\nT.Tensor[(1,), T.float16]\n"
        "T.Tensor((4,), 'float16')\nT.GemmWarpPolicy.FullRow\n",
        "import other as T\nT.anything(1, 2, bad=3)\n",
    ],
)
def test_silent(text: str) -> None:
    assert check(text) == []


def test_fault_of_one_instance_says_for_which() -> None:
    text = COPY + "mm(128, 20)\n"
    (only,) = check(text)
    assert only.name == "gemm-warp-partition"
    assert only.message.endswith("(for block_N=20)")


def test_fault_of_all_instances_is_told_once() -> None:
    text = COPY.replace("mm(128, 128)", "mm(128, 20)\nmm(64, 20)")
    (only,) = check(text)
    assert "(for" not in only.message


def test_kernel_for_one_chip_is_not_accused_for_others() -> None:
    assert check(BLACKWELL) == []
    assert {d.name for d in check(BLACKWELL, targets=("sm_90a",))} == {"tmem-target"}
    big = COPY.replace("mm(128, 128)", "mm(128, 128, 384)")  # 192 KiB: fits sm_90 and later
    assert check(big) == []
    (only,) = check(big, targets=("sm_80",))
    assert only.name == "smem-capacity"


def test_ignore_comments() -> None:
    bad = COPY.replace("mm(128, 128)", "mm(128, 20)")
    line = "            T.gemm(a, b, c)"
    assert check(bad.replace(line, line + "  # tile-lsp: ignore[gemm-warp-partition]")) == []
    assert check(bad.replace(line, line + "  # tile-lsp: ignore")) == []
    assert check(bad.replace(line, "            # tile-lsp: ignore[TL5]\n" + line)) == []
    assert len(check(bad.replace(line, line + "  # tile-lsp: ignore[TL6]"))) == 1
    assert check("# tile-lsp: ignore-file\n" + bad) == []


def test_settings() -> None:
    bad = COPY.replace("mm(128, 128)", "mm(128, 20)")
    assert check(bad, settings=Settings(ignore=frozenset(("gemm",)))) == []
    assert check(bad, settings=Settings(select=frozenset(("TL6",)))) == []
    (only,) = check(bad, settings=Settings(severities={"TL506": "warning"}))
    assert only.severity == "warning"
    assert check(bad, settings=Settings(severities={"gemm-warp-partition": "off"})) == []
    assert unknown_selectors(["TL5", "gemm", "gemm-shap"]) == ["gemm-shap"]
    assert check_severities({"gemm-shap": "error", "TL501": "loud"}) == [
        "no rule is called 'gemm-shap'",
        "severity of TL501 is 'loud'; it must be one of error, warning, information, off",
    ]


def test_branches_of_unknown_conditions_are_not_judged() -> None:
    text = COPY.replace(
        "            T.gemm(a, b, c)",
        "            if unknown_thing():\n                T.gemm(b, b, c)\n            else:\n"
        "                T.gemm(a, b, c)",
    )
    text = "from elsewhere import unknown_thing\n" + text
    assert [d for d in check(text) if d.severity == "error"] == []
