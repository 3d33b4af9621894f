"""Recurrent layers and cells: states, unrolling, valid lengths, modifiers, files, mistakes."""

import numpy as np
import pytest

import gluon_nets
import hybridjit as mx
from hybridjit import gluon
from hybridjit.gluon import nn, rnn


@pytest.fixture
def x():
    """(N, T, C)"""
    return mx.nd.array(gluon_nets.values("x_rnn", (2, 5, 4)))


LAYERS = {
    "rnn": (rnn.RNN, rnn.RNNCell, {"activation": "tanh"}),
    "lstm": (rnn.LSTM, rnn.LSTMCell, {}),
    "gru": (rnn.GRU, rnn.GRUCell, {}),
}
CELLS = {
    "rnn": lambda: rnn.RNNCell(4, activation="relu"),
    "leaky": lambda: rnn.RNNCell(4, activation=nn.LeakyReLU(0.2)),
    "lstm": lambda: rnn.LSTMCell(4, activation="softsign"),
    "gru": lambda: rnn.GRUCell(4),
    "dropout": lambda: rnn.DropoutCell(0.5),
    "residual": lambda: rnn.ResidualCell(rnn.GRUCell(4)),
    "zoneout": lambda: rnn.ZoneoutCell(rnn.LSTMCell(4), 0.2, 0.3),
    "row": lambda: row(rnn.SequentialRNNCell),
    "hybrid_row": lambda: row(rnn.HybridSequentialRNNCell),
}


def row(kind):
    cells = kind()
    with cells.name_scope():
        cells.add(rnn.LSTMCell(3))
        cells.add(rnn.DropoutCell(0.3))
        cells.add(rnn.GRUCell(4))
    return cells


def ready(cell, x):
    cell.initialize()
    cell.unroll(x.shape[1], x)
    gluon_nets.fill(mx, cell)
    return cell


def assert_close(found, expected):
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


# ---- layers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_equal_their_unrolled_cells(name, bidirectional, x):
    layer_class, _, options = LAYERS[name]
    layer = layer_class(3, 2, layout="NTC", bidirectional=bidirectional, **options)
    layer.initialize()
    layer(x)
    gluon_nets.fill(mx, layer)
    cells = layer._unfuse()
    expected, states = cells.unroll(5, x, merge_outputs=True)
    found, last = layer(x, layer.begin_state(2))
    assert_close(found, expected)
    assert_close(layer(x), expected)
    for i, state in enumerate(last):
        of_cells = mx.nd.stack(*states[i :: len(last)], axis=0)
        assert_close(state, of_cells)


@pytest.mark.parametrize("name", LAYERS)
def test_states_make_the_result_a_pair(name, x):
    layer = LAYERS[name][0](3, layout="NTC")
    layer.initialize()
    eager = layer(x)
    states = layer.begin_state(2)
    outputs, last = layer(x, states)
    assert isinstance(last, list)
    assert [s.shape for s in last] == [(1, 2, 3)] * len(layer.state_info())
    layer.hybridize()
    for _ in range(2):
        assert_close(layer(x), eager)
        found, found_last = layer(x, states)
        assert_close(found, outputs)
        assert_close(found_last[0], last[0])
    if len(states) == 1:
        assert_close(layer(x, states[0])[0], outputs)


def test_layouts_agree(x):
    first, second = rnn.LSTM(3, layout="NTC"), rnn.LSTM(3, layout="TNC")
    for layer, inputs in ((first, x), (second, x.swapaxes(0, 1))):
        layer.initialize()
        layer(inputs)
        gluon_nets.fill(mx, layer)
    assert_close(first(x), second(x.swapaxes(0, 1)).swapaxes(0, 1))


@pytest.mark.parametrize("active", [False, True])
def test_inside_a_net_any_batch_size(x, active):
    net = nn.HybridSequential()
    net.add(rnn.GRU(3, layout="NTC"), nn.Dense(2))
    net.initialize()
    net.hybridize(active)
    both = net(x)
    assert net[0].l0_i2h_weight.shape == (9, 4)
    for i in range(2):
        np.testing.assert_allclose(
            net(x[i : i + 1]).asnumpy()[0], both.asnumpy()[i], rtol=1e-4, atol=1e-5
        )


def test_layer_reprs_and_paths(tmp_path, x):
    layer = rnn.LSTM(3, 2, layout="NTC", dropout=0.5, bidirectional=True)
    assert repr(layer) == "LSTM(None -> 3, NTC, num_layers=2, dropout=0.5, bidirectional)"
    layer.initialize()
    layer(x)
    assert repr(layer).startswith("LSTM(4 -> 3, NTC")
    path = str(tmp_path / "p")
    layer.save_parameters(path)
    assert list(mx.nd.load(path))[:2] == [
        "_unfused.0.l_cell.i2h_weight", "_unfused.0.l_cell.h2h_weight",
    ]  # fmt: skip
    other = rnn.LSTM(3, 2, layout="NTC", bidirectional=True)
    other.load_parameters(path)
    assert_close(other(x), layer(x))
    assert repr(layer._unfuse()).count("BidirectionalCell") == 2
    assert "DropoutCell(rate=0.5, axes=())" in repr(layer._unfuse())


