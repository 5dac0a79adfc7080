"""Matrix multiplication on the device: layouts of its fragments, mma.sync, tensor memory and tcgen05.

Entry points for the passes: ``layouts`` (fragment layouts of operands), ``shared`` (shared layouts that tcgen05 needs),
``lower.lower_matrix_op``, ``tensor_memory`` (allocation and copies) and ``barriers``.
"""
