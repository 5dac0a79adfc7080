"""Thread programs as CUDA text: what is printed, and that nvcc accepts it for every family of chips."""
from __future__ import annotations

import re
from dataclasses import replace

import pytest
from emit_support import for_target, prim
from tilec.build.nvcc import compile_source, find_nvcc
from tilec.emit.cuda import emit_cuda
from tilec.ir import dtypes
from tilec.ir.buffer import GLOBAL, LOCAL, SHARED_DYN, Buffer
from tilec.ir.build import binary, cast, const, select
from tilec.ir.expr import Call, Load, Var
from tilec.ir.program import TileProgram
from tilec.ir.stmt import Alloc, Evaluate, For, If, Jump, Launch, Store, While
from tilec.pipeline import compile_program
from tilec.source.span import Span
from tilec.target.chips import find
from tilec.transform.errors import LoweringError

TARGETS = ("sm_80", "sm_90a", "sm_100a")
nvcc = [pytest.mark.nvcc, pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")]


def line(n: int) -> Span:
    return Span("kernel.py", n, 1, n, 20)


def add_program(dtype: str = "float16", n: int = 4096, vector: int = 8) -> TileProgram:
    """C = A + B through shared memory, eight elements a thread, as lowering would leave it."""
    a, b, c = (Buffer(name, (const(n),), dtype, GLOBAL) for name in "ABC")
    tile = Buffer("tile", (const(128 * vector),), dtype, SHARED_DYN, attrs={"byte_offset": 0})
    bx, tx, v, w = (Var("int32", None, name, kind) for name, kind in (("bx", "block"), ("tx", "thread"), ("v", "loop"), ("w", "loop")))
    place, own = bx * (128 * vector) + tx * vector, tx * vector
    copy = Store(line(3), tile, (own + v,), Load(dtype, None, a, (place + v,)))
    total = binary("add", Load(dtype, None, tile, (own + w,)), Load(dtype, None, b, (place + w,)))
    body = (Alloc(line(2), tile), For(line(3), v, const(0), const(vector), (copy,), "vectorized"),
            Evaluate(line(4), Call("void", None, "sync_threads", ())),
            For(line(5), w, const(0), const(vector), (Store(line(5), c, (place + w,), total),), "vectorized"))
    launch = Launch(line(1), (const(n // (128 * vector)),), (bx,), (const(128), const(1), const(1)), body,
                    {"thread_vars": (tx, Var("int32", None, "ty", "thread"), Var("int32", None, "tz", "thread")), "shared_bytes": 128 * vector * dtypes.bits(dtype) // 8})
    return TileProgram("add", [a, b, c], (launch,), line(1), path="kernel.py")


def test_text_uses_the_names_of_the_program_and_wide_accesses():
    module = emit_cuda(add_program(), find("sm_80"))
    assert 'extern "C" __global__ void __launch_bounds__(128) add_kernel(' in module.text
    assert "__half* __restrict__ C" in module.text and "const __half* __restrict__ A" in module.text
    assert module.text.count("uint4") >= 6  # copy in: load and store; sum: two loads, one store
    assert "__syncthreads();" in module.text
    spec = module.kernels[0]
    assert (spec.name, [p.name for p in spec.arguments], spec.block, spec.shared_bytes) == ("add_kernel", ["A", "B", "C"], (128, 1, 1), 2048)


def test_every_line_of_a_statement_knows_its_place():
    module = emit_cuda(add_program(), find("sm_80"))
    lines = module.text.splitlines()
    assert len(lines) == len(module.lines)
    places = {text.strip(): span.line for text, span in zip(lines, module.lines) if span is not None}
    assert places["__syncthreads();"] == 4
    assert any(place == 3 for text, place in places.items() if "uint4" in text)
    assert all(place == 5 for text, place in places.items() if "&C[" in text)


@pytest.mark.parametrize("dtype, vector", [("float16", 8), ("bfloat16", 8), ("float32", 4), ("int8", 16), ("uint8", 16), ("float8_e4m3fn", 16),
                                           ("float8_e5m2", 16), ("int32", 4), ("float64", 2), ("int64", 2), ("int16", 8)])
@pytest.mark.parametrize("target", [pytest.param(t, marks=nvcc) for t in TARGETS[:2]])
def test_vector_accesses_of_every_type_assemble(target, dtype, vector):
    if "float8" in dtype and target == "sm_80":
        target = "sm_89"
    module = emit_cuda(add_program(dtype, vector=vector), find(target))
    ptx = compile_source(module.text, find(target), "ptx").data.decode()
    assert len(re.findall(r"ld\.global(?:\.nc)?\.v[24]", ptx)) == 2 and len(re.findall(r"st\.global\.v[24]", ptx)) == 1, ptx
    assert re.search(r"st\.shared\.v[24]", ptx) and re.search(r"ld\.shared\.v[24]", ptx), ptx
    assert compile_source(module.text, find(target)).resources["add_kernel"].spill_bytes == 0


SCALAR_TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn",
                "float8_e5m2")


def elementwise(expressions, dtype: str, result: str | None = None) -> TileProgram:
    """One store per expression of x = A[tx], y = B[tx]."""
    result = result or dtype
    a, b = Buffer("A", (const(32),), dtype, GLOBAL), Buffer("B", (const(32),), dtype, GLOBAL)
    tx = Var("int32", None, "tx", "thread")
    x, y = Load(dtype, None, a, (tx,)), Load(dtype, None, b, (tx,))
    values = [e(x, y) for e in expressions]
    out = Buffer("OUT", (const(len(values)), const(32)), result, GLOBAL)
    body = tuple(Store(line(n + 2), out, (const(n), tx), cast(value, result)) for n, value in enumerate(values))
    launch = Launch(line(1), (const(1),), (Var("int32", None, "bx", "block"),), (const(32), const(1), const(1)), body,
                    {"thread_vars": (tx, Var("int32", None, "ty", "thread"), Var("int32", None, "tz", "thread"))})
    return TileProgram("scalars", [a, b, out], (launch,), line(1))


@pytest.mark.parametrize("target", [pytest.param(t, marks=nvcc) for t in TARGETS])
def test_casts_between_all_types_assemble(target):
    if target == "sm_80":
        target = "sm_89"
    text = ""
    for source in SCALAR_TYPES:
        for to in SCALAR_TYPES:
            program = replace(elementwise([lambda x, y, to=to: cast(x, to)], source, to), name=f"cast_{source}_{to}")
            module = emit_cuda(program, find(target))
            text += module.text
    assert len(compile_source(text, find(target)).resources) == len(SCALAR_TYPES) ** 2


UNARY = ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh",
         "acosh", "atanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint", "abs")
FAST = ("__exp", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos", "__tan", "ieee_fsqrt", "ieee_frcp", "ieee_frsqrt")
BINARY_CALLS = ("pow", "fmod", "atan2", "hypot", "copysign")
ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max")
BITS = ("bitand", "bitor", "bitxor", "shl", "shr")


def _operations(dtype: str):
    is_float = "float" in dtype
    arithmetic = [op for op in ARITHMETIC if not (is_float and op.startswith("trunc")) and not (not is_float and op == "div")]
    found = [lambda x, y, op=op: binary(op, x, y) for op in arithmetic + ([] if is_float else list(BITS))]
    found += [lambda x, y, op=op: select(binary(op, x, y), x, y) for op in ("lt", "le", "gt", "ge", "eq", "ne")]
    found.append(lambda x, y: select(binary("and", binary("lt", x, y), binary("or", binary("gt", x, y), binary("eq", x, x))), x, y))
    if is_float:
        found += [lambda x, y, f=f: Call(dtype, None, f, (x,)) for f in UNARY + (FAST if dtype == "float32" else ())]
        found += [lambda x, y, f=f: Call(dtype, None, f, (x, y)) for f in BINARY_CALLS]
        found += [lambda x, y, f=f: select(Call("bool", None, f, (x,)), x, y) for f in ("isnan", "isinf", "isfinite")]
        found += [lambda x, y, v=v: binary("add", x, const(v, dtype)) for v in (float("inf"), float("-inf"), float("nan"), 0.1, -3e-5, 1e30)]
    return found


@pytest.mark.parametrize("target", [pytest.param(t, marks=nvcc) for t in TARGETS])
def test_operations_of_all_types_assemble(target):
    if target == "sm_80":
        target = "sm_89"
    text, count = "", 0
    for dtype in SCALAR_TYPES[1:]:
        program = replace(elementwise(_operations(dtype), dtype), name=f"operations_{dtype}")
        text += emit_cuda(program, find(target)).text
        count += 1
    text = _without_repeated_functions(text)
    assert len(compile_source(text, find(target)).resources) == count


def _without_repeated_functions(text: str) -> str:
    """Helper templates once, when the texts of several modules are joined."""
    seen: set[str] = set()

    def keep(match: re.Match) -> str:
        first = match.group(0) not in seen
        seen.add(match.group(0))
        return match.group(0) if first else ""

    return re.sub(r"template <class T.*?\n}\n", keep, text, flags=re.S)


@pytest.mark.parametrize("target", [pytest.param(t, marks=nvcc) for t in TARGETS[:1]])
def test_control_flow_and_register_arrays_assemble(target):
    made = prim('A: T.Tensor((64,), "int32")', """
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding(0)
            r = T.alloc_local((4,), "int32")
            n = T.alloc_var("int32")
            n = 0
            for i in T.unroll(4):
                r[i] = A[bx * 32 + tx] + i
            while n < 10:
                n = n + r[n % 4] // 3
                if n == 7:
                    break
            for i in T.serial(2, 8, 3):
                if i == 5:
                    continue
                n = n - i
            A[bx * 32 + tx] = n
    """)
    module = emit_cuda(made, find(target))
    assert "#pragma unroll" in module.text and "while (" in module.text and "break;" in module.text and "continue;" in module.text
    assert "i += 3" in module.text or re.search(r"i_\d+ \+= 3", module.text)
    assert compile_source(module.text, find(target)).resources["kernel_kernel"].stack_bytes >= 0


@pytest.mark.parametrize("target", [pytest.param("sm_90a", marks=nvcc)])
def test_dynamic_extents_strides_clusters_and_device_functions(target):
    n, s = Var("int32", None, "n", "dynamic"), Var("int32", None, "s", "dynamic")
    a = Buffer("A", (n, const(8)), "float32", GLOBAL, strides=(s, const(1)))
    tx, bx = Var("int32", None, "tx", "thread"), Var("int32", None, "bx", "block")
    source = "__device__ __forceinline__ float twice(const float* p) {\n  return *p * 2.0f;\n}\n"
    index = bx * 8 + tx
    value = Call("float32", None, "device_function", (Call("handle", None, "address_of", (Load("float32", None, a, (index, const(3))),)),),
                 {"name": "twice", "source": source})
    body = (If(line(2), binary("lt", index, n), (Store(line(3), a, (index, const(3)), value), Store(line(4), a, (index, const(4)), value))),)
    launch = Launch(line(1), (n + 7,), (bx,), (const(8), const(1), const(1)), body, {"thread_vars": (tx,), "cluster_dims": (2, 1, 1), "min_blocks_per_sm": 2})
    program = TileProgram("strided", [a], (launch,), line(1), dynamic=[n, s])
    module = emit_cuda(program, find(target))
    assert module.text.count("twice(const float* p) {") == 1
    assert "__launch_bounds__(8, 2)" in module.text and "__cluster_dims__(2, 1, 1)" in module.text
    assert [p.name for p in module.kernels[0].arguments] == ["A", "n", "s"]
    compile_source(module.text, find(target))


def test_large_tensors_are_indexed_with_64_bits():
    a = Buffer("A", (const(70000), const(70000)), "float16", GLOBAL)
    tx = Var("int32", None, "tx", "thread")
    body = (Store(line(2), a, (tx, tx), const(1.0, "float16")),)
    launch = Launch(line(1), (const(1),), (Var("int32", None, "bx", "block"),), (const(128), const(1), const(1)), body, {"thread_vars": (tx,)})
    assert "static_cast<long long>(tx) * 70000LL" in emit_cuda(TileProgram("k", [a], (launch,)), find("sm_80")).text


def test_names_that_cuda_reserves_are_changed():
    a = Buffer("float", (const(32),), "float32", GLOBAL)
    tx = Var("int32", None, "threadIdx", "thread")
    body = (Store(line(2), a, (tx,), const(1.0)),)
    launch = Launch(line(1), (const(1),), (Var("int32", None, "bx", "block"),), (const(32), const(1), const(1)), body, {"thread_vars": (tx,)})
    text = emit_cuda(TileProgram("k", [a], (launch,)), find("sm_80")).text
    assert "float* __restrict__ v_float" in text and "const int v_threadIdx = threadIdx.x;" in text


def test_what_cuda_cannot_express_is_told_with_its_place():
    a = Buffer("A", (const(32),), "float32", GLOBAL)
    tx = Var("int32", None, "tx", "thread")
    body = (Store(line(7), a, (tx,), Call("float32", line(7), "no_such_function", (const(1.0),))),)
    launch = Launch(line(1), (const(1),), (Var("int32", None, "bx", "block"),), (const(32), const(1), const(1)), body, {"thread_vars": (tx,)})
    with pytest.raises(LoweringError, match="no_such_function") as caught:
        emit_cuda(TileProgram("k", [a], (launch,)), find("sm_80"))
    assert caught.value.span.line == 7


def test_while_and_jump_are_printed_as_such():
    a = Buffer("A", (const(1),), "int32", GLOBAL)
    r = Buffer("r", (const(1),), "int32", LOCAL)
    load = Load("int32", None, r, (const(0),))
    body = (Alloc(line(2), r), Store(line(3), r, (const(0),), const(0)),
            While(line(4), binary("lt", load, const(5)), (Store(line(5), r, (const(0),), load + 1), If(line(6), binary("eq", load, const(3)), (Jump(line(6), "break"),)))),
            Store(line(7), a, (const(0),), load))
    launch = Launch(line(1), (const(1),), (Var("int32", None, "bx", "block"),), (const(1), const(1), const(1)), body)
    text = emit_cuda(TileProgram("k", [a], (launch,)), find("sm_80")).text
    assert re.search(r"while \(r\[0\] < 5\) \{\n    r\[0\] = r\[0\] \+ 1;\n    if \(r\[0\] == 3\) \{\n      break;", text), text


def test_the_alignment_that_wide_accesses_need_is_told():
    made = prim("A: T.Tensor((1024,), 'float16'), B: T.Tensor((1024,), 'float16'), C: T.Tensor((1024,), 'float16')", """
    with T.Kernel(2, threads=64) as b:
        for i in T.Parallel(512):
            B[b * 512 + i] = A[b * 512 + i]
        for i in T.Parallel(64):
            C[i * 16] = A[i]
    """)
    spec = compile_program(made, find("sm_80")).cuda().kernels[0]
    assert {p.name: size for p, size in spec.alignment.items()} == {"A": 16, "B": 16}


def test_indices_of_large_tensors_are_computed_in_64_bits():
    made = prim("A: T.Tensor((4294967296,), 'int8')", """
    with T.Kernel(4294967296 // 1024, threads=128) as b:
        for i in T.Parallel(1024):
            A[b * 1024 + i] = 1
    """)
    text = compile_program(made, find("sm_90a")).text("cuda")
    assert "static_cast<long long>(bx) * 1024LL" in text or "static_cast<long long>(b) * 1024LL" in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("index", ["t // 16 + j * 16", "I[j]", "(n + j) % 64"])
def test_16_bit_floats_of_a_thread_are_never_stored_by_bytes(dtype, index):
    """ptxas 13.0 stores the lower byte of such a float as a whole number."""
    made = for_target(prim(f"A: T.Tensor((256, 32), '{dtype}'), B: T.Tensor((256, 64), '{dtype}'), I: T.Tensor((64,), 'int32'), n: T.int32", f"""
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        r = T.alloc_local((64,), '{dtype}')
        for i in T.serial(64):
            r[i] = T.cast(0, '{dtype}')
        for j in T.serial(4):
            for k in T.serial(8):
                r[{index}] = T.max(r[{index}], A[t, j * 8 + k])
        for i in T.serial(64):
            B[t, i] = r[i]
    """), "sm_90a")
    assert "local.u8" not in made.text("ptx")


def test_a_place_told_as_quotient_and_remainder_is_one_number_where_it_is_read():
    """Swizzled tiles: two halves of one number cost an address for each access; three parts of it come together as well."""
    from tilec.emit.cuda.expressions import joined

    x = Var("int32", None, "x", "thread")
    whole = x * 8 + 3
    pair = (const(1), binary("floordiv", whole, const(256)), binary("floormod", x * 8 + 3, const(256)))
    indices, strides = joined(pair, (const(8192), const(256), const(1)))
    assert [i is e for i, e in zip(indices, (pair[0], pair[2].a))] == [True, True] and [s.value for s in strides] == [8192, 1]
    rest = binary("floordiv", whole, const(4))
    parts = (binary("floordiv", rest, const(8)), binary("floormod", rest, const(8)), binary("floormod", whole, const(4)))
    assert joined(parts, (const(32), const(4), const(1)))[0] == (whole,)


@pytest.mark.parametrize("high, low, strides", [(256, 128, (256, 1)), (256, 256, (512, 1)), (256, 256, (256, 2)), (128, 256, (256, 1))])
def test_quotients_and_remainders_of_other_numbers_stay(high, low, strides):
    from tilec.emit.cuda.expressions import joined

    x = Var("int32", None, "x", "thread")
    indices = (binary("floordiv", x, const(high)), binary("floormod", x, const(low)))
    assert joined(indices, tuple(map(const, strides)))[0] == indices
    other = (binary("floordiv", x, const(256)), binary("floormod", x + 1, const(256)))
    assert joined(other, (const(256), const(1)))[0] == other
