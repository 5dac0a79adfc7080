"""CUDA functions of this folder: names, sources, and calls to them.

Pointers come as ``void*`` and registers move through ``__builtin_memcpy``: a register array of 16-bit elements need
not be aligned for 32-bit access, and the compiler removes the copies once the array lives in registers.
"""

from __future__ import annotations

from typing import Any

from ...ir.buffer import Buffer
from ...ir.build import const, lift
from ...ir.expr import Call, Expr, Load
from ...ir.stmt import Evaluate
from ...records import dataclass
from ...source.span import Span


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    name: str
    source: str
    result: str = "void"
    minimum_sm: int = 75
    needs_tcgen05: bool = False

    def call(self, *args: Any) -> Call:
        return Call(
            self.result,
            None,
            "device_function",
            tuple(lift(a) for a in args),
            {"name": self.name, "source": self.source},
        )

    def within(self, low: int, high: int | None, *args: Any) -> Call:
        """A call whose result is known to lie between two numbers."""
        made = self.call(*args)
        return Call(made.dtype, None, made.op, made.args, {**(made.attrs or {}), "range": (low, high)})

    def run(self, span: Span | None, *args: Any) -> Evaluate:
        return Evaluate(span, self.call(*args))


def function(
    name: str, parameters: str, body: str, result: str = "void", minimum_sm: int = 75, needs_tcgen05: bool = False
) -> DeviceFunction:
    """A device function; ``result`` is a dtype."""
    spelled = {"void": "void", "int32": "int", "uint32": "unsigned int", "uint64": "unsigned long long"}[result]
    lines = "\n".join("  " + line for line in body.strip().splitlines())
    source = f"__device__ __forceinline__ {spelled} {name}({parameters}) {{\n{lines}\n}}\n"
    return DeviceFunction(name, source, result, minimum_sm, needs_tcgen05)


def address_of(buffer: Buffer, indices: tuple[Expr, ...]) -> Call:
    return Call("handle", None, "address_of", (Load(buffer.dtype, None, buffer, indices),))


def at(buffer: Buffer, index: Any) -> Call:
    """The address of an element of a one-dimensional register array."""
    return address_of(buffer, (lift(index),))


def zero(dtype: str) -> Expr:
    return const(0, dtype)
