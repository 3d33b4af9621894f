"""A kind of kernel from one file and one record, added to a copy of the sources with its operator.

It computes running sums. It is chosen, planned, emitted, profiled, listed and dumped as all others
are; the entries below are all that it takes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KERNEL = '''
"""Running sums along the last axis of contiguous data."""

from __future__ import annotations

from ...ir.plan import Step
from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes
from ..._core.types import product
from ..call import Address, Call, Setting
from ..llvm.builder import LoopBuilder
from ..spec import KernelSpec
from .parts.arguments import Arguments
from .record import register


@dataclass(frozen=True)
class RunningSpec(KernelSpec):
    """y[i] = x[0] + ... + x[i] over rows of ``size``; arguments: x, y, rows."""

    size: int
    element: ElementTypes = SINGLE
    kind = "running"


def choose_running(step: Step, setting: Setting) -> tuple[Call, ...]:
    shape = step.group.anchor.shape
    spec = RunningSpec(shape[-1], setting.target.element)
    args = (Address(step.reads[0]), Address(step.writes[0]), product(shape[:-1]))
    return (Call(spec, args, product(shape)),)


def emit_running(b: LoopBuilder, spec: RunningSpec, args: Arguments) -> None:
    x, y, rows = args.pointer("x"), args.pointer("y"), args.integer("rows")
    with b.each_unit(rows, args.share, args.shares) as row:
        first = b.mul(row.index, spec.size)
        with b.loop("col", 0, spec.size, carry=[b.number(0.0)]) as col:
            at = b.add(first, col.index)
            total = b.b.fadd(col.carried[0], b.load_scalar(x, at))
            b.store(total, y, at)
            col.yields([total])


register("running", choose_running, {RunningSpec: emit_running}, in_one_type=True)
'''
OPERATOR = """
register(
    "running_sum",
    "data",
    kernel="running",
    infer=same_type,
    ref=lambda data: np.cumsum(data, axis=-1, dtype=data.dtype),
    doc="Sums of the elements so far, along the last axis.",
)
"""
RECORD = '    KernelKind("running", reads=Reads.PACKED),\n'

# Changes by file below ``src/hybridjit``: the line that the text stands before, or "" for
# the end of the file.
FILES = {
    "codegen/kinds/running.py": ("", KERNEL),
    "codegen/kinds/__init__.py": ('    "scatter": "gather.kind",', '    "running": "running",\n'),
    "ir/kinds.py": (")\nKIND_NAMED = {", RECORD),
    "ops/tensor/identity.py": ("", OPERATOR),
}

PROGRAM = """
import hybridjit as mx
import numpy as np
from hybridjit import nd

class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.running_sum(F.relu(x)) * 2

x = nd.array(np.random.RandomState(0).randn(5, 6, 7))
net = Net()
wanted = 2 * np.cumsum(np.maximum(x.asnumpy(), 0), axis=-1)
np.testing.assert_allclose(net(x).asnumpy(), wanted, rtol=1e-5)
net.hybridize()
np.testing.assert_allclose(net(x).asnumpy(), wanted, rtol=1e-5)
assert net.verify(x).agrees
net.export("running")
"""


def insert(file: Path, before: str, text: str) -> None:
    """Put text before the one place that reads so, or at the end of a file, new if need be."""
    if not before:
        file.parent.mkdir(exist_ok=True)
        with open(file, "a", encoding="utf-8") as out:
            out.write(text)
        return
    content = file.read_text(encoding="utf-8")
    assert content.count(before) == 1, f"{file} has {content.count(before)} of {before!r}"
    file.write_text(content.replace(before, text + before), encoding="utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with one kind of kernel more: its file, its record, the row that names it."""
    source = tmp_path_factory.mktemp("copy") / "src"
    # Compiled modules of unchanged files hold for the copy, whose files have the same times.
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.egg-info"))
    package = source / "hybridjit"
    for file, (before, text) in FILES.items():
        insert(package / file, before, text)
    return source


def run(source: Path, *words: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(source), "HYBRIDJIT_CACHE_DIR": "off"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_new_kind_is_chosen_emitted_profiled_and_listed(source: Path, tmp_path: Path):
    run(source, "-c", PROGRAM, cwd=tmp_path)
    table = run(source, "-m", "hybridjit", "ops", cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line}
    assert rows["running_sum"][:3] == ["running", "float32", "float64"]
    model = ["running-symbol.json", "--shape", "data=5,6,7"]
    stages = run(
        source, "-m", "hybridjit", "dump", *model, "--after", "plan,spec,llvm", cwd=tmp_path
    )
    assert "running    " in stages and "running size=7" in stages and "define " in stages
    profile = run(source, "-m", "hybridjit", "profile", *model, cwd=tmp_path)
    assert "running" in profile
