"""Products of bfloat16: values stored in 16 bits, results, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit import gluon, nd
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit._core.types import BFLOAT16
from hybridjit.cli import main
from hybridjit.contrib import amp
from hybridjit.errors import MXNetError
from hybridjit.gluon import nn, rnn
from hybridjit.gluon.precision import DEFAULT
from hybridjit.ops.bfloat16 import from_bfloat16, rounded, to_bfloat16
from hybridjit.profiling import profile
from hybridjit.runtime.threads import threads
from neighbours import LAYERS, in_bfloat16, network

SHORT = Options(precision="bfloat16")
BY_DEFINITION = Options(precision="bfloat16", winograd=False)
PRODUCTS = ("conv1x1", "conv3x3", "conv-dilated", "conv-winograd", "dense",
            "dense-one-row", "batch-dot", "batch-dot-turned")  # fmt: skip


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# --- rounding ---


def test_rounding_is_to_the_nearest_and_halves_to_even():
    ulp = 2.0**-7
    given = floats(1, 1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp, -1 - 0.49 * ulp, 0, -0.0)
    wanted = floats(1, 1, 1 + 2 * ulp, 1 + ulp, -1, 0, -0.0)
    found = rounded(given)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_rounding_keeps_special_numbers():
    largest = np.finfo(np.float32).max
    found = rounded(floats(np.inf, -np.inf, np.nan, largest, 1e-40))
    assert found[0] == np.inf and found[1] == -np.inf and np.isnan(found[2])
    assert found[3] == np.inf and 0 < found[4] < 1.1e-40
    payload = np.array([0x7F800001, 0xFF80FFFF], np.uint32).view(np.float32)
    assert np.isnan(rounded(payload)).all()


def test_every_number_of_bfloat16_is_kept():
    bits = np.arange(1 << 16).astype(BFLOAT16)
    values = from_bfloat16(bits)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(to_bfloat16(values)[numbers], bits[numbers])


@pytest.mark.parametrize("target", AVAILABLE)
def test_kernels_round_as_the_references_do(target):
    """But denormal numbers, which the instruction takes for zeros."""
    random = np.random.default_rng(1)
    bits = random.integers(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    bits[:4] = (0x7F800001, 0x7FFFFFFF, 0x7F800000, 0x3F808000)
    x = bits.view(np.float32)
    x = np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(1), x)
    with override(target=target):
        short = compiled([call("_to_bfloat16", var("x"))], {"x": x})([x])[0]
        back = compiled([call("_from_bfloat16", var("x"))], {"x": short})([short])[0]
    np.testing.assert_array_equal(from_bfloat16(short), rounded(x))
    np.testing.assert_array_equal(back, from_bfloat16(short))


# --- products ---


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_rounded_numbers_in_float32(name, target):
    """On every target: pairs by one instruction, or by way of float32."""
    make, shape = LAYERS[name]
    net = in_bfloat16(network(lambda x: make(x), shape))
    both = {"x", "w", "other"}
    operands = {n: rounded(a) if n in both else a for n, a in net.arrays.items()}
    with override(target=target):
        executable = compiled(net.outputs, operands, net.params, options=SHORT)
        (found,) = executable([a for n, a in operands.items() if n not in net.params])
        exact = compiled(net.outputs, operands, net.params)
        (wanted,) = exact([a for n, a in operands.items() if n not in net.params])
    assert any("bfloat16" in str(c.spec) for row in executable.code.calls for c in row)
    assert np.abs(found - wanted).max() <= 8e-3 * np.abs(wanted).max()
    (eager,) = run_reference(net.outputs, net.arrays)
    assert np.abs(found - eager).max() <= 3e-2 * eager.std()


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize(
    ("channels", "filters", "is_short"),
    [(3, 64, True), (5, 70, True), (3, 63, False), (2, 64, False)],
)
def test_few_channels_are_rounded_where_many_filters_read_them(channels, filters, is_short, target):
    random = np.random.default_rng(7)
    shapes = {"x": (2, channels, 11, 19), "w": (filters, channels, 5, 5)}
    arrays = {n: rounded(random.normal(0, 1, s).astype(np.float32)) for n, s in shapes.items()}
    output = call("Convolution", var("x"), var("w"), no_bias=True, kernel=(5, 5), pad=(2, 2),
                  stride=(2, 2), num_filter=filters)  # fmt: skip
    with override(target=target):
        executable = compiled([output], arrays, ["w"], options=BY_DEFINITION)
        (found,) = executable([arrays["x"]])
    specs = [str(c.spec) for row in executable.code.calls for c in row]
    assert any("bfloat16" in spec for spec in specs) == is_short
    (wanted,) = run_reference([output], arrays)
    assert np.abs(found - wanted).max() <= 1e-5 * wanted.std()


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("size", [1, 2, 7, 40, 2049, 4100])
def test_sums_of_any_length_are_carried_in_float32(size, target):
    random = np.random.default_rng(size)
    x, w = (rounded(random.normal(0, 1, s).astype(np.float32)) for s in ((5, size), (19, size)))
    output = call("FullyConnected", var("x"), var("w"), num_hidden=19, no_bias=True)
    arrays = {"x": x, "w": w}
    with override(target=target):
        (found,) = compiled([output], arrays, ["w"], options=SHORT)([x])
    wanted = x.astype(np.float64) @ w.astype(np.float64).T
    assert np.abs(found - wanted).max() <= 2e-6 * np.sqrt(size) * np.abs(wanted).max()


def test_pairs_are_multiplied_by_one_instruction_where_the_cpu_has_it():
    executable = compiled([call("FullyConnected", var("x"), var("w"), no_bias=True, num_hidden=9)],
                          {"x": np.ones((4, 6), "f4"), "w": np.ones((9, 6), "f4")}, ["w"],
                          options=SHORT)  # fmt: skip
    (spec,) = [c.spec for row in executable.code.calls for c in row if c.spec.kind == "dense"]
    is_paired = "bfloat16_pair" in str(spec)
    assert is_paired == executable.code.target.has_bfloat16


# --- graphs ---


def short_values(executable) -> list[str]:
    """The names of the values that steps store in 16 bits."""
    return [v.name for step in executable.plan.steps for v in step.group.members
            if v.type.dtype == BFLOAT16]  # fmt: skip


def dense(x, name: str, size: int = 8):
    return call("FullyConnected", x, var(f"w{name}"), no_bias=True, num_hidden=size, name=name)


def arrays_of(shape: tuple[int, ...] = (4, 8), **weights: tuple[int, ...]) -> dict:
    random = np.random.default_rng(3)
    shapes = {"x": shape, **weights}
    return {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}


def test_outputs_are_not_rounded():
    first = call("relu", dense(var("x"), "a"), name="first")
    arrays = arrays_of(wa=(8, 8), wb=(8, 8))
    executable = compiled([first, dense(first, "b")], arrays, ["wa", "wb"], options=SHORT)
    returned, _ = executable([arrays["x"]])
    assert (rounded(returned) != returned).any()


def test_operands_of_several_products_are_stored_once():
    middle = call("tanh", dense(var("x"), "a"), name="middle")
    total = call("elemwise_add", middle, dense(middle, "b"), name="total")
    arrays = arrays_of(wa=(8, 8), wb=(8, 8))
    executable = compiled([total], arrays, ["wa", "wb"], options=SHORT)
    assert short_values(executable) == ["x:short", "middle:short"]
    assert len(executable.plan.steps) == 3


def test_parts_of_a_concatenation_are_written_into_it_in_16_bits():
    parts = [call("relu", dense(var("x"), n), name=f"r{n}") for n in "ab"]
    joined = call("Concat", *parts, dim=1, num_args=2, name="joined")
    arrays = arrays_of(wa=(8, 8), wb=(8, 8), wc=(8, 16))
    executable = compiled([dense(joined, "c")], arrays, ["wa", "wb", "wc"], options=SHORT)
    assert [step.kind for step in executable.plan.steps].count("copy") == 0
    (found,) = executable([arrays["x"]])
    (wanted,) = run_reference([dense(joined, "c")], arrays)
    assert np.abs(found - wanted).max() <= 3e-2 * wanted.std()


def test_kernels_that_read_float32_get_it():
    """Operands of products have other readers: a reduction and a softmax, which widen a copy."""
    middle = call("relu", dense(var("x"), "a"), name="middle")
    outputs = [dense(middle, "b"), call("sum", middle, axis=1), call("softmax", middle)]
    arrays = arrays_of(wa=(8, 8), wb=(8, 8))
    found = compiled(outputs, arrays, ["wa", "wb"], options=SHORT)([arrays["x"]])
    for mine, right in zip(found, run_reference(outputs, arrays)):
        assert mine.dtype == np.float32
        assert np.abs(mine - right).max() <= 3e-2 * right.std()


def test_nothing_is_narrow_in_double_precision_or_without_products():
    double = {n: a.astype(np.float64) for n, a in arrays_of(wa=(8, 8)).items()}
    assert not short_values(compiled([dense(var("x"), "a")], double, ["wa"], options=SHORT))
    single = {"x": np.ones((3, 4), np.float32)}
    assert not short_values(compiled([call("softmax", var("x"))], single, options=SHORT))


def test_left_out_it_is_float32():
    arrays = arrays_of(wa=(8, 8))
    output = dense(var("x"), "a")
    plain = compiled([output], arrays, ["wa"])([arrays["x"]])[0]
    with override(skip=("lower-bfloat16",)):
        found = compiled([output], arrays, ["wa"], options=SHORT)([arrays["x"]])[0]
    np.testing.assert_array_equal(found, plain)


# --- recurrent layers ---


def test_steps_multiply_16_bits_and_give_32():
    net, x = rnn.GRU(19), nd.random.normal(shape=(4, 3, 5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    plain = net(x).asnumpy()
    net.hybridize(precision="bfloat16")
    y = net(x).asnumpy()
    np.testing.assert_allclose(y, plain, atol=0.02)  # 1 % of the largest value is usual
    assert (y != plain).any() and (rounded(y) != y).any()


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_states_of_steps_are_rounded_where_they_are_multiplied(mode, target):
    """Rounded once for each step, on every target; the state itself is not."""
    random = np.random.default_rng(4)
    sizes = {"x": (6, 3, 2), "h": (2, 3, 19), "c": (2, 3, 19)}
    if mode != "lstm":
        del sizes["c"]
    arrays = {n: random.normal(0, 0.5, s).astype(np.float32) for n, s in sizes.items()}
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    count = 2 * gates * 19 * (2 + 19 + 2)
    arrays["w"] = random.normal(0, 0.3, count).astype(np.float32)
    states = [var(n) for n in "hc" if n in sizes]
    output = call("RNN", var("x"), var("w"), *states, mode=mode, state_size=19, num_layers=1,
                  bidirectional=True)  # fmt: skip
    with override(target=target):
        executable = compiled([output], arrays, ["w"], options=SHORT)
        (found,) = executable([a for n, a in arrays.items() if n != "w"])
    specs = [str(c.spec) for row in executable.code.calls for c in row]
    assert sum("rounded=20" in s for s in specs) == 12  # 6 steps of both directions
    (wanted,) = run_reference([output], arrays)
    assert 1e-5 < np.abs(found - wanted).max() / wanted.std() <= 3e-2


def test_recurrent_networks_have_the_same_bits_in_any_batch():
    net, x = rnn.LSTM(40, bidirectional=True), nd.random.normal(shape=(5, 14, 7))
    net.initialize(mx.init.Xavier())
    net.hybridize(precision="bfloat16")
    whole = net(x).asnumpy()
    for count in (1, 2, 3):
        with threads(count):
            assert net(x).asnumpy().tobytes() == whole.tobytes()
    for start, stop in ((0, 1), (3, 5), (5, 14)):
        part = net(x[:, start:stop]).asnumpy()
        assert part.tobytes() == np.ascontiguousarray(whole[:, start:stop]).tobytes()


# --- networks ---


def small_network() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(
        *(nn.Conv2D(12, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D()),
        *(nn.Conv2D(24, 3, strides=2), nn.Conv2D(24, 3, groups=24), nn.Activation("relu")),
        *(nn.Conv2D(17, 1), nn.GlobalAvgPool2D(), nn.Dense(33, activation="relu"), nn.Dense(10)),
    )
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    return net


def test_a_network_is_near_its_float32_self():
    net, x = small_network(), nd.random.normal(shape=(8, 3, 30, 30))
    eager = net(x).asnumpy()
    net.hybridize(precision="bfloat16")
    gap = np.abs(net(x).asnumpy() - eager).max() / eager.std()
    assert 1e-4 < gap <= 3e-2
    net.hybridize()
    assert np.abs(net(x).asnumpy() - eager).max() <= 1e-5 * eager.std()


def test_verify_permits_rounding_errors():
    net, x = small_network(), nd.random.normal(shape=(4, 3, 30, 30))
    net(x)
    net.hybridize(precision="bfloat16")
    assert net.verify(x).agrees
    assert not net.verify(x, tolerance=1e-5).agrees
    net.hybridize()
    assert net.verify(x, tolerance=1e-4).agrees


def test_any_threads_and_any_batch_give_the_same_bits():
    net, x = small_network(), nd.random.normal(shape=(9, 3, 30, 30))
    net.hybridize(precision="bfloat16")
    whole = net(x).asnumpy()
    for count in (1, 2, 3):
        with threads(count):
            assert net(x).asnumpy().tobytes() == whole.tobytes()
    for start, stop in ((0, 1), (3, 5), (2, 9)):
        assert net(x[start:stop]).asnumpy().tobytes() == whole[start:stop].tobytes()


def test_check_mode_agrees():
    net, x = small_network(), nd.random.normal(shape=(2, 3, 30, 30))
    net.hybridize(precision="bfloat16")
    plain = net(x).asnumpy()
    net.hybridize(precision="bfloat16")
    with override(check=True):
        assert net(x).asnumpy().tobytes() == plain.tobytes()


def test_weights_that_change_are_rounded_anew():
    net, x = nn.Dense(5, in_units=6), nd.ones((2, 6))
    net.initialize(mx.init.One())
    net.hybridize(precision="bfloat16")
    assert net(x).asnumpy().max() == 6
    net.weight.set_data(nd.full((5, 6), 1 + 2.0**-7))
    assert net(x).asnumpy().max() == 6 * (1 + 2.0**-7)
    net.weight.set_data(nd.full((5, 6), 1 + 2.0**-9))
    assert net(x).asnumpy().max() == 6


def test_large_weights_are_kept_as_they_are():
    """float32 of which only a packed form is kept elsewhere: bfloat16's has not all of its bits."""
    net, x = nn.Dense(600, in_units=700), nd.random.normal(shape=(3, 700))
    net.initialize(mx.init.Normal(1.0))
    before = net.weight.data().asnumpy()
    for target in AVAILABLE:
        with override(target=target):
            net.hybridize(precision="bfloat16")
            net(x)
        np.testing.assert_array_equal(net.weight.data().asnumpy(), before)


