"""Graphs compiled for training: the numbers of eager training mode, from kernels."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from compiling import AVAILABLE, assert_near, call, compiled, plan_of, run_compiled, var
from hybridjit import autograd, gluon, nd, sym
from hybridjit._core.config import override
from hybridjit.ir.mode import Purpose
from hybridjit.ir.plan import Plan
from hybridjit.ops import lookup
from hybridjit.runtime.threads import threads

TRAINING = Purpose(training=True)
HOST_TARGETS = [pytest.param("" if t == "native" else t, id=t) for t in AVAILABLE]
SHAPES = {
    "images": ((4, 6, 9, 7), 1),
    "channels-last": ((4, 9, 7, 35), 3),
    "last": ((4, 6, 9, 7), -1),
    "rows": ((17, 70), 1),
    "columns": ((5, 70), 0),
    "sequences": ((3, 5, 7), 1),
    "volumes": ((2, 33, 3, 4, 5), 1),
    "one-sample": ((1, 17, 40, 40), 1),
    "one-place": ((3, 4, 1, 1), 1),
    "large": ((2, 3, 130, 140), 1),
}


def states(channels: int, dtype: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(channels)
    found = {name: random.normal(0, 1, channels) for name in ("gamma", "beta", "mean")}
    return {n: a.astype(dtype) for n, a in {**found, "var": random.uniform(1, 2, channels)}.items()}


def images(shape: tuple[int, ...], dtype: str = "float32", around: float = 3.0) -> np.ndarray:
    return np.random.default_rng(5).normal(around, 2, shape).astype(dtype)


def eager(op: str, arrays: dict[str, np.ndarray], **attrs: object) -> np.ndarray:
    """The operator's results in training mode, by NumPy."""
    with autograd.train_mode():
        inputs = [nd.array(a, dtype=a.dtype) for a in arrays.values()]
        found = getattr(nd, op)(*inputs, **attrs)
    return found.asnumpy()


def host_steps(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps if step.kind == "host"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("target", HOST_TARGETS)
def test_batch_norm_takes_the_batch_s_statistics(target: str, name: str, dtype: str):
    shape, axis = SHAPES[name]
    arrays = {"x": images(shape, dtype), **states(shape[axis], dtype)}
    outputs = [call("BatchNorm", *map(var, arrays), axis=axis, fix_gamma=False)]
    with override(target=target):
        executable = compiled(outputs, arrays, purpose=TRAINING)
        assert not host_steps(executable.plan)
        with override(check=True):
            found = executable([*arrays.values()])
    wanted = eager("BatchNorm", arrays, axis=axis, fix_gamma=False)
    assert_near(found, [wanted], 1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("op", ["BatchNorm", "BatchNorm_v1", "_contrib_BatchNormWithReLU"])
def test_names_of_batch_norm(op: str):
    arrays = {"x": images((3, 4, 5, 5)), **states(4, "float32")}
    executable = compiled([call(op, *map(var, arrays))], arrays, purpose=TRAINING)
    assert not host_steps(executable.plan)
    function = nd.contrib.BatchNormWithReLU if "ReLU" in op else getattr(nd, op)
    with autograd.train_mode():
        wanted = function(*(nd.array(a) for a in arrays.values())).asnumpy()
    assert_near(executable([*arrays.values()]), [wanted])


def test_numbers_far_from_zero():
    """The variance is that of the distances from the mean, not a difference of large numbers."""
    arrays = {"x": images((4, 3, 20, 20), around=500.0), **states(3, "float32")}
    outputs = [call("BatchNorm", *map(var, arrays), fix_gamma=False)]
    found = compiled(outputs, arrays, purpose=TRAINING)([*arrays.values()])
    assert_near(found, [eager("BatchNorm", arrays, fix_gamma=False)], 1e-4)


def test_half_is_computed_in_single_precision():
    arrays = {"x": images((3, 4, 5, 6), "float16"), **states(4, "float32")}
    outputs = [call("BatchNorm", *map(var, arrays), fix_gamma=False)]
    executable = compiled(outputs, arrays, purpose=TRAINING)
    assert not host_steps(executable.plan)
    found = executable([*arrays.values()])
    assert_near(found, [eager("BatchNorm", arrays, fix_gamma=False)], 2e-3)


@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(2, 3), (0, 2, 3), (1,), (0,), (0, 2), None])
def test_reductions_of_regions(op: str, axis, keepdims: bool):
    """Statistics are computed with channels last; all other orders are MXNet's."""
    arrays = {"x": images((2, 5, 8, 6))}
    pooled = call("Pooling", var("x"), kernel=(2, 2), stride=(2, 2))
    reduced = call(op, pooled, axis=axis, keepdims=keepdims)
    outputs = [reduced, call("exp", call("_mul_scalar", reduced, scalar=0.01))]
    with override(skip=("layout",)):
        wanted = run_compiled(outputs, arrays)
    assert_near(run_compiled(outputs, arrays), wanted)


