"""Bulk operations as what one thread does. Made by specialisation (``transform/specialise``); their operands are known to fit."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir import dtypes
from ...ir.buffer import Region
from ...ir.build import binary, const, lift
from ...ir.expr import Expr
from ...ir.stmt import Evaluate, If, Stmt, TileOp
from ...source.span import Span
from ..matrix.barrier_functions import EXPECT_TX, FENCE_PROXY_ASYNC
from ..matrix.barriers import barrier_address
from ..matrix.device import address_of
from ..unit import unit
from .functions import ARRIVE_EXPECT, LOAD_PIXELS, PREFETCH, RELEASE, STORE_ARRIVED, STORE_COMMIT, STORE_WAIT, load, reduce, store
from .images import ImageTile, image_tile
from .tensor_map import Box, BulkTile, TensorMap, bulk_tile, maps_of

if TYPE_CHECKING:
    from ..context import LaunchState
    from ..threads import ThreadLowering


def lower_fill(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """One thread says how many bytes come and starts the copies; they arrive on the barrier."""
    state = lowering.state
    mbar = op.region("mbar")
    barrier = barrier_address(mbar.buffer, mbar.mins, state)
    body: list[Stmt] = []
    total = 0
    for k in maps_of(op):
        src, dst = op.region(f"src{k}"), op.region(f"dst{k}")
        image = op.args.get(f"image{k}")
        if isinstance(image, ImageTile):
            total += image.rows * image.columns * dtypes.bits(dst.dtype) // 8
            body += _pixels(op, k, image, barrier, state)
            continue
        tile = _tile(src, dst)
        total += tile.rows * tile.columns * dtypes.bits(dst.dtype) // 8
        for box in tile.boxes():
            call = load(src.buffer.ndim).call(_place(dst, box, state), tile.map_of(src.buffer).address(), barrier, *_coordinates(src, tile, box))
            call.attrs = {**(call.attrs or {}), "writes": (0,)}
            body.append(Evaluate(op.arg_spans.get(f"src{k}", op.span), call))
    body.insert(0, ARRIVE_EXPECT.run(op.span, barrier, const(total, "uint32")))
    return [unit((If(op.span, binary("eq", state.thread, const(0)), tuple(body)),), op.span, asynchronous=True)]


def lower_load(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """One thread tells a barrier of the program's own how many bytes come and starts the copies. What threads wrote to the tile before, which the
    program and the barriers between statements order, is fenced from what the copy engine writes."""
    lowering._converged(op, divergent, "T.tma_copy")
    state, mbar = lowering.state, op.region("mbar")
    src, dst = (replace(r, mins=tuple(lowering._plain(m) for m in r.mins)) for r in (op.region("src"), op.region("dst")))
    barrier = barrier_address(mbar.buffer, tuple(lowering._plain(m) for m in mbar.mins), state)
    tile = _tile(src, dst)
    size = tile.rows * tile.columns * dtypes.bits(dst.dtype) // 8
    body: list[Stmt] = [*((FENCE_PROXY_ASYNC.run(op.span),) if op.args.get("fences") else ()), EXPECT_TX.run(op.span, barrier, const(size, "uint32"))]
    for box in tile.boxes():
        call = load(src.buffer.ndim).call(_place(dst, box, state), tile.map_of(src.buffer).address(), barrier, *_coordinates(src, tile, box))
        call.attrs = {**(call.attrs or {}), "writes": (0,)}
        body.append(Evaluate(op.span, call))
    return [unit((If(op.span, binary("eq", state.thread, const(0)), tuple(body)),), op.span, asynchronous=True)]


def _pixels(op: TileOp, k: str, image: ImageTile, barrier: Expr, state: LaunchState) -> list[Stmt]:
    """The instructions that gather a tile of a convolution's matrix, a panel of channels each."""
    src, dst, span = op.region(f"src{k}"), op.region(f"dst{k}"), op.arg_spans.get(f"src{k}", op.span)
    channel, *place = (op.args[f"start{k}_{i}"] for i in range(6))
    out: list[Stmt] = []
    for column in image.boxes():
        call = LOAD_PIXELS.call(_place(dst, Box(0, column), state), image.map_of(src.buffer).address(), barrier, channel + column, *place)
        call.attrs = {**(call.attrs or {}), "writes": (0,)}
        out.append(Evaluate(span, call))
    return out