def test_unknown_precisions_are_refused():
    net = nn.Dense(3)
    with pytest.raises(ValueError, match="one of 'float32', 'bfloat16', 'int8', got 'int4'"):
        net.hybridize(precision="int4")


def test_digits_are_labelled_as_in_float32():
    folder = Path(__file__).parents[2] / "examples" / "digits"
    with np.load(folder / "digits-test.npz") as file:
        enlarged = np.kron(file["images"] / np.float32(16), np.ones((1, 3, 3), np.float32))
    pictures = nd.array(np.pad(enlarged, ((0, 0), (2, 2), (2, 2)))[:, None])
    net = mx.load(str(folder / "digits"))
    wanted = net(pictures).asnumpy()
    net.hybridize(precision="bfloat16")
    found = net(pictures).asnumpy()
    np.testing.assert_array_equal(found.argmax(1), wanted.argmax(1))
    assert 0 < np.abs(found - wanted).max() <= 3e-2 * wanted.std()


# --- commands and tools ---

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits")


def test_commands_take_a_precision(tmp_path, capsys):
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.ones((2, 1, 28, 28), np.float32))
    words = [DIGITS, "--precision", "bfloat16"]
    assert main(["run", *words, "--input", f"data={x}", "--output", str(y)]) == 0
    net = mx.load(DIGITS)
    net.hybridize(precision="bfloat16")
    np.testing.assert_array_equal(np.load(y), net(nd.ones((2, 1, 28, 28))).asnumpy())
    shape = ["--shape", "data=2,1,28,28"]
    assert main(["dump", *words, *shape, "--after", "lower-bfloat16,spec"]) == 0
    out = capsys.readouterr().out
    assert "_to_bfloat16" in out and "element=bfloat16:" in out
    assert main(["profile", *words, *shape, "--seconds", "0.01"]) == 0
    assert main(["bench", *words, *shape, "--seconds", "0.01"]) == 0
    capsys.readouterr()
    assert main(["profile", *words, *shape, "--train", "--seconds", "0.01"]) == 0
    assert "_to_bfloat16" in capsys.readouterr().out


