"""``dataclass`` as the standard library has it, made without writing and compiling up to seven methods of each class.

A process that checks one file loads some hundred and fifty of these classes; writing their methods was a quarter of its start. Here only ``__init__`` is
compiled, for its speed, and when it is first needed; the others are closures over ``operator.attrgetter``, which is as fast as a written tuple. Fields,
defaults, ``fields``, ``replace``, ``asdict`` and matching are the standard library's own. Options that nobody here uses (``order``, ``kw_only``, ``InitVar``)
are left to that.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    def dataclass(cls: type | None = None, /, *, repr: bool = True, eq: bool = True, frozen: bool = False, slots: bool = False) -> Any:
        def made(cls: type) -> type:
            return _made(cls, repr, eq, frozen, slots)

        return made if cls is None else made(cls)


_ABSENT: Any = object()  # a parameter that was not given and whose default is made anew each time


def _made(cls: type, shown: bool, compared: bool, frozen: bool, slots: bool) -> type:
    own = set(cls.__dict__)
    explicit_hash = cls.__dict__.get("__hash__") is not None
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else dataclasses shows the signature, which takes longer than all the rest
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    methods: list[Callable[..., Any]] = []
    if "__init__" not in own:
        methods.append(_init_at_first(cls, fields, frozen, slots))
    if shown:
        methods.append(_repr([f.name for f in fields if f.repr]))
    values = _values([f.name for f in fields if f.compare])
    if compared:
        methods.append(_eq(values))
    if frozen:
        methods += [*_frozen(cls, frozenset(f.name for f in fields)), *(_state([f.name for f in fields]) if slots else ())]
    for method in methods:
        if method.__name__ not in own:
            method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
            setattr(cls, method.__name__, method)
    if compared and not explicit_hash:
        cls.__hash__ = _hash(_values([f.name for f in fields if (f.compare if f.hash is None else f.hash)])) if frozen else None  # type: ignore[assignment]
    return cls


def _init_at_first(cls: type, fields: Any, frozen: bool, slots: bool) -> Callable[..., None]:
    """Written when the first object is made: of most classes none is, in a session. Two threads may both do it."""
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        written = _init(cls, fields, frozen, slots)
        written.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = written  # type: ignore[misc]
        written(self, *args, **kwargs)

    return __init__


def _init(cls: type, fields: Any, frozen: bool, slots: bool) -> Callable[..., None]:
    scope: dict[str, Any] = {"_set_": object.__setattr__, "_absent_": _ABSENT}
    parameters, body = ["self"], []
    for f in fields:
        name = value = f.name
        given = f"_of_{name}_"
        if f.default_factory is not dataclasses.MISSING:
            scope[given] = f.default_factory
            value = f"{given}() if {name} is _absent_ else {name}" if f.init else f"{given}()"
            default = "=_absent_"
        elif f.default is not dataclasses.MISSING:
            if not f.init and not slots:
                continue  # the class has it
            scope[given] = f.default
            value, default = name if f.init else given, f"={given}"
        elif f.init:
            default = ""
        else:
            continue
        if f.init:
            parameters.append(name + default)
        body.append(f" _set_(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass"), scope)  # of our own classes' field names
    return scope["__init__"]


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """An object's fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    get = [attrgetter(name) for name in names]
    return lambda self: tuple([g(self) for g in get])


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _eq(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _frozen(cls: Any, names: frozenset[str]) -> list[Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return [__setattr__, __delattr__]


def _state(names: list[str]) -> list[Callable[..., Any]]:
    """Pickling where nothing can be set from outside."""
    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state):
            object.__setattr__(self, name, value)

    return [__getstate__, __setstate__]
