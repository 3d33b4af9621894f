"""Write the generated parts of README.md and docs/ from the code and from measurement records.

    python tools/docs.py            rewrite outdated parts
    python tools/docs.py --check    list it, and exit with 1

A page marks a generated part by ``<!-- generated: NAME ARGUMENTS -->`` and ``<!-- end -->``; the
text between them is replaced. ``GENERATORS`` maps each name to the function that makes the text.
The pages of operators are generated as a whole. A test runs ``--check``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hybridjit import cli
from hybridjit._core.config import MAX_THREADS, switch_table
from hybridjit.compiler import JOINT, PIPELINE, Pass
from hybridjit.control.body import MOST_STEPS
from hybridjit.formats.mxnet import params, symbol_nodes, symbol_reader, symbol_upgrade
from hybridjit.formats.onnx import messages
from hybridjit.ir.kinds import KINDS
from hybridjit.onnx import importer
from hybridjit.ops import all_ops, attrs, manual
from hybridjit.ops.namespace import SUBMODULES, input_slots, is_variadic, signature
from hybridjit.ops.record import OpDef
from hybridjit.ops.vision.region_bins import MOST_SAMPLES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OPERATORS = DOCS / "reference" / "operators"
PART = re.compile(r"(<!-- generated: ([^>]*?) -->\n)(.*?)(<!-- end -->)", re.S)
OPERATORS_INTRO = """# Operators

Each operator is a function of `nd` and `sym` under the same name. Its arguments are the input
arrays, then the attributes. `out=` of `nd` writes into an array, `name=` of `sym` names the node.
Shapes, types and attribute values that an operator does not take raise `MXNetError`.