def test_a_profile_is_that_of_the_networks_precision():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(8))
    net.initialize()
    net.hybridize(precision="bfloat16")
    report = str(profile(net, nd.ones((4, 8)), seconds=0.01))
    assert "_to_bfloat16" in report


@pytest.mark.parametrize("target", AVAILABLE)
def test_winograd_reads_and_writes_16_bits(target):
    first = call("Convolution", var("x"), var("w"), no_bias=True, kernel=(3, 3), pad=(1, 1),
                 num_filter=33)  # fmt: skip
    net = call("Convolution", call("relu", first), var("v"), no_bias=True, kernel=(1, 1),
               num_filter=8)  # fmt: skip
    random = np.random.default_rng(2)
    shapes = {"x": (2, 18, 14, 11), "w": (33, 18, 3, 3), "v": (8, 33, 1, 1)}
    arrays = {n: random.normal(0, 0.3, s).astype(np.float32) for n, s in shapes.items()}
    with override(target=target):
        options = Options(winograd="always", precision="bfloat16")
        executable = compiled([net], arrays, ["w", "v"], options=options)
        (found,) = executable([arrays["x"]])
    specs = [str(c.spec) for row in executable.code.calls for c in row]
    assert any(s.startswith("winograd") and "bfloat16:float32:float32" in s for s in specs)
    (wanted,) = run_reference([net], arrays)
    assert np.abs(found - wanted).max() <= 3e-2 * wanted.std()


