"""Training loops over executors, by MXNet's private names; values and names are MXNet 1.9.1's."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import executor_manager, nd, sym
from hybridjit._core import image_codecs as picture
from hybridjit.io import DataBatch, DataDesc
from hybridjit.mod import base_module, executor_group, module
from hybridjit.mod.executor_group import DataParallelExecutorGroup
from hybridjit.model import (
    _create_kvstore,
    _initialize_kvstore,
    _update_params,
    _update_params_on_kvstore,
)

DATA, LABEL = DataDesc("data", (4, 5)), DataDesc("softmax_label", (4,))
NAMES = ["fc_weight", "fc_bias"]


@pytest.mark.parametrize(
    "size, loads, ends", [(10, [1, 1, 1], [3, 6, 10]), (7, [1, 2], [2, 7]), (5, [1, 1], [2, 5])]
)
def test_samples_are_shared_in_proportion(size, loads, ends):
    slices = executor_manager._split_input_slice(size, loads)
    assert [part.stop for part in slices] == ends
    assert [part.start for part in slices] == [0, *ends[:-1]]


def test_a_device_without_samples_is_refused():
    with pytest.raises(ValueError, match="Too many slices"):
        executor_manager._split_input_slice(1, [1, 1])


def test_arrays_are_loaded_into_slices():
    x, parts = nd.arange(12).reshape((4, 3)), [nd.zeros((1, 3)), nd.zeros((3, 3))]
    targets = [(slice(0, 1), parts[0]), (slice(1, 4), parts[1])]
    executor_manager._load_general([x], [targets])
    np.testing.assert_array_equal(np.concatenate([p.asnumpy() for p in parts]), x.asnumpy())
    whole = nd.zeros((4, 3))
    executor_group._load_general([x], [whole], [0])
    np.testing.assert_array_equal(whole.asnumpy(), x.asnumpy())


def test_names_of_arguments_are_checked():
    net = network()
    base_module._check_input_names(net, ["data"], "data", True)
    with pytest.raises(ValueError, match="input with name 'x' is not found"):
        base_module._check_input_names(net, ["x"], "data", True)
    with pytest.warns(UserWarning, match="'x' is not found"):
        base_module._check_input_names(net, ["x"], "data", False)
    found = base_module._parse_data_desc(["data"], [], [("data", (4, 5))], None)
    assert found == ([DATA], None)
    with pytest.raises(ValueError, match="don't match names"):
        base_module._parse_data_desc(["x"], [], [("data", (4, 5))], None)
    assert base_module._as_list(1) == [1] and base_module._as_list([1]) == [1]
    executor_manager._check_arguments(net)
    with pytest.raises(ValueError, match='duplicated name "a"'):
        executor_manager._check_arguments(sym.var("a") + sym.var("a"))
    assert module.load_checkpoint is mx.model.load_checkpoint


def test_stores_are_made_where_devices_need_them():
    params = {"w": nd.ones((2,))}
    made = [_create_kvstore(*given, params) for given in ((None, 1), ("local", 1), ("device", 2))]
    assert [(store and store.type, updates) for store, updates in made] == [
        *[(None, False)] * 2,
        ("device", True),
    ]
    with pytest.raises(TypeError, match="kvstore must be KVStore, str or None"):
        _create_kvstore(3, 1, params)


@pytest.mark.parametrize("on_store", [True, False])
def test_parameters_are_updated_on_two_devices(on_store):
    weights = [[nd.ones((2,)), nd.ones((2,))], [nd.ones((3,)) * 2, nd.ones((3,)) * 2]]
    grads = [[nd.ones((2,)) * 0.5, nd.ones((2,)) * 0.25], [None, None]]
    args = {"a": weights[0][0] + 1, "b": weights[1][0] + 1}
    store, _ = _create_kvstore("local", 2, args)
    optimizer = mx.optimizer.create("sgd", learning_rate=1.0)
    if on_store:
        store.set_optimizer(optimizer)
    _initialize_kvstore(store, weights, args, ["a", "b"], on_store)
    if on_store:
        _update_params_on_kvstore(weights, grads, store, ["a", "b"])
    else:
        _update_params(weights, grads, mx.optimizer.get_updater(optimizer), 2, store, ["a", "b"])
    found = [[x.asnumpy()[0] for x in copies] for copies in weights]
    assert found == ([[1.25, 1.25], [3, 3]] if on_store else [[0.25, 0.25], [2, 2]])


def network() -> sym.Symbol:
    hidden = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    return sym.SoftmaxOutput(hidden, name="softmax")


def group(contexts: int, for_training=True, needs_grad=False, **options):
    made = DataParallelExecutorGroup(
        *(network(), [mx.cpu(i) for i in range(contexts)], [1] * contexts),
        *([DATA], [LABEL], NAMES, for_training, needs_grad),
        **options,
    )
    weight = nd.array(np.linspace(-1, 1, 15).reshape(3, 5))
    made.set_params({"fc_weight": weight, "fc_bias": nd.array([0.1, 0.2, 0.3])}, {})
    return made


BATCH = DataBatch(
    [nd.array(np.sin(np.arange(20)).reshape(4, 5))], [nd.array([0, 1, 2, 1])], provide_data=[DATA]
)
FIRST = [0.1034, 0.2572, 0.6394]


@pytest.mark.parametrize("contexts", [1, 2])
def test_a_group_of_executors(contexts):
    made = group(contexts, needs_grad=True)
    made.forward(BATCH)
    (outputs,) = made.get_outputs()
    np.testing.assert_allclose(outputs.asnumpy()[0], FIRST, atol=1e-4)
    (parts,) = made.get_outputs(merge_multi_context=False)
    assert [x.shape for x in parts] == [(4 // contexts, 3)] * contexts
    made.backward()
    (by_data,) = made.get_input_grads()
    np.testing.assert_allclose(
        by_data.asnumpy()[:, 0], [1.0971, 0.3033, -0.8903, -0.3299], atol=1e-4
    )
    by_weight = sum(x.asnumpy() for x in made.grad_arrays[0])
    slope = outputs.asnumpy() - np.eye(3)[[0, 1, 2, 1]]
    np.testing.assert_allclose(by_weight, slope.T @ BATCH.data[0].asnumpy(), rtol=1e-4, atol=1e-5)
    metric = mx.metric.create("acc")
    made.update_metric(metric, BATCH.label)
    assert metric.get() == ("accuracy", 0)
    values = {"fc_weight": nd.zeros((3, 5)), "fc_bias": nd.zeros((3,))}
    made.get_params(values, {})
    np.testing.assert_allclose(values["fc_bias"].asnumpy(), [0.1, 0.2, 0.3], rtol=1e-6)


def test_a_group_is_reshaped_and_keeps_its_parameters():
    made = group(1)
    made.reshape([DataDesc("data", (2, 5))], [DataDesc("softmax_label", (2,))])
    made.forward(DataBatch([BATCH.data[0][:2]], [BATCH.label[0][:2]]), is_train=False)
    (outputs,) = made.get_outputs()
    assert outputs.shape == (2, 3)
    np.testing.assert_allclose(outputs.asnumpy()[0], FIRST, atol=1e-4)


def test_a_group_trains_only_requested_parameters():
    fixed = group(1, fixed_param_names=["fc_bias"])
    assert [x[0] is None for x in fixed.grad_arrays] == [False, True]
    predicting = group(1, for_training=False)
    assert predicting.grad_arrays is None
    with pytest.raises(AssertionError, match="for_training"):
        predicting.backward()
    shared = DataParallelExecutorGroup(
        *(network(), [mx.cpu()], None, [DATA], [LABEL], NAMES, True, False, fixed)
    )
    assert shared.param_arrays[0][0] is fixed.param_arrays[0][0]


def test_metrics_of_losses_have_other_names():
    for name in ("caffe", "torch"):
        metric = mx.metric.create(name)
        metric.update(None, [nd.array([1, 3])])
        assert metric.get() == (name, 2)
    assert type(mx.metric.create("caffe")) is mx.metric.Caffe
    assert issubclass(mx.metric.Torch, mx.metric.Loss)


def test_initializers_load_files(tmp_path):
    nd.save(str(tmp_path / "a.params"), {"x": nd.ones((2,))})
    assert mx.init.load(str(tmp_path / "a.params"))["x"].asnumpy().tolist() == [1, 1]


def test_models_are_found_or_asked_for(tmp_path):
    known = {"net": {"symbol": "http://x/a-symbol.json", "params": "http://x/a-0000.params"}}
    download = mx.test_utils.download_model
    assert download("nothing", str(tmp_path)) == (None, 0)
    with pytest.raises(mx.MXNetError, match="save http://x/a-symbol.json as .*net-symbol"):
        download("net", str(tmp_path), known)
    with pytest.raises(mx.MXNetError, match="resnet-18-symbol.json as"):
        download("imagenet1k-resnet-18", str(tmp_path))
    for ending in ("-symbol.json", "-0000.params"):
        (tmp_path / f"net{ending}").write_text("")
    assert download("net", str(tmp_path), known) == (str(tmp_path / "net"), 0)


class Metric:
    def __init__(self):
        self.resets = 0

    def get_name_value(self):
        return [("acc", 0.5), ("loss", 2.0)]

    def reset(self):
        self.resets += 1


def test_metrics_are_written_for_tensorboard(monkeypatch, caplog):
    made = []

    class SummaryWriter:
        def __init__(self, folder):
            made.append(folder)

        def add_scalar(self, *given, global_step):
            made.append((*given, global_step))

    param = mx.callback.BatchEndParam(3, 1, Metric(), None)
    monkeypatch.setitem(sys.modules, "mxboard", None)
    missing = mx.contrib.tensorboard.LogMetricsCallback("logs")
    assert "pip install mxboard" in caplog.text
    with pytest.raises(ImportError, match="pip install mxboard"):
        missing(param)
    monkeypatch.setitem(sys.modules, "mxboard", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    mx.contrib.tensorboard.LogMetricsCallback("logs", prefix="train")(param)
    assert made == ["logs", ("train-acc", 0.5, 3), ("train-loss", 2.0, 3)]


class Table:
    """As much of a pandas.DataFrame as the callback uses."""

    def __init__(self):
        self.columns, self.rows = [], []
        self.loc = self

    def __len__(self):
        return len(self.rows)

    def __setitem__(self, key, value):
        if isinstance(key, str):
            self.columns.append(key)
        else:
            self.rows.append(value)


def test_a_notebook_keeps_tables_of_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=Table))
    callback = mx.notebook.callback
    logger = callback.PandasLogger(batch_size=8, frequent=2)
    arguments = callback.args_wrapper(logger)
    metric = Metric()
    for number in range(3):
        (after_batch,) = arguments["batch_end_callback"]
        after_batch(mx.callback.BatchEndParam(0, number, metric, None))
    arguments["eval_end_callback"][0](mx.callback.BatchEndParam(0, 2, metric, None))
    arguments["epoch_end_callback"][0](0, None, None, None)
    assert [row["minibatch_count"] for row in logger.train_df.rows] == [0, 2]
    assert metric.resets == 3 and logger.train_df.rows[0]["acc"] == 0.5
    assert len(logger.eval_df) == len(logger.epoch_df) == 1
    assert set(logger.epoch_df.columns) == {"elapsed", "epoch_time"}


def test_a_notebook_draws_a_learning_curve(monkeypatch):
    drawn = []

    class Figure:
        yaxis = types.SimpleNamespace(axis_label="")

        def line(self, x, y, **style):
            drawn.append((x, y))

    shown = types.SimpleNamespace(figure=lambda **given: Figure(), show=lambda *a, **k: "handle")
    page = types.SimpleNamespace(output_notebook=lambda: None, push_notebook=lambda handle: None)
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=Table))
    monkeypatch.setitem(sys.modules, "bokeh.plotting", shown)
    monkeypatch.setitem(sys.modules, "bokeh.io", page)
    curve = mx.notebook.callback.LiveLearningCurve("acc", display_freq=0, frequent=1)
    curve.batch_cb(mx.callback.BatchEndParam(0, 0, Metric(), None))
    curve.eval_cb(mx.callback.BatchEndParam(0, 0, Metric(), None))
    assert [y for _, y in drawn] == [[0.5], [0.5]]
    assert [len(x) for x, _ in drawn] == [1, 1]


def test_bucketing_modules_are_converted():
    def bucket(key):
        data = sym.var("data")
        hidden = sym.FullyConnected(data, num_hidden=4, flatten=False, name="fc")
        return sym.sum(hidden, axis=1, name="sum"), ["data"], None

    given = mx.mod.BucketingModule(bucket, default_bucket_key=6)
    given.bind([("data", (2, 6, 3))], for_training=False)
    given.init_params(mx.init.Uniform(1))
    converted = mx.contrib.amp.convert_bucketing_module(given, "bfloat16")
    converted.bind([("data", (2, 6, 3))], for_training=False)
    for key in (6, 4):
        x = nd.random.uniform(shape=(2, key, 3))
        batch = DataBatch([x], bucket_key=key, provide_data=[("data", (2, key, 3))])
        given.forward(batch)
        converted.forward(batch)
        expected, found = (m.get_outputs()[0].asnumpy() for m in (given, converted))
        np.testing.assert_allclose(found, expected, atol=0.05)
    with pytest.raises(mx.MXNetError, match="target_dtype must be 'bfloat16'"):
        mx.contrib.amp.convert_bucketing_module(given)


def test_pictures_are_decoded_channels_first(monkeypatch):
    pixels = (np.arange(60).reshape(4, 5, 3) * 3).astype(np.uint8)
    monkeypatch.setattr(
        picture, "decoded", lambda data, colour: pixels if colour else pixels[..., :1]
    )
    found = nd.imdecode(b"x")
    assert found.shape == (3, 4, 5) and found.dtype == np.uint8
    np.testing.assert_array_equal(found.asnumpy(), pixels[:, :, ::-1].transpose(2, 0, 1))
    part = nd.imdecode(b"x", clip_rect=(1, 1, 3, 4))
    np.testing.assert_array_equal(part.asnumpy(), found.asnumpy()[:, 1:4, 1:3])
    centred = nd.imdecode(b"x", mean=nd.ones((3, 4, 5)))
    np.testing.assert_array_equal(centred.asnumpy(), found.asnumpy() - np.float32(1))
    batch = nd.zeros((2, 3, 4, 5))
    assert nd.imdecode(b"x", out=batch, index=1) is batch
    np.testing.assert_array_equal(batch[1].asnumpy(), found.asnumpy())
    assert nd.imdecode(b"x", channels=1).shape == (1, 4, 5)
    with pytest.raises(mx.MXNetError, match="clip_rect .* inside the image of 5 x 4"):
        nd.imdecode(b"x", clip_rect=(0, 0, 9, 9))
