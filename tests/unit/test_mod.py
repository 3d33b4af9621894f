"""Modules, the iterators that feed them, checkpoints, FeedForward; all for inference."""

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import io, sym
from hybridjit.mod import BucketingModule, Module, SequentialModule

X = np.arange(20, dtype=np.float32).reshape(10, 2)
Y = np.arange(10, dtype=np.float32) % 3


@pytest.fixture
def net():
    hidden = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc1")
    hidden = sym.BatchNorm(hidden, fix_gamma=False, name="bn")
    hidden = sym.Dropout(sym.relu(hidden), p=0.5)
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


def values(net, shape):
    args, _, auxs = net.infer_shape(data=shape)
    draw = np.random.default_rng(3).uniform
    named = zip(net.list_arguments(), args)
    inputs = ("data", "softmax_label")
    return (
        {n: mx.nd.array(draw(-1, 1, s)) for n, s in named if n not in inputs},
        {n: mx.nd.array(draw(1, 2, s)) for n, s in zip(net.list_auxiliary_states(), auxs)},
    )


@pytest.fixture
def module(net):
    found = Module(net)
    found.bind([("data", (4, 2))], [("softmax_label", (4,))], for_training=False)
    found.set_params(*values(net, (4, 2)))
    return found


def expected(net, x):
    args, auxs = values(net, (4, 2))
    label = mx.nd.zeros((len(x),))
    return net.eval(data=mx.nd.array(x), softmax_label=label, **args, **auxs)[0].asnumpy()


def assert_close(found, wanted):
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


# ---- modules ------------------------------------------------------------------------------------


def test_forward_takes_any_batch_size_and_casts_to_the_bound_type(module, net):
    for count in (4, 3, 7):
        module.forward(io.DataBatch([mx.nd.array(X[:count], dtype="float64")]))
        assert_close(module.get_outputs()[0], expected(net, X[:count]))
    assert module.data_shapes[0].shape == (7, 2)
    assert module.output_shapes == [("softmax_output", (7, 3))]
    assert module.label_shapes[0].shape == (7,)


def test_shapes_are_lists_or_tuples_of_a_name_and_a_shape(net):
    module = Module(net)
    module.bind([["data", (4, 2)]], [["softmax_label", (4,)]])
    assert module.data_shapes == [("data", (4, 2))]
    for given in (("data", (4, 2)), [(4, 2)], [[4, 2]], [[]]):
        with pytest.raises(TypeError, match="shapes are a list of names with shapes"):
            Module(net).bind(given)


def test_a_batch_has_as_many_arrays_as_are_bound(module):
    """Said before any array is looked at, and whatever is wrong the bound shapes stay."""
    x = mx.nd.array(X[:3])
    for data in ([], None, [x, x]):
        count = len(data or ())
        with pytest.raises(
            ValueError, match=f"the batch has {count} arrays, the module is bound to 1"
        ):
            module.forward(io.DataBatch(data))
    assert module.data_shapes[0].shape == (4, 2)


def test_parameters_that_programs_sync(module, net):
    module._sync_params_from_devices()
    args, auxs = values(net, (4, 2))
    assert module._arg_params.keys() == args.keys()
    assert module._aux_params.keys() == auxs.keys()
    assert_close(module._arg_params["fc1_weight"], args["fc1_weight"].asnumpy())
    module.set_params({**args, "fc1_bias": args["fc1_bias"] + 1}, auxs)
    module._sync_params_from_devices()
    assert_close(module._arg_params["fc1_bias"], args["fc1_bias"].asnumpy() + 1)


