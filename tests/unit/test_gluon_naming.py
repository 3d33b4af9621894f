"""Prefixes: of blocks inside and outside of name scopes, of parameters, and of operators."""

import threading

import pytest

import hybridjit as mx
from hybridjit import gluon
from hybridjit.gluon import nn


@pytest.fixture(autouse=True)
def fresh_names():
    with mx.name.NameManager():
        yield


def names(block):
    return list(block.collect_params())


def test_outside_of_scopes_names_are_counted_per_hint_with_the_symbols():
    assert [nn.Dense(1).name, nn.Dense(1).name, nn.Conv2D(1, 1).name] == [
        "dense0",
        "dense1",
        "conv0",
    ]
    mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=1)
    assert nn.MaxPool2D().prefix == "pool0_"
    assert mx.sym.Pooling(mx.sym.var("x"), kernel=(1, 1)).name == "pooling0"


def test_inside_a_scope_the_count_is_the_parents():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2), nn.Dense(2, prefix="mine_"), nn.Dense(2), nn.Activation("relu"))
    assert [c.name for c in net] == ["net_dense0", "net_mine", "net_dense1", "net_relu0"]
    assert names(net)[0] == "net_dense0_weight"


def test_children_made_outside_keep_global_names():
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(2))
    assert names(net) == ["dense0_weight", "dense0_bias"]


def test_an_empty_prefix_makes_the_scope_transparent():
    outer = nn.HybridSequential(prefix="net_")
    with outer.name_scope():
        inner = nn.HybridSequential(prefix="")
        with inner.name_scope():
            inner.add(nn.Dense(2), nn.Dense(2))
        outer.add(inner, nn.Dense(2))
    assert names(outer)[::2] == ["net_dense0_weight", "net_dense1_weight", "net_dense2_weight"]
    assert inner.prefix == "net_"


def test_a_prefix_without_underscore_runs_together():
    net = nn.HybridSequential(prefix="x")
    with net.name_scope():
        net.add(nn.Dense(1))
    assert names(net) == ["xdense0_weight", "xdense0_bias"]
    assert net.name == "x"


def test_scopes_close_after_errors():
    net = nn.HybridSequential(prefix="net_")
    with pytest.raises(ZeroDivisionError), net.name_scope():
        raise ZeroDivisionError
    assert nn.Dense(1).name == "dense0"


def test_scopes_belong_to_their_thread():
    seen = []
    with nn.HybridSequential(prefix="net_").name_scope():
        thread = threading.Thread(target=lambda: seen.append(nn.Dense(1, prefix="d_").prefix))
        thread.start()
        thread.join()
    assert seen == ["d_"]


@pytest.mark.parametrize("attribute", ["params", "collect_params"])
def test_shared_parameters_keep_their_names(attribute):
    first = nn.Dense(3, in_units=2)
    shared = first.params if attribute == "params" else first.collect_params()
    second = nn.Dense(3, in_units=2, params=shared)
    assert second.prefix == "dense1_"
    assert second.weight is first.weight
    assert names(second) == ["dense0_weight", "dense0_bias"]
    assert second.params.prefix == "dense0_"


def test_whole_nets_share():
    def make(**kwargs):
        net = nn.HybridSequential(**kwargs)
        with net.name_scope():
            net.add(nn.Dense(2, in_units=2), nn.Dense(2, in_units=2))
        return net

    first = make(prefix="a_")
    second = make(prefix="b_", params=first.collect_params())
    assert second[1].weight is first[1].weight


def test_hints_of_layers():
    made = [nn.Conv1DTranspose(1, 1), nn.GlobalAvgPool2D(), nn.Activation("tanh"), nn.BatchNorm()]
    assert [b.name for b in made] == ["conv0", "pool0", "tanh0", "batchnorm0"]


def test_operators_are_counted_anew_at_each_trace():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return (x + 1) * 2 + F.relu(x)

    net = Net(prefix="net_")
    for _ in range(2):
        traced = net(mx.sym.var("x"))
        assert traced.get_internals().list_outputs() == [
            "x", "net__plusscalar0_output", "net__mulscalar0_output", "net_relu0_output",
            "net__plus0_output",
        ]  # fmt: skip


def test_constructor_errors_take_no_name():
    with pytest.raises(AssertionError):
        nn.Conv2D(1, (1, 2, 3))
    assert nn.Conv2D(1, 1).name == "conv0"
