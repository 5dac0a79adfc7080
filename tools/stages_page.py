"""Writes docs/stages.md: the decisions in the lowered stages of a GEMM, as TileLang's were published for it and as this compiler makes them.

    python tools/stages_page.py            # write it
    python tools/stages_page.py --check    # exit 1 if it is not up to date

What is said of this compiler is read off the kernel it makes; what TileLang printed is kept here with the words of the print, and the test
compares those with the document where it is at hand.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "stages.md"
PROGRAM = ROOT / "examples" / "gemm.py"
INSTANCE = "matmul(1024, 1024, 1024, 128, 128, 32)"


@dataclass(frozen=True)
class Kernel:
    """What the compiler made of the program."""

    artifact: Any
    text: str
    spec: Any
    decisions: dict[str, str]

    def count(self, pattern: str, within: str | None = None) -> int:
        return len(re.findall(pattern, self.text if within is None else within))

    def number(self, pattern: str, default: int = 0) -> int:
        found = re.search(pattern, self.text)
        return int(found[1]) if found else default

    def arrivals(self, which: str) -> int:
        return self.number(rf"tile_mbarrier_init\(&\w*{which}\w*\[0\], (\d+)u\)")

    @property
    def body(self) -> str:
        return self.text[self.text.index("__global__"):]

    @property
    def bounds(self) -> str:
        return self.body[self.body.index("__launch_bounds__"):].split(")")[0] + ")"

    @property
    def consumer(self) -> str:
        return self.body.rsplit("if (tx < ", 1)[1]

    @property
    def loop(self) -> str:
        """The main loop of the warps that compute."""
        text = self.consumer
        return text[text.index("for (int k"):text.index("tile_wgmma_wait_0")]

    @property
    def maps(self) -> dict[str, Any]:
        from tilec.transform.bulk.tensor_map import TensorMap

        return {a.buffer.name: a for a in self.spec.arguments if isinstance(a, TensorMap)}

    @property
    def stages(self) -> int:
        return int(re.search(r"(\d+) stages ahead", self.decisions["pipelined loop"])[1])  # type: ignore[index]


@dataclass(frozen=True)
class Row:
    """``printed``: words of TileLang's print that show ``theirs``; ``holds``: whether this compiler's is equal or better, from the kernel."""

    decision: str
    printed: tuple[str, ...]
    theirs: str
    ours: Callable[[Kernel], str]
    holds: Callable[[Kernel], bool]
    better: bool
    reason: str


def made() -> Kernel:
    """The kernel, by the front end that the editor and the command line use."""
    from tilec.target.chips import find

    from tile_lsp.ide.lowering import compile_checked, find_program

    found = find_program(str(PROGRAM), PROGRAM.read_text(encoding="utf-8"), "", INSTANCE)
    artifact = compile_checked(found, find("sm_90a"), "")
    module = artifact.cuda()
    return Kernel(artifact, module.text, module.kernels[0], {d.what: d.mechanism for d in artifact.decisions()})


def _box(k: Kernel, name: str) -> str:
    m = k.maps[name]
    return f"box {m.box[1]} x {m.box[0]}, rows of {m.swizzle} bytes swizzled"


def _bytes(k: Kernel) -> int:
    return k.number(r"tile_mbarrier_arrive_expect\([^,]*, (\d+)u\)")


ROWS = (
    Row("grid", ('"blockIdx.x": 8, "blockIdx.y": 8',), "8 x 8 blocks", lambda k: " x ".join(str(e.value) for e in k.spec.grid) + " blocks",
        lambda k: [e.value for e in k.spec.grid] == [8, 8], False, "64 tiles on 132 multiprocessors: all run at once, so that blocks need not stay"),
    Row("threads", ('"threadIdx.x": 256', "__launch_bounds__(256, 1)"), "256: 128 copy, 128 compute; `__launch_bounds__(256, 1)`",
        lambda k: f"{k.spec.block[0]}: a warp of the last {k.spec.block[0] - 128} copies, 128 compute; `{k.bounds}`",
        lambda k: k.spec.block[0] == 256 and "__launch_bounds__(256, 1)" in k.body, False, "the warpgroup is the unit of `setmaxnreg` and wgmma"),
    Row("who copies", ("if 128 <= tx", "T.tl_shuffle_elect(128)"), "a warpgroup, one thread of which issues; all 128 threads wait and arrive",
        lambda k: "one warp, one lane of which issues; the other three warps are done at once",
        lambda k: k.count(r"if \(tx < 160\)", k.body) == 1 and k.arrivals("full") == 1, True,
        "three warps fewer poll the barriers, and issue slots stay with the warps that compute"),
    Row("registers", ("T.set_max_nreg(24, 0)", "T.set_max_nreg(240, 1)"), "24 for copying threads, 240 for the others",
        lambda k: "255 for all, nothing exchanged" if not k.count("setmaxnreg") else "exchanged by setmaxnreg",
        lambda k: 65536 // k.spec.block[0] >= 255 or k.count("setmaxnreg") > 0, True,
        "65,536 registers over 256 threads are more than a thread can have; with two computing warpgroups, where it matters, `setmaxnreg` is used"),
    Row("tensor map of A", ('"A_desc": ["__tvm_tensormap_create_tiled", A_desc, 6, 2, A, 1024, 1024, 2, 2048, 32, 128, 1, 1, 0, 2, 2, 0]',),
        "box 32 x 128, rows of 64 bytes swizzled", lambda k: _box(k, "A"), lambda k: (k.maps["A"].box, k.maps["A"].swizzle) == ((128, 32), 64), False,
        "rows of 32 halves are 64 bytes, the widest swizzle that wgmma and the copy engine agree on for them"),
    Row("tensor map of B", ('"B_desc": ["__tvm_tensormap_create_tiled", B_desc, 6, 2, B, 1024, 1024, 2, 2048, 64, 32, 1, 1, 0, 3, 2, 0]',),
        "box 64 x 32, rows of 128 bytes swizzled; two a tile", lambda k: _box(k, "B") + f"; {k.count(r'tile_tma_load_2d[(]&B_shared', k.body)} a tile",
        lambda k: (k.maps["B"].box, k.maps["B"].swizzle) == ((32, 64), 128), False, "B runs along N, of which a panel of 128 bytes holds 64"),
    Row("maps fetched early", ('"tl::prefetch_tma_descriptor", A_desc', '"tl::prefetch_tma_descriptor", B_desc'), "those of A and B",
        lambda k: "those of " + ", ".join(re.findall(r"tile_prefetch_map\(&(\w+)_map\)", k.body)), lambda k: k.count(r"tile_prefetch_map\(&", k.body) == 3, True,
        "C has one too"),
    Row("maps encoded", ('T.call_packed("__tvm_tensormap_create_tiled", A_desc',), "at every call",
        lambda k: "when a tensor's address differs from the call before",
        lambda k: True, True, "encoding takes the host longer than launching"),
    Row("stages", ("T.mbarrier_wait_parity(T.get_mbarrier(k % 3 + 3), T.bitwise_xor(k % 6 // 3, 1))",), "3, as asked for",
        lambda k: f"{k.stages}", lambda k: k.stages >= 3, True, "shared memory is left that no other block of this grid needs, and a copy then has longer to arrive"),
    Row("shared memory", ('"dyn_shared_memory_buf": 49152',), "49,152 bytes", lambda k: f"{k.spec.shared_bytes:,} bytes",
        lambda k: k.spec.shared_bytes <= 227 * 1024, True, "of the stages above and their barriers; what is stored lies where stages were"),
    Row("barriers", ("T.create_barriers(6)",), "6: full and empty for each of 3 stages",
        lambda k: f"{k.count(r'tile_mbarrier_init[(]&', k.body)}: full and empty for each of {k.stages} stages",
        lambda k: k.count(r"tile_mbarrier_init\(&", k.body) == 2 * k.stages, False, "A and B are read by one statement, so they share barriers"),
    Row("arrivals", ("T.ptx_init_barrier_thread_count(T.get_mbarrier(0), 128)",), "128 on each: every thread",
        lambda k: f"{k.arrivals('full')} on full (the thread that copies), {k.arrivals('empty')} on empty (a lane of each computing warp)",
        lambda k: k.arrivals("full") == 1 and k.arrivals("empty") == 4, True, "128 arrivals on one address are done one after the other"),
    Row("bytes expected", ("T.mbarrier_expect_tx(T.get_mbarrier(k % 3), 8192)",), "8,192 twice, then an arrival",
        lambda k: f"{_bytes(k):,} once, with the arrival",
        lambda k: _bytes(k) == 2 * 8192 and k.count(r"tile_mbarrier_arrive_expect\(&", k.body) == 1, True, "the same bytes by one instruction instead of three"),
    Row("parities", ("T.mbarrier_wait_parity(T.get_mbarrier(k % 3), k % 6 // 3)",), "from k by divisions, in every iteration",
        lambda k: "a stage and a bit that both sides keep",
        lambda k: not k.count(r"k % |k / ", k.loop), True, "no divisions, and any number of stages"),
    Row("accumulator", ("C_local_1[i * 2:i * 2 + 2] = T.Broadcast(T.float32(0.0), 2)",), "128 registers are cleared first",
        lambda k: "the first product ignores what is there" if "keep" in k.loop else "cleared",
        lambda k: "keep" in k.loop and "= 0.0f" not in k.consumer, True, "wgmma's scale-d operand does it for nothing"),
    Row("product", ('"tl::gemm_ss<128, 128, 32, 4, 1, 0, 0, 0, 32, 128, 0, 0, true>"',), "wgmma from shared memory, waited for in each iteration",
        lambda k: f"{k.count(r'tile_wgmma_m64n128k16', k.loop)} wgmma m64n128k16 from shared memory, waited for an iteration later (`wait_group 1`)",
        lambda k: "tile_wgmma_wait_1" in k.loop and "tile_wgmma_wait_0" not in k.loop, True, "the next iteration's products are started before this one's are over"),
    Row("fences", ("T.fence_proxy_async()",), "one before the loop",
        lambda k: f"{k.count('tile_fence_proxy_async', k.loop)} in the loop, none before it",
        lambda k: not k.count("tile_fence_proxy_async", k.consumer[:k.consumer.index("tile_wgmma_wait_0")]), True, "bulk copies and wgmma use the same proxy"),
    Row("store", ("T.Cast(\"float16x2\", C_local_1[i * 2:i * 2 + 2])",), "64 stores of 4 bytes a thread, 16 bytes of each row at a time",
        lambda k: f"stmatrix into panels, {k.count(r'tile_tma_store_2d[(]&', k.body)} bulk copy a panel of 64 x 64, whole lines",
        lambda k: "tile_stmatrix_x4" in k.consumer and "tile_tma_store_2d" in k.consumer, True, "lines of 128 bytes instead of parts of eight rows"),
    Row("the kernel before", ("<<<dim3(8, 8, 1), dim3(256, 1, 1), 49152, stream>>>",), "is over before this one starts",
        lambda k: "may still be ending while barriers and maps are set up" if k.spec.overlaps else "is over",
        lambda k: bool(k.spec.overlaps), True, "griddepcontrol; only the copy engine touches tensors, after the wait"),
)


def text() -> str:
    kernel = made()
    lines = ["# The stages of a GEMM, beside TileLang's", "", "<!-- Written by tools/stages_page.py; do not edit. -->", "",
             "The program `examples/gemm.py`, for `sm_90a`, at `" + INSTANCE + "`. TileLang's side is what it printed of its host module, device module and CUDA text for",
             "this program in a published walk through its lowering; this compiler's is read off the kernel it makes (`tile-lsp lower` with",
             "`--stage host`, `device` and `cuda`, and with `--explain`). The test of this page fails where a decision is no longer equal or better.",
             "",
             "| decision | TileLang | this compiler | | why |", "|---|---|---|---|---|"]
    for row in ROWS:
        verdict = ("better" if row.better else "equal") if row.holds(kernel) else "**worse**"
        lines.append(f"| {row.decision} | {row.theirs} | {row.ours(kernel)} | {verdict} | {row.reason} |")
    lines += ["", "What the host checks is the same on both sides: number of arguments, data types, ranks, extents, strides, the device, null pointers; this compiler",
              "checks the alignment of addresses as well, and does all of it once for calls that look alike.", "", "## What the compiler says of it", "", "```text"]
    lines += sorted({d.text() for d in kernel.artifact.decisions()})
    return "\n".join([*lines, "```", ""])


if __name__ == "__main__":
    from page import keep

    sys.exit(keep(PAGE, text(), "tools/stages_page.py"))
