"""Known defects: each pattern is reported for the releases that have the defect, not for the others, and its valid neighbour never."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tilec.check import check_analysis
from tilec.check.diagnostic import INFORMATION, WARNING
from tilec.check.known_defects.table import DEFECTS
from tilec.check.registry import PAGES
from tilec.check.rules.known_defects import of_release
from tilec.check.settings import Settings
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

RELEASES = tuple(v for v in manifest.versions() if v >= "0.1.8" or v.startswith("0.1.1"))
PRODUCT = """
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
"""


def kernel(parameters: str, body: str, threads: int = 128) -> str:
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    return f"import tilelang.language as T\n\n@T.prim_func\ndef main({parameters}):\n    with T.Kernel(1, threads={threads}) as bx:\n{lines}"


def tensors(**shapes: str) -> str:
    """``X="4, 40"`` is a float32 tensor; ``X="int32 4, 40"`` names the type."""
    found = []
    for name, text in shapes.items():
        dtype, _, extents = text.rpartition(" ") if text[0].isalpha() and "," not in text else ("float32", "", text)
        if text[0].isalpha():
            dtype, _, extents = text.partition(" ")
        found.append(f'{name}: T.Tensor(({extents},), "{dtype}")')
    return ", ".join(found)


def loop(stages: int, name: str = "k") -> str:
    return (f"for {name} in T.Pipelined(8, num_stages={stages}):\n    T.copy(A[0, {name} * 32], a)\n    T.copy(B[{name} * 32, 0], b)\n"
            "    T.gemm(a, b, c)\n")


GEMM = tensors(A="float16 64, 256", B="float16 256, 64", C="64, 64")
TILES = "\n".join(line.strip() for line in PRODUCT.strip().splitlines()) + "\n"

# number -> parameters, the pattern with its faulty line marked, the valid neighbour
CASES: dict[int, tuple[str, str, str]] = {
    2309: (GEMM, TILES + loop(2) + loop(3, "m").replace("):", "):  # HERE", 1) + "T.copy(c, C)",
           TILES + loop(3) + loop(3, "m") + "T.copy(c, C)"),
    2433: (tensors(C="int32 4, 12"), "for x, y in T.Persistent([4, 12], 8, bx):  # HERE\n    C[x, y] = 1",
           "for x, y in T.Persistent([4, 8], 8, bx):\n    C[x, y] = 1"),
    2523: (tensors(X="4, 40", Y="4, 40"),
           't = T.alloc_shared((4, 40), "float32")\nT.copy(X, t)\nT.cumsum(src=t[0:4, 0:24], dim=1)  # HERE\nT.copy(t, Y)',
           't = T.alloc_shared((4, 40), "float32")\nT.copy(X, t)\nT.cumsum(src=t[0:2, 0:40], dim=1)\nT.copy(t, Y)'),
    2539: (tensors(P="int32 4", Q="int32 4", U="4, 32", V="4, 32"),
           "for i in T.serial(32):\n    if P[bx] < 5:\n        U[bx, i] = 1.0\n    if Q[bx] < 5:  # HERE\n        V[bx, i] = 2.0",
           "for i in T.serial(32):\n    if P[bx] < 5:\n        U[bx, i] = 1.0\n    if Q[bx] < 6:\n        V[bx, i] = 2.0"),
    2561: (tensors(A="int32 128", B="int32 128"), "for i in T.Parallel(32):\n    T.atomic_addx4(B[i * 4], A[i * 4])  # HERE",
           "for i in T.Parallel(128):\n    T.atomic_add(B[i], A[i])"),
    2594: (tensors(A="int32 4", B="int32 4"), "if A[0] > 0:\n    v = A[0]  # HERE\n    T.atomic_add(A[0], 10)\n    B[0] = v",
           "if A[0] > 0:\n    v = A[0]\n    B[0] = v\n    T.atomic_add(A[0], 10)"),
    2595: (tensors(X="int32 8, 128", S="int32 128", L="int32 8, 128"),
           'before = T.alloc_shared((128,), "int32")\nfor k in T.Pipelined(8, num_stages=2):\n    T.copy(S, before)  # HERE\n'
           "    for i in T.Parallel(128):\n        L[k, i] = before[i]\n    for i in T.Parallel(128):\n        T.atomic_add(S[i], X[k, i])",
           'before = T.alloc_shared((128,), "int32")\nfor k in T.serial(8):\n    T.copy(S, before)\n'
           "    for i in T.Parallel(128):\n        L[k, i] = before[i]\n    for i in T.Parallel(128):\n        T.atomic_add(S[i], X[k, i])"),
    2608: (tensors(A="int32 16", B="int32 16"),
           "for i in T.vectorized(16):\n    if i == 5:\n        T.loop_break()  # HERE\n    B[i] = A[i]",
           "for i in T.serial(16):\n    if i == 5:\n        T.loop_break()\n    B[i] = A[i]"),
    2609: (GEMM + ", " + tensors(D="64, 16"),
           TILES + loop(2) + 'T.copy(c, C)\nw = T.view(a, (64, 16), "float32")  # HERE\nfor i, j in T.Parallel(64, 16):\n    w[i, j] = 1.0\n'
           "for i, j in T.Parallel(64, 16):\n    D[i, j] = w[i, j]",
           TILES + loop(2) + 'T.copy(c, C)\nw = T.alloc_shared((64, 16), "float32")\nfor i, j in T.Parallel(64, 16):\n    w[i, j] = 1.0\n'
           "for i, j in T.Parallel(64, 16):\n    D[i, j] = w[i, j]"),
    2623: (tensors(X="8, 256", Y="8"),
           'acc = T.alloc_reducer((8,), "float32", op="sum", replication="all")\nT.clear(acc)\nfor o, j in T.Parallel(8, 256):\n'
           "    acc[o] += X[o, j]\nT.finalize_reducer(acc, batch=4)  # HERE\nT.copy(acc, Y)",
           'acc = T.alloc_reducer((8,), "float32", op="sum", replication="all")\nT.clear(acc)\nfor o, j in T.Parallel(8, 256):\n'
           "    acc[o] += X[o, j]\nT.finalize_reducer(acc, batch=8)\nT.copy(acc, Y)"),
    2667: (tensors(D="int32 1", A="int32 128", P="int32 128"),
           "tx = T.get_thread_binding()\nP[tx] = T.atomic_min(D[0], A[tx], return_prev=True)  # HERE",
           "tx = T.get_thread_binding()\nP[tx] = T.atomic_add(D[0], A[tx], return_prev=True)"),
    2668: (tensors(X="8, 128", Y="8, 128"),
           's = T.alloc_shared((128,), "float32")\nT.clear(s)\nfor k in T.Pipelined(8, num_stages=2):\n    for i in T.Parallel(128):\n'
           "        Y[k, i] = s[i]\n    T.copy(X[k, 0:128], s)  # HERE",
           's = T.alloc_shared((128,), "float32")\nfor k in T.Pipelined(8, num_stages=2):\n    T.copy(X[k, 0:128], s)\n'
           "    for i in T.Parallel(128):\n        Y[k, i] = s[i]"),
    2669: (tensors(A="64", B="64"), "for i in T.vectorized(4, 8):  # HERE\n    B[i] = A[i]", "for i in T.vectorized(0, 8):\n    B[i] = A[i]"),
    2688: (tensors(A="float16 256", C="float16 256"), 'T.atomic_add(C[0:256], A[0:256], memory_order="acq_rel")  # HERE',
           'T.atomic_add(C[0:256], A[0:256], memory_order="relaxed")'),
    2689: (tensors(A="int64 8", C="int32 8"), "T.copy(A[3], C[3])  # HERE", "C[3] = T.cast(A[3], \"int32\")"),
    2758: (tensors(D="float16 4", A="float16 4"), "T.atomic_max(D[0], 42.0)  # HERE", "T.atomic_max(D[0], A[1])"),
    2943: (tensors(A="int32 64", B="int32 64", C="int32 64"), "for i in T.Parallel(64):\n    C[i] = T.ceildiv(A[i], B[i])  # HERE",
           "for i in T.Parallel(64):\n    C[i] = T.ceildiv(A[i], 7)"),
    2955: (tensors(A="16, 64", B="7", C="16, 64"), "for i, j in T.Parallel(16, 64):\n    C[i, j] = A[i, j] + B[j % 7]  # HERE",
           "for i, j in T.Parallel(16, 64):\n    C[i, j] = A[i, j] + B[j % 4]"),
    2957: (tensors(A="256", C="256"),
           'f = T.alloc_fragment((256,), "float32")\nT.copy(A, f)\nfor i in T.Parallel(128):  # HERE\n    f[i] = 5.0\nT.copy(f, C)',
           'f = T.alloc_fragment((256,), "float32")\nT.copy(A, f)\nfor i in T.Parallel(256):\n    f[i] = T.if_then_else(i < 128, 5.0, f[i])\n'
           "T.copy(f, C)"),
    2959: (tensors(V="int32 128", S="int32 1"), "tx = T.get_thread_binding()\nT.atomic_add(S, V[tx])  # HERE",
           "tx = T.get_thread_binding()\nT.atomic_add(S[0], V[tx])"),
    3008: (tensors(A="64", C="64"), "for i in T.Parallel(64):\n    C[i] = A[i] % T.float32(6.25)  # HERE",
           "for i in T.Parallel(64):\n    C[i] = A[i] - T.floor(A[i] / T.float32(6.25)) * T.float32(6.25)"),
    3011: (tensors(A="128", C="128"),
           's = T.alloc_shared((128,), "float32")\nf = T.alloc_fragment((128,), "float32")\nT.copy(A, s)\nT.cumsum(s, f, dim=0)  # HERE\nT.copy(f, C)',
           's = T.alloc_shared((128,), "float32")\nT.copy(A, s)\nT.cumsum(s, dim=0)\nT.copy(s, C)'),
    3026: (tensors(A="int32 8", B="int32 8"),
           "for i in T.unroll(8, explicit=True):\n    if A[i] > 5:\n        T.loop_break()  # HERE\n    B[i] = 1",
           "for i in T.unroll(8):\n    if A[i] > 5:\n        T.loop_break()\n    B[i] = 1"),
    3039: (GEMM + ", " + tensors(L="float16 64, 32"), TILES + loop(3) + "T.copy(a, L)  # HERE\nT.copy(c, C)",
           TILES + loop(1) + "T.copy(a, L)\nT.copy(c, C)"),
}


def reported(text: str, version: str) -> list[tuple[int, str, str]]:
    """Line, severity and number of the defects that are told about a file."""
    analysis = analyse(SourceFile("case.py", text))
    settings = Settings(select=frozenset(("known-defect",)))
    found = check_analysis(analysis, [find(t) for t in DECLARED], manifest.load(version), settings, explicit=False)
    return [(d.span.line, d.severity, d.message.split("#")[1][:4]) for d in found]


def test_every_row_has_a_case() -> None:
    assert sorted(CASES) == sorted(d.number for d in DEFECTS)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: str(d.number))
def test_reported_for_the_releases_that_have_it_only(defect) -> None:
    parameters, bad, good = CASES[defect.number]
    text = kernel(parameters, bad)
    line = next(n for n, written in enumerate(text.splitlines(), 1) if "# HERE" in written)
    expected = (line, WARNING if defect.last else INFORMATION, str(defect.number))
    for version in RELEASES:
        found = [r for r in reported(text, version) if r[2] == str(defect.number)]
        assert found == ([expected] if defect in of_release(version) else []), version
        assert not [r for r in reported(kernel(parameters, good), version) if r[2] == str(defect.number)], version


def test_releases_are_compared_as_numbers() -> None:
    assert {d.number for d in of_release("0.1.9")} >= {2309, 2608} and 2623 not in {d.number for d in of_release("0.1.9")}
    assert of_release("0.1.13+gitabc") == of_release("0.1.13")
    assert of_release("0.1.7.post3") == ()
    assert of_release("0.1.16") == ()  # nobody has looked


def test_a_checkout_may_have_the_fix_already() -> None:
    parameters, bad, _ = CASES[2539]
    analysis = analyse(SourceFile("case.py", kernel(parameters, bad)))
    targets = [find(t) for t in DECLARED]
    release = manifest.load("0.1.12")
    checkout = replace(release, source="/somewhere/tilelang")
    assert [d.name for d in check_analysis(analysis, targets, release, explicit=False)] == ["known-defect"]
    assert check_analysis(analysis, targets, checkout, explicit=False) == []


def test_deprecated_names_have_successors_in_the_release() -> None:
    parameters, bad, _ = CASES[2623]
    analysis = analyse(SourceFile("case.py", kernel(parameters, bad)))
    targets = [find(t) for t in DECLARED]
    for version, told in (("0.1.11", False), ("0.1.15", True)):
        names = [d.name for d in check_analysis(analysis, targets, manifest.load(version), explicit=False)]
        assert ("deprecated-api" in names) == told


def test_the_page_lists_the_table() -> None:
    page = (PAGES / "known-defect.md").read_text(encoding="utf-8")
    for d in DEFECTS:
        assert f"| #{d.number} | {d.first} to {d.last or '(open)'} | {d.effect} | {d.instead} |" in page
