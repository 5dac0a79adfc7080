"""Tensor memory. PTX ISA, tcgen05.alloc and tcgen05.mma; TileLang 0.1.15, src/cuda/transform/lower_shared_tmem.cc,
src/op/tcgen5_meta.h."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, GLOBAL, SHARED, SHARED_DYN, TMEM, Buffer, Region
from ...ir.build import const_int
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import OPAQUE, Access, Facts, Place, argument_span, thread_count
from ..registry import rule
from .gemm import GEMMS, Gemm, gemms, known, scope_name

LANES = 128
# what gives tensor memory its layout
LAYING = (*GEMMS, "gemm_blockscaled", "tcgen05_gemm_blockscaled", "tcgen05_gemm_sp", "tcgen05_cp_warpx4")


@rule("tmem-target", per_target=True)
def tmem_target(ctx: RuleContext):
    if ctx.target is None or ctx.target.kind != "cuda" or ctx.target.tcgen05:
        return
    for buffer in ctx.facts.allocations(TMEM):
        yield ctx.report(f"tensor memory exists on sm_100 only; {ctx.target.name} has none", buffer.span, buffer=buffer)


@rule("tmem-rank")
def tmem_rank(ctx: RuleContext):
    for buffer in ctx.facts.allocations(TMEM):
        if buffer.ndim < 2:
            yield ctx.report(
                f"{buffer.name} has {buffer.ndim} dimension; tensor memory is allocated as (lanes, columns)",
                buffer.span,
                buffer=buffer,
            )


def mma_operand(facts: Facts, buffer: Buffer) -> bool:
    """Whether an MMA gives the buffer its layout (or something unknown might)."""
    return any(
        a.kind == OPAQUE or (isinstance(a.stmt, TileOp) and a.stmt.op in LAYING)
        for a in facts.storage_uses.get(buffer, ())
    )


def _is_laid_out(ctx: RuleContext, buffer: Buffer) -> bool:
    """Whether the user says which lanes and columns the elements take (T.annotate_layout)."""
    return any(buffer in launch.attrs.get("layouts", ()) for launch in ctx.program.launches())


@rule("tmem-rows")
def tmem_rows(ctx: RuleContext):
    for buffer in ctx.facts.allocations(TMEM):
        rows = const_int(buffer.shape[0]) if buffer.ndim == 2 else None
        if rows is None or ctx.is_blamed(buffer) or _is_laid_out(ctx, buffer) or mma_operand(ctx.facts, buffer):
            continue  # what an MMA may have is tcgen05-shape's business: 96 rows are three times 32
        if rows > LANES:
            yield ctx.report(
                f"{buffer.name} has {rows} rows; tensor memory has {LANES} lanes", _row_span(buffer), buffer=buffer
            )
        elif rows not in (32, 64) and rows % LANES and not ctx.facts.is_opaque(buffer):
            yield ctx.report(
                f"{buffer.name} has {rows} rows; without an MMA that says how they are folded, tensor memory is used with 32, 64 or 128 lanes",
                _row_span(buffer),
                buffer=buffer,
            )


def _row_span(buffer: Buffer):
    return buffer.shape[0].span or buffer.span


# -- shapes of MMAs ------------------------------------------------------------------------------
def tcgen05_form(M: int, N: int, K: int, operand: str, accumulator: str, two_cta: bool) -> str | None:
    """Why no TCGEN05 instruction does a product; None if one does."""
    half = operand in ("float16", "bfloat16") and accumulator == "float32"
    small = operand in (*dtypes.FLOAT8, *dtypes.FLOAT6, *dtypes.FLOAT4) and accumulator in ("float32", "float16")
    integer = operand in ("int8", "uint8") and accumulator == "int32"
    if not (half or small or integer):
        return (
            f"TCGEN05 has no form {operand} -> {accumulator} (float16 and bfloat16 -> float32, 8-, 6- and 4-bit "
            "floats -> float32 or float16, int8 -> int32)"
        )
    step = 16 if half else 32
    if K % step:
        return f"K is {K}; TCGEN05 takes {operand} in steps of {step}"
    if two_cta:
        return (
            None
            if M % 64 == 0 and N % (32 if integer else 16) == 0
            else f"no two-CTA form for {M} rows and {N} columns"
        )
    if M % 128 == 0:
        return None if N % 16 == 0 else f"N is {N}; with 128 rows it must be a multiple of 16"
    if M not in (32, 64) and M % 32:
        return f"M is {M}; TCGEN05 takes multiples of 32 rows"
    if M % 64 == 0 and not half:
        return None if N % 8 == 0 else f"N is {N}; with {M} rows it must be a multiple of 8"
    if N % 64 == 0:
        return None
    return f"with {M} rows N must be 64, 128 or 256, not {N}"


@rule("tcgen05-shape")
def tcgen05_shape(ctx: RuleContext):
    for g in gemms(ctx):
        if (
            not g.is_tcgen05
            or g.M is None
            or g.N is None
            or g.K is None
            or g.M != g.M_A
            or g.K != g.K_B
            or not known(g.A.dtype, g.B.dtype, g.C.dtype)
        ):
            continue
        if ctx.is_blamed(g.A.buffer, g.B.buffer, g.C.buffer):
            continue
        two = g.op.args.get("use_2cta")
        if two not in (None, False, True, 0, 1) or (two and g.N_B is None):
            continue
        operand = g.B.dtype if g.A.buffer.scope == TMEM else g.A.dtype
        family = (*dtypes.FLOAT8, *dtypes.FLOAT6, *dtypes.FLOAT4)
        if (
            g.A.dtype != g.B.dtype
            and g.A.buffer.scope != TMEM
            and not (g.A.dtype in family and g.B.dtype in family)
            and {g.A.dtype, g.B.dtype} != {"int8", "uint8"}
        ):
            yield ctx.report(
                f"{g.name}: A is {g.A.dtype}, B is {g.B.dtype}; both operands must have one type",
                g.op.span,
                name="tcgen05-shape",
            )
            continue
        reason = tcgen05_form(g.M, g.N, g.K, operand, g.C.dtype, bool(two))
        if reason:
            yield ctx.report(f"{g.name}: {reason}", g.op.span, *_operands(g), buffer=g.C.buffer)


def _operands(g: Gemm):
    return [(f"{n}: {r.buffer.name}", r.buffer.span) for n, r in (("A", g.A), ("B", g.B), ("C", g.C))]


# -- access --------------------------------------------------------------------------------------
@rule("tmem-direct-access")
def tmem_direct(ctx: RuleContext):
    for buffer in ctx.facts.allocations(TMEM):
        for access in ctx.facts.storage_uses.get(buffer, ()):
            if access.kind == OPAQUE:
                continue
            if access.indices is not None:
                verb = "written" if access.kind == "write" else "read"
                how = (
                    "clear_accum=True starts an accumulation"
                    if verb == "written"
                    else "T.copy into a fragment reads it"
                )
                yield ctx.report(
                    f"{buffer.name} is in tensor memory, which cannot be {verb} element by element; {how}",
                    access.span,
                    (f"{buffer.name}", buffer.span),
                )
            elif isinstance(access.stmt, TileOp) and access.stmt.op in ("clear", "fill"):
                yield ctx.report(
                    f"T.{access.stmt.op} cannot write tensor memory ({buffer.name}); pass clear_accum=True to the "
                    "first MMA",
                    access.stmt.span,
                    (f"{buffer.name}", buffer.span),
                )


@rule("tmem-copy-destination", "tmem-copy-dtype", "tmem-unlaid", "tmem-warpgroup")
def tmem_copies(ctx: RuleContext):
    for place in ctx.facts.ops("copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if not (isinstance(src, Region) and isinstance(dst, Region)) or TMEM not in (
            src.buffer.scope,
            dst.buffer.scope,
        ):
            continue
        tmem, other, name = (src, dst, "src") if src.buffer.scope == TMEM else (dst, src, "dst")
        if ctx.is_blamed(tmem.buffer):
            continue
        if other.buffer.scope in (GLOBAL, SHARED, SHARED_DYN):
            way = (
                "to registers only; copy it to a fragment first"
                if name == "src"
                else "from registers only; copy to a fragment first"
            )
            yield ctx.report(
                f"tensor memory ({tmem.buffer.name}) is copied {way}, not {'to' if name == 'src' else 'from'} "
                f"{scope_name(other.buffer)}",
                argument_span(op, name),
                (f"{other.buffer.name}", other.buffer.span),
            )
            continue
        if other.buffer.scope != FRAGMENT:
            continue
        if known(src.dtype, dst.dtype) and src.dtype != dst.dtype:
            yield ctx.report(
                f"a copy between tensor memory and registers does not convert: {src.buffer.name} is {src.dtype}, "
                f"{dst.buffer.name} is {dst.dtype}",
                op.span,
                (f"{src.buffer.name}", src.buffer.span),
                (f"{dst.buffer.name}", dst.buffer.span),
                name="tmem-copy-dtype",
            )
            continue
        launch = place.launch
        layouts = launch.attrs.get("layouts") if launch is not None else None
        if not mma_operand(ctx.facts, tmem.buffer.storage()) and not layouts and not ctx.facts.has_unsupported:
            yield ctx.report(
                f"no MMA uses {tmem.buffer.name}, so its layout in tensor memory is not known",
                op.span,
                (f"{tmem.buffer.name}", tmem.buffer.span),
                name="tmem-unlaid",
            )
            continue
        threads = thread_count(launch)
        if threads is not None and threads % 128 and not place.is_thread_dependent():
            yield ctx.report(
                f"tensor memory is read and written by whole warpgroups of 128 threads; the block has {threads}",
                op.span,
                ("the launch", launch.attrs.get("spans", {}).get("threads") or launch.span if launch else None),
                name="tmem-warpgroup",
            )


@rule("tmem-dealloc")
def tmem_dealloc(ctx: RuleContext):
    released: dict[Buffer, Place] = {}
    for place in ctx.facts.ops("deallocate_tmem"):
        op = place.stmt
        region = op.args.get("buffer") if isinstance(op, TileOp) else None
        if not isinstance(region, Region):
            continue
        buffer = region.buffer.storage()
        if buffer.scope != TMEM:
            yield ctx.report(f"T.deallocate_tmem of {buffer.name}, which is in {scope_name(buffer)}", place.stmt.span)
            continue
        before = released.setdefault(buffer, place)
        if before is not place and before.parents == place.parents[: len(before.parents)]:
            yield ctx.report(
                f"{buffer.name} is given back a second time", place.stmt.span, ("the first time", before.stmt.span)
            )
        later = next((a for a in ctx.facts.storage_uses[buffer] if a.place.order > place.order and _is_use(a)), None)
        if later is not None and place.parents == later.place.parents[: len(place.parents)]:
            yield ctx.report(
                f"{buffer.name} is used after T.deallocate_tmem gave it back", later.span, ("given back here", place.stmt.span)
            )


def _is_use(access: Access) -> bool:
    return access.kind != OPAQUE and not (isinstance(access.stmt, TileOp) and access.stmt.op == "deallocate_tmem")


# -- MMAs ----------------------------------------------------------------------------------------
def barrier_sources(facts: Facts, barrier: Buffer) -> bool:
    """Whether anything in the kernel may complete a phase of the barrier."""
    for access in facts.storage_uses.get(barrier, ()):
        if access.kind == OPAQUE or (
            isinstance(access.stmt, TileOp) and access.stmt.op not in ("mbarrier_wait_parity",)
        ):
            return True
    return False


@rule("tcgen05-mbar")
def tcgen05_mbar(ctx: RuleContext):
    if ctx.program.attrs.get("ws_schedules"):  # the schedule brings the barriers
        return
    dead = _dead_waits(ctx)
    for g in gemms(ctx):
        if not g.is_tcgen05 or g.op.args.get("mbar") is not None or ctx.is_blamed(g.C.buffer):
            continue
        if g.op.op == "gemm":
            yield ctx.report(
                f"T.gemm into tensor memory ({g.C.buffer.name}) needs mbar=, the barrier its completion arrives on",
                g.op.span,
                (f"{g.C.buffer.name}", g.C.buffer.span),
            )
        elif "mbar" not in g.op.arg_spans:
            yield ctx.report(
                "T.tcgen05_gemm needs mbar=, the barrier its completion arrives on (mbar=None leaves it to a later "
                "MMA)",
                g.op.span,
            )
        elif dead:
            yield ctx.report(
                "mbar=None: the completion of this MMA arrives nowhere, and the wait below never ends",
                g.op.span,
                ("the wait", dead[0]),
            )


def _dead_waits(ctx: RuleContext):
    """Waits on barriers that nothing completes."""
    found = []
    for place in ctx.facts.ops("mbarrier_wait_parity"):
        region = place.stmt.args.get("mbar") if isinstance(place.stmt, TileOp) else None
        if (
            isinstance(region, Region)
            and not ctx.facts.has_unsupported
            and not barrier_sources(ctx.facts, region.buffer.storage())
        ):
            found.append(place.stmt.span)
    return found


@rule("tmem-warpgroup")
def tcgen05_warps(ctx: RuleContext):
    for g in gemms(ctx):
        threads = thread_count(g.place.launch)
        if g.is_tcgen05 and threads is not None and threads % 32 and not g.place.is_thread_dependent():
            yield ctx.report(
                f"{g.name} into tensor memory is issued by whole warps; the block has {threads} threads", g.op.span
            )
