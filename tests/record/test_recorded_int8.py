"""Quantized graphs written and run by MXNet 1.9.1 (``fixtures/recorded_int8``).

Each runs eagerly and hybridized. Bytes, sums, ranges and thresholds are equal bit for bit, other
float32 outputs to 1e-5 of the largest value.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from compiling import AVAILABLE, plan_of
from hybridjit import autograd, gluon, nd, sym
from hybridjit._core.config import override
from hybridjit.errors import MXNetError
from hybridjit.ir.node import Node, topological
from hybridjit.ops.gradient import NoGradientError

FOLDER = Path(__file__).parent.parent / "fixtures" / "recorded_int8"
CASES = {case["name"]: case for case in json.loads((FOLDER / "cases.json").read_text())}
NETWORKS = [name for name in CASES if name.startswith(("net_", "model_"))]
TOLERANCE = 1e-5


def arrays_of(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(FOLDER / f"{name}-io.npz"))


def block_of(name: str, file: Path | None = None) -> gluon.SymbolBlock:
    symbol = file or FOLDER / f"{name}-symbol.json"
    inputs = CASES[name]["inputs"]
    return gluon.SymbolBlock.imports(str(symbol), inputs, str(FOLDER / f"{name}-0000.params"))


def results(block: gluon.SymbolBlock, name: str) -> list[np.ndarray]:
    arrays = arrays_of(name)
    made = block(*(nd.array(arrays[n], dtype=arrays[n].dtype) for n in CASES[name]["inputs"]))
    return [y.asnumpy() for y in (made if isinstance(made, (list, tuple)) else [made])]


def require_equal(found: list[np.ndarray], name: str) -> None:
    arrays = arrays_of(name)
    assert len(found) == CASES[name]["outputs"]
    for i, y in enumerate(found):
        wanted = arrays[f"y{i}"]
        assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind == "f" and wanted.size > 1:
            most = TOLERANCE * np.abs(wanted).max()
            np.testing.assert_allclose(y, wanted, rtol=0, atol=most)
        else:
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.filterwarnings("ignore:_sg_mkldnn_conv")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_results_equal_mxnets(name, hybridize):
    block = block_of(name)
    block.hybridize(hybridize)
    for _ in range(2):
        require_equal(results(block, name), name)


@pytest.mark.filterwarnings("ignore:_sg_mkldnn_conv")
@pytest.mark.parametrize("name", ["net_residual", "net_joined_signed", "net_gelu"])
@pytest.mark.parametrize("target", AVAILABLE)
def test_bits_are_equal_on_every_target(name, target):
    wanted = results(block_of(name), name)
    with override(target=target):
        block = block_of(name)
        block.hybridize()
        for y, one in zip(results(block, name), wanted):
            np.testing.assert_array_equal(y, one)


def test_gelu_of_a_convolution_warns_and_after_a_sum_is_refused(tmp_path):
    """MXNet applies it in units of bytes; behind a residual it stops."""
    with pytest.warns(UserWarning, match="GELU is applied in units of the result"):
        results(block_of("net_gelu"), "net_gelu")

    def replace_relu(graph: dict) -> None:
        node = next(node for node in graph["nodes"] if "with_postsum_act" in node.get("attrs", {}))
        node["subgraphs"][0]["nodes"][-1].update(op="LeakyReLU", attrs={"act_type": "gelu"})

    path = changed(tmp_path, "net_joined_signed", replace_relu)
    with pytest.raises(MXNetError, match="activation gelu after a sum is not supported for bytes"):
        block_of("net_joined_signed", path)


@pytest.mark.parametrize("name", CASES)
def test_a_graph_is_written_as_it_was_read(name):
    text = (FOLDER / f"{name}-symbol.json").read_text()
    assert sym.load_json(text).tojson() == text


def test_a_residual_of_another_type_warns_once():
    """In this network int8 residuals enter sums that are announced as uint8."""
    block = block_of("net_joined_signed")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            results(block, "net_joined_signed")
    assert [str(w.message) for w in seen if "saturates in int8" in str(w.message)]
    assert sum("_sg_mkldnn_conv" in str(w.message) for w in seen) == 1


@pytest.mark.filterwarnings("ignore:_sg_mkldnn_conv")
@pytest.mark.parametrize(
    "name", ["net_conv_naive", "net_residual", "net_joined_signed", "net_gelu"]
)
def test_layers_are_products_of_bytes(name):
    """No layer, conversion or pooling of a calibrated network is a step in NumPy."""
    stored = nd.load(str(FOLDER / f"{name}-0000.params"))
    params = {key.split(":")[1]: x.asnumpy() for key, x in stored.items()}
    symbol = sym.load(str(FOLDER / f"{name}-symbol.json"))
    arrays = {**params, "data": arrays_of(name)["data"]}
    kinds = [step.kind for step in plan_of(symbol.outputs, arrays, set(params)).steps]
    layers = sum(node.op is not None and node.op.name.startswith("_sg_") for node in nodes(symbol))
    assert kinds.count("byte_product") == layers and "host" not in kinds


def nodes(symbol: sym.Symbol) -> list[Node]:
    return topological(symbol.outputs)


def test_a_layer_whose_range_is_zero():
    """MXNet's scale of it is 2**31, so that nothing is infinite."""

    def empty(graph: dict) -> None:
        for node in graph["nodes"]:
            if node["op"] == "_contrib_quantize_v2":
                node["attrs"].update(min_calib_range="0.0", max_calib_range="0.0")

    graph = json.loads((FOLDER / "net_conv_naive-symbol.json").read_text())
    empty(graph)
    symbol = sym.load_json(json.dumps(graph))
    block = gluon.SymbolBlock(symbol, [sym.var("data")])
    block.collect_params().load(
        str(FOLDER / "net_conv_naive-0000.params"), cast_dtype=True, dtype_source="saved"
    )
    found = []
    for hybridize in (False, True):
        block.hybridize(hybridize)
        found += results(block, "net_conv_naive")
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(*found)


