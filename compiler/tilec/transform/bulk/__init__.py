"""Bulk tensor copies (TMA): which copies a tensor map can describe, and the instructions (PTX ISA, "cp.async.bulk.tensor")."""
