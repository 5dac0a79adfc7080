"""Schedules as objects: tile schedulers of persistent kernels, hand-written warp specialisation."""
from __future__ import annotations

from dataclasses import field
from typing import Any

from ...ir.buffer import VAR, Buffer
from ...ir.build import binary, ceildiv, const, lift
from ...ir.expr import Expr, Load
from ...ir.stmt import Alloc, Store
from ...records import dataclass
from ..evaluator import Evaluator
from ..values import NUM_SMS, Class, Instance, Native, is_unknown, plain, unknown
from .registry import Bound, api
from .scalar import number
from .scopes import Transparent

# -- persistent kernels -----------------------------------------------------------------------------------------------------------
_STATE = ("m_idx", "n_idx", "linear_idx", "current_iter")


@api("PersistentTileScheduler", "num_m_tiles num_n_tiles num_workers= swizzle_size= column_major= cluster_size= stateful= name=")
def persistent_tile_scheduler(ev: Evaluator, b: Bound) -> Any:
    """tilelang/language/tile_schedule.py, 0.1.15: tile ``linear_idx`` of a grid of tiles, swizzled in groups of columns."""
    cluster = _default(b, "cluster_size", 1)
    if not isinstance(cluster, int) or cluster < 1:
        return unknown("T.PersistentTileScheduler")
    workers = number(b["num_workers"]) if b["num_workers"] is not None else NUM_SMS // cluster
    rows, columns = number(b["num_m_tiles"]), number(b["num_n_tiles"])
    if ev.builder is None or any(is_unknown(v) for v in (rows, columns, workers)):
        return unknown("T.PersistentTileScheduler")
    clusters = plain(ceildiv(rows, cluster))
    by_column = _default(b, "column_major", True)
    scheduler = _Scheduler(clusters, columns, workers, number(_default(b, "swizzle_size", 1)), by_column)
    if _default(b, "stateful", True):
        scheduler.allocate(ev, b)
    return scheduler.instance()


def _default(b: Bound, name: str, value: Any) -> Any:
    given = plain(b[name])
    return value if given is None else given


@dataclass(eq=False)
class _Scheduler:
    rows: Any  # clusters of tiles
    columns: Any
    workers: Any
    swizzle: Any
    by_column: bool
    state: dict[str, Buffer] = field(default_factory=dict)

    def allocate(self, ev: Evaluator, b: Bound) -> None:
        assert ev.builder is not None
        prefix = b["name"] if isinstance(b["name"], str) else "tile"
        for name in _STATE:
            self.state[name] = Buffer(ev.builder.unique(f"{prefix}_{name}"), (const(1),), "int32", VAR, b.span)
            ev.builder.emit(Alloc(b.span, self.state[name]))

    def value(self, name: str) -> Any:
        return Load("int32", None, self.state[name], (const(0),)) if name in self.state else unknown(name)

    def instance(self) -> Instance:
        total = self.rows * self.columns
        methods = {"coord": self._coord, "init": self._init, "next_tile": self._next, "update_current_idx": self._update}
        attributes: dict[str, Any] = {name: Native(name, _host(call)) for name, call in methods.items()}
        attributes.update({name: self.value(name) for name in _STATE})
        attributes.update({f"_{name}": buffer for name, buffer in self.state.items()})
        attributes.update(num_workers=self.workers, swizzle_size=self.swizzle, _total_tiles=total)
        attributes["valid"] = Native("valid", lambda ev, args, kwargs, node: binary("lt", self.value("linear_idx"), total))
        return Instance(Class("PersistentTileScheduler", {}), attributes)

    def _coord(self, ev: Evaluator, where: Any, tile: Any) -> Any:
        tile = number(tile)
        primary, secondary = (self.rows, self.columns) if self.by_column else (self.columns, self.rows)
        group = tile // (primary * self.swizzle)
        base = group * self.swizzle
        width = binary("max", 1, binary("min", self.swizzle, secondary - base))
        inside = tile - group * (primary * self.swizzle)
        fast, slow = inside // width, base + inside % width
        return (fast, slow) if self.by_column else (slow, fast)

    def _set(self, ev: Evaluator, where: Any, name: str, value: Any) -> None:
        if ev.builder is not None and name in self.state:
            ev.builder.emit(Store(where, self.state[name], (const(0),), lift(value)))

    def _update(self, ev: Evaluator, where: Any, tile: Any) -> None:
        m, n = self._coord(ev, where, tile)
        self._set(ev, where, "m_idx", m)
        self._set(ev, where, "n_idx", n)

    def _init(self, ev: Evaluator, where: Any, worker: Any) -> None:
        worker = number(worker)
        self._set(ev, where, "current_iter", 0)
        self._set(ev, where, "linear_idx", worker if isinstance(worker, (int, Expr)) else unknown("worker"))
        self._update(ev, where, self.value("linear_idx"))

    def _next(self, ev: Evaluator, where: Any) -> None:
        self._set(ev, where, "current_iter", self.value("current_iter") + 1)
        self._set(ev, where, "linear_idx", self.value("linear_idx") + self.workers)
        self._update(ev, where, self.value("linear_idx"))


