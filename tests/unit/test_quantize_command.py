"""``hybridjit quantize`` and ``--precision int8``: data, files, agreement of commands, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit._core.config import override
from hybridjit.cli import main
from hybridjit.formats.onnx.messages import read_model
from hybridjit.gluon import calibration, nn

SHAPE = (3, 8, 8)


class Residual(gluon.HybridBlock):
    """Two convolutions, of which one has a batch norm, their sum, and a dense layer."""

    def __init__(self) -> None:
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first = nn.Conv2D(8, 3, padding=1, in_channels=3, use_bias=False, prefix="first_")
            self.norm = nn.BatchNorm(in_channels=8, prefix="norm_")
            self.second = nn.Conv2D(8, 3, padding=1, in_channels=8, prefix="second_")
            self.last = nn.Dense(5, in_units=8, prefix="last_")

    def hybrid_forward(self, F, x):
        y = F.relu(self.norm(self.first(x)))
        y = F.relu(self.second(y) + y)
        return self.last(F.Pooling(y, global_pool=True, pool_type="avg"))


LAYERS = ("net_first_fwd", "net_second_fwd", "net_last_fwd")


def pictures(count: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *SHAPE)).astype(np.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The network's files, and calibration data."""
    folder = tmp_path_factory.mktemp("quantize")
    mx.random.seed(5)
    net = Residual()
    net.initialize(mx.init.Xavier())
    with mx.autograd.train_mode():
        net(nd.array(pictures(64, 1)))
    net.hybridize()
    net(nd.array(pictures()))
    net.export(str(folder / "net"))
    np.savez(folder / "data.npz", data=pictures(), label=np.zeros(12))
    np.save(folder / "x.npy", pictures(4, 2))
    (folder / "batches").mkdir()
    for i in (0, 6):
        np.save(folder / "batches" / f"{i}.npy", pictures()[i : i + 6])
    return folder


@pytest.fixture
def printed(capsys):
    def run(*words: object, code: int = 0) -> str:
        try:
            found = main(list(map(str, words)))
        except SystemExit as leaving:
            found = leaving.code
        out, err = capsys.readouterr()
        assert found == code and "Traceback" not in err, (found, err)
        return err if code else out

    return run


@pytest.fixture
def ranges(files, printed, tmp_path) -> Path:
    printed("quantize", files / "net", "--calibration", files / "data.npz", "--out", tmp_path / "q")
    return tmp_path / "q-ranges.json"


def quantized(files: Path, **flags: object) -> gluon.SymbolBlock:
    net = mx.load(files / "net")
    net.hybridize(precision="int8", **{"calibration": nd.array(pictures()), **flags})
    return net


def test_the_table_has_the_ranges_of_calibrate(files, ranges):
    wanted = calibration.calibrate(mx.load(files / "net"), [nd.array(pictures())])
    assert calibration.read_ranges(ranges) == wanted and tuple(wanted) == LAYERS


@pytest.mark.parametrize(
    "words", [["--calibration", "batches"], ["--input", "data.npy"], ["--batch", 5]]
)
def test_each_form_of_data_gives_the_same_table(words, files, ranges, printed, tmp_path):
    np.save(tmp_path / "data.npy", pictures())
    shutil.copytree(files / "batches", tmp_path / "batches")
    given = [tmp_path / w if str(w) in ("batches", "data.npy") else w for w in words]
    if "--batch" in words:
        given += ["--calibration", files / "data.npz"]
    printed("quantize", files / "net", *given, "--out", tmp_path / "again")
    found = calibration.read_ranges(tmp_path / "again-ranges.json")
    for name, ends in calibration.read_ranges(ranges).items():
        np.testing.assert_allclose(found[name], ends, rtol=1e-5)


def test_entropy_cuts_rare_large_values(files, printed, tmp_path):
    data = pictures(32)
    data[0, 0, 0, 0] = 100
    np.save(tmp_path / "data.npy", data)
    words = ("quantize", files / "net", "--calibration", tmp_path / "data.npy", "--out")
    printed(*words, tmp_path / "naive")
    printed(*words, tmp_path / "entropy", "--mode", "entropy")
    naive, entropy = (
        calibration.read_ranges(tmp_path / f"{mode}-ranges.json") for mode in ("naive", "entropy")
    )
    assert naive["net_first_fwd"][1] == 100 > entropy["net_first_fwd"][1]
    assert entropy["net_first_fwd"][0] == -entropy["net_first_fwd"][1]
    assert entropy["net_second_fwd"][0] == 0