def test_exec_group_has_mxnets_attributes(module, net):
    assert Module(net)._exec_group is None
    module.forward(io.DataBatch([mx.nd.array(X[:4])], [mx.nd.array(Y[:4])]))
    group = module._exec_group
    args, auxs = module.get_params()
    assert group.param_names == list(args) and group.aux_names == list(auxs)
    assert group.arg_names == net.list_arguments() and group.output_names == net.list_outputs()
    assert (group.data_names, group.label_names) == (["data"], ["softmax_label"])
    assert (group.batch_size, group.slices, group.contexts) == (4, [slice(0, 4)], [mx.cpu()])
    [[(place, data)]] = group.data_arrays
    assert place == slice(0, 4) and (data.asnumpy() == X[:4]).all()
    assert (group.label_arrays[0][0][1].asnumpy() == Y[:4]).all()
    assert group.grad_arrays is None and set(group.execs[0].grad_dict.values()) == {None}
    group.param_arrays[group.param_names.index("fc2_bias")][0][:] = 7
    assert (module.get_params()[0]["fc2_bias"].asnumpy() == 7).all()
    [executor] = group.execs
    assert set(executor.arg_dict) == set(net.list_arguments())
    assert (
        executor.aux_dict["bn_moving_var"]
        is group.aux_arrays[group.aux_names.index("bn_moving_var")][0]
    )
    assert_close(executor.outputs[0], module.get_outputs()[0].asnumpy())
    [found] = executor.forward(data=X[1:5])
    assert_close(found, module.get_outputs()[0].asnumpy())
    assert found is executor.output_dict["softmax_output"]
    with pytest.raises(TypeError, match="Unknown argument x"):
        executor.forward(x=X)


def test_gradients_inside_of_a_module_bound_for_training(net):
    module = Module(net, fixed_param_names=["fc1_weight"])
    module.bind([("data", (4, 2))], [("softmax_label", (4,))])
    found = dict(zip(module._exec_group.param_names, module._exec_group.grad_arrays))
    assert found.pop("fc1_weight") == [None]
    for name, [grad] in found.items():
        assert grad.shape == module.arg_dict[name].shape


def test_predict_omits_padding_of_the_last_batch(module, net):
    batches = io.NDArrayIter(X, Y, 4)
    assert_close(module.predict(batches), expected(net, X))
    parts = module.predict(batches, merge_batches=False)
    assert [out.shape for (out,) in parts] == [(4, 3), (4, 3), (2, 3)]
    assert module.predict(batches, num_batch=1).shape == (4, 3)
    numbers = [(n, batch.pad) for _, n, batch in module.iter_predict(batches)]
    assert numbers == [(0, 0), (1, 0), (2, 2)]
    with pytest.raises(ValueError, match="NDArray or DataIter"):
        module.predict([1])


def test_score_counts_by_metric(module, net):
    right = expected(net, X).argmax(1) == Y
    seen = []
    found = module.score(
        io.NDArrayIter(X, Y, 5), ["acc", "ce"], batch_end_callback=lambda p: seen.append(p.nbatch)
    )
    assert found[0] == ("accuracy", right.mean())
    assert found[1][0] == "cross-entropy"
    assert seen == [0, 1]


def test_bind_sets_the_default_mode_of_forward(net):
    module = Module(net)
    module.bind([("data", (400, 2))], [("softmax_label", (400,))])
    module.set_params(*values(net, (4, 2)))
    batch = io.DataBatch([mx.nd.ones((400, 2))])
    module.forward(batch)
    assert len(np.unique(module.get_outputs()[0].asnumpy(), axis=0)) > 1
    module.forward(batch, is_train=False)
    assert len(np.unique(module.get_outputs()[0].asnumpy(), axis=0)) == 1


def test_checkpoints_load_without_label_names(module, net, tmp_path):
    prefix = str(tmp_path / "m")
    module.save_checkpoint(prefix, 3)
    again = Module.load(prefix, 3, label_names=None)
    again.bind([("data", (2, 2))], for_training=False)
    assert_close(again.predict(X), expected(net, X))
    assert again.get_params()[0].keys() == module.get_params()[0].keys()
    old = mx.model.FeedForward.load(prefix, 3)
    np.testing.assert_allclose(old.predict(X), expected(net, X), rtol=1e-5)
    assert old.score(io.NDArrayIter(X, Y, 5)) == module.score(io.NDArrayIter(X, Y, 5), "acc")[0][1]


def test_parameters_are_checked(module, net):
    args, auxs = values(net, (4, 2))
    with pytest.raises(RuntimeError, match="fc2_bias is not presented"):
        module.set_params({n: a for n, a in args.items() if n != "fc2_bias"}, auxs)
    with pytest.raises(ValueError, match='Find name "zz"'):
        module.set_params({"zz": args["fc2_bias"]}, {}, allow_missing=True)
    with pytest.raises(mx.MXNetError, match=r"fc2_bias has shape \(3,\).*\(4,\)"):
        module.set_params({"fc2_bias": mx.nd.ones((4,))}, {}, allow_missing=True)
    with pytest.warns(UserWarning, match="already initialized"):
        module.init_params()
    module.init_params(mx.init.One(), force_init=True)
    assert module.get_params()[0]["fc1_weight"].asnumpy().sum() == 8


