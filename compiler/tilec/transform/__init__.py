"""Passes over the tile program, each a named unit, in two phases. May import: source, ir, analysis, target."""