def test_any_number_of_threads_and_from_run_to_run(monkeypatch):
    arrays = {"x": images((6, 20, 33, 31)), **states(20, "float32")}
    outputs = [call("BatchNorm", *map(var, arrays), fix_gamma=False)]
    executable = compiled(outputs, arrays, purpose=TRAINING)
    monkeypatch.setattr(executable, "is_small", False)
    found = set()
    for count in (1, 1, 2, 3, 4):
        with threads(count):
            found.add(executable([*arrays.values()])[0].tobytes())
    assert len(found) == 1


# --- dropout ---


def dropped(p: float = 0.5, **attrs: object) -> np.ndarray:
    arrays = {"x": np.ones((50, 80), np.float32)}
    outputs = [call("Dropout", var("x"), p=p, **attrs)]
    (found,) = compiled(outputs, arrays, purpose=TRAINING)([*arrays.values()])
    return found


def test_dropout_drops():
    found = dropped(0.25)
    assert 0.2 < (found == 0).mean() < 0.3
    np.testing.assert_allclose(found[found > 0], 1 / 0.75, rtol=1e-6)


def test_dropout_draws_whole_lines():
    found = dropped(axes=(1,))
    assert (found.min(1) == found.max(1)).all() and 0 < (found[:, 0] == 0).mean() < 1


def test_a_seed_gives_the_same_factors_again():
    mx.random.seed(3)
    first = dropped()
    mx.random.seed(3)
    np.testing.assert_array_equal(dropped(), first)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("train_mode", [False, True])
def test_dropout_that_always_drops_has_gradients_in_both_modes(hybridized: bool, train_mode: bool):
    """They pass where the factors of the very call let numbers through."""
    net = gluon.nn.HybridLambda(lambda F, x: F.Dropout(x, p=0.5, mode="always"))
    net.hybridize(hybridized)
    x = nd.ones((40, 5))
    x.attach_grad()
    with autograd.record(train_mode=train_mode):
        y = net(x)
    y.backward(train_mode=train_mode)
    assert set(y.asnumpy().ravel()) == {0, 2}
    np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())


def test_dropout_does_nothing_at_inference():
    arrays = {"x": images((3, 4))}
    plan = plan_of([call("Dropout", var("x"))], arrays)
    assert [step.kind for step in plan.steps] == ["copy"]


# --- losses ---


@pytest.mark.parametrize(
    ("op", "label"),
    [
        ("SoftmaxOutput", (4,)),
        ("LinearRegressionOutput", (4, 3)),
        ("LogisticRegressionOutput", (4, 3)),
        ("MAERegressionOutput", (4, 3)),
        ("SVMOutput", (4,)),
        ("MakeLoss", None),
    ],
)
def test_losses_in_training_mode_give_inference_results(op: str, label: tuple[int, ...] | None):
    arrays = {"x": images((4, 3))}
    if label:
        arrays["label"] = np.zeros(label, np.float32)
    executable = compiled([call(op, *map(var, arrays))], arrays, purpose=TRAINING)
    assert [value.name for value in executable.plan.graph.inputs] == [*arrays]
    assert_near(executable([*arrays.values()]), [eager(op, arrays)])


