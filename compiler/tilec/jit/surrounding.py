"""What ``with`` blocks of a running program set for the kernels compiled inside: a target, pass configurations."""
from __future__ import annotations

from contextvars import ContextVar
from typing import Any

_targets: ContextVar[tuple[Any, ...]] = ContextVar("targets", default=())
_configs: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("configs", default=())


def current_target() -> Any:
    """The innermost target; None outside of all."""
    found = _targets.get()
    return found[-1] if found else None


def current_configs() -> dict[str, Any]:
    """The pass configurations of all open contexts, the inner ones winning."""
    return {k: v for configs in _configs.get() for k, v in configs.items()}


def push_target(target: Any) -> None:
    _targets.set((*_targets.get(), target))


def pop_target() -> None:
    _targets.set(_targets.get()[:-1])


def push_configs(configs: dict[str, Any]) -> None:
    _configs.set((*_configs.get(), configs))


def pop_configs() -> None:
    _configs.set(_configs.get()[:-1])
