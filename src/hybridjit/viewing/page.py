"""One self-contained HTML file of a document.

Input: a :class:`.schema.Document`. Output: HTML. The page contains the document as inert JSON
without ``<``; scripts create text nodes from it, never markup. The content security policy permits
scripts and styles with known hashes only, and no loading or sending of data.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import webbrowser
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

from .._core.frozen import dataclass
from ..formats.atomic import write_atomically
from .schema import Document

# Order of loading: each script uses earlier ones.
SCRIPTS = (
    "dom.js", "model.js", "layout.js", "blocks.js", "minimap.js", "graph.js", "charts.js",
    "panels.js", "inspector.js", "main.js",
)  # fmt: skip
_LAYOUT = ("dagre.LICENSE", "dagre.min.js")
Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Page:
    """A written file. Its string is its path; a notebook displays the page."""

    path: str

    def __str__(self) -> str:
        return self.path

    def __fspath__(self) -> str:
        return self.path

    def open(self) -> None:
        """Open the page in a browser."""
        webbrowser.open(f"file://{os.path.abspath(self.path)}")

    def _repr_html_(self) -> str:
        """A sandboxed frame with the page, which can only run its own scripts."""
        with open(self.path, encoding="utf-8") as file:
            inside = html.escape(file.read(), quote=True)
        return (
            f'<iframe srcdoc="{inside}" sandbox="allow-scripts" width="100%" height="800" '
            'style="border:1px solid #8888" title="hybridjit view"></iframe>'
        )


def write_page(document: Document, path: Path) -> Page:
    """Write the page to a file atomically. Raises MXNetError if it cannot be written."""
    write_atomically(path, [page_text(document).encode("utf-8", "backslashreplace")])
    return Page(os.fspath(path))


def page_text(document: Document) -> str:
    """The page as HTML."""
    scripts, style = _parts()
    parts = {
        "policy": _policy(scripts, style),
        "title": html.escape(_visible(f"{document['name']} - hybridjit view")),
        "style": style,
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
        "document": inert_json(document),
    }
    pieces = _file("template.html").split("{{")
    rest = (piece.partition("}}") for piece in pieces[1:])
    return pieces[0] + "".join(parts[name] + text for name, _, text in rest)


def inert_json(document: object) -> str:
    """JSON in ASCII that cannot close an element or begin a comment."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _visible(text: str) -> str:
    """Text for a title, without invisible characters and those that change the direction."""
    return "".join(c if c.isprintable() else "?" for c in text)


@lru_cache(maxsize=1)
def _parts() -> tuple[tuple[str, ...], str]:
    """The scripts in order, the layout library with its licence first; and the style."""
    licence, library = (_file(f"vendor/{name}") for name in _LAYOUT)
    scripts = (f"/*!\n{licence}*/\n{library}", *map(_file, SCRIPTS))
    return scripts, _file("style.css")


def _file(name: str) -> str:
    folder = resources.files(__package__) / "page"
    return (folder / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    hashes = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
