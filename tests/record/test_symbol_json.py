"""Graph files: reproduced to the byte, old ones brought up to date, wrong ones refused by name."""

import json
import os
from pathlib import Path

import pytest

import hybridjit as mx
from hybridjit.errors import AttributeValueError, ModelFormatError, MXNetError, UnknownOpError
from hybridjit.formats.mxnet import symbol_json
from hybridjit.io import checkpoint
from hybridjit.ir.node import topological

FILES = Path(__file__).parent.parent / "fixtures" / "symbols"
# Written by MXNet 1.9.1; `old_*` by hand after older versions, `*_upgraded` by MXNet from those.
CURRENT = sorted(p.stem for p in FILES.glob("*.json") if not p.stem.startswith("old_"))
UPGRADED = sorted(p.stem for p in FILES.glob("old_*_upgraded.json"))

DATA = {"op": "null", "name": "data", "inputs": []}
THIS = {"mxnet_version": ["int", 10901]}


def document(*nodes, heads=None, **top):
    """JSON of ``data`` followed by these nodes; the last one is the output."""
    nodes = [DATA, *nodes]
    whole = {"nodes": nodes, "arg_nodes": [0], "heads": heads or [[len(nodes) - 1, 0, 0]]}
    return json.dumps({**whole, "attrs": THIS, **top})


def node(op, name="n", inputs=((0, 0, 0),), **attrs):
    return {"op": op, "name": name, "attrs": attrs, "inputs": [list(i) for i in inputs]}


def nodes_of(text):
    return {n.name: n for n in topological(symbol_json.loads(text))}


class TestBytes:
    @pytest.mark.parametrize("name", CURRENT + UPGRADED)
    def test_read_and_written_again(self, name):
        text = (FILES / f"{name}.json").read_text(encoding="utf-8")
        assert symbol_json.dumps(symbol_json.loads(text)) == text

    def test_there_are_files(self):
        assert len(CURRENT) >= 19 and len(UPGRADED) == 3

    @pytest.mark.parametrize("name", UPGRADED)
    def test_old_files_are_upgraded_as_by_mxnet(self, name):
        outputs = symbol_json.load(FILES / f"{name.removesuffix('_upgraded')}.json")
        assert symbol_json.dumps(outputs) == (FILES / f"{name}.json").read_text()

    def test_composed_graph(self):
        data = mx.sym.var("data")
        bn = mx.sym.BatchNorm(data, name="bn", fix_gamma=True)
        fc = mx.sym.FullyConnected(bn, num_hidden=7, name="fc")
        out = mx.sym.SoftmaxOutput(fc, name="softmax")
        assert out.tojson() == (FILES / "fc_bn_legacy.json").read_text()

    def test_saved_files_equal_mxnets(self, tmp_path):
        path = str(tmp_path / "a-symbol.json")
        text = (FILES / "net_se.json").read_text()
        mx.sym.load_json(text).save(path)
        assert Path(path).read_text() == text
        assert mx.sym.load(path).tojson() == text

    def test_casts_of_mixed_precision_are_left_out(self):
        cast = node("amp_cast", "c", dtype="float16")
        multi = node("amp_multicast", "m", [(1, 0, 0), (0, 0, 0)], num_outputs="2")
        add = node("elemwise_add", "a", [(2, 0, 0), (2, 1, 0)])
        outputs = symbol_json.loads(document(cast, multi, add))
        plain = symbol_json.dumps(
            symbol_json.loads(document(node("elemwise_add", "a", [(0, 0)] * 2)))
        )
        assert symbol_json.dumps(outputs) == plain
        kept = symbol_json.dumps(outputs, remove_amp_cast=False)
        assert '"amp_cast"' in kept and '"amp_multicast"' in kept
        assert symbol_json.dumps(symbol_json.loads(kept), remove_amp_cast=False) == kept


