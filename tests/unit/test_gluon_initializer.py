"""Initialisers: their values, creation by name, and string form."""

import json

import numpy as np
import pytest

import hybridjit as mx
from hybridjit.initializer import InitDesc

init = mx.init


def filled(initializer, shape=(2, 3), name="a_weight"):
    array = mx.nd.full(shape, 7)
    initializer(InitDesc(name), array)
    return array.asnumpy()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: init.Zero(), '["zero", {}]'),
        (lambda: init.Constant(3), '["constant", {"value": 3}]'),
        (lambda: init.Constant(mx.nd.ones((2,))), '["constant", {"value": [1.0, 1.0]}]'),
        (lambda: init.Uniform(), '["uniform", {"scale": 0.07}]'),
        (lambda: init.Normal(0.2), '["normal", {"sigma": 0.2}]'),
        (
            lambda: init.Xavier(),
            '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]',
        ),
        (lambda: init.MSRAPrelu(), '["msraprelu", {"factor_type": "avg", "slope": 0.25}]'),
        (lambda: init.LSTMBias(), '["lstmbias", {"forget_bias": 1.0}]'),
        (lambda: init.Bilinear(), '["bilinear", {}]'),
        (lambda: init.Constant(np.array([[1, 2]])), '["constant", {"value": [[1, 2]]}]'),
        (lambda: init.Normal(np.float32(0.5)), '["normal", {"sigma": 0.5}]'),
    ],
)
def test_text_form(make, text):
    made = make()
    assert made.dumps() == text
    again = init.create(text)
    assert type(again) is type(made)
    assert again.dumps() == text


def test_the_text_of_arrays_is_kept_as_the_arguments():
    made = init.Constant(mx.nd.array([1, 2.5]))
    assert made.dumps() == json.dumps(["constant", made._kwargs])
    assert init.create(made.dumps()) == made
    assert mx.sym.var("x", init=made).attr("__init__") == made.dumps()
    assert (filled(made, (2,)) == [1, 2.5]).all()


def test_initializers_are_created_by_name():
    assert isinstance(init.create("zeros"), init.Zero)
    assert isinstance(init.create("Xavier"), init.Xavier)
    assert init.create("constant", value=2).value == 2
    assert init.create(made := init.One()) is made
    with pytest.raises(AssertionError, match="nope is not registered"):
        init.create("nope")
    with pytest.raises(AssertionError, match="initializer must be"):
        init.create(3)


def test_equality_is_by_class_and_arguments():
    assert init.Constant(3) == init.Constant(3)
    assert init.Constant(3) != init.Constant(4)
    assert init.Zero() != init.One()


@pytest.mark.parametrize(
    ("name", "value"),
    [("a_bias", 0), ("a_gamma", 1), ("a_beta", 0), ("a_running_mean", 0), ("a_moving_var", 1)],
)
def test_by_suffix(name, value):
    assert (filled(init.Normal(), name=name) == value).all()


def test_unknown_names_and_types():
    with pytest.raises(ValueError, match="Unknown initialization pattern for weird"):
        filled(init.Normal(), name="weird")
    with pytest.raises(TypeError, match="name must be string"):
        init.Zero()(3, mx.nd.ones((1,)))
    with pytest.raises(NotImplementedError):
        filled(init.Initializer())


def test_the_variables_own_initialiser_wins():
    array = mx.nd.zeros((2,))
    init.Zero()(InitDesc("x_bias", {"__init__": init.One().dumps()}), array)
    assert array.asnumpy().tolist() == [1, 1]


