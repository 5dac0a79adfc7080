"""Values of the symbolic evaluator that are neither plain Python values nor IR expressions.

Numbers, strings, tuples, lists, dicts, None are themselves; device scalars are ``ir.Expr``; what cannot be known is
``ir.Unknown`` (made by :func:`unknown`). Everything else is one of the classes here.
"""
from __future__ import annotations

import ast
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..ir import dtypes
from ..ir.buffer import Buffer, Region
from ..ir.expr import Const, Expr, Unknown, Var, equal
from ..records import dataclass
from ..source.span import Span

if TYPE_CHECKING:
    from .scope import Scope


def unknown(reason: str = "") -> Unknown:
    return Unknown(dtypes.UNKNOWN, None, reason)


def is_unknown(value: Any) -> bool:
    return isinstance(value, Unknown)


HARDWARE = "a fact of the machine"


def hardware() -> Unknown:
    """What depends on the machine alone (its GPU, its CUDA): every alternative happens somewhere, whatever the arguments."""
    return unknown(HARDWARE)


def derived(reason: str, *sources: Any) -> Unknown:
    """An unknown value made from others: a fact of the machine if one of them is."""
    return unknown(HARDWARE if any(isinstance(s, Unknown) and s.reason == HARDWARE for s in sources) else reason)


def is_hardware(value: Any) -> bool:
    return isinstance(value, Unknown) and value.reason == HARDWARE


def names_other_vendor(value: Any) -> bool:
    """A text that names a machine no target of this checker is."""
    return isinstance(value, str) and value.lower() in ("radeon", "amd", "hip", "rocm", "metal", "mps", "webgpu")


NUM_SMS = Var("int32", None, "num_sms", "size")  # multiprocessors of the GPU


def is_device(value: Any) -> bool:
    """A scalar known on the device only (not a literal)."""
    return isinstance(value, Expr) and not isinstance(value, (Const, Unknown))


def plain(value: Any) -> Any:
    """int32 and bool literals become Python values, as TileLang does when it binds them."""
    if isinstance(value, Const) and value.dtype in ("int32", "bool"):
        return value.value
    return value


@dataclass(frozen=True, slots=True)
class DType:
    """A data type object (``T.float16``, ``torch.float16``)."""

    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module known by name. ``file`` is set for modules of the user's workspace."""

    name: str
    scope: Any = None


TVM = "tvm"  # the module of names that the language takes over from TVM, where a file imports them from there


@dataclass(frozen=True, slots=True)
class Api:
    """A name of a TileLang module (or of :data:`TVM`) that the evaluator may have a handler for."""

    module: str
    name: str


@dataclass(eq=False, repr=False)
class Function:
    """A function of the user's. ``kind``: ``plain``, ``macro``, ``prim_func``, ``lazy`` or ``eager`` (under tilelang.jit)."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    name: str
    defaults: list[Any]
    kw_defaults: dict[str, Any]
    kind: str = "plain"
    source: Any = None
    jit: dict[str, Any] = field(default_factory=dict)
    configs: Any = None  # of @tilelang.autotune
    required: str | None = None  # the kind of target a test is for, of @tilelang.testing.requires_rocm and the like
    cases: list[dict[str, Any]] | None = None  # of pytest.mark.parametrize

    def __getattr__(self, name: str) -> str:
        """What code of the running program that wraps functions reads of them."""
        if name in ("__name__", "__qualname__"):
            return self.name
        raise AttributeError(name)


@dataclass(eq=False, repr=False)
class Class:
    name: str
    namespace: dict[str, Any]
    bases: tuple[Any, ...] = ()
    is_dataclass: bool = False
    is_enum: bool = False
    is_tuple: bool = False  # its objects are named tuples
    fields: list[tuple[str, Any, bool]] = field(default_factory=list)  # name, default, has_default
    opaque: bool = False  # a base or decorator that is not known
    compares: bool = False  # @dataclass gave it an __eq__ and took its hash
    hashes: bool = False  # @dataclass(frozen=True) or (unsafe_hash=True)

    def lookup(self, name: str) -> Any:
        if name in self.namespace:
            return self.namespace[name]
        for base in self.bases:
            if isinstance(base, Class):
                found = base.lookup(name)
                if found is not MISSING:
                    return found
        return MISSING


@dataclass(eq=False, repr=False)
class Instance:
    """An object of a user's class. ``given``: what its class was called with."""

    cls: Class
    attributes: dict[str, Any] = field(default_factory=dict)
    opaque: bool = False
    given: tuple[list[Any], dict[str, Any]] | None = None


