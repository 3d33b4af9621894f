"""Operators of one record each, added to a copy of the sources: all else follows from the record.

One says a formula for an element and nothing more, one what it is made of and nothing more; a
third is the README's. They run eagerly and compiled, go through graph files, are printed, and the
tests of the registry draw them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FORMULA = """
register(
    "bent",
    "data",
    "slope:float=0.5",
    scalar=lambda b, x, slope: b.select(b.gt(x, b.const(1.0)), b.mul(x, b.const(slope)), b.tanh(x)),
    doc="tanh up to 1, then a line.",
)
"""
SAMPLES = """
add("centred", (2, 3, 5), axis=1)
add("centred", (4, 33), dtype="float64")
"""


def of_the_readme(pattern: str) -> str:
    found = re.search(pattern, README, re.M | re.S)
    assert found is not None, pattern
    return found.group()


# By the file that each entry is added to.
ENTRIES = {
    "src/hybridjit/ops/pointwise.py": [of_the_readme(r'^unary\("cubed"[^\n]*$'), FORMULA],
    "src/hybridjit/ops/norm.py": [of_the_readme(r'^register\(\n    "centred".*?^\)$')],
    "tests/samples_nn.py": [SAMPLES],
}
NEW = ("cubed", "bent", "centred")
GENERATED = ("test_registry.py", "test_compiled.py", "test_expand.py", "test_scalar_formulas.py")

PROGRAM = """
import hybridjit as mx
import numpy as np
from hybridjit import nd, sym

x = np.linspace(-2, 3, 24, dtype=np.float32).reshape(2, 3, 4)
WANTED = {
    "cubed": x**3,
    "bent": np.where(x > 1, x * np.float32(0.5), np.tanh(x)),
    "centred": x - x.mean(axis=-1, keepdims=True),
}

class Net(mx.gluon.HybridBlock):
    def __init__(self, op, **kwargs):
        super().__init__(**kwargs)
        self.op = op

    def hybrid_forward(self, F, x):
        return F.relu(getattr(F, self.op)(x))

for op, wanted in WANTED.items():
    np.testing.assert_allclose(getattr(nd, op)(nd.array(x)).asnumpy(), wanted, atol=1e-6)
    net = Net(op)
    net.hybridize()
    np.testing.assert_allclose(net(nd.array(x)).asnumpy(), np.maximum(wanted, 0), atol=1e-6)
    net.export(op)
    again = mx.gluon.SymbolBlock.imports(f"{op}-symbol.json", ["data"])
    again.hybridize()
    np.testing.assert_allclose(again(nd.array(x)).asnumpy(), np.maximum(wanted, 0), atol=1e-6)
    made = getattr(sym, op)(sym.var("x"), name="made")
    print(made.debug_str())
    print(made.infer_shape(x=(2, 3, 4))[1])
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The sources and the tests, with the three entries."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", "golden", "*.egg-info")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, folder)
    for file, entries in ENTRIES.items():
        with open(folder / file, "a", encoding="utf-8") as out:
            out.writelines(f"\n{entry}\n" for entry in entries)
    return folder


def run(copy: Path, *words: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "HYBRIDJIT_CACHE_DIR": "off"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=cwd,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_program_uses_them(copy: Path, tmp_path: Path):
    printed = run(copy, "-c", PROGRAM, cwd=tmp_path)
    assert all(f"Op:{op}, Name=made" in printed for op in NEW)
    assert printed.count("[(2, 3, 4)]") == len(NEW)


def test_they_have_kernels(copy: Path, tmp_path: Path):
    table = run(copy, "-m", "hybridjit", "ops", cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert rows["cubed"][:2] == rows["bent"][:2] == ["pointwise", "all"]
    assert rows["centred"][:2] == ["parts", "all"]


def test_the_tests_of_the_registry_draw_them(copy: Path):
    files = [f"tests/{name}" for name in GENERATED]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", " or ".join(NEW), *files]
    passed = re.search(r"(\d+) passed", run(copy, *words, cwd=copy))
    assert passed and int(passed.group(1)) > 200
