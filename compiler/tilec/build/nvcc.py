"""The CUDA toolkit: finding nvcc, compiling to PTX and cubin, resource facts, disassembly."""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from glob import glob
from pathlib import Path

from ..records import dataclass
from ..target.chips import Target
from . import cache, nvrtc
from .remarks import Remark, parse_remarks

TIMEOUT = 180.0  # seconds for one compilation


class ToolkitError(Exception):
    """nvcc is missing, takes too long or rejects the source."""


@dataclass(frozen=True)
class Resources:
    """What ptxas reports for a kernel: 32-bit registers a thread, spilled bytes, stack bytes a thread, static shared bytes."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Compiled:
    data: bytes  # the cubin, or PTX text
    log: str
    resources: dict[str, Resources]

    def remarks(self) -> list[Remark]:
        """What ptxas says about the kernels' speed."""
        return parse_remarks(self.log)


def find_nvcc() -> str | None:
    """nvcc on PATH, under CUDA_HOME or CUDA_PATH, or in /usr/local/cuda."""
    found = shutil.which("nvcc")
    if found:
        return found
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root and (Path(root) / "bin" / "nvcc").is_file():
            return str(Path(root) / "bin" / "nvcc")
    return None


def architecture(target: Target) -> str:
    """``90a`` of ``sm_90a``."""
    return target.name.removeprefix("sm_")


def can_compile(target: Target) -> bool:
    """Whether there is a compiler for CUDA text: NVRTC, as a library, or nvcc."""
    return nvrtc.find(target) is not None or find_nvcc() is not None


def compile_source(source: str, target: Target, kind: str = "cubin", fast_math: bool = False) -> Compiled:
    """Compile CUDA text to a ``cubin`` or ``ptx``, from the cache where it is there; by NVRTC, or else by nvcc. Raises ToolkitError.

    ptxas spills a few registers where one block more then fits on a multiprocessor; a kernel that spills is compiled again for at
    least one block, which lets it have them, and the better of the two is taken.
    """
    made = _compiled(source, target, kind, fast_math)
    if kind != "cubin" or not _could_have_more(source, made):
        return made
    return min(made, _compiled(_BOUNDS.sub(r"__launch_bounds__(\1, 1)", source), target, kind, fast_math), key=_spilled)


_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)")  # without the least number of blocks
_REGISTERS = 65536  # of a multiprocessor; a thread has 255 at most


