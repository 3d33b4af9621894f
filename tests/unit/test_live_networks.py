"""Whole networks whose parameters are all inputs: the numbers of the same parameters when bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hybridjit as mx
from compiling import assert_near, call, compiled, plan_of, run_reference, var
from hybridjit import nd, sym
from hybridjit._core.options import Options
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.gluon import HybridBlock, model_zoo, nn, rnn
from hybridjit.ir.mode import Purpose
from hybridjit.runtime.executable import Executable


def resnet() -> tuple[HybridBlock, nd.NDArray]:
    return model_zoo.vision.resnet18_v1(classes=10), nd.random.normal(shape=(2, 3, 64, 64))


def lstm() -> tuple[HybridBlock, nd.NDArray]:
    net = nn.HybridSequential()
    net.add(rnn.LSTM(24, num_layers=2, bidirectional=True), nn.Dense(7, flatten=False))
    return net, nd.random.normal(shape=(5, 3, 11))


def deconvolutions() -> tuple[HybridBlock, nd.NDArray]:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2DTranspose(24, 4, strides=2, padding=1, activation="relu"),
        nn.BatchNorm(),
        nn.Conv2DTranspose(16, 3, strides=1, padding=1, use_bias=False),
        nn.InstanceNorm(),
        nn.Conv2DTranspose(3, 4, strides=2, padding=1, activation="tanh"),
    )
    return net, nd.random.normal(shape=(2, 12, 9, 8))


NETWORKS: dict[str, Callable[[], tuple[HybridBlock, nd.NDArray]]] = {
    "resnet18": resnet, "lstm": lstm, "deconvolutions": deconvolutions,
}  # fmt: skip


def arrays_of(name: str) -> tuple[tuple, dict[str, np.ndarray], list[str]]:
    """The network's outputs, an array for every variable, and the names of the parameters."""
    mx.random.seed(7)
    net, x = NETWORKS[name]()
    net.initialize(mx.init.Xavier())
    net(x)
    random = np.random.default_rng(3)
    params = {}
    for key, param in net.collect_params().items():
        value = param.data().asnumpy()
        if key.endswith(("gamma", "running_var")):
            value = random.uniform(0.5, 1.5, value.shape).astype(value.dtype)
        elif value.ndim == 1 and not key.endswith("weight"):
            value = random.normal(0, 0.2, value.shape).astype(value.dtype)
        params[key] = value
    traced = net(sym.var("data"))
    return tuple(traced.outputs), {"data": x.asnumpy(), **params}, list(params)


def made(outputs: tuple, arrays: dict, params: list[str], winograd: bool | str) -> Executable:
    given = {n: type_of(a) for n, a in arrays.items() if n not in params}
    fixed = {n: type_of(arrays[n]) for n in params}
    executable = compile_graph(outputs, given, fixed, Options(winograd), new_log())
    executable.bind({n: arrays[n] for n in params})
    assert isinstance(executable, Executable)
    return executable


@pytest.mark.parametrize("name", NETWORKS)
def test_all_parameters_are_inputs(name: str):
    outputs, arrays, params = arrays_of(name)
    live = made(outputs, arrays, [], False)
    assert not {value.name for value in live.plan.graph.params} & {*params}
    assert "host" not in [step.kind for step in live.plan.steps]
    found = live([*arrays.values()])
    assert_near(found, made(outputs, arrays, params, False)([arrays["data"]]), 1e-5)
    with_winograd = made(outputs, arrays, [], True)([*arrays.values()])
    assert_near(with_winograd, found, 1e-4)
    assert_near(found, run_reference(outputs, arrays), 1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_may_change_from_call_to_call(name: str):
    outputs, arrays, _ = arrays_of(name)
    live = made(outputs, arrays, [], True)
    before = live([*arrays.values()])
    halved = {n: a if n == "data" or "var" in n else a * 0.5 for n, a in arrays.items()}
    found = live([*halved.values()])
    assert_near(found, run_reference(outputs, halved), 1e-4)
    assert [y.tobytes() for y in live([*arrays.values()])] == [y.tobytes() for y in before]


def test_stored_statistics_that_change_are_applied_by_kernels():
    """At inference too; and folded as ever where they are parameters."""
    random = np.random.default_rng(1)
    arrays = {"x": random.normal(0, 1, (2, 5, 6, 6)), "w": random.normal(0, 1, (4, 5, 3, 3))}
    arrays |= {n: random.uniform(0.5, 1.5, 4) for n in "gbmv"}
    arrays = {n: a.astype(np.float32) for n, a in arrays.items()}
    layer = call("Convolution", var("x"), var("w"), kernel=(3, 3), num_filter=4, no_bias=True)
    for fix_gamma in (False, True):
        outputs = [call("BatchNorm", layer, *map(var, "gbmv"), fix_gamma=fix_gamma)]
        plan = plan_of(outputs, arrays)
        assert "host" not in [step.kind for step in plan.steps]
        found = compiled(outputs, arrays)([*arrays.values()])
        assert_near(found, run_reference(outputs, arrays))
        fixed = plan_of(outputs, arrays, [n for n in arrays if n != "x"])
        assert [s.kind for s in fixed.steps if s.kind != "copy"] == ["conv"]


def test_a_network_that_trains_its_statistics():
    """ResNet-18 in training mode, all parameters inputs: no step is NumPy's."""
    outputs, arrays, _ = arrays_of("resnet18")
    executable = compiled(outputs, arrays, purpose=Purpose(training=True))
    assert "host" not in [step.kind for step in executable.plan.steps]
    first = executable([*arrays.values()])
    assert [y.tobytes() for y in executable([*arrays.values()])] == [y.tobytes() for y in first]
