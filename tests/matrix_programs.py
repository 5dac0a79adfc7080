"""Matrix operations by hand, and a context in which to lower them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilec.analysis.layout import FragmentLayout
from tilec.ir.buffer import FRAGMENT, LOCAL, SHARED_DYN, Buffer, whole
from tilec.ir.build import const
from tilec.ir.expr import Expr, Var
from tilec.ir.stmt import TileOp
from tilec.target.chips import Target, find
from tilec.transform.matrix.tensor_memory import TensorMemoryPlan, address


def buffer(name: str, shape: tuple[int, ...], dtype: str, scope: str) -> Buffer:
    return Buffer(name, tuple(const(n) for n in shape), dtype, scope)


def gemm_op(
    M: int,
    N: int,
    K: int,
    dtype: str = "float16",
    accum: str = "float32",
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: str = "square",
    a_scope: str = SHARED_DYN,
    b_scope: str = SHARED_DYN,
    c_scope: str = FRAGMENT,
    name: str = "gemm",
    **args: Any,
) -> TileOp:
    A = buffer("A_shared", (K, M) if transpose_A else (M, K), dtype, a_scope)
    B = buffer("B_shared", (N, K) if transpose_B else (K, N), args.pop("b_dtype", dtype), b_scope)
    C = buffer("C_local", (M, N), accum, c_scope)
    return TileOp(
        None,
        name,
        {
            "A": whole(A),
            "B": whole(B),
            "C": whole(C),
            "transpose_A": transpose_A,
            "transpose_B": transpose_B,
            "policy": policy,
            "clear_accum": False,
            "mbar": None,
            **args,
        },
    )


@dataclass
class Context:
    """Fragments with the layouts given, and shared tiles stored plainly or through ``shared_layouts``."""

    target: Target = field(default_factory=lambda: find("sm_90a"))
    threads: int = 128
    layouts: dict[Buffer, FragmentLayout] = field(default_factory=dict)
    shared_layouts: dict[Buffer, Any] = field(default_factory=dict)
    thread: Var = field(default_factory=lambda: Var("int32", None, "tx", "thread"))
    tensor_memory: TensorMemoryPlan = field(default_factory=lambda: TensorMemoryPlan(0))
    tensor_base: Var = field(default_factory=lambda: Var("uint32", None, "tensor_base", "let"))
    phases: dict[Buffer, Buffer] = field(default_factory=dict)
    words: int = 0  # registers of the kernel's fragments
    exact: frozenset[Buffer] = frozenset()
    _registers: dict[Buffer, Buffer] = field(default_factory=dict)

    def decide(self, span, what: str, mechanism: str, reason: str = "") -> None:
        pass

    def layout_of(self, b: Buffer) -> FragmentLayout:
        return self.layouts[b]

    def fragment_words(self) -> int:
        return self.words

    def is_exact(self, b: Buffer) -> bool:
        return b in self.exact

    def registers_of(self, b: Buffer) -> Buffer:
        if b not in self._registers:
            self._registers[b] = Buffer(f"{b.name}_r", (const(self.layouts[b].registers),), b.dtype, LOCAL)
        return self._registers[b]

    def shared_element(self, b: Buffer, indices):
        layout = self.shared_layouts.get(b)
        return (b, indices) if layout is None else (b, layout.physical(b, indices))

    def tensor_memory_of(self, b: Buffer) -> Expr:
        return address(b, self.tensor_memory, self.tensor_base)

    def warpgroup_of(self, value: Expr) -> tuple[Var, bool]:
        return Var("int32", None, "group", "let"), True

    def phases_of(self, barriers: Buffer) -> Buffer | None:
        return self.phases.get(barriers)
