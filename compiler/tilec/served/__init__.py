"""The modules that scripts import as ``tilelang``: served from here where TileLang is not installed, or by choice. May import: all of tilec."""
from .hook import install

__all__ = ["install"]
