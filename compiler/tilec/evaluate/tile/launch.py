"""T.Kernel and the other context managers of kernels."""
from __future__ import annotations

import ast
from typing import Any

from ...ir import build, dtypes
from ...ir.build import const, lift
from ...ir.expr import Expr, Var
from ...ir.stmt import If, Launch, TileOp, While
from ...source.nodes import walk
from ..evaluator import Declared, Evaluator
from ..expressions import scalar_operand
from ..scope import Scope
from ..values import LaunchValue, LoopValue, is_unknown, plain, unknown
from .builder import LaunchState
from .registry import Bound, api
from .scopes import Transparent, WhileLoop

DEFAULT_THREADS = 128


@api("Kernel", "*blocks threads= prelude= cluster_dims= is_cpu=")
def kernel(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is None:
        ev.problem("kernel-usage", "T.Kernel opens a kernel launch; it belongs inside a @T.prim_func or an eager @tilelang.jit kernel", b.span)
        return unknown("T.Kernel")
    grid = [plain(scalar_operand(v)) for v in b["blocks"]]
    for value, where in zip(grid, b["blocks_nodes"]):
        _check_grid(ev, value, where)
    threads = plain(b["threads"])
    attrs: dict[str, Any] = {"explicit_threads": threads is not None, "spans": {k: ev.span(n) for k, n in b.nodes.items()}}
    if b["cluster_dims"] is not None:
        attrs["cluster_dims"] = b["cluster_dims"]
        _check_cluster(ev, b)
    if isinstance(b["prelude"], str) and not is_unknown(b["prelude"]):
        attrs["imported"] = [b["prelude"]]
    if b["is_cpu"] is not None:
        attrs["is_cpu"] = b["is_cpu"]
    spans = tuple(ev.span(n) for n in b["blocks_nodes"] if n is not None)
    return LaunchValue(tuple(grid), _threads(ev, threads, b), attrs, b.span, spans)


@api("ClusterKernel", "*blocks cluster_dims= threads= prelude=")
def cluster_kernel(ev: Evaluator, b: Bound) -> Any:
    return kernel(ev, b)


@api("CUDASourceCodeKernel", "*blocks threads= source_code_or_path= entry_name= cluster_dims= prelude=")
def source_kernel(ev: Evaluator, b: Bound) -> Any:
    """A launch whose body is written in CUDA: what it does is not known."""
    value = kernel(ev, b)
    if ev.builder is None or not isinstance(value, LaunchValue):
        return value
    outer = ev.builder.launch
    value.attrs.update(source_code=b["source_code_or_path"], entry=b["entry_name"], prelude=b["prelude"])
    begin_launch(ev, value)
    ev.builder.emit(TileOp(b.span, "unsupported", {"name": "T.CUDASourceCodeKernel"}))
    end_launch(ev)
    ev.builder.launch = outer
    return None


def _check_grid(ev: Evaluator, value: Any, where: Any) -> None:
    if where is None:
        return
    if isinstance(value, float) or (isinstance(value, Expr) and dtypes.is_float(value.dtype)):
        shown = f" ({value})" if isinstance(value, float) else ""
        ev.problem("grid-float", f"a grid extent is a float{shown}; grid extents are integers (use T.ceildiv or //)", where)


def _check_cluster(ev: Evaluator, b: Bound) -> None:
    value = plain(b["cluster_dims"])
    parts = value if isinstance(value, (list, tuple)) else [value]
    if isinstance(value, (float, str, dict, set)) or any(isinstance(plain(p), (float, str)) for p in parts):
        ev.problem("launch-annotation-type", f"cluster_dims is {value!r}; it is an integer or a list or tuple of at most three", b.where("cluster_dims"))


def _threads(ev: Evaluator, value: Any, b: Bound) -> tuple[Any, ...]:
    if value is None:
        return (DEFAULT_THREADS, 1, 1)
    values = [plain(v) for v in value] if isinstance(value, (list, tuple)) else [value]
    for v in values:
        if isinstance(v, (float, str)):
            ev.problem("threads-range", f"threads is {v!r}; thread counts are positive integers", b.where("threads"))
    if len(values) > 3:
        ev.problem("threads-range", f"threads has {len(values)} extents; a block has at most 3", b.where("threads"))
    checked = [v if isinstance(v, (int, Expr)) else unknown("threads") for v in values]
    return tuple((checked + [1, 1, 1])[:3])


def begin_launch(ev: Evaluator, value: LaunchValue) -> Any:
    """Open the launch; the value of ``as``."""
    builder = ev.builder
    assert builder is not None
    if builder.is_probe and builder.solved:
        raise Declared
    if builder.launch is not None:
        ev.problem("kernel-nested", "T.Kernel inside T.Kernel: a kernel launch cannot contain another", value.span)
    names = ("bx", "by", "bz")
    grid = tuple(lift(g) if isinstance(g, (int, Expr)) and not isinstance(g, bool) else unknown("grid") for g in value.grid)
    block_vars = tuple(Var("int32", value.span, builder.unique(names[min(i, 2)]), "block") for i in range(len(grid)))
    threads = tuple(lift(t) for t in value.threads)
    thread_vars = tuple(Var("int32", value.span, n, "thread") for n in ("tx", "ty", "tz"))
    builder.launch = LaunchState(grid, block_vars, threads, thread_vars, dict(value.attrs), value.span)  # type: ignore[arg-type]
    builder.launch.attrs["grid_spans"] = value.grid_spans
    builder.launch_count += 1
    builder.push()
    builder.enter("launch")
    return block_vars[0] if len(block_vars) == 1 else block_vars


def end_launch(ev: Evaluator) -> None:
    builder = ev.builder
    assert builder is not None and builder.launch is not None
    state = builder.launch
    builder.leave()
    body = builder.pop()
    attrs = {**state.attrs, "thread_vars": state.thread_vars}
    builder.emit(Launch(state.span, state.grid, state.block_vars, state.threads, body, attrs))
    builder.launch = None


def enter_launch(ev: Evaluator, value: LaunchValue) -> Any:
    """``bx = T.Kernel(...)``: the launch is open to the end of the function."""
    builder = ev.builder
    assert builder is not None
    result = begin_launch(ev, value)
    builder.open_launch = builder.launch
    return result


def finish(ev: Evaluator) -> None:
    """Close what ``bx = T.Kernel(...)`` left open."""
    if ev.builder is not None and ev.builder.launch is not None and ev.builder.open_launch is ev.builder.launch:
        end_launch(ev)


def with_device(ev: Evaluator, node: ast.With, item: ast.withitem, value: Any, scope: Scope, run_inner: Any) -> bool:
    """Handle a context manager of the language; False if it is none."""
    if isinstance(value, LaunchValue):
        _with_launch(ev, item, value, scope, run_inner)
        return True
    if isinstance(value, Condition):
        _with_condition(ev, node, value, run_inner)
        return True
    if isinstance(value, Transparent):
        _with_transparent(ev, item, value, scope, run_inner)
        return True
    if isinstance(value, LoopValue) and value.kind == "thread_binding":
        from .loops import bound_index

        _with_transparent(ev, item, Transparent(bound_index(ev, value)), scope, run_inner)
        return True
    if isinstance(value, WhileLoop):
        _with_while(ev, node, value, run_inner)
        return True
    if ev.builder is not None and scope.kind == "kernel" and is_unknown(value):
        _with_unknown(ev, node, item, scope, run_inner)
        return True
    return False


def _with_launch(ev: Evaluator, item: ast.withitem, value: LaunchValue, scope: Scope, run_inner: Any) -> None:
    builder = ev.builder
    assert builder is not None
    bodies, frames = len(builder.bodies), len(builder.frames)
    outer = builder.launch
    indices = begin_launch(ev, value)
    if item.optional_vars is not None:
        _bind_indices(ev, item.optional_vars, indices, scope, value)
    try:
        run_inner()
    finally:
        del builder.bodies[bodies + 1:], builder.frames[frames + 1:]
        end_launch(ev)
        builder.launch = outer


def _bind_indices(ev: Evaluator, target: ast.expr, indices: Any, scope: Scope, value: LaunchValue) -> None:
    from ..statements import assign_target

    count = len(value.grid)
    if isinstance(target, (ast.Tuple, ast.List)):
        if len(target.elts) != count:
            ev.problem("grid-unpack", f"the grid has {count} dimension{'s' if count != 1 else ''} but {len(target.elts)} "
                       f"name{'s' if len(target.elts) != 1 else ''} take its indices", target, ("the grid", value.span))
            for element in target.elts:
                assign_target(ev, element, unknown("block index"), scope, bind=False)
            return
        if count == 1:
            indices = (indices,)
        for element, var in zip(target.elts, indices):
            _name_index(ev, element, var)
    elif count == 1:
        _name_index(ev, target, indices)
    elif ev.builder is not None and ev.builder.launch is not None:
        ev.builder.launch.attrs["index_name"] = ev.span(target)
    assign_target(ev, target, indices, scope, bind=False)
    if ev.builder is not None:
        for name in walk(target):
            if isinstance(name, ast.Name):
                ev.builder.record_name(scope, name.id, ev.span(target))


def check_index_list(ev: Evaluator, value: Any) -> None:
    """One name for the indices of a grid of several dimensions is a list; as a number it is a mistake."""
    launch = ev.builder.launch if ev.builder is not None else None
    if launch is not None and "index_name" in launch.attrs and list(value) == list(launch.block_vars):
        ev.problem("grid-unpack", f"the grid has {len(launch.block_vars)} dimensions, so this name stands for a list of {len(launch.block_vars)} "
                   "indices; take them as (bx, by)", launch.attrs["index_name"], ("the grid", launch.span))


def _name_index(ev: Evaluator, target: ast.expr, var: Var) -> None:
    """The block index goes by the user's name."""
    if isinstance(target, ast.Name) and target.id != "_":
        object.__setattr__(var, "name", target.id)


class Condition:
    """A context manager that makes its body conditional (``T.ws``)."""

    def __init__(self, cond: Any, name: str):
        self.cond = cond
        self.name = name


def _with_while(ev: Evaluator, node: ast.With, value: WhileLoop, run_inner: Any) -> None:
    builder = ev.builder
    assert builder is not None
    builder.push()
    builder.enter("while")
    try:
        run_inner()
    finally:
        builder.leave()
        body = builder.pop()
    builder.emit(While(ev.span(node), build.as_bool(value.cond), body))


def _with_condition(ev: Evaluator, node: ast.With, value: Condition, run_inner: Any) -> None:
    builder = ev.builder
    assert builder is not None
    builder.push()
    builder.enter("if")
    try:
        run_inner()
    finally:
        builder.leave_warp_groups()
        body = builder.pop()
    builder.emit(If(ev.span(node), build.as_bool(value.cond), body, ()))


def _with_transparent(ev: Evaluator, item: ast.withitem, value: Transparent, scope: Scope, run_inner: Any) -> None:
    from ..statements import assign_target

    if item.optional_vars is not None:
        assign_target(ev, item.optional_vars, value.value, scope, bind=False)
    assert ev.builder is not None
    ev.builder.inner_blocks += value.block
    run_inner()
    ev.builder.inner_blocks -= value.block


def _with_unknown(ev: Evaluator, node: ast.With, item: ast.withitem, scope: Scope, run_inner: Any) -> None:
    """A context manager nothing is known about: its body is traced under an unknown condition."""
    from ..statements import assign_target

    builder = ev.builder
    assert builder is not None
    if item.optional_vars is not None:
        assign_target(ev, item.optional_vars, unknown("context manager"), scope, bind=False)
    builder.push()
    builder.enter("maybe")
    reporting, ev.reporting = ev.reporting, False
    try:
        run_inner()
    finally:
        ev.reporting = reporting
        builder.leave()
        body = builder.pop()
    builder.emit(If(ev.span(node), unknown("context manager"), body, ()))


def thread_number(ev: Evaluator) -> Any:
    """The thread's place in its block: threadIdx.x where the block has one row of threads."""
    assert ev.builder is not None and ev.builder.launch is not None
    launch = ev.builder.launch
    launch.attrs["uses_threads"] = True
    x, y, z = launch.thread_vars
    rows = [build.const_int(e) for e in launch.threads]
    number: Any = x
    if rows[1] != 1:
        number = y * launch.threads[0] + number
    if rows[2] != 1:
        number = z * (launch.threads[0] * launch.threads[1]) + number
    return number


@api("ws", "*ids")
def ws(ev: Evaluator, b: Bound) -> Any:
    builder = ev.builder
    if builder is None or builder.launch is None:
        return unknown("T.ws")
    ids = [plain(i) for i in b["ids"]]
    if not ids or not all(isinstance(i, int) for i in ids):
        return unknown("T.ws")
    if not builder.launch.attrs.get("explicit_threads"):
        ev.problem("ws-threads", "T.ws needs the number of threads: give threads= to T.Kernel", b.span, ("the launch", builder.launch.span))
        return unknown("T.ws")
    tx = thread_number(ev)
    extents = [build.const_int(e) for e in builder.launch.threads]
    total = None if None in extents else extents[0] * extents[1] * extents[2]  # type: ignore[operator]
    for i, where in zip(ids, b["ids_nodes"]):
        if total is not None and i >= -(-total // 128) and where is not None:
            ev.problem("ws-threads", f"T.ws({i}): the block has {total} threads, that is {total // 128} warp group"
                       f"{'s' if total // 128 != 1 else ''} of 128; this branch never runs", where, ("the launch", builder.launch.span))
    group = tx // 128
    cond: Any = None
    for i in ids:
        one = build.binary("eq", group, const(i))
        cond = one if cond is None else build.binary("or", cond, one)
    return Condition(cond, "T.ws")


@api("WarpSpecialize", "*ids")
def warp_specialize(ev: Evaluator, b: Bound) -> Any:
    return ws(ev, b)
