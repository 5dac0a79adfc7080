"""The reference interpreter: tile semantics on torch tensors, block by block. May import: source, ir, target.

It is written against the meaning of the tile operators alone, shares no code with the compiler's lowering, and is what
compiled kernels are compared with. It poisons memory that nothing has written, and reports out-of-bounds accesses to
on-chip buffers, reads of uninitialised elements, and waits on mbarriers that cannot complete.
"""

from .run import Fault, InterpreterResult, Unsupported, interpret

__all__ = ["Fault", "InterpreterResult", "Unsupported", "interpret"]
