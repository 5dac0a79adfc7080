"""The configuration of a project, for commands: what is wrong with it is a fault of usage."""
from __future__ import annotations

from pathlib import Path

from ..ide import project
from ..ide.project import Config
from .main import UsageError

__all__ = ["Config", "find", "read"]


def find(start: Path) -> Config:
    """The configuration that applies to a folder: the nearest one above."""
    try:
        return project.find(start)
    except project.ConfigError as error:
        raise UsageError(str(error)) from None


def read(path: Path) -> Config:
    """The configuration of one file."""
    try:
        return project.read(path)
    except project.ConfigError as error:
        raise UsageError(str(error)) from None