def test_entropy_of_zeros_is_a_range_of_zero(files):
    table = calibration.calibrate(mx.load(files / "net"), [nd.zeros((2, *SHAPE))], mode="entropy")
    assert table["net_first_fwd"] == (0.0, 0.0)
    with pytest.raises(ValueError, match="mode is one of 'naive', 'entropy', got 'best'"):
        calibration.calibrate(mx.load(files / "net"), [], mode="best")


def test_the_onnx_file_has_int8_weights_and_the_networks_results(files, printed, tmp_path):
    words = ("--calibration", files / "data.npz", "--onnx", "--out", tmp_path / "q")
    assert "q.onnx" in printed("quantize", files / "net", *words)
    graph = read_model((tmp_path / "q.onnx").read_bytes()).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("QuantizeLinear") == 3 and kinds.count("DequantizeLinear") == 6
    assert "BatchNormalization" not in kinds
    again = mx.load(tmp_path / "q.onnx")
    for count in (1, 4):
        x = nd.array(pictures(count, 2))
        wanted = quantized(files)(x).asnumpy()
        np.testing.assert_allclose(again(x).asnumpy(), wanted, atol=0.05 * np.abs(wanted).max())


def test_the_onnx_file_excludes_layers(files, printed, tmp_path):
    words = ("--calibration", files / "data.npz", "--onnx", "--out", tmp_path / "q")
    out = printed("quantize", files / "net", *words, "--exclude", "net_last_fwd")
    assert "FullyConnected 'net_last_fwd': exclude names it" in out
    graph = read_model((tmp_path / "q.onnx").read_bytes()).graph
    assert [node.op_type for node in graph.node].count("QuantizeLinear") == 2
    assert set(calibration.read_ranges(tmp_path / "q-ranges.json")) == {*LAYERS[:2]}


@pytest.mark.filterwarnings("ignore:_sg_mkldnn_conv")
def test_mxnets_files_are_those_of_its_quantization(files, printed, tmp_path):
    words = ("--calibration", files / "data.npz", "--mxnet", "--out", tmp_path / "q")
    printed("quantize", files / "net", *words)
    nodes = json.loads((tmp_path / "q-symbol.json").read_text())["nodes"]
    kinds = [node["op"] for node in nodes]
    assert kinds.count("_sg_mkldnn_conv") == 2 and "_contrib_quantize_v2" in kinds
    x = nd.array(pictures(4, 2))
    wanted = mx.load(files / "net")(x).asnumpy()
    found = mx.load(tmp_path / "q")(x).asnumpy()
    assert np.abs(found - wanted).max() < 0.5 * wanted.std()


def test_commands_agree_on_the_quantized_network(files, ranges, printed, tmp_path):
    eight = ("--precision", "int8", "--calibration", ranges)
    model, given = files / "net", ("--input", files / "x.npy")
    x = nd.array(np.load(files / "x.npy"))
    printed("run", model, *given, *eight, "--output", tmp_path / "y.npy")
    wanted = quantized(files)(x).asnumpy()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)
    assert "agrees with eager" in printed("verify", model, *given, *eight)
    assert "_integer_convolution" in printed("dump", model, *given, *eight, "--after", "fuse")
    seconds = ("--seconds", 0.01)
    assert "on " in printed("bench", model, *given, *eight, *seconds)
    assert "net_second_fwd:sums" in printed("profile", model, *given, *eight, *seconds)
    assert "_integer_dense" in printed("view", model, *given, *eight, "--json")
    assert "objects compiled" in printed(
        "compile", model, *given, *eight, "--cache", tmp_path / "cache"
    )


@pytest.mark.skipif(not shutil.which("cc"), reason="a C compiler is not installed")
def test_a_library_has_the_bits_of_the_network(files, ranges, printed, tmp_path):
    words = ("--precision", "int8", "--calibration", ranges, "--library", tmp_path)
    printed("compile", files / "net", "--shape", "data=N,3,8,8", *words)
    x = np.load(files / "x.npy")
    found = mx.library.load(str(tmp_path / "net.so"))(x)
    np.testing.assert_array_equal(found, quantized(files)(nd.array(x)).asnumpy())


def test_explain_lists_products_in_floating_point(files, capsys):
    net = quantized(files, exclude=["net_last_fwd"])
    with override(explain=True):
        net(nd.array(pictures(2)))
    said = capsys.readouterr().err
    assert "in floating point: FullyConnected 'net_last_fwd': exclude names it" in said
    assert "'net_second_fwd'" not in said.partition("compile graph")[0]


BAD_DATA = {
    "shape": (np.zeros((4, 5, 8, 8), np.float32), 1, "net_first"),
    "nan": (np.full((4, *SHAPE), np.nan, np.float32), 1, "data that are not finite"),
    "no samples": (np.zeros((0, *SHAPE), np.float32), 2, "same number of samples"),
    "text": (np.array(["a"]), 1, "must contain arrays of"),
}


