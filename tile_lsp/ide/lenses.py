"""Code lenses above kernels: run, lowered code, the last result, the instance shown."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tilec.records import dataclass
from tilec.source.span import Span

from .runs import RunResult
from .snapshot import Snapshot

RUN, COMPARE, SHOW_LOWERED, SHOW_RESULT, CHOOSE_INSTANCE = (
    "tile-lsp.run", "tile-lsp.compare", "tile-lsp.showLowered", "tile-lsp.showResult", "tile-lsp.chooseInstance")


@dataclass(frozen=True)
class Lens:
    title: str
    command: str
    arguments: dict[str, Any]
    span: Span
    tooltip: str = ""


def lenses(snapshot: Snapshot, results: Mapping[tuple[str, str], RunResult], running: Collection[str]) -> list[Lens]:
    """``results`` go by the kernel's qualified name and the instance, ``running`` by the name."""
    found: list[Lens] = []
    for kernel in snapshot.kernels:
        instance = snapshot.instance(kernel)
        if instance is None:
            continue
        where = kernel.name_span
        arguments = {"kernel": kernel.qualname, "instance": instance.text}
        result = results.get((kernel.qualname, instance.text))
        if kernel.qualname in running:
            found.append(Lens("… running", "", {}, where))
        else:
            found.append(Lens("▶ Run", RUN, arguments, where, f"compile and run {instance.text}"))
            found.append(Lens("Compare", COMPARE, arguments, where, "run it and compare with the tile interpreter and with its reference function"))
        found.append(Lens("CUDA", SHOW_LOWERED, {**arguments, "stage": "cuda"}, where, "the CUDA code of this kernel"))
        if result is not None:
            found.append(Lens(result.title(snapshot.document), SHOW_RESULT, arguments, where, str(result.data.get("instance") or "")))
        if len(kernel.instances) > 1:
            number = [i.text for i in kernel.instances].index(instance.text) + 1
            found.append(Lens(f"{instance.text} ({number} of {len(kernel.instances)})", CHOOSE_INSTANCE, arguments, where, "show another instance"))
    return found
