"""Count the patterns of unclear prose in comments, docstrings and error messages, by folder.

    python tools/prose.py                         every folder of src/hybridjit
    python tools/prose.py src/hybridjit/passes    these files and folders; --show lists each place

Counted are the word *what* (a clause that begins with it often replaces a noun) per 10,000 words,
and banned phrases: ``docs/internals/glossary.md`` has plain terms. ``test_prose.py`` lists
the folders that are held to ``LIMIT`` and to no banned phrase.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 8  # uses of "what" per 10,000 words
BANNED = re.compile(
    r"\bway back\b|\bgoes? back over\b|\bis no \b|\bare no \b|\bof (?:its|their) own\b"
    r"|\bwhole numbers?\b|\bnobody\b|\bwhoever\b|\bso many\b|\ba text\b|\btexts\b|\bturned\b"
    r"|\bside by side\b|\babreast\b|\b(?:is|are) told\b|\bwhat reaches\b",
    re.IGNORECASE,
)
WHAT = re.compile(r"\bwhat\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z']+")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Prose(NamedTuple):
    """A comment, docstring or message, and its first line."""

    path: Path
    line: int
    text: str


class Count(NamedTuple):
    """Words, uses of *what*, and banned phrases."""

    words: int
    what: int
    banned: int

    @property
    def rate(self) -> float:
        """Uses of *what* per 10,000 words."""
        return 1e4 * self.what / max(1, self.words)

    @property
    def within(self) -> bool:
        """At most ``LIMIT`` (one use is allowed in a short file) and no banned phrase."""
        return not self.banned and (self.what <= 1 or self.rate <= LIMIT)


def comments(source: str, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """A number sign outside of string literals begins a comment.

    The tokenizer, which takes four times as long as the parser, reads only literals of several
    lines: comments may be between their parts.
    """
    lines = [line.encode() for line in source.split("\n")]
    literals: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for node in nodes:
        if not is_string(node):
            continue
        first, last = node.lineno, node.end_lineno
        if first < last and any(b"#" in line for line in lines[first - 1 : last]):
            yield from comments_between(ast.get_source_segment(source, node) or "", first)
        for line in range(first, last + 1):
            begin = node.col_offset if line == first else 0
            end = node.end_col_offset if line == last else float("inf")
            literals[line].append((begin, end))
    for number, line in enumerate(lines, 1):
        at = line.find(b"#")
        while at >= 0 and any(begin <= at < end for begin, end in literals[number]):
            at = line.find(b"#", at + 1)
        if at >= 0:
            yield number, line[at:].decode()


def is_string(node: ast.AST) -> bool:
    """Whether the node is a literal of characters or bytes, formatted or not."""
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return constant or isinstance(node, ast.JoinedStr)


def comments_between(literals: str, first: int) -> Iterator[tuple[int, str]]:
    """Comments between adjacent string literals, which begin in line ``first``."""
    for token in tokenize.generate_tokens(io.StringIO(f"({literals})").readline):
        if token.type == tokenize.COMMENT:
            yield first + token.start[0] - 1, token.string


def docstrings_and_messages(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Docstrings, and string literals within ``raise`` statements."""
    for node in nodes:
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text
        if isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def prose_of(path: Path) -> Iterator[Prose]:
    source = path.read_text(encoding="utf8")
    nodes = [*ast.walk(ast.parse(source))]
    for line, text in (*comments(source, nodes), *docstrings_and_messages(nodes)):
        yield Prose(path, line, text)


def files_below(place: Path) -> list[Path]:
    """Python files of a folder, or the file itself. Vendored files are left out."""
    found = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [path for path in found if "vendor" not in path.parts]


def found_in(place: Path) -> list[Prose]:
    return [prose for path in files_below(place) for prose in prose_of(path)]


def count(found: list[Prose]) -> Count:
    return Count(
        sum(len(WORD.findall(prose.text)) for prose in found),
        sum(len(WHAT.findall(prose.text)) for prose in found),
        sum(len(BANNED.findall(prose.text)) for prose in found),
    )


def offences(found: list[Prose]) -> Iterator[str]:
    """`path:line: phrase` for each counted pattern."""
    for prose in found:
        for pattern in (WHAT, BANNED):
            for match in pattern.finditer(prose.text):
                line = prose.line + prose.text.count("\n", 0, match.start())
                yield f"{prose.path.relative_to(ROOT)}:{line}: {match[0].strip()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders")
    parser.add_argument("--show", action="store_true", help="list each place")
    chosen = parser.parse_args()
    places = [path.resolve() for path in chosen.paths] or sorted(
        path for path in (ROOT / "src/hybridjit").iterdir() if path.suffix in ("", ".py")
    )
    for place in places:
        found = found_in(place)
        counted = count(found)
        if chosen.show:
            print(*offences(found), sep="\n")
        print(
            f"{place.relative_to(ROOT)}: {counted.words} words, {counted.rate:.0f} what per 10,000,"
            f" {counted.banned} banned phrases"
        )


if __name__ == "__main__":
    main()
