"""Modules that programs import besides networks: viz, test_utils, util, base, runtime, registry,
context."""

import os
import re
import sys
import types

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import sym, test_utils, viz
from hybridjit.gluon import utils
from hybridjit.mod.base_module import BatchEndParam


@pytest.fixture
def net():
    hidden = sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=4, name="c")
    hidden = sym.BatchNorm(hidden, name="bn")
    hidden = sym.elemwise_add(hidden, sym.Activation(hidden, act_type="relu", name="r"), name="s")
    return sym.FullyConnected(sym.Flatten(hidden, name="f"), num_hidden=2, name="fc")


# ---- viz ----------------------------------------------------------------------------------------


def test_summary_of_a_symbol(net, capsys):
    viz.print_summary(net, shape={"data": (5, 3, 6, 6)}, line_length=60)
    lines = capsys.readouterr().out.splitlines()
    table = [line.split() for line in lines if line[0] not in "_="]
    assert table[1:3] == [["data(null)", "3x6x6", "0"], ["c(Convolution)", "4x4x4", "112", "data"]]
    assert table[3] == ["bn(BatchNorm)", "4x4x4", "8", "c"]
    assert table[5][-2:] == ["0", "bn"] and table[6] == ["r"]  # both operands of the sum
    assert lines[-2] == f"Total params: {112 + 8 + 2 * 65}"
    assert all(len(line) == 60 for line in lines if line[0] in "_=")
    viz.print_summary(sym.SoftmaxOutput(net, name="softmax"), shape={"data": (5, 3, 6, 6)})
    assert f"Total params: {112 + 8 + 2 * 65}" in capsys.readouterr().out  # no label among them
    with pytest.raises(ValueError, match="incomplete"):
        viz.print_summary(net, shape={})
    with pytest.raises(TypeError, match="must be Symbol"):
        viz.print_summary("net")


class Drawing:
    """The part of graphviz.Digraph that plot_network uses."""

    def __init__(self, name, format):
        self.nodes, self.edges = {}, {}

    def node(self, name, label, **look):
        self.nodes[name] = label, look

    def edge(self, tail_name, head_name, label, **look):
        self.edges[tail_name, head_name] = label


def test_drawing_of_a_symbol(net, monkeypatch):
    module = types.ModuleType("graphviz")
    module.Digraph = Drawing
    monkeypatch.setitem(sys.modules, "graphviz", module)
    shape, dtype = {"data": (5, 3, 6, 6)}, {"data": "float32"}
    drawn = viz.plot_network(net, shape=shape, dtype=dtype, node_attrs={"width": "2"})
    assert set(drawn.nodes) > {"data", "c", "bn", "r", "f", "fc"}
    assert "c_weight" not in drawn.nodes
    assert drawn.nodes["c"][0] == "Convolution\n3x3/1, 4" and drawn.nodes["c"][1]["width"] == "2"
    assert drawn.edges["c", "data"] == "3x6x6(float32)"
    assert "c_weight" in viz.plot_network(net, hide_weights=False).nodes


