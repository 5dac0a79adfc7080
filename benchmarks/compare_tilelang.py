"""Compare a kernel with the user's own TileLang through a real language server, as `Compare` in an editor does.

    python benchmarks/compare_tilelang.py PYTHON_WITH_TILELANG [--target cuda] [--json FILE]

On a machine with a GPU the GEMM of ``run_latency.py`` is compiled by both; without one a kernel that TileLang compiles for the CPU
(``target="c"``) is, and the GEMM must fail with a clear word.
"""
from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from run_latency import GEMM, Document, start

ON_THE_CPU = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1], target="c")
def scale(M, N, factor=2.0, block=32):
    @T.prim_func
    def kernel(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block)) as (bx, by):
            tile = T.alloc_local((block, block), "float32")
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.grid(block, block):
                tile[i, j] = tile[i, j] * factor
            T.copy(tile, B[by * block, bx * block])

    return kernel


scale(128, 128)
'''


def compare(folder: Path, name: str, text: str, interpreter: str, target: str) -> dict[str, Any]:
    client = start(folder, folder / "cache", target, 300, interpreter=interpreter)
    try:
        document = Document(client, folder / name, text)
        begun = time.perf_counter()
        answer = client.request("workspace/executeCommand", {"command": "tile-lsp.compare", "arguments": [{"uri": document.uri, "against": "tilelang"}]}) or {}
    finally:
        client.close()
    row: dict[str, Any] = next(iter(answer.get("results") or ()), {})
    names = ("kernel", "target", "device", "ok", "against", "max_abs_err", "latency_ms", "error")
    found: dict[str, Any] = {**{n: row.get(n) for n in names}, "seconds": time.perf_counter() - begun}
    print(f"{found['kernel']} on {found['device'] or target}: {'equal to' if found['ok'] else 'NOT equal to'} {found['against']}, max error {found['max_abs_err']}, "
          f"ours {(found['latency_ms'] or {}).get('median')} ms, {found['seconds']:.1f} s\n    {found['error'] or ''}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("interpreter")
    parser.add_argument("--target", default="")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        on_gpu = args.target not in ("", "cpu")
        rows = [compare(folder, "gemm.py", GEMM, args.interpreter, args.target or "cpu")]
        if not on_gpu:
            rows.append(compare(folder, "scale.py", ON_THE_CPU, args.interpreter, "cpu"))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    clear = on_gpu or "finds no GPU here" in str(rows[0]["error"])
    return 0 if rows[-1]["ok"] and clear else 1


if __name__ == "__main__":
    sys.exit(main())
