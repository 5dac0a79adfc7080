"""``tilelang.env`` and the switches of the kernel cache."""
from __future__ import annotations

import os

from ..build import cache


def enable_cache() -> None:
    """Keep compiled kernels on disk (the default)."""
    os.environ["TILELANG_DISABLE_CACHE"] = "0"


def disable_cache() -> None:
    """Neither read nor write compiled kernels on disk from now on."""
    os.environ["TILELANG_DISABLE_CACHE"] = "1"


def is_cache_enabled() -> bool:
    return cache.enabled()


class _Environment:
    """Settings by name, as attributes."""

    @property
    def TILELANG_CACHE_DIR(self) -> str:
        return str(cache.cache_directory())

    def is_cache_enabled(self) -> bool:
        return cache.enabled()


env = _Environment()
TILELANG_CACHE_DIR = env.TILELANG_CACHE_DIR
