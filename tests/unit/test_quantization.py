"""``mx.contrib.quantization``: graphs, ranges and results are those of MXNet 1.9.1.

``fixtures/quantization`` has a network and the graphs that MXNet made of it.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from hybridjit import MXNetError, autograd, contrib, gluon, io, nd, sym
from hybridjit.context import cpu
from hybridjit.contrib import quantization
from hybridjit.contrib.quantization.calibration import collect_statistics
from hybridjit.errors import ShapeError
from hybridjit.gluon import nn
from hybridjit.io.checkpoint import load_checkpoint
from hybridjit.ops.gradient import NoGradientError

FOLDER = Path(__file__).parent.parent / "fixtures" / "quantization"
GRAPHS = json.loads((FOLDER / "graphs.json").read_text())
STORED = dict(np.load(FOLDER / "io.npz"))
DATA = STORED["data"]
RANGES = ("min_calib_range", "max_calib_range")
pytestmark = pytest.mark.filterwarnings("ignore:_sg_mkldnn_conv")


def network() -> gluon.SymbolBlock:
    prefix = str(FOLDER / "net")
    return gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")


def batches(size: int = 3) -> io.NDArrayIter:
    return io.NDArrayIter(nd.array(DATA), batch_size=size)


def made_by(arguments: dict) -> gluon.SymbolBlock:
    data = None if arguments["calib_mode"] == "none" else batches()
    shapes = [io.DataDesc("data", DATA.shape)]
    return quantization.quantize_net_v2(network(), calib_data=data, data_shapes=shapes, **arguments)


def graph_of(symbol: sym.Symbol) -> dict:
    return json.loads(symbol.tojson())


def without_versions(entries: list[list[int]]) -> list[list[int]]:
    return [entry[:2] for entry in entries]


def require_equal_graphs(found: dict, wanted: dict) -> None:
    """Nodes, attributes, subgraphs and edges; ranges to 2e-6 of the larger end."""
    assert [n["name"] for n in found["nodes"]] == [n["name"] for n in wanted["nodes"]]
    for node, other in zip(found["nodes"], wanted["nodes"]):
        ours, theirs = dict(node.get("attrs", {})), dict(other.get("attrs", {}))
        ends = [[float(a.pop(key)) for key in RANGES if key in a] for a in (ours, theirs)]
        np.testing.assert_allclose(*ends, rtol=0, atol=2e-6 * max(map(abs, ends[1]), default=0))
        assert (node["op"], ours) == (other["op"], theirs)
        assert node.get("subgraphs") == other.get("subgraphs")
        assert without_versions(node["inputs"]) == without_versions(other["inputs"])
    assert without_versions(found["heads"]) == without_versions(wanted["heads"])


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "plain"])
def test_graphs_and_results_are_mxnets(name, tmp_path):
    block = made_by(GRAPHS[name]["arguments"])
    for hybridize in (False, True):
        block.hybridize(hybridize)
        found = block(nd.array(DATA)).asnumpy()
        most = 1e-5 * np.abs(STORED[name]).max()
        np.testing.assert_allclose(found, STORED[name], rtol=0, atol=most)
    block.export(str(tmp_path / "small"))
    graph = json.loads((tmp_path / "small-symbol.json").read_text())
    require_equal_graphs(graph, GRAPHS[name]["symbol"])
    # The files are read again.
    prefix = str(tmp_path / "small")
    again = gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
    np.testing.assert_array_equal(again(nd.array(DATA)).asnumpy(), found)


def test_ranges_of_the_data_are_exact():
    """Six digits of the minimum and maximum, which no arithmetic changes."""
    (node,) = [n for n in graph_of_naive()["nodes"] if n["name"] == "data_quantize"]
    assert [node["attrs"][key] for key in RANGES] == [f"{DATA.min():f}", f"{DATA.max():f}"]


def graph_of_naive() -> dict:
    symbol, arguments, states = load_checkpoint(str(FOLDER / "net"), 0)
    made, _, _ = quantization.quantize_model_mkldnn(
        symbol, arguments, states, label_names=None, calib_data=batches(), calib_mode="naive",
        quantized_dtype="auto", quantize_mode="full",
    )  # fmt: skip
    return graph_of(made)


def test_a_symbol_gives_the_graph_of_its_block():
    require_equal_graphs(graph_of_naive(), GRAPHS["naive"]["symbol"])


def test_a_symbol_without_fusion():
    symbol, arguments, states = load_checkpoint(str(FOLDER / "net"), 0)
    made, parameters, _ = quantization.quantize_model(
        symbol, arguments, states, label_names=None, calib_data=batches(),
        **GRAPHS["plain"]["arguments"],
    )  # fmt: skip
    require_equal_graphs(graph_of(made), GRAPHS["plain"]["symbol"])
    assert set(parameters) == set(made.list_arguments()) - {"data"}
    assert parameters["net_conv0_weight_quantize"].dtype == np.int8


def test_the_range_of_a_layer_that_is_called_twice_covers_both_values():
    """Both nodes have the layer's name, as in MXNet."""
    layer = nn.Dense(4, in_units=3, prefix="fc_")
    layer.initialize()
    x = sym.var("data")
    made = layer(x) - layer(x * -5)
    arguments = {name: p.data() for name, p in layer.collect_params().items()}
    data = np.random.default_rng(1).normal(size=(6, 3)).astype("float32")
    quantized, _, _ = quantization.quantize_model(
        made, arguments, {}, calib_data=io.NDArrayIter(nd.array(data), batch_size=6),
        calib_mode="naive",
    )  # fmt: skip
    values = np.concatenate([layer(nd.array(each)).asnumpy() for each in (data, data * -5)])
    nodes = [n for n in graph_of(quantized)["nodes"] if n["op"] == "_contrib_requantize"]
    assert len(nodes) == 2
    for node in nodes:
        found = [float(node["attrs"][key]) for key in RANGES]
        np.testing.assert_allclose(found, [values.min(), values.max()], rtol=1e-5)


