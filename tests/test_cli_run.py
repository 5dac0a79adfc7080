"""``tile-lsp run`` end to end on the CPU."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tvm")

ROOT = Path(__file__).resolve().parent.parent
FIELDS = ["kernel", "instance", "target", "device", "ok", "against", "max_abs_err", "max_rel_err", "rtol", "atol", "latency_ms", "tflops", "gbps", "smem_bytes",
          "registers", "error", "mean_abs_err", "roofline", "occupancy"]
KERNEL = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def add(M=64, N=64, block=16):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(M // block, threads=128) as bx:
            x = T.alloc_fragment((block, N), "float32")
            T.copy(A[bx * block, 0], x)
            for i, j in T.Parallel(block, N):
                B[bx * block + i, j] = BODY
    return main
'''


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tile_lsp", "run", *arguments], capture_output=True, text=True, cwd=cwd, check=False)


def kernel(tmp_path: Path, body: str, after: str = "") -> str:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("BODY", body) + after, encoding="utf-8")
    return str(path)


def test_json_of_a_correct_run():
    done = run("examples/gemm.py", "--target", "cpu", "--json", "--repeat", "3")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert list(result) == FIELDS
    assert result["ok"] and result["against"] == "reference" and result["target"] == "cpu" and result["kernel"] == "matmul"
    assert 0 <= result["max_abs_err"] < result["atol"] + 1 and result["latency_ms"]["p20"] <= result["latency_ms"]["median"] and result["tflops"] > 0


def test_a_wrong_kernel_is_pictured_with_the_statement_that_wrote_it(tmp_path):
    path = kernel(tmp_path, "x[i, j] + T.if_then_else(i + bx * block >= 48, 1.0, 0.0)", "\n\ndef reference(A):\n    return A\n")
    done = run(path, "--target", "cpu", "--repeat", "1")
    text = " ".join(done.stdout.split())
    assert done.returncode == 1, done.stderr
    assert "1024 of 4096 elements of B are wrong (25 %), first B[48, 0]" in text
    assert "written by the statement at kernel.py:13:17" in text and "█" in text
    assert "it is the kernel's source (or the reference) that is wrong" in text


def test_uninitialised_memory_is_a_fault_against_the_interpreter(tmp_path):
    path = kernel(tmp_path, "x[i, j]")
    Path(path).write_text(Path(path).read_text().replace("T.copy(A[bx * block, 0], x)", "T.copy(A[bx * block, 0], x[0:8, :])"))
    done = run(path, "--target", "cpu", "--against", "interpreter", "--json", "--repeat", "0")
    result = json.loads(done.stdout)
    assert done.returncode == 1 and not result["ok"] and "before anything wrote it" in result["error"] and result["latency_ms"] is None


def one_paragraph(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("arguments, said", [
    (("nothere.py",), "no such file"), (("examples/gemm.py::other",), "no kernel 'other'"), (("examples/gemm.py", "--target", "sm_1"), "unknown target"),
    (("examples/gemm.py", "--size", "M"), "NAME=VALUE"), (("examples/gemm.py", "--target", "cpu", "--size", "M=4"), "no run-time extent"),
    (("examples/tcgen05_gemm.py", "--target", "sm_90a"), "TL601"), (("Makefile",), "no TileLang kernel"),
])
def test_what_cannot_be_run(arguments, said):
    assert said in one_paragraph(run(*arguments))


@pytest.mark.parametrize("reference, options, said", [
    ("import os\ndef reference(A):\n    os.abort()\n", (), "SIGABRT"), ("def reference(A):\n    while True:\n        pass\n", ("--timeout", "8"), "longer than 8 s"),
    ("def reference(A):\n    return A + nothing\n", (), "NameError"), ("", ("--against", "reference"), "no reference function"),
])
def test_references_that_fail(reference, options, said, tmp_path):
    path = kernel(tmp_path, "x[i, j]", "\n\n" + reference)
    assert said in one_paragraph(run(path, "--target", "cpu", *options))


EAGER = '''import tilelang
import tilelang.language as T


# tile-lsp: instance INSTANCE
@tilelang.jit
def mm(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((K, N), "float16")
    C = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    return C
'''
FITS = 'A=tensor((128, 64), "float16") B=tensor((64, 128), "float16")'


@pytest.mark.parametrize("instance, said", [
    (FITS.replace("(64, 128)", "(96, 128)"), "K is 64 by A.shape[1] but 96 by B.shape[0]"),
    (FITS.replace('8), "float16"', '8), "bfloat16"'), "B is float16 in the kernel, but is given as bfloat16"),
    (FITS.replace("(64, 128)", "(64,)"), "B has 2 dimensions in the kernel, but is given 1"),
])
def test_tensors_of_an_instance_that_do_not_fit_each_other(instance, said, tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(EAGER.replace("INSTANCE", instance), encoding="utf-8")
    assert said in one_paragraph(run(str(path), "--target", "cpu"))
    check = [sys.executable, "-m", "tile_lsp", "check", "--no-cache"]
    assert said in one_paragraph(subprocess.run([*check, str(path)], capture_output=True, text=True, check=False))
    path.write_text(EAGER.replace("INSTANCE", FITS), encoding="utf-8")
    call = f"mm({instance.replace(' B=', ', B=')})"
    assert said in one_paragraph(run(str(path), "--target", "cpu", "--instance", call))
    assert said in one_paragraph(subprocess.run([*check, str(path), "--instance", call], capture_output=True, text=True, check=False))
    assert subprocess.run([*check, str(path)], capture_output=True, text=True, check=False).returncode == 0


def test_numbers_for_tensors_are_refused_as_check_does(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(EAGER.replace("INSTANCE", FITS), encoding="utf-8")
    assert "A of mm is a tensor; write A=tensor(" in one_paragraph(run(str(path), "--target", "cpu", "--instance", "mm(1, 2)"))
