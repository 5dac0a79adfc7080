"""The order of blocks of a cluster and of kernels of a stream, as device functions (PTX ISA, barrier.cluster, griddepcontrol)."""
from __future__ import annotations

from ..ir.buffer import GLOBAL
from ..ir.stmt import Body, TileOp
from ..ir.stmt import walk as walk_statements
from ..source.span import Span
from .ahead import accesses
from .matrix.device import DeviceFunction, function
from .unit import Unit, unit

LAUNCH_ORDER: dict[str, DeviceFunction] = {name: function(f"tile_{name}", "", f'asm volatile("{text}" ::: "memory");', minimum_sm=90) for name, text in (
    ("cluster_arrive", "barrier.cluster.arrive.release.aligned;"), ("cluster_arrive_relaxed", "barrier.cluster.arrive.relaxed.aligned;"),
    ("cluster_wait", "barrier.cluster.wait.acquire.aligned;"), ("pdl_trigger", "griddepcontrol.launch_dependents;"), ("pdl_sync", "griddepcontrol.wait;"))}
WAITS_FOR_KERNEL_BEFORE = LAUNCH_ORDER["pdl_sync"].name


def by_copy_engine_alone(body: Body) -> bool:
    """Whether only bulk copies touch tensors. Loads of threads could be moved up past the wait: compilers take what a kernel only reads for
    constant while it runs."""
    return not any(b.storage().scope == GLOBAL for s in walk_statements(body) if not (isinstance(s, TileOp) and s.op.startswith("bulk_"))
                   for found in accesses(s) for b in found)


def overlapped(span: Span | None) -> Unit:
    """The next kernel's blocks may start as soon as all of this one's run; this one goes on when the kernel before is over and its results are there.

    Before this point a kernel may touch nothing but its own memory and its tensor maps: then nobody can tell but by the clock.
    """
    return unit((LAUNCH_ORDER["pdl_trigger"].run(span), LAUNCH_ORDER["pdl_sync"].run(span)), span)