def test_a_collector_sees_an_input_as_often_as_mxnets_monitor():
    """Once for each reader: the threshold of entropy depends on it by the smoothing of zeros."""
    seen: list[str] = []

    class Names:
        def collect(self, name: str, arr: nd.NDArray) -> None:
            seen.append(name)

    x = sym.var("data")
    made = sym.relu(x, name="positive") + sym.sum(x, axis=1, keepdims=True)
    data, wanted = io.NDArrayIter(nd.ones((4, 3)), batch_size=2), ["data", "positive_output"]
    collect_statistics(made, ({}, {}), data, ["data"], wanted, Names(), context=cpu())
    assert seen == ["data", "data", "positive_output"] * 2


def test_the_older_name_warns_and_is_tensor_wise():
    with pytest.warns(UserWarning, match="please use quantize_net_v2"):
        block = quantization.quantize_net(network(), calib_data=batches(), calib_mode="naive")
    np.testing.assert_array_equal(
        block(nd.array(DATA)).asnumpy(),
        made_by(GRAPHS["naive"]["arguments"])(nd.array(DATA)).asnumpy(),
    )


def test_a_data_loader_with_labels():
    """Labels, which the network does not take, are not passed to it."""
    pairs = gluon.data.ArrayDataset(nd.array(DATA), nd.zeros(len(DATA)))
    loader = gluon.data.DataLoader(pairs, batch_size=3)
    block = quantization.quantize_net_v2(network(), calib_data=loader, calib_mode="naive")
    found = block(nd.array(DATA)).asnumpy()
    np.testing.assert_allclose(found, STORED["naive"], rtol=0, atol=1e-5 * np.abs(found).max())


