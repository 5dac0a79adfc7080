"""The tile program: one kernel at one instance."""
from __future__ import annotations

from dataclasses import field
from typing import Any

from ..records import dataclass
from ..source.span import Span
from .buffer import Buffer
from .expr import Var
from .stmt import Body, Launch, walk


@dataclass(eq=False)
class TileProgram:
    """What the front end yields and every later stage takes.

    ``params`` are the run-time parameters in order: global Buffers and scalar Vars (kind ``param``).
    ``outputs`` are the Buffers that the kernel returns (eager ``T.empty`` results; ``out_idx`` of a lazy kernel), which
    the runtime allocates; for lazy kernels they are also in ``params``, for eager ones they follow the inputs there.
    ``dynamic`` are the Vars of kind ``dynamic``/``const`` that occur in the parameters' shapes and strides.
    ``instance``: the arguments the kernel was evaluated with, as text (``matmul(1024, 1024, 1024, block_M=128)``).
    ``attrs``: ``pass_configs``, ``target`` (of @tilelang.jit), ``out_idx``, ``kind`` ("lazy"|"eager"|"prim_func") ...
    """

    name: str
    params: list[Buffer | Var]
    body: Body
    span: Span | None = None
    outputs: list[Buffer] = field(default_factory=list)
    dynamic: list[Var] = field(default_factory=list)
    instance: str = ""
    path: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)
    _launches: tuple[Body, list[Launch]] | None = field(default=None, init=False, repr=False)  # of the body as it was

    def launches(self) -> list[Launch]:
        if self._launches is None or self._launches[0] is not self.body:
            self._launches = self.body, [s for s in walk(self.body) if isinstance(s, Launch)]
        return list(self._launches[1])

    def statements(self):
        return walk(self.body)

    def buffers(self) -> list[Buffer]:
        """Parameters and allocations, in order of appearance."""
        from .stmt import Alloc

        found = [p for p in self.params if isinstance(p, Buffer)]
        found += [s.buffer for s in walk(self.body) if isinstance(s, Alloc)]
        return list(dict.fromkeys(found))
