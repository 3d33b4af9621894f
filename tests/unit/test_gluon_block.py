"""Block: attributes, children, parameters by path, hooks, summary, containers and files."""

import copy
import json
import pickle
import warnings

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon
from hybridjit.gluon import nn
from hybridjit.gluon.contrib import nn as contrib


def small(prefix=None):
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(nn.Dense(3, in_units=4), nn.BatchNorm(in_channels=3), nn.Dense(2))
    return net


@pytest.fixture
def x():
    return mx.nd.array(np.linspace(-1, 1, 8).reshape(2, 4))


@pytest.fixture
def net(x):
    net = small()
    net.initialize()
    net(x)
    return net


class Owner(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="body_")
            with self.body.name_scope():
                self.body.add(nn.Dense(3), nn.HybridSequential())
            self.fc = nn.Dense(2)
            self.w = self.params.get("w", shape=(2, 2))


# ---- attributes and children --------------------------------------------------------------------


def test_children_and_paths():
    owner = Owner(prefix="o_")
    assert list(owner._children) == ["body", "fc"]
    assert list(owner._collect_params_with_prefix()) == [
        "w", "body.0.weight", "body.0.bias", "fc.weight", "fc.bias",
    ]  # fmt: skip
    assert list(owner.params) == ["o_w"]
    owner.register_child(nn.Dense(1))
    assert list(owner._children) == ["body", "fc", "2"]


def test_select_matches_from_the_start():
    owner = Owner(prefix="o_")
    assert list(owner.collect_params("weight")) == []
    assert list(owner.collect_params(".*weight|.*_w")) == [
        "o_w", "o_body_dense0_weight", "o_dense0_weight",
    ]  # fmt: skip


def test_repr_nests():
    assert repr(Owner()) == (
        "Owner(\n"
        "  (body): HybridSequential(\n"
        "    (0): Dense(None -> 3, linear)\n"
        "    (1): HybridSequential(\n"
        "    \n"
        "    )\n"
        "  )\n"
        "  (fc): Dense(None -> 2, linear)\n"
        ")"
    )


def test_attributes_keep_their_kind():
    owner = Owner()
    for name, value in (("fc", 3), ("fc", nn.Sequential()), ("w", 3)):
        with pytest.raises(TypeError, match=f"Changing attribute type for {name} from"):
            setattr(owner, name, value)
    with pytest.raises(AssertionError, match="Overriding Parameter attribute w is not allowed"):
        owner.w = gluon.Parameter("w")
    owner.fc = replacement = nn.Dense(4)
    assert owner._children["fc"] is replacement


def test_hybrid_blocks_take_hybrid_children_only():
    net = nn.HybridSequential()
    with pytest.raises(ValueError, match="must also be HybridBlock, but Lambda.relu. has type"):
        net.add(nn.Dense(2), nn.Lambda("relu"))
    assert len(net) == 1
    owner = Owner()
    with pytest.raises(ValueError, match="please try HybridSequential instead"):
        owner.q = nn.Sequential()
    assert not hasattr(owner, "q")


@pytest.mark.parametrize("container", [[nn.Dense(2)], {"k": [nn.Dense(2)]}])
def test_blocks_in_plain_containers_are_warned_of(container):
    owner = Owner()
    owner.extra = container
    with pytest.warns(UserWarning, match='"Owner.extra" is an unregistered container with Blocks'):
        owner.collect_params()


