"""Imports point down, stand at the top of the file, and llvmlite stays in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import hybridjit

PACKAGE = Path(hybridjit.__file__).parent

# A part may import only from rows above its own, and from itself. Modules of `_core` are parts.
LAYERS = [
    {"keywords", "lazy", "errstate", "frozen", "background", "async_safety", "other_names"},
    {"errors"},
    {
        "config",
        "engine",
        "fork_locks",
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
        "base",
        "compile_log",
        "context",
        "lr_scheduler",
        "registry",
        "recording",
        "limits",
        "timeline",
        "util",
    },
    {"ops"},
    {"ir"},
    {"formats"},
    {"passes", "codegen", "recordio", "runtime"},  # siblings: they may not see each other
    {"control", "options", "trained"},
    {"fused"},
    {"compiler"},
    {"compilation"},
    {"library"},
    {"nd", "sym"},  # siblings
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
    ("gluon", "onnx"),  # on first use, as all of ONNX: 10 ms, and on a layer above
    ("initializer", "rnn"),  # the gates in a fused cell's vector, on a layer above
    ("np", "image"),  # on first use: pictures as arrays of NumPy mode
    ("mod", "kvstore"),  # on first use, as the optimizer
    ("mod", "optimizer"),  # on first use, as everything of training: 4 ms of every import
    ("sym", "executor"),  # MXNet's methods of a symbol that evaluate it, on layers above
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


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def modules_imported_by(path: Path) -> Iterator[str]:
    """Dotted names below the package that a file imports when it is loaded."""
    for base, names in imported_names(path, False):
        yield from (f"{base}.{name}" for name in names)
        yield base


def named_modules(path: Path, known: Collection[str]) -> Iterator[str]:
    """Modules of the package that a file's imports name, those for types included."""
    for base, names in imported_names(path, True):
        found = [f"{base}.{name}".lstrip(".") for name in names]
        yield from (name if name in known else base for name in found)


def imported_names(path: Path, for_types: bool) -> Iterator[tuple[str, list[str]]]:
    """Relative imports at the top of a file: the module below the package, and the names."""
    package = list(path.relative_to(PACKAGE).parts[:-1])
    body = ast.parse(path.read_text(encoding="utf-8")).body
    guarded = [node.body for node in body if is_for_types(node) and for_types]
    nodes = [node for nodes in (body, *guarded) for node in nodes]
    for node in (node for node in nodes if isinstance(node, ast.ImportFrom) and node.level):
        base = package[: len(package) - (node.level - 1)]
        base += node.module.split(".") if node.module else []
        yield ".".join(base), [alias.name for alias in node.names]


def test_no_module_imports_itself_through_others():
    """The order exists: graphlib.CycleError names the modules of a cycle."""
    files = {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in FILES}
    edges = {name: {m for m in modules_imported_by(p) if m in files} for name, p in files.items()}
    assert len(list(TopologicalSorter(edges).static_order())) == len(files)


# Groups of modules that name each other's classes in annotations, or load each other on first use.
RECURSIVE = {
    # a symbol makes executors, which compute with the graphs of blocks
    *("autograd", "executor", "gluon.hybrid", "gluon.inference", "gluon.parameter.__init__"),
    *("gluon.parameter.collection", "gluon.parameter.constant", "gluon.parameter.loading"),
    *("gluon.parameter.single", "gluon.types", "sym.__init__", "sym.contrib", "sym.control"),
    *("sym.creation", "sym.custom", "sym.np.front", "sym.np.symbols", "sym.op", "sym.random"),
    "sym.symbol",
}


def reached(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    """The modules that a module imports, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = edges[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_other_modules_import_themselves_through_types():
    files = {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in FILES}
    full = {name.removesuffix(".__init__"): name for name in files}
    edges = {
        name: {full[m] for m in named_modules(path, full)} - {name} for name, path in files.items()
    }
    assert {name for name in files if name in reached(name, edges)} == RECURSIVE