def test_layer_mistakes(x):
    with pytest.raises(AssertionError, match="Invalid layout XX"):
        rnn.RNN(3, layout="XX")
    with pytest.raises(KeyError, match="activation must be relu or tanh"):
        rnn.RNN(3, activation="sigmoid")
    layer = rnn.LSTM(3, layout="NTC")
    layer.initialize()
    layer(x)
    with pytest.raises(ValueError, match=r"Expecting \(1, 2, 3\), got \(1, 7, 3\)"):
        layer(x, layer.begin_state(7))
    assert layer(x).shape == (2, 5, 3)
    with pytest.raises(AssertionError, match="does not support projection"):
        rnn.LSTM(3, projection_size=2)._unfuse()


# ---- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
def test_stepping_and_unrolling_agree(name, x):
    cell = ready(CELLS[name](), x)
    cell.reset()
    states = cell.begin_state(batch_size=2)
    steps = []
    for t in range(5):
        output, states = cell(x[:, t], states)
        steps.append(output)
    merged, last = cell.unroll(5, x, merge_outputs=True)
    assert merged.shape == (2, 5, 4)
    assert_close(merged, mx.nd.stack(*steps, axis=1))
    for a, b in zip(last, states):
        assert_close(a, b)
    listed, _ = cell.unroll(5, x, merge_outputs=False)
    assert isinstance(listed, list)
    assert_close(mx.nd.stack(*listed, axis=1), merged)
    from_list, _ = cell.unroll(5, [x[:, t] for t in range(5)], merge_outputs=True)
    assert_close(from_list, merged)
    turned, _ = cell.unroll(5, x.swapaxes(0, 1), layout="TNC", merge_outputs=True)
    assert_close(turned.swapaxes(0, 1), merged)


@pytest.mark.parametrize("name", [n for n in CELLS if n not in ("dropout", "row")])
def test_hybridized_steps(name, x):
    cell = ready(CELLS[name](), x)
    cell.reset()
    states = cell.begin_state(batch_size=2)
    expected, expected_states = cell(x[:, 0], states)
    cell.hybridize()
    found, found_states = cell(x[:, 0], states)
    assert_close(found, expected)
    assert isinstance(found_states, list)
    for a, b in zip(found_states, expected_states):
        assert_close(a, b)


@pytest.mark.parametrize("name", [*(n for n in CELLS if n != "dropout"), "bidirectional"])
def test_valid_length(name, x):
    make = CELLS.get(name) or (lambda: rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.GRUCell(2)))
    cell = ready(make(), x)
    outputs, states = cell.unroll(5, x, merge_outputs=True, valid_length=mx.nd.array([2, 5]))
    for sample, length in enumerate((2, 5)):
        alone, last = cell.unroll(length, x[sample : sample + 1, :length], merge_outputs=True)
        np.testing.assert_allclose(
            outputs.asnumpy()[sample, :length], alone.asnumpy()[0], rtol=1e-4, atol=1e-5
        )
        assert not outputs.asnumpy()[sample, length:].any()
        for a, b in zip(states, last):
            np.testing.assert_allclose(a.asnumpy()[sample], b.asnumpy()[0], rtol=1e-4, atol=1e-5)


def test_unrolled_inside_a_hybrid_block(x):
    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.cell = rnn.LSTMCell(3)

        def hybrid_forward(self, F, x):
            outputs, states = self.cell.unroll(5, x, merge_outputs=True)
            return outputs, states

    net = Net()
    net.initialize()
    net.hybridize()
    outputs, states = net(x)
    assert outputs.shape == (2, 5, 3)
    assert net.cell.i2h_weight.shape == (12, 4)
    assert_close(outputs[:, 4], states[0])
    assert_close(net(x[:1])[0], outputs[:1])


@pytest.mark.parametrize("length", [1, 3])
def test_both_directions_symbolically(length):
    """Each step of the backward cell is one row of the reversed sequence, a single one too."""
    cell = rnn.BidirectionalCell(
        rnn.RNNCell(3, prefix="l_"), rnn.RNNCell(3, prefix="r_"), output_prefix="bi_"
    )
    data, valid = mx.sym.var("data"), mx.sym.var("valid")
    steps, _ = cell.unroll(length, data, merge_outputs=False)
    assert mx.sym.Group(steps).list_outputs() == [f"bi_t{i}_output" for i in range(length)]
    merged, _ = cell.unroll(length, data, merge_outputs=True, valid_length=valid)
    _, shapes, _ = merged.infer_shape(data=(4, length, 2), valid=(4,))
    assert shapes == [(4, length, 6)]


def test_zoneout_drops_while_training_only(x):
    mx.random.seed(2)
    cell = ready(rnn.ZoneoutCell(rnn.RNNCell(4), zoneout_outputs=0.5), x)
    plain, _ = cell.unroll(5, x, merge_outputs=True)
    with mx.autograd.train_mode():
        trained, _ = cell.unroll(5, x, merge_outputs=True)
    assert (trained.asnumpy() != plain.asnumpy()).any()


