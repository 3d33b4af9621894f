"""docs/internals/adding.md: each row of its table, performed in a copy of the tree.

A toy is the text that its row requires, only in the files that the row names. Then the promises of
the row hold, and the tests that follow from the registry are run. Kinds of kernels are in
``test_toy_kernel.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest
import test_toy_kernel
from test_toy_kernel import insert

ROOT = Path(__file__).parent.parent.parent
SECTION = (ROOT / "docs/internals/adding.md").read_text(encoding="utf-8")
# The blocks on the page, in order.
ONE, _, CYCLED, CENTRED, PASS, ROW, TWICE = re.findall(
    r"^```text\n(.*?)^```$", SECTION, re.M | re.S
)

# A toy: by file, the line it stands before ("" the end of the file, which is made if need be) and
# the text itself.
Toy = Mapping[str, tuple[str, str]]

HALF_SUM = """
register(
    "half_sum",
    "lhs rhs",
    scalar=lambda b, x, y: b.mul(b.add(x, y), b.const(0.5)),
    doc="The mean of two numbers.",
)
"""
SAMPLES = """    add("cycled", (2, 3), shift=2, axis=0)
    bad("cycled", (2, 3), error=ShapeError, says="axis", axis=2)
"""
EXPANDED = """The distance from the mean is a mean and a subtraction.
acts: expand centred

x = data f32[2,5]
return centred(x)
---- expand
"""
APART = """The sum of two values stays.
must not: pass twice, rule sum_of_equals

x = data f32[4]
y = data f32[4]
return x + y
---- twice
"""
OPTIMIZER = '''

@register
class Halfway(PerWeight):
    """Half of the learning rate along the gradient."""

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """One step."""
        weight[:] -= 0.5 * lr * (self._bounded(grad * self.rescale_grad) + wd * weight)
'''
COMMAND = '''"""``hybridjit count``: how many operators there are."""

from __future__ import annotations

import argparse

from ..ops import all_ops


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(args: argparse.Namespace) -> int:
    print(len(all_ops()))
    return 0
'''
SWITCH = '    Switch("QUIET", "", _flag, "say nothing"),\n'

ONE_ELEMENT: Toy = {"ops/elementwise/unary.py": ("", "\n" + ONE)}
OPERATORS: Toy = {
    "ops/elementwise/binary.py": ("", HALF_SUM),
    "ops/nn/normalization.py": ("", "\n" + CENTRED),
    "ops/tensor/cycled.py": ("", CYCLED),
    "ops/__init__.py": ("    by_index,\n", "    cycled,\n"),
    "ops/manual/arguments.py": (
        '    "shape": "Shape of the result',
        '    "shift": "Number of positions.",\n',
    ),
    "tests/support/samples_nn.py": ("", f'    add("centred", (2, 3, 5))\n{SAMPLES}'),
    "tests/golden/expand/centred.txt": ("", EXPANDED),
}
TOYS: dict[str, Toy] = {
    "a function of one element": ONE_ELEMENT,
    "another operator": OPERATORS,
    "a pass": {
        "passes/rewrite/twice.py": ("", PASS),
        "compiler.py": (
            '    Pass("cse", share_equal',
            ROW,
        ),
        "tests/golden/twice/twice.txt": ("", TWICE),
        "tests/golden/twice/apart.txt": ("", APART),
    },
    "a switch": {
        "_core/config.py": ('    Switch("CACHE_DIR"', SWITCH),
    },
    "a command": {
        "cli/__init__.py": ('    "doctor":', '    "count": "how many operators there are",\n'),
        "cli/count.py": ("", COMMAND),
    },
    "an optimizer": {
        "optimizer/descent.py": ("", OPTIMIZER),
        "optimizer/optimizer.py": ('    "LAMB",\n', '    "Halfway",\n'),
    },
}
IMPORTS = {
    "compiler.py": ("from .passes.rewrite.views", "from .passes.rewrite.twice import double\n"),
    "_core/config.py": ("    cache_dir: str", "    quiet: bool\n"),
    "optimizer/optimizer.py": ("from .large_batch", "from .descent import Halfway\n"),
}


def rows() -> dict[str, list[str]]:
    """Files that each row of the table names, by the kind of addition."""
    table = re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", SECTION, re.M)
    return {what: re.findall(r"`([\w/<>*]+\.\w+)`", touch) for what, touch in table}


def in_tree(file: str) -> str:
    return file if file.startswith("tests/") else f"src/hybridjit/{file}"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all toys in it; the large fixtures are the tree's own."""
    tree = tmp_path_factory.mktemp("copy")
    skipped = shutil.ignore_patterns("*.egg-info", "fixtures")
    # Compiled modules of unchanged files hold for the copy, whose files have the same times.
    for folder in ("src", "tests", "tools", "docs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=skipped)
    (tree / "tests/fixtures").symlink_to(ROOT / "tests/fixtures")
    for name in ("examples", "pyproject.toml", "mkdocs.yml"):
        (tree / name).symlink_to(ROOT / name)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tree)
    for toy in TOYS.values():
        for file, (before, text) in toy.items():
            insert(tree / in_tree(file), before, text)
    for file, (before, text) in IMPORTS.items():
        insert(tree / in_tree(file), before, text)
    for tool in (["tools/gen_stubs.py"], ["tools/golden.py", "--write"], ["tools/docs.py"]):
        run(tree, *tool)
    return tree


