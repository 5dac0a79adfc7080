"""workspace/executeCommand, and the requests of clients that draw more than the protocol has: lowered text, kernels, results."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsprotocol import types
from tilec.records import dataclass
from tilec.target import chips

from ..ide import history, runs
from ..ide.lenses import CHOOSE_INSTANCE, COMPARE, RUN, SHOW_LOWERED, SHOW_RESULT
from ..ide.lowered import STAGES
from ..ide.targets import lowering_target
from . import lowered_uri, running
from .app import TileServer, View
from .client import plain
from .guard import guarded
from .lowered_files import write_readonly

LOWERED_REQUEST, KERNELS_REQUEST, RESULTS_REQUEST, TARGETS_REQUEST = "tile-lsp/lowered", "tile-lsp/kernels", "tile-lsp/results", "tile-lsp/targets"
CLEAR_RESULTS = "tile-lsp.clearResults"


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
    against: str = ""


def read_arguments(args: tuple[Any, ...]) -> KernelArguments:
    """Raises ValueError with what is expected."""
    value = args[0] if args else None
    get = value.get if isinstance(value, dict) else lambda name: getattr(value, name, None)
    if isinstance(value, str):
        return KernelArguments(value)
    if value is None or not isinstance(get("uri"), str):
        raise ValueError('expected {"uri": ..., "kernel": ...}')
    texts = {name: str(get(name) or "") for name in ("uri", "kernel", "instance", "target", "text", "against")}
    line = get("line")
    return KernelArguments(**texts, stage=str(get("stage") or "cuda"), line=line if isinstance(line, int) else 0)


@dataclass(frozen=True)
class Chosen:
    """The kernel and instance that a command is about."""

    arguments: KernelArguments
    view: View
    kernel: Any
    instance: Any


def register(server: TileServer) -> None:
    def command(name: str, answer: Callable[[TileServer, Chosen], Any]) -> None:
        @server.command(name)
        @guarded()
        async def execute(*args):
            chosen = await _choose(server, args)
            return await answer(server, chosen) if chosen is not None else None

    command(RUN, _run)
    command(COMPARE, _compare)
    command(SHOW_LOWERED, _show)
    command(CHOOSE_INSTANCE, _choose_instance)
    _results(server)
    _requests(server)


async def _run(server: TileServer, chosen: Chosen) -> dict[str, Any] | None:
    a = chosen.arguments
    return await running.run(server, a.uri, chosen.view.snapshot, chosen.kernel.qualname, chosen.instance.text, a.target, a.against or "auto")


async def _compare(server: TileServer, chosen: Chosen) -> dict[str, Any] | None:
    a = chosen.arguments
    return await running.compare(server, a.uri, chosen.view.snapshot, chosen.kernel.qualname, chosen.instance.text, a.target, a.against)


async def _choose_instance(server: TileServer, chosen: Chosen) -> dict[str, Any]:
    """The instance of that text, or the next one."""
    texts = [i.text for i in chosen.kernel.instances]
    wanted = chosen.arguments.text
    if wanted and wanted not in texts:
        server.say(_no_instance(chosen.kernel, wanted), types.MessageType.Error)
        return {"instance": chosen.instance.text, "instances": texts}
    text = wanted if wanted in texts else texts[(texts.index(chosen.instance.text) + 1) % len(texts)]
    chosen.view.session.chosen[chosen.kernel.qualname] = text
    server.client.refresh()
    server.protocol.notify("tile-lsp/chosen", {"uri": chosen.arguments.uri, "kernel": chosen.kernel.qualname})
    return {"instance": text, "instances": texts}


def _results(server: TileServer) -> None:
    @server.command(SHOW_RESULT)
    @guarded()
    async def show_result(*args):
        arguments = read_arguments(args)
        known = server.session(arguments.uri).results
        result = known.get((arguments.kernel, arguments.instance)) or next((r for (k, _), r in reversed(known.items()) if k == arguments.kernel), None)
        if result is None:
            server.say(f"{arguments.kernel or 'the kernel'} has not been run yet.")
            return None
        server.say(runs.details(result.data))
        return result.data

    @server.command(CLEAR_RESULTS)
    @guarded()
    async def clear_results(*args):
        session = server.session(read_arguments(args).uri)
        session.results.clear()
        server.history.clear(session.document.path)
        server.client.refresh_lenses()
        server.schedule(session, 0.0)
        return True


def _requests(server: TileServer) -> None:
    @server.feature(LOWERED_REQUEST)
    @guarded(empty={"text": "", "error": "the server could not answer; see its log"})
    async def lowered(params):
        try:
            address = lowered_uri.parse(str(plain(params)["uri"]))
        except (ValueError, KeyError, TypeError) as error:
            return {"text": "", "error": str(error)}
        view = server.view(address.uri)
        instance = address.instance or await server.ask(_shown_instance, view, address.kernel)
        found = await server.compiler.lower(view.snapshot, address.kernel, instance, address.target, address.stage)
        lines = [[first, last, source - view.places.lines(address.uri)[0] + 1] for first, last, source in found.lines]
        return {"text": found.text, "error": found.error or None, "lines": lines, "facts": found.facts, "stages": list(STAGES)}

    @server.feature(KERNELS_REQUEST)
    @guarded(empty=[])
    async def kernels(params):
        view = server.view(str(plain(params)["uri"]))
        return await server.ask(_kernels, view)

    @server.feature(RESULTS_REQUEST)
    @guarded(empty=[])
    async def results(params):
        """All runs that are remembered of a file, the last one first, each with its change against the one before."""
        view = server.view(str(plain(params)["uri"]))
        return _with_changes(server.history.all(view.document.path))

    @server.feature(TARGETS_REQUEST)
    @guarded(empty=[])
    async def targets(params):
        return [{"name": t.name, "description": ", ".join(f for f in _FEATURES if getattr(t, f, None))} for t in chips.TARGETS.values() if t.kind == "cuda"]


_FEATURES = ("wgmma", "tma", "tcgen05", "clusters", "fp8")


def _kernels(view: View) -> list[dict[str, Any]]:
    """The kernels of a document: name, first and last line, instances, the one that is shown, the target it is lowered for."""
    found = []
    for kernel in view.snapshot.kernels:
        if not view.places.shows(view.uri, kernel.span):
            continue
        instance = view.snapshot.instance(kernel)
        program = view.snapshot.program(kernel, instance) if instance is not None else None
        place = view.places.range(kernel.span)
        found.append({"name": kernel.name, "kernel": kernel.qualname, "kind": kernel.kind, "first": place.start.line + 1, "last": place.end.line + 1,
                      "instance": instance.text if instance is not None else "", "instances": [i.text for i in kernel.instances],
                      "target": lowering_target(program, view.snapshot.preferences),
                      "tilelang": view.snapshot.environment.version, "tilelangFrom": view.snapshot.environment.how})
    return found


def _shown_instance(view: View, kernel: str) -> str:
    found = view.snapshot.kernel_named(kernel)
    instance = view.snapshot.instance(found) if found is not None else None
    return instance.text if instance is not None else ""


def _with_changes(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    found = []
    for entry in entries:
        key = (entry.get("kernel"), entry.get("instance"), entry.get("target"))
        found.append({**entry, "summary": runs.summary(entry), "change": history.change(last.get(key), entry)})
        if entry.get("latency_ms"):
            last[key] = entry
    return found[::-1]


async def _choose(server: TileServer, args: tuple[Any, ...]) -> Chosen | None:
    """The kernel and instance a command is about; tells the user when there is none."""
    try:
        arguments = read_arguments(args)
    except ValueError as error:
        server.say(f"tile-lsp: the command's arguments are not understood: {error}", types.MessageType.Error)
        return None
    view = server.view(arguments.uri)
    snapshot = view.snapshot
    kernels = await server.ask(lambda: snapshot.kernels)
    line = arguments.line + view.places.lines(arguments.uri)[0] - 1 if arguments.line else 0
    kernel = snapshot.kernel_named(arguments.kernel) or (snapshot.kernel_at(line) if line else None)
    if kernel is None and not arguments.kernel and len(kernels) == 1:
        kernel = kernels[0]
    instance = snapshot.instance(kernel, arguments.instance) if kernel is not None else None
    if kernel is None or instance is None:
        wanted = f"no kernel named {arguments.kernel!r}" if arguments.kernel else "no kernel there"
        names = ", ".join(k.qualname for k in kernels) or "none"
        server.say(f"{snapshot.document.path}: {wanted}. Kernels of this file: {names}.", types.MessageType.Error)
        return None
    if arguments.instance not in ("", instance.text) and len(kernel.instances) > 1:  # the text has changed, or somebody made it up
        server.say(_no_instance(kernel, arguments.instance), types.MessageType.Error)
        return None
    return Chosen(arguments, view, kernel, instance)


def _no_instance(kernel: Any, wanted: str) -> str:
    return f"{kernel.qualname} has no instance {wanted} any more. Its instances: {', '.join(i.text for i in kernel.instances)}."


async def _show(server: TileServer, chosen: Chosen) -> dict[str, Any] | None:
    """Lower a kernel and have the client show the text beside the source."""
    arguments, snapshot, kernel, instance = chosen.arguments, chosen.view.snapshot, chosen.kernel.qualname, chosen.instance.text
    view = await server.compiler.lower(snapshot, kernel, instance, arguments.target, arguments.stage)
    if view.error:
        server.say(f"{kernel} could not be lowered to {arguments.stage} for {view.target}: {view.error}", types.MessageType.Error)
        return {"error": view.error}
    source = arguments.line + chosen.view.places.lines(arguments.uri)[0] - 1
    line = next((start for start, end, at in view.lines if at == source), 1)
    shown = {"title": view.title, "line": line, "text": view.text, "lines": [list(t) for t in view.lines], "stage": view.stage, "target": view.target}
    if server.virtual_documents:
        followed = instance == await server.ask(_shown_instance, chosen.view, kernel)
        address = lowered_uri.LoweredAddress(arguments.uri, kernel, "" if followed else instance, view.target, arguments.stage)
        return {"uri": address.to_uri(view.file_name), **shown}
    try:
        path = write_readonly(view)
    except OSError as error:
        server.say(f"the {arguments.stage} code of {kernel} cannot be written to a file: {error}; set XDG_CACHE_HOME to a folder that can be written",
                   types.MessageType.Error)
        return {"uri": "", **shown}
    uri = path.as_uri()
    capabilities = server.client_capabilities.window
    if capabilities is not None and capabilities.show_document is not None and capabilities.show_document.support:
        place = types.Position(line=line - 1, character=0)
        await server.window_show_document_async(types.ShowDocumentParams(uri=uri, take_focus=True, selection=types.Range(start=place, end=place)))
    else:
        server.say(f"the {arguments.stage} code of {kernel} is in {path}")
    return {"uri": uri, **shown}
