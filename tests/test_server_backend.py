"""The processes behind the server: they answer, die, hang, and are replaced."""
from __future__ import annotations

import asyncio
import os
import signal

import pytest
import pytest_asyncio
from lsp_kernels import FAULTY, MATMUL

from tile_lsp.workers.process import Child

LOWER = {"kind": "lower", "path": "matmul.py", "text": MATMUL, "kernel": "matmul", "instance": "matmul(128, 128, 128)", "target": "cpu", "stage": "thread"}


@pytest_asyncio.fixture
async def child():
    made = Child()
    yield made
    await made.end()


async def ask(child: Child, request=LOWER, timeout: float = 60.0):
    return await child.request(request, timeout, None)


@pytest.mark.asyncio
async def test_lowering_answers_with_text_and_lines(child):
    reply = await ask(child)
    assert "def gemm" in reply["text"] and reply["facts"]["grid"]
    line = MATMUL[:MATMUL.index("T.clear")].count("\n") + 1
    (first, last, _), *_ = [r for r in reply["lines"] if r[2] == line]
    assert "C_local" in "\n".join(reply["text"].split("\n")[first - 1:last])


@pytest.mark.asyncio
async def test_a_faulty_kernel_is_refused_with_its_diagnostic(child):
    reply = await ask(child, {**LOWER, "text": FAULTY, "kernel": "scale", "instance": ""})
    assert "TL101" in reply["error"] and "Traceback" not in reply["error"]


@pytest.mark.asyncio
async def test_a_killed_process_is_replaced(child):
    await ask(child, {"kind": "warm"})
    running = asyncio.ensure_future(ask(child, {"kind": "lower"} | LOWER))
    await asyncio.sleep(0)
    os.kill(child._process.pid, signal.SIGSEGV)
    reply = await running
    assert "error" not in reply or "SIGSEGV" in reply["error"]
    assert "def gemm" in (await ask(child))["text"]


@pytest.mark.asyncio
async def test_a_hanging_process_is_ended(child):
    await ask(child, {"kind": "warm"})
    pid = child._process.pid
    os.kill(pid, signal.SIGSTOP)
    reply = await ask(child, timeout=0.5)
    assert "longer than" in reply["error"]
    assert "def gemm" in (await ask(child))["text"]
    assert child._process.pid != pid


@pytest.mark.asyncio
async def test_a_cancelled_request_ends_the_process(child):
    await ask(child, {"kind": "warm"})
    os.kill(child._process.pid, signal.SIGSTOP)
    running = asyncio.ensure_future(ask(child))
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "def gemm" in (await ask(child))["text"]
