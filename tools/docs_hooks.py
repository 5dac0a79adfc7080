"""What mkdocs needs beyond docs/: the rules' pages, which are package data, and links that leave the folder."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "compiler" / "tilec" / "check" / "pages"
REPOSITORY = "https://github.com/tilec/tilec/blob/main/"
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]*)([^)\s]*\))")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the rules below ``rules/pages``."""
    from mkdocs.structure.files import File

    for page in sorted(PAGES.glob("*.md")):
        files.append(File.generated(config, f"rules/pages/{page.name}", abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to rules' pages stay in the site; other files of the repository are links to the repository. A file that is not there is an error."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    if page.file.src_uri.startswith("rules/pages/"):
        folder = PAGES

    def moved(match: re.Match[str]) -> str:
        target = (folder / match.group(2)).resolve()
        if not target.exists():
            from mkdocs.exceptions import PluginError

            raise PluginError(f"{page.file.src_uri}: {match.group(2)} does not exist")
        if target.parent == PAGES:
            depth = page.file.src_uri.count("/")
            return f"{match.group(1)}{'../' * depth}rules/pages/{target.name}{match.group(3)}"
        if target.is_relative_to(ROOT / "docs"):
            return match.group(0)
        return f"{match.group(1)}{REPOSITORY}{target.relative_to(ROOT).as_posix()}{match.group(3)}"

    return _LINK.sub(moved, markdown)
