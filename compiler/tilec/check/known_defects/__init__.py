"""Patterns that named TileLang releases miscompile or crash on, from its public issue tracker.

``table`` has the rows; the other files the patterns, by subject. Every range of releases was found by compiling the pattern with each of
0.1.8 to 0.1.15 and looking at the CUDA text: "first" is the oldest release it was seen in, not the one that brought it.
"""