class TestAmp:
    @pytest.fixture
    def default(self, monkeypatch):
        """Restores the state that ``init`` changes."""
        monkeypatch.setattr(DEFAULT, "precision", "float32")
        monkeypatch.setattr(amp.amp, "_amp_initialized", False)

    def test_networks_hybridized_after_init_multiply_bfloat16(self, default):
        net, x = small_network(), nd.random.normal(shape=(2, 3, 30, 30))
        net.hybridize(precision="bfloat16")
        wanted = net(x).asnumpy()
        amp.init("bfloat16")
        net.hybridize()
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)
        net.hybridize(precision="float32")
        assert (net(x).asnumpy() != wanted).any()

    def test_converting_does_not_change_the_original_network(self):
        net, x = small_network(), nd.random.normal(shape=(2, 3, 30, 30))
        with pytest.raises(RuntimeError, match="first call block.hybridize"):
            amp.convert_hybrid_block(net, "bfloat16")
        net.hybridize()
        before = net(x).asnumpy()
        converted = amp.convert_hybrid_block(net, target_dtype="bfloat16")
        net.hybridize(precision="bfloat16")
        wanted = net(x).asnumpy()
        np.testing.assert_array_equal(converted(x).asnumpy(), wanted)
        converted.hybridize(static_alloc=True)
        np.testing.assert_array_equal(converted(x).asnumpy(), wanted)
        net.hybridize()
        np.testing.assert_array_equal(net(x).asnumpy(), before)

    @pytest.fixture
    def model(self):
        """A graph, its parameters, and inputs."""
        random = np.random.default_rng(3)
        hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=40, name="hidden")
        graph = mx.sym.FullyConnected(mx.sym.relu(hidden), num_hidden=7, name="out")
        shapes = {"hidden_weight": (40, 30), "hidden_bias": (40,), "out_weight": (7, 40),
                  "out_bias": (7,), "data": (5, 30)}  # fmt: skip
        arrays = {n: nd.array(random.normal(0, 1, s).astype("f4")) for n, s in shapes.items()}
        data = arrays.pop("data")
        return graph, arrays, data

    def test_a_converted_model_multiplies_bfloat16(self, model):
        graph, arrays, data = model
        converted, args, auxs = amp.convert_model(graph, arrays, {}, target_dtype="bfloat16")
        assert args is arrays and auxs == {}
        plain = graph.bind(mx.cpu(), {**args, "data": data}).forward()[0].asnumpy()
        found = converted.bind(mx.cpu(), {**args, "data": data}).forward()[0].asnumpy()
        assert 1e-4 < np.abs(found - plain).max() / plain.std() <= 3e-2
        again = graph.bind(mx.cpu(), {**args, "data": data}).forward()[0].asnumpy()
        np.testing.assert_array_equal(again, plain)
        behind = mx.sym.softmax(converted)
        result = behind.bind(mx.cpu(), {**args, "data": data}).forward()[0].asnumpy()
        np.testing.assert_allclose(result, nd.softmax(nd.array(found)).asnumpy(), atol=1e-6)

    def test_a_converted_graph_keeps_it_in_files_where_casts_are_kept(self, model, tmp_path):
        graph, arrays, data = model
        converted = amp.convert_symbol(graph, "bfloat16")
        wanted = converted.bind(mx.cpu(), {**arrays, "data": data}).forward()[0].asnumpy()
        converted.save(str(tmp_path / "a.json"), remove_amp_cast=False)
        loaded = mx.sym.load(str(tmp_path / "a.json"))
        found = loaded.bind(mx.cpu(), {**arrays, "data": data}).forward()[0].asnumpy()
        np.testing.assert_array_equal(found, wanted)
        assert converted.tojson() == graph.tojson()

    def test_a_block_of_a_converted_graph_is_verified_as_bfloat16(self, model):
        graph, arrays, data = model
        block = gluon.SymbolBlock(amp.convert_symbol(graph, "bfloat16"), mx.sym.var("data"))
        block.collect_params().load_dict(arrays, mx.cpu(), cast_dtype=True)
        block.hybridize()
        assert block.verify(data).agrees
        assert not block.verify(data, tolerance=1e-5).agrees

    def test_unsupported_arguments_raise(self, default):
        for refused in (
            lambda: amp.init(),
            lambda: amp.init("bfloat16", fp32_ops=["relu"]),
            lambda: amp.convert_hybrid_block(nn.Dense(1), "float16"),
            lambda: amp.convert_model(mx.sym.var("x"), {}, {}, "float16"),
            lambda: amp.convert_symbol(mx.sym.var("x"), "bfloat16", fp32_ops=["softmax"]),
            lambda: amp.convert_symbol(mx.sym.var("x"), "bfloat16", excluded_sym_names=["fc"]),
            lambda: amp.list_lp16_ops("float16"),
            lambda: nn.Dense(1).cast("bfloat16"),
        ):
            with pytest.raises(MXNetError, match=r"bfloat16"):
                refused()
        assert DEFAULT.precision == "float32"
        with pytest.raises(AssertionError, match="AMP not initialized"):
            amp.init_trainer(None)
        with pytest.raises(TypeError, match="compatible with Gluon Trainer"):
            amp.unscale(None)
