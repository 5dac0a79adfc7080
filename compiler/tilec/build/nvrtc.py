"""NVRTC: the CUDA compiler as a library, which takes half of nvcc's time (NVIDIA, "NVRTC" user guide).

It comes with torch's CUDA packages or with a toolkit; it is used where the headers of the same installation lie beside it. What it does not take
(other headers, an architecture it is too old for) is left to nvcc.
"""
from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from functools import lru_cache
from glob import glob
from pathlib import Path

from ..records import dataclass
from ..target.chips import Target

HEADERS = frozenset(("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h"))  # those that need nothing of the host
_INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)


class Rejected(Exception):
    """NVRTC does not take the source; nvcc may, or says why."""


@dataclass(frozen=True)
class Library:
    """One installation: its shared library, its headers, its version and the architectures it knows (``90`` for sm_90 and sm_90a)."""

    path: str
    include: str
    version: str
    architectures: frozenset[int]


def takes(source: str) -> bool:
    """Whether a source includes nothing but CUDA's own arithmetic headers."""
    return HEADERS.issuperset(_INCLUDE.findall(source))


def find(target: Target) -> Library | None:
    """An NVRTC that knows the target; None where there is none, or ``TILEC_CUDA_COMPILER=nvcc`` asks for nvcc."""
    if os.environ.get("TILEC_CUDA_COMPILER", "").lower() == "nvcc":
        return None
    return next((one for one in _libraries() if target.sm in one.architectures), None)


def compile_source(library: Library, source: str, target: Target, kind: str, fast_math: bool = False) -> tuple[bytes, str]:
    """The ``cubin`` or ``ptx`` and the compiler's log with ptxas's figures. Raises Rejected."""
    api = _load(library.path)
    architecture = target.name if kind == "cubin" else target.name.replace("sm_", "compute_")
    options = [f"--gpu-architecture={architecture}", "-std=c++17", f"-I{library.include}", "--ptxas-options=-v", *(["--use_fast_math"] if fast_math else [])]
    program = ctypes.c_void_p()
    _check(api, api.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        code = api.nvrtcCompileProgram(program, len(options), given)
        log = _text(api, api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog, program).rstrip(b"\0").decode("utf-8", "replace")
        if code:
            raise Rejected(log.strip() or _name(api, code))
        sizes = (api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN) if kind == "cubin" else (api.nvrtcGetPTXSize, api.nvrtcGetPTX)
        data = _text(api, *sizes, program)
    finally:
        api.nvrtcDestroyProgram(ctypes.byref(program))
    return (data if kind == "cubin" else data.rstrip(b"\0")), log


def _text(api: ctypes.CDLL, size: object, read: object, program: ctypes.c_void_p) -> bytes:
    length = ctypes.c_size_t()
    _check(api, size(program, ctypes.byref(length)))  # type: ignore[operator]
    place = ctypes.create_string_buffer(length.value)
    _check(api, read(program, place))  # type: ignore[operator]
    return place.raw


def _check(api: ctypes.CDLL, code: int) -> None:
    if code:
        raise Rejected(_name(api, code))


def _name(api: ctypes.CDLL, code: int) -> str:
    api.nvrtcGetErrorString.restype = ctypes.c_char_p
    return str(api.nvrtcGetErrorString(code).decode())


# -- installations ------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def _libraries() -> tuple[Library, ...]:
    found = []
    for folder in _folders():
        for path in sorted(glob(os.path.join(folder, "libnvrtc.so*")), key=len)[:1]:
            include = next((i for i in (Path(folder).parent / "include", Path(folder).parent.parent / "include") if (i / "cuda_fp16.h").is_file()), None)
            library = _describe(path, str(include)) if include is not None else None
            if library is not None:
                found.append(library)
    return tuple(found)


def _folders() -> list[str]:
    """Where libraries lie: torch's CUDA packages first, which fit the driver that torch runs with, then toolkits."""
    spec = importlib.util.find_spec("nvidia")
    packages = list(spec.submodule_search_locations or ()) if spec is not None else []
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", *sorted(glob("/usr/local/cuda-*"), reverse=True)]
    named = [f for p in packages for f in sorted(glob(os.path.join(p, "*", "lib")), reverse=True)]
    return [*named, *(os.path.join(r, lib) for r in roots if r for lib in ("lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"))]


def _describe(path: str, include: str) -> Library | None:
    try:
        api = _load(path)
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        _check(api, api.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        _check(api, api.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        _check(api, api.nvrtcGetSupportedArchs(known))
    except (OSError, AttributeError, Rejected):
        return None
    return Library(path, include, f"{major.value}.{minor.value}", frozenset(known))


@lru_cache(maxsize=8)
def _load(path: str) -> ctypes.CDLL:
    """The library; the one with its built-in functions, which it looks for by name alone, is loaded before it."""
    for builtins in sorted(glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so*"))):
        ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(path)
