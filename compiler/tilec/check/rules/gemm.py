"""Matrix products. Conditions: TileLang 0.1.15, language/gemm_op.py, src/cuda/op/gemm.cc, mma_macro_generator.py;
PTX ISA, mma and wgmma."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, SHARED, SHARED_DYN, TMEM, Buffer, Region
from ...ir.build import const_int
from ...ir.expr import Unknown
from ...ir.stmt import TileOp
from ...records import dataclass
from ..context import RuleContext
from ..facts import Place, argument_span, is_runtime, thread_count
from ..registry import rule

GEMMS = ("gemm", "tcgen05_gemm", "wgmma_gemm")
SHARED_SCOPES = (SHARED, SHARED_DYN)
FP8 = ("float8_e4m3fn", "float8_e5m2")
SUB_BYTE_FLOAT = (*dtypes.FLOAT6, "float4_e2m1fn")
# operand type -> accumulator types of mma.sync (tl_templates/cuda/instruction/mma.h)
ACCUMULATORS = {
    "float16": ("float16", "float32"),
    "bfloat16": ("float32",),
    "int8": ("int32",),
    "uint8": ("int32",),
    "int4": ("int32",),
    "uint4": ("int32",),
    "float32": ("float32",),
    "tfloat32": ("float32",),
    "float64": ("float64",),
    "float8_e4m3fn": ("float16", "float32"),
    "float8_e5m2": ("float16", "float32"),
}
NO_MATRIX_TYPE = ("int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "float4_e2m1fn", *dtypes.FLOAT6)
# the smallest k of a whole instruction below 256 bits a row
SHORT_K = {"float16": (8,)}


@dataclass(frozen=True)
class Gemm:
    """The sizes of one call; None where not literal."""

    place: Place
    op: TileOp
    A: Region
    B: Region
    C: Region
    M: int | None
    N: int | None
    K: int | None
    N_B: int | None
    K_B: int | None
    M_A: int | None

    @property
    def name(self) -> str:
        return f"T.{self.op.op}"

    @property
    def is_tcgen05(self) -> bool:
        return self.C.buffer.scope == TMEM


def gemms(ctx: RuleContext) -> list[Gemm]:
    """The calls whose operands are matrices and whose transposition is known."""
    return ctx.facts.remembered("gemms", lambda: _find_gemms(ctx))


def _find_gemms(ctx: RuleContext) -> list[Gemm]:
    found = []
    for place in ctx.facts.ops(*GEMMS):
        op = place.stmt
        assert isinstance(op, TileOp)
        A, B, C = op.args["A"], op.args["B"], op.args["C"]
        flags = (op.args.get("transpose_A"), op.args.get("transpose_B"))
        if not all(isinstance(r, Region) and len(r.extents) >= 2 for r in (A, B, C)) or not all(
            isinstance(f, (bool, int)) for f in flags
        ):
            continue
        a, b, c = ([const_int(e) for e in r.extents[-2:]] for r in (A, B, C))
        M_A, K = (a[1], a[0]) if flags[0] else (a[0], a[1])
        K_B, N_B = (b[1], b[0]) if flags[1] else (b[0], b[1])
        if 1 in (c[0], c[1], K) and ctx.program.attrs.get("origin") in ("unknown", "defaults"):
            continue  # a default of 1 is a placeholder that callers replace
        found.append(Gemm(place, op, A, B, C, c[0], c[1], K, N_B, K_B, M_A))
    return found


def size(region: Region) -> str:
    return "x".join(str(const_int(e)) if const_int(e) is not None else "?" for e in region.extents)


@rule("gemm-rank")
def gemm_rank(ctx: RuleContext):
    for place in ctx.facts.ops(*GEMMS):
        op = place.stmt
        assert isinstance(op, TileOp)
        for name in ("A", "B", "C"):
            region = op.args[name]
            if not isinstance(region, Region) or ctx.is_blamed(region.buffer):
                continue
            leading = [const_int(e) for e in region.extents[:-2]]
            if len(region.extents) < 2:
                yield ctx.report(
                    f"T.{op.op}: operand {name} ({region.buffer.name}) has one dimension; it must be a matrix",
                    argument_span(op, name),
                    buffer=region.buffer,
                )
                break
            if any(e is not None and e != 1 for e in leading):
                yield ctx.report(
                    f"T.{op.op} is not batched: operand {name} ({region.buffer.name}) is {size(region)}; "
                    "all but the last two extents must be 1",
                    argument_span(op, name),
                )
                break


@rule("gemm-operand-scope")
def gemm_scope(ctx: RuleContext):
    for place in ctx.facts.ops(*GEMMS):
        op = place.stmt
        assert isinstance(op, TileOp)
        C = op.args["C"]
        tmem = isinstance(C, Region) and C.buffer.scope == TMEM
        allowed = {
            "A": (*SHARED_SCOPES, TMEM if tmem else FRAGMENT),
            "B": (*SHARED_SCOPES, *(() if tmem or op.op == "wgmma_gemm" else (FRAGMENT,))),
            "C": {"gemm": (FRAGMENT, TMEM), "tcgen05_gemm": (TMEM,), "wgmma_gemm": (FRAGMENT,)}[op.op],
        }
        for name in ("A", "B", "C"):
            region = op.args[name]
            if not isinstance(region, Region) or region.buffer.scope in allowed[name] or ctx.is_blamed(region.buffer):
                continue
            if name != "C" and op.op == "tcgen05_gemm" and not tmem:
                continue  # C is the fault
            wanted = {
                "A": "shared memory or " + ("tensor memory" if tmem else "a fragment"),
                "B": "shared memory" + ("" if tmem or op.op == "wgmma_gemm" else " or a fragment"),
                "C": {
                    "gemm": "a fragment (or tensor memory on sm_100)",
                    "tcgen05_gemm": "tensor memory (T.alloc_tmem)",
                    "wgmma_gemm": "a fragment",
                }[op.op],
            }[name]
            yield ctx.report(
                f"T.{op.op}: operand {name} ({region.buffer.name}) is in {scope_name(region.buffer)}; it must be in "
                f"{wanted}",
                argument_span(op, name),
                (f"{region.buffer.name}", region.buffer.span),
                buffer=region.buffer,
            )
            break


@rule("gemm-static-dims")
def gemm_static(ctx: RuleContext):
    for g in gemms(ctx):
        if ctx.is_blamed(g.A.buffer, g.B.buffer, g.C.buffer):
            continue
        extents = {
            "M": g.C.extents[-2],
            "N": g.C.extents[-1],
            "K": g.A.extents[-2 if g.op.args.get("transpose_A") else -1],
        }
        bad = next((n for n, e in extents.items() if is_runtime(e)), None)
        if bad:
            yield ctx.report(
                f"{g.name}: {bad} is known at run time only; tile extents must be compile-time constants", g.op.span
            )


@rule("gemm-shape")
def gemm_shape(ctx: RuleContext):
    for g in gemms(ctx):
        if ctx.is_blamed(g.A.buffer, g.B.buffer, g.C.buffer):
            continue
        halved = g.op.args.get("use_2cta")
        if isinstance(halved, Unknown) or halved not in (None, False, 0, True, 1):
            continue
        pairs = [("K", g.K, g.K_B, "A", "B"), ("M", g.M_A, g.M, "A", "C"), ("N", g.N_B, g.N, "B", "C")]
        for letter, x, y, first, second in pairs:
            if x is None or y is None or (x * 2 if letter == "N" and halved else x) == y:
                continue
            one, two = g.op.region(first), g.op.region(second)
            flags = "".join(f", transpose_{n}" for n in "AB" if g.op.args.get(f"transpose_{n}"))
            extra = " (with use_2cta each block holds half of B)" if letter == "N" and halved else ""
            yield ctx.report(
                f"{g.name}: {first} is {size(one)}, {second} is {size(two)}{flags}: {letter} differs ({x} and "
                f"{y}){extra}",
                g.op.span,
                (f"{first}: {one.buffer.name}", one.buffer.span),
                (f"{second}: {two.buffer.name}", two.buffer.span),
            )
            break


def scope_name(buffer: Buffer) -> str:
    return {
        "global": "global memory",
        "shared": "static shared memory",
        "shared.dyn": "shared memory",
        "local.fragment": "a fragment",
        "local": "a thread's own array (T.alloc_local)",
        "local.var": "a scalar variable",
        "shared.tmem": "tensor memory",
        "shared.barrier": "barriers",
    }.get(buffer.scope, buffer.scope)


def known(*names: str) -> bool:
    return dtypes.UNKNOWN not in names


@rule("gemm-dtype")
def gemm_dtype(ctx: RuleContext):
    """Types of warp-level and warpgroup-level products; those of TCGEN05 are in the tensor memory family."""
    for g in gemms(ctx):
        a, b, c = g.A.dtype, g.B.dtype, g.C.dtype
        if g.C.buffer.scope != FRAGMENT or not known(a, b, c) or ctx.is_blamed(g.A.buffer, g.B.buffer, g.C.buffer):
            continue
        message = None
        if a in NO_MATRIX_TYPE or b in NO_MATRIX_TYPE:
            bad = a if a in NO_MATRIX_TYPE else b
            hint = (
                " with a fragment accumulator; use TCGEN05 (an accumulator in tensor memory)"
                if bad in SUB_BYTE_FLOAT
                else ""
            )
            message = f"{g.name}: no matrix instruction multiplies {bad}{hint}"
        elif a != b and {a, b} != {"int8", "uint8"}:
            message = f"{g.name}: A is {a}, B is {b}; both operands must have one type"
        elif a == b and a in ACCUMULATORS and c not in ACCUMULATORS[a]:
            message = (
                f"{g.name}: no matrix instruction accumulates {a} products in {c}; use {' or '.join(ACCUMULATORS[a])}"
            )
        if message:
            yield ctx.report(
                message, g.op.span, *((f"{r.buffer.name}: {r.dtype}", r.buffer.span) for r in (g.A, g.B, g.C))
            )


@rule("gemm-dtype-target", per_target=True)
def gemm_dtype_target(ctx: RuleContext):
    target = ctx.target
    for g in gemms(ctx):
        if target and target.kind == "cuda" and not target.fp8 and g.C.buffer.scope == FRAGMENT and g.A.dtype in FP8:
            yield ctx.report(
                f"{g.name} of {g.A.dtype}: {target.name} has no FP8 matrix instructions (sm_89 and later have); the "
                "kernel traps",
                g.op.span,
            )


@rule("gemm-k-granularity")
def gemm_k(ctx: RuleContext):
    for g in gemms(ctx):
        a = g.A.dtype
        if (
            g.C.buffer.scope != FRAGMENT
            or g.K is None
            or a not in ACCUMULATORS
            or g.K != g.K_B
            or a != g.B.dtype
            or g.K < 1
        ):
            continue
        step = 256 // dtypes.bits(a)
        if g.K % step == 0 or g.K in SHORT_K.get(a, ()):
            continue
        alone = f" (or {SHORT_K[a][0]} alone)" if a in SHORT_K else ""
        yield ctx.report(
            f"{g.name}: K is {g.K}; matrix instructions of {a} take K in steps of {step}{alone}",
            g.op.span,
            (f"A: {g.A.buffer.name}", g.A.buffer.span),
            (f"B: {g.B.buffer.name}", g.B.buffer.span),
        )


def partitions(M: int, N: int, warps: int, rows: int = 16, columns: int = 8) -> list[tuple[int, int]]:
    """The ways to lay warps over a tile: each warp a multiple of 16 rows and 8 columns. Policies choose among these."""
    return [
        (m, warps // m)
        for m in range(1, min(warps, M // rows) + 1)
        if warps % m == 0 and M % (m * rows) == 0 and N % (warps // m * columns) == 0
    ]


@rule("gemm-warp-partition")
def gemm_partition(ctx: RuleContext):
    for g in gemms(ctx):
        if g.C.buffer.scope != FRAGMENT or g.M is None or g.N is None or g.M != g.M_A or g.N != g.N_B:
            continue
        related = ((f"C: {g.C.buffer.name}", g.C.buffer.span),)
        if g.M % 16 or g.N % 8:
            side = f"M is {g.M}, no multiple of 16" if g.M % 16 else f"N is {g.N}, no multiple of 8"
            yield ctx.report(
                f"{g.name}: {side}; matrix instructions work on 16 rows and 8 columns", g.op.span, *related
            )
            continue
        threads = thread_count(g.place.launch)
        if threads is None or threads < 1 or g.place.is_thread_dependent():
            continue
        launch = g.place.launch
        assert launch is not None
        if threads % 32:
            yield ctx.report(
                f"{g.name} in a block of {threads} threads: matrix instructions need whole warps of 32",
                g.op.span,
                ("the launch", launch.attrs.get("spans", {}).get("threads") or launch.span),
            )
        elif not partitions(g.M, g.N, threads // 32):
            good = [w * 32 for w in range(1, 33) if partitions(g.M, g.N, w)]
            hint = f"; {', '.join(map(str, good[-4:]))} threads would do" if good else ""
            yield ctx.report(
                f"{g.name}: {threads // 32} warps cannot share out {g.M} rows and {g.N} columns (each takes "
                "multiples of 16 rows and 8 "
                f"columns){hint}",
                g.op.span,
                ("the launch", launch.attrs.get("spans", {}).get("threads") or launch.span),
            )