def test_drawing_needs_graphviz(net, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        viz.plot_network(net)


# ---- test_utils ---------------------------------------------------------------------------------


def test_comparisons_show_the_worst_place():
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    test_utils.assert_almost_equal(mx.nd.array(a), b + 5e-4)  # float32: 1e-3 by default
    b[1, 2], b[0, 0] = 4, 1
    with pytest.raises(AssertionError, match=r"2 of 6 elements.*\n +at \(1, 2\): left=.*0.*right"):
        test_utils.assert_almost_equal(a, b, names=("left", "right"))
    test_utils.assert_almost_equal_with_err(a, b, etol=0.4)
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal_with_err(a, b, etol=0.3)
    nan = np.array([1, np.nan])
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal(nan, nan)
    test_utils.assert_almost_equal(nan, nan, equal_nan=True)
    test_utils.assert_almost_equal_ignore_nan(nan, np.array([1, 2.0]))
    with pytest.raises(AssertionError, match="not equal"):
        test_utils.assert_almost_equal(a, a[None], use_broadcast=False)
    assert test_utils.same(mx.nd.array(a), a) and not test_utils.almost_equal(a, b)


def test_forward_checks_and_gradient_checks():
    total = sym.var("a") + sym.var("b")
    test_utils.check_symbolic_forward(total, {"a": np.ones(2), "b": np.ones(2)}, [np.full(2, 2.0)])
    with pytest.raises(AssertionError, match="FORWARD_"):
        test_utils.check_symbolic_forward(total, [np.ones(2), np.ones(2)], [np.ones(2)])
    with pytest.raises(ValueError, match="arguments of the symbol"):
        test_utils.check_symbolic_forward(total, {"a": np.ones(2)}, [np.ones(2)])
    assert test_utils.simple_forward(total, a=np.ones(2), b=np.ones(2)).tolist() == [2, 2]
    product = sym.var("a") * sym.var("b")
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    test_utils.check_numeric_gradient(product, [a, b], rtol=1e-2, atol=1e-3)
    ones = [np.ones(2)]
    for req in ("write", "add", "null", {"a": "add", "b": "write"}):
        test_utils.check_symbolic_backward(product, [a, b], ones, [b, a], grad_req=req)
    with pytest.raises(AssertionError, match="BACKWARD_b"):
        test_utils.check_symbolic_backward(product, {"a": a, "b": b}, ones, {"b": b})
    wrong = mx.sym.BlockGrad(sym.var("a")) * sym.var("b")
    with pytest.raises(AssertionError, match="NUMERICAL_a"):
        test_utils.check_numeric_gradient(wrong, [a, b], rtol=1e-2, atol=1e-3)
    test_utils.check_numeric_gradient(wrong, [a, b], rtol=1e-2, atol=1e-3, grad_nodes=["b"])


def test_a_symbol_computes_the_same_in_several_ways():
    a, b = sym.var("a"), sym.var("b")
    product = sym.elemwise_mul(a, sym.exp(b), name="y")
    ways = [
        {"ctx": mx.cpu(i), "a": (2, 3), "b": (2, 3), "type_dict": {"a": t, "b": t}}
        for i, t in enumerate(("float32", "float64", "float16"))
    ]
    given = {"b": np.ones((2, 3))}
    found = test_utils.check_consistency(product, ways, arg_params=given, use_uniform=True)
    assert found["a"].dtype == np.float64
    test_utils.assert_almost_equal(found["a"], product.eval(**_arrays(given))[0] * np.e, 1e-2, 1e-3)
    swapped = sym.elemwise_mul(sym.exp(a), b, name="y")
    with pytest.raises(AssertionError, match="differ"):
        test_utils.check_consistency([product, swapped], ways[:2])
    stopped = sym.elemwise_mul(sym.BlockGrad(a), sym.exp(b), name="y")
    test_utils.check_consistency([product, stopped], ways[:2], grad_req="null")
    with pytest.raises(AssertionError, match="differ"):
        test_utils.check_consistency([product, stopped], ways[:2])
    test_utils.check_consistency([product, stopped], ways[:2], raise_on_err=False)


def _arrays(given: dict[str, np.ndarray]) -> dict[str, mx.nd.NDArray]:
    return {name: mx.nd.array(values) for name, values in given.items()}


def test_a_net_computes_the_same_hybridized():
    data = [mx.nd.ones((3, 4))]
    test_utils.check_gluon_hybridize_consistency(lambda: mx.gluon.nn.Dense(2), data)

    class Stopped(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * x if F is mx.nd else F.BlockGrad(x) * x

    test_utils.check_gluon_hybridize_consistency(Stopped, data, test_grad=False)
    with pytest.raises(AssertionError, match="differ"):
        test_utils.check_gluon_hybridize_consistency(Stopped, data)


def test_speed_is_seconds_for_one_run():
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    for typ in ("whole", "forward"):
        assert 0 < test_utils.check_speed(net, N=2, typ=typ, data=(3, 4)) < 10
    given = {name: np.ones(shape) for name, shape in (("data", (3, 4)), ("fc_weight", (2, 4)))}
    assert test_utils.check_speed(net, {**given, "fc_bias": np.ones(2)}, N=2) > 0
    with pytest.raises(ValueError, match="got 'both'"):
        test_utils.check_speed(net, typ="both", data=(3, 4))


def test_generators_are_held_against_a_distribution():
    random = np.random.default_rng(0)
    buckets, probs = test_utils.gen_buckets_probs_with_ppf(lambda p: 2 * p, 5)
    assert buckets[1] == (0.4, 0.8) and probs == [0.2] * 5
    even, odd = (lambda n: random.uniform(0, 2, n)), (lambda n: random.uniform(0, 1.9, n))
    values = test_utils.verify_generator(even, buckets, probs, nsamples=20000)
    assert len(values) == 5 and max(values) > 0.05
    with pytest.raises(AssertionError, match="p="):
        test_utils.verify_generator(odd, buckets, probs, nsamples=20000)
    p, observed, expected = test_utils.chi_square_check(
        lambda n: np.repeat([1, 2, 3], [28, 42, 30]), [1, 2, 3], [0.3, 0.4, 0.3], 100
    )
    assert observed.tolist() == [28, 42, 30] and expected.tolist() == [30, 40, 30]
    assert p == pytest.approx(np.exp(-0.5 * (4 / 30 + 4 / 40)))  # two degrees of freedom
    p, _, _ = test_utils.chi_square_check(
        lambda n: np.repeat([0, 1], [40, 60]), [0, 1], [0.5] * 2, 100
    )
    assert p == pytest.approx(0.0455002639, rel=1e-6)  # one: more than two deviations
    assert test_utils.mean_check(even, 1, 0.5774, 20000)
    assert not test_utils.mean_check(even, 1.1, 0.5774, 20000)
    assert test_utils.var_check(even, 0.5774, 20000)
    assert not test_utils.var_check(even, 0.7, 20000)


def test_a_dummy_iterator_repeats_its_first_batch():
    batches = mx.io.NDArrayIter(np.arange(8).reshape(4, 2), batch_size=2)
    dummy = test_utils.DummyIter(batches)
    found = [dummy.next().data[0].asnumpy().tolist() for _ in range(4)]
    assert found == [[[0, 1], [2, 3]]] * 4 and dummy.provide_data == batches.provide_data


def test_names_that_a_star_import_brings():
    names: dict[str, object] = {}
    exec("from hybridjit.test_utils import *", names)
    assert names["array"] is mx.nd.array and names["np"] is np
    assert names["Context"] is mx.Context and names["Symbol"] is mx.sym.Symbol


def test_small_steps_do_not_drown_in_the_sum():
    power = sym.pow(2, sym.var("exp"))
    test_utils.check_numeric_gradient(power, [np.full((3, 4), 3.0)], numeric_eps=1e-3, rtol=1e-4)


def test_optimizers_are_compared():
    options = {"learning_rate": 0.1, "momentum": 0.9}
    sgd, same, faster = (mx.optimizer.SGD(**{**options, "learning_rate": r}) for r in (0.1, 0.1, 1))
    for shapes, count in (((3, 4), 1), ([(3, 4), (2,)], 2)):
        test_utils.compare_optimizer(sgd, same, shapes, np.float32, ntensors=count)
        with pytest.raises(AssertionError):
            test_utils.compare_optimizer(sgd, faster, shapes, np.float32, ntensors=count)
    test_utils.compare_optimizer(sgd, same, (3, 4), np.float32, g_stype="row_sparse")


class Noting(mx.optimizer.Optimizer):
    """Returns its operand, and records its storage type."""

    def update(self, index, weight, grad, state):
        self.stored = weight.stype, grad.stype


def test_the_first_optimizer_has_dense_arrays():
    first, second = Noting(), Noting()
    stored = {"w_stype": "row_sparse", "g_stype": "row_sparse"}
    test_utils.compare_optimizer(first, second, (3, 4), np.float32, **stored)
    assert first.stored == ("default", "default")
    assert second.stored == ("row_sparse", "row_sparse")


def test_examples_are_of_the_asked_kind():
    np.random.seed(0)
    assert test_utils.rand_ndarray((2, 3), dtype="float64").dtype == np.float64
    shapes = [test_utils.rand_shape_3d(2, 3, 4) for _ in range(50)]
    assert {len(s) for s in shapes} == {3} and max(s[2] for s in shapes) == 4
    assert min(min(s) for s in shapes) == 1
    reduced = test_utils.np_reduce(np.ones((2, 3, 4)), (0, -1), True, np.sum)
    assert reduced.shape == (1, 3, 1) and (reduced == 8).all()
    summed = test_utils.collapse_sum_like(np.ones((2, 3, 4)), (1, 4))
    assert summed.shape == (1, 4) and (summed == 6).all()
    assert test_utils.assign_each2(np.array([1, 2]), np.array([3, 4]), max).tolist() == [3, 4]
    attempts = iter([False, False, True])

    @test_utils.retry(3)
    def flaky():
        assert next(attempts)

    flaky()
    with test_utils.environment({"HYBRIDJIT_TEST_NAME": "1"}):
        assert mx.util.getenv("HYBRIDJIT_TEST_NAME") == "1"
    assert mx.util.getenv("HYBRIDJIT_TEST_NAME") is None


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (1, 2, "the numbers differ by more than rtol=0, atol=0\n    a=1, b=2, error"),
        (1.0, 1.5, "the numbers differ .*rtol=1e-05, atol=1e-20\n    a=1.0, b=1.5, error 33333.3"),
        (np.float32(0.1), 2, "a=0.1, b=2, error"),
        (mx.nd.array(3), 4, "the numbers differ .*rtol=0.0001, .*\n    a=3.0, b=4, error"),
        (True, False, "a=True, b=False"),
        (3, np.array([3, 4]), r"1 of 2 elements differ .*\n    at \(1,\): a=3, b=4, error"),
    ],
)
def test_numbers_in_comparisons(a, b, message):
    with pytest.raises(AssertionError, match=message):
        test_utils.assert_almost_equal(a, b)
    test_utils.assert_almost_equal(a, a)