class TestReading:
    def test_repeated_names_are_different_nodes(self):
        text = document(node("relu", "same"), node("tanh", "same", [(1, 0, 0)]))
        (head,) = symbol_json.loads(text)
        assert head.node.op.name == "tanh" and head.node.inputs[0].node.op.name == "relu"

    def test_text_of_attributes_is_kept(self):
        text = document(node("Reshape", shape="[0,  -1]", __note__="x"))
        found = nodes_of(text)["n"]
        assert dict(found.text) == {"shape": "[0,  -1]", "__note__": "x"}
        assert found.attrs["shape"] == (0, -1)

    @pytest.mark.parametrize(
        "old, now",
        [
            ("_PlusScalar", "_plus_scalar"),
            ("_RDivScalar", "_rdiv_scalar"),
            ("_MulScalar", "_mul_scalar"),
            ("_EqualScalar", "_equal_scalar"),
        ],
    )
    def test_old_names(self, old, now):
        assert nodes_of(document(node(old, scalar="2")))["n"].op.name == now

    def test_softmax_is_softmax_output(self):
        text = document(node("Softmax", "s", [(0, 0, 0), (0, 0, 0)]))
        assert nodes_of(text)["s"].op.name == "SoftmaxOutput"

    def test_small_crop_is_slice(self):
        text = document(node("crop", "c", begin="(0,)", end="(1,)"))
        assert nodes_of(text)["c"].op.name == "slice"

    def test_two_element_entries_and_ignored_keys(self):
        extra = {**node("relu", inputs=[(0, 0)]), "control_deps": [0], "backward_source_id": -1}
        assert nodes_of(document(extra, heads=[[1, 0]], node_row_ptr=[7]))["n"].op.name == "relu"

    def test_same_output_twice(self):
        heads = symbol_json.loads(document(node("relu"), heads=[[1, 0, 0], [0, 0, 0], [1, 0, 0]]))
        assert heads[0] == heads[2] and heads[1].node.is_variable

    def test_newer_version_warns(self):
        with pytest.warns(UserWarning, match="MXNet version 20000, newer than 10901"):
            symbol_json.loads(document(attrs={"mxnet_version": ["int", 20000]}))

    def test_graph_attributes_of_np_shape(self):
        text = document(node("relu"), attrs={**THIS, "is_np_shape": ["int", 1]})
        assert nodes_of(text)["n"].op.name == "relu"

    def test_control_characters_in_names(self):
        text = document(node("relu", "a\tb")).replace("\\t", "\t")
        assert "a\tb" in nodes_of(text)


NO_OP = node("NoSuchOp", "bad")
REFUSED = {
    "not json": ("hello", "not JSON: Expecting value"),
    "not an object": ("[]", "the document must be an object, got []"),
    "cut": (document()[:-9], "not JSON"),
    "extra key": (document(foo=1), "Unknown field 'foo' in the document"),
    "no nodes": ('{"arg_nodes": [], "heads": []}', "the document has no nodes"),
    "no arg_nodes": ('{"nodes": [], "heads": []}', "the document has no arg_nodes"),
    "no heads": ('{"nodes": [], "arg_nodes": []}', "the document has no heads"),
    "nodes type": (document(nodes={}), "nodes must be a list, got {}"),
    "node type": (document(7), "node 1 must be an object, got 7"),
    "heads type": (document(heads=3), "heads must be a list, got 3"),
    "empty heads": (
        '{"nodes": [], "arg_nodes": [], "heads": []}',
        "the graph does not have outputs",
    ),
    "head range": (document(heads=[[1, 0, 0]]), "head 0 refers to node 1; the range is 0 to 0"),
    "head output": (document(heads=[[0, 1, 0]]), "head 0 names output 1 of node 0 'data', which"),
    "head length": (document(heads=[[0, 0, 0, 0]]), "head 0 must be [node, output, version], got"),
    "head bool": (document(heads=[[False, 0, 0]]), "head 0 must be [node, output, version], got"),
    "arg range": (document(arg_nodes=[4]), "arg_nodes refers to 4; the graph has 1 nodes"),
    "arg op": (
        document(node("relu"), arg_nodes=[1]),
        "arg_nodes refers to node 1 'n', which is not",
    ),
    "version": (document(attrs={"mxnet_version": "1.9"}), "mxnet_version must be"),
    "node key": (document({**DATA, "foo": 1}), "Unknown field 'foo' in node 1"),
    "no op": (document({"name": "x", "inputs": []}), "node 1 'x' has no op"),
    "no name": (document({"op": "relu", "inputs": []}), "node 1 has no name"),
    "no inputs": (document({"op": "null", "name": "x"}), "node 1 'x' has no inputs"),
    "attr number": (
        document({**DATA, "name": "x", "attrs": {"a": 1}}),
        "attribute 'a' of node 1 'x' must be a string, got 1",
    ),
    "attrs list": (document({**DATA, "attrs": []}), "attrs of node 1 'data' must be an object"),
    "variable inputs": (
        document({**DATA, "name": "v", "inputs": [[0, 0, 0]]}),
        "node 1 'v' is a variable, but has 1 inputs",
    ),
    "self": (document(node("relu", inputs=[(1, 0, 0)])), "input 0 of node 1 'n' refers to node 1"),
    "forward": (
        document(node("relu", inputs=[(2, 0, 0)]), node("relu", "m", [(1, 0, 0)])),
        "input 0 of node 1 'n' refers to node 2; the range is 0 to 0",
    ),
    "negative": (document(node("relu", inputs=[(-1, 0, 0)])), "refers to node -1"),
    "negative output": (document(node("relu", inputs=[(0, -1, 0)])), "has a negative number"),
    "float index": (document(node("relu", inputs=[(0.0, 0, 0)])), "[node, output, version]"),
    "output": (
        document(node("relu"), node("relu", "m", [(1, 1, 0)])),
        "input 0 of node 2 'm' names output 1 of node 1 'n', which has 1",
    ),
    "many digits": (document(heads=[[0, 0, 10**30]]), "number of 31 digits"),
    "long name": (
        document({**DATA, "name": "x" * 5000}),
        "has 5000 characters, at most 4096 are allowed",
    ),
    "half surrogate": (document({**DATA, "name": "\ud800"}), "half of a surrogate pair"),
    "not utf-8": (b"\xff\xfe", "not UTF-8 at byte 0"),
    "nesting": ("[" * 100_000, "nested too deeply"),
}


