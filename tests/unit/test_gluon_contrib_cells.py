"""Convolutional and projected cells, variational dropout, deformable layers."""

import numpy as np
import pytest

import gluon_nets
import hybridjit as mx
from hybridjit.gluon import nn, rnn
from hybridjit.gluon.contrib import cnn
from hybridjit.gluon.contrib import rnn as contrib_rnn

KINDS = {"RNN": rnn.RNNCell, "LSTM": rnn.LSTMCell, "GRU": rnn.GRUCell}
SIZES = {1: (1,), 2: (1, 1), 3: (1, 1, 1)}


def array(name, shape):
    return mx.nd.array(gluon_nets.values(name, shape))


def assert_close(found, expected):
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", SIZES)
def test_convolution_over_one_pixel_is_the_plain_cell(kind, axes):
    """With 1x1 kernels on one pixel a convolutional cell equals the dense one."""
    cell = getattr(contrib_rnn, f"Conv{axes}D{kind}Cell")((3, *SIZES[axes]), 4, 1, 1)
    plain = KINDS[kind](4, input_size=3)
    for each in (cell, plain):
        each.initialize()
    for param, other in zip(cell.collect_params().values(), plain.collect_params().values()):
        values = gluon_nets.values(other.name.rpartition("_")[2] + kind, other.shape)
        other.set_data(mx.nd.array(values))
        param.set_data(mx.nd.array(values.reshape(param.shape)))
    x = array("cx", (2, 5, 3))
    expected, _ = plain.unroll(5, x, merge_outputs=True)
    steps, states = cell.unroll(5, x.reshape((2, 5, 3, *SIZES[axes])), merge_outputs=True)
    assert_close(steps.reshape((2, 5, 4)), expected)
    assert [s.shape for s in states] == [(2, 4, *SIZES[axes])] * (2 if kind == "LSTM" else 1)


def test_a_convolutional_state_has_the_size_of_the_convolved_input():
    cell = contrib_rnn.Conv2DLSTMCell((2, 8, 9), 3, (3, 2), 3, i2h_pad=(1, 0), i2h_dilate=(2, 1))
    assert [info["shape"] for info in cell.state_info(5)] == [(5, 3, 6, 8)] * 2
    assert repr(cell) == "Conv2DLSTMCell(2 -> 12, tanh, NCHW)"
    cell.initialize()
    x = array("cs", (5, 2, 8, 9))
    eager = cell(x, cell.begin_state(5))[0]
    assert eager.shape == (5, 3, 6, 8)
    cell.hybridize()
    assert_close(cell(x, cell.begin_state(5))[0], eager)


def test_a_recurrent_kernel_is_odd_and_sizes_have_one_number_per_axis():
    with pytest.raises(AssertionError, match=r"h2h_kernel must be odd, got \(2, 2\)"):
        contrib_rnn.Conv2DRNNCell((2, 4, 4), 3, 3, (2, 2))
    with pytest.raises(AssertionError, match="2 numbers for a 2D convolution"):
        contrib_rnn.Conv2DRNNCell((2, 4, 4), 3, (3, 3, 3), 3)


def test_projected_lstm_is_an_lstm_then_a_product():
    cell = contrib_rnn.LSTMPCell(4, 2, prefix="p_")
    assert repr(cell) == "LSTMPCell(None -> 16 -> 2)"
    cell.initialize()
    x = array("px", (3, 5))
    cell(x, cell.begin_state(3))
    gluon_nets.fill(mx, cell)
    h, c = array("ph", (3, 2)), array("pc", (3, 4))
    output, (state, memory) = cell(x, [h, c])
    params = {n: p.data().asnumpy() for n, p in cell.collect_params().items()}
    total = x.asnumpy() @ params["p_i2h_weight"].T + params["p_i2h_bias"]
    total += h.asnumpy() @ params["p_h2h_weight"].T + params["p_h2h_bias"]
    i, f, g, o = np.split(total, 4, axis=1)
    i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
    expected = f * c.asnumpy() + i * np.tanh(g)
    np.testing.assert_allclose(memory.asnumpy(), expected, rtol=1e-4, atol=1e-5)
    projected = (o * np.tanh(expected)) @ params["p_h2r_weight"].T
    np.testing.assert_allclose(output.asnumpy(), projected, rtol=1e-4, atol=1e-5)
    assert state is output


@pytest.mark.parametrize("states", [0.0, 0.5])
def test_variational_dropout_does_nothing_at_inference_and_keeps_its_mask_in_training(states):
    base = rnn.RNNCell(16, input_size=6)
    cell = contrib_rnn.VariationalDropoutCell(base, 0.5, states, 0.5)
    cell.initialize(mx.init.Constant(0.1))
    x = mx.nd.ones((2, 5, 6))
    found, _ = cell.unroll(5, x, merge_outputs=True)
    base._modified = False
    assert_close(found, base.unroll(5, x, merge_outputs=True)[0])
    base._modified = True
    with mx.autograd.train_mode():
        dropped = cell.unroll(5, x, merge_outputs=True)[0].asnumpy() == 0
    assert 0 < dropped.mean() < 1
    assert (dropped == dropped[:, :1]).all()


