"""Type checkers find misspelt arguments in programs; mypy stands for them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
from hybridjit import gluon, nd, np, sym

x = nd.ones((1, 3, 8, 8))
w = nd.ones((4, 3, 3, 3))
nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True, workspace=512)
nd.Convolution(x, w, kernl=(3, 3), num_filter=4)  # error: "kernl"
nd.topk(x, k=2, ret_typ="both", is_ascend=True)
nd.topk(x, ascending=True)  # error: "ascending"
sym.FullyConnected(sym.var("x"), num_hidden=4, name="fc", attr={"ctx_group": "a"})
sym.FullyConnected(sym.var("x"), hidden=4)  # error: "hidden"
gluon.nn.Dense(4, activation="relu")
gluon.nn.Dense(4, activate="relu")  # error: "activate"
gluon.nn.Conv2D(4, 3, stride=2)  # error: "stride"
gluon.loss.L2Loss(weights=2.0)  # error: "weights"
np.exp(np.ones((2,)), where=True)
np.exp(np.ones((2,)), wher=True)  # error: "wher"
np.max(np.ones((2,)), keepdim=True)  # error: "keepdim"
np.eye(2, order="C")
np.random.rand(2, size=3)  # error: "size"
"""


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed")
def test_misspelt_arguments_are_errors(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent"]
    ran = subprocess.run([*command, str(program)], cwd=ROOT, capture_output=True, text=True)
    found = {
        int(line.split(":")[1]): line for line in ran.stdout.splitlines() if ": error:" in line
    }
    wanted = {
        number: line.partition("# error: ")[2]
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "# error" in line
    }
    assert found.keys() == wanted.keys(), ran.stdout + ran.stderr
    assert all(word in found[number] for number, word in wanted.items()), ran.stdout
