"""``tile-lsp bench`` on the CPU."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tile_lsp.cli.main import main

pytest.importorskip("torch")
pytest.importorskip("tvm")

KERNELS = '''import tilelang
import tilelang.language as T


# tile-lsp: instance N=128
# tile-lsp: instance N=256
@tilelang.jit(out_idx=[-1])
def add(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] + 1
    return main


def reference(A):
    return A + 1
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(KERNELS)
    return tmp_path


def bench(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["bench", "--target", "cpu", "--repeat", "3", *arguments])
    return (code, *capsys.readouterr())


def test_each_instance_is_measured_beside_the_reference(capsys) -> None:
    code, out, err = bench(capsys, "k.py", "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert [r["instance"] for r in rows] == ["add(N=128)", "add(N=256)"]
    assert all(r["ok"] and r["against"] == "reference" and r["against_ms"] > 0 and r["latency_ms"]["median"] > 0 and r["change"] is None for r in rows)


def test_a_baseline(folder: Path, capsys) -> None:
    rows = json.loads(bench(capsys, "k.py", "--instance", "add(128)", "--json")[1])
    rows[0]["latency_ms"]["median"] *= 1e6
    (folder / "was.json").write_text(json.dumps(rows))
    code, out, _ = bench(capsys, "k.py", "--instance", "add(128)", "--baseline", "was.json")
    assert code == 0 and "change" in out and "-100 %" in out
    rows[0]["latency_ms"]["median"] /= 1e12
    (folder / "was.json").write_text(json.dumps(rows))
    assert bench(capsys, "k.py", "--instance", "add(128)", "--baseline", "was.json")[0] == 1


def test_wrong_results_and_kernels_that_do_not_run(folder: Path, capsys) -> None:
    (folder / "wrong.py").write_text(KERNELS.replace("return A + 1", "return A + 2"))
    code, out, _ = bench(capsys, "wrong.py", "--instance", "add(128)")
    assert code == 1 and "✗ add(128)" in out and "128 of 128 elements of B are wrong" in out
    (folder / "broken.py").write_text(KERNELS.replace("A[bx * 128 + i] + 1", "T.nothing(A)"))
    code, out, _ = bench(capsys, "k.py", "broken.py", "--instance", "add(128)")
    assert code == 2 and "✓ add(128)" in out and "broken.py:13:35: TL101" in " ".join(out.split())


def test_without_anything_to_compare_with(folder: Path, capsys) -> None:
    (folder / "alone.py").write_text(KERNELS.split("\n\ndef reference")[0])
    code, out, _ = bench(capsys, "alone.py", "--json")
    assert code == 0 and all(r["ok"] and r["against"] is None and r["against_ms"] is None for r in json.loads(out))


@pytest.mark.parametrize(("arguments", "said"), [
    (("gone.py",), "no such file"), (("k.py::other",), "has no kernel 'other'; its kernels: add"), (("k.py", "--baseline", "k.py"), "is not what tile-lsp bench --json prints"),
    (("k.py", "--instance", "other(1)"), "does not reach a kernel"), (("k.py", "--repeat", "0"), "--repeat a number from 1"),
])
def test_what_cannot_be_measured(capsys, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = bench(capsys, *arguments)
    assert (code, out) == (2, "") and said in err and len(err.splitlines()) == 1
