"""cp.async: copies from global to shared memory that pass no registers (PTX ISA, "cp.async")."""
from __future__ import annotations

from dataclasses import replace

from ..ir.affine import known_difference
from ..ir.buffer import Buffer
from ..ir.build import cast, const, const_int
from ..ir.expr import Call, Expr, Load
from ..ir.stmt import Evaluate, For
from ..source.span import Span
from .matrix.device import address_of, function
from .rewrite import substitute

_SHARED = "static_cast<unsigned int>(__cvta_generic_to_shared(shared))"


def async_copy_bytes(size: int) -> bool:
    return size in (4, 8, 16)


def _copy(size: int, guarded: bool):
    cache = "cg" if size == 16 else "ca"
    if guarded:
        # A source size of 0 reads nothing and fills the destination with zeros.
        return function(f"tile_cp_async_{size}_if", "void* shared, const void* source, int valid", f"""
asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"
    :: "r"({_SHARED}), "l"(__cvta_generic_to_global(source)), "r"(valid ? {size} : 0) : "memory");""", minimum_sm=80)
    return function(f"tile_cp_async_{size}", "void* shared, const void* source", f"""
asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size};"
    :: "r"({_SHARED}), "l"(__cvta_generic_to_global(source)) : "memory");""", minimum_sm=80)


COMMIT = function("tile_cp_async_commit", "", 'asm volatile("cp.async.commit_group;" ::: "memory");', minimum_sm=80)


def wait_function(groups: int):
    return function(f"tile_cp_async_wait_{groups}", "", f'asm volatile("cp.async.wait_group {groups};" ::: "memory");', minimum_sm=80)


def async_copy_statement(target: tuple[Buffer, tuple[Expr, ...]], source: tuple[Buffer, tuple[Expr, ...]], size: int, guard: Expr | None,
                         span: Span | None) -> Evaluate:
    args = [address_of(*target), address_of(*source)]
    if guard is not None:
        call = _copy(size, True).call(*args, cast(guard, "int32"))
    else:
        call = _copy(size, False).call(*args)
    return Evaluate(span, replace(call, attrs={**(call.attrs or {}), "writes": (0,), "bytes": size}))


__all__ = ["COMMIT", "async_copy_bytes", "async_copy_statement", "const", "wait_function"]


def one_copy(s: For) -> Evaluate | None:
    """The single copy that a T.vectorized loop of T.ptx_cp_async of neighbouring elements is; None if it is no such loop."""
    count = const_int(s.extent)
    inner = s.body[0] if len(s.body) == 1 else None
    if s.kind != "vectorized" or not count or const_int(s.start) != 0 or s.step != 1 or not isinstance(inner, Evaluate):
        return None
    call = inner.value
    if not isinstance(call, Call) or call.op != "ptx_cp_async" or len(call.args) > 3:
        return None
    elements = const_int(call.args[2])
    first = {s.var: const(0, s.var.dtype)}
    second = {s.var: const(1, s.var.dtype)}
    for pointer in call.args[:2]:
        load = pointer.args[0] if isinstance(pointer, Call) and pointer.op == "access_ptr" else None
        if not isinstance(load, Load) or elements is None:
            return None
        steps = [known_difference(substitute(i, second), substitute(i, first)) for i in load.indices]
        grows = [known_difference(i, substitute(i, first) + s.var * (step or 0)) for i, step in zip(load.indices, steps)]
        if steps != [0] * (len(steps) - 1) + [elements] or any(grows):
            return None
    made = substitute(call, first)
    assert isinstance(made, Call)
    return Evaluate(inner.span, Call(made.dtype, made.span, made.op, (*made.args[:2], const(elements * count)), made.attrs))  # type: ignore[operator]