@pytest.mark.parametrize("what", BAD_DATA)
def test_bad_data_is_refused_and_nothing_is_written(what, files, printed, tmp_path):
    array, code, says = BAD_DATA[what]
    np.save(tmp_path / "bad.npy", array)
    words = ("quantize", files / "net", "--calibration", tmp_path / "bad.npy")
    assert says in printed(*words, "--out", tmp_path / "q", code=code)
    assert not (tmp_path / "q-ranges.json").exists()


BAD_WORDS = {
    "no data": ([], 2, "give typical inputs"),
    "two sources": (["--calibration", "data.npz", "--input", "x.npy"], 2, "give typical inputs"),
    "no file": (["--calibration", "none.npz"], 1, "No such file"),
    "another format": (["--calibration", "net-symbol.json"], 2, "expected an .npz or .npy file"),
    "not an archive": (["--calibration", "fake.npz"], 1, "not a .npz file"),
    "an empty folder": (["--calibration", "empty"], 2, "has no .npy or .npz file"),
    "other names": (["--calibration", "named.npz"], 2, "no array for 'data'"),
    "an unknown layer": (["--calibration", "data.npz", "--exclude", "fc"], 1, "exclude names 'fc'"),
}


@pytest.mark.parametrize("what", BAD_WORDS)
def test_bad_words_of_quantize_are_refused(what, files, printed, tmp_path):
    words, code, says = BAD_WORDS[what]
    (files / "empty").mkdir(exist_ok=True)
    (files / "fake.npz").write_bytes(b"PK\3\4 none")
    np.savez(files / "named.npz", images=pictures(), labels=np.zeros(12))
    given = [word if word.startswith("--") or word == "fc" else files / word for word in words]
    assert says in printed("quantize", files / "net", *given, "--out", tmp_path / "q", code=code)


def test_a_network_without_layers_is_refused(printed, tmp_path):
    x = mx.sym.var("data")
    (x * 2).save(str(tmp_path / "twice-symbol.json"))
    nd.save(str(tmp_path / "twice-0000.params"), {"arg:none": nd.zeros(1)})
    np.save(tmp_path / "x.npy", pictures(2))
    words = ("quantize", tmp_path / "twice", "--calibration", tmp_path / "x.npy")
    assert "no convolution or dense layer" in printed(*words, code=1)


@pytest.mark.parametrize(
    "change, words, code, says",
    [
        (lambda t: t.pop("net_last_fwd"), [], 1, "no range for layer 'net_last_fwd'"),
        (lambda t: t.update(other=[0, 1]), [], 1, "'other', which is not a layer"),
        (lambda t: t.update(net_last_fwd=[1, 0]), [], 1, "from 1.0 down to 0.0"),
        (None, [], 1, "No such file"),
        (lambda t: None, ["--eager"], 2, "--precision needs a compiled graph"),
    ],
)
def test_a_bad_table_is_refused(change, words, code, says, files, ranges, printed):
    table = json.loads(ranges.read_text())
    ranges.unlink()
    if change is not None:
        change(table["ranges"])
        ranges.write_text(json.dumps(table))
    model = (files / "net", "--input", files / "x.npy", "--json", *words)
    assert says in printed("run", *model, "--precision", "int8", "--calibration", ranges, code=code)


def test_options_of_8_bits_that_exclude_each_other(files, ranges, printed):
    model, given = files / "net", ("--input", files / "x.npy")
    bits = ("--precision", "int8")
    assert "needs --calibration TABLE" in printed("verify", model, *given, *bits, code=2)
    said = printed("verify", model, *given, "--calibration", ranges, code=2)
    assert "need --precision int8" in said
    said = printed("verify", model, *given, *bits, "--calibration", ranges, "--train", code=2)
    assert "is not trained" in said


def test_products_of_values_that_are_never_negative_run_in_mxnets_files(printed, tmp_path):
    """MXNet multiplies int8 alone, and quantizes the sigmoid of swish to uint8."""
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Conv2D(4, 3, in_channels=3, prefix="net_first_"), nn.Swish())
    net.add(nn.Conv2D(4, 3, in_channels=4, prefix="net_second_"))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    wanted = net(nd.array(pictures())).asnumpy()
    net.export(str(tmp_path / "net"))
    np.save(tmp_path / "data.npy", pictures())
    given = ["--calibration", tmp_path / "data.npy", "--out", tmp_path / "small", "--mxnet"]
    printed("quantize", tmp_path / "net", *given)
    found = mx.load(tmp_path / "small")(nd.array(pictures())).asnumpy()
    assert 0 < np.abs(found - wanted).max() < 0.2 * wanted.std()