@dataclass(eq=False, repr=False)
class BoundMethod:
    receiver: Any
    function: Function


@dataclass(eq=False, repr=False)
class Native:
    """A function modelled by the evaluator: ``call(evaluator, args, kwargs, node) -> value``."""

    name: str
    call: Any
    receiver: Any = None


@dataclass(eq=False, repr=False)
class Partial:
    function: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]


@dataclass(eq=False, repr=False)
class HostTensor:
    """A torch tensor of the host program, by shape and dtype."""

    shape: tuple[Any, ...]
    dtype: str


@dataclass(eq=False, repr=False)
class HostObject:
    """An object of a running program that compiles a kernel (``tilec.jit``). Its attributes, items and calls are asked of ``bridge``."""

    value: Any
    bridge: Any


@dataclass(eq=False, repr=False)
class TensorType:
    """``T.Tensor((M, N), dtype)`` as an annotation. ``strides`` None: compact."""

    shape: tuple[Any, ...] | None  # None: rank not known
    dtype: str
    scope: str = "global"
    strides: tuple[Any, ...] | None = None
    span: Span | None = None
    kind: str = "tensor"  # "tensor", "ptr" or "scalar"


@dataclass(eq=False, repr=False)
class Output:
    """``T.empty``: becomes a parameter that the runtime allocates."""

    type: TensorType


@dataclass(eq=False, repr=False)
class LaunchValue:
    """``T.Kernel(...)`` before it is entered."""

    grid: tuple[Any, ...]
    threads: tuple[Any, ...]
    attrs: dict[str, Any]
    span: Span
    grid_spans: tuple[Span, ...] = ()


@dataclass(eq=False, repr=False)
class LoopValue:
    """``T.serial(...)``, ``T.Parallel(...)``, ... before it is iterated."""

    kind: str
    start: Any
    extents: tuple[Any, ...]
    step: Any = 1
    attrs: dict[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(eq=False, repr=False)
class Compiled:
    """The result of calling a jitted factory on the host: a kernel at an instance."""

    function: Function
    instance: Any = None


@dataclass(eq=False, repr=False)
class Reference:
    """A ``T.Ref`` argument of a macro: an element that the macro may assign."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(eq=False, repr=False)
class Expired:
    """A name whose device scope has ended."""

    name: str
    span: Span | None
    tile: bool = False  # it was a buffer of a launch that has ended
    constant: bool = False  # a number that the branch bound anew


@dataclass(eq=False, repr=False)
class Super:
    receiver: Any
    cls: Class


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()

DEVICE_TYPES = (Expr, Buffer, Region)


def dtype_name(value: Any) -> str | None:
    """The canonical dtype a value stands for (string, DType, Python type); None if it names none or is unknown."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, str):
        return None if value in dtypes.OBJECTS_ONLY else dtypes.canonical(value)
    if isinstance(value, Api):
        return "handle" if value.name in ("ptr", "handle") else None
    if value is float:
        return "float32"
    if value is int:
        return "int32"
    if value is bool:
        return "bool"
    if isinstance(value, Native) and value.name in ("float", "int", "bool"):
        return {"float": "float32", "int": "int32", "bool": "bool"}[value.name]
    return None


def same(a: Any, b: Any) -> bool:
    """Whether two values are surely the same, for joining branches."""
    if a is b:
        return True
    if isinstance(a, Expr) or isinstance(b, Expr):
        return equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, (int, float, str, bytes, bool, DType, Api, Module)) or a is None:
        return a == b
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return False
