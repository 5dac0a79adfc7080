"""The tile program: kernels, loops, tile operators, buffers and expressions, with spans; builder and printer.

May import: ``source``. Everything here is plain data of the standard library; no pass and no target knowledge.
"""
