"""Recorded graphs at sizes that vary have the bits of specialised executables.

A sample; ``tools/recorded_sizes.py`` compares all graphs.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from hybridjit import nd
from hybridjit._core.symbolic import Scope
from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.gluon import nn
from sized_records import cases, file_outcomes, outcomes, read

CASES = {name: (folder, name, inputs) for folder, name, inputs in cases()}
# Without whole networks, which take 10 s each, and a graph that writes out all shapes.
SMALL = [name for name in sorted(CASES) if not name.startswith(("net_", "move_creation"))]
SAMPLE = random.Random(38).sample(SMALL, 12)
# Index tuples: their length is the number of axes that they index.
CONSTANT = {"index_gather_nd": ["axis 0 of i"]}


def check(name: str, gradients: bool) -> None:
    found = list(outcomes(read(*CASES[name]), gradients))
    assert found
    assert [each for each in found if each.difference] == []
    constant = [each.axes for each in found if each.is_constant]
    assert constant == ([] if gradients else CONSTANT.get(name, []))


# depthwise_2 has another kernel for rows of one column; the layers of net_depthwise_entropy contain
# graphs, whose types are remembered.
@pytest.mark.parametrize(
    "name", [*SAMPLE, "depthwise_2", "index_gather_nd", "net_depthwise_entropy"]
)
def test_results_at_five_sizes_of_each_open_axis(name):
    check(name, gradients=False)


@pytest.mark.parametrize("name", SAMPLE[::4])
def test_gradients_at_five_sizes_of_each_open_axis(name):
    check(name, gradients=True)


def test_an_onnx_file_at_five_sizes_of_each_open_axis(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, in_channels=3), nn.GlobalAvgPool2D(), nn.Dense(3))
    net.initialize()
    x = nd.random.normal(shape=(2, 3, 6, 6))
    path = Path(net.export_onnx(str(tmp_path / "net.onnx"), x, dynamic=True))
    np.savez(path.with_suffix(".npz"), x=x.asnumpy(), y=net(x).asnumpy())
    found = list(file_outcomes(path))
    assert [each.axes for each in found] == ["axes [0]", "axes [2]", "axes [3]", "axes [0, 2, 3]"]
    assert [(each.sizes, each.difference, each.is_constant) for each in found] == 4 * [
        (5, "", False)
    ]


def test_a_type_as_a_key_compares_no_symbolic_sizes():
    scope = Scope()
    a, b = scope.symbol("a", 3), scope.symbol("b", 3)
    kinds = [TensorType((n, 2), FLOAT32) for n in (3, a, b, a + 1 - 1, a + 1)]
    assert len({t.form for t in kinds}) == 4
    assert not scope.guards
