"""Imports point down, stand at the top of the file, and llvmlite stays in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import hybridjit

PACKAGE = Path(hybridjit.__file__).parent

# A part may import only from rows above its own, and from itself. Modules of `_core` are parts.
LAYERS = [
    {"fork_locks"},
    {"keywords", "lazy", "errstate", "frozen", "background", "async_safety", "other_names"},
    {"errors"},
    {
        "config",
        "engine",
        "live_set",
        "log",
        "safe_open",
        "target",
        "text_table",
        "name",
        "attribute",
        "symbolic",
        "shapes",
    },
    {"frames", "host", "html_text"},
    {
        "image_codecs",
        "types",
        "compile_log",
        "context",
        "lr_scheduler",
        "registry",
        "recording",
        "limits",
        "timeline",
        "util",
    },
    {"base"},
    {"ops"},
    {"ir"},
    {"formats"},
    {"passes", "codegen", "recordio", "runtime"},  # siblings: they may not see each other
    {"control", "options", "trained"},
    {"fused"},
    {"compiler"},
    {"compilation"},
    {"library"},
    {"nd"},
    {"graph_exec"},
    {"sym"},
    {"np"},
    {"autograd", "random", "io", "metric", "monitor", "operator", "profiler", "verification"},
    {"callback", "image", "optimizer"},
    {"initializer", "kvstore"},
    {"gluon"},
    {"executor"},
    {"compat", "loading", "mod", "profiling", "rnn", "test_utils", "visualization"},
    {"onnx", "viewing"},
    {"batch"},
    {"npx"},
    {
        "numpy_op_signature",
        "cached_op",
        "contrib",
        "executor_manager",
        "img",
        "kv",
        "model",
        "module",
        "numpy",
        "numpy_extension",
        "mon",
        "notebook",
        "viz",
    },
    {"cli", "run", "__init__"},
    {"__main__"},
]
ROW = {part: row for row, parts in enumerate(LAYERS) for part in parts}

# (importing part, imported part): imports inside functions that are meant, each with its reason.
LATE = {
    ("compilation", "codegen"),  # on first use, so that eager mode does not pay for llvmlite
    ("gluon", "library"),  # on first use, as the compiler: a library of a step of training
    ("gluon", "contrib"),  # a data set's vocabulary is one of contrib.text, as in MXNet
    ("np", "image"),  # on first use: pictures as arrays of NumPy mode
    ("mod", "kvstore"),  # on first use, as the optimizer
    ("mod", "optimizer"),  # on first use, as everything of training: 4 ms of every import
}


class Import(NamedTuple):
    """One imported part (or foreign package) and where it is imported."""

    target: str
    is_foreign: bool
    inside_function: bool
    for_types: bool  # not done when the program runs
    line: int


def part_of(path: Path) -> str:
    return part_in(path.relative_to(PACKAGE).with_suffix("").parts)


def part_in(names: Sequence[str]) -> str:
    """The part of a module whose path in the package is ``names``."""
    return names[1] if names[0] == "_core" and names[1:] else names[0]


def imports_of(path: Path, text: str) -> Iterator[Import]:
    package = list(path.relative_to(PACKAGE).parts[:-1])

    def visit(node: ast.AST, inside: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            deeper = inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            is_guarded = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            typing = is_guarded and child in node.body
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name.split(".")[0], True, inside, typing, child.lineno)
            elif isinstance(child, ast.ImportFrom):
                for target, foreign in targets(child):
                    yield Import(target, foreign, inside, typing, child.lineno)
            yield from visit(child, deeper)

    def targets(node: ast.ImportFrom) -> Iterator[tuple[str, bool]]:
        if node.level == 0:
            yield (node.module or "").split(".")[0], True
            return
        base = package[: len(package) - (node.level - 1)]
        base = base + (node.module.split(".") if node.module else [])
        if base and base != ["_core"]:
            yield part_in(base), False
            return
        for alias in node.names:
            yield (alias.name if alias.name in ROW else "__init__"), False

    return visit(ast.parse(text), False)


def complaints(path: Path, text: str) -> list[str]:
    """Violations in one file's imports."""
    part = part_of(path)
    if part not in ROW:
        return [f"{part} is in no row of LAYERS: give it one"]
    found = []
    for target, is_foreign, inside, for_types, line in imports_of(path, text):
        where = f"{path.relative_to(PACKAGE)}:{line}"
        late = (part, target) in LATE
        if inside and not late:
            found.append(f"{where} imports {target} inside a function")
        if is_foreign:
            if target == "hybridjit":
                found.append(f"{where} imports the package by name: use a relative import")
            elif target == "llvmlite" and part != "codegen":
                found.append(f"{where} imports llvmlite outside of codegen")
            elif target == "typing_extensions" and for_types:
                continue  # every type checker has it
            elif target not in {*sys.stdlib_module_names, "numpy", "llvmlite"}:
                found.append(f"{where} imports {target}: only numpy and llvmlite are there")
        elif target != part and not late and ROW[target] >= ROW[part]:
            found.append(f"{where}: {part} may not import {target}, which is not below it")
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    assert complaints(path, path.read_text()) == []


