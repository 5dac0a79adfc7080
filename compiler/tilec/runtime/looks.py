"""What the arguments of a checked call look like, and source text that tells whether those of another call look the same.

A function made of such text is what a kernel's calls go through: it compares without loops. Arguments that look different are then checked one by one
(``emit.arguments``).
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

from ..emit.arguments import ArgumentError

MISS: Any = type("Miss", (), {"__repr__": lambda self: "MISS", "__slots__": ()})()
_REMEMBERED = 16  # kinds of calls of one kernel
_NEW_GUARDS = 8  # of one kind of call, for tensors that differ in what does not matter here: requires_grad, inference mode


class Looks:
    """``tensors``: positions of tensors; ``free``: positions of numbers whose values do not matter, their types do.

    ``kind``: "cuda" or "cpu"; ``alone``: it has one device of that kind.
    """

    def __init__(self, arguments: Sequence[Any], tensors: Sequence[int], free: Collection[int], kind: str, alone: bool):
        self._tensors = list(tensors)
        self.space: dict[str, Any] = {"MISS": MISS}
        names = [f"a{i}" for i in range(len(arguments))]
        self.lines = ["    try:", f"        {', '.join(names)}{',' if len(names) == 1 else ''} = arguments", "    except ValueError: return MISS"]
        if not names:
            self.lines = ["    if arguments: return MISS"]
        for i, a in enumerate(arguments):
            if i not in self._tensors:
                self._number(i, a, i in free)
        if self._tensors:
            self._compare([arguments[i] for i in self._tensors], kind, alone)

    def _number(self, i: int, value: Any, free: bool) -> None:
        self.space[f"kind{i}"] = type(value)
        other = "" if free else f" or a{i} != value{i}"
        if not free:
            self.space[f"value{i}"] = value
        self.lines.append(f"    if type(a{i}) is not kind{i}{other}: return MISS")

    def _compare(self, tensors: list[Any], kind: str, alone: bool) -> None:
        """One call of torch's for all tensors; what that finds different in some way is looked at again, property by property."""
        given = ", ".join(f"a{i}" for i in self._tensors)
        self.space["guard"] = Guard(tensors)
        looks = []
        for i, t in zip(self._tensors, tensors):
            compact = t.is_contiguous()
            self.space |= {f"dtype{i}": t.dtype, f"shape{i}": t.shape, f"strides{i}": t.stride(), f"device{i}": t.get_device()}
            strides = f"a{i}.is_contiguous()" if compact else f"a{i}.stride() == strides{i}"
            place = f"a{i}.is_{kind}" if alone else f"a{i}.is_{kind} and a{i}.get_device() == device{i}"
            looks.append(f"a{i}.dtype is dtype{i} and a{i}.shape == shape{i} and {strides} and {place} and not a{i}.is_neg()")
        self.lines += [f"    if not guard.check({given}):", "        try:", f"            if not ({' and '.join(looks)}): return MISS",
                       "        except (AttributeError, RuntimeError): return MISS  # no tensor, or none with strides", f"        guard.again({given})"]

    def checked(self, body: Sequence[str], space: dict[str, Any]) -> Checked:
        """Of a function that does ``body`` where the arguments ``a0``, ``a1``, .. look alike."""
        self.space |= space
        lines = [*self.lines, *body]
        other = [line.replace("return MISS", "return general(*arguments)") for line in lines]
        text = ["def attempt(arguments):", *lines, "def call(*arguments, **named):", "    if named: return general(*arguments, **named)", *other]
        exec(_compiled("\n".join(text)), self.space)
        return Checked(self.space)