def _could_have_more(source: str, made: Compiled) -> bool:
    """Whether a kernel spills with fewer registers than its threads could have."""
    threads = max(map(int, _BOUNDS.findall(source)), default=0)
    return threads > 0 and any(r.spill_bytes and r.registers < min(255, _REGISTERS // threads // 8 * 8) for r in made.resources.values())


def _spilled(made: Compiled) -> int:
    return sum(r.spill_bytes for r in made.resources.values())


def _compiled(source: str, target: Target, kind: str, fast_math: bool) -> Compiled:
    library = nvrtc.find(target) if nvrtc.takes(source) else None
    tool = find_nvcc()
    if library is None and tool is None:
        raise ToolkitError("nvcc is not found; install the CUDA toolkit and put nvcc on PATH, or set CUDA_HOME")
    flags = ("--use_fast_math",) if fast_math else ()
    names = [cache.key(*which, target.name, kind, *flags, source) for which in _identities(library, tool)]
    for name in names:
        stored, log = cache.read(name), cache.read(name + ".log")
        if stored is not None and log is not None:
            text = log.decode("utf-8", "replace")
            return Compiled(stored, text, parse_resources(text))
    name, data, text = names[-1], b"", ""
    if library is not None:
        try:
            data, text = nvrtc.compile_source(library, source, target, kind, fast_math)
            name = names[0]
        except nvrtc.Rejected as error:
            if tool is None:
                raise ToolkitError(f"NVRTC rejects the generated source for {target.name}: {_first_error(str(error))}") from None
    if not data:
        assert tool is not None
        data, text = _run(tool, source, target, kind, flags)
    cache.write(name, data)
    cache.write(name + ".log", text.encode())
    return Compiled(data, text, parse_resources(text))


def _identities(library: nvrtc.Library | None, tool: str | None) -> list[tuple[str, ...]]:
    """What tells the compilers' results apart, in the order in which they are asked."""
    found: list[tuple[str, ...]] = []
    if library is not None:
        found.append(("nvrtc", library.path, library.version, library.include))
    if tool is not None:
        found.append(("nvcc", tool, _version(tool)))
    return found


def _version(nvcc: str) -> str:
    try:
        stat = os.stat(os.path.realpath(nvcc))
    except OSError:
        return ""
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def _run(nvcc: str, source: str, target: Target, kind: str, flags: tuple[str, ...] = ()) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        text, out = Path(folder, "kernel.cu"), Path(folder, f"kernel.{kind}")
        text.write_text(source, encoding="utf-8")
        arch = architecture(target)
        command = [nvcc, f"-{kind}", "-O3", "-std=c++17", *flags, "-Xptxas", "-v", "-gencode", f"arch=compute_{arch},code={'sm' if kind == 'cubin' else 'compute'}_{arch}",
                   "-o", str(out), str(text), *_includes(nvcc, source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, cwd=folder, check=False)
        except subprocess.TimeoutExpired:
            raise ToolkitError(f"nvcc did not finish within {TIMEOUT:.0f} seconds") from None
        except OSError as error:
            raise ToolkitError(f"nvcc could not be started: {error}") from None
        log = done.stdout + done.stderr
        if done.returncode != 0 or not out.is_file():
            raise ToolkitError(f"nvcc rejects the generated source for {target.name}: {_first_error(log)}")
        return out.read_bytes(), log


def _includes(nvcc: str, source: str) -> list[str]:
    """Where cuRAND's headers are, for kernels that draw random numbers: in the toolkit, or in the packages torch depends on."""
    if "curand_kernel.h" not in source or (Path(os.path.realpath(nvcc)).parent.parent / "include" / "curand_kernel.h").is_file():
        return []
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for header in sorted(Path(folder).glob("*/include/curand_kernel.h")):
            return [f"-I{header.parent}"]
    return []


def _first_error(log: str) -> str:
    for line in log.splitlines():
        if "error" in line.lower() or "fatal" in line.lower():
            return line.strip()[:300]
    return (log.strip().splitlines() or ["no message"])[-1][:300]


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse_resources(log: str) -> dict[str, Resources]:
    """The figures of ``-Xptxas -v`` by kernel."""
    found: dict[str, Resources] = {}
    name, stack, spill = "", 0, 0
    for line in log.splitlines():
        entry = _ENTRY.search(line)
        if entry:
            name, stack, spill = entry.group(1), 0, 0
        frame = _STACK.search(line)
        if frame:
            stack, spill = int(frame.group(1)), int(frame.group(2)) + int(frame.group(3))
        used = _USED.search(line)
        if used and name:
            shared = _SHARED.search(line)
            found[name] = Resources(int(used.group(1)), spill, stack, int(shared.group(1)) if shared else 0)
    return found


def _find_tool(name: str) -> str | None:
    """A program of the toolkit: on PATH, beside nvcc, or where toolkits are installed."""
    found = shutil.which(name)
    if found:
        return found
    nvcc = find_nvcc()
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", *sorted(glob("/usr/local/cuda-*"), reverse=True)]
    folders = [Path(os.path.realpath(nvcc)).parent] if nvcc else []
    folders += [Path(root) / "bin" for root in roots if root]
    return next((str(folder / name) for folder in folders if (folder / name).is_file()), None)


def disassembler() -> str | None:
    """The program that shows machine code (``--stage sass``), None if the toolkit has none here."""
    return _find_tool("cuobjdump") or _find_tool("nvdisasm")


def disassemble(cubin: bytes) -> str:
    """SASS of a cubin. Raises ToolkitError."""
    cuobjdump, nvdisasm = _find_tool("cuobjdump"), _find_tool("nvdisasm")
    if cuobjdump is None and nvdisasm is None:
        raise ToolkitError("machine code cannot be shown: neither cuobjdump nor nvdisasm is found; they come with the CUDA toolkit "
                           "(packages cuda-cuobjdump and cuda-nvdisasm)")
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [cuobjdump, "-sass", str(path)] if cuobjdump else [str(nvdisasm), "-c", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolkitError(f"{Path(command[0]).name} failed: {error}") from None
        if done.returncode != 0:
            raise ToolkitError(f"{Path(command[0]).name} failed: {done.stderr.strip()[:300]}")
        return done.stdout
