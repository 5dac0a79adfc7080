"""A language client of plain JSON over asyncio: it takes no time of its own that an editor would not take."""
from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any


class Wire:
    """``heard``: called with (method, params) of every notification. What the server asks for is answered with nothing."""

    def __init__(self, heard: Callable[[str, Any], None]):
        self._heard = heard
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    async def start(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26, env=env)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> asyncio.Future[Any]:
        self._number += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        self._send({"id": self._number, "method": method, "params": params})
        return future

    async def stop(self) -> None:
        await self.request("shutdown", None)
        self.notify("exit", None)
        await self.process.wait()
        self._reading.cancel()

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while True:
            length = 0
            while (line := await out.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                return
            self._take(json.loads(await out.readexactly(length)))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:
            self._send({"id": message["id"], "result": None})
        elif "method" in message:
            self._heard(message["method"], message.get("params"))
        else:
            future = self._waiting.pop(message["id"], None)
            if future is not None and not future.done():
                if "error" in message:
                    future.set_exception(RuntimeError(message["error"]["message"]))
                else:
                    future.set_result(message.get("result"))