def test_parameters_without_a_type_in_the_file_are_float32():
    """As MXNet infers them, also without shapes."""
    graph = json.loads((FOLDER / "net_joined_signed-symbol.json").read_text())
    for node in graph["nodes"]:
        if node["op"] == "null":
            node.pop("attrs", None)
    types, results, states = sym.load_json(json.dumps(graph)).infer_type(data="float32")
    assert {*types, *results, *states} == {np.float32}


def changed(tmp_path: Path, name: str, change: Callable[[dict], object]) -> Path:
    """The graph of a case after ``change`` of its JSON."""
    graph = json.loads((FOLDER / f"{name}-symbol.json").read_text())
    change(graph)
    path = tmp_path / "changed-symbol.json"
    path.write_text(json.dumps(graph))
    return path


def fused(graph: dict) -> dict:
    return next(node for node in graph["nodes"] if node["op"] == "_sg_mkldnn_conv")


def test_attribute_names_of_older_files(tmp_path):
    """MXNet 1.5 writes with_relu and with_postsum_relu."""

    def rename(graph: dict) -> None:
        for node in graph["nodes"]:
            attrs = node.get("attrs", {})
            for old, new in (("relu", "act"), ("postsum_relu", "postsum_act")):
                if f"with_{new}" in attrs:
                    attrs[f"with_{old}"] = attrs.pop(f"with_{new}")

    block = block_of("net_conv_naive", changed(tmp_path, "net_conv_naive", rename))
    require_equal(results(block, "net_conv_naive"), "net_conv_naive")


REFUSED = {
    "no graph": (lambda n: n.pop("subgraphs"), "subgraphs"),
    "two graphs": (lambda n: n["subgraphs"].append(n["subgraphs"][0]), "has 1 subgraph"),
    "a flag that contradicts": (
        lambda n: n["attrs"].update(with_sum="true"),
        "attribute with_sum is True, but the subgraph does not have it",
    ),
    "an unknown attribute": (lambda n: n["attrs"].update(colour="red"), "unknown attribute colour"),
    "a range that is not a number": (
        lambda n: n["attrs"].update(min_calib_range="nan"),
        "min_calib_range takes finite",
    ),
    "another layer": (
        lambda n: n["subgraphs"][0]["nodes"][-1].update(op="tanh", attrs={}),
        "_sg_mkldnn_conv",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_fused_node_of_another_form_is_refused(tmp_path, what):
    change, says = REFUSED[what]
    path = changed(tmp_path, "net_conv_naive", lambda graph: change(fused(graph)))
    with pytest.raises(MXNetError, match=says):
        block_of("net_conv_naive", path)


def test_training_is_refused():
    block = block_of("net_conv_naive")
    x = nd.array(arrays_of("net_conv_naive")["data"])
    for hybridize in (False, True):
        block.hybridize(hybridize)
        with pytest.raises(NoGradientError, match="quantized networks are for inference"):
            with autograd.record():
                y = block(x).sum()
            y.backward()
