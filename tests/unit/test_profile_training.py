"""Profiles of training: forward, backward and update, step by step, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hybridjit import gluon, nd
from hybridjit.cli import main
from hybridjit.gluon import nn
from hybridjit.optimizer import SGD
from hybridjit.profiling import profile
from hybridjit.profiling.report import THREAD

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"


class Small(gluon.HybridBlock):
    """A dense layer, statistics of the batch, and an operator without a kernel."""

    def __init__(self) -> None:
        super().__init__(prefix="small_")
        with self.name_scope():
            self.fc = nn.Dense(5, in_units=4)
            self.norm = nn.BatchNorm(in_channels=5)

    def hybrid_forward(self, F, x):
        return F.cumsum(self.norm(self.fc(x)), axis=1)


def test_a_step_is_timed_in_its_parts(tmp_path):
    net = Small()
    net.initialize()
    before = [p.data().asnumpy() for p in net.collect_params().values()]
    report = profile(
        net, nd.random.normal(shape=(6, 4)), seconds=0.05, train=True, optimizer="adam"
    )
    text = str(report)
    for part in (
        "forward: ",
        "backward: ",
        "update:\n",
        "a step takes ",
        "host _np_cumsum",
        "update Adam",
    ):
        assert part in text, part
    assert "in hybrid_forward" in text
    assert [u.name for u in report.updates] == [
        "small_dense0_weight", "small_dense0_bias", "small_batchnorm0_gamma",
        "small_batchnorm0_beta",
    ]  # fmt: skip
    assert report.updates[0].nbytes == 4 * 20 * (3 + 2 * 2)
    assert all(took > 0 for took in report.seconds.values())
    assert list(report.seconds) == ["forward", "backward", "update"]
    for param, old in zip(net.collect_params().values(), before):
        np.testing.assert_array_equal(param.data().asnumpy(), old)
    report.write_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    events = [event for event in events if event["ph"] == "X"]
    steps = len(report.forward.profile.parts) + len(report.backward.profile.parts)
    assert sum(event["tid"] < THREAD for event in events) == steps + 4
    starts = [event["ts"] for event in events if event["tid"] < THREAD]
    assert starts == sorted(starts)


class Unused(gluon.HybridBlock):
    """A block with a layer whose result no output needs: its shapes stay unknown."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.used, self.unused = nn.Dense(3), nn.Dense(4)

    def hybrid_forward(self, F, x):
        y = self.used(x)
        self.unused(y)
        return y


@pytest.mark.filterwarnings("ignore:Parameter unused")  # as in MXNet
def test_a_layer_that_no_output_needs_is_left_out():
    net = Unused()
    net.initialize()
    net.hybridize()
    for train in (False, True):
        report = profile(net, nd.ones((2, 4)), seconds=0.01, train=train)
        assert "dense0_fwd" in str(report) and "dense1" not in str(report)


def test_an_optimizer_without_a_kernel_runs_in_numpy():
    net = nn.Dense(5, in_units=4)
    net.initialize()
    report = profile(net, nd.ones((2, 4)), seconds=0.05, train=True, optimizer="nadam")
    assert [update.algorithm for update in report.updates] == ["host Nadam"] * 2


def test_updates_are_those_of_a_trainer(monkeypatch):
    """A profile that ran the operators' NumPy reported 12 GB/s for an update that a trainer
    performs at 59."""
    monkeypatch.setattr(SGD, "update_multi_precision", None)
    net = nn.Dense(5, in_units=4)
    net.initialize()
    report = profile(net, nd.ones((2, 4)), seconds=0.05, train=True, optimizer="sgd")
    assert all(update.seconds > 0 for update in report.updates)


def test_training_is_measured_in_the_precision_of_the_network():
    net = nn.Dense(8, in_units=64)
    net.initialize()
    net.hybridize(precision="bfloat16")
    report = profile(net, nd.ones((16, 64)), seconds=0.05, train=True)
    assert "data:short" in str(report)


def test_the_profile_command_measures_training(capsys):
    symbol = str(DIGITS / "digits-symbol.json")
    words = ["--shape", "data=2,1,28,28", "--seconds", "0.05", "--train", "--optimizer", "sgd"]
    assert main(["profile", symbol, *words]) == 0
    text = capsys.readouterr().out
    assert "backward: " in text and "update SGD" in text and "a step takes" in text
    head = text.splitlines()[0]
    assert head.startswith("forward: digits (data f32[2,1,28,28], ") and " more) on " in head
    assert head.count("f32[") == 6