def test_a_module_without_values_says_so(net):
    module = Module(net, label_names=None)
    module.bind([("data", (4, 2))], for_training=False)
    module.params_initialized = True
    with pytest.raises(mx.MXNetError, match="parameters without values: bn_beta, bn_gamma"):
        module.forward(io.DataBatch([mx.nd.ones((4, 2))]))


def test_names_are_checked(net):
    with pytest.raises(ValueError, match="'x' is not found.*Did you mean"):
        Module(net, data_names=["x"])
    with pytest.raises(ValueError, match="data_shapes don't match"):
        Module(net).bind([("x", (4, 2))])
    with pytest.raises(AssertionError, match="call bind first"):
        _ = Module(net).data_shapes


def test_several_contexts_share_one_computation(net):
    module = Module(net, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 2))], [("softmax_label", (4,))], for_training=False)
    module.set_params(*values(net, (4, 2)))
    module.forward(io.DataBatch([mx.nd.array(X[:4])]))
    (parts,) = module.get_outputs(merge_multi_context=False)
    assert [part.shape for part in parts] == [(2, 3), (2, 3)]


def test_states_are_inputs_that_stay():
    total = sym.var("data") + sym.var("state")
    module = Module(total, label_names=None, state_names=["state"])
    module.bind([("data", (2,))], for_training=False)
    module.init_params()
    module.set_states(value=3)
    module.forward(io.DataBatch([mx.nd.ones((2,))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [4, 4]


def bucket(key):
    rows = sym.Embedding(sym.var("data"), input_dim=7, output_dim=3, name="emb")
    return sym.FullyConnected(sym.sum(rows, axis=1), num_hidden=2, name="fc"), ("data",), None


def batch_of(key):
    data = mx.nd.array(np.arange(2 * key).reshape(2, key) % 7)
    return io.DataBatch([data], bucket_key=key, provide_data=[io.DataDesc("data", (2, key))])


def test_buckets_share_their_parameters(tmp_path):
    module = BucketingModule(bucket, default_bucket_key=5)
    module.bind([("data", (2, 5))], for_training=False)
    module.init_params(mx.init.Normal(1))
    args, _ = module.get_params()
    found = {}
    for key in (3, 5, 4):
        module.forward(batch_of(key))
        found[key] = module.get_outputs()[0].asnumpy()
        table = args["emb_weight"].asnumpy()[batch_of(key).data[0].asnumpy().astype(int)].sum(1)
        wanted = table @ args["fc_weight"].asnumpy().T + args["fc_bias"].asnumpy()
        np.testing.assert_allclose(found[key], wanted, rtol=1e-4, atol=1e-5)
    prefix = str(tmp_path / "b")
    module.save_checkpoint(prefix, 1)
    assert module._curr_module._exec_group.data_names == ["data"]
    again = BucketingModule.load(prefix, 1, bucket, 5)
    again.bind([("data", (2, 5))], for_training=False)
    again.forward(batch_of(3))
    assert_close(again.get_outputs()[0], found[3])


def test_names_that_sockeye_reads_of_a_module_of_buckets():
    module = BucketingModule(bucket, default_bucket_key=5, fixed_param_names=["emb_weight"])
    assert module._fixed_param_names == ["emb_weight"]


def test_modules_in_a_row():
    first = sym.FullyConnected(sym.var("data"), num_hidden=4, name="a")
    second = sym.SoftmaxOutput(
        sym.FullyConnected(sym.var("data"), num_hidden=3, name="b"), name="softmax"
    )
    row = SequentialModule().add(Module(first, label_names=None))
    row.add(Module(second), take_labels=True, auto_wiring=True)
    row.bind([("data", (5, 2))], [("softmax_label", (5,))], for_training=False)
    row.init_params(mx.init.Normal(1))
    params = {name: a.asnumpy() for name, a in row.get_params()[0].items()}
    hidden = X @ params["a_weight"].T + params["a_bias"]
    scores = hidden @ params["b_weight"].T + params["b_bias"]
    right = (scores.argmax(1) == Y).mean()
    assert row.score(io.NDArrayIter(X, Y, 5), "acc") == [("accuracy", right)]
    with pytest.raises(AssertionError, match="Unknown meta"):
        row.add(Module(first, label_names=None), other=1)


# ---- iterators ----------------------------------------------------------------------------------


def rows(batches):
    return [batch.data[0].asnumpy()[:, 0].astype(int).tolist() for batch in batches]


def test_the_last_batch_is_padded_discarded_or_rolled_over():
    data = np.arange(7, dtype=np.float32).reshape(7, 1)
    padded = io.NDArrayIter(data, batch_size=3)
    assert rows(padded) == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    assert padded.getpad() == 5  # past the end
    assert rows(io.NDArrayIter(data, batch_size=3, last_batch_handle="discard")) == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    rolled = io.NDArrayIter(data, batch_size=3, last_batch_handle="roll_over")
    assert rows(rolled) == [[0, 1, 2], [3, 4, 5]]
    rolled.reset()
    assert rows(rolled) == [[6, 0, 1], [2, 3, 4]]
    rolled.reset()
    assert rows(rolled) == [[5, 6, 0], [1, 2, 3], [4, 5, 6]]
    assert rows(io.NDArrayIter(data, batch_size=9)) == [[0, 1, 2, 3, 4, 5, 6, 0, 1]]


@pytest.mark.parametrize("handle", ["pad", "roll_over"])
def test_csr_arrays_are_refused_where_a_batch_joins_both_ends(handle):
    rows = mx.nd.array(np.eye(7)).tostype("csr")
    with pytest.raises(NotImplementedError, match="last_batch_handle='discard'"):
        io.NDArrayIter({"words": rows}, batch_size=3, last_batch_handle=handle)
    with pytest.raises(NotImplementedError, match="csr arrays .softmax_label."):
        io.NDArrayIter(np.zeros((7, 1)), rows, batch_size=3, last_batch_handle=handle)
    assert len([*io.NDArrayIter(rows, batch_size=3, last_batch_handle="discard")]) == 2


def test_shuffling_keeps_labels_with_their_data():
    np.random.seed(1)
    shuffled = io.NDArrayIter({"b": X, "a": X * 2}, Y, 10, shuffle=True)
    (batch,) = list(shuffled)
    order = (batch.data[1].asnumpy()[:, 0] / 2).astype(int)
    assert sorted(order) == list(range(10)) and list(order) != list(range(10))
    np.testing.assert_array_equal(batch.data[0].asnumpy(), X[order] * 2)
    np.testing.assert_array_equal(batch.label[0].asnumpy(), Y[order])
    assert [d.name for d in shuffled.provide_data] == ["a", "b"]


def test_descriptions_and_other_iterators():
    desc = io.DataDesc("x", (2, 3), "int8", "NC")
    assert repr(desc) == "DataDesc[x,(2, 3),int8,NC]" and desc == ("x", (2, 3))
    again = io.ResizeIter(io.NDArrayIter(X, Y, 4), 5)
    assert [b.pad for b in again] == [0, 0, 2, 0, 0]
    both = io.PrefetchingIter(
        [io.NDArrayIter(X, Y, 5), io.NDArrayIter(X, Y, 5)],
        rename_data=[{"data": "left"}, {"data": "right"}],
    )
    assert [d.name for d in both.provide_data] == ["left", "right"]
    assert [len(b.data) for b in both] == [2, 2]
    with pytest.raises(TypeError, match="Input must be"):
        io.NDArrayIter("abc")


def test_parts_of_the_outputs_lie_along_the_batch_axis():
    x = sym.var("data")
    both = sym.Group([sym.relu(x, attr={"__layout__": "TNC"}), sym.sum(x)])
    module = mx.mod.Module(both, label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([mx.io.DataDesc("data", (3, 5, 2), layout="TNC")], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.ones((3, 5, 2))]))
    rows, total = module.get_outputs(merge_multi_context=False)
    assert [part.shape for part in rows] == [(3, 2, 2), (3, 3, 2)]
    assert [part.asscalar() for part in total] == [30, 30]