def test_abstract_methods_raise(x):
    for block in (gluon.Block(), gluon.HybridBlock()):
        with pytest.raises(NotImplementedError):
            block(x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'; the inputs are 'x'"):
        nn.Dense(3)(y=x)


def test_apply_goes_children_first(net):
    seen = []
    assert net.apply(lambda block: seen.append(block.name)) is net
    assert seen == [*(child.name for child in net), net.name]


def test_cast_keeps_batchnorm_in_float32_with_float16(net, x):
    net.cast("float16")
    kinds = {p.dtype for n, p in net.collect_params().items() if "batchnorm" in n}
    assert kinds == {"float32"}
    assert net[0].weight.data().dtype is np.float16
    net.cast("float64")
    assert net(x.astype("float64")).dtype is np.float64


def test_cast_before_the_first_call(x):
    net = small()
    net.cast(np.float64)
    net.initialize()
    assert net(x.astype("float64")).dtype is np.float64


# ---- containers ---------------------------------------------------------------------------------


def test_sequence_manners():
    net = nn.HybridSequential(prefix="q_")
    net.add(nn.Dense(2), nn.Dense(3))
    assert len(net) == 2
    assert [b.name for b in net] == [net[0].name, net[-1].name]
    part = net[0:1]
    assert (type(part), part.prefix, part[0]) == (nn.HybridSequential, "q_", net[0])
    with pytest.raises(IndexError):
        net[7]


@pytest.mark.parametrize("kind", [nn.Sequential, nn.HybridSequential])
def test_an_empty_container_is_the_identity(kind, x):
    assert kind()(x) is x


def test_sequential_suggests_the_hybrid_one():
    net = nn.Sequential(prefix="s_")
    net.add(nn.Dense(2))
    with pytest.warns(UserWarning, match="All children of this Sequential layer 's_' are Hybrid"):
        net.hybridize()
    assert net[0]._active
    net.add(nn.Lambda("relu"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.hybridize()


def test_plain_blocks_run_their_hybrid_children_as_graphs(x):
    class Plain(gluon.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.fc = nn.Dense(2)
            self.f = nn.Lambda("relu")

        def forward(self, x):
            return self.f(self.fc(x))

    block = Plain()
    block.initialize()
    expected = block(x).asnumpy()
    block.hybridize()
    np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert block.fc._cached is not None


def test_lambda_errors():
    for kind, where in ((nn.Lambda, "ndarray"), (nn.HybridLambda, "symbol/ndarray")):
        with pytest.raises(AssertionError, match=f"Function name nosuch is not found in {where}"):
            kind("nosuch")
        with pytest.raises(ValueError, match="Unrecognized function in lambda: 3"):
            kind(3)
    assert repr(nn.Lambda(lambda x: x)) == "Lambda(<lambda>)"


def test_concurrent_concatenates_its_branches(x):
    block = contrib.Concurrent(axis=1)
    block.add(nn.Dense(3), contrib.Identity(), nn.Lambda("relu"))
    block.initialize()
    assert block(x).shape == (2, 11)


def test_sparse_embedding():
    block = contrib.SparseEmbedding(3, 4)
    block.initialize()
    found = block(mx.nd.array([2, 0])).asnumpy()
    np.testing.assert_array_equal(found, block.weight.data().asnumpy()[[2, 0]])


# ---- hooks --------------------------------------------------------------------------------------


def test_hooks_at_the_top_and_below(net, x):
    seen = []
    handles = [
        net.register_forward_pre_hook(lambda b, i: seen.append(("pre", type(i[0]).__name__))),
        net.register_forward_hook(lambda b, i, o: seen.append(("post", type(o).__name__))),
        net[0].register_forward_hook(lambda b, i, o: seen.append(("child", type(o).__name__))),
    ]
    net(x)
    assert seen == [("pre", "NDArray"), ("child", "NDArray"), ("post", "NDArray")]
    seen.clear()
    with pytest.warns(UserWarning, match="is being hybridized while still having forward hook"):
        net.hybridize()
    net(x)
    net(x)
    top = [("pre", "NDArray"), ("post", "NDArray")]
    assert seen == [top[0], ("child", "Symbol"), top[1], *top]
    seen.clear()
    for handle in (*handles, *handles):
        handle.detach()
    net(x)
    assert seen == []


def test_operator_hooks(net, x):
    seen = []
    net.register_op_hook(lambda name, op, array: seen.append((name.decode(), op, array.shape)))
    net(x)
    assert seen == []
    net.hybridize()
    net(x)
    first, second = net[0].name, net[2].name
    assert seen == [
        (f"{first}_fwd_output", "FullyConnected", (2, 3)),
        (f"{net[1].name}_fwd_output", "BatchNorm", (2, 3)),
        (f"{second}_fwd_output", "FullyConnected", (2, 2)),
    ]


def test_op_hooks_name_operands_as_mxnet_does():
    """An operand is called by its name where MXNet registered one, else it is counted."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3), nn.Activation("relu"), nn.LeakyReLU(0.1))
    net.initialize()
    net.hybridize()
    seen = []
    net.register_op_hook(lambda name, op, array: seen.append(str(name)), monitor_all=True)
    net(mx.nd.ones((2, 3)))
    assert seen == [
        "net_dense0_fwd_data",
        "net_dense0_fwd_weight",
        "net_dense0_fwd_bias",
        "net_dense0_fwd_output",
        "net_relu0_fwd_input0",
        "net_relu0_fwd_output",
        "net_leakyrelu0_fwd_data",
        "net_leakyrelu0_fwd_output",
    ]


# ---- summary ------------------------------------------------------------------------------------


def test_summary_prints_a_table(net, x, capsys):
    net.summary(x)
    assert capsys.readouterr().out == (
        "-" * 80 + "\n"
        "        Layer (type)                                Output Shape         Param #\n"
        + "=" * 80 + "\n"
        "               Input                                      (2, 4)               0\n"
        "             Dense-1                                      (2, 3)              15\n"
        "         BatchNorm-2                                      (2, 3)              12\n"
        "             Dense-3                                      (2, 2)               8\n"
        + "=" * 80 + "\n"
        "Parameters in forward computation graph, duplicate included\n"
        "   Total params: 35\n"
        "   Trainable params: 29\n"
        "   Non-trainable params: 6\n"
        "Shared params in forward computation graph: 0\n"
        "Unique parameters in model: 35\n" + "-" * 80 + "\n"
    )  # fmt: skip


def test_summary_of_nested_outputs_and_shared_parameters(x, capsys):
    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.a = nn.Dense(4, in_units=4)
            self.b = nn.Dense(4, in_units=4, params=self.a.params)

        def hybrid_forward(self, F, x, y):
            return self.a(x), [self.b(y), x]

    net = Net()
    net.initialize()
    net.summary(x, x)
    printed = capsys.readouterr().out
    assert f"{'Net-3':>20}  {'(2, 4), [(2, 4), (2, 4)]':>42} {0:>15}" in printed
    assert "Shared params in forward computation graph: 20" in printed
    assert not net._forward_hooks


def test_summary_needs_values_and_no_graph(x):
    with pytest.raises(RuntimeError, match="has not been initialized"):
        small().summary(x)
    net = small()
    net.initialize()
    net.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized to print summary"):
        net.summary(x)


# ---- files --------------------------------------------------------------------------------------


def test_save_and_load_by_path(net, x, tmp_path):
    path = str(tmp_path / "p")
    net.save_parameters(path)
    assert list(mx.nd.load(path)) == [
        "0.weight", "0.bias", "1.gamma", "1.beta", "1.running_mean", "1.running_var", "2.weight",
        "2.bias",
    ]  # fmt: skip
    other = small()
    other.load_parameters(path)
    np.testing.assert_array_equal(other(x).asnumpy(), net(x).asnumpy())


def test_loading_is_seen_by_hybridized_nets(net, x, tmp_path):
    path = str(tmp_path / "p")
    net.save_parameters(path)
    other = small()
    other.initialize(mx.init.One())
    other.hybridize()
    other(x)
    other.load_parameters(path)
    np.testing.assert_allclose(other(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_load_errors(net, tmp_path):
    path = str(tmp_path / "p")
    net.save_parameters(path)
    before = net[0].weight.data().asnumpy()
    longer = small()
    longer.add(nn.Dense(7))
    with pytest.raises(AssertionError, match=r"'3.weight' is missing in file .* '1.gamma', ..., "):
        longer.load_parameters(path)
    longer.load_parameters(path, allow_missing=True)
    shorter = nn.HybridSequential()
    shorter.add(nn.Dense(3))
    with pytest.raises(ValueError, match="'1.gamma' loaded from file .* is not present"):
        shorter.load_parameters(path)
    shorter.load_parameters(path, ignore_extra=True)
    assert shorter[0].weight.shape == (3, 4)
    wrong = nn.HybridSequential()
    wrong.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(2))
    with pytest.raises(AssertionError, match=r"expected \(4, 0\) vs saved \(3, 4\)"):
        wrong.load_parameters(path)
    with pytest.raises(mx.MXNetError, match="No such file"):
        net.load_parameters(str(tmp_path / "absent"))
    (tmp_path / "broken").write_bytes(b"not a parameter file")
    with pytest.raises(mx.MXNetError, match="Invalid NDArray file format"):
        net.load_parameters(str(tmp_path / "broken"))
    np.testing.assert_array_equal(net[0].weight.data().asnumpy(), before)


def test_saving_needs_values(tmp_path):
    net = small()
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net.save_parameters(str(tmp_path / "p"))
    net.initialize()
    with pytest.raises(gluon.parameter.DeferredInitializationError):
        net.save_parameters(str(tmp_path / "p"))
    assert not (tmp_path / "p").exists()


def test_shared_parameters_in_files(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=4))
    net.add(nn.Dense(4, in_units=4, params=net[0].params))
    net.initialize()
    path = str(tmp_path / "p")
    net.save_parameters(path)
    assert list(mx.nd.load(path)) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    net.save_parameters(path, deduplicate=True)
    assert list(mx.nd.load(path)) == ["1.weight", "1.bias"]
    net.load_parameters(path)


def test_files_of_full_names(net, tmp_path):
    path = str(tmp_path / "p")
    with pytest.warns(UserWarning, match="save_params is deprecated"):
        net.save_params(path)
    assert next(iter(mx.nd.load(path))) == "dense0_weight"
    with pytest.warns(UserWarning, match="load_params is deprecated"):
        net.load_params(path)
    with pytest.raises(AssertionError, match="'dense2_weight' is missing in file"):
        longer = small(net.prefix)
        with longer.name_scope():
            longer.add(nn.Dense(1))
        longer.load_parameters(path)


def test_a_file_of_full_names_needs_no_prefix_of_the_block(tmp_path):
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(2, in_units=3, prefix="a_"))
    net.initialize(mx.init.One())
    path = str(tmp_path / "p")
    net.collect_params().save(path)
    net.initialize(mx.init.Zero(), force_reinit=True)
    net.load_parameters(path)
    assert net[0].weight.data().asnumpy().all()
    mx.nd.save(path, {"w": mx.nd.ones((2, 3))})
    with pytest.raises(AssertionError, match="'a_weight' is missing in file: .*parameters: 'w'"):
        net.load_parameters(path)


def test_exported_parameters_load_into_their_network(net, x, tmp_path):
    net.hybridize()
    expected = net(x).asnumpy()
    _, path = net.export(str(tmp_path / "net"))
    net.initialize(mx.init.Zero(), force_reinit=True)
    net.load_parameters(path)
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


def test_a_lone_layer_by_attribute_name(tmp_path):
    class Scale(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.w = self.params.get("scale_weight", shape=(2,), init="ones")

    block = Scale()
    block.initialize()
    block.save_parameters(str(tmp_path / "p"))
    assert list(mx.nd.load(str(tmp_path / "p"))) == ["w"]
    block.load_parameters(str(tmp_path / "p"))


def test_save_and_load_of_a_model(net, x, tmp_path):
    net.hybridize()
    expected = net(x).asnumpy()
    net.save(str(tmp_path / "m"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m-model.json", "m-model.params"]
    other = small()
    other.load(str(tmp_path / "m"))
    assert other._active
    np.testing.assert_allclose(other(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    (tmp_path / "m-model.json").write_text("[]")
    with pytest.raises(mx.MXNetError, match="must describe exactly one block"):
        other.load(str(tmp_path / "m"))
    (tmp_path / "m-model.json").write_text('{"hybridsequential0": {"orig_name": 3}}')
    with pytest.raises(mx.MXNetError, match="hybridsequential0 is not a description of a block"):
        other.load(str(tmp_path / "m"))


class Named(gluon.Block):
    """A block whose children's keys hold their names, which count up with every net."""

    def __init__(self, *blocks):
        super().__init__()
        for block in blocks:
            self.register_child(block, f"{block.name}_{len(self._children)}")

    def forward(self, x):
        for child in self._children.values():
            x = child(x)
        return x


def test_a_model_is_paired_by_structure(x, tmp_path):
    def build():
        return Named(Named(nn.Dense(4)), small(), nn.Dense(2))

    net = build()
    net.initialize()
    net.hybridize()
    expected = net(x).asnumpy()
    net.save(str(tmp_path / "m"))
    build()
    other = build()
    assert list(other._children) != list(net._children)
    other.load(str(tmp_path / "m"))
    assert other.name == net.name
    assert list(other._children) == list(net._children)
    assert list(other.collect_params()) == list(net.collect_params())
    np.testing.assert_array_equal(other(x).asnumpy(), expected)
    graph = list(other._children.values())[1]
    assert graph._active
    graph.export(str(tmp_path / "g"))
    assert set(mx.nd.load(str(tmp_path / "g-0000.params"))) == {
        ("aux:" if "running" in name else "arg:") + name for name in graph.collect_params()
    }


def test_a_description_takes_no_more_memory_than_a_graph(net, tmp_path):
    net.save(str(tmp_path / "m"))
    for text, why in (
        ('{"a": [' + "{}," * 400_000 + "{}]}", "would need more than"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "not JSON"),
    ):
        (tmp_path / "m-model.json").write_text(text)
        with pytest.raises(mx.MXNetError, match=f"m-model.json: .*{why}"):
            small().load(str(tmp_path / "m"))


def test_a_saved_model_records_hybridization(net, x, tmp_path):
    net.hybridize()
    net.save(str(tmp_path / "m"))  # never called since
    [saved] = json.loads((tmp_path / "m-model.json").read_text()).values()
    assert saved["hybridized"] is False
    net(x)
    net.save(str(tmp_path / "m"))
    [(key, saved)] = json.loads((tmp_path / "m-model.json").read_text()).items()
    assert (key, saved["orig_name"]) == ("hybridsequential0", net.name)
    assert (saved["in_format"], saved["out_format"]) == ([0], 0)
    assert mx.sym.load_json(saved["symbol"]).list_inputs() == net._trace.symbol.list_inputs()
    assert [mx.sym.load_json(text).name for text in saved["inputs"]] == ["data"]
    assert list(saved)[-3:] == ["dense1", "batchnorm2", "dense3"]


def test_a_model_of_another_structure(net, tmp_path):
    net.save(str(tmp_path / "m"))
    other = nn.HybridSequential()
    other.add(nn.Dense(3, in_units=4), nn.LayerNorm(in_channels=3), nn.Dense(2))
    with pytest.raises(KeyError, match="has no block layernorm2"):
        other.load(str(tmp_path / "m"))


def test_a_model_with_shared_parameters(x, tmp_path):
    def build():
        first = nn.Dense(4, in_units=4)
        net = nn.HybridSequential()
        net.add(first, nn.Dense(4, in_units=4, params=first.params))
        return net

    net = build()
    net.initialize()
    net.save(str(tmp_path / "m"))
    other = build()
    other.load(str(tmp_path / "m"))
    other.hybridize()
    np.testing.assert_allclose(other(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)
    assert list(other.collect_params()) == list(net.collect_params())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_copies_are_independent(net, x, duplicate):
    net.hybridize()
    expected = net(x).asnumpy()
    other = duplicate(net)
    np.testing.assert_array_equal(other(x).asnumpy(), expected)
    other.initialize(mx.init.Zero(), force_reinit=True)
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


# ---- utils --------------------------------------------------------------------------------------


def test_split_data():
    data = mx.nd.arange(24).reshape((6, 4))
    split = gluon.utils.split_data
    assert [p.shape for p in split(data, 3)] == [(2, 4)] * 3
    assert [p.shape for p in split(data, 2, batch_axis=1)] == [(6, 2)] * 2
    assert [len(p) for p in split(data, 4, even_split=False)] == [2, 2, 1, 1]
    with pytest.raises(ValueError, match="cannot be evenly split into 4"):
        split(data, 4)
    assert [p.shape for p in split(data[:1], 2, even_split=False)] == [(1, 4), (0, 4)]


def test_split_and_load():
    parts = gluon.utils.split_and_load(np.ones((4, 2)), [mx.cpu(0), mx.cpu(1)])
    assert [(p.shape, p.context) for p in parts] == [((2, 2), mx.cpu(0)), ((2, 2), mx.cpu(1))]


def test_check_sha1(tmp_path):
    (tmp_path / "f").write_text("abc")
    digest = "a9993e364706816aba3e25717850c26c9cd0d89d"
    assert gluon.utils.check_sha1(str(tmp_path / "f"), digest)
    assert not gluon.utils.check_sha1(str(tmp_path / "f"), digest[::-1])
    with pytest.raises(FileNotFoundError):
        gluon.utils.check_sha1(str(tmp_path / "none"), digest)
    with pytest.raises(FileNotFoundError):
        gluon.data.vision.ImageFolderDataset(str(tmp_path / "none"))
