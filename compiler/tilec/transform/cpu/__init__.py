"""Tile programs to loops over whole tiles, for the CPU. May import: source, ir, analysis, transform.errors."""
from .lower import lower_to_loops

__all__ = ["lower_to_loops"]
