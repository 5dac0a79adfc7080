"""Data types: names, operands, accumulators."""

from __future__ import annotations

import ast

from seed import Mutation, Seed

from . import one, operator
from .python import last_statement

WRONG_NAMES = ("fp16", "half", "double", "float_32", "bf16", "f32", "int")


def type_strings(seed: Seed):
    """String constants that are data types, with their statements."""
    known = ("float16", "bfloat16", "float32", "int32", "int8", "uint8")
    for n in ast.walk(seed.tree):
        if isinstance(n, ast.Constant) and n.value in known:
            yield n


def whole_head(seed: Seed, node) -> tuple[str, ...]:
    """The names a default of a factory's parameter is used under."""
    for f in seed.statements(ast.FunctionDef):
        assert isinstance(f, ast.FunctionDef)
        named = f.args.args[len(f.args.args) - len(f.args.defaults) :]
        for a, d in zip(named, f.args.defaults):
            if d is node:
                return (a.arg,)
    s = seed.statement(node)
    if isinstance(s, ast.Assign) and s.value is node and isinstance(s.targets[0], ast.Name):
        return (s.targets[0].id,)
    return ()


def parameter_lines(seed: Seed, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Parameters annotated with one of the names."""
    return tuple(
        seed.span(a) for f in seed.statements(ast.FunctionDef) for a in f.args.args  # type: ignore[attr-defined]
        if a.annotation is not None and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(a.annotation))
    )  # fmt: skip


@operator("types")
def no_such_type(seed: Seed):
    for n in type_strings(seed):
        for text in WRONG_NAMES:
            names = whole_head(seed, n)
            yield Mutation((seed.replace(n, repr(text)),), (seed.place(n), seed.span(n), *parameter_lines(seed, names)), names)


@operator("types")
def no_such_type_attribute(seed: Seed):
    for n in ast.walk(seed.tree):
        if isinstance(n, ast.Attribute) and n.attr in ("float16", "float32", "int32") and seed.source(n.value) == "T":
            s = seed.statement(n)
            names = (s.targets[0].id,) if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) else ()
            for text in ("T.fp16", "T.double", "T.float_32"):
                yield one(seed, n, seed.replace(n, text), follow=names)


@operator("types")
def operands_of_two_types(seed: Seed):
    """One operand of a product gets another type than the other."""
    for call in seed.calls("gemm", "wgmma_gemm", "tcgen05_gemm"):
        for name, allocation in seed.allocations("shared", "fragment"):
            if any(isinstance(a, ast.Name) and a.id == name for a in call.args[:2]) and len(allocation.args) > 1:
                for dtype in ('"float16"', '"bfloat16"', '"int8"', '"float32"'):
                    yield one(seed, call, seed.replace(allocation.args[1], dtype), follow=(name,))


@operator("types")
def accumulator_of_another_type(seed: Seed):
    for call in seed.calls("gemm", "wgmma_gemm", "tcgen05_gemm"):
        for name, allocation in seed.allocations("fragment", "tmem"):
            if isinstance(call.args[2], ast.Name) and call.args[2].id == name:
                for dtype in ('"int32"', '"int8"', '"float64"', '"bfloat16"', '"uint8"'):
                    yield one(seed, call, seed.replace(allocation.args[1], dtype), follow=(name,))


@operator("types")
def operands_without_instruction(seed: Seed):
    """The type of a whole kernel, where matrix instructions do not exist for it."""
    if not seed.calls("gemm", "wgmma_gemm", "tcgen05_gemm"):
        return
    for n in type_strings(seed):
        names = whole_head(seed, n)
        if names in (("dtype",), ("in_dtype",)):
            uses = tuple(seed.place(c) for c in seed.calls("gemm", "wgmma_gemm", "tcgen05_gemm"))
            for text in ('"int16"', '"int32"', '"uint16"', '"bool"'):
                yield Mutation((seed.replace(n, text),), (seed.span(n), *uses), names)


@operator("types")
def eight_bit_floats_on_ampere(seed: Seed):
    why = "PTX ISA, mma: .e4m3 and .e5m2 need sm_89; TileLang emits a trap"
    if seed.target != "sm_80" or not seed.calls("gemm"):
        return
    for n in type_strings(seed):
        names = whole_head(seed, n)
        if names == ("dtype",):
            uses = tuple(seed.place(c) for c in seed.calls("gemm"))
            for text in ('"float8_e4m3"', '"float8_e5m2"'):
                yield Mutation((seed.replace(n, text),), (seed.span(n), *uses), (), why)


@operator("types")
def bits_of_floats(seed: Seed):
    for s in seed.statements(ast.Assign):
        assert isinstance(s, ast.Assign)
        target = s.targets[0]
        if isinstance(target, ast.Subscript) and isinstance(s.value, ast.BinOp) and "int32" not in seed.source(s.value):
            for text in ("& 3", ">> 1", "^ 1", "| 4", "<< 2", "% 2 & 1"):
                yield one(seed, s, seed.replace(s.value, f"({seed.source(s.value)}) {text}"))


@operator("types")
def cast_to_no_type(seed: Seed):
    for call in seed.calls("cast", "infinity"):
        for text in ('"int33"', '"float31"', '"fp32"'):
            yield one(seed, call, seed.replace(call.args[-1], text))


@operator("types")
def float_in_an_integer_tile(seed: Seed):
    why = "the fraction is cut off; TileLang prints a warning only"
    for name, call in seed.allocations("fragment"):
        stored = [s for s in seed.statements(ast.Assign) if isinstance(s.targets[0], ast.Subscript) and seed.source(s.targets[0].value) == name]  # type: ignore[attr-defined]
        if len(call.args) > 1 and stored and not seed.calls("gemm"):
            yield Mutation((seed.replace(call.args[1], '"int32"'),), tuple(seed.span(s) for s in stored), (name,), why)


@operator("types")
def product_of_mixed_depth(seed: Seed):
    s = last_statement(seed)
    if s is None:
        return
    locals_ = 'four = T.alloc_local((4,), "{0}")\nother = T.alloc_local((4,), "{1}")\ntotal = T.alloc_local((1,), "{2}")\nT.dp4a(four, other, total)'
    for types in (("int8", "int8", "float32"), ("float16", "int8", "int32"), ("int8", "int32", "int32")):
        pad = seed.indent(s)
        text = locals_.format(*types).replace("\n", "\n" + pad)
        yield Mutation((seed.insert_before(s, text),), ())