@pytest.mark.parametrize(
    ("shape", "number"),
    [((6,), 2.0), ((6, 1), 2 / 6), ((6, 5), 2 / 6), ((2, 3, 4), 2 / 6), ((6, 1, 5, 5), 2 / 30)],
)
@pytest.mark.parametrize("is_hybrid", [False, True])
def test_make_loss_normalises_by_the_batch_as_mxnet(
    shape: tuple[int, ...], number: float, is_hybrid: bool
):
    """Rows of the last axis: the numbers are MXNet's."""
    net = gluon.nn.HybridLambda(
        lambda F, x: F.MakeLoss(x, grad_scale=2, normalization="batch")  # noqa: N803
    )
    net.hybridize(is_hybrid)
    x = nd.array(images(shape))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), np.full(shape, number), rtol=1e-6)


@pytest.mark.parametrize("out_grad", [False, True])
@pytest.mark.parametrize("is_hybrid", [False, True])
def test_softmax_output_uses_output_gradients_on_request(out_grad: bool, is_hybrid: bool):
    net = gluon.nn.HybridLambda(
        lambda F, x, label: F.SoftmaxOutput(x, label, out_grad=out_grad)  # noqa: N803
    )
    net.hybridize(is_hybrid)
    data, head, label = images((4, 3)), images((4, 3)) + 2, np.array([0, 2, 1, 1], np.float32)
    x = nd.array(data)
    x.attach_grad()
    with autograd.record():
        y = net(x, nd.array(label))
    y.backward(nd.array(head))
    right = y.asnumpy() - np.eye(3, dtype=np.float32)[label.astype(int)]
    right = right * head if out_grad else right
    np.testing.assert_allclose(x.grad.asnumpy(), right, rtol=1e-5, atol=1e-6)
    loss = sym.SoftmaxOutput(sym.var("data"), sym.var("label"), out_grad=out_grad)
    arrays = {"data": nd.array(data), "label": nd.array(label)}
    executor = loss.bind(ctx=None, args=arrays, args_grad={"data": nd.zeros((4, 3))})
    executor.forward(is_train=True)
    executor.backward(nd.array(head))
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_hybrid", [False, True])
@pytest.mark.parametrize("temperature", [1e-40, 1e-30])
def test_a_softmax_at_a_tiny_temperature_picks_the_largest(temperature: float, is_hybrid: bool):
    """The data divided by it are infinite: MXNet subtracts the maximum before it divides."""

    class Softmaxes(gluon.HybridBlock):
        def hybrid_forward(self, F, x, length):
            how = {"temperature": temperature}
            lengths = F.softmax(x, length, use_length=True, **how)
            return F.softmax(x, **how), F.softmin(x, **how), lengths, F.exp(F.log_softmax(x, **how))

    net = Softmaxes()
    net.hybridize(is_hybrid)
    x = nd.array([[1e20, 3e20, 9e20], [2e20, 2e20, 2e20]])
    x.attach_grad()
    with autograd.record():
        made = net(x, nd.array([2, 1], dtype="int32"))
    third = np.float32(1 / 3)
    np.testing.assert_array_equal(made[0].asnumpy(), np.float32([[0, 0, 1], [third] * 3]))
    np.testing.assert_array_equal(made[1].asnumpy(), np.float32([[1, 0, 0], [third] * 3]))
    np.testing.assert_array_equal(made[2].asnumpy(), np.float32([[0, 1, 0], [1, 0, 0]]))
    np.testing.assert_allclose(made[3].asnumpy(), [[0, 0, 1], [third] * 3], rtol=1e-6)
    made[0].backward(nd.array([[1, 2, 3], [0, 0, 0]]))
    np.testing.assert_array_equal(x.grad.asnumpy(), np.zeros((2, 3), np.float32))


