"""``tile-lsp doctor``: what was found on this machine, and how to get what is missing."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib import metadata, util
from pathlib import Path

from tilec.records import dataclass

from .main import EXIT_OK, UsageError

OK, MISSING, NOTE = "ok", "missing", "note"


@dataclass(frozen=True)
class Finding:
    """``remedy``: what to do about it, "" if nothing."""

    subject: str
    state: str
    text: str
    remedy: str = ""


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="tell what was found on this machine",
        description="Tell what was found and how to get what is missing.",
    )
    parser.add_argument(
        "path", nargs="?", default=".", metavar="PATH", help="the project to look at (default: the working folder)"
    )
    parser.add_argument("--output-format", choices=("text", "json"), default="text")


def execute(args: argparse.Namespace) -> int:
    if not Path(args.path).exists():
        raise UsageError(f"{args.path}: no such file or folder")
    findings = examine(Path(args.path))
    if args.output_format == "json":
        print(json.dumps([asdict(f) for f in findings], indent=2))
        return EXIT_OK
    width = max(len(f.subject) for f in findings)
    for f in findings:
        mark = {OK: "+", MISSING: "-", NOTE: " "}[f.state]
        print(f"{mark} {f.subject:{width}}  {f.text}")
        if f.remedy:
            print(f"  {'':{width}}  {f.remedy}")
    return EXIT_OK


def examine(path: Path) -> list[Finding]:
    return [
        _self(),
        _tilelang(path),
        _configuration(path),
        _extra("compile", "tvm", "apache-tvm", "lowering, CUDA source and CPU runs"),
        _extra("run", "torch", "torch", "running kernels"),
        _nvcc(),
        _nvrtc(),
        _disassembler(),
        _gpu(),
        _editors(),
    ]


def _self() -> Finding:
    from .. import __file__ as here

    return Finding(
        "tile-lsp",
        OK,
        f"{_version('tilec') or 'not installed as a package'}, Python {sys.version.split()[0]}, {Path(here).parent}",
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _tilelang(path: Path) -> Finding:
    from ..releases import discover, manifest

    found = discover.find(path.absolute())
    if found is None:
        return Finding(
            "TileLang",
            NOTE,
            f"none found for {path.absolute()}; kernels are checked against {manifest.latest()}, the newest known",
            "install it into .venv, name a version in pyproject.toml, or pass --tilelang-version",
        )
    shipped = (
        ""
        if found.version in manifest.versions()
        else "; names are read from its sources"
        if found.path
        else f"; names of {manifest.nearest(found.version)} are used"
    )
    return Finding("TileLang", OK, f"{found.version} from {found.how}{shipped}")


def _configuration(path: Path) -> Finding:
    from ..ide import project

    try:
        root = project.find(path if path.is_dir() else path.parent).root
    except Exception as error:
        return Finding("configuration", MISSING, str(error), "correct the file")
    return Finding(
        "configuration", NOTE, f"{root}" if root else "none (tile-lsp.toml or [tool.tile-lsp] in pyproject.toml)"
    )


def _extra(extra: str, module: str, distribution: str, what: str) -> Finding:
    if util.find_spec(module) is not None:
        return Finding(f"[{extra}]", OK, f"{distribution} {_version(distribution) or '(unknown version)'}: {what}")
    return Finding(
        f"[{extra}]", MISSING, f"{distribution} is not installed: {what} not available", f"pip install 'tilec[{extra}]'"
    )


def _output(command: list[str]) -> str | None:
    """What a program prints, or None if it is absent or fails."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _nvcc() -> Finding:
    text = _output(["nvcc", "--version"])
    if text is None:
        return Finding(
            "nvcc",
            MISSING,
            "not on PATH: kernels are shown as CUDA but not compiled",
            "install the CUDA toolkit and put its bin folder on PATH",
        )
    release = next(
        (line.split("release", 1)[1].split(",")[0].strip() for line in text.splitlines() if "release" in line),
        "unknown release",
    )
    return Finding("nvcc", OK, f"{release}, {shutil.which('nvcc')}")


def _nvrtc() -> Finding:
    """NVRTC with its headers, which compiles in half of nvcc's time."""
    from tilec.build import nvrtc
    from tilec.target.chips import find

    library = nvrtc.find(find("sm_90a"))
    if library is None:
        return Finding("NVRTC", MISSING, "not found: nvcc compiles instead, in twice the time", "it comes with torch's CUDA packages and with the toolkit")
    return Finding("NVRTC", OK, f"{library.version}, {library.path}")


def _disassembler() -> Finding:
    from tilec.build.nvcc import disassembler

    found = disassembler()
    if found is None:
        return Finding("cuobjdump", MISSING, "neither it nor nvdisasm is found: no --stage sass", "packages cuda-cuobjdump and cuda-nvdisasm of the CUDA toolkit")
    return Finding("cuobjdump", OK, f"{found}: machine code (--stage sass)")


def _gpu() -> Finding:
    text = _output(["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"])
    if not text or not text.strip():
        return Finding("GPU", NOTE, "none visible: kernels run on the CPU and are checked for all declared chips")
    return Finding("GPU", OK, "; ".join(line.strip() for line in text.strip().splitlines()))


def _editors() -> Finding:
    found = [
        name
        for name, command in (("VS Code", "code"), ("Neovim", "nvim"), ("Helix", "hx"), ("Emacs", "emacs"))
        if shutil.which(command)
    ]
    return Finding("editors", NOTE, ", ".join(found) or "none on PATH")
