"""HTML of tables and foldable lists, for the display of objects in notebooks.

Input: strings, of which none is HTML. Output: HTML without scripts and without styles of classes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

_CELL = "padding:0.1em 0.6em;text-align:{}"


def html_table(
    rows: Iterable[Sequence[str]], heading: Sequence[str] = (), right: Collection[int] = ()
) -> str:
    """A table; the columns in ``right`` are aligned to the right."""
    sides = ["right" if i in right else "left" for i in range(max(right, default=0) + 1)]
    head = f"<thead>{_row('th', heading, sides)}</thead>" if heading else ""
    body = "".join(_row("td", row, sides) for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    made = []
    for i, cell in enumerate(cells):
        style = _CELL.format(sides[i] if i < len(sides) else "left")
        made.append(f'<{tag} style="{style}">{escape(cell)}</{tag}>')
    return f"<tr>{''.join(made)}</tr>"


def html_lines(text: str) -> str:
    """Text with its line ends and columns."""
    return f"<pre>{escape(text)}</pre>"


def html_fold(title: str, inside: str, is_open: bool = False) -> str:
    """A title that shows and hides the HTML ``inside``."""
    state = " open" if is_open else ""
    style = "margin-left:1.2em"
    summary = f"<summary><code>{escape(title)}</code></summary>"
    return f'<details{state}>{summary}<div style="{style}">{inside}</div></details>'


def html_code(text: str) -> str:
    """A line of code."""
    return f"<div><code>{escape(text)}</code></div>"