def test_moving_statistics_are_updated_in_place():
    """A graph of training mode whose further outputs are the new statistics."""
    arrays = {"x": images((4, 3, 5, 5)), **states(3, "float32")}
    assert lookup("BatchNorm").traits.training is not None
    normed = call("BatchNorm", *map(var, arrays), output_mean_var=True)
    mean = type(normed)(normed.node, 1)
    new = call("elemwise_add", call("_mul_scalar", var("mean"), scalar=0.9),
               call("_mul_scalar", mean, scalar=0.1))  # fmt: skip
    purpose = Purpose(training=True, updates=((1, "mean"),))
    executable = compiled([normed, new], arrays, purpose=purpose)
    given = [a.copy() for a in arrays.values()]
    found = executable(given)
    assert found[1] is given[3]
    batch = arrays["x"].mean((0, 2, 3), dtype=np.float64)
    assert_near([given[3]], [(0.9 * arrays["mean"] + 0.1 * batch).astype(np.float32)])


def test_gradients_of_many_rows_are_exact():
    """Sums of 4,096 numbers in a row: MXNet's are off by up to 4e-5, of one f32 sum 4e-4."""
    random = np.random.default_rng(1)
    x, head = random.normal(size=(2, 4096, 64)).astype(np.float32)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    net = gluon.nn.LayerNorm(in_channels=64)
    net.initialize()
    net.hybridize()
    with autograd.record():
        y = net(nd.array(x))
    y.backward(nd.array(head))
    for param, right in ((net.gamma, (scaled * head).sum(0)), (net.beta, head.sum(0, np.float64))):
        np.testing.assert_allclose(param.grad().asnumpy(), right, rtol=0, atol=3e-5)


class Shared(gluon.HybridBlock):
    """One BatchNorm that normalises two arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = gluon.nn.BatchNorm(momentum=0.5, in_channels=2)

    def hybrid_forward(self, F, x):
        return self.norm(x * 3) + self.norm(x)


def statistics(norm: gluon.nn.BatchNorm) -> list[float]:
    return [float(p.data()[0].asscalar()) for p in (norm.running_mean, norm.running_var)]


@pytest.mark.parametrize("way", ["eager", "compiled", "train_step"])
def test_a_layer_that_is_called_twice_moves_its_statistics_twice(way: str):
    """MXNet 1.9.1 gives these numbers, hybridized or not: x moves them first, then 3 x."""
    net = Shared()
    net.initialize()
    net.hybridize(way != "eager")
    x = nd.array([[1, 2], [5, 5]])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0})
    step = mx.train_step(net, gluon.loss.L2Loss(), trainer) if way == "train_step" else None
    for _ in range(2):
        if step:
            step(x, nd.zeros((2, 2)))
            continue
        with autograd.record():
            y = net(x)
        y.backward()
    np.testing.assert_allclose(statistics(net.norm), [6.5625, 23.8125], 1e-5)


def test_a_shared_layer_of_a_bound_graph_moves_its_statistics_twice():
    norm = {n: sym.Variable(n) for n in ("gamma", "beta", "mean", "var")}
    x = sym.Variable("x")
    first, second = (sym.BatchNorm(v, *norm.values(), momentum=0.5) for v in (x * 3, x))
    bound = (first + second).simple_bind(mx.cpu(), x=(2, 2))
    bound.aux_dict["var"][:] = 1
    bound.arg_dict["x"][:] = nd.array([[1, 2], [5, 5]])
    for _ in range(2):
        bound.forward(is_train=True)
        bound.backward(nd.ones((2, 2)))
    found = [float(bound.aux_dict[name][0].asscalar()) for name in ("mean", "var")]
    np.testing.assert_allclose(found, [6.5625, 23.8125], 1e-5)
