"""``hybridize(precision="int8")``: calibration, tables, and the results of quantized networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from compiling import OF_BYTES
from hybridjit import autograd, gluon, nd, profiling
from hybridjit._core.config import override
from hybridjit.cli import main
from hybridjit.errors import ModelFormatError, ShapeError
from hybridjit.gluon import calibration, nn


def convolutional() -> nn.HybridSequential:
    """A residual network with batch norm, two convolutions and a dense layer; seeded."""
    mx.random.seed(3)
    net = Residual(prefix="net_")
    net.initialize(mx.init.Xavier())
    with autograd.train_mode():
        net(batch(16))
    net.hybridize()
    return net


class Residual(gluon.HybridBlock):
    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = nn.Conv2D(16, 3, padding=1, in_channels=3, prefix="first_")
            self.norm = nn.BatchNorm(in_channels=16, prefix="norm_")
            self.second = nn.Conv2D(16, 3, padding=1, in_channels=16, prefix="second_")
            self.last = nn.Dense(10, in_units=16, prefix="last_")

    def hybrid_forward(self, F, x):
        y = F.relu(self.norm(self.first(x)))
        y = F.relu(self.second(y) + y)
        return self.last(F.Pooling(y, global_pool=True, pool_type="avg"))


DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
LAYERS = {"net_first_fwd", "net_second_fwd", "net_last_fwd"}


def batch(count: int, seed: int = 0) -> mx.nd.NDArray:
    values = np.random.default_rng(seed).standard_normal((count, 3, 12, 12))
    return nd.array(values.astype(np.float32))


def test_results_are_near_those_of_float32():
    net, x = convolutional(), batch(8, 1)
    wanted = net(x).asnumpy()
    net.hybridize(precision="int8", calibration=[batch(32)])
    found = net(x).asnumpy()
    assert 0 < np.abs(found - wanted).max() < 0.05 * wanted.std()
    assert net.verify(x).agrees


def test_layers_multiply_bytes(capfd):
    net, x = convolutional(), batch(2)
    net.hybridize(precision="int8", calibration=x)
    with override(dump=("fuse", "plan")):
        net(x)
    dumped = capfd.readouterr().err
    assert "net_first_fwd:sums   epilogue" in dumped  # the step's name: norm is folded into it
    assert dumped.count("_integer_convolution(") == 2 and dumped.count("_integer_dense(") == 1
    assert " Convolution(" not in dumped and " FullyConnected(" not in dumped


def test_profile_and_view_measure_the_products_of_bytes(tmp_path):
    net, x = convolutional(), batch(2)
    net.hybridize(precision="int8", calibration=x)
    steps = str(profiling.profile(net, x, seconds=0.05))
    assert "net_first_fwd:sums" in steps and "net_last_fwd:sums" in steps
    mx.view(net, x, path=tmp_path / "net.html")
    assert "_integer_dense" in (tmp_path / "net.html").read_text()


def test_the_bits_are_those_of_any_target_batch_and_number_of_threads():
    net, x = convolutional(), batch(5, 2)
    table = calibration.calibrate(net, [batch(16)])
    results = []
    for target in OF_BYTES:
        with override(target=target):
            net.hybridize(precision="int8", calibration=table, dynamic=False)
            whole = net(x).asnumpy()
            results += [whole, np.concatenate([net(x[i : i + 1]).asnumpy() for i in range(5)])]
    sums = {result[:, :].round(4).tobytes() for result in results}
    assert len(sums) == 1


def test_weights_that_change_take_effect():
    net, x = convolutional(), batch(3)
    net.hybridize(precision="int8", calibration=[x])
    before = net(x).asnumpy()
    net.last.weight.set_data(net.last.weight.data() * 2)
    net.last.bias.set_data(net.last.bias.data() * 2)
    np.testing.assert_allclose(net(x).asnumpy(), 2 * before, rtol=1e-5, atol=1e-6)


def test_a_table_stands_for_batches(tmp_path):
    net, x = convolutional(), batch(4)
    net.hybridize(precision="int8", calibration=[x])
    wanted = net(x).asnumpy()
    table = calibration.calibrate(net, [x])
    assert set(table) == LAYERS
    calibration.write_ranges(tmp_path / "table.json", table)
    for given in (table, tmp_path / "table.json", str(tmp_path / "table.json")):
        net.hybridize(precision="int8", calibration=given)
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)


def test_ranges_cover_all_batches():
    net = convolutional()
    small, large = batch(4), 3 * batch(4, 1)
    table = calibration.calibrate(net, [small, large])
    low, high = table["net_first_fwd"]
    assert low == float(large.min().asscalar()) and high == float(large.max().asscalar())
    assert table["net_second_fwd"][0] == 0.0


@pytest.mark.parametrize(
    "batches",
    [
        lambda x: x,
        lambda x: x.asnumpy(),
        lambda x: [[x, nd.zeros((4,))]],
        lambda x: gluon.data.DataLoader(gluon.data.ArrayDataset(x, nd.zeros((4,))), 2),
        lambda x: mx.io.NDArrayIter(x, nd.zeros((4,)), 2),
    ],
)
def test_any_source_of_batches_serves(batches):
    net, x = convolutional(), batch(4)
    wanted = calibration.calibrate(net, [x])
    found = calibration.ranges_for(net, batches(x))
    assert {n: np.allclose(found[n], wanted[n], rtol=1e-5) for n in wanted} == dict.fromkeys(
        LAYERS, True
    )


class Sum(gluon.HybridBlock):
    """A dense layer on the sum of any number of arrays."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.layer = nn.Dense(2, in_units=3, prefix="layer_")

    def hybrid_forward(self, F, *arrays):
        return self.layer(F.add_n(*arrays))


