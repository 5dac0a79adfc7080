"""When names and parameters of ``tilelang.language`` came and went, and what took their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilec.records import dataclass

from .versions import sort_key


@dataclass(frozen=True, slots=True)
class Replacement:
    """``text``: what to write, as shown to the user; ``rename``: the new name if only the name changes."""

    text: str
    rename: str | None = None


# name -> alternatives in order; the first whose names the configured release has is offered.
# (text, names it needs, new name where renaming alone does it)
_ALTERNATIVES: dict[str, tuple[tuple[str, tuple[str, ...], str | None], ...]] = {
    "tcgen05_gemm": (("T.gemm(A, B, C, mbar=mbar)", ("gemm",), "gemm"),),
    "tcgen05_mma": (
        ("T.tcgen05_gemm", ("tcgen05_gemm",), "tcgen05_gemm"),
        ("T.gemm(A, B, C, mbar=mbar)", ("gemm",), "gemm"),
    ),
    "wgmma_gemm": (("T.gemm(A, B, C)", ("gemm",), "gemm"),),
    "wgmma_mma": (("T.wgmma_gemm", ("wgmma_gemm",), "wgmma_gemm"), ("T.gemm(A, B, C)", ("gemm",), "gemm")),
    "gemm_v1": (("T.gemm", ("gemm",), "gemm"),),
    "gemm_v2": (("T.gemm", ("gemm",), "gemm"),),
    "gemm_sp_v2": (("T.gemm_sp", ("gemm_sp",), "gemm_sp"),),
    "fadd2": (("T.add2", ("add2",), "add2"),),
    "fmul2": (("T.mul2", ("mul2",), "mul2"),),
    "block": (("T.sblock", ("sblock",), "sblock"),),
    "block_attr": (("T.sblock_attr", ("sblock_attr",), "sblock_attr"),),
    "LetStmt": (("T.bind", ("bind",), None),),
    "DataType": (("T.dtype", ("dtype",), "dtype"),),
    "annotate_padding": (("T.annotate_safe_value", ("annotate_safe_value",), None),),
    "sync_thread_partial": (("T.sync_threads with arguments", ("sync_threads",), None),),
    "initialize_descriptor": (
        ("T.initialize_wgmma_descriptor or T.initialize_tcgen05_descriptor", ("initialize_wgmma_descriptor",), None),
    ),
    "get_mbarrier": (("T.alloc_barrier", ("alloc_barrier",), None),),
    "create_list_of_mbarrier": (("T.alloc_barrier", ("alloc_barrier",), None),),
    "sync_global": (("T.sync_grid()", ("sync_grid",), "sync_grid"),),
    "dyn": (("T.dynamic('name')", ("dynamic",), None),),
    "tma_copy": (("T.copy", ("copy",), None),),
    "async_copy": (("T.copy", ("copy",), None),),
    "ClusterKernel": (("T.Kernel", ("Kernel",), None),),
}


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("manifests").joinpath("history.json").read_text())


def added_in(name: str) -> str | None:
    """The release that first exported a name; None if none ever did. The oldest release stands for "at least since"."""
    span = _data()["names"].get(name)
    if span is not None:
        return span[0]
    return _data()["versions"][0] if _in_every_release(name) else None


def removed_in(name: str) -> str | None:
    span = _data()["names"].get(name)
    return None if span is None else span[1]


@lru_cache(maxsize=1)
def _oldest_names() -> frozenset[str]:
    oldest = json.loads(Path(__file__).with_name("manifests").joinpath(f"{_data()['versions'][0]}.json").read_text())
    return frozenset(oldest["language"])


def _in_every_release(name: str) -> bool:
    return name in _oldest_names()


def parameter_added_in(name: str, parameter: str, version: str) -> str | None:
    """The release after ``version`` that brought (or brought back) a parameter."""
    change = _data()["parameters"].get(name, {}).get(parameter)
    later = [v for v in (change[0], *change[2:]) if sort_key(v) > sort_key(version)] if change else []
    return later[0] if later else None


def parameter_removed_in(name: str, parameter: str, version: str) -> str | None:
    """The release up to ``version`` that dropped a parameter."""
    change = _data()["parameters"].get(name, {}).get(parameter)
    if not change or change[1] is None or sort_key(change[1]) > sort_key(version):
        return None
    return change[1]


def replacement(name: str, has: Callable[[str], bool]) -> Replacement | None:
    """The first alternative whose names exist according to ``has``."""
    for text, needs, rename in _ALTERNATIVES.get(name, ()):
        if all(has(n) for n in needs) and rename != name:
            return Replacement(text, rename)
    return None