def test_random_ranges():
    mx.random.seed(3)
    uniform = filled(init.Uniform(0.5), (100, 100))
    assert 0.45 < abs(uniform).max() <= 0.5
    assert abs(filled(init.Normal(2), (100, 100)).std() - 2) < 0.1
    # fan_in 600, fan_out 900: sqrt(3 / 750) and sqrt(2 / (1 + slope^2) / 750)
    xavier = filled(init.Xavier(), (300, 200, 3))
    assert abs(abs(xavier).max() - np.sqrt(3 / 750)) < 1e-4
    msra = filled(init.MSRAPrelu(), (300, 200, 3))
    assert abs(msra.std() - np.sqrt(2 / (1 + 0.0625) / 750)) < 1e-3
    inputs = filled(init.Xavier("gaussian", "in", 2), (300, 200, 3))
    assert abs(inputs.std() - np.sqrt(2 / 600)) < 1e-3


def test_seed_repeats():
    mx.random.seed(7)
    first = filled(init.Uniform())
    mx.random.seed(7)
    np.testing.assert_array_equal(first, filled(init.Uniform()))


def test_xavier_errors():
    with pytest.raises(ValueError, match="cannot be applied to vector"):
        filled(init.Xavier(), (3,))
    with pytest.raises(ValueError, match="Unknown random type"):
        filled(init.Xavier("cauchy"))
    with pytest.raises(ValueError, match="Incorrect factor type"):
        filled(init.Xavier("uniform", "max"))


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (4, 2, 2)])
def test_orthogonal_matrices_are_orthogonal(shape):
    matrix = filled(init.Orthogonal(), shape).reshape(shape[0], -1)
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 1.414**2 * np.eye(len(gram)), atol=1e-5)


def test_bilinear_kernels_are_tents():
    kernel = filled(init.Bilinear(), (2, 1, 4, 4))
    tent = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(kernel[1, 0], np.outer(tent, tent))


