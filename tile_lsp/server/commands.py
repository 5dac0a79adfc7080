"""workspace/executeCommand and the request for the text of a lowered document."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from ..ide import runs
from ..ide.lenses import CHOOSE_INSTANCE, RUN, SHOW_LOWERED, SHOW_RESULT
from ..ide.snapshot import Snapshot
from . import lowered_uri, running
from .app import TileServer
from .guard import guarded
from .lowered_files import write_readonly

LOWERED_REQUEST = "tile-lsp/lowered"


@dataclass(frozen=True)
class KernelArguments:
    """The argument of every command about a kernel; what is left out is found from the document."""

    uri: str
    kernel: str = ""
    instance: str = ""
    target: str = ""
    stage: str = "cuda"
    line: int = 0
    text: str = ""


def read_arguments(args: tuple[Any, ...]) -> KernelArguments:
    """Raises ValueError with what is expected."""
    value = args[0] if args else None
    get = value.get if isinstance(value, dict) else lambda name: getattr(value, name, None)
    if isinstance(value, str):
        return KernelArguments(value)
    if value is None or not isinstance(get("uri"), str):
        raise ValueError('expected {"uri": ..., "kernel": ...}')
    texts = {name: str(get(name) or "") for name in ("uri", "kernel", "instance", "target", "text")}
    line = get("line")
    return KernelArguments(**texts, stage=str(get("stage") or "cuda"), line=line if isinstance(line, int) else 0)


def register(server: TileServer) -> None:
    @server.command(RUN)
    @guarded()
    async def run(*args):
        found = await _kernel(server, args)
        if found is None:
            return None
        arguments, snapshot, kernel, instance = found
        return await running.run(server, arguments.uri, snapshot, kernel.qualname, instance.text, arguments.target)

    @server.command(SHOW_LOWERED)
    @guarded()
    async def show_lowered(*args):
        found = await _kernel(server, args)
        if found is None:
            return None
        arguments, snapshot, kernel, instance = found
        return await _show(server, arguments, snapshot, kernel.qualname, instance.text)

    @server.command(SHOW_RESULT)
    @guarded()
    async def show_result(*args):
        arguments = read_arguments(args)
        result = server.session(arguments.uri).results.get(arguments.kernel)
        if result is None:
            server.say(f"{arguments.kernel or 'the kernel'} has not been run yet.")
            return None
        server.say(runs.details(result.data))
        return result.data

    @server.command(CHOOSE_INSTANCE)
    @guarded()
    async def choose_instance(*args):
        found = await _kernel(server, args)
        if found is None:
            return None
        arguments, snapshot, kernel, instance = found
        texts = [i.text for i in kernel.instances]
        chosen = arguments.text if arguments.text in texts else texts[(texts.index(instance.text) + 1) % len(texts)]
        server.session(arguments.uri).chosen[kernel.qualname] = chosen
        server.refresh_lenses()
        return {"instance": chosen, "instances": texts}

    @server.feature(LOWERED_REQUEST)
    @guarded(empty={"text": "", "error": "the server could not answer; see its log"})
    async def lowered(params):
        try:
            address = lowered_uri.parse(str(params.uri if hasattr(params, "uri") else params["uri"]))
        except ValueError as error:
            return {"text": "", "error": str(error)}
        snapshot = server.snapshot(address.uri)
        view = await server.compiler.lower(snapshot, address.kernel, address.instance, address.target, address.stage)
        return {"text": view.text, "error": view.error or None, "lines": [list(t) for t in view.lines], "facts": view.facts}


async def _kernel(server: TileServer, args: tuple[Any, ...]) -> tuple[KernelArguments, Snapshot, Any, Any] | None:
    """The kernel and instance a command is about; tells the user when there is none."""
    try:
        arguments = read_arguments(args)
    except ValueError as error:
        server.say(f"tile-lsp: the command's arguments are not understood: {error}", types.MessageType.Error)
        return None
    snapshot = server.snapshot(arguments.uri)
    kernels = await server.ask(lambda: snapshot.kernels)
    kernel = snapshot.kernel_named(arguments.kernel) or (snapshot.kernel_at(arguments.line) if arguments.line else None)
    if kernel is None and not arguments.kernel and len(kernels) == 1:
        kernel = kernels[0]
    instance = snapshot.instance(kernel, arguments.instance) if kernel is not None else None
    if kernel is None or instance is None:
        wanted = f"no kernel named {arguments.kernel!r}" if arguments.kernel else "no kernel there"
        names = ", ".join(k.qualname for k in kernels) or "none"
        server.say(f"{snapshot.document.path}: {wanted}. Kernels of this file: {names}.", types.MessageType.Error)
        return None
    return arguments, snapshot, kernel, instance


async def _show(server: TileServer, arguments: KernelArguments, snapshot: Snapshot, kernel: str, instance: str) -> dict[str, Any] | None:
    """Lower a kernel and have the client show the text beside the source."""
    view = await server.compiler.lower(snapshot, kernel, instance, arguments.target, arguments.stage)
    if view.error:
        server.say(f"{kernel} could not be lowered to {arguments.stage} for {view.target}: {view.error}", types.MessageType.Error)
        return {"error": view.error}
    line = next((start for start, end, source in view.lines if source == arguments.line), 1)
    if server.virtual_documents:
        address = lowered_uri.LoweredAddress(arguments.uri, kernel, instance, view.target, arguments.stage)
        return {"uri": address.to_uri(view.file_name), "title": view.title, "line": line, "text": view.text}
    path = write_readonly(view)
    uri = path.as_uri()
    capabilities = server.client_capabilities.window
    if capabilities is not None and capabilities.show_document is not None and capabilities.show_document.support:
        place = types.Position(line=line - 1, character=0)
        await server.window_show_document_async(types.ShowDocumentParams(uri=uri, take_focus=True, selection=types.Range(start=place, end=place)))
    else:
        server.say(f"the {arguments.stage} code of {kernel} is in {path}")
    return {"uri": uri, "title": view.title, "line": line, "text": view.text}
