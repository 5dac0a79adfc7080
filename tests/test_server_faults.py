"""Whatever becomes of a worker, the disk or the cache: every request is answered, nothing is lost, the next run works."""
from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest
import pytest_lsp
from lsp_client import SERVER, Editor, begin, config
from lsp_kernels import MATMUL
from lsprotocol import types
from pytest_lsp import LanguageClient

HERE = Path(__file__).parent
SMALL = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def double(N):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * 2.0

    return kernel


double(1024)
'''
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of Unix")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    pytest.importorskip("tvm", reason="running on the CPU needs the extra compile")
    pytest.importorskip("torch", reason="running needs the extra run")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path / "cache"))


@pytest_lsp.fixture(config=config([sys.executable, str(HERE / "faulty_workers_server.py")]))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


async def run(editor: Editor, timeout: float = 120.0) -> dict:
    return await asyncio.wait_for(editor.click("▶ Run"), timeout)


@pytest.mark.asyncio
async def test_the_run_worker_goes_wrong_at_every_stage(client, tmp_path):
    await begin(client, tmp_path, loweredInHover=False)
    editor = Editor(client, tmp_path / "a.py", SMALL + "# nothing\n")
    assert (await run(editor))["ok"] is True
    last = "# nothing"
    for fault, stage, said in (("hang", "running", "longer than 5 s"), ("segfault", "lowering", "SIGSEGV"), ("killed", "compiling", "SIGKILL"),
                               ("killed", "comparing", "SIGKILL"), ("segfault", "measuring", "SIGSEGV")):
        seconds = 5 if fault == "hang" else 100  # a process that is there already needs no time to start
        client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings={"tile-lsp": {"runTimeout": seconds}}))
        editor.replace(last, f"# {fault} while {stage}")
        last = f"# {fault} while {stage}"
        result = await run(editor)
        assert result["ok"] is False and said in result["error"], (fault, stage, result)
        (found,) = await editor.diagnostics(lambda d, said=said: len(d) == 1 and said in d[0].message)
        assert found.source == "tile-lsp run" and found.range.start.line == editor.position("double(N").line
        assert "double" in await editor.hover("double(N", 2), "the server answers on"
    editor.replace(last, "# nothing")
    assert (await run(editor))["ok"] is True


@pytest.mark.asyncio
async def test_the_compile_worker_goes_wrong(client, tmp_path):
    await begin(client, tmp_path, virtualDocuments=True)
    editor = Editor(client, tmp_path / "a.py", MATMUL + "# segfault while lowering\n")
    reply = await asyncio.wait_for(editor.click("CUDA"), 60)
    assert "SIGSEGV" in reply["error"]
    assert "SIGSEGV" in await editor.hover("T.gemm", 3)
    editor.replace("# segfault while lowering", "# hang while lowering")
    begun = time.monotonic()
    slow = asyncio.ensure_future(editor.click("CUDA"))
    await asyncio.sleep(0.2)
    assert [lens.command.title for lens in await asyncio.wait_for(editor.lenses(), 2)][:1] == ["▶ Run"], "other requests do not wait for it"
    assert "longer than 8 s" in (await asyncio.wait_for(slow, 60))["error"] and time.monotonic() - begun < 30
    editor.replace("# hang while lowering", "# sound")
    assert "__global__" in (await asyncio.wait_for(editor.click("CUDA"), 60))["text"]


@pytest.mark.asyncio
@pytest.mark.parametrize(("fault", "said"), [("segfault", "SIGSEGV"), ("killed", "SIGKILL"), ("hang", "longer than 8 s")])
async def test_the_toolkit_worker_goes_wrong(client, tmp_path, fault, said):
    """What needs nvcc is a process of its own: CUDA is shown while it hangs, and after it died."""
    await begin(client, tmp_path, loweredInHover=False)
    editor = Editor(client, tmp_path / "a.py", MATMUL)
    await editor.diagnostics()

    async def shown(stage: str) -> dict:
        return await asyncio.wait_for(client.workspace_execute_command_async(types.ExecuteCommandParams(
            command="tile-lsp.showLowered", arguments=[{"uri": editor.uri, "kernel": "matmul", "stage": stage}])), 60)

    editor.replace("kernel = ", f"# {fault} while lowering\nkernel = ")
    assert said in (await shown("ptx"))["error"]
    editor.replace(f"# {fault} while lowering\n", "")
    assert "__global__" in (await shown("cuda"))["text"]
    after = await shown("ptx")
    assert ".entry" in after["text"] or "CUDA toolkit" in (after.get("error") or "") or "nvcc" in (after.get("error") or ""), after


@pytest.mark.asyncio
@pytest.mark.parametrize("loop", ["            while True:\n                x = 1\n", "            for _ in range(10 ** 9):\n                T.clear(C_local)\n"], ids=["while", "range"])
async def test_kernels_whose_own_python_never_ends(client, tmp_path, loop):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("            T.clear(C_local)\n", loop))
    await editor.diagnostics()
    sound = Editor(client, tmp_path / "b.py", MATMUL)
    assert (await asyncio.wait_for(sound.lenses(), 60))[0].command.title == "▶ Run"


@pytest_lsp.fixture(config=config(SERVER))
async def real(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


def bare(command: list[str], cache: Path) -> pytest_lsp.ClientServerConfig:
    made = config(command)
    made.server_env = {**os.environ, "TILE_LSP_CACHE_DIR": str(cache), "TILELANG_CACHE_DIR": str(cache)}
    return made


async def session(command: list[str], cache: Path, folder: Path, name: str = "a.py") -> dict:
    """Start a server, run a kernel, show its CUDA, ask for its results, leave."""
    client = await bare(command, cache).start()
    try:
        await begin(client, folder)
        editor = Editor(client, folder / name, SMALL)
        result = await run(editor)
        shown = await editor.click("CUDA")
        kept = await client.protocol.send_request_async("tile-lsp/results", {"uri": editor.uri})
        return {"run": result, "shown": shown, "results": len(kept)}
    finally:
        await client.shutdown_session()
        await client.stop()


@pytest.mark.asyncio
async def test_a_full_disk(tmp_path):
    """Files cannot grow beyond nothing: what an exhausted disk or quota looks like."""
    found = await session(["bash", "-c", 'ulimit -f 0; exec "$@"', "_", *SERVER], tmp_path / "cache", tmp_path)
    assert found["run"]["ok"] is True and found["results"] == 1, "what cannot be written is kept in memory"
    assert "__global__" in found["shown"]["text"]
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.stat().st_size], "no halves of files"


@pytest.mark.asyncio
async def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    found = await session(SERVER, tmp_path / "file" / "cache", tmp_path)
    assert found["run"]["ok"] is True and found["results"] == 1 and "__global__" in found["shown"]["text"]


@pytest.mark.asyncio
async def test_damaged_caches_and_two_servers_on_one(tmp_path):
    cache = tmp_path / "cache"
    both = await asyncio.gather(session(SERVER, cache, tmp_path), session(SERVER, cache, tmp_path))
    assert all(f["run"]["ok"] is True for f in both)
    (history,) = (cache / "runs").glob("*.json")
    assert sum(len(runs) for runs in json.loads(history.read_text())["runs"].values()) == 2, "nothing is lost when two write"
    damaged = [p for p in cache.rglob("*") if p.is_file()]
    for number, file in enumerate(damaged):
        os.chmod(file, 0o644)
        file.write_bytes([b"", b"\0garbage", b"{\"version\": 1", file.read_bytes()[: file.stat().st_size // 2]][number % 4])
    again = await session(SERVER, cache, tmp_path)
    assert damaged and again["run"]["ok"] is True and again["results"] >= 1 and "__global__" in again["shown"]["text"]
