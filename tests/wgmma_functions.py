"""What warpgroup matrix instructions do to one warp's share, for programs executed thread by thread. Written from the PTX ISA ("wgmma.mma_async",
"Matrix Descriptor Format", "Register Fragments"), not from the lowering. Operations are over at once: when they may be read is the business of
``role_machine``.
"""
from __future__ import annotations

import re
from typing import Any

import numpy as np
from matrix_machine import decode
from sparse_semantics import metadata_rows, spread

_TYPES = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "s8": "int8", "u8": "uint8", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "f32": "float32", "s32": "int32"}
_SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1}
_NAME = re.compile(r"tile_wgmma_(sp_)?m64n(\d+)k(\d+)_(\w+?)_(\w+?)_(f32|f16|s32)(_rs|_t)?(_tb)?(_z|_c)?$")
_WIDTHS = {1: 128, 2: 64, 3: 32}  # bytes of a swizzled row by the descriptor's layout type


def descriptor(args: list[Any]) -> int:
    base, offset, leading, stride, kind = args
    start = base.offset + offset
    assert start % 16 == 0 and leading % 16 == 0 and stride % 16 == 0
    return (start >> 4 & 0x3FFF) | (leading >> 4 & 0x3FFF) << 16 | (stride >> 4 & 0x3FFF) << 32 | kind << 62


def matrix(run: Any, thread: int, value: int, outer: int, k: int, kind: str, along_outer: bool) -> np.ndarray:
    """[outer, k] as a descriptor tells."""
    start, leading, stride, width = (value & 0x3FFF) << 4, (value >> 16 & 0x3FFF) << 4, (value >> 32 & 0x3FFF) << 4, _WIDTHS[value >> 62]
    size = _SIZES[kind]
    across = width // size
    raw = np.zeros((outer, k, size), np.uint8)
    for o in range(outer):
        for i in range(k):
            if along_outer:
                address = start + o // across * leading + i // 8 * stride + i % 8 * width + o % across * size
            else:
                address = start + o // 8 * stride + o % 8 * width + i * size
            address ^= (address >> 7 & (width // 16 - 1)) << 4
            run.pool.read(address, size, thread, run.moment, " (wgmma)")
            raw[o, i] = run.pool.data[address:address + size]
    return decode(raw.reshape(-1, size), _TYPES[kind]).reshape(outer, k)


def multiply(name: str):
    match = _NAME.match(name)
    assert match, name
    n, k, a_kind, b_kind, c_kind = int(match[2]), int(match[3]), match[4], match[5], match[6]
    registers, a_along_m, b_along_n, start = match[7] == "_rs", match[7] == "_t", bool(match[8]), match[9]
    sparse = bool(match[1])
    held_k = k // 2 if sparse else k

    def run_warp(run: Any, lanes: list[int], args: list[list[Any]]) -> None:
        assert len(lanes) == 32, "a matrix instruction needs all lanes of the warp"
        warp = lanes[0] // 32 % 4
        whole = np.zeros((16, held_k))
        if registers:
            for t, given in zip(lanes, args):
                held = given[1].values(_TYPES[a_kind], 8)
                for r in range(8):
                    whole[t % 32 // 4 + r // 2 % 2 * 8, t % 4 * 2 + r % 2 + r // 4 * 8] = held[r]
        else:
            assert len({given[1] for given in args}) == 1, "descriptors differ within a warp"
            whole = matrix(run, lanes[0], args[0][1], 64, held_k, a_kind, a_along_m)[warp * 16:warp * 16 + 16]
        if sparse:
            bits = 8 * _SIZES[a_kind]
            whole = spread(whole, metadata_rows([int(given[3]) for given in args], bits), bits)
        b = matrix(run, lanes[0], args[0][2], n, k, b_kind, b_along_n)
        product = whole.astype(np.float64) @ b.astype(np.float64).T
        fresh = start == "_z" or (start == "_c" and not args[0][4 if sparse else 3])
        for t, given in zip(lanes, args):
            mine = np.array([product[t % 32 // 4 + h * 8, j * 8 + t % 4 * 2 + e] for j in range(n // 8) for h in range(2) for e in range(2)])
            old = 0 if fresh else given[0].values(_TYPES[c_kind], n // 2)
            given[0].put(_TYPES[c_kind], old + mine)

    return run_warp
