"""Finding the user's TileLang without importing it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from tilec.records import dataclass

from . import manifest
from .storage import read_regular
from .versions import has_lower_bound, is_version, matches

_REQUIREMENT = re.compile(
    r"^\s*['\"]?tilelang\s*(?:\[[^\]]*\])?\s*(?P<spec>(?:[=!<>~]=?=?)\s*[^;#'\"]+)?", re.IGNORECASE
)
_TABLE = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]")
_ENTRY = re.compile(r"\s*['\"]?tilelang['\"]?\s*=\s*(?:\{.*?\bversion\s*=\s*)?['\"](?P<spec>[^'\"]*)['\"]", re.IGNORECASE)
_MAX_DEPTH = 12  # folders looked at above a file
_VENDORED = ("", "tilelang", "3rdparty/tilelang", "third_party/tilelang")


@dataclass(frozen=True, slots=True)
class InstalledTileLang:
    """``path``: the folder of the package ``tilelang``, or None when only a version is known (a requirement).

    ``how``: one phrase for people, such as "the virtual environment .venv". ``is_tree``: a source tree, which may be ahead
    of the version it calls itself.
    """

    version: str
    path: Path | None
    how: str
    is_tree: bool = False

    @property
    def is_shipped(self) -> bool:
        """Whether the manifest of its version says what it exports."""
        return not self.is_tree and public_version(self.version) in manifest.versions()


@dataclass(frozen=True, slots=True)
class Requirement:
    """``tilelang`` in a requirements file, pyproject.toml, setup.cfg or setup.py: the version specifiers, "" without any."""

    specifiers: str
    file: Path

    def allowed(self) -> list[str]:
        """The shipped releases that fit, oldest first."""
        if not self.specifiers:
            return []
        return [v for v in manifest.versions() if matches(v, self.specifiers)] or [v for v in manifest.versions() if self._is_post_release(v)]

    def _is_post_release(self, version: str) -> bool:
        """``==0.1.6`` names a release of which only the corrected one, 0.1.6.post2, is shipped: the nearest there is."""
        base, post, _ = version.partition(".post")
        return bool(post) and matches(base, self.specifiers)


class Finder:
    """Looks for TileLang above files. What a folder has is looked up once in the finder's life."""

    def __init__(self, interpreter: str | None = None, environ: Mapping[str, str] | None = None):
        self.interpreter = interpreter
        self.environ = os.environ if environ is None else environ
        self._environments: dict[Path, list[tuple[Path, str]]] = {}
        self._installed: dict[Path, InstalledTileLang | None] = {}
        self._trees: dict[Path, InstalledTileLang | None] = {}
        self._requirements: dict[Path, list[Requirement]] = {}

    def find(self, start: Path) -> InstalledTileLang | None:
        """The TileLang a folder belongs to: the client's interpreter, VIRTUAL_ENV, a virtual environment in a folder above,
        conda, a source tree, else the newest release that the project's requirements allow."""
        folders = folders_above(start)
        for prefix, how in self._prefixes(folders):
            if prefix not in self._installed:
                self._installed[prefix] = installed_in(prefix, how)
            found = self._installed[prefix]
            if found:
                return found
        return self.source_tree(folders) or self.required(folders)

    def _prefixes(self, folders: list[Path]) -> Iterator[tuple[Path, str]]:
        if self.interpreter:
            yield Path(self.interpreter).expanduser().parent.parent, f"the interpreter {self.interpreter}"
        if self.environ.get("VIRTUAL_ENV"):
            yield Path(self.environ["VIRTUAL_ENV"]), "VIRTUAL_ENV"
        for folder in folders:
            if folder not in self._environments:
                found = [folder / name for name in (".venv", "venv") if os.path.isfile(folder / name / "pyvenv.cfg")]
                self._environments[folder] = [(prefix, f"the virtual environment {prefix}") for prefix in found]
            yield from self._environments[folder]
        if self.environ.get("CONDA_PREFIX"):
            yield Path(self.environ["CONDA_PREFIX"]), "the conda environment"

    def source_tree(self, folders: list[Path]) -> InstalledTileLang | None:
        """A checkout of TileLang the file lies in, or one vendored beside it."""
        for folder in folders:
            if folder not in self._trees:
                self._trees[folder] = _tree_at(folder)
            if self._trees[folder] is not None:
                return self._trees[folder]
        return None

    def requirements(self, folders: list[Path]) -> Iterator[Requirement]:
        for folder in folders:
            if folder not in self._requirements:
                self._requirements[folder] = _requirements_in(folder)
            yield from self._requirements[folder]

    def required(self, folders: list[Path]) -> InstalledTileLang | None:
        """The newest shipped release that the nearest requirements allow."""
        for one in self.requirements(folders):
            allowed = one.allowed()
            if allowed:
                return InstalledTileLang(allowed[-1], None, f"the requirement tilelang{one.specifiers} of {one.file.name}")
        return None

    def lowest_allowed(self, start: Path) -> str | None:
        """The oldest shipped release that the project's requirements allow, if they name a lower bound."""
        for one in self.requirements(folders_above(start)):
            if one.specifiers:
                allowed = one.allowed()
                return allowed[0] if allowed and has_lower_bound(one.specifiers) else None
        return None