def _host(method: Any) -> Any:
    def call(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        where = ev.span(node) if node is not None else None
        try:
            return method(ev, where, *args, **kwargs)
        except TypeError:  # other arguments than the method has
            return unknown("scheduler")

    return call


# -- warp specialisation by hand ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class SchedulePart:
    """``T.WSRole(...)``, ``T.WSPipeline(...)``, ...: what it was made of, for annotate_ws_schedule."""

    kind: str
    values: dict[str, Any]


def _part(kind: str, signature: str) -> None:
    api(kind, signature)(lambda ev, b: SchedulePart(kind, dict(b.values)))


_part("WSRole", "name * warps_lo warps_hi max_nreg=")
_part("WSPipeline", "name buffers depth")
_part("WSOpRef", "id")
_part("WSSync", "kind pipeline stage=")
_part("WSScope", "id bodies")
for _name in ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release"):
    api(_name, "pipeline stage=", "tilelang.language.WSSync")(lambda ev, b, kind=_name: SchedulePart("WSSync", {"kind": kind, **b.values}))


@api("WSSchedule", "num_warps roles pipelines scopes")
def ws_schedule(ev: Evaluator, b: Bound) -> Any:
    warps = plain(b["num_warps"])
    if isinstance(warps, int) and warps <= 0:
        ev.problem("ws-schedule", f"num_warps is {warps}; a schedule has warps", b.where("num_warps"))
    elif isinstance(warps, int) and warps % 4:
        ev.problem("ws-schedule", f"num_warps is {warps}; registers are reallocated by warpgroups, so it is a multiple of 4", b.where("num_warps"))
    return SchedulePart("WSSchedule", dict(b.values))


@api("annotate_ws_schedule", "schedule")
def annotate_ws_schedule(ev: Evaluator, b: Bound) -> Any:
    schedule = b["schedule"]
    if ev.builder is None:
        return None
    if isinstance(schedule, (int, float, str, list, tuple, dict)) or (isinstance(schedule, SchedulePart) and schedule.kind != "WSSchedule"):
        ev.problem("ws-schedule", "T.annotate_ws_schedule takes a T.WSSchedule", b.where("schedule"))
    # Barriers come from the schedule, so rules about missing ones are silent from here on.
    ev.builder.attrs.setdefault("ws_schedules", []).append((schedule.values if isinstance(schedule, SchedulePart) else None, b.span))
    return None


@api("ws_op", "op_id")
def ws_op(ev: Evaluator, b: Bound) -> Any:
    name = b["op_id"]
    if name == "" or isinstance(name, (int, float)):
        ev.problem("ws-schedule", "the id of T.ws_op is a text of at least one letter", b.where("op_id"))
    elif isinstance(name, str) and ev.builder is not None:
        ev.builder.attrs.setdefault("ws_ops", []).append((name, b.span))
    return Transparent()


@api("annotate_ws_pipeline_depth", "depth_map")
def annotate_ws_pipeline_depth(ev: Evaluator, b: Bound) -> Any:
    for depth in b["depth_map"].values() if isinstance(b["depth_map"], dict) else ():
        depth = plain(depth)
        if isinstance(depth, float) or (isinstance(depth, int) and depth < 1):
            ev.problem("annotation-value", f"a pipeline depth is {depth}; it is an integer of at least 1", b.where("depth_map"))
    return Transparent()