def test_whole_numbers_have_no_tolerance():
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal(10**6, 10**6 + 1)
    test_utils.assert_almost_equal(10.0**6, 10.0**6 + 1)


# ---- small modules ------------------------------------------------------------------------------


def test_contexts_and_features():
    assert mx.Context.devtype2str[2] == "gpu"
    test_utils.set_default_context(mx.cpu(1))
    try:
        assert mx.nd.ones((1,)).context == mx.cpu(1) == mx.Context.default_ctx
    finally:
        test_utils.set_default_context(mx.cpu())
    with pytest.raises(mx.MXNetError, match="does not use GPUs"):
        mx.context.gpu_memory_info()
    features = mx.runtime.Features()
    assert not features.is_enabled("cuda") and "MKLDNN" in features
    with pytest.raises(RuntimeError, match="'NOPE' is unknown"):
        features.is_enabled("nope")


def test_functions_with_a_user_defined_gradient_run_forward():
    class Doubled(mx.autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            assert not mx.autograd.is_recording()
            return x * 2

    with mx.autograd.record():
        assert Doubled()(mx.nd.ones((1,))).asscalar() == 2


def test_nothing_is_downloaded(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"save https://h/m.params as .*m.params"):
        utils.download("https://h/m.params", path=str(tmp_path))
    (tmp_path / "m.params").write_text("x")
    assert utils.download("https://h/m.params", path=str(tmp_path)) == str(tmp_path / "m.params")
    with pytest.raises(mx.MXNetError, match="does not have the SHA-1 00"):
        utils.download("https://h/m.params", path=str(tmp_path), sha1_hash="00")


def test_clipping_by_the_norm_of_all():
    arrays = [mx.nd.ones((2, 2)) * 3, mx.nd.ones((3,)) * 0]
    assert utils.clip_global_norm(arrays, 3) == pytest.approx(6)
    assert arrays[0].asnumpy().ravel() == pytest.approx([1.5] * 4)
    assert utils.shape_is_known((2, 1)) and not utils.shape_is_known((2, 0))


def test_registries_make_instances_from_configurations():
    class Base:
        def __init__(self, size=1):
            self.size = size

    register = mx.registry.get_register_func(Base, "thing")
    create = mx.registry.get_create_func(Base, "thing")
    alias = mx.registry.get_alias_func(Base, "thing")

    @alias("other")
    @register
    class Special(Base):
        pass

    assert create("special").size == create('["other", {"size": 1}]').size == 1
    assert create({"thing": "special", "size": 4}).size == 4
    assert mx.registry.get_registry(Base) == {"special": Special, "other": Special}
    with pytest.raises(AssertionError, match="already an instance"):
        create(Special(), size=2)


def test_the_engine_remembers_its_bulk_size():
    before = mx.engine.set_bulk_size(7)
    with mx.engine.bulk(3):
        assert mx.engine.set_bulk_size(4) == 3
    assert mx.engine.set_bulk_size(before) == 7
    with pytest.raises(TypeError):
        mx.engine.set_bulk_size("many")


def test_loggers_write_to_their_file(tmp_path):
    path = tmp_path / "lines"
    logger = mx.log.get_logger("of_a_test", filename=str(path), level=mx.log.INFO)
    assert mx.log.get_logger("of_a_test") is logger and len(logger.handlers) == 1
    logger.info("read %d", 3)
    logger.debug("not this")
    logger.handlers[0].close()
    own = rf"{__name__}.py:test_loggers_write_to_their_file:\d+\]"
    place = rf"I\d{{4}} \d\d:\d\d:\d\d {os.getpid()} .*{own}"
    assert re.fullmatch(rf"{place} read 3\n", path.read_text())


def test_stderr_is_discarded_for_a_while(capfd):
    os.write(2, b"before ")
    with test_utils.discard_stderr():
        os.write(2, b"during ")
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"


def test_speed_is_logged_with_the_metric_of_those_batches(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr("hybridjit.callback.time.time", lambda: now[0])
    caplog.set_level("INFO")
    for auto_reset, expected in ((True, "[2-4]"), (False, "[0-4]")):
        metric = mx.metric.Accuracy()
        speed = mx.callback.Speedometer(10, frequent=2, auto_reset=auto_reset)
        caplog.clear()
        for batch in range(5):
            metric.update([mx.nd.array([1, 0])], [mx.nd.array([[0.1, 0.9], [0.2, 0.8]])])
            speed(BatchEndParam(1, batch, metric, None))
            now[0] += 0.5
        assert len(caplog.messages) == 2
        tail = f"Epoch[1] Batch {expected}\tSpeed: 20.00 samples/sec\taccuracy=0.500000"
        assert caplog.messages[-1] == tail
        assert np.isnan(metric.get()[1]) == auto_reset
        speed(BatchEndParam(2, 0, None, None))  # another epoch: starts anew
        now[0] += 1
        speed(BatchEndParam(2, 2, None, None))
        assert caplog.messages[-1] == "Iter[2] Batch [2]\tSpeed: 20.00 samples/sec"


def test_callbacks_that_log_and_save(tmp_path, caplog):
    caplog.set_level("INFO")
    metric = mx.metric.Accuracy()
    metric.update([mx.nd.array([1, 0])], [mx.nd.array([[0.1, 0.9], [0.2, 0.8]])])
    mx.callback.LogValidationMetricsCallback()(BatchEndParam(3, 0, metric, None))
    mx.callback.ProgressBar(4, 10)(BatchEndParam(0, 3, None, None))
    mx.callback.log_train_metric(2, auto_reset=True)(BatchEndParam(1, 2, metric, None))
    assert caplog.messages == [
        "Epoch[3] Validation-accuracy=0.500000",
        "[========--] 75%\r",
        "Iter[1] Batch[2] Train-accuracy=0.500000",
    ]
    assert np.isnan(metric.get()[1])
    save = mx.callback.do_checkpoint(str(tmp_path / "net"), period=2)
    for epoch in range(3):
        save(epoch, sym.var("x") * 2, {"w": mx.nd.ones((1,))}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net-0002.params",
        "net-symbol.json",
    ]
    module = mx.mod.Module(sym.var("data") * 2, label_names=None)
    module.bind([("data", (1,))], for_training=False)
    module.init_params()
    mx.callback.module_checkpoint(module, str(tmp_path / "mod"))(0)
    assert (tmp_path / "mod-0001.params").exists()


class TestMonitor:
    @pytest.fixture
    def executor(self):
        hidden = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
        executor = sym.Activation(hidden, act_type="relu", name="act").simple_bind(
            mx.cpu(), data=(1, 3), grad_req="null"
        )
        for array in executor.arg_dict.values():
            array[:] = 0.5
        return executor

    def test_results_and_then_the_arrays_that_are_bound(self, executor):
        monitor = mx.mon.Monitor(2)
        monitor.install(executor)
        monitor.tic()
        executor.forward()
        assert monitor.toc() == [
            (1, "fc_output", "1.25\t"), (1, "act_output", "1.25\t"), (1, "data", "0.5\t"),
            (1, "fc_weight", "0.5\t"), (1, "fc_bias", "0.5\t"),
        ]  # fmt: skip
        monitor.tic()  # not its turn
        executor.forward()
        assert monitor.toc() == []

    def test_monitor_uses_pattern_order_and_statistic_of_the_user(self, executor, caplog):
        caplog.set_level("INFO")
        monitor = mx.mon.Monitor(
            1, stat_func=lambda x: [x.max(), x.sum()], pattern="fc_[ow]", sort=True
        )
        monitor.install(executor)
        monitor.tic()
        executor.forward()
        monitor.toc_print()
        assert caplog.messages == [
            f"Batch:       1 {'fc_output':<30} 1.25\t2.5\t",
            f"Batch:       1 {'fc_weight':<30} 0.5\t3.0\t",
        ]

    def test_modules_with_other_shapes_and_buckets(self):
        def bucket(key):
            total = sym.sum(sym.var("data"), axis=1, keepdims=True)
            return sym.FullyConnected(total, num_hidden=1, name="fc"), ("data",), None

        module = mx.mod.BucketingModule(bucket, 4)
        module.bind([("data", (2, 4))], for_training=False)
        module.init_params(mx.init.One())
        monitor = mx.mon.Monitor(1, pattern="fc_output")
        module.install_monitor(monitor)
        for key in (4, 3):
            shape = [("data", (2, key))]
            monitor.tic()
            batch = mx.io.DataBatch([mx.nd.ones((2, key))], bucket_key=key, provide_data=shape)
            module.forward(batch)
            ((_, name, text),) = monitor.toc()
            assert name == "fc_output" and float(text) == pytest.approx(key, rel=1e-6)