def find(start: Path, interpreter: str | None = None, environ: Mapping[str, str] | None = None) -> InstalledTileLang | None:
    """The TileLang a file or folder belongs to."""
    return Finder(interpreter, environ).find(start if start.is_dir() else start.parent)


def lowest_allowed(start: Path) -> str | None:
    return Finder().lowest_allowed(start)


def folders_above(start: Path) -> list[Path]:
    start = start.absolute()
    return [start, *start.parents][:_MAX_DEPTH]


def public_version(version: str) -> str:
    """Without the local part: ``0.1.9+cu128`` exports what 0.1.9 does."""
    return version.split("+")[0].strip()


# -- installed --------------------------------------------------------------------------------------
def site_packages(prefix: Path) -> list[Path]:
    patterns = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages")
    return [p for pattern in patterns for p in sorted(prefix.glob(pattern)) if p.is_dir()]


def installed_in(prefix: Path, how: str) -> InstalledTileLang | None:
    """The distribution installed under an environment's prefix, from its metadata."""
    for site in site_packages(prefix):
        for info in sorted(site.glob("tilelang-*.dist-info")):
            version = _metadata_version(info / "METADATA")
            if version:
                path = _package_folder(site)
                return InstalledTileLang(version, path, how, path is not None and path.parent != site)
    return None


def _metadata_version(metadata: Path) -> str | None:
    for line in read_regular(metadata).splitlines():
        if line.lower().startswith("version:"):
            version = line.split(":", 1)[1].strip()
            return version if is_version(version) else None
        if not line.strip():
            return None
    return None


def _package_folder(site: Path) -> Path | None:
    """The package's folder; an editable install points elsewhere through its ``.pth`` file."""
    if (site / "tilelang" / "__init__.py").is_file():
        return site / "tilelang"
    for pth in sorted(site.glob("*tilelang*.pth")):
        try:
            for line in read_regular(pth).splitlines():
                folder = Path(line.strip()) / "tilelang"
                if line.strip() and not line.startswith("import") and folder.is_dir():
                    return folder
        except OSError:
            continue
    return None


# -- source trees -----------------------------------------------------------------------------------
def _tree_at(folder: Path) -> InstalledTileLang | None:
    for place in _VENDORED:
        root = folder / place if place else folder
        package = root / "tilelang"
        if os.path.isfile(package / "language" / "__init__.py") and root.name != "site-packages":
            version = _tree_version(root)
            if version:
                return InstalledTileLang(version, package, f"the source tree {root}", True)
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


# -- requirements -----------------------------------------------------------------------------------
def _requirements_in(folder: Path) -> list[Requirement]:
    try:
        entries = sorted(e.name for e in os.scandir(folder))
        inner = sorted(os.listdir(folder / "requirements")) if "requirements" in entries and os.path.isdir(folder / "requirements") else []
    except OSError:
        return []
    named = [n for n in ("pyproject.toml", "setup.cfg", "setup.py") if n in entries]
    lists = [n for n in entries if n.startswith("requirements") and n.endswith(".txt")] + [f"requirements/{n}" for n in inner if n.endswith(".txt")]
    found = []
    for name in (*named, *lists):
        specifiers = requirement(folder / name)
        if specifiers is not None:
            found.append(Requirement(specifiers, folder / name))
    return found


def requirement(file: Path) -> str | None:
    """The version specifiers of ``tilelang`` in a file of requirements, a pyproject.toml or a setup file; "" without any; None if
    absent."""
    text = _read(file)
    if "tilelang" not in text.lower():
        return None
    in_table = _in_table(text) if file.suffix == ".toml" else None
    if in_table is not None:
        return in_table
    quoted = file.suffix in (".toml", ".py")
    for candidate in re.findall(r"['\"]([^'\"\n]+)['\"]", text) if quoted else text.splitlines():
        match = _REQUIREMENT.match(candidate)
        if match and re.match(r"\s*tilelang\s*(\[|[=!<>~;#]|$)", candidate, re.IGNORECASE):
            return (match.group("spec") or "").replace(" ", "").strip()
    return None


def _in_table(text: str) -> str | None:
    """Tools that write ``tilelang = "^0.1.9"`` in a table of dependencies (Poetry, Pixi); a version alone is that version."""
    table = ""
    for line in text.splitlines():
        header = _TABLE.match(line)
        table = header.group(1) if header else table
        entry = _ENTRY.match(line) if table.endswith("dependencies") else None
        if entry:
            written = entry.group("spec").replace(" ", "")
            return "" if written in ("", "*") else f"=={written}" if is_version(written) else written
    return None


def _read(file: Path) -> str:
    return read_regular(file)


# -- names ------------------------------------------------------------------------------------------
@lru_cache(maxsize=8)
def api(found: InstalledTileLang) -> manifest.Manifest:
    """The names that a found TileLang exports: the shipped manifest of its version, else read from its sources."""
    if found.is_shipped or found.path is None:
        return manifest.load(public_version(found.version))
    from . import trees

    return trees.load(found.path, found.version)
