"""net.verify(x, train=True): mistakes planted forward and backward, and where NaN begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
import hybridjit.compiler
from hybridjit import autograd, gluon, nd
from hybridjit._core.config import config, override
from hybridjit.cli import main
from hybridjit.codegen.emit import generate
from hybridjit.codegen.kinds.parts import program
from hybridjit.compiler import PIPELINE
from hybridjit.errors import InternalError
from hybridjit.gluon import nn, rnn
from hybridjit.ir.graph import Use, make
from hybridjit.ir.rewrite import rewrite, rule
from hybridjit.ops import lookup
from hybridjit.passes.training import differentiate

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
IMAGES = np.random.default_rng(4).normal(0, 1, (4, 3, 9, 9)).astype(np.float32)


class Small(gluon.HybridBlock):
    """Statistics, chance, a maximum, and a bias in front of statistics, whose gradient is 0."""

    def __init__(self, dropped: float = 0.0) -> None:
        super().__init__(prefix="small_")
        with self.name_scope():
            self.conv = nn.Conv2D(8, 3, in_channels=3)
            self.norm = nn.BatchNorm(in_channels=8)
            self.drop = nn.Dropout(dropped)
            self.fc = nn.Dense(5, in_units=72)

    def hybrid_forward(self, F, x):
        y = F.relu(self.norm(self.conv(x)))
        y = self.drop(F.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="max"))
        return F.tanh(self.fc(y)), F.square(x)


class Tiny(gluon.HybridBlock):
    """Quick to compile, for mistakes whose culprit is looked for."""

    def __init__(self) -> None:
        super().__init__(prefix="tiny_")
        with self.name_scope():
            self.fc = nn.Dense(5, in_units=9)

    def hybrid_forward(self, F, x):
        return F.tanh(self.fc(x)), F.square(x)


ROWS = IMAGES[:, 0, 0]


def made(net: gluon.HybridBlock) -> gluon.HybridBlock:
    mx.random.seed(4)
    net.initialize(mx.init.Normal(0.2))
    return net


def line_of(text: str) -> int:
    (found,) = (i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1)
                if line.strip() == text)  # fmt: skip
    return found


# --- agreement ---


@pytest.mark.parametrize("dropped", [0.0, 0.4])
def test_forward_and_backward_agree(dropped: float):
    verdict = made(Small(dropped)).verify(nd.array(IMAGES), train=True)
    assert verdict.agrees and verdict.first is None and verdict.special is None
    gaps = dict(verdict.outputs)
    assert {"gradient of small_conv0_weight", "gradient of small_dense0_bias"} <= gaps.keys()
    assert "new small_batchnorm0_running_var" in gaps
    assert all(gap.relative < 1e-5 for name, gap in gaps.items() if "conv0_bias" not in name)
    parts = [step.part for step in verdict.steps]
    assert parts.count("forward") > 5 and parts.count("backward") > 10
    own = [step for step in verdict.steps if step.own is None]
    assert all("dropout" in step.what.lower() for step in own) and bool(own) == bool(dropped)
    held = [step for step in verdict.steps if step.part == "backward" and step.eager]
    assert len(held) > 5
    assert f"{parts.count('forward')} forward and {parts.count('backward')} ba" in str(verdict)
    assert verdict.step_table().startswith("part")


def test_layers_that_remember_and_several_inputs():
    class Two(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix="two_")
            with self.name_scope():
                self.cell = rnn.LSTM(6, num_layers=2, dropout=0.5, input_size=4)
                self.out = nn.Dense(3, flatten=False, in_units=6)

        def hybrid_forward(self, F, x, y):
            return F.broadcast_add(self.out(self.cell(x)), y)

    arrays = [nd.random.normal(shape=shape) for shape in ((5, 2, 4), (1, 2, 3))]
    arrays[1].attach_grad()
    verdict = made(Two()).verify(*arrays, train=True)
    assert verdict.agrees, verdict
    assert "gradient of data1" in dict(verdict.outputs)
    assert "gradient of data0" not in dict(verdict.outputs)


def test_nothing_changes_in_the_net():
    net = made(Small())
    x = nd.array(IMAGES)
    before = {n: p.data().asnumpy() for n, p in net.collect_params().items()}
    assert net.verify(x, train=True).agrees
    assert net._cached is None
    for name, param in net.collect_params().items():
        np.testing.assert_array_equal(param.data().asnumpy(), before[name])
        assert param.grad_req == "null" or not param.grad().asnumpy().any()


def test_a_block_without_parameters_is_verified_by_its_inputs():
    net = nn.HybridLambda(lambda F, x: F.log_softmax(x))
    verdict = net.verify(nd.array(IMAGES[:, 0, 0]), train=True)
    assert verdict.agrees and [name for name, _ in verdict.outputs][1] == "gradient of data"


# --- mistakes ---


@rule("sum(x)  =>  mean(x)    planted: wrong for any number of terms")
def sum_to_mean(value, match):
    if value.op is None or value.op.name != "sum":
        return None
    return Use(make(lookup("mean"), value.name, value.inputs, value.source, **value.attrs))


def test_a_mistake_in_a_backward_pass_is_found(monkeypatch):
    at = [row.name for row in PIPELINE].index("fold-bn")

    def run(graph, fired):
        return rewrite(PIPELINE[at].run(graph, fired), (sum_to_mean,), fired)

    wrong = replace(PIPELINE[at], run=run)
    monkeypatch.setattr(
        hybridjit.compiler, "PIPELINE", (*PIPELINE[:at], wrong, *PIPELINE[at + 1 :])
    )
    verdict = made(Tiny()).verify(nd.array(ROWS), train=True)
    assert verdict.culprits == ("fold-bn",) and not verdict.agrees
    assert verdict.first.part == "backward" and "mean 'tiny_" in verdict.first.what
    assert "first step that differs: backward step" in str(verdict)
    assert "test_verify_training.py" in verdict.first.source


def test_a_mistake_in_differentiation(monkeypatch):
    """Forward and backward are compiled as they are differentiated: the tape knows better."""

    def forgetful(reached, use, d, g):
        reached.setdefault(use, d)

    net = nn.HybridLambda(lambda F, x: F.relu(x) * F.tanh(x))
    assert net.verify(nd.array(ROWS), train=True).agrees
    monkeypatch.setattr(differentiate, "_collect", forgetful)
    verdict = net.verify(nd.array(ROWS), train=True)
    assert not verdict.agrees
    assert "differentiation: the gradient of 'data' differs from the tape's by" in str(verdict)


def wrong_kernel(monkeypatch) -> None:
    """The derivative of tanh, one part in a hundred too large, in generated code alone."""
    name = "_gradient0_of_tanh"
    right = lookup(name)
    assert right.scalar is not None

    def scalar(b, *values):
        return b.mul(right.scalar(b, *values), b.const(1.01))

    wrong = replace(right, scalar=scalar)
    monkeypatch.setattr(program, "lookup", lambda n: wrong if n == name else lookup(n))
    monkeypatch.setattr(generate, "_KERNELS", {})


def test_a_mistake_in_a_backward_kernel_is_found(monkeypatch):
    wrong_kernel(monkeypatch)
    with override(cache_dir="off"):
        verdict = made(Tiny()).verify(nd.array(ROWS), train=True)
    assert not verdict.agrees and verdict.culprits == ()
    assert verdict.first.part == "backward" and "_gradient0_of_tanh" in verdict.first.what
    assert verdict.first.own.relative == pytest.approx(1e-2, rel=0.1)
    assert f":{line_of('return F.tanh(self.fc(x)), F.square(x)')} in" in verdict.first.source


def test_check_covers_training_calls(monkeypatch):
    net = made(Tiny())
    net.hybridize()
    with override(check=True):
        with autograd.record():
            y, _ = net(nd.array(ROWS))
        y.backward()
    wrong_kernel(monkeypatch)
    net.hybridize()
    with override(check=True, cache_dir="off"):
        with autograd.record():
            y, _ = net(nd.array(ROWS))
        with pytest.raises(InternalError, match="_gradient0_of_tanh.* differs from its reference"):
            y.backward()
    assert not config.check


def test_rounding_of_terms_that_cancel_is_no_mistake():
    """Behind statistics a head of ones leaves nothing but rounding, in every gradient before."""
    net = nn.HybridSequential()
    for channels in (8, 16):
        net.add(nn.Conv2D(channels, 3), nn.BatchNorm())
    made(net).hybridize()
    x = nd.array(IMAGES)
    assert net.verify(x, train=True).agrees
    with override(check=True):
        with autograd.record():
            y = net(x)
        y.backward()
    assert abs(net[0].weight.grad().asnumpy()).max() < 1e-3


# --- values that are not finite ---


class Odd(gluon.HybridBlock):
    """NaN forward or an infinity backward, as the numbers are."""

    def hybrid_forward(self, F, x):
        y = F.exp(x)
        y = F.sqrt(y - 1)
        return F.tanh(y) * 2


@pytest.mark.parametrize("is_training", [False, True])
def test_the_first_nan_forward(is_training: bool):
    x = nd.array([1.0, -1.0, 2.0, -2.0])
    verdict = Odd().verify(x, train=is_training)
    found = verdict.special
    assert verdict.agrees
    assert found.kind == "NaN" and (found.count, found.size) == (2, 4)
    assert found.part == ("forward" if is_training else "")
    assert found.what.startswith("sqrt '") and f":{line_of('y = F.sqrt(y - 1)')} in" in found.source
    assert "the first NaN: sqrt '" in str(verdict) and "2 of 4 elements" in str(verdict)


def test_the_first_infinity_backward():
    x = nd.array([1.0, 0.0, 2.0])
    assert Odd().verify(x).special is None
    found = Odd().verify(x, train=True).special
    assert found.kind == "infinity" and found.part == "backward" and found.count == 1
    assert "sqrt" in found.what and f":{line_of('y = F.sqrt(y - 1)')} in" in found.source


def test_special_values_of_variables_name_the_variable():
    verdict = Odd().verify(nd.array([1.0, np.inf]), train=True)
    assert verdict.special.what == "variable 'data'"


def test_an_infinity_of_compiled_code_alone(monkeypatch):
    def scalar(b, x):
        return b.div(x, b.const(0.0))

    wrong = replace(lookup("square"), scalar=scalar)
    monkeypatch.setattr(program, "lookup", lambda n: wrong if n == "square" else lookup(n))
    monkeypatch.setattr(generate, "_KERNELS", {})
    with override(cache_dir="off"):
        verdict = made(Tiny()).verify(nd.array(ROWS), train=True)
    assert not verdict.agrees
    assert verdict.special.what.startswith("step ") and "square" in verdict.special.what


# --- the command ---


def test_the_command_verifies_training(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((2, 1, 28, 28), np.float32))
    symbol, params = str(DIGITS / "digits-symbol.json"), str(DIGITS / "digits-0000.params")
    words = ["verify", symbol, "--params", params, "--input", str(tmp_path / "x.npy"), "--train"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "forward and" in text and "backward steps" in text and "gradient of" in text