class Widest:
    """A collector of a program: symmetric ranges."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.min_max_dict = names, {}

    def collect(self, name: str, arr: nd.NDArray) -> None:
        top = float(abs(arr).max().asscalar())
        self.min_max_dict[name] = (-top, top)


def test_a_collector_of_the_program():
    collector = Widest([])
    block = quantization.quantize_net_v2(
        network(), calib_data=batches(6), calib_mode="customize", LayerOutputCollector=collector
    )
    assert collector.min_max_dict["data"][1] == np.float32(np.abs(DATA).max())
    assert np.abs(block(nd.array(DATA)).asnumpy() - STORED["naive"]).max() < 1


def test_a_graph_is_calibrated_by_monitoring_an_executor():
    """quantize_graph, an executor with the collector as monitor, calib_graph."""
    symbol, arguments, states = load_checkpoint(str(FOLDER / "net"), 0)
    made, _, _, collector = quantization.quantize_graph(
        symbol, arguments, states, calib_mode="naive", quantized_dtype="auto",
        quantize_mode="smart",
    )  # fmt: skip
    bound = symbol.bind(None, {**arguments, "data": nd.array(DATA)}, aux_states=states)
    bound.set_monitor_callback(collector.collect, monitor_all=True)
    bound.forward(is_train=False)
    ready, _, _ = quantization.calib_graph(made, arguments, states, collector, calib_mode="naive")
    require_equal_graphs(graph_of(ready), GRAPHS["plain"]["symbol"])


def small() -> nn.Dense:
    net = nn.Dense(3)
    net.initialize()
    return net


def test_logger_receives_progress(caplog):
    with caplog.at_level(logging.INFO):
        quantization.quantize_net_v2(
            small(), calib_data=[nd.ones((2, 4))], calib_mode="naive", logger=logging.getLogger()
        )
    assert "using 2 examples" in caplog.text


def test_the_package_has_both_names():
    assert contrib.quant is contrib.quantization is quantization


def test_training_is_refused():
    block = quantization.quantize_net_v2(small(), calib_data=[nd.ones((2, 4))], calib_mode="naive")
    x = nd.ones((2, 4))
    x.attach_grad()
    with pytest.raises(NoGradientError, match="train the float32 network"):
        with autograd.record():
            y = block(x)
        y.backward()


WRONG = {
    "type": ({"quantized_dtype": "int4"}, ValueError, "unknown quantized_dtype int4"),
    "mode": ({"quantize_mode": "half"}, ValueError, "unknown quantize_mode half"),
    "granularity": ({"quantize_granularity": "row"}, ValueError, "quantize_granularity row"),
    "calibration": ({"calib_mode": "guess"}, ValueError, "unknown calibration mode guess"),
    "no data": ({"calib_data": None}, ValueError, "data_shapes required"),
    "no batch": ({"calib_data": []}, ValueError, "has no batch"),
    "not iterable": ({"calib_data": 3}, TypeError, "not a valid iterator"),
    "nan": ({"calib_data": [nd.array([[1, float("nan"), 2, 3]])]}, MXNetError, "contains NaN"),
    "shapes": (
        {"calib_data": [nd.ones((2, 4)), nd.ones((2, 5))]},
        ShapeError,
        r"batch 1: data has shape \(2,5\), but calib_data announces \(2,4\)",
    ),
    "zeros": ({"calib_data": [nd.zeros((2, 4))]}, MXNetError, "range of data is 0.0 to 0.0"),
    "no names": (
        {"calib_data": None, "calib_mode": "none", "data_shapes": [(2, 4)]},
        ValueError,
        r"a name and a shape for each input, .* got \(2, 4\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_refused(what):
    arguments, error, says = WRONG[what]
    given = {"calib_data": [nd.ones((2, 4))], "calib_mode": "naive", **arguments}
    with pytest.raises(error, match=says):
        quantization.quantize_net_v2(small(), **given)


def test_a_symbol_of_the_backend_is_fused_before_and_after_quantization():
    """As programs call it that MXNet's own examples are the pattern of."""
    symbol, arguments, states = load_checkpoint(str(FOLDER / "net"), 0)
    given = {"calib_mode": "none", "quantized_dtype": "auto", "label_names": []}
    parts = symbol.get_backend_symbol("MKLDNN_QUANTIZE"), arguments, states
    made, *parameters = quantization.quantize_model(*parts, **given)
    wanted, *others = quantization.quantize_model_mkldnn(symbol, arguments, states, **given)
    assert made.get_backend_symbol("MKLDNN_QUANTIZE").tojson() == wanted.tojson()
    assert parameters[0].keys() == others[0].keys()
    assert symbol.get_backend_symbol("MKLDNN") is symbol


