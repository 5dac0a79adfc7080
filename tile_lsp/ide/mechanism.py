"""Which machine mechanism a piece of CUDA text uses, in words."""
from __future__ import annotations

import re

# In order of how much they say: (pattern in CUDA or PTX text, words).
_MECHANISMS: tuple[tuple[str, str], ...] = (
    (r"tcgen05[._]mma", "fifth-generation tensor core MMA (tcgen05.mma) into tensor memory"),
    (r"tcgen05[._]alloc", "allocation of tensor-memory columns (tcgen05.alloc)"),
    (r"tcgen05[._]dealloc", "release of tensor-memory columns (tcgen05.dealloc)"),
    (r"tcgen05[._]ld", "load from tensor memory into registers (tcgen05.ld)"),
    (r"tcgen05[._]st", "store from registers into tensor memory (tcgen05.st)"),
    (r"tcgen05[._]cp", "copy from shared to tensor memory (tcgen05.cp)"),
    (r"tcgen05[._]commit", "commit to an mbarrier (tcgen05.commit)"),
    (r"wgmma", "warpgroup tensor core MMA (wgmma.mma_async)"),
    (r"mma[._]sync", "tensor core MMA (mma.sync)"),
    (r"cp[._]async[._]bulk[._]tensor", "tensor copy by the TMA unit (cp.async.bulk.tensor)"),
    (r"cp[._]async[._]bulk", "bulk copy by the TMA unit (cp.async.bulk)"),
    (r"cp[._]async[._]c[ag]", "asynchronous copy into shared memory (cp.async)"),
    (r"cp[._]async", "asynchronous copy into shared memory (cp.async)"),
    (r"stmatrix", "matrix store from registers into shared memory (stmatrix)"),
    (r"ldmatrix", "matrix load from shared memory into registers (ldmatrix)"),
    (r"mbarrier[._](try|test)_wait", "wait for an mbarrier phase"),
    (r"mbarrier[._]init", "initialisation of an mbarrier"),
    (r"mbarrier[._]arrive", "arrival at an mbarrier"),
    (r"__shfl|shfl[._]sync", "exchange between the threads of a warp (shfl)"),
    (r"\bred[._]|atomicAdd|atomicMax|atomicMin|atom[._]", "atomic update of memory"),
    (r"__syncthreads|bar[._]sync", "barrier of all threads of the block"),
    (r"\b(u?int4|float4|ulonglong2)\b", "16-byte vector access"),
    (r"\b(u?int2|float2|double2)\b", "8-byte vector access"),
)
_COMPILED = tuple((re.compile(pattern), words) for pattern, words in _MECHANISMS)
_MOST = 4  # more would not say more


def mechanisms(cuda: str) -> list[str]:
    """The mechanisms a text uses, the most telling first. A tensor copy is not told a second time as a bulk copy."""
    found = []
    rest = cuda
    for pattern, words in _COMPILED:
        if pattern.search(rest):
            found.append(words)
            rest = pattern.sub(" ", rest)
    if not found and re.search(r"\bfor \(", cuda):
        found.append("a loop of each thread")
    return list(dict.fromkeys(found))[:_MOST]
