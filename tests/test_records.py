"""Our dataclasses against the standard library's: the same classes made both ways."""
from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import threading
from dataclasses import field
from typing import Any

import pytest
import tilec
from tilec import records

import tile_lsp

FORMS: list[dict[str, bool]] = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"eq": False}, {"repr": False}, {"eq": False, "repr": False},
                                {"frozen": True, "eq": False}, {"eq": False, "slots": True}]


def both(body: Any, **form: bool) -> tuple[type, type]:
    return records.dataclass(**form)(body()), dataclasses.dataclass(**form)(body())


def plain() -> type:
    class Plain:
        number: int
        text: str = "a"
        parts: list[int] = field(default_factory=list)
        hidden: float = field(default=0.5, repr=False, compare=False)
        inner: int = field(default=3, init=False)
        made: list[int] = field(default_factory=list, init=False)

        def method(self) -> int:
            return self.number

    return Plain


def result(act: Any) -> Any:
    """What an act gives, or the kind of error."""
    try:
        return act()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_made_both_ways_a_class_behaves_alike(form: dict[str, bool]):
    ours, theirs = both(plain, **form)
    shared = object()
    acts = [
        lambda c: [(f.name, f.init, f.repr, f.compare) for f in dataclasses.fields(c)],
        lambda c: c.__match_args__, lambda c: dataclasses.asdict(c(1, parts=[2])), lambda c: c(1, "b").method(),
        lambda c: c(1) == c(1), lambda c: c(1) == c(2), lambda c: c(1) != c(1), lambda c: c(1, hidden=1.0) == c(1, hidden=2.0), lambda c: c(1) == 1, lambda c: c(1).__eq__(1),
        lambda c: c(shared, parts=(float("nan"),)) == c(shared, parts=(float("nan"),)),
        lambda c: repr(c(1, "b", [3])).split("0x")[0].rsplit(".", 1)[-1] if form.get("repr", True) else None,
        lambda c: len({c(1, parts=()), c(1, parts=()), c(2, parts=())}) if form.get("frozen") else None, lambda c: hash(c(1)) and None,
        lambda c: setattr(c(1), "number", 2), lambda c: setattr(c(1), "other", 2) if not form.get("slots") else None, lambda c: delattr(c(1), "number"), lambda c: c(1).parts is c(1).parts,
        lambda c: (c(1).inner, c(1).made), lambda c: c(), lambda c: c(1, 2, 3, 4, 5), lambda c: c(1, unknown=2), lambda c: c(number=1, text="b").text,
        lambda c: dataclasses.replace(c(1), number=5).number, lambda c: dataclasses.replace(c(1), inner=5), lambda c: copy.copy(c(4)).number,
        lambda c: copy.deepcopy(c(4, parts=[1])).parts, lambda c: hasattr(c(1), "__dict__"), lambda c: type(getattr(c, "parts", None)), lambda c: type(c.text).__name__,
    ]
    for number, act in enumerate(acts):
        assert result(lambda act=act: act(ours)) == result(lambda act=act: act(theirs)), (number, form)


@records.dataclass(frozen=True, slots=True)
class Slotted:
    number: int
    parts: tuple[int, ...] = ()


@records.dataclass(frozen=True)
class Free:
    number: int


@records.dataclass(frozen=True)
class Wider(Free):
    width: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", self.number * self.width)


def test_objects_are_pickled():
    for made in (Slotted(3, (1, 2)), Free(4), Wider(2)):
        again = pickle.loads(pickle.dumps(made))
        assert again == made and hash(again) == hash(made) and repr(again) == repr(made)
    assert repr(Slotted(3)) == "Slotted(number=3, parts=())"


def test_fields_are_inherited():
    assert Wider(3, 5).area == 15 and [f.name for f in dataclasses.fields(Wider)] == ["number", "width"]
    assert Wider(3) != Free(3) and Wider(3) == Wider(3, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Wider(3).number = 4  # type: ignore[misc]


def test_what_a_class_defines_itself_stays():
    @records.dataclass(frozen=True)
    class Own:
        number: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(2) and hash(Own(1)) == 7 and repr(Own(1)) == "own"


def test_an_object_that_holds_itself_is_shown():
    ours, _ = both(plain)
    one = ours(1)
    one.parts.append(one)
    assert "..." in repr(one)


def test_the_first_objects_may_come_from_many_threads():
    for _ in range(20):
        ours, _theirs = both(plain, frozen=True)
        found: list[Any] = []
        barrier = threading.Barrier(4)

        def make(ours: type = ours, found: list[Any] = found, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            found.append(ours(1, "x"))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4 and len(set(map(repr, found))) == 1


def test_every_dataclass_of_the_project_takes_the_parameters_that_the_standard_library_gives_it():
    seen = 0
    for package in (tilec, tile_lsp):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if module.name.endswith("__main__"):
                continue
            for cls in vars(importlib.import_module(module.name)).values():
                if not (isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module.name):
                    continue
                fields = [dataclasses.field(default=f.default, default_factory=f.default_factory, init=f.init) if f.default_factory is dataclasses.MISSING  # type: ignore[call-overload]
                          else dataclasses.field(default_factory=f.default_factory, init=f.init) for f in dataclasses.fields(cls)]
                twin = dataclasses.make_dataclass("Twin", [(f.name, Any, made) for f, made in zip(dataclasses.fields(cls), fields)])
                written = records._init(cls, dataclasses.fields(cls), False, False)
                assert list(inspect.signature(written).parameters)[1:] == list(inspect.signature(twin).parameters), cls
                seen += 1
    assert seen > 200