@pytest.mark.parametrize("element", [np.nan, np.inf])
@pytest.mark.parametrize("layer", [0, 1], ids=["convolution", "dense"])
def test_weights_without_bytes_are_refused(element, layer):
    """A relu behind the layer would hide them from calibration."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 1, in_channels=2, activation="relu"), nn.Dense(2, in_units=12))
    net.initialize()
    data = [nd.random.uniform(shape=(2, 2, 2, 2))]
    weight = net[layer].weight
    kept = weight.data().copy()
    weight.data()[0, 0] = element
    with pytest.raises(MXNetError, match=f"parameter {weight.name} has infinite or NaN"):
        quantization.quantize_net_v2(net, calib_mode="naive", calib_data=data)
    weight.set_data(kept)
    excluded = quantization.quantize_net_v2(
        net, calib_mode="naive", calib_data=data, exclude_layers_match=["dense", "conv"]
    )
    np.testing.assert_array_equal(excluded(data[0]).asnumpy(), net(data[0]).asnumpy())


@pytest.mark.parametrize("hybrid", [False, True])
def test_new_weights_without_bytes_are_refused(hybrid):
    net = nn.Conv2D(3, 1, in_channels=2, activation="relu", prefix="first_")
    net.initialize()
    x = nd.random.uniform(shape=(2, 2, 2, 2))
    block = quantization.quantize_net_v2(net, calib_mode="naive", calib_data=[x])
    block.hybridize(hybrid)
    block(x)
    block.collect_params()["first_weight"].data()[1] = np.nan
    with pytest.raises(MXNetError, match="filter 1 has an element nan"):
        block(x)


@pytest.mark.parametrize(
    "table, says",
    [
        ({"other": (-1, 1)}, "belongs to another network"),
        ({"data": (-1, 1)}, "misses net_conv0_fwd_output"),
        ({"data": (0, 0)}, "misses"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table, says):
    symbol, arguments, states = load_checkpoint(str(FOLDER / "net"), 0)
    made, _, _, collector = quantization.quantize_graph(
        symbol, arguments, states, calib_mode="naive"
    )
    collector.min_max_dict = table
    with pytest.raises(MXNetError, match=says):
        quantization.calib_graph(made, arguments, states, collector, calib_mode="naive")
    with pytest.raises(MXNetError, match="has no hist_dict"):
        quantization.calib_graph(made, arguments, states, collector, calib_mode="entropy")
    with pytest.raises(ValueError, match="please set calibration mode"):
        quantization.calib_graph(made, arguments, states, collector, calib_mode="none")


def test_histograms_grow_with_larger_batches():
    collector = quantization.collectors.LayerHistogramCollector(num_bins=101, include_layer=["x"])
    for scale in (1, 3, 2):
        values = nd.array(np.linspace(-scale, scale, 1000))
        collector.collect("x", values)
        collector.collect("y", values)
    counts, edges, low, high, top = collector.hist_dict["x"]
    assert counts.sum() == 3000 and len(edges) == len(counts) + 1 and len(counts) % 2
    assert (low, high) == (-3, 3) and top >= 3 and list(collector.hist_dict) == ["x"]


def test_bytes_of_both_types_with_equal_ranges_have_their_own_factors():
    """The factors depend on the types, and the ranges of all operands are the same arrays."""

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, signed, unsigned, *ends):
            values = [F.contrib.dequantize(x, *ends) for x in (signed, unsigned)]
            for pair in ((unsigned, signed), (unsigned, unsigned)):
                joint = F.contrib.quantized_concat(*pair, *ends, *ends, num_args=2, dim=1)
                values.append(F.cast(joint[0], "float32"))
            return values

    ends = nd.array([-3.0]), nd.array([4.0])
    given = [nd.arange(0, 120).reshape((2, 60)).astype(dtype) for dtype in ("int8", "uint8")]
    wanted = [y.asnumpy() for y in Net()(*given, *ends)]
    names = [sym.var(name) for name in ("signed", "unsigned", "low", "high")]
    fixed = gluon.SymbolBlock(sym.Group(Net()(*names)), names[:2])
    fixed.collect_params().load_dict(dict(zip(("low", "high"), ends)), cpu())
    for net, inputs in ((Net(), (*given, *ends)), (fixed, given)):
        net.hybridize()
        for found, right in zip(net(*inputs), wanted, strict=True):
            np.testing.assert_array_equal(found.asnumpy(), right)
