"""``mx.rnn``: symbolic cells against the fused operator and Gluon's cells, weights and files."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd, rnn, sym

MODES = ["rnn_relu", "rnn_tanh", "lstm", "gru"]


def flat(values):
    nested = isinstance(values, (list, tuple))
    return [leaf for value in values for leaf in flat(value)] if nested else [values]


def bound(outputs, weights=None, **shapes):
    """An executor whose parameters are ``weights``, or random, and its values by name."""
    executor = sym.Group(flat(outputs)).simple_bind(mx.cpu(), grad_req="null", **shapes)
    draw = np.random.RandomState(3)
    for name, array in executor.arg_dict.items():
        if name not in shapes:
            given = (weights or {}).get(name)
            array[:] = draw.uniform(-1, 1, array.shape) if given is None else given
    return executor


def forward(executor, **inputs):
    """The outputs, operator by operator: how graphs compile is tested elsewhere."""
    for name, values in inputs.items():
        executor.arg_dict[name][:] = values
    return [output.asnumpy() for output in executor.interpreted()]


@pytest.fixture
def x():
    return nd.array(np.random.RandomState(0).uniform(-1, 1, (2, 3, 4)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_fused_cell_is_its_single_cells(mode, bidirectional, x):
    fused = rnn.FusedRNNCell(5, 2, mode, bidirectional, 0.5, get_next_state=True, prefix="f_")
    outputs, states = fused.unroll(3, sym.var("data"), merge_outputs=True)
    one = bound([outputs, *states], data=x.shape)
    packed = {name: array for name, array in one.arg_dict.items() if name != "data"}
    unpacked = fused.unpack_weights(packed)
    assert fused.pack_weights(unpacked)["f_parameters"].asnumpy().tolist() == (
        packed["f_parameters"].asnumpy().tolist()
    )

    stack = fused.unfuse()
    outputs, states = stack.unroll(3, sym.var("data"), merge_outputs=True)
    many = bound([outputs, *states], stack.pack_weights(unpacked), data=x.shape)
    expected, *expected_states = forward(one, data=x)
    found, *found_states = forward(many, data=x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    kinds = 2 if mode == "lstm" else 1  # the operator has all of a kind in one array
    for kind in range(kinds):
        np.testing.assert_allclose(found_states[kind::kinds], expected_states[kind], atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("merge", [False, True])
def test_symbolic_cells_equal_gluons(kind, merge, x):
    cell = getattr(rnn, f"{kind}Cell")(5, prefix="c_")
    outputs, states = cell.unroll(3, sym.var("data"), merge_outputs=merge)
    executor = bound([outputs, states], data=x.shape)
    other = getattr(gluon.rnn, f"{kind}Cell")(5, prefix="c_")
    other.initialize()
    x_first = other.unroll(3, x)  # which fixes the shapes
    assert x_first[0][0].shape == (2, 5)
    for name, param in other.collect_params().items():
        param.set_data(executor.arg_dict[name])
    expected, after = other.unroll(3, x, merge_outputs=merge)
    for found, wanted in zip(forward(executor, data=x), flat([expected, after])):
        np.testing.assert_allclose(found, wanted.asnumpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_symbolic_convolutional_cells_equal_gluons(kind):
    cell = getattr(rnn, f"Conv{kind}Cell")((1, 2, 5, 5), 3, activation="tanh", prefix="c_")
    x = [nd.array(np.random.RandomState(i).uniform(-1, 1, (2, 2, 5, 5))) for i in range(2)]
    outputs, states = cell.unroll(2, [sym.var("x0"), sym.var("x1")])
    executor = bound([outputs, states], x0=(2, 2, 5, 5), x1=(2, 2, 5, 5))
    other = getattr(gluon.contrib.rnn, f"Conv2D{kind}Cell")((2, 5, 5), 3, 3, 3, 1, prefix="c_")
    other.initialize()
    for name, param in other.collect_params().items():
        param.set_data(executor.arg_dict[name])
    expected = flat(list(other.unroll(2, x, merge_outputs=False)))
    for found, wanted in zip(forward(executor, x0=x[0], x1=x[1]), expected):
        np.testing.assert_allclose(found, wanted.asnumpy(), atol=1e-6)


def test_a_cell_of_ones_own_activates_by_name_or_function():
    cell = rnn.BaseRNNCell("own_")
    x = nd.array([[-1.0, 2]])
    for activation, wanted in (
        ("relu", [[0, 2]]),
        (lambda x, name: sym.negative(x, name=name), [[1, -2]]),
    ):
        made = cell._get_activation(sym.var("x"), activation, name="out")
        assert made.list_outputs() == ["out_output"]
        assert made.eval(x=x)[0].asnumpy().tolist() == wanted


def test_names_of_convolutional_cells_are_mxnets():
    # Recorded from MXNet 1.9.1.
    cell = rnn.ConvGRUCell((1, 2, 6, 6), 3, i2h_stride=(2, 2))
    assert cell.state_info == [{"shape": (0, 3, 3, 3), "__layout__": "NCHW"}]
    (output,), _ = cell.unroll(1, [sym.var("x")])
    names = output.get_internals().list_outputs()
    assert names[1:5] == [
        "ConvGRU_i2h_weight", "ConvGRU_i2h_bias", "ConvGRU_t0_i2h_output",
        "ConvGRU_t0__i2h_slice_output0",
    ]  # fmt: skip
    assert output.attr_dict()["ConvGRU_t0__h_act"] == {"act_type": "leaky", "slope": "0.2"}
    assert output.attr_dict()["ConvGRU_i2h_bias"] == {"__init__": "zeros"}


def test_names_are_mxnets():
    # Recorded from MXNet 1.9.1.
    with mx.name.NameManager():
        stack = rnn.SequentialRNNCell()
        stack.add(rnn.ResidualCell(rnn.GRUCell(3, prefix="b_")))
        stack.add(rnn.BidirectionalCell(rnn.RNNCell(3, prefix="l_"), rnn.RNNCell(3, prefix="r_")))
        outputs, states = stack.unroll(2, sym.var("data"))
    assert [output.name for output in outputs] == ["bi_t0", "bi_t1"]
    assert [[s.name for s in flat(state)] for state in states] == [
        ["b_t1_out"], ["l_t1_out"], ["r_t1_out"],
    ]  # fmt: skip
    names = outputs[0].get_internals().list_outputs()
    assert names[:6] == [
        "data", "split0_output0", "split0_output1", "b_i2h_weight", "b_i2h_bias",
        "b_t0__i2h_output",
    ]  # fmt: skip
    assert {"b_t0__r_act_output", "_rminusscalar0_output", "b_t0_out_plus_residual_output"} <= (
        set(names)
    )
    fused = rnn.FusedRNNCell(3, get_next_state=True)
    output, _ = fused.unroll(2, sym.var("data"))
    assert output.attr_dict()["lstm_rnn"]["__layout__"] == "LNC"
    assert output.attr_dict()["lstm_begin_state_1"]["shape"] == "(1, 0, 3)"
    assert output.attr_dict()["lstm_parameters"]["__init__"].startswith('["fusedrnn", {"init": n')
    assert list(rnn.LSTMCell(3).unpack_weights(_lstm_weights()))[:3] == [
        "lstm_i2h_i_weight", "lstm_i2h_i_bias", "lstm_i2h_f_weight",
    ]  # fmt: skip


def _lstm_weights():
    return {
        f"lstm_{name}_{kind}": nd.ones((12, 4) if kind == "weight" else (12,))
        for name in ("i2h", "h2h")
        for kind in ("weight", "bias")
    }


def test_steps_one_by_one_and_zoneout_that_does_nothing(x):
    cell = rnn.ZoneoutCell(rnn.LSTMCell(5, prefix="c_"), 0.5, 0.5)
    states = cell.begin_state(sym.var)
    output, after = cell(sym.var("data"), states)
    bare = rnn.LSTMCell(5, prefix="c_")
    expected, bare_after = bare(sym.var("data"), bare.begin_state(sym.var))
    shapes = {"data": (2, 4), "c_begin_state_0": (2, 5), "c_begin_state_1": (2, 5)}
    inputs = {name: nd.ones(shape) * 0.3 for name, shape in shapes.items()}
    found = forward(bound([output, after], **shapes), **inputs)
    wanted = forward(bound([expected, bare_after], **shapes), **inputs)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_checkpoints_hold_unpacked_weights(tmp_path):
    cell = rnn.FusedRNNCell(3, prefix="f_")
    output, _ = cell.unroll(2, sym.var("data"), merge_outputs=True)
    weights = {"f_parameters": nd.random.uniform(shape=(4 * 3 * (4 + 3 + 2),))}
    prefix = str(tmp_path / "net")
    rnn.save_rnn_checkpoint([cell], prefix, 7, output, weights, {})
    assert nd.load(f"{prefix}-0007.params")["arg:f_l0_i2h_f_weight"].shape == (3, 4)
    symbol, args, auxs = rnn.load_rnn_checkpoint(cell, prefix, 7)
    assert symbol.tojson() == output.tojson() and auxs == {}
    assert (args["f_parameters"] == weights["f_parameters"]).asnumpy().all()
    rnn.do_rnn_checkpoint(cell, prefix, 2)(1, symbol, args, {})
    assert rnn.load_rnn_checkpoint(cell, prefix, 2)[1].keys() == weights.keys()


def test_packed_weights_start_as_the_module_says_and_biases_as_the_cell_does():
    fused = rnn.FusedRNNCell(3, num_layers=2, prefix="f_", forget_bias=2.0)
    output, _ = fused.unroll(2, sym.var("data"), merge_outputs=True)
    module = mx.mod.Module(output, label_names=None)
    module.bind([("data", (2, 2, 4))], for_training=False)
    module.init_params(mx.init.One())
    parts = fused.unpack_weights(module.get_params()[0])
    assert (parts["f_l1_h2h_o_weight"].asnumpy() == 1).all()
    assert (parts["f_l0_i2h_f_bias"].asnumpy() == 2).all()
    assert (parts["f_l0_i2h_i_bias"].asnumpy() == 0).all()


def test_states_of_a_module_go_round_in_parts():
    cell = rnn.LSTMCell(4, prefix="l_")
    begin = cell.begin_state(func=sym.Variable)
    _, states = cell.unroll(2, [sym.var("x"), sym.var("x")], begin)
    names = [state.name for state in begin]
    contexts = [mx.cpu(0), mx.cpu(1)]
    module = mx.mod.Module(sym.Group(states), ["x"], None, context=contexts, state_names=names)
    module.bind([("x", (5, 3))], for_training=False)
    module.init_params(mx.init.One())
    batch = mx.io.DataBatch([nd.ones((5, 3))])
    module.set_states(value=0)
    module.forward(batch)
    first = [out.asnumpy() for out in module.get_outputs()]
    parts = module.get_outputs(merge_multi_context=False)
    assert [[part.shape for part in out] for out in parts] == [[(2, 4), (3, 4)]] * 2
    module.set_states(states=parts)
    module.forward(batch)
    assert (module.get_outputs()[1].asnumpy() > first[1] + 1).all()


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (NotImplementedError, lambda: rnn.FusedRNNCell(3)(sym.var("x"), [])),
        (
            NotImplementedError,
            lambda: rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3))(sym.var("x"), []),
        ),
        (AssertionError, lambda: rnn.RNNCell(3).unroll(2, None)),
        (AssertionError, lambda: rnn.RNNCell(3).unroll(2, [sym.var("x")])),
        (AssertionError, lambda: rnn.RNNCell(3).unroll(2, sym.split(sym.var("x"), num_outputs=2))),
        (AssertionError, lambda: rnn.ZoneoutCell(rnn.FusedRNNCell(3))),
        (AssertionError, lambda: rnn.DropoutCell("half")),
        (AssertionError, lambda: _begin_inside_a_modifier()),
        (AssertionError, lambda: rnn.SequentialRNNCell(rnn.RNNParams()).add(rnn.RNNCell(3))),
        (AssertionError, lambda: rnn.ConvLSTMCell((1, 2, 4, 4), 3, h2h_kernel=(2, 2))),
    ],
)
def test_cells_raise_for_wrong_arguments(kind, call):
    with pytest.raises(kind, match=r".+"):
        call()


def _begin_inside_a_modifier():
    cell = rnn.RNNCell(3)
    rnn.ZoneoutCell(cell)
    return cell.begin_state()


def test_sentences_in_buckets(capsys):
    sentences = [
        ["a", "b", "c"],
        ["b", "c"],
        ["d", "a", "b", "c", "e"],
        ["a", "b"],
        ["x", "y", "z"],
    ]
    coded, vocab = rnn.encode_sentences(sentences, start_label=1, invalid_label=0)
    assert coded == [[1, 2, 3], [2, 3], [4, 1, 2, 3, 5], [1, 2], [6, 7, 8]]
    assert vocab["\n"] == 0 and vocab["z"] == 8
    with pytest.raises(AssertionError, match="Unknown token q"):
        rnn.encode_sentences([["q"]], vocab)
    assert rnn.encode_sentences([["q", "a", "r"]], vocab, unknown_token="a")[0] == [[1, 1, 1]]

    random.seed(0)
    np.random.seed(0)
    buckets = [4, 3, 1, 2]  # no sentence has 4 words or 1
    batches = rnn.BucketSentenceIter(coded * 2, 2, buckets=buckets, invalid_label=0, layout="TN")
    assert "discarded 2 sentences" in capsys.readouterr().out
    assert batches.buckets == [2, 3] and len(batches.data) == 2
    with pytest.raises(ValueError, match="all sentences are longer than the largest bucket"):
        rnn.BucketSentenceIter(coded, 2, buckets=[1])
    assert batches.default_bucket_key == 3 and batches.provide_data[0].shape == (3, 2)
    for _ in range(2):
        found = list(batches)
        assert sorted(batch.bucket_key for batch in found) == [2, 2, 3, 3]
        for batch in found:
            data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
            assert data.shape == batch.provide_data[0].shape == (batch.bucket_key, 2)
            assert (label[:-1] == data[1:]).all() and not label[-1].any()
        batches.reset()