class Checked:
    """What a kernel does with arguments that look like some that were checked. Nothing in ``space`` leads back to it: it goes when it is forgotten, without
    the garbage collector, which kernels called with ever new sizes would keep busy otherwise (on machines with one GPU)."""

    __slots__ = ("attempt", "_call", "_space")

    def __init__(self, space: dict[str, Any]):
        self.attempt: Callable[[Sequence[Any]], Any] = space["attempt"]  # MISS for arguments that look different
        if "elsewhere" not in space:  # else it calls itself, on its device
            del space["attempt"]
        self._call: Callable[..., Any] = space.pop("call")
        self._space = space

    def call(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """As a function like ``general``, which it calls with all it does not do itself."""
        self._space["general"] = general
        return self._call


class Guard:
    """``check(*tensors)``: torch's own comparison with tensors that were checked."""

    __slots__ = ("check", "_left")

    def __init__(self, tensors: Sequence[Any]):
        self.check: Callable[..., bool] = guard_of(tensors) or _never
        self._left = _NEW_GUARDS

    def again(self, *tensors: Any) -> None:
        """Compare with these from now on, which look the same in all that matters."""
        if self._left > 0:
            self._left -= 1
            self.check = guard_of(tensors) or self.check


@lru_cache(maxsize=256)
def _compiled(text: str) -> Any:
    """Calls of one kernel that look different have the same text."""
    return compile(text, "<call>", "exec")


def _never(*tensors: Any) -> bool:
    return False


def guard_of(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """A function that says whether as many tensors have these tensors' classes, dtypes, devices, sizes and strides; None where torch has none that may be
    relied upon, for the same tensor twice, and for classes that may answer as they please."""
    import torch

    if not _guards_are_strict() or len({id(t) for t in tensors}) != len(tensors):
        return None
    if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout is not torch.strided for t in tensors):
        return None
    return _guard(tensors)


def _guard(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    from torch._C._dynamo.guards import TensorGuards  # what torch.compile compares arguments with

    sizes: list[Any] = [list(t.shape) for t in tensors]
    strides: list[Any] = [list(t.stride()) for t in tensors]
    try:
        return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    except Exception:
        return None


@lru_cache(maxsize=1)
def _guards_are_strict() -> bool:
    """Whether this torch has them, with the meaning they are used for here. They are no public interface."""
    import torch

    try:
        first, second = torch.zeros(4, 6), torch.zeros(2, dtype=torch.int32)
        check = _guard([first, second])
        if check is None or not check(first, second) or not check(torch.ones(4, 6), torch.ones(2, dtype=torch.int32)):
            return False
        others = [torch.zeros(6, 4), torch.zeros(4, 5), torch.zeros(5, 6), torch.zeros(24), torch.zeros(4, 6, 1), torch.zeros(6, 4).T, torch.zeros(8, 6)[::2],
                  torch.zeros(4, 6, dtype=torch.float64), torch.zeros(4, 6, dtype=torch.int32), torch.zeros(4, 6, device="meta"), None, 1, [[0.0] * 6] * 4]
        return not any(check(other, second) for other in others)
    except Exception:
        return False


class Recent:
    """The last kinds of calls of a kernel."""

    def __init__(self) -> None:
        self._kinds: list[Checked] = []

    def call(self, arguments: Sequence[Any]) -> tuple[Any, Checked | None]:
        """The result and whose it is; MISS if it is nobody's."""
        for kind in self._kinds:
            result = kind.attempt(arguments)
            if result is not MISS:
                self._add(kind)
                return result, kind
        return MISS, None

    def first(self, kind: Checked, arguments: Sequence[Any]) -> Any:
        """The result of one that was made for these arguments. Raises ArgumentError where they look different already."""
        result = kind.attempt(arguments)
        if result is MISS:
            raise ArgumentError("an argument changed while it was checked; a tensor that another thread resizes cannot be passed to a kernel")
        self._add(kind)
        return result

    def _add(self, kind: Checked) -> None:
        if not self._kinds or self._kinds[0] is not kind:
            self._kinds = [kind, *(k for k in self._kinds if k is not kind)][:_REMEMBERED]  # a new list: another thread may be walking the old one