def map_of_copy(op: TileOp) -> TensorMap:
    """What describes the tensor of a copy to a shared tile."""
    src, dst = op.region("src"), op.region("dst")
    if op.op == "im2col":
        image = image_tile(op)
        assert isinstance(image, ImageTile), image
        return image.map_of(src.buffer)
    return _tile(src, dst).map_of(src.buffer)


def map_of_store(dst: Region, tile: Region) -> TensorMap:
    return _tile(dst, tile).map_of(dst.buffer)


def prefetch_maps(maps: Iterable[TensorMap], state: LaunchState, span: Span | None) -> Stmt:
    """One thread asks for maps before the block's barriers are ready: fetching one takes as long as a copy."""
    found = dict.fromkeys(maps)
    return unit((If(span, binary("eq", state.thread, const(0)), tuple(PREFETCH.run(span, m.address()) for m in found)),), span)


def lower_store(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """One thread starts the copies of a shared tile, and waits until it was read where that is not left to ``lower_store_wait``."""
    state = lowering.state
    src, dst = op.region("src"), op.region("dst")
    tile = _tile(dst, src)
    body: list[Stmt] = []
    for box in tile.boxes():
        body.append(store(dst.buffer.ndim).run(op.span, _place(src, box, state), tile.map_of(dst.buffer).address(), *_coordinates(dst, tile, box)))
    body += [STORE_COMMIT.run(op.span), *((STORE_WAIT.run(op.span),) if op.args.get("waits") else ())]
    return [unit((If(op.span, binary("eq", state.thread, const(0)), tuple(body)),), op.span)]


def lower_reduce(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """One thread combines a shared tile with a tensor, and waits until it was read. The barrier that its writers meet at comes before; the fence
    behind it makes what they wrote known to the copy engine (PTX ISA, "proxy-preserved base causality order": anywhere on the way between)."""
    lowering._converged(op, divergent, f"T.atomic_{op.args['kind']} by the copy engine")
    state = lowering.state
    src, dst = op.region("src"), op.region("dst")
    dst = replace(dst, mins=tuple(lowering._plain(m) for m in dst.mins))
    tile = _tile(dst, src)
    unsigned = op.args["kind"] == "add" and dst.dtype == "int64"  # which the instruction adds without sign only; the bits are the same
    tensor_map = replace(tile.map_of(dst.buffer), combined="uint64" if unsigned else dst.dtype)
    body: list[Stmt] = [FENCE_PROXY_ASYNC.run(op.span)]
    for box in tile.boxes():
        function = reduce(dst.buffer.ndim, op.args["kind"])
        body.append(function.run(op.span, _place(src, box, state), tensor_map.address(), *_coordinates(dst, tile, box)))
    body += [STORE_COMMIT.run(op.span), (STORE_ARRIVED if op.args.get("completes") else STORE_WAIT).run(op.span)]
    return [unit((If(op.span, binary("eq", state.thread, const(0)), tuple(body)),), op.span)]


def lower_store_wait(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    """The thread that started a store waits until its tile was read: for the other threads a read that ends here."""
    only = If(op.span, binary("eq", lowering.state.thread, const(0)), (STORE_WAIT.run(op.span),))
    return [replace(unit((only,), op.span), reads=frozenset((op.region("src").buffer,)))]


def lower_release(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    mbar = op.region("mbar")
    return [unit((RELEASE.run(op.span, barrier_address(mbar.buffer, mbar.mins, lowering.state)),), op.span)]


def _tile(tensor: Region, shared: Region) -> BulkTile:
    tile = bulk_tile(tensor, shared)
    assert isinstance(tile, BulkTile), tile
    return tile


def _place(shared: Region, box: Box, state: LaunchState) -> Expr:
    """The address of a box within the tile."""
    row = (lift(box.row),) if shared.buffer.ndim > 1 else ()
    front = shared.mins[: shared.buffer.ndim - 1 - len(row)]
    if shared.buffer.ndim > 1 and not box.row and len(shared.mins) > 1:
        row = (shared.mins[-2],)  # of a ring of vectors this is the stage
    return address_of(*state.shared_element(shared.buffer, (*front, *row, lift(box.column))))


def _coordinates(tensor: Region, tile: BulkTile, box: Box) -> list[Expr]:
    """Innermost first."""
    place = list(tensor.mins)
    place[-1] = place[-1] + box.column
    if tile.row_axis is not None:
        place[tile.row_axis] = place[tile.row_axis] + box.row
    return [lift(e) for e in reversed(place)]
