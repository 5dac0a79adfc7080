"""Hovers of API names: a line of documentation, the signature, and since when the name exists."""
from __future__ import annotations

from ..releases import manifest
from .environment import Environment

FACADE = "tilelang.language"

# What each name does, in one line. Names without a line show their signature alone.
DOCS: dict[str, str] = {
    "prim_func": "Marks a function as a kernel: its annotated parameters are the kernel's tensors and scalars.",
    "macro": "Marks a function as a macro: its statements are placed into the kernel that calls it.",
    "Kernel": "Launches a grid of thread blocks; the `with` body runs once per block and gets the block's indices.",
    "Tensor": "The type of a tensor parameter in global memory: its shape and element type.",
    "StridedTensor": "The type of a tensor parameter with explicit strides.",
    "alloc_shared": "Allocates a tile in shared memory, visible to all threads of the block.",
    "alloc_fragment": "Allocates a tile spread over the registers of the block's threads.",
    "alloc_local": "Allocates an array private to each thread.",
    "alloc_var": "Allocates a scalar variable of each thread that can be assigned again.",
    "alloc_tmem": "Allocates columns of Blackwell's tensor memory, the accumulator of tcgen05 matrix operations.",
    "alloc_barrier": "Allocates mbarriers in shared memory; the argument is how many arrivals complete a phase.",
    "copy": "Copies a tile between memories; the compiler chooses vector accesses, cp.async, TMA or ldmatrix.",
    "async_copy": "Starts a copy into shared memory that completes later.",
    "tma_copy": "Copies a tile with the TMA unit.",
    "gemm": "Multiplies two tiles and adds to the accumulator: C += A @ B, on tensor cores where the types allow it.",
    "tcgen05_gemm": "Starts a Blackwell tensor-core multiplication into tensor memory; completion is signalled on an mbarrier.",
    "wgmma_gemm": "Starts a Hopper warpgroup multiplication without waiting for it.",
    "mbarrier_wait_parity": "Waits until the mbarrier's phase of the given parity has completed.",
    "mbarrier_arrive": "Arrives at an mbarrier.",
    "mbarrier_expect_tx": "Announces how many bytes will arrive at an mbarrier.",
    "clear": "Fills a tile with zeros.",
    "fill": "Fills a tile with a value.",
    "Parallel": "Iterates over a box in no particular order; the iterations are spread over the block's threads.",
    "serial": "A plain loop of every thread.",
    "unroll": "A loop whose body is repeated in the code.",
    "vectorized": "A loop that becomes one wide memory access.",
    "Pipelined": "A loop whose copies are started some iterations ahead, with `num_stages` buffers.",
    "Persistent": "A loop over tiles of a grid that is larger than the number of blocks.",
    "reduce_sum": "Sums a tile along one dimension.",
    "reduce_max": "The maximum of a tile along one dimension.",
    "reduce_min": "The minimum of a tile along one dimension.",
    "reduce_abssum": "The sum of absolute values of a tile along one dimension.",
    "reduce_absmax": "The maximum of absolute values of a tile along one dimension.",
    "reduce": "Reduces a tile along one dimension with the named operation.",
    "cumsum": "The running sum of a tile along one dimension.",
    "if_then_else": "Chooses between two values; only the chosen one is evaluated.",
    "ceildiv": "Integer division rounded up.",
    "cast": "Converts a value to another type.",
    "atomic_add": "Adds to memory atomically.",
    "atomic_max": "Atomically replaces memory by the larger value.",
    "atomic_min": "Atomically replaces memory by the smaller value.",
    "use_swizzle": "Reorders the blocks of the grid in panels, so that neighbours share data in the L2 cache.",
    "annotate_layout": "Fixes the memory layouts of shared tiles.",
    "dynamic": "A size that becomes known at run time.",
    "const": "A size of an eager kernel that is taken from its arguments and fixed when it is compiled.",
    "empty": "Allocates an output tensor of an eager kernel.",
    "view": "The same memory with another shape or type.",
    "reshape": "The same memory with another shape.",
    "sync_threads": "Waits until all threads of the block have come here.",
    "get_thread_binding": "The index of the thread in its block.",
    "exp": "The exponential function.",
    "exp2": "Two to the power of a value.",
    "log": "The natural logarithm.",
    "log2": "The logarithm to base two.",
    "sqrt": "The square root.",
    "rsqrt": "The reciprocal of the square root.",
    "tanh": "The hyperbolic tangent.",
    "sigmoid": "1 / (1 + exp(-x)).",
    "max": "The larger of two values.",
    "min": "The smaller of two values.",
    "abs": "The absolute value.",
    "infinity": "Infinity in the given type.",
    "print": "Prints a value or a tile from the device.",
    "device_assert": "Stops the kernel if a condition does not hold.",
}
_TOP_LEVEL = {
    "jit": "Compiles a kernel on first use with its arguments; the result is called with tensors.",
    "compile": "Compiles a prim_func to a callable kernel.",
    "autotune": "Tries the given configurations and keeps the fastest.",
    "cdiv": "Integer division rounded up.",
    "next_power_of_2": "The smallest power of two that is not less than a number.",
}


def api_markdown(name: str, module: str, environment: Environment) -> tuple[str, str] | None:
    """Signature with a line of documentation, and the versions. None for a name that this tool knows nothing about."""
    entry = environment.api.entry(name, module) if hasattr(environment.api, "entry") else None
    doc = (DOCS if module == FACADE else _TOP_LEVEL).get(name)
    prefix = "T" if module == FACADE else module
    if entry is None and doc is None and environment.api.added_in(name) is None:
        return None
    signature = getattr(entry, "signature", None)
    shown = f"{prefix}.{name}({compact(signature)})" if signature is not None else f"{prefix}.{name}"
    parts = [f"```python\n{shown}\n```", doc or ""]
    return "\n\n".join(p for p in parts if p), versions_markdown(name, module, environment, entry is not None)


def compact(signature: str) -> str:
    """Names and defaults without annotations, so that a signature takes a line or two."""
    return ", ".join(_without_annotation(p) for p in split_parameters(signature))


def _without_annotation(parameter: str) -> str:
    name, colon, rest = parameter.partition(":")
    if not colon:
        return parameter
    depth = 0
    for index, character in enumerate(rest):
        depth += (character in "([{") - (character in ")]}")
        if character == "=" and depth == 0:
            return f"{name.strip()}={rest[index + 1:].strip()}"
    return name.strip()


def versions_markdown(name: str, module: str, environment: Environment, present: bool) -> str:
    """Since when the name exists, and whether the TileLang in use has it."""
    words = []
    if module == FACADE:
        added, removed = environment.api.added_in(name), environment.api.removed_in(name)
        oldest = manifest.versions()[0]
        if added:
            words.append(f"in every release since {oldest}" if added == oldest and not removed else f"added in {added}")
        if removed:
            words.append(f"removed in {removed}")
    state = "" if present else f"**not in TileLang {environment.version}**"
    return " · ".join(w for w in (*words, state, f"checked against TileLang {environment.version} ({environment.how})" if present else "") if w)


def split_parameters(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quote, current = [], 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if character == "," and depth == 0 and not quote:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [p for p in (*parts, current.strip()) if p]