"""
FAMILIES = {
    "elementwise": "Pointwise operators",
    "tensor": "Shape, index, reduction and creation operators",
    "nn": "Layers",
    "sequence": "Recurrent layers, attention, sequences",
    "vision": "Images, boxes, regions",
    "random": "Random draws and densities",
    "linalg": "Linear algebra",
    "optimizer": "Update rules of optimizers",
    "int8": "Operators on 8-bit values",
}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(c) for c in line)} |" for line in lines) + "\n"


def _cell(content: object) -> str:
    return str(content).replace("|", "\\|").replace("\n", " ")


# Performance


def _record(name: str) -> Mapping[str, Any]:
    return json.loads((DOCS / "performance" / f"{name}.json").read_text(encoding="utf-8"))


def performance(*names: str) -> str:
    """The tables of measurement records, each with its origin."""
    return "\n".join(_measured(_record(name)) for name in names)


def _measured(record: Mapping[str, Any]) -> str:
    means = [f"{name} {value:.2f}" for name, value in record["geometric_mean"].items()]
    mean = f"\nGeometric mean: {', '.join(means)}.\n" if means else ""
    origin = f"{record['cpu']}, {record['date']}, commit `{record['commit']}`."
    commands = "".join(f"{line}\n" for line in record["commands"])
    return (
        f"**{record['title']}** ({record['unit']})\n\n"
        f"{table(record['columns'], record['rows'])}{mean}\n"
        f"{origin}\n\n```console\n{commands}```\n"
    )


def headline() -> str:
    """The table of the README: one thread, hybridjit beside the fastest other engine."""
    record = _record("inference-1-thread")
    rows = []
    for name, ours, *others, ratio, _error in record["rows"]:
        rows.append((name, ours, min(others, key=float), ratio.partition(" ")[0]))
    return (
        table(("Network", "hybridjit", "best other", "ratio"), rows)
        + f"\nGeometric mean of the ratios: {record['geometric_mean']['ratio']:.2f}. "
        + f"{record['cpu']}, {record['date']}.\n"
    )


# Commands, switches, limits


def commands() -> str:
    """Every command with its arguments, as ``--help`` lists them."""
    return "\n".join(_command(name) for name in cli.COMMANDS)


def _command(name: str) -> str:
    parser = cli._parser(name)
    choices = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
    chosen = choices[name]
    rows = [
        (f"`{_usage(action)}`", (action.help or "") % {"default": action.default})
        for action in chosen._actions
        if not isinstance(action, argparse._HelpAction)
    ]
    description = (chosen.description or "").strip()
    epilog = f"\n{chosen.epilog}\n" if chosen.epilog else ""
    head = f"## hybridjit {name}\n\n{description}\n\n"
    return head + table(("Argument", "Meaning"), rows) + epilog


def _usage(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else "")
    if isinstance(value, tuple) or action.nargs == 0:
        value = ""
    return " ".join([", ".join(action.option_strings), value]).strip()


def switches() -> str:
    return switch_table() + "\n"


def limits() -> str:
    """Sizes beyond which files and calls are refused, from the constants that are compared."""
    rows = (
        ("nodes of a graph, with variables for omitted inputs", symbol_upgrade.MAX_NODES),
        ("inputs of a node; outputs that an attribute requests", symbol_nodes.MAX_INPUTS),
        ("outputs of all nodes of a graph", symbol_nodes.MAX_OUTPUTS),
        ("characters of a name", symbol_reader._MAX_NAME),
        ("characters of an attribute", symbol_reader._MAX_ATTR),
        ("digits of an integer", 19),
        ("values in one attribute", attrs._MAX_ITEMS),
        ("arrays in a file", params._MAX_ARRAYS),
        ("dimensions of an array", 32),
        ("samples of a region's bin along an axis", MOST_SAMPLES),
        ("steps of a loop in one call, nested loops included", MOST_STEPS),
        ("messages in an ONNX file", messages.MAX_RECORDS),
        ("elements of constants that the nodes of an ONNX file make", importer._FOLDED),
        ("nodes that loops and branches of an ONNX file unroll to", importer._STEPS),
        ("threads", MAX_THREADS),
    )  # fmt: skip
    return table(("Quantity", "Limit"), ((what, f"{number:,}") for what, number in rows))


def numpy_mode_exceptions() -> str:
    """Recorded programs of MXNet whose results differ here: the reasons and the programs."""
    path = ROOT / "tests" / "fixtures" / "numpy_mode.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.partition(": ")[::2] for line in lines if line and not line.startswith("#")]
    return table(("Here, and in MXNet", "Programs"), ((why, f"`{names}`") for names, why in rows))


# The compiler


def passes() -> str:
    return _passes(PIPELINE)


def joint_passes() -> str:
    return _passes(JOINT)


def _passes(rows: Sequence[Pass]) -> str:
    cells = ((f"`{p.name}`", p.description, "yes" if p.can_skip else "no") for p in rows)
    return table(("Pass", "Description", "Can be skipped"), cells)


def kinds() -> str:
    """The kernel kinds with their properties for the planner."""
    rows = [
        (f"`{kind.name}`", kind.reads.value, "yes" if kind.has_epilogue else "no")
        for kind in KINDS
        if kind.has_kernel
    ]
    return table(("Kind", "Operand strides", "Epilogue"), rows)


# Python API


def api(module: str, *names: str) -> str:
    """The named classes and functions: signature and docstring, for mkdocstrings to render."""
    found = import_module(module)
    rows = [
        (f"`{name}{_arguments(getattr(found, name))}`", _first_line(getattr(found, name)))
        for name in names
    ]
    directives = "".join(f"\n::: {module}.{name}\n" for name in names)
    return table(("Name", "Purpose"), rows) + directives


def _arguments(thing: object) -> str:
    made = inspect.signature(thing)  # type: ignore[arg-type]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in made.parameters.values()]
    return str(inspect.Signature(bare))


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("``", "`")


# Operators


def operator_pages() -> dict[Path, str]:
    """A page for each family of operators, and their index."""
    families: dict[str, list[OpDef]] = defaultdict(list)
    for op in all_ops():
        if not op.internal and _public(op):
            families[_family(op)].append(op)
    pages = {
        OPERATORS / f"{family}.md": _operators(family, ops) for family, ops in families.items()
    }
    rows = []
    for family, title in FAMILIES.items():
        ops = sorted(families[family], key=_public)
        names = ", ".join(f"[`{_public(op)}`]({family}.md#{_anchor(op)})" for op in ops)
        rows.append(f"## {title}\n\n{names}\n")
    pages[OPERATORS / "index.md"] = OPERATORS_INTRO + "\n".join(rows)
    return pages


def _family(op: OpDef) -> str:
    """The folder of ``ops`` with the functions of the operator's record."""
    functions = (op.ref, op.expand, op.scalar, op.grad, op.infer)
    for function in functions:
        parts = getattr(function, "__module__", "").split(".")
        if len(parts) > 3 and parts[2] in FAMILIES:
            return parts[2]
    raise LookupError(f"no page for operator {op.name}: its functions are in no family of ops/")


