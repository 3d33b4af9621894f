"""Hook of mkdocs: pages of the repository's root join the site, links that leave it become text.

``docs/`` links to files of the repository, which readers of the checkout can follow. On the site
CHANGELOG.md, CONTRIBUTING.md and SECURITY.md are pages; a link to any other file outside of
``docs/`` becomes its path.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
JOINED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# Docstrings refer to other objects by Sphinx's roles, which mkdocs does not know.
ROLE = re.compile(r":(?:class|meth|func|data|mod|attr|exc):(?=<code)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root."""
    for name in JOINED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links that point out of ``docs/``."""
    source = page.file.src_uri
    folder = posixpath.dirname(source if source in JOINED else f"docs/{source}")

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in JOINED:
            uri = path
        elif path.startswith("docs/"):
            uri = path.removeprefix("docs/")
        else:
            return text
        here = posixpath.dirname(source) or "."
        return f"[{text}]({posixpath.relpath(uri, here)}{anchor})"

    return LINK.sub(link, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Remove Sphinx's roles before names in docstrings."""
    return ROLE.sub("", html)
