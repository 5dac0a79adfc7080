"""``tvm.transform``: configurations for what is compiled inside ``with PassContext(config=...)``."""
from __future__ import annotations

from typing import Any

from ..jit.surrounding import pop_configs, push_configs


class PassContext:
    """The keys of ``config`` are those of ``pass_configs``; levels of optimisation do not exist here."""

    def __init__(self, opt_level: int = 2, required_pass: Any = None, disabled_pass: Any = None, instruments: Any = None, config: dict[str, Any] | None = None):
        self.opt_level = opt_level
        self.config = {str(k): v for k, v in (config or {}).items()}

    def __enter__(self) -> PassContext:
        push_configs(self.config)
        return self

    def __exit__(self, *exception: object) -> None:
        pop_configs()


__all__ = ["PassContext"]
