"""A kernel on the CPU as a function of its arguments: those of a call like one of the last go straight to the compiled function."""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..emit.arguments import Plan, check_arguments
from ..ir.buffer import Buffer
from ..ir.expr import Var, variables_in
from .looks import MISS, Checked, Looks, Recent
from .outputs import Outputs


class CpuKernel:
    """``host``: the compiled function of all parameters, which checks them too, in fewer words."""

    def __init__(self, plan: Plan, host: Callable[..., Any]):
        self._plan, self._host = plan, host
        self._recent = Recent()

    def __call__(self, *arguments: Any) -> None:
        """Raises ArgumentError."""
        if self._recent.call(arguments)[0] is MISS:
            self._recent.first(self.checked(arguments), arguments)

    def checked(self, arguments: Sequence[Any], made: Collection[int] = (), returned: Sequence[int] = ()) -> Checked:
        """Check the arguments. Raises ArgumentError.

        ``made``: positions of outputs that calls make themselves, where ``arguments`` has tensors of their shapes; ``returned``: of what they return.
        """
        import torch

        check_arguments(self._plan, arguments, "cpu", made)
        params = self._plan.params
        given = [i for i in range(len(params)) if i not in made]
        place = {i: k for k, i in enumerate(given)}
        tensors = [place[i] for i in given if isinstance(params[i], Buffer)]
        sizes = variables_in(e for b in params if isinstance(b, Buffer) for e in (*b.shape, *(b.strides or ())))
        free = {place[i] for i, p in enumerate(params) if isinstance(p, Var) and p not in sizes}
        looks = Looks([arguments[i] for i in given], tensors, free, "cpu", True)
        outputs = Outputs(torch, torch.device("cpu"), {i: arguments[i] for i in made}, {i: f"a{place[i]}" for i in returned if i in place})
        passed = ", ".join(f"o{i}" if i in made else f"a{place[i]}" for i in range(len(params)))
        return looks.checked([*outputs.lines, f"    host({passed})", f"    return {outputs.result}"], {"host": self._host, **outputs.space})