def test_cell_reprs():
    assert repr(rnn.RNNCell(3)) == "RNNCell(None -> 3, tanh)"
    assert repr(rnn.LSTMCell(3, input_size=4)) == "LSTMCell(4 -> 12)"
    assert repr(rnn.DropoutCell(0.5)) == "DropoutCell(rate=0.5, axes=())"
    assert repr(rnn.ResidualCell(rnn.GRUCell(4))) == "ResidualCell(GRUCell(None -> 12))"
    assert repr(rnn.ZoneoutCell(rnn.RNNCell(3), 0.2)) == (
        "ZoneoutCell(p_out=0.2, p_state=0.0, RNNCell(None -> 3, tanh))"
    )
    assert repr(row(rnn.SequentialRNNCell)) == (
        "SequentialRNNCell(\n(0): LSTMCell(None -> 12)\n(1): DropoutCell(rate=0.3, axes=())\n"
        "(2): GRUCell(None -> 12)\n)"
    )


def test_cell_mistakes(x):
    both = rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3))
    with pytest.raises(NotImplementedError, match="Bidirectional cannot be stepped"):
        both(x[:, 0], [])
    with pytest.raises(AssertionError, match="doesn't support zoneout"):
        rnn.ZoneoutCell(both)
    modified = rnn.ResidualCell(rnn.RNNCell(4))
    with pytest.raises(AssertionError, match="the base cell cannot be called"):
        modified.base_cell.begin_state(2)
    with pytest.raises(AssertionError, match="One cell cannot be modified twice"):
        rnn.ResidualCell(modified.base_cell)
    assert modified.begin_state(2)[0].shape == (2, 4)
    cell = rnn.RNNCell(3)
    cell.initialize()
    with pytest.raises(AssertionError, match="unroll needs 3 steps, the data has 5"):
        cell.unroll(3, x)
    with pytest.raises(AssertionError, match="unroll needs 3 steps, got 2"):
        cell.unroll(3, [x[:, 0], x[:, 1]])


def test_states_by_a_function_of_ones_own():
    made = []
    cell = rnn.LSTMCell(3, prefix="c_")
    cell.begin_state(2, func=lambda **info: made.append(info))
    assert made == [
        {"name": "c_begin_state_0", "shape": (2, 3), "__layout__": "NC"},
        {"name": "c_begin_state_1", "shape": (2, 3), "__layout__": "NC"},
    ]


@pytest.mark.parametrize("is_hybrid", [False, True])
@pytest.mark.parametrize("kind", sorted(LAYERS))
def test_tools_take_a_layer_without_states(kind, is_hybrid, tmp_path):
    layer, x = LAYERS[kind][0](3, 1), mx.nd.ones((5, 2, 4))
    layer.initialize()
    if is_hybrid:
        layer.hybridize()
    assert layer(x).shape == (5, 2, 3)
    assert layer.verify(x).agrees
    assert ", 5 calls" in str(mx.profiling.profile(layer, x, seconds=0.01))
    file = layer.export_onnx(str(tmp_path / "layer.onnx"), x)
    begin = layer.begin_state(batch_size=2)
    loaded = mx.load(file)(x, *begin)
    np.testing.assert_allclose(loaded.asnumpy(), layer(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_modules_have_mxnets_names():
    assert rnn.rnn_cell.LSTMCell is rnn.LSTMCell
    assert rnn.rnn_layer.LSTM is rnn.LSTM


@pytest.mark.parametrize("kind", [rnn.SequentialRNNCell, rnn.HybridSequentialRNNCell])
def test_cells_of_a_row_are_read_like_those_of_a_list(kind):
    cells = row(kind)
    assert [type(cell).__name__ for cell in cells] == ["LSTMCell", "DropoutCell", "GRUCell"]
    assert cells[-1] is cells[2]
    assert len(cells[:2]) == 2


# ---- NumPy mode ---------------------------------------------------------------------------------


@pytest.fixture
def numpy_mode():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


class AfterTanh(gluon.HybridBlock):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def hybrid_forward(self, F, x):
        return self.layer(F.np.tanh(x))


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: rnn.RNN(3),
        lambda: rnn.GRU(3, layout="NTC"),
        lambda: rnn.LSTM(3, 2, bidirectional=True),
    ],
    ids=["rnn", "gru", "lstm"],
)
def test_hybridized_layers_of_numpy_mode_take_sizes_from_the_input(
    make, is_inside, numpy_mode, tmp_path
):
    net = AfterTanh(make()) if is_inside else make()
    net.initialize()
    net.hybridize()
    x = mx.np.array(gluon_nets.values("x_rnn", (2, 5, 4)))
    hybridized = net(x).asnumpy()
    if is_inside:
        net.export(str(tmp_path / "net"))
        again = gluon.SymbolBlock.imports(
            str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
        )
        np.testing.assert_array_equal(again(x).asnumpy(), hybridized)
        assert again(mx.np.ones((3, 7, 4))).shape[:2] == (3, 7)
    net.hybridize(False)
    np.testing.assert_allclose(net(x).asnumpy(), hybridized, rtol=1e-5, atol=1e-6)
