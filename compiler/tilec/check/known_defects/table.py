"""The rows: number in the tracker of tile-ai/tilelang, first and last release, what happens, what to write instead, the pattern."""

from __future__ import annotations

from . import atomics, loops, pipelines, scans, values
from .defect import Defect

DEFECTS = (
    Defect(2433, "0.1.8", "0.1.11", "T.Persistent leaves out tiles where the second extent is no multiple of 8",
           "a loop over tile numbers with an if", loops.persistent_tail),
    Defect(2523, "0.1.8", "0.1.12", "a scan over part of a shared tile takes the part's width for the row pitch: wrong sums",
           "copy the part to a tile of its own and scan that", scans.part_of_tile),
    Defect(2539, "0.1.8", "0.1.12", "two guards of the same form that test different buffers become one: the second body runs under the "
           "first condition", "combine the conditions by hand, or make them differ in form", loops.twin_guards),
    Defect(2561, "0.1.8", None, "T.atomic_addx4 on integers adds their bits as floats", "four T.atomic_add", atomics.integer_quads),
    Defect(2594, "0.1.11", "0.1.12", "the value read before an atomic on the same buffer is read after it instead, inside an if without else",
           "keep the value in a T.alloc_var", atomics.read_moved_behind),
    Defect(2595, "0.1.8", None, "the pipelined copy runs ahead of the atomic that writes what it reads: stale values",
           "T.serial instead of T.Pipelined", pipelines.copy_ahead_of_atomic),
    Defect(2608, "0.1.8", "0.1.11", "a break in a vectorised loop is dropped", "T.serial instead of T.vectorized", loops.vector_break),
    Defect(2609, "0.1.8", "0.1.13", "a view with elements of another width on a swizzled tile reaches beyond the tile, into other shared memory",
           "a shared tile of its own for the view", values.view_of_swizzled),
    Defect(2623, "0.1.10", None, "T.finalize_reducer with batch reduces the first batch of its elements only", "leave batch out",
           atomics.reducer_batch),
    Defect(2667, "0.1.8", "0.1.12", "T.atomic_max and T.atomic_min with return_prev=True give CUDA that does not compile",
           "T.atomic_add, or read the value before", atomics.extremum_previous),
    Defect(2668, "0.1.9", None, "the copy into a tile that the same iteration has read before is never waited for: the next reads are stale",
           "num_stages=1, or a second tile", pipelines.read_then_copied),
    Defect(2669, "0.1.8", None, "T.vectorized that does not start at 0 stops TileLang with an internal check",
           "start at 0 and add the offset to the indices", loops.vector_start),
    Defect(2688, "0.1.8", "0.1.13", "an atomic on a tile forgets its memory_order where it is vectorised", "single elements in a T.Parallel loop "
           "with T.atomic_add", atomics.tile_order),
    Defect(2689, "0.1.8", "0.1.12", "T.copy of one element to another type stops TileLang with a type mismatch", "assign the element with T.cast",
           values.element_conversion),
    Defect(2758, "0.1.8", "0.1.12", "T.atomic_max and T.atomic_min of a half-precision element take half the bits of a float32 value",
           "T.cast the value to the buffer's type into a T.alloc_var first", atomics.half_extremum),
    Defect(2943, "0.1.8", None, "T.ceildiv is one too small or large where the divisor is negative", "-T.floordiv(-a, b)",
           values.ceildiv_of_unknown_sign),
    Defect(2955, "0.1.8", "0.1.13", "an index modulo a period that does not divide the inner extent of a T.Parallel over two axes reads wrong "
           "elements", "a serial inner loop", loops.periodic_index),
    Defect(2957, "0.1.8", None, "the smaller of two T.Parallel loops over one fragment decides its registers: the iterations of the larger one "
           "beyond them are dropped", "loops of the fragment's extent with an if inside", loops.smaller_loop),
    Defect(2959, "0.1.8", None, "an atomic with a whole buffer of one element and one element as value is done by the first thread alone, with "
           "the buffer's first element", "name the element: Total[0]", atomics.whole_buffer),
    Defect(3008, "0.1.8", None, "// and % of floats stop TileLang with a check for integers", "T.floor(a / b), a - T.floor(a / b) * b",
           values.float_remainder),
    Defect(3011, "0.1.8", None, "a scan from a shared tile to a fragment stops TileLang with an internal check",
           "scan the shared tile in place and copy it", scans.into_fragment),
    Defect(3026, "0.1.8", "0.1.13", "a break in T.unroll(explicit=True) gives CUDA that does not compile", "T.unroll without explicit, or T.serial",
           loops.unrolled_break),
    Defect(3039, "0.1.9", None, "a pipelined tile that is read after its loop is another version of it, or stops TileLang with an internal check",
           "copy it to a tile of its own in the last iteration", pipelines.read_behind),
    Defect(2309, "0.1.9", None, "two pipelined loops with different num_stages over the same gemm operands stop TileLang in its layout inference",
           "the same num_stages, or tiles of their own", pipelines.different_stages),
)