class Joined(gluon.HybridBlock):
    """An input beside the result of two dense layers."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.first = nn.Dense(4, in_units=3, prefix="first_")
        self.second = nn.Dense(4, in_units=4, prefix="second_")

    def hybrid_forward(self, F, x, y):
        return F.concat(x, self.second(self.first(y)), dim=1)


def test_an_input_is_joined_with_quantized_values():
    net = Joined(prefix="joined_")
    net.initialize()
    x, y = nd.random.normal(shape=(2, 2)), nd.random.normal(shape=(2, 3))
    wanted = net(x, y).asnumpy()
    net.hybridize(precision="int8", calibration=[[x, y]])
    np.testing.assert_allclose(net(x, y).asnumpy(), wanted, atol=0.05 * np.abs(wanted).max())


def test_all_arrays_of_a_batch_are_inputs_of_a_block_with_args():
    net = Sum(prefix="sum_")
    net.initialize()
    table = calibration.calibrate(net, [[nd.ones((2, 3)), 2 * nd.ones((2, 3)), nd.ones((2, 3))]])
    assert table == {"layer_fwd": (4.0, 4.0)}


class Called(gluon.HybridBlock):
    """A layer of 4 units, called as a function says."""

    def __init__(self, function, layer=None):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.layer = layer or nn.Dense(4, in_units=4, prefix="fc_")
        self.function = function
        self.initialize(mx.init.Xavier())

    def hybrid_forward(self, F, *args):
        return self.function(F, self.layer, *args)


def require_near(net, *args):
    """Require that the network's results in 8 bits, calibrated on ``args``, are near float32's."""
    wanted = net(*args).asnumpy()
    net.hybridize(precision="int8", calibration=[args])
    found = net(*args).asnumpy()
    assert 0 < np.abs(found - wanted).max() < 0.05 * wanted.std()


def rows(seed: int) -> mx.nd.NDArray:
    return nd.array(np.random.default_rng(seed).standard_normal((3, 4)))


def test_a_layer_that_is_called_twice_has_the_range_of_both_data():
    mx.random.seed(3)
    net, x = Called(lambda F, layer, x: layer(F.tanh(layer(5 * x)))), rows(1)
    require_near(net, x)
    ((low, high),) = calibration.calibrate(net, x).values()
    assert low == pytest.approx(5 * x.min().asscalar())
    assert high == pytest.approx(5 * x.max().asscalar())
    net.hybridize(precision="int8", calibration=x, exclude=["net_fc_fwd"])
    table = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_array_equal(table, net(x).asnumpy())


def test_shapes_that_follow_from_operators_behind_a_layer():
    """The batch of a recurrent cell's initial states follows from sums behind its layers."""
    mx.random.seed(3)
    x = nd.array(np.random.default_rng(1).standard_normal((3, 4, 5)))
    net = Called(
        lambda F, cell, x: cell.unroll(4, x, layout="NTC", merge_outputs=True)[0],
        gluon.rnn.LSTMCell(6, input_size=5),
    )
    require_near(net, x)


def test_inputs_may_be_lists_of_arrays():
    net = Called(lambda F, layer, x, states: layer(x) + states[0] * states[1])
    require_near(net, rows(1), [rows(2), rows(3)])


