"""The state that passes share while one program is lowered."""
from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from ..analysis.layout import FragmentLayout
from ..ir import dtypes
from ..ir.buffer import LOCAL, SHARED_DYN, Buffer
from ..ir.build import const, const_int
from ..ir.expr import Expr, Var
from ..ir.stmt import Launch
from ..records import dataclass
from ..target.chips import Target
from .errors import LoweringError


@dataclass(slots=True)
class Decision:
    """What was chosen for a statement and, if a better mechanism was missed, why."""

    span: Any
    what: str
    mechanism: str
    reason: str = ""

    def text(self) -> str:
        return f"{self.what}: {self.mechanism}" + (f" ({self.reason})" if self.reason else "")

    def __str__(self) -> str:
        return (f"line {self.span.line}: " if self.span is not None else "") + self.text()


@dataclass
class PassContext:
    """``notes``: what the user may want to know about decisions (a fragment that is exchanged through shared memory ...)."""

    target: Target
    specialise: bool = True  # False: warps are not given roles of their own
    tensors: set[Buffer] = field(default_factory=set)  # the parameters: what the host can describe to the copy engine
    specialised: bool = False  # some kernel was given such roles
    deepen: bool = True  # False: loops have the stages they ask for
    racing: frozenset[Any] = frozenset()  # updates of fragments by iterations of several threads: (place in the file, the fragment's name)
    deepened: bool = False  # some loop was given another stage
    notes: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    stages: dict[Any, int] = field(default_factory=dict)  # by the place of a pipelined loop whose copies run ahead: the stages it was given
    ahead: dict[Any, list[tuple[str, Any]]] = field(default_factory=dict)  # by the place of such a loop: its copies' tiles and places
    launches: dict[int, LaunchState] = field(default_factory=dict)
    _count: int = 0

    def fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def decide(self, span: Any, what: str, mechanism: str, reason: str = "") -> None:
        """Record a choice for ``lower --explain``."""
        made = Decision(span, what, mechanism, reason)
        if str(made) not in map(str, self.decisions):
            self.decisions.append(made)

    def state(self, number: int, launch: Launch) -> LaunchState:
        """What is known about the ``number``-th launch of the program."""
        if number not in self.launches:
            self.launches[number] = LaunchState.of(launch, self)
        return self.launches[number]


@dataclass
class LaunchState:
    """One kernel of the program; implements what ``transform/matrix/contract.py`` asks for."""

    passes: PassContext
    thread_vars: tuple[Var, Var, Var]
    extents: tuple[int, int, int]
    layouts: dict[Buffer, FragmentLayout] = field(default_factory=dict)
    loop_layouts: dict[int, FragmentLayout] = field(default_factory=dict)  # by id of the Parallel statement
    shared_layouts: dict[Buffer, Any] = field(default_factory=dict)
    bulk: set[Buffer] = field(default_factory=set)  # shared tiles that bulk copies move
    phases: dict[Buffer, Buffer] = field(default_factory=dict)
    tensor_plan: Any = None
    tensor_base: Var | None = None
    safe_values: dict[Buffer, Expr] = field(default_factory=dict)
    role: tuple[int, int] | None = None  # the threads this state is for, if not the whole block
    warpgroup: Var | None = None  # of a group of threads: the name of the number of a thread's warpgroup, once something asked for it
    warpgroup_value: Expr | None = None
    exact: frozenset[Buffer] = frozenset()  # tiles of single precision with numbers that tf32 has
    each_thread: set[int] = field(default_factory=set)  # ids of the loops that every thread runs in full, for itself
    _registers: dict[Buffer, Buffer] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)  # statements whose id() is a key must stay alive

    @staticmethod
    def of(launch: Launch, passes: PassContext) -> LaunchState:
        extents = tuple(const_int(e) for e in launch.threads)
        if any(e is None for e in extents):
            raise LoweringError("The number of threads of this kernel is not known at compile time; give T.Kernel(..., threads=) constants.",
                                launch.span)
        thread_vars = launch.attrs.get("thread_vars")
        if not thread_vars:
            thread_vars = tuple(Var("int32", launch.span, n, "thread") for n in ("tx", "ty", "tz"))
        return LaunchState(passes, tuple(thread_vars), extents)  # type: ignore[arg-type]

    @property
    def target(self) -> Target:
        return self.passes.target

    def for_role(self, low: int, high: int) -> LaunchState:
        """The same kernel seen by a group of its threads: their count, and their numbers from zero."""
        return replace(self, role=(low, high), warpgroup=None, warpgroup_value=None)

    @property
    def threads(self) -> int:
        if self.role is not None:
            return self.role[1] - self.role[0]
        return self.extents[0] * self.extents[1] * self.extents[2]

    @property
    def thread(self) -> Expr:
        """The thread's number within the block."""
        x, y, z = self.extents
        number: Expr = self.thread_vars[0]
        if y > 1:
            number = number + self.thread_vars[1] * x
        if z > 1:
            number = number + self.thread_vars[2] * (x * y)
        if self.role is None or not self.role[0]:
            return number
        low, high = self.role
        # Within the group both are the same; the remainder is known not to be negative.
        return number - low if low % (high - low) else number % (high - low)

    def decide(self, span: Any, what: str, mechanism: str, reason: str = "") -> None:
        self.passes.decide(span, what, mechanism, reason)

    def warpgroup_of(self, value: Expr) -> tuple[Var, bool]:
        """A name for the number of a thread's warpgroup, and whether whoever asks must bind it: a group of threads does so at its start."""
        if self.role is None:
            return Var("int32", None, "group", "let"), True
        if self.warpgroup is None:
            self.warpgroup, self.warpgroup_value = Var("int32", None, "group", "let"), value
        return self.warpgroup, False

    def layout_of(self, buffer: Buffer) -> FragmentLayout:
        return self.layouts[buffer]

    def registers_of(self, buffer: Buffer) -> Buffer:
        if buffer not in self._registers:
            count = self.layouts[buffer].registers
            self._registers[buffer] = Buffer(buffer.name, (const(count),), buffer.dtype, LOCAL, buffer.span, attrs={"align": 16})
        return self._registers[buffer]

    def fragment_words(self) -> int:
        return sum(-(-layout.registers * dtypes.bits(b.dtype) // 32) for b, layout in self.layouts.items() if b.view_of is None)

    def is_exact(self, buffer: Buffer) -> bool:
        return buffer in self.exact

    def shared_element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        layout = self.shared_layouts.get(buffer)
        return (buffer, indices) if layout is None else (buffer, layout.physical(buffer, indices))

    def tensor_memory_of(self, buffer: Buffer) -> Expr:
        from .matrix.tensor_memory import address

        assert self.tensor_base is not None
        return address(buffer, self.tensor_plan, self.tensor_base)

    def phases_of(self, barriers: Buffer) -> Buffer | None:
        return self.phases.get(barriers)

    def temporary_shared(self, name: str, shape: tuple[int, ...], dtype: str, span: Any = None) -> Buffer:
        return Buffer(self.passes.fresh(name), tuple(const(e) for e in shape), dtype, SHARED_DYN, span)

    def temporary_local(self, name: str, count: int, dtype: str, span: Any = None) -> Buffer:
        return Buffer(self.passes.fresh(name), (const(count),), dtype, LOCAL, span, attrs={"align": 16})
