"""Finding the user's TileLang without importing it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from . import manifest
from .versions import is_version, matches

_REQUIREMENT = re.compile(
    r"^\s*['\"]?tilelang\s*(?:\[[^\]]*\])?\s*(?P<spec>(?:[=!<>~]=?=?)\s*[^;#'\"]+)?", re.IGNORECASE
)
_MAX_DEPTH = 12  # folders looked at above a file


@dataclass(frozen=True, slots=True)
class InstalledTileLang:
    """``path``: the folder of the package ``tilelang``, or None when only a version is known (a requirement).

    ``how``: one phrase for people, such as "the virtual environment .venv".
    """

    version: str
    path: Path | None
    how: str


def find(
    start: Path, interpreter: str | None = None, environ: Mapping[str, str] | None = None
) -> InstalledTileLang | None:
    """The TileLang a file belongs to: the client's interpreter, VIRTUAL_ENV, a virtual environment in a folder above,
    conda, a source tree, else the newest release that the project's requirements allow."""
    environ = os.environ if environ is None else environ
    start = start if start.is_dir() else start.parent
    for prefix, how in _prefixes(start, interpreter, environ):
        found = installed_in(prefix, how)
        if found:
            return found
    return source_tree(start) or required(start)


def _prefixes(start: Path, interpreter: str | None, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if interpreter:
        yield Path(interpreter).expanduser().parent.parent, f"the interpreter {interpreter}"
    if environ.get("VIRTUAL_ENV"):
        yield Path(environ["VIRTUAL_ENV"]), "VIRTUAL_ENV"
    for folder in folders_above(start):
        for name in (".venv", "venv"):
            if (folder / name / "pyvenv.cfg").is_file():
                yield folder / name, f"the virtual environment {folder / name}"
    if environ.get("CONDA_PREFIX"):
        yield Path(environ["CONDA_PREFIX"]), "the conda environment"


def folders_above(start: Path) -> list[Path]:
    start = start.absolute()
    return [start, *start.parents][:_MAX_DEPTH]


def site_packages(prefix: Path) -> list[Path]:
    patterns = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages")
    return [p for pattern in patterns for p in sorted(prefix.glob(pattern)) if p.is_dir()]


def installed_in(prefix: Path, how: str) -> InstalledTileLang | None:
    """The distribution installed under an environment's prefix, from its metadata."""
    for site in site_packages(prefix):
        for info in sorted(site.glob("tilelang-*.dist-info")):
            version = _metadata_version(info / "METADATA")
            if version:
                return InstalledTileLang(version, _package_folder(site, info), how)
    return None


def _metadata_version(metadata: Path) -> str | None:
    try:
        with metadata.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.lower().startswith("version:"):
                    version = line.split(":", 1)[1].strip()
                    return version if is_version(version) else None
                if not line.strip():
                    return None
    except OSError:
        return None
    return None


def _package_folder(site: Path, info: Path) -> Path | None:
    """The package's folder; an editable install points elsewhere through its ``.pth`` file."""
    if (site / "tilelang" / "__init__.py").is_file():
        return site / "tilelang"
    for pth in sorted(site.glob("*tilelang*.pth")):
        try:
            for line in pth.read_text(encoding="utf-8", errors="replace").splitlines():
                folder = Path(line.strip()) / "tilelang"
                if line.strip() and not line.startswith("import") and folder.is_dir():
                    return folder
        except OSError:
            continue
    return None


def source_tree(start: Path) -> InstalledTileLang | None:
    """A checkout of TileLang the file lies in, or one vendored beside it."""
    for folder in folders_above(start):
        for root in (
            folder,
            folder / "tilelang",
            folder / "3rdparty" / "tilelang",
            folder / "third_party" / "tilelang",
        ):
            package = root / "tilelang"
            if (package / "language" / "__init__.py").is_file() and package.parent.name != "site-packages":
                version = _tree_version(root)
                if version:
                    return InstalledTileLang(version, package, f"the source tree {root}")
    return None


def _tree_version(root: Path) -> str | None:
    for place in (root / "VERSION", root / "tilelang" / "VERSION"):
        if place.is_file():
            version = place.read_text(errors="replace").strip()
            if is_version(version):
                return version
    project = root / "pyproject.toml"
    match = re.search(r'(?m)^version\s*=\s*"([^"]+)"', _read(project))
    return match.group(1) if match and is_version(match.group(1)) else None


def required(start: Path) -> InstalledTileLang | None:
    """The newest shipped release that the nearest requirements allow."""
    for folder in folders_above(start):
        for file in (folder / "pyproject.toml", *sorted(folder.glob("requirements*.txt"))):
            specifiers = requirement(file)
            if specifiers is None:
                continue
            allowed = [v for v in manifest.versions() if matches(v, specifiers)]
            if allowed and specifiers:
                return InstalledTileLang(allowed[-1], None, f"the requirement tilelang{specifiers} of {file.name}")
    return None


def lowest_allowed(start: Path) -> str | None:
    """The oldest shipped release that the project's requirements allow, if they say anything."""
    for folder in folders_above(start):
        for file in (folder / "pyproject.toml", *sorted(folder.glob("requirements*.txt"))):
            specifiers = requirement(file)
            if specifiers:
                allowed = [v for v in manifest.versions() if matches(v, specifiers)]
                return allowed[0] if allowed else None
    return None


def requirement(file: Path) -> str | None:
    """The version specifiers of ``tilelang`` in a requirements file or pyproject.toml; "" without any; None if
    absent."""
    text = _read(file)
    if "tilelang" not in text.lower():
        return None
    candidates = re.findall(r"['\"]([^'\"\n]+)['\"]", text) if file.suffix == ".toml" else text.splitlines()
    for candidate in candidates:
        match = _REQUIREMENT.match(candidate)
        if match and re.match(r"\s*tilelang\s*(\[|[=!<>~;#]|$)", candidate, re.IGNORECASE):
            return (match.group("spec") or "").replace(" ", "").strip()
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    except OSError:
        return ""


@lru_cache(maxsize=8)
def api(found: InstalledTileLang) -> manifest.Manifest:
    """The names that a found TileLang exports: the shipped manifest of its version, else read from its sources."""
    if found.version in manifest.versions() or found.path is None:
        return manifest.load(found.version)
    from .static_names import read_package

    read = read_package(found.path, found.version)
    return read if read is not None else manifest.load(found.version)