def test_lstm_bias():
    assert filled(init.LSTMBias(), (8,)).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(("mode", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_fused_rnn(mode, gates, directions):
    hidden, layers, inputs = 2, 2, 3
    widths = [inputs + hidden, directions * hidden + hidden]
    weights = sum(directions * gates * hidden * w for w in widths)
    biases = 2 * directions * layers * gates * hidden
    made = init.FusedRNN("ones", hidden, layers, mode, directions == 2, forget_bias=5.0)
    packed = filled(made, (weights + biases,))
    assert (packed[:weights] == 1).all()
    one = [0, 0, 5, 5, 0, 0, 0, 0] if mode == "lstm" else [0] * gates * hidden
    assert packed[weights:].tolist() == one * 2 * directions * layers


# Standard deviations by MXNet 1.9.1, of the weights of 64 inputs and of 64 hidden units: each gate
# is filled as a matrix (hidden, inputs).
@pytest.mark.parametrize(("mode", "gates"), [("lstm", 4), ("gru", 3), ("rnn_relu", 1)])
@pytest.mark.parametrize(
    ("made", "deviation"),
    [(init.Xavier(), 0.125), (init.Orthogonal(), 0.17675), (init.MSRAPrelu(), 0.1715)],
)
def test_a_fused_rnn_is_filled_gate_by_gate(mode, gates, made, deviation):
    hidden = inputs = 64
    weights = gates * hidden * (inputs + hidden)
    fused = init.FusedRNN(made, hidden, 1, mode)
    packed = filled(fused, (weights + 2 * gates * hidden,))
    assert np.std(packed[:weights]) == pytest.approx(deviation, rel=0.03)


class Noting(init.Initializer):
    """Records its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, tuple[int, ...]] = {}

    def _init_weight(self, name, array) -> None:
        self.seen[str(name)] = array.shape
        array[:] = 3

    _init_bias = _init_weight


def test_a_fused_rnn_calls_its_initializer_with_the_names_of_gates():
    noting = Noting()
    fused = init.FusedRNN(None, 2, 2, "lstm", bidirectional=True, forget_bias=5.0)
    packed = mx.nd.zeros((2 * 8 * (3 + 2) + 2 * 8 * (4 + 2) + 2 * 2 * 16,))
    fused._init_weight(init.InitDesc("lstm_parameters", global_init=noting), packed)
    assert noting.seen["l0_i2h_i_weight"] == noting.seen["r0_i2h_o_weight"] == (2, 3)
    assert noting.seen["l1_i2h_c_weight"] == (2, 4)
    assert noting.seen["r1_h2h_c_bias"] == (2,)
    assert "l0_i2h_f_bias" not in noting.seen
    assert len(noting.seen) == 2 * 2 * (8 + 8 - 2)
    assert sorted(set(packed.asnumpy().tolist())) == [3, 5]


def test_plain_strings_have_rules_by_their_beginnings():
    tent = np.array([0.25, 0.75, 0.75, 0.25])
    array = mx.nd.zeros((2, 1, 4, 4))
    init.Xavier()("upsampling8_weight", array)
    np.testing.assert_allclose(array[1, 0].asnumpy(), np.outer(tent, tent))
    init.Zero()(init.InitDesc("upsampling8_weight"), array)
    assert not array.asnumpy().any()
    weight, bias = mx.nd.ones((6, 3)), mx.nd.zeros((6,))
    init.One()("stn_loc_weight", weight)
    init.One()("stn_loc_bias", bias)
    assert not weight.asnumpy().any()
    assert bias.asnumpy().tolist() == [1, 0, 0, 0, 1, 0]
    init.One()(init.InitDesc("stn_loc_bias"), bias)
    assert not bias.asnumpy().any()
    with pytest.raises(AssertionError, match="6 elements, got 5"):
        init.One()("stn_loc_bias", mx.nd.zeros((5,)))


def test_quantized_parameters():
    array = mx.nd.ones((3,))
    init.Xavier()(init.InitDesc("a_bias_quantize"), array)
    assert not array.asnumpy().any()
    init.Xavier()(init.InitDesc("a_weight_quantize"), array)
    assert len(set(array.asnumpy().tolist())) == 1
    assert -127 <= array.asnumpy()[0] < 127


def test_load_and_mixed():
    array = mx.nd.full((2, 2), 5)
    load = init.Load({"arg:a_weight": mx.nd.ones((2, 2))}, default_init=init.Zero())
    load("a_weight", array)
    assert array.asnumpy().sum() == 4
    load("b_weight", array)
    assert array.asnumpy().sum() == 0
    with pytest.raises(AssertionError, match=r"target \(3,\) vs loaded \(2, 2\)"):
        load("a_weight", mx.nd.ones((3,)))
    with pytest.raises(AssertionError, match="Not found in loaded param"):
        init.Load({})("zz", array)
    mixed = init.Mixed([".*bias", ".*"], [init.Zero(), init.One()])
    mixed("x_weight", array)
    assert array.asnumpy().sum() == 4
    with pytest.raises(ValueError, match="xx did not match any pattern"):
        init.Mixed([".*bias"], [init.Zero()])("xx", array)


def test_own_initialisers():
    @init.alias("another_name")
    @init.register
    class Seven(init.Initializer):
        def _init_weight(self, name, arr):
            arr[:] = 7

    net = mx.gluon.nn.Dense(2, in_units=2, weight_initializer="seven")
    net.initialize("another_name")
    assert net.weight.data().asnumpy().sum() == 28
    assert net.bias.data().asnumpy().sum() == 0
    with pytest.warns(UserWarning, match="is overriding existing initializer"):
        init.register(type("Seven", (init.Initializer,), {}))


def test_the_default_serves_every_parameter_without_its_own():
    net = mx.gluon.nn.Dense(2, in_units=2, bias_initializer=None)
    net.initialize(init.Constant(3))
    assert net.bias.data().asnumpy().tolist() == [3, 3]
    with pytest.raises(ValueError, match="cannot be applied to vector"):
        net.initialize("xavier", force_reinit=True)


def test_bilinear_kernels_have_four_axes():
    with pytest.raises(IndexError, match=r"up_weight: .* has 4 axes .* got the shape \(3, 4\)"):
        mx.init.Bilinear()(mx.init.InitDesc("up_weight"), mx.nd.zeros((3, 4)))
