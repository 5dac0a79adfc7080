"""cp.async: copies from global to shared memory that pass no registers (PTX ISA, "cp.async")."""
from __future__ import annotations

from dataclasses import replace

from ..ir.buffer import Buffer
from ..ir.build import cast, const
from ..ir.expr import Expr
from ..ir.stmt import Evaluate
from ..source.span import Span
from .matrix.device import address_of, function

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
