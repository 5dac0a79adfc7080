"""Sparse operands as the PTX ISA has them ("Sparse matrix storage", the metadata figures of "mma.sp"), for programs run thread by thread."""
from __future__ import annotations

import numpy as np


def metadata_rows(words: list[int], bits: int) -> list[int]:
    """The metadata of sixteen rows, as one number a row, out of what a warp's lanes pass with selector 0."""
    rows = [0] * 16
    for lane, word in enumerate(words):
        g, t = lane >> 2, lane & 3
        word &= 0xFFFFFFFF
        if bits == 8:  # all four: thread pairs hold rows g and g + 8, thread 0 and 1 the first 32 bits
            rows[g + 8 * (t & 1)] |= word << (32 * (t >> 1))
        elif t < 2:  # threads 0 and 1: the first and the second sixteen bits, row g below row g + 8
            rows[g] |= (word & 0xFFFF) << (16 * t)
            rows[g + 8] |= (word >> 16) << (16 * t)
    return rows


def spread(kept: np.ndarray, rows: list[int], bits: int) -> np.ndarray:
    """[16, k] of the kept elements [16, k / 2]."""
    half = kept.shape[1]
    out = np.zeros((kept.shape[0], 2 * half), kept.dtype)
    for r, word in enumerate(rows):
        for s in range(half):
            if bits == 32:
                nibble = word >> (4 * s) & 15
                assert nibble in (0b0100, 0b1110), "a 32-bit element's position is written for its two halves"
                out[r, 2 * s + (nibble == 0b1110)] = kept[r, s]
            else:
                nibble = word >> (4 * (s // 2)) & 15
                assert nibble & 3 < nibble >> 2, "ordered metadata ascend"
                out[r, 4 * (s // 2) + (nibble >> 2 if s % 2 else nibble & 3)] = kept[r, s]
    return out


def compressed(dense: np.ndarray, bits: int, word_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The kept elements and the metadata (as unsigned numbers) of a matrix with at most two nonzeros in four (one in two)."""
    M, K = dense.shape
    kept = np.zeros((M, K // 2), dense.dtype)
    group = 2 if bits == 32 else 4
    nibbles = np.zeros((M, K // group), np.int64)
    for m in range(M):
        for g in range(K // group):
            places = [i for i in range(group) if dense[m, g * group + i]]
            if group == 2:
                first = places[0] if places else 0
                kept[m, g], nibbles[m, g] = dense[m, 2 * g + first], 0b1110 if first else 0b0100
                continue
            spare = [i for i in range(4) if i not in places]
            low, high = sorted((places + spare)[:2])
            kept[m, 2 * g], kept[m, 2 * g + 1] = dense[m, 4 * g + low], dense[m, 4 * g + high]
            nibbles[m, g] = low | high << 2
    per = word_bits // 4
    packed = sum(nibbles[:, i::per] << (4 * i) for i in range(per))
    return kept, packed.astype(f"uint{word_bits}")
