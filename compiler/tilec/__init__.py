"""tilec: a front end, checker and compiler for the TileLang tile-kernel language."""

__version__ = "0.1.0"
