"""What a user has: a wheel of this checkout, a virtual environment without it, a home folder without anything."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def wheel(folder: Path) -> Path:
    """This checkout as a wheel in a folder. Made from a copy: building writes beside the sources."""
    sources = folder / "sources"
    for name in ("tile_lsp", "compiler"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, sources)
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "-w", str(wheels), str(sources)]
    for more in (["--no-build-isolation"], []):  # with the setuptools that is here; else pip fetches one
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            return next(wheels.glob("tilec-*.whl"))
    pytest.skip(f"no wheel can be built here: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")


_OWN = ("tilec", "tile_lsp", "__editable__")  # this project, however it is installed


def environment(folder: Path) -> Path:
    """A virtual environment that sees this one's packages but this project's own: what a package index would give, without one. Returns its Python."""
    made = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(made)], check=True, timeout=180, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    # An index would give a newer one than old venvs bring; the one of this environment is seen only when that is gone.
    subprocess.run([str(made / "bin" / "python"), "-m", "pip", "uninstall", "-q", "-y", "setuptools"], capture_output=True, timeout=60)
    shared = folder / "packages"
    shared.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(_OWN) and entry.name.split("-")[0] != "pip" and entry.suffix != ".pth":
            (shared / entry.name).symlink_to(entry)
    python = made / "bin" / "python"
    site = subprocess.run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True).stdout.strip()
    (Path(site) / "packages.pth").write_text(f"{shared}\n")
    return python


def clean(folder: Path, python: Path, wheels: Path) -> dict[str, str]:
    """The variables of a new user in that environment: an empty home folder, pip that looks at the wheels alone."""
    home = folder / "home"
    home.mkdir()
    return {"PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "VIRTUAL_ENV": str(python.parent.parent),
            "PIP_FIND_LINKS": str(wheels), "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