def run(tree: Path, *words: str, **settings: str) -> str:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CI"},
        **{"PYTHONPATH": str(tree / "src"), "HYBRIDJIT_CACHE_DIR": "off", **settings},
    }
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=tree, env=environment
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


GOLDEN = [f for f in TOYS["a pass"] if f.startswith("tests/golden/")]
TOUCHED = {
    **TOYS,
    "a kind of kernel": [*test_toy_kernel.FILES, *GOLDEN],
    "a rewrite": ["passes/rewrite/twice.py", *GOLDEN],
    "machine code for a reference's loop": [
        *("codegen/routines/trsm.py", "codegen/routines/__init__.py"),
        "tests/support/guarded_routines.py",
    ],
}


def test_every_row_has_a_toy():
    assert set(rows()) - {"To add"} == set(TOUCHED)


@pytest.mark.parametrize("what", TOUCHED)
def test_a_row_names_the_files(what: str):
    """Those of its toy, all of them and no others."""
    patterns = [re.sub(r"<\w+>", "*", name) for name in rows()[what]]
    touched = list(TOUCHED[what])
    assert [f for f in touched if not any(fnmatch(f, p) for p in patterns)] == []
    assert [p for p in patterns if not any(fnmatch(f, p) for f in touched)] == []


def test_operators_get_their_tests_and_nothing_is_missing(tree: Path):
    """Formulas, an expansion, a gradient: each found, compared and derived. Then stubs, golden
    cases, the order of layers and passes, the table of switches, with all toys in the tree."""
    names = ("cubed", "half_sum", "centred", "cycled")
    checks = (
        "every_subject",
        "stubs",
        "each_pass_has_its_requirements",
        "table_of_switches",
        "point_down",
    )
    files = ("registry", "compiled", "scalar_formulas", "gradients", "namespaces")
    more = ("golden", "layers", "pipeline", "readme")
    said = run(
        tree,
        *("-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", " or ".join([*names, *checks])),
        *(str(*tree.glob(f"tests/*/test_{file}.py")) for file in files + more),
    )
    for name in ("cubed", "half_sum"):
        assert len(re.findall(rf"test_registry.py::.*\[{name}.* PASSED", said)) >= 10
        assert re.search(rf"test_scalar_formulas.py::.*\[.*{name}.*\] PASSED", said)
    for name in names:
        assert f"test_gradients.py::test_gradients_are_slopes[{name}] PASSED" in said
        assert re.search(rf"test_registry.py::.*\[{name}.* PASSED", said)
        assert re.search(rf"test_compiled.py::.*\[{name}.* PASSED", said)
    for check in checks:
        assert re.search(rf"::\w*{check}\w*(\[.*\])? PASSED", said), check


def test_a_pass_can_be_dumped_timed_and_skipped(tree: Path, tmp_path: Path):
    graph = str(tmp_path / "twice.json")
    program = f"""
import hybridjit as mx
x = mx.sym.var("x")
y = x + x
y.save({graph!r})
print(y.bind(mx.cpu(), {{"x": mx.nd.ones(4)}}).forward()[0].asnumpy().tolist())
"""
    said = run(tree, "-c", program, HYBRIDJIT_TIMING="1")
    assert "sums of equals are products" in said and "[2.0, 2.0, 2.0, 2.0]" in said
    words = (graph, "--shape", "x=4")
    dump = ("-m", "hybridjit", "dump", *words, "--after", "twice,fuse")
    assert "x + x  =>  2 x" in run(tree, *dump)
    assert "elemwise_add" in run(tree, *dump, HYBRIDJIT_SKIP="twice")


def test_a_switch_and_a_command_are_listed(tree: Path):
    assert "| `QUIET` | say nothing | no |" in run(tree, "-m", "hybridjit", "switches")
    assert int(run(tree, "-m", "hybridjit", "count")) > 300


def test_an_optimizer_trains_and_is_pickled(tree: Path):
    program = """
import hybridjit as mx
import pickle
made = mx.optimizer.create("halfway", learning_rate=1.0)
assert type(made) is mx.optimizer.Halfway
updater = mx.optimizer.get_updater(made)
w = mx.nd.ones(3)
updater(0, mx.nd.ones(3), w)
assert w.asnumpy().tolist() == [0.5] * 3
again = mx.optimizer.get_updater(mx.optimizer.SGD())
again.set_states(updater.get_states(dump_optimizer=True))
assert type(again.optimizer) is mx.optimizer.Halfway
"""
    run(tree, "-c", program)
