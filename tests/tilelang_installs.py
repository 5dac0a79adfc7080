"""Made-up installations of TileLang: enough of the package for a version to be found and definitions to be looked up."""
from __future__ import annotations

from pathlib import Path

GEMM = '''"""Matrix products."""


def _helper(A):
    return A


def gemm(A, B, C, transpose_A=False):
    """Multiply."""
    return _helper(A)
'''


def install(folder: Path, version: str) -> Path:
    """A virtual environment ``.venv`` in a folder with that TileLang in it; returns the package."""
    site = folder / ".venv" / "lib" / "python3.11" / "site-packages"
    package = site / "tilelang"
    (package / "language").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (package / "__init__.py").write_text("from . import language\n")
    (package / "language" / "__init__.py").write_text("from .gemm_op import gemm\n")
    (package / "language" / "gemm_op.py").write_text(GEMM)
    info = site / f"tilelang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tilelang\nVersion: {version}\n\n")
    return package