@pytest.mark.parametrize(
    "place, text, word",
    [
        ("ops/x.py", "from ..nd import NDArray", "may not import nd"),
        ("nd/x.py", "from ..sym.symbol import Symbol", "may not import sym"),
        ("nd/x.py", "from .. import sym", "may not import sym"),
        ("passes/x.py", "from ..codegen import jit", "may not import codegen"),
        ("io/x.py", "from .. import __version__", "may not import __init__"),
        ("nd/x.py", "def f():\n    from ..ops import lookup", "inside a function"),
        ("nd/x.py", "def f():\n    import json", "inside a function"),
        ("compiler.py", "def f():\n    from .passes import infer", "inside a function"),
        ("nd/x.py", "import llvmlite.ir", "outside of codegen"),
        ("nd/x.py", "import torch", "imports torch"),
        ("nd/x.py", "from typing_extensions import Unpack", "imports typing_extensions"),
        ("nd/x.py", "from hybridjit import sym", "by name"),
        ("unheard/x.py", "import os", "no row"),
        ("errors.py", "if TYPE_CHECKING:\n    from .ops import registry", "may not import ops"),
    ],
)
def test_the_check_finds_wrong_imports(place, text, word):
    assert any(word in complaint for complaint in complaints(PACKAGE / place, text))


@pytest.mark.parametrize(
    "place, text",
    [
        ("nd/x.py", "import numpy\nfrom ..ops import registry\nfrom . import storage"),
        ("nd/x.py", "from .._core import recording"),
        ("compilation.py", "def f():\n    from .codegen.module import emit"),
        ("gluon/nn/x.py", "from ... import nd, sym\nfrom ..block import Block"),
        ("codegen/kinds/x.py", "from llvmlite import ir\nfrom ..llvm.builder import LoopBuilder"),
    ],
)
def test_the_check_accepts_right_imports(place, text):
    assert complaints(PACKAGE / place, text) == []


def test_eager_mode_loads_no_compiler():
    """Importing the package and running a layer without hybridize loads no llvmlite."""
    program = """
import sys
import hybridjit as mx
net = mx.gluon.nn.Dense(3)
net.initialize()
net(mx.nd.ones((2, 4)))
assert mx.sym.relu(mx.sym.var("x")).name
print("llvmlite" in sys.modules, "hybridjit.codegen" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


SLOW = (
    *("llvmlite", "numpy.random", "concurrent", "multiprocessing", "subprocess", "tempfile"),
    *("hybridjit.optimizer", "hybridjit.kvstore", "hybridjit.gluon.trainer", "pickletools"),
)


def test_the_import_loads_no_compiler_and_nothing_slow():
    """Modules that few programs need are imported on demand; numpy.random alone takes 10 ms.

    NumPy itself loads some of these on some versions of Python.
    """
    program = f"""
import sys, numpy
before = set(sys.modules)
import hybridjit
print([n for n in {SLOW} if n in sys.modules and n not in before])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def imported_modules(path: Path, text: str, known: Collection[str]) -> set[str]:
    """Modules of the package that a file imports: when it is loaded, for types, in functions, and
    on first use through ``Late``.
    """
    package = list(path.relative_to(PACKAGE).parts[:-1])
    found = set()

    def add(level: int, module: str | None, names: Iterable[str]) -> None:
        base = package[: len(package) - (level - 1)] + (module.split(".") if module else [])
        dotted = [".".join([*base, name]) for name in names]
        found.update(name if name in known else ".".join(base) for name in dotted)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            add(node.level, node.module, [alias.name for alias in node.names])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Late" and node.args[1:]:
            late = ast.literal_eval(node.args[0])
            add(len(late) - len(late.lstrip(".")), None, [late.lstrip(".")])
    return found & {*known}


def dotted_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts).removesuffix("__init__").removesuffix(".")


def order_of(texts: Mapping[Path, str]) -> list[str]:
    """All modules, each after those that it imports. Raises CycleError with those of a cycle."""
    known = {dotted_name(path) for path in texts}
    edges = {
        dotted_name(path): imported_modules(path, text, known) - {dotted_name(path)}
        for path, text in texts.items()
    }
    return list(TopologicalSorter(edges).static_order())


def test_no_module_imports_itself_through_others():
    """Imports for types, in functions and on first use included."""
    assert len(order_of({path: path.read_text() for path in FILES})) == len(FILES)


@pytest.mark.parametrize(
    "text",
    [
        "from .node import Node",
        "from . import node",
        "if TYPE_CHECKING:\n    from .node import Node",
        "def f():\n    from ..ir import node",
        "node = Late('.node', __package__)",
    ],
)
def test_the_order_does_not_exist_for_a_cycle(text):
    program = {"ir/node.py": "from ..passes import infer", "passes/infer.py": "from ..ir import a"}
    program |= {"ir/a.py": text, "ir/__init__.py": ""}
    with pytest.raises(CycleError, match="ir.node"):
        order_of({PACKAGE / name: text for name, text in program.items()})
