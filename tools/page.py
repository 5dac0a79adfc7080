"""Pages of the documentation that a tool writes: written anew, or with ``--check`` compared with what is there."""
from __future__ import annotations

import sys
from pathlib import Path


def keep(page: Path, text: str, tool: str) -> int:
    """The exit status. The file may be missing."""
    if "--check" not in sys.argv[1:]:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/{page.name} is not up to date: python {tool}", file=sys.stderr)
    return 1
