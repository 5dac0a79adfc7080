"""The passes, as data, and running them."""
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..ir.program import TileProgram
from ..records import dataclass
from ..target.chips import Target
from .context import PassContext
from .emitted import as_emitted
from .errors import LoweringError, RacingUpdate

LOWER, OPTIMIZE = "LowerAndLegalize", "OptimizeForTarget"


@dataclass(frozen=True)
class Pass:
    """``where``: module and function, resolved when run, so that listing passes imports nothing."""

    name: str
    phase: str
    doc: str
    where: str

    def apply(self, program: TileProgram, ctx: PassContext) -> TileProgram:
        module, function = self.where.split(":")
        return getattr(import_module(f"tilec.transform.{module}"), function)(program, ctx)


PASSES: tuple[Pass, ...] = (
    Pass("place-global-memory", LOWER, "tensors from pointers are declared in their kernels; workspaces become arguments", "global_memory:place_global_memory"),
    Pass("refuse-unknown", LOWER, "refuse values that static evaluation could not know, and operators without a lowering", "legalize:refuse_unknown"),
    Pass("external-calls", LOWER, "functions written in C get the addresses of elements", "external:external_calls"),
    Pass("split-vectors", LOWER, "vectors, wide loads and stores and slices of one thread become scalars", "lanes:split_vectors"),
    Pass("canonical-indices", LOWER, "negative indices count from the end; views become accesses to their storage", "legalize:canonical_indices"),
    Pass("find-roles", LOWER, "conditions on the thread index that divide the block into groups with tiles of their own", "roles:find_roles"),
    Pass("fragment-updates", LOWER, "updates of one fragment element by iterations of several threads become reductions", "fragment_updates:fragment_updates"),
    Pass("open-reducers", LOWER, "reducers become partial results of each thread and their combination", "reducers:open_reducers"),
    Pass("limit-blocks", OPTIMIZE, "no more resident blocks are asked for than wgmma has registers for", "resident_blocks:limit_resident_blocks"),
    Pass("specialise-warps", OPTIMIZE, "Hopper: a warp of its own copies for pipelined loops with the copy engine", "specialise.launch:specialise_warps"),
    Pass("software-pipeline", OPTIMIZE, "pipelined loops prefetch with cp.async into multiple buffers", "software_pipeline:pipeline_loops"),
    Pass("copy-in-bulk", OPTIMIZE, "Hopper: T.tma_copy to shared memory by the copy engine", "bulk.asked:copy_in_bulk"),
    Pass("reduce-in-bulk", OPTIMIZE, "atomic updates of whole tiles by the copy engine", "bulk.reductions:reduce_in_bulk"),
    Pass("overlap-products", OPTIMIZE, "Hopper: matrix operations run on behind the statements that start them", "overlap:overlap_products"),
    Pass("expand-tiles", LOWER, "copies, fills, transposes, scans and atomics become parallel loops", "expand:expand_tiles"),
    Pass("guard-accesses", LOWER, "reads outside a tensor give 0, writes vanish, unless proven inside", "guard:guard_accesses"),
    Pass("infer-layouts", OPTIMIZE, "lay fragments and parallel loops out over threads and registers; swizzle shared tiles", "layouts:infer_layouts"),
    Pass("lower-threads", OPTIMIZE, "tile statements become what one thread does", "threads:lower_threads"),
    Pass("rasterize-blocks", OPTIMIZE, "blocks in panels, for the L2 cache", "rasterize:rasterize_blocks"),
    Pass("plan-shared-memory", OPTIMIZE, "places in the block's pool by liveness", "shared_memory:plan_shared_memory"),
    Pass("insert-barriers", OPTIMIZE, "block barriers where threads exchange data through memory", "barriers:insert_barriers"),
)
CPU_PASSES: tuple[Pass, ...] = (
    Pass("split-vectors", LOWER, "vectors, wide loads and stores and slices of one thread become scalars", "lanes:split_vectors"),
    Pass("open-reducers", LOWER, "reducers become arrays that loops accumulate in", "reducers:open_reducers"),
    Pass("lower-loops", LOWER, "tile operators become loops over whole tiles", "cpu_passes:lower_loops"),
)


def passes_for(target: Target) -> tuple[Pass, ...]:
    return CPU_PASSES if target.kind == "cpu" else PASSES


Observer = Callable[[Pass, TileProgram], None]


def run_passes(program: TileProgram, target: Target, observer: Observer | None = None) -> TileProgram:
    """The thread program (or, for the CPU, the program of loops). Raises LoweringError with a place.

    What cannot be lowered with warps that only copy is lowered without them; with stages that it did not ask for, without those. Updates that turn
    out to race are lowered as reductions.
    """
    reason: LoweringError | None = None  # against such warps
    deepen = True
    racing: dict[Any, LoweringError] = {}
    while True:
        ctx = PassContext(target, specialise=reason is None, deepen=deepen, racing=frozenset(racing))
        if reason is not None:
            ctx.decide(reason.span, "pipelined loops", "cp.async by all threads", str(reason))
        try:
            return _run(program, ctx, observer)
        except RacingUpdate as problem:
            if problem.place in racing:
                raise
            racing[problem.place] = problem
        except LoweringError as problem:
            if ctx.specialised:
                reason = problem
            elif ctx.deepened:
                deepen = False
            elif racing:  # nor as a reduction
                raise next(iter(racing.values())) from problem
            else:
                raise


def _run(program: TileProgram, ctx: PassContext, observer: Observer | None) -> TileProgram:
    from .matrix.problem import MatrixProblem

    try:
        for p in passes_for(ctx.target):
            program = p.apply(program, ctx)
            if observer is not None:
                observer(p, program)
    except MatrixProblem as problem:
        raise LoweringError(problem.message, problem.span, "matrix") from problem
    program.attrs["decisions"] = as_emitted(program, ctx)
    program.attrs["stages"] = dict(ctx.stages)
    program.attrs["layouts"] = [pair for state in ctx.launches.values() for known in (state.layouts, state.shared_layouts) for pair in known.items()]
    program.attrs["notes"] = [*program.attrs.get("notes", ()), *ctx.notes]
    return program
