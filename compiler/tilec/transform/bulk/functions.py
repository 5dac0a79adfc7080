"""Bulk tensor copies and their barriers as device functions (PTX ISA, "cp.async.bulk.tensor", "mbarrier.arrive", "elect.sync")."""
from __future__ import annotations

from functools import cache

from ..matrix.device import DeviceFunction, function

_SHARED = "static_cast<unsigned int>(__cvta_generic_to_shared({}))"


def _coordinates(rank: int) -> str:
    return "".join(f", int c{i}" for i in range(rank))


def _listed(rank: int, first: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(rank)) + "}"


def _operands(rank: int) -> str:
    return "".join(f', "r"(c{i})' for i in range(rank))


@cache
def load(rank: int) -> DeviceFunction:
    """Coordinates innermost first. The bytes that arrive are counted on the barrier."""
    return function(f"tile_tma_load_{rank}d", f"void* shared, const void* map, void* barrier{_coordinates(rank)}", f"""
asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {_listed(rank, 3)}], [%2];"
    :: "r"({_SHARED.format("shared")}), "l"(map), "r"({_SHARED.format("barrier")}){_operands(rank)} : "memory");""", minimum_sm=90)


LOAD_PIXELS = function("tile_tma_load_pixels", "void* shared, const void* map, void* barrier, int c, int x, int y, int n, int right, int down", f"""
asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {{%3, %4, %5, %6}}], [%2], {{%7, %8}};"
    :: "r"({_SHARED.format("shared")}), "l"(map), "r"({_SHARED.format("barrier")}), "r"(c), "r"(x), "r"(y), "r"(n),
       "h"(static_cast<unsigned short>(right)), "h"(static_cast<unsigned short>(down)) : "memory");""", minimum_sm=90)


@cache
def store(rank: int) -> DeviceFunction:
    return function(f"tile_tma_store_{rank}d", f"const void* shared, const void* map{_coordinates(rank)}", f"""
asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%0, {_listed(rank, 2)}], [%1];"
    :: "l"(map), "r"({_SHARED.format("shared")}){_operands(rank)} : "memory");""", minimum_sm=90)


@cache
def reduce(rank: int, kind: str) -> DeviceFunction:
    """As a store, but each element is combined with the one that is there, atomically."""
    return function(f"tile_tma_reduce_{kind}_{rank}d", f"const void* shared, const void* map{_coordinates(rank)}", f"""
asm volatile("cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{kind}.tile.bulk_group [%0, {_listed(rank, 2)}], [%1];"
    :: "l"(map), "r"({_SHARED.format("shared")}){_operands(rank)} : "memory");""", minimum_sm=90)


STORE_COMMIT = function("tile_tma_store_commit", "", 'asm volatile("cp.async.bulk.commit_group;" ::: "memory");', minimum_sm=90)
# Reading shared memory is over; the data may still be on its way, which the end of the kernel completes.
STORE_WAIT = function("tile_tma_store_wait", "", 'asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");', minimum_sm=90)
# The data is in global memory as well, where other blocks may look for it.
STORE_ARRIVED = function("tile_tma_store_arrived", "", 'asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");', minimum_sm=90)


@cache
def store_wait(pending: int) -> DeviceFunction:
    """As STORE_WAIT, but the latest groups of copies may still be reading."""
    return STORE_WAIT if not pending else function(f"tile_tma_store_wait_{pending}", "", f'asm volatile("cp.async.bulk.wait_group.read {pending};" ::: "memory");',
                                                   minimum_sm=90)


PREFETCH = function("tile_prefetch_map", "const void* map", 'asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");', minimum_sm=90)

ARRIVE_EXPECT = function("tile_mbarrier_arrive_expect", "void* barrier, unsigned int bytes", f"""
asm volatile("{{\\n.reg .b64 state;\\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\\n}}"
    :: "r"({_SHARED.format("barrier")}), "r"(bytes) : "memory");""", minimum_sm=90)

# One arrival a warp, once all its lanes are done.
RELEASE = function("tile_mbarrier_release", "void* barrier", f"""
__syncwarp();
if (threadIdx.x % 32 == 0)
  asm volatile("{{\\n.reg .b64 state;\\nmbarrier.arrive.shared::cta.b64 state, [%0];\\n}}"
      :: "r"({_SHARED.format("barrier")}) : "memory");""", minimum_sm=90)


@cache
def max_registers(count: int, increase: bool) -> DeviceFunction:
    way = "inc" if increase else "dec"
    return function(f"tile_registers_{way}_{count}", "", f'asm volatile("setmaxnreg.{way}.sync.aligned.u32 {count};");', minimum_sm=90)