def test_excluded_layers_stay_in_float32(capfd):
    net, x = convolutional(), batch(2)
    net.hybridize(precision="int8", calibration=x, exclude=["net_first_fwd"])
    with override(dump=("fuse",)):
        net(x)
    dumped = capfd.readouterr().err
    assert dumped.count("_integer_convolution(") == 1 and dumped.count(" Convolution(") == 1


class Grouped(gluon.HybridBlock):
    """A convolution of one channel, and one with two filters for each channel."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.first = nn.Conv2D(4, 5, in_channels=1, prefix="first_")
        self.second = nn.Conv2D(8, 3, groups=4, in_channels=4, prefix="second_")

    def hybrid_forward(self, F, x):
        return self.second(self.first(x))


def test_one_channel_is_multiplied_in_bytes_and_groups_of_one_are_listed(capfd):
    net = Grouped(prefix="grouped_")
    net.initialize()
    x = nd.random.normal(shape=(2, 1, 12, 12))
    net.hybridize(precision="int8", calibration=x)
    with override(dump=("fuse",), explain=True):
        net(x)
    said = capfd.readouterr().err
    listed = [line for line in said.splitlines() if line.startswith("in floating point")]
    assert [line.split("'")[1] for line in listed] == ["second_fwd"]
    assert "groups of 1 channel" in listed[0]
    assert said.count("_integer_convolution(") == 1 and said.count(" Convolution(") == 1


@pytest.mark.parametrize("channels, taps", [(2, 3), (3, 1), (3, 5), (1, 3), (4, 1)])
def test_groups_of_few_channels_are_added_exactly_in_float32(channels, taps, capfd):
    """Floats of the bytes themselves: the bits are those of integers, on every CPU."""
    net = nn.HybridSequential(prefix="net_")
    shape = {"groups": 4, "in_channels": 4 * channels, "padding": taps // 2}
    net.add(nn.Conv2D(8 * channels, taps, **shape, prefix="net_few_"))
    net.initialize(mx.init.Xavier(magnitude=4))
    x = nd.array(np.random.default_rng(channels).standard_normal((2, 4 * channels, 9, 9)))
    table = calibration.calibrate(net, [x])
    net.hybridize(precision="int8", calibration=table, dynamic=False)
    weight = net[0].weight.data().asnumpy()
    results = [_by_integers(x.asnumpy(), weight, table["net_few_fwd"], taps // 2)]
    for target in OF_BYTES:
        with override(target=target, dump=("fuse",), explain=True):
            net.hybridize(precision="int8", calibration=table, dynamic=False)
            results.append(net(x).asnumpy())
        said = capfd.readouterr().err
        assert f"groups of {channels} channel" in said and "_integer_convolution(" not in said
    for found in results[2:]:
        np.testing.assert_array_equal(found, results[1])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def _by_integers(x: np.ndarray, weight: np.ndarray, ends: tuple[float, float], pad: int):
    """A convolution of four groups of bytes, with sums of int64."""
    scale, factors = max(-ends[0], ends[1]) / 127, np.abs(weight).max((1, 2, 3)) / 127
    padded = np.pad(np.rint(x / scale).clip(-128, 127), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    filters = np.rint(weight / factors[:, None, None, None]).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(
        padded.astype(np.int64), weight.shape[2:], axis=(2, 3)
    )
    parts = zip(np.split(windows, 4, axis=1), np.split(filters, 4))
    sums = np.concatenate([np.einsum("nchwij,fcij->nfhw", a, b) for a, b in parts], axis=1)
    return sums * (scale * factors)[:, None, None]


def test_sizes_may_vary():
    net = convolutional()
    net.hybridize(precision="int8", calibration=batch(8))
    table = calibration.calibrate(net, [batch(8)])
    for size in (9, 12, 17, 20):
        x = nd.array(np.random.default_rng(size).standard_normal((2, 3, size, size)))
        varying = net(x).asnumpy()
        fixed = convolutional()
        fixed.hybridize(precision="int8", calibration=table, dynamic=False)
        np.testing.assert_array_equal(varying, fixed(x).asnumpy())


class Attention(gluon.HybridBlock):
    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            for name in ("query", "key", "value"):
                setattr(self, name, nn.Dense(16, flatten=False, in_units=16, prefix=f"{name}_"))

    def hybrid_forward(self, F, x):
        scores = F.batch_dot(self.query(x), self.key(x), transpose_b=True, name="scores")
        return F.linalg.gemm2(F.softmax(scores / 4), self.value(x), name="mixed")


MATRICES = {"net_scores", "net_scores:rhs", "net_mixed", "net_mixed:rhs"}


def attending() -> tuple[Attention, mx.nd.NDArray]:
    mx.random.seed(5)
    net = Attention(prefix="net_")
    net.initialize(mx.init.Xavier(magnitude=6))
    return net, nd.array(np.random.default_rng(4).standard_normal((3, 20, 16)))


def test_products_of_computed_matrices_multiply_bytes(capfd):
    """Both operands have a range; without it, as in older tables, or by name, they stay floats."""
    net, x = attending()
    wanted = net(x).asnumpy()
    table = calibration.calibrate(net, [x])
    assert set(table) == MATRICES | {f"net_{name}_fwd" for name in ("query", "key", "value")}
    older = {name: ends for name, ends in table.items() if name not in MATRICES}
    half = {name: ends for name, ends in table.items() if name != "net_mixed:rhs"}
    cases = [(table, [], 2), (older, [], 0), (half, [], 1), (table, ["net_scores"], 1)]
    for ranges, exclude, count in cases:
        net.hybridize(precision="int8", calibration=ranges, exclude=exclude)
        with override(dump=("fuse",), explain=True):
            found = net(x).asnumpy()
        said = capfd.readouterr().err
        assert said.count("_integer_batch_dot(") == count
        assert said.count("in floating point:") == 2 - count
        assert 0 < np.abs(found - wanted).max() < 0.2 * wanted.std()
    net.hybridize(precision="int8", calibration=table)
    found = net(x).asnumpy()
    for size in (20, 7):
        one = np.concatenate([net(x[i : i + 1, :size]).asnumpy() for i in range(3)])
        np.testing.assert_array_equal(one, net(x[:, :size]).asnumpy())
    np.testing.assert_array_equal(net(x).asnumpy(), found)


def test_products_of_computed_matrices_are_written_as_bytes(tmp_path):
    net, x = attending()
    table = calibration.calibrate(net, [x])
    net.hybridize()
    net(x)
    net.export(str(tmp_path / "net"))
    calibration.write_ranges(tmp_path / "table.json", table)
    np.save(tmp_path / "x.npy", x.asnumpy())
    out = str(tmp_path / "small")
    given = ["--calibration", str(tmp_path / "x.npy"), "--out", out, "--onnx"]
    assert main(["quantize", str(tmp_path / "net"), *given]) == 0
    net.hybridize(precision="int8", calibration=table)
    again = mx.onnx.load(f"{out}.onnx")
    np.testing.assert_allclose(again(x).asnumpy(), net(x).asnumpy(), rtol=1e-4, atol=1e-5)


def test_a_range_of_zero_is_a_range():
    net, x = convolutional(), nd.zeros((2, 3, 12, 12))
    wanted = net(x).asnumpy()
    net.hybridize(precision="int8", calibration=x)
    np.testing.assert_allclose(net(x).asnumpy(), wanted, atol=0.05)


@pytest.mark.parametrize(
    "given, error, says",
    [
        (None, mx.MXNetError, "needs calibration="),
        ([], mx.MXNetError, "has no batch"),
        ([nd.array(np.full((2, 3, 12, 12), np.nan))], mx.MXNetError, "not finite"),
        ([nd.zeros((2, 5, 12, 12))], ValueError, "net_first"),
        ([nd.zeros((2, 3, 12, 12)), nd.zeros((2, 5, 12, 12))], ShapeError, "net_first"),
        ({"net_first_fwd": (1.0, -1.0)}, ModelFormatError, "from 1.0 down to -1.0"),
        ({"net_first_fwd": 3}, ModelFormatError, "not two numbers"),
        ({"net_first_fwd": (0.0, 1e300)}, ModelFormatError, "not two numbers of float32"),
        ({"net_first_fwd": (0, 10**400)}, ModelFormatError, "not two numbers of float32"),
        (3, ValueError, "typical inputs or a table of ranges, got 3"),
    ],
)
def test_a_bad_calibration_is_refused_and_the_network_stays(given, error, says):
    net, x = convolutional(), batch(2)
    wanted = net(x).asnumpy()
    with pytest.raises(error, match=says):
        net.hybridize(precision="int8", calibration=given)
    np.testing.assert_array_equal(net(x).asnumpy(), wanted)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda table: table.pop("net_last_fwd"), "no range for layer 'net_last_fwd'"),
        (lambda table: table.update(other=(0.0, 1.0)), "'other', which is not a layer"),
    ],
)
def test_a_table_of_another_network_is_refused(change, says):
    net, x = convolutional(), batch(2)
    table = calibration.calibrate(net, [x])
    change(table)
    net.hybridize(precision="int8", calibration=table)
    with pytest.raises(mx.MXNetError, match=says):
        net(x)


def test_an_unknown_layer_to_exclude_is_refused():
    net, x = convolutional(), batch(2)
    net.hybridize(precision="int8", calibration=x, exclude=["net_frist_fwd"])
    with pytest.raises(mx.MXNetError, match="net_first_fwd"):
        net(x)


@pytest.mark.parametrize("given", ["net_first_fwd", [3], 3])
def test_layers_to_exclude_are_a_list_of_names(given):
    with pytest.raises(ValueError, match="a list of names of layers, got"):
        convolutional().hybridize(precision="int8", calibration=batch(2), exclude=given)


@pytest.mark.parametrize("largest", [1e-44, 1e-38])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_range_below_normal_numbers_is_a_range(largest, sign):
    net, x = convolutional(), nd.full((2, 3, 12, 12), sign * largest)
    wanted = net(x).asnumpy()
    net.hybridize(precision="int8", calibration=x)
    np.testing.assert_allclose(net(x).asnumpy(), wanted, atol=0.05)


def test_ends_of_a_range_may_be_numbers_of_numpy():
    net, x = convolutional(), batch(2)
    table = calibration.calibrate(net, [x])
    results = []
    for kind in (float, np.float64, np.float32):
        ranges = {name: tuple(map(kind, ends)) for name, ends in table.items()}
        net.hybridize(precision="int8", calibration=ranges)
        results.append(net(x).asnumpy())
    np.testing.assert_array_equal(results, results[:1] * 3)


@pytest.mark.parametrize("element", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(element):
    net, x = nn.Dense(3, in_units=2), nd.array([[1, 2], [3, 4]])
    net.initialize()
    net.hybridize(precision="int8", calibration=x)
    wanted, kept = net(x).asnumpy(), net.weight.data().copy()
    net.weight.data()[1, 0] = element
    with pytest.raises(mx.MXNetError, match=rf"parameter {net.weight.name}: .*filter 1 "):
        net(x)
    net.weight.set_data(kept)
    np.testing.assert_array_equal(net(x).asnumpy(), wanted)


@pytest.mark.parametrize("text", ['{"format": "other"}', "[]", "{", json.dumps({"ranges": {}})])
def test_a_file_without_a_table_is_refused(tmp_path, text):
    file = tmp_path / "table.json"
    file.write_text(text)
    with pytest.raises(ModelFormatError, match=r"table\.json"):
        convolutional().hybridize(precision="int8", calibration=file)


def test_a_quantized_network_is_not_trained():
    net, x = convolutional(), batch(2)
    net.hybridize(precision="int8", calibration=x)
    with autograd.record(), pytest.raises(mx.MXNetError, match="is not trained"):
        net(x)


def test_calibration_needs_the_precision():
    with pytest.raises(ValueError, match="precision"):
        convolutional().hybridize(calibration=batch(2))


def test_digits_are_labelled_as_in_float32():
    """MXNet 1.9.1 in 8 bits labels 98.33 % of these pictures rightly, all as in float32."""
    with np.load(DIGITS / "digits-test.npz") as file:
        pictures, labels = file["images"], file["labels"]
    enlarged = np.kron(pictures / np.float32(16), np.ones((1, 3, 3), np.float32))
    x = nd.array(np.pad(enlarged, ((0, 0), (2, 2), (2, 2)))[:, None])
    net = mx.load(str(DIGITS / "digits"))
    wanted = net(x).asnumpy()
    net.hybridize(precision="int8", calibration=x[:64])
    found = net(x).asnumpy()
    assert (found.argmax(1) == wanted.argmax(1)).mean() >= 0.995
    assert (found.argmax(1) == labels).mean() >= 0.98
    assert np.sqrt(np.mean((found - wanted) ** 2)) <= 0.015 * wanted.std()


def test_export_writes_the_network_in_float32(tmp_path):
    net, x = convolutional(), batch(2)
    wanted = net(x).asnumpy()
    net.hybridize(precision="int8", calibration=x)
    net(x)
    net.export(str(tmp_path / "net"))
    again = mx.load(str(tmp_path / "net"))
    np.testing.assert_allclose(again(x).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