def _public(op: OpDef) -> str:
    """The first name that programs use, as a path below nd; "" if there is none."""
    return next(filter(None, map(_path, (op.name, *op.aliases))), "")


def _path(name: str) -> str:
    for room in SUBMODULES:
        if name.startswith(f"_{room}_"):
            return f"{room}.{name[len(room) + 2 :]}"
    return "" if name.startswith("_") else name


def _anchor(op: OpDef) -> str:
    return re.sub(r"[^\w]", "", _public(op).lower())


def _operators(family: str, ops: Sequence[OpDef]) -> str:
    parts = [_operator(op) for op in sorted(ops, key=_public)]
    return f"# {FAMILIES[family]}\n\n" + "\n".join(parts)


def _operator(op: OpDef) -> str:
    name = _public(op)
    others = [p for p in map(_path, (op.name, *op.aliases)) if p and p != name]
    also = f"Also named {', '.join(f'`{other}`' for other in others)}.\n\n" if others else ""
    call = f"{name}{_arguments_of(op)}"
    doc = op.doc.strip()
    text = f"## {name}\n\n```text\n{call}\n```\n\n{doc}\n\n{also}"
    inputs = ("*data",) if is_variadic(op) else input_slots(op)
    rows = [(f"`{name}`", "array", manual.input_text(op, name)) for name in inputs]
    rows += [
        (f"`{attr.name}`", manual.attribute_type(attr), manual.attribute_text(op, attr))
        for attr in op.attrs
    ]
    text += table(("Argument", "Type", "Meaning"), rows)
    if op.name in manual.EXAMPLES:
        text += f"\n```pycon\n{manual.EXAMPLES[op.name].strip()}\n```\n"
    return text.rstrip("\n") + "\n"


def _arguments_of(op: OpDef) -> str:
    return re.sub(r"=dtype\('(\w+)'\)", r"='\1'", str(signature(op, ())))


GENERATORS: Mapping[str, Callable[..., str]] = {
    "api": api,
    "commands": commands,
    "headline": headline,
    "joint-passes": joint_passes,
    "kinds": kinds,
    "limits": limits,
    "numpy-mode-exceptions": numpy_mode_exceptions,
    "passes": passes,
    "performance": performance,
    "switches": switches,
}


def filled(page: str) -> str:
    """The page with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        name, *arguments = match[2].split()
        return f"{match[1]}\n{GENERATORS[name](*arguments)}\n{match[4]}"

    return PART.sub(part, page)


def wanted() -> dict[Path, str]:
    """The text that each page with generated parts should have."""
    pages = operator_pages()
    for path in (ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))):
        if path not in pages:
            text = path.read_text(encoding="utf-8")
            pages[path] = filled(text)
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing, list what is stale")
    args = parser.parse_args()
    pages = wanted()
    stale = [p for p, t in pages.items() if not p.exists() or p.read_text(encoding="utf-8") != t]
    stale += [path for path in OPERATORS.glob("*.md") if path not in pages]
    for path in sorted(stale):
        print(path.relative_to(ROOT))
        if args.check:
            continue
        if path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path], encoding="utf-8")
        else:
            path.unlink()
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
