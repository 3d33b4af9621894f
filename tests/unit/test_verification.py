"""net.verify and hybridjit verify: mistakes are planted in each part of the compiler, and named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hybridjit
import hybridjit.compiler
from hybridjit import gluon, nd
from hybridjit._core.config import config, override
from hybridjit.cli import main
from hybridjit.codegen.emit import generate
from hybridjit.codegen.kinds.parts import program
from hybridjit.codegen.packing import WinogradPacking
from hybridjit.compiler import CHOICES, PIPELINE
from hybridjit.gluon import nn
from hybridjit.ir.graph import Graph, Use, make
from hybridjit.ir.plan import Plan
from hybridjit.ir.rewrite import rewrite, rule
from hybridjit.ops import lookup
from hybridjit.ops.elementwise.unary import RELU
from hybridjit.passes.plan.plan_memory import plan_memory
from hybridjit.verification import Gap, gap_between
from recorded import NETWORKS, arrays_of, block_of

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
IMAGES = np.random.default_rng(4).normal(0, 1, (2, 16, 9, 9)).astype(np.float32)


class Small(gluon.HybridBlock):
    """Something for every pass."""

    def __init__(self) -> None:
        super().__init__(prefix="small_")
        with self.name_scope():
            self.conv = nn.Conv2D(16, 3, padding=1, in_channels=16)
            self.norm = nn.BatchNorm(in_channels=16)
            self.fc = nn.Dense(5, in_units=16)

    def hybrid_forward(self, F, x):
        y = F.relu(self.norm(self.conv(x)))
        y = F.concat(F.softmax(y), F.relu(y - 1), dim=1).slice_axis(axis=1, begin=8, end=24)
        return self.fc(F.Pooling(y, global_pool=True, pool_type="avg")), F.square(y)


@pytest.fixture
def net() -> Small:
    made = Small()
    hybridjit.random.seed(4)
    made.initialize(hybridjit.init.Normal(0.2))
    return made


def line_of(text: str) -> int:
    (found,) = (i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1)
                if line.strip() == text)  # fmt: skip
    return found


# --- agreement ---


@pytest.mark.parametrize("name", ["net_se", "net_mobilenet_v2", "rnn_gru_bi", "net_two_inputs"])
def test_networks_agree(name: str):
    assert name in NETWORKS
    verdict = block_of(name).verify(*arrays_of(name)[0])
    assert verdict.agrees and verdict.first is None and verdict.culprits == ()
    assert "compiled agrees with eager" in str(verdict)
    assert len(verdict.step_table().splitlines()) == len(verdict.steps) + 1 > 3


def test_nothing_changes_in_the_net(net):
    x = nd.array(IMAGES)
    eager = net(x)[0].asnumpy()
    assert net.verify(x).agrees
    assert net._cached is None
    np.testing.assert_array_equal(net(x)[0].asnumpy(), eager)
    net.hybridize()
    net(x)
    assert net.verify(x).agrees
    assert net._cached.graph.cache.compiled == 1


def test_all_steps_except_copies_are_compared_with_eager_values(net):
    steps = net.verify(nd.array(IMAGES)).steps
    assert all(step.eager is not None for step in steps if step.kind != "copy")
    assert all(step.own is not None for step in steps)


def test_verify_without_an_array_names_the_call(net):
    with pytest.raises(TypeError, match=r"got none: net\.verify\(x\)"):
        net.verify()


def test_deferred_parameters_and_chance():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.HybridLambda(lambda F, x: x + F.random.uniform(shape=(2, 4))))
    net.initialize()
    assert net.verify(nd.array(IMAGES[:, 0, 0])).agrees


# --- mistakes ---


@rule("relu(x)  =>  abs(x)    planted: wrong for negative x")
def relu_to_abs(value, match):
    if value.op is not RELU:
        return None
    return Use(make(lookup("abs"), value.name, value.inputs, value.source))


def with_mistake(name: str) -> tuple[hybridjit.compiler.Pass, ...]:
    """The pipeline, where this pass turns relu into abs unless it is left out."""

    def planted(row: hybridjit.compiler.Pass) -> hybridjit.compiler.Pass:
        def run(graph: Graph, fired: list[str]) -> Graph:
            if name not in config.skip:
                graph = rewrite(graph, (relu_to_abs,), fired)
            return row.run(graph, fired)

        return replace(row, run=run) if row.name == name else row

    return tuple(map(planted, PIPELINE))


@pytest.mark.parametrize("name", ["expand", "fold-bn", "layout", "fuse"])
def test_a_mistake_in_a_pass(net, name, monkeypatch):
    monkeypatch.setattr(hybridjit.compiler, "PIPELINE", with_mistake(name))
    verdict = net.verify(nd.array(IMAGES))
    assert verdict.culprits == (name,) and not verdict.agrees
    first = verdict.first
    assert "'small_relu0'" in first.what
    assert first.eager.exceeds(1e-3) and not first.own.exceeds(1e-4)
    text = str(verdict)
    assert f"culprit: {name}; without it the results agree (HYBRIDJIT_SKIP={name})" in text
    assert re.search(rf"{Path(__file__).name}:\d+ in hybrid_forward", first.source)
    assert "from the eager values" in text and " ulp)" in text


def overlapping(graph: Graph) -> Plan:
    """A plan with all buffers of its arena in one place."""
    plan = plan_memory(graph)
    if "plan" in config.skip:
        return plan
    return replace(plan, buffers=tuple(replace(b, offset=0) for b in plan.buffers))


def test_a_mistake_in_the_plan(net, monkeypatch):
    monkeypatch.setattr(hybridjit.compiler, "plan_memory", overlapping)
    with override(verify=False):
        verdict = net.verify(nd.array(IMAGES))
    assert verdict.culprits == ("plan",)
    assert "which another step overwrote" in str(verdict)


@pytest.fixture
def small_wrong_weights(monkeypatch) -> Iterator[None]:
    """Winograd's weights transformed wrongly."""
    original = WinogradPacking.pack

    def pack(self: WinogradPacking, source: np.ndarray, out: np.ndarray) -> None:
        original(self, source, out)
        out *= 1.01

    monkeypatch.setattr(WinogradPacking, "pack", pack)
    yield


