"""Inputs, launching, timing, comparing, and the reference interpreter. May import: source, ir, target, build (numpy and torch lazily)."""
