"""mbarriers and the fences around them as device functions (PTX ISA, "mbarrier", "membar / fence")."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.stmt import Evaluate
from ...source.span import Span
from ...target.chips import Target
from .device import DeviceFunction, function
from .problem import MatrixProblem

_SHARED = "static_cast<unsigned int>(__cvta_generic_to_shared(barrier))"

SYNC_THREADS = function("tile_sync_threads", "", "__syncthreads();")
SYNC_WARP = function("tile_sync_warp", "", "__syncwarp();")
NAMED_BARRIER = function("tile_sync_named", "unsigned int barrier, unsigned int threads", 'asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");')
_LAST_BARRIER = 15  # a block has barriers 0 to 15 (PTX ISA, bar); users take the low numbers


def group_barriers(groups: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The block's barrier of each group of threads (first, end). Groups that are at work at once, one inside another too, never share one."""
    found: dict[tuple[int, int], int] = {}
    free = list(range(_LAST_BARRIER, 0, -1))
    for low, high in sorted(set(groups), key=lambda g: (g[0] % 128 != 0, g[0] - g[1])):  # warpgroups first, large ones before small ones
        usual = _LAST_BARRIER - low // 128 % 8
        if free and (low, high) not in found:
            found[low, high] = usual if usual in free else free[0]
            free.remove(found[low, high])
    return found


def role_barrier(role: tuple[int, int], numbers: dict[tuple[int, int], int], span: Span | None) -> Evaluate:
    """The threads of a group wait for each other."""
    if role in numbers:
        return NAMED_BARRIER.run(span, numbers[role], role[1] - role[0])
    if role[1] - role[0] == 32 and role[0] % 32 == 0:
        return SYNC_WARP.run(span)
    raise MatrixProblem(f"The block is divided into more than {_LAST_BARRIER} groups of threads that wait for each other, and has no more barriers; "
                        "use fewer groups.", span)


INIT = function(
    "tile_mbarrier_init",
    "void* barrier, unsigned int count",
    f"""
asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"({_SHARED}), "r"(count) : "memory");""",
    minimum_sm=80,
)

FENCE_INIT = function(
    "tile_fence_mbarrier_init", "", 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");', minimum_sm=90
)

FENCE_PROXY_ASYNC = function(
    "tile_fence_proxy_async", "", 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', minimum_sm=90
)

ARRIVE = function(
    "tile_mbarrier_arrive",
    "void* barrier",
    f"""
asm volatile("{{\\n.reg .b64 state;\\nmbarrier.arrive.shared::cta.b64 state, [%0];\\n}}"
    :: "r"({_SHARED}) : "memory");""",
    minimum_sm=80,
)

ARRIVE_AFTER_COPIES = function(
    "tile_cp_async_arrive_noinc",
    "void* barrier",
    f"""
asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"({_SHARED}) : "memory");""",
    minimum_sm=80,
)

DUE_AFTER_COPIES = function(  # an arrival more is due, and happens once the thread's copies are complete
    "tile_cp_async_arrive",
    "void* barrier",
    f"""
asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"({_SHARED}) : "memory");""",
    minimum_sm=80,
)

EXPECT_TX = function(
    "tile_mbarrier_expect_tx",
    "void* barrier, unsigned int bytes",
    f"""
asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"({_SHARED}), "r"(bytes) : "memory");""",
    minimum_sm=90,
)


def _wait(name: str, instruction: str, minimum_sm: int) -> DeviceFunction:
    return function(
        name,
        "void* barrier, unsigned int parity",
        f"""
unsigned int address = {_SHARED}, done;
do {{
  asm volatile("{{\\n.reg .pred p;\\nmbarrier.{instruction}.parity.shared::cta.b64 p, [%1], %2;\\n"
      "selp.u32 %0, 1, 0, p;\\n}}"
      : "=r"(done) : "r"(address), "r"(parity) : "memory");
}} while (!done);""",
        minimum_sm=minimum_sm,
    )


TRY_WAIT = _wait("tile_mbarrier_wait", "try_wait", 90)
TEST_WAIT = _wait("tile_mbarrier_wait_by_test", "test_wait", 80)


def wait(target: Target) -> DeviceFunction:
    """Waiting for a phase; try_wait lets the hardware suspend the thread, earlier chips can only ask again."""
    return TRY_WAIT if target.sm >= 90 else TEST_WAIT