def test_a_mistake_in_winograd(small_wrong_weights):
    net = nn.HybridSequential()  # the first one is for channels-last data
    net.add(nn.Conv2D(16, 1, in_channels=16), nn.Conv2D(32, 3, padding=1, in_channels=16))
    net.initialize(hybridjit.init.Normal(0.2))
    net.hybridize(winograd="always")
    verdict = net.verify(nd.array(IMAGES))
    assert "winograd" in verdict.culprits
    assert verdict.first.own.exceeds(1e-3)
    net.hybridize(winograd=False)
    assert net.verify(nd.array(IMAGES)).agrees


@pytest.mark.usefixtures("nothing_stored")
def test_a_mistake_in_a_kernel(net, monkeypatch):
    """No choice is to blame, and the step's own reference tells which kernel."""
    wrong = replace(lookup("square"), scalar=lambda b, x: b.add(b.mul(x, x), b.const(1e-2)))
    monkeypatch.setattr(program, "lookup", lambda name: wrong if name == "square" else lookup(name))
    monkeypatch.setattr(generate, "_KERNELS", {})
    verdict = net.verify(nd.array(IMAGES))
    assert verdict.culprits == () and "no single choice causes the difference" in str(verdict)
    assert "square" in verdict.first.what
    assert verdict.first.own.absolute == pytest.approx(1e-2, rel=1e-3)
    assert f":{line_of(SQUARED)} in" in verdict.first.source


SQUARED = 'return self.fc(F.Pooling(y, global_pool=True, pool_type="avg")), F.square(y)'


def test_a_mistake_in_how_threads_share(net, monkeypatch):
    """A usual call differs, the steps one by one on one thread do not."""
    from_threads = hybridjit.runtime.executable.Executable.run_segments

    def run_segments(self, instance, inputs, outputs, stages=()):
        from_threads(self, instance, inputs, outputs, stages)
        if self.thread_count > 1:
            outputs[0][...] += 1

    monkeypatch.setattr(hybridjit.runtime.executable.Executable, "run_segments", run_segments)
    monkeypatch.setattr(hybridjit.runtime.executable, "WORTH_SHARING", 0)
    with hybridjit.threads(2):
        verdict = net.verify(nd.array(IMAGES))
    assert verdict.culprits == ("threads",) and verdict.first is None
    assert "HYBRIDJIT_NUM_THREADS=1" in str(verdict)


def test_every_choice_can_be_left_out_with_the_same_result():
    block, (inputs, _) = block_of("net_se"), arrays_of("net_se")
    for choice in CHOICES:
        with override(skip=(choice,)):
            assert block.verify(*inputs).agrees, choice


# --- gaps ---


def gap(found: object, right: object, dtype: str = "float32") -> Gap:
    return gap_between(np.array(found, dtype), np.array(right, dtype))


def test_gaps_measure_differences():
    assert gap([1, 2], [1, 2]) == Gap(0, 0, 0)
    assert gap([1, 2 + 2**-22], [1, 2]) == Gap(2**-22, 1, 2**-23)
    assert gap([5, 0], [4, 0]) == Gap(1, 2**21, 0.25)
    assert gap([3, 1], [1, 3], "int32") == Gap(2, 2, float("inf"))
    for bad in (np.nan, np.inf):
        assert gap([1, bad], [1, 2]).absolute == float("inf")
        assert gap([1, bad], [1, bad]) == Gap(0, 0, 0)
        assert gap([1, bad], [1, 2]).exceeds(1e9)
    assert not gap([1.001], [1], "float16").exceeds(1e-4)
    assert gap([1.001], [1]).exceeds(1e-4)


# --- the command ---


@pytest.fixture
def verify(tmp_path, capsys) -> Callable[..., tuple[int, str]]:
    np.save(tmp_path / "x.npy", np.ones((2, 1, 28, 28)))
    symbol, params = str(DIGITS / "digits-symbol.json"), str(DIGITS / "digits-0000.params")

    def run(*words: str, given: str = "x.npy") -> tuple[int, str]:
        name, equals, file = given.rpartition("=")
        code = main(["verify", symbol, "--params", params, "--input",
                     f"{name}{equals}{tmp_path / file}", *words])  # fmt: skip
        out, err = capsys.readouterr()
        return code, out + err

    return run


def test_the_command_prints_steps_and_verdict(verify):
    code, text = verify()
    assert code == 0 and "digits: 7 steps" in text and "compiled agrees with eager" in text
    code, text = verify("--steps", "--target", "sse2", given="data=x.npy")
    assert code == 0 and len(text.splitlines()) == 1 + 7 + 1 + 2


def test_the_command_names_the_first_difference(verify):
    code, text = verify("--tolerance", "1e-12")
    assert code == 1 and "the first step that differs: step 0 (conv: Convolution" in text


def test_command_refuses_unknown_inputs(verify):
    code, text = verify(given="dat=x.npy")
    assert code == 2 and "'data'" in text