class TestRefusing:
    @pytest.mark.parametrize("case", REFUSED)
    def test_malformed_files_raise_with_a_reason(self, case):
        text, message = REFUSED[case]
        with pytest.raises(ModelFormatError) as caught:
            symbol_json.loads(text)
        assert "Invalid symbol file: " in str(caught.value)
        assert message in str(caught.value)

    def test_names_the_file(self, tmp_path):
        path = tmp_path / "net-symbol.json"
        path.write_text("{}")
        with pytest.raises(ModelFormatError, match=r"has no nodes \(in .*net-symbol\.json\)"):
            symbol_json.load(path)

    def test_missing_file(self, tmp_path):
        with pytest.raises(MXNetError, match="nowhere.json: No such file or directory"):
            symbol_json.load(tmp_path / "nowhere.json")

    def test_every_unknown_operator_is_listed(self):
        text = document(NO_OP, node("relu"), node("Foo", "f"), {**NO_OP, "name": "bad2"})
        with pytest.raises(UnknownOpError) as caught:
            symbol_json.loads(text)
        message = str(caught.value)
        assert "Operator NoSuchOp is not registered" in message
        assert "node 1 'bad', node 4 'bad2'" in message
        assert "Operator Foo is not registered" in message and "node 3 'f'" in message

    def test_long_lists_of_unknown_operators_are_cut(self):
        text = document(*(node(f"NoSuch{i % 50}", f"n{i}") for i in range(2000)))
        with pytest.raises(UnknownOpError) as caught:
            symbol_json.loads(text)
        assert len(str(caught.value)) < 20_000

    def test_fused_operators_of_another_backend(self):
        text = document({**node("_sg_other_conv", "c"), "subgraphs": [{}]})
        with pytest.raises(UnknownOpError, match="fused for another backend"):
            symbol_json.loads(text)

    def test_unknown_attribute(self):
        with pytest.raises(AttributeValueError) as caught:
            symbol_json.loads(document(node("Reshape", "r", foo="1")))
        message = str(caught.value)
        assert "node 1 'r'" in message and "Reshape" in message and "foo" in message

    def test_wrong_attribute(self):
        with pytest.raises(AttributeValueError, match=r"node 1 'r': .*axis.*'1\.0'"):
            symbol_json.loads(document(node("softmax", "r", axis="1.0")))

    def test_missing_attribute(self):
        text = document(node("FullyConnected", "f", [(0, 0, 0)] * 3))
        with pytest.raises(AttributeValueError, match="node 1 'f': .*num_hidden"):
            symbol_json.loads(text)

    def test_number_of_inputs(self):
        with pytest.raises(MXNetError, match="expects 2 inputs .*but got 1 instead"):
            symbol_json.loads(document(node("elemwise_add")))

    @pytest.mark.parametrize(
        "op, attrs",
        [("Concat", {"num_args": "9" * 9}), ("SliceChannel", {"num_outputs": "9" * 9})],
    )
    def test_counts_that_would_fill_the_memory(self, op, attrs):
        with pytest.raises(AttributeValueError, match="must be between 1 and 16384, got 999999999"):
            symbol_json.loads(document(node(op, **attrs)))

    def test_attribute_of_a_current_file_is_not_upgraded(self):
        with pytest.raises(AttributeValueError, match="lr_mult"):
            symbol_json.loads(document(node("softmax", lr_mult="1")))

    def test_too_many_nodes(self):
        text = document(*[DATA] * 40_000)
        with pytest.raises(ModelFormatError, match="the graph has more than 32768 nodes"):
            symbol_json.loads(text)

    def test_text_that_parses_to_too_much(self):
        text = '{"node_row_ptr": [' + ",".join(["{}"] * 400_000) + "]}"
        with pytest.raises(ModelFormatError, match="would need more than"):
            symbol_json.loads(text)

    @pytest.mark.parametrize("wrong", [3, None, Path("x")])
    def test_arguments_that_are_not_strings_raise(self, wrong):
        symbol = mx.sym.var("a")
        for call in (mx.sym.load, mx.sym.load_json, symbol.save):
            with pytest.raises(TypeError, match="string"):
                call(wrong)


