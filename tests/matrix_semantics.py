"""What the device functions of ``transform/matrix`` do, written from the PTX ISA and independently of the compiler.

``FUNCTIONS``: name -> callable(machine, lanes, args): ``lanes`` are the active threads of one warp, ``args`` their
arguments; pointers are ``matrix_machine.Pointer``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matrix_machine import Machine
from sparse_semantics import metadata_rows, spread

_ELEMENT = {
    "f16": "float16",
    "bf16": "bfloat16",
    "tf32": "float32",
    "s8": "int8",
    "u8": "uint8",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "f64": "float64",
}
_ACCUMULATOR = {"f32": "float32", "f16": "float16", "s32": "int32", "f64": "float64"}


def _whole_warp(lanes: list[int]) -> None:
    assert len(lanes) == 32, "a .sync.aligned instruction needs all lanes of the warp"


# ldmatrix: "Each thread in the warp holds a fragment of a row; thread i of a row of eight 16-byte rows".


def _ldmatrix(count: int, transposed: bool):
    def semantics(machine: Machine, lanes: list[int], args: list[list[Any]]) -> None:
        _whole_warp(lanes)
        rows = [args[i][1] for i in range(8 * count)]
        for row in rows:
            assert row.address % 16 == 0, "ldmatrix row is not aligned to 16 bytes"
        matrices = np.stack([row.read(16) for row in rows]).view(np.uint16).reshape(count, 8, 8)
        for lane in range(32):
            words = []
            for m in matrices:
                source = m.T if transposed else m
                words += [source[lane // 4, 2 * (lane % 4)], source[lane // 4, 2 * (lane % 4) + 1]]
            args[lane][0].write(np.array(words, np.uint16).view(np.uint8))

    return semantics


# Fragment tables of mma: (row, column) of element i of a lane's fragment.


def a_position(kind: str, lane: int, i: int) -> tuple[int, int]:
    g, t = lane >> 2, lane & 3
    if kind in ("f16", "bf16"):  # m16n8k16
        return (g if i < 2 or 4 <= i < 6 else g + 8), t * 2 + (i & 1) + (8 if i >= 4 else 0)
    if kind == "tf32":  # m16n8k8
        return (g if i in (0, 2) else g + 8), (t if i in (0, 1) else t + 4)
    if kind in ("s8", "u8", "e4m3", "e5m2"):  # m16n8k32
        return (g if i < 4 or 8 <= i < 12 else g + 8), t * 4 + (i & 3) + (16 if i >= 8 else 0)
    return g + 8 * i, t  # f64: two m8n8k4, one element each


def b_position(kind: str, lane: int, i: int) -> tuple[int, int]:
    """(k, n)."""
    g, t = lane >> 2, lane & 3
    if kind in ("f16", "bf16"):
        return t * 2 + (i & 1) + (8 if i >= 2 else 0), g
    if kind == "tf32":
        return (t if i == 0 else t + 4), g
    if kind in ("s8", "u8", "e4m3", "e5m2"):
        return t * 4 + (i & 3) + (16 if i >= 4 else 0), g
    return t, g


def c_position(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane & 3) * 2 + (i & 1)


K_OF = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "e4m3": 32, "e5m2": 32, "f64": 4}


def round_tf32(x: np.ndarray) -> np.ndarray:
    """cvt.rna.tf32.f32: ten bits of mantissa, ties away from zero."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _mma(a_kind: str, b_kind: str, c_kind: str):
    def semantics(machine: Machine, lanes: list[int], args: list[list[Any]]) -> None:
        _whole_warp(lanes)
        k = K_OF[a_kind]
        exact = np.int64 if c_kind == "s32" else np.float64
        A, B, C = np.zeros((16, k), exact), np.zeros((k, 8), exact), np.zeros((16, 8), exact)
        for lane, (c, a, b) in enumerate(args):
            for i, v in enumerate(_round(a.values(_ELEMENT[a_kind], k // 2), a_kind)):
                A[a_position(a_kind, lane, i)] = v
            for i, v in enumerate(_round(b.values(_ELEMENT[b_kind], k // 4), b_kind)):
                B[b_position(b_kind, lane, i)] = v
            for i, v in enumerate(c.values(_ACCUMULATOR[c_kind], 4)):
                C[c_position(lane, i)] = v
        D = C + A @ B
        for lane, (c, _, _) in enumerate(args):
            c.put(_ACCUMULATOR[c_kind], np.array([D[c_position(lane, i)] for i in range(4)]))

    return semantics


def _mma_sp(a_kind: str, b_kind: str, c_kind: str):
    """m16n8k(2k): A's registers are those of the dense instruction, B's those of two dense ones behind each other."""

    def semantics(machine: Machine, lanes: list[int], args: list[list[Any]]) -> None:
        _whole_warp(lanes)
        k = K_OF[a_kind]
        bits = 256 // k
        exact = np.int64 if c_kind == "s32" else np.float64
        A, B, C = np.zeros((16, k), exact), np.zeros((2 * k, 8), exact), np.zeros((16, 8), exact)
        for lane, (c, a, b, _) in enumerate(args):
            for i, v in enumerate(_round(a.values(_ELEMENT[a_kind], k // 2), a_kind)):
                A[a_position(a_kind, lane, i)] = v
            for i, v in enumerate(_round(b.values(_ELEMENT[b_kind], k // 2), b_kind)):
                row, column = b_position(b_kind, lane, i % (k // 4))
                B[row + i // (k // 4) * k, column] = v
            for i, v in enumerate(c.values(_ACCUMULATOR[c_kind], 4)):
                C[c_position(lane, i)] = v
        D = C + spread(A, metadata_rows([int(given[3]) for given in args], bits), bits) @ B
        for lane, (c, *_) in enumerate(args):
            c.put(_ACCUMULATOR[c_kind], np.array([D[c_position(lane, i)] for i in range(4)]))

    return semantics


def _round(values: np.ndarray, kind: str) -> np.ndarray:
    return round_tf32(values) if kind == "tf32" else values


def _by_name(name: str) -> Any:
    if match := re.fullmatch(r"tile_ldmatrix_x(\d)(_trans)?", name):
        return _ldmatrix(int(match[1]), bool(match[2]))
    if name == "tile_mma_m16n8k4_f64":
        return _mma("f64", "f64", "f64")
    if match := re.fullmatch(r"tile_mma_m16n8k\d+_(\w+?)_(\w+?)_(f32|f16|s32)(_by_k8|_exact_\w+)?", name):
        return _mma(match[1], match[2], match[3])
    if match := re.fullmatch(r"tile_mma_sp_m16n8k\d+_(\w+?)_(\w+?)_(f32|f16|s32)", name):
        return _mma_sp(match[1], match[2], match[3])
    return None


class _Functions(dict):
    def __missing__(self, name: str) -> Any:
        found = _by_name(name)
        if found is None:
            raise KeyError(f"no semantics for the device function {name}")
        self[name] = found
        return found


FUNCTIONS: dict[str, Any] = _Functions()
