"""How large the code is: files, functions, and the things that there are many of.

    python tools/sizes.py [FOLDER ...]       default: src/hybridjit

In: Python files. Out: a row for each part of the package, the longest files and functions, and the
counts of operators, passes, switches and kernels. It reports and never fails: whether a part is too
long is for a reader to judge.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hybridjit._core.config import SWITCHES
from hybridjit._core.text_table import indented, table
from hybridjit.codegen.kinds import all_emitters
from hybridjit.compiler import PIPELINE
from hybridjit.ops import all_names, all_ops

ROOT = Path(__file__).parent.parent
FUNCTION_AIM, FUNCTION_CEILING = 35, 70
MODULE_AIM, MODULE_CEILING = 350, 500
WIDTH = 100
NESTING = 4
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


@dataclass(frozen=True)
class Function:
    """A function or method: where it stands, its lines, the depth of its blocks."""

    place: str
    name: str
    lines: int
    depth: int


@dataclass(frozen=True)
class Module:
    """A file: its lines, how many are too wide, and its functions."""

    path: Path
    lines: int
    wide: int
    functions: tuple[Function, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Sizes of files and functions.")
    parser.add_argument("folder", nargs="*", type=Path, default=[ROOT / "src" / "hybridjit"])
    parser.add_argument("--longest", type=int, default=10, help="how many to list (10)")
    args = parser.parse_args(arguments)
    for folder in args.folder:
        modules = [read_module(path, folder) for path in sorted(folder.rglob("*.py"))]
        if modules:
            print(report(folder, modules, args.longest))
    print(counts())
    return 0


def read_module(path: Path, folder: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    place = path.relative_to(folder)
    functions = tuple(functions_in(ast.parse(text), str(place)))
    return Module(place, len(lines), sum(len(line) > WIDTH for line in lines), functions)


def functions_in(node: ast.AST, place: str, prefix: str = "") -> Iterator[Function]:
    """All functions below a node, methods and inner ones too; inner lines count for both."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = prefix + child.name
            length = (child.end_lineno or child.lineno) - child.lineno + 1
            yield Function(f"{place}:{child.lineno}", name, length, depth(child))
            yield from functions_in(child, place, f"{name}.")
        elif isinstance(child, ast.ClassDef):
            yield from functions_in(child, place, f"{prefix}{child.name}.")
        else:
            yield from functions_in(child, place, prefix)


def depth(node: ast.AST) -> int:
    """How deep blocks are nested; an ``elif`` is as deep as its ``if``."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                chained = (
                    isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If)
                )
                own = isinstance(child, _BLOCKS) and not chained
                deepest = max(deepest, own + depth(child))
    return deepest


def quantile(values: Sequence[int], part: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


def report(folder: Path, modules: list[Module], longest: int) -> str:
    """The tables of one folder."""
    parts: dict[str, list[Module]] = {}
    for module in modules:
        parts.setdefault(module.path.parts[0].removesuffix(".py"), []).append(module)
    rows = [_row(name, found) for name, found in parts.items()]
    heading = ("part", "files", "lines", "largest", "functions", "median", "90th", "longest")
    functions = [f for module in modules for f in module.functions]
    files = sorted(modules, key=lambda m: -m.lines)[:longest]
    long = sorted(functions, key=lambda f: -f.lines)[:longest]
    return "\n".join(
        [
            folder.name,
            indented(table([*rows, _row("total", modules)], heading, right=range(1, 8))),
            "largest files",
            indented(table([(str(m.lines), str(m.path)) for m in files], right={0})),
            "longest functions",
            indented(table([(str(f.lines), f.name, f.place) for f in long], right={0})),
            *_remarks(modules, functions),
        ]
    )


def _row(name: str, modules: list[Module]) -> tuple[str, ...]:
    sizes = [f.lines for module in modules for f in module.functions]
    return (
        name,
        str(len(modules)),
        str(sum(module.lines for module in modules)),
        str(max(module.lines for module in modules)),
        str(len(sizes)),
        str(quantile(sizes, 0.5)),
        str(quantile(sizes, 0.9)),
        str(max(sizes, default=0)),
    )


def _remarks(modules: list[Module], functions: list[Function]) -> list[str]:
    """Parts above the sizes that the project aims at."""
    over = [
        (sum(m.lines > MODULE_AIM for m in modules), f"files above {MODULE_AIM} lines"),
        (sum(m.lines > MODULE_CEILING for m in modules), f"files above {MODULE_CEILING} lines"),
        (sum(f.lines > FUNCTION_AIM for f in functions), f"functions above {FUNCTION_AIM} lines"),
        (
            sum(f.lines > FUNCTION_CEILING for f in functions),
            f"functions above {FUNCTION_CEILING} lines",
        ),
        (sum(f.depth > NESTING for f in functions), f"functions nested deeper than {NESTING}"),
        (sum(module.wide for module in modules), f"lines wider than {WIDTH}"),
    ]
    return ["over the aims", *(f"  {number:>4}  {what}" for number, what in over)]


def counts() -> str:
    """Counts of growing things."""
    rows = [
        (str(len(all_ops())), f"operators, with {len(all_names())} names"),
        (str(len(PIPELINE)), "passes"),
        (str(len(SWITCHES)), "switches"),
        (str(len(all_emitters())), f"kernel kinds: {', '.join(sorted(all_emitters()))}"),
    ]
    return "counts\n" + indented(table(rows, right={0}))


if __name__ == "__main__":
    sys.exit(main())