def test_variational_dropout_of_states_needs_steps():
    both = rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.LSTMCell(3))
    with pytest.raises(AssertionError, match="cells underneath"):
        contrib_rnn.VariationalDropoutCell(both, drop_states=0.5)


def test_dynamic_unroll_is_unroll():
    cell = rnn.GRUCell(4, input_size=3)
    cell.initialize()
    x, length = array("dx", (5, 2, 3)), mx.nd.array([2, 5])
    expected = cell.unroll(5, x, cell.begin_state(2), "TNC", True, length)
    found = contrib_rnn.rnn_cell.dynamic_unroll(cell, x, cell.begin_state(2), valid_length=length)
    assert_close(found[0], expected[0])
    assert_close(found[1][0], expected[1][0])


def results_and_gradients(run, x, weight):
    """The results of ``run()``, and gradients with respect to the sequence and a weight."""
    x.attach_grad()
    with mx.autograd.record():
        rows, after = run()
        total = (rows * rows).sum() + sum((s * s).sum() for s in after)
    total.backward()
    return [rows, *after, x.grad.copy(), weight.grad().copy()]


@pytest.mark.parametrize("layout, has_lengths", [("TNC", False), ("NTC", True)])
def test_dynamic_unroll_of_symbols_is_a_loop(has_lengths, layout):
    """One graph for sequences of every length, with the gradients of ``unroll``."""

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = rnn.LSTMCell(4)

        def hybrid_forward(self, F, x, states, *length):
            unroll = contrib_rnn.rnn_cell.dynamic_unroll
            lengths = length[0] if length else None
            return unroll(self.cell, x, states, layout=layout, valid_length=lengths)

    net = Net()
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    cell = net.cell

    def require_equal(steps):
        x = array("dx", (steps, 2, 3) if layout == "TNC" else (2, steps, 3))
        given = [x, [s + 0.5 for s in cell.begin_state(2)]]
        more = [mx.nd.array([2, 3])] if has_lengths else []
        weight = cell.h2h_weight
        found = results_and_gradients(lambda: net(*given, *more), x, weight)
        right = results_and_gradients(
            lambda: cell.unroll(steps, *given, layout, True, *more), x, weight
        )
        for mine, theirs in zip(found, right, strict=True):
            assert_close(mine, theirs)

    require_equal(5)
    require_equal(3)


@pytest.mark.parametrize("options", [{}, {"strides": 2, "padding": 1, "num_deformable_group": 2}])
def test_without_offsets_a_deformable_convolution_is_a_convolution(options):
    """Offset parameters start at zero; a modulated layer then weighs every tap by 2 * 1/2."""
    x = array("fx", (2, 4, 6, 7))
    groups = {k: v for k, v in options.items() if k != "num_deformable_group"}
    plain = nn.Conv2D(6, 3, in_channels=4, **groups)
    plain.initialize()
    gluon_nets.fill(mx, plain)
    for kind in (cnn.DeformableConvolution, cnn.ModulatedDeformableConvolution):
        layer = kind(6, kernel_size=3, **options)
        layer.initialize()
        layer(x)
        layer.deformable_conv_weight.set_data(plain.weight.data())
        layer.deformable_conv_bias.set_data(plain.bias.data())
        assert_close(layer(x), plain(x))
        layer.hybridize()
        assert_close(layer(x), plain(x))


def test_offsets_move_the_taps():
    """An offset of one row down for every tap reads the input one row further down."""
    layer = cnn.DeformableConvolution(1, kernel_size=1, in_channels=1, use_bias=False)
    assert repr(layer) == (
        "DeformableConvolution(None -> 1, kernel_size=(1, 1), stride=(1, 1), bias=False)"
    )
    layer.initialize(mx.init.One())
    layer(mx.nd.ones((1, 1, 2, 2)))
    layer.offset_weight.set_data(mx.nd.zeros((2, 1, 1, 1)))
    layer.offset_bias.set_data(mx.nd.array([1, 0]))
    x = mx.nd.arange(9).reshape((1, 1, 3, 3))
    assert layer(x).asnumpy().ravel().tolist() == [3, 4, 5, 6, 7, 8, 0, 0, 0]


@pytest.mark.parametrize("kind", ["DeformableConvolution", "ModulatedDeformableConvolution"])
def test_deformable_convolutions_behind_each_other_compile(kind):
    """The result of one is read by the other's two convolutions, in two layouts."""
    layer = getattr(cnn, kind)
    net = nn.HybridSequential()
    net.add(layer(4, kernel_size=(3, 3)), layer(4, kernel_size=(1, 1)))
    net.initialize()
    x = mx.nd.random.uniform(shape=(2, 5, 8, 9))
    eager = net(x)
    net.hybridize()
    assert_close(net(x), eager)
    with mx.autograd.record():
        recorded = net(x)
    recorded.backward()
    assert_close(recorded, eager)