class TestCheckpoint:
    def test_round_trip(self, tmp_path):
        prefix = str(tmp_path / "net")
        dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
        symbol = mx.sym.BatchNorm(dense, name="bn")
        ones = mx.nd.ones((2,))
        checkpoint.save_checkpoint(prefix, 3, symbol, {"fc_bias": ones}, {"bn_moving_mean": ones})
        assert sorted(os.listdir(tmp_path)) == ["net-0003.params", "net-symbol.json"]
        assert list(mx.nd.load(prefix + "-0003.params")) == ["arg:fc_bias", "aux:bn_moving_mean"]
        read, args, aux = checkpoint.load_checkpoint(prefix, 3)
        assert read.tojson() == symbol.tojson()
        assert list(args) == ["fc_bias"] and list(aux) == ["bn_moving_mean"]
        assert aux["bn_moving_mean"].asnumpy().tolist() == [1, 1]

    def test_without_a_graph(self, tmp_path):
        prefix = str(tmp_path / "net")
        checkpoint.save_checkpoint(prefix, 0, None, {"w": mx.nd.ones((1,))}, {})
        assert os.listdir(tmp_path) == ["net-0000.params"]
        args, aux = checkpoint.load_params(prefix, 0)
        assert list(args) == ["w"] and aux == {}

    def test_checkpoint_arrays_are_split_by_prefix(self, tmp_path):
        prefix = str(tmp_path / "net")
        one = mx.nd.ones((1,))
        mx.nd.save(prefix + "-0001.params", {"arg:a": one, "other:b": one})
        assert [list(arrays) for arrays in checkpoint.load_params(prefix, 1)] == [["a"], []]
        mx.nd.save(prefix + "-0002.params", {"a": one})
        with pytest.raises(ModelFormatError, match="'a' starts with neither arg: nor aux:"):
            checkpoint.load_params(prefix, 2)
        mx.nd.save(prefix + "-0003.params", [one])
        with pytest.raises(ModelFormatError, match="a checkpoint has names"):
            checkpoint.load_params(prefix, 3)

    def test_an_empty_checkpoint_loads_with_a_warning(self, tmp_path, caplog):
        prefix = str(tmp_path / "net")
        mx.nd.save(prefix + "-0001.params", {})
        assert checkpoint.load_params(prefix, 1) == ({}, {})
        assert "is empty" in caplog.text

    def test_a_missing_checkpoint_raises(self, tmp_path):
        with pytest.raises(MXNetError, match="net-symbol.json: No such file or directory"):
            checkpoint.load_checkpoint(str(tmp_path / "net"), 0)
