"""The hover of a kernel's name: launch, roles of the warps, memory, registers, links to whole documents."""
from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import pytest_lsp
from lsp_client import SERVER, Editor, begin, config
from pytest_lsp import LanguageClient
from tilec.build.nvcc import can_compile
from tilec.target import chips

from tile_lsp.ide.document import Document
from tile_lsp.ide.environment import for_document
from tile_lsp.ide.hover import facts_markdown
from tile_lsp.ide.lowering import answer, compile_checked, find_program
from tile_lsp.ide.preferences import Preferences
from tile_lsp.ide.snapshot import Snapshot
from tile_lsp.ide.thread_roles import roles_markdown, thread_roles
from tile_lsp.server.compiler import Compiler
from tile_lsp.server.compiler import facts as facts_of_document

PIPELINED = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, threads=128):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((K, N), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((128, 64), "bfloat16")
            B_shared = T.alloc_shared((64, 128), "bfloat16")
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 128, k * 64], A_shared)
                T.copy(B[k * 64, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 128, bx * 128])

    return gemm


matmul(1024, 1024, 1024)
'''
GROUPS = '''import tilelang.language as T


@T.prim_func
def groups(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16")):
    with T.Kernel(2, threads=256) as bx:
        S = T.alloc_shared((128, 256), "float16")
        with T.ws(0):
            T.copy(A[bx * 128, 0], S)
        T.sync_threads()
        with T.ws(1):
            T.copy(S, B[bx * 128, 0])
'''
STAGED = '''import tilelang.language as T


@T.prim_func
def tensor_memory(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((128, 128), "float16")):
    with T.Kernel(1, threads=128) as bx:
        A_shared = T.alloc_shared((128, 64), "float16")
        B_shared = T.alloc_shared((64, 128), "float16")
        accumulator = T.alloc_tmem((128, 128), "float32")
        bar = T.alloc_barrier(1)
        local = T.alloc_fragment((128, 128), "float32")
        T.copy(A, A_shared)
        T.copy(B, B_shared)
        T.tcgen05_gemm(A_shared, B_shared, accumulator, mbar=bar, clear_accum=True)
        T.mbarrier_wait_parity(bar, 0)
        T.copy(accumulator, local)
        T.copy(local, C)
'''


def lowered(text: str, target: str):
    return compile_checked(find_program("kernel.py", text), chips.find(target))


def facts(text: str, target: str, stage: str = "cuda") -> str:
    reply = answer({"path": "kernel.py", "text": text, "target": target, "stage": stage})
    assert "error" not in reply, reply["error"]
    return facts_markdown(reply["facts"])


def test_a_specialised_kernel_has_producer_and_consumer_warps():
    assert [r[:3] for r in thread_roles(lowered(PIPELINED, "sm_90a").legalized)] == [[0, 127, "consumer"], [128, 255, "producer"]]
    shown = facts(PIPELINED, "sm_90a").split("\n")
    assert "- threads: **256**" in shown and "- grid: **8 × 8**" in shown and "- pipeline: **`k` in 4 stages (2 asked; shared memory allows 4)**" in shown
    consumer, producer = (next(line for line in shown if name in line) for name in ("**consumer**", "**producer**"))
    assert consumer.startswith("- warps 0–3 (threads 0–127)") and "matrix products into `C_local`" in consumer and "stores `C` by TMA" in consumer
    assert producer.startswith("- warps 4–7 (threads 128–255)") and "warp 4 copies `A_shared`, `B_shared` by TMA" in producer


@pytest.mark.parametrize(("target", "threads", "said"), [
    ("sm_80", 128, "`k` in 2 stages"),
    ("sm_80", 1024, "`k` in 3 stages (2 asked; shared memory allows 3)"),  # no more than two such blocks fit in any case
    ("sm_75", 128, "`k` runs serially (2 stages asked)"),
    ("sm_90a", 128, "`k` in 4 stages (2 asked; shared memory allows 4)")])
def test_pipelines_have_the_stages_of_the_compiled_kernel(target, threads, said):
    """What the hover and --explain say is what the shared tiles have room for."""
    text = PIPELINED.replace("threads=128)", f"threads={threads})").replace("128, 64", "128, 32").replace("64, 128", "32, 128").replace("64", "32")
    assert f"- pipeline: **{said}**" in facts(text, target).split("\n")
    artifact = lowered(text, target)
    count = int(re.findall(r"in (\d) stages", said)[0]) if " in " in said else 1
    sizes = {b.name: b.size_bytes() for b in artifact.thread_program.buffers() if b.is_shared()}
    assert (sizes["A_shared"], sizes["B_shared"]) == (count * 128 * 32 * 2, count * 32 * 128 * 2)
    explained = [d.text() for d in artifact.decisions() if d.what == "pipelined loop"]
    assert [f"{count} stages" in text and ("2 asked for" in text) == ("allows" in said) for text in explained] == [True] * (count > 1)


def test_two_computing_warpgroups_are_one_consumer():
    found = thread_roles(lowered(PIPELINED.replace("threads=128)", "threads=256)"), "sm_90a").legalized)
    assert [r[:3] for r in found] == [[0, 255, "consumer"], [256, 383, "producer"]]


def test_groups_that_the_kernel_makes_itself():
    assert roles_markdown(thread_roles(lowered(GROUPS, "sm_90a").legalized)) == (
        "- warps 0–3 (threads 0–127): **group** · writes `S`\n- warps 4–7 (threads 128–255): **group** · writes `B`")


def test_without_roles_every_warp_does_the_same():
    assert "every warp does the same" in facts(PIPELINED, "sm_80")


def test_tensor_memory_and_shared_memory_by_buffer():
    shown = facts(STAGED, "sm_100a")
    assert "TMEM columns: **128**" in shown and "`A_shared` 16,384" in shown and "`B_shared` 16,384" in shown


def test_memory_that_is_used_twice_is_said_to_be():
    shown = facts(PIPELINED, "sm_90a")
    assert "dynamic shared memory: **131,136 bytes**" in shown and "some in the same place" in shown


@pytest.mark.skipif(not can_compile(chips.find("sm_90a")), reason="needs NVRTC or nvcc")
def test_registers_and_spills_once_compiled():
    assert re.search(r"registers a thread: \*\*\d+\*\*, \*\*no spills\*\*", facts(PIPELINED, "sm_90a", "resources"))
    assert "registers a thread:" not in facts(PIPELINED, "sm_90a").replace("registers a thread, ", "")


@pytest_lsp.fixture(config=config(SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio
async def test_links_are_files_where_the_client_cannot_show_documents(client, tmp_path):
    await begin(client, tmp_path, target="sm_90a")
    editor = Editor(client, tmp_path / "kernel.py", PIPELINED)
    shown = await editor.hover("matmul(M", 1)
    assert "**producer**" in shown
    links = dict(re.findall(r"\[([^]]+)\]\((file:[^)]+)\)", shown))
    assert set(links) == {"CUDA", "tile program", "IR"}
    assert "__global__" in Path(unquote(urlparse(links["CUDA"]).path)).read_text(encoding="utf-8")


class Counting:
    """A compiler that counts what it is asked."""

    def __init__(self):
        self.asked = []

    async def request(self, request, timeout, report=None):
        self.asked.append(request["kernel"])
        return answer(request)

    def close(self):
        pass


@pytest.mark.asyncio
async def test_lowered_code_is_kept_while_other_parts_of_the_file_change():
    backend = Counting()
    compiler = Compiler(backend)
    preferences = Preferences(tilelang_version="0.1.15", target="sm_90a")

    async def shown(text):
        document = Document("kernel.py", text)
        snapshot = Snapshot(document, preferences, for_document(document.path, preferences))
        view = await compiler.lower(snapshot, "matmul", "matmul(1024, 1024, 1024)", "", "cuda")
        return snapshot, view

    text = PIPELINED + "marker = 1\n"
    _, first = await shown(text)
    snapshot, second = await shown(text.replace("marker = 1", "marker = 2"))
    assert second is first and backend.asked == ["matmul"]
    assert facts_of_document(snapshot, compiler.known())["matmul"]["threads"] == [256, 1, 1]
    snapshot, third = await shown(text.replace("num_stages=2", "num_stages=3"))
    assert third.text != first.text and len(backend.asked) == 2
    snapshot, moved = await shown(text.replace("@tilelang.jit", "# one more line\n\n@tilelang.jit"))
    assert moved.lines != first.lines and len(backend.asked) == 3, "its lines are others now"
