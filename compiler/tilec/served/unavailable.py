"""TileLang's and TVM's internals, which are not part of this compiler: a script may import them, and is told so when it uses one."""
from __future__ import annotations

from typing import Any


class InternalUsed(NotImplementedError):
    """A name of TileLang's or TVM's internals was used."""


class Unavailable:
    """A name that can be imported and written in annotations, not used."""

    def __init__(self, name: str):
        self._name = name
        self.__name__ = name.rpartition(".")[2]

    def _refuse(self) -> InternalUsed:
        return InternalUsed(f"{self._name} is internal to TileLang or TVM and not part of this compiler; kernels need tilelang, tilelang.language, .testing, "
                            ".profiler, .autotuner, .layout and .utils only")

    def __tilec_value__(self) -> Any:
        """Inside kernels TVM's spellings of what the language has mean the same."""
        from ..jit.language import of_tvm

        return of_tvm(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unavailable(f"{self._name}.{name}")

    def __getitem__(self, index: Any) -> Unavailable:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Any:
        raise self._refuse()

    def __bool__(self) -> bool:
        raise self._refuse()

    def __repr__(self) -> str:
        return f"<{self._name}, not available>"
