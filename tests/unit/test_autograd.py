"""The tape: recording, gradients and errors, as in MXNet 1.9.1."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, nd


def variable(*values: float, req: str = "write") -> nd.NDArray:
    x = nd.array(values)
    x.attach_grad(req)
    return x


def recorded(function, *xs):
    with autograd.record():
        return function(*xs)


class TestVariables:
    def test_before_and_after(self):
        x = nd.array([1.0, 2.0])
        assert x.grad is None
        x.attach_grad()
        grad = x.grad
        assert x.grad is not grad and grad.asnumpy().tolist() == [0, 0]
        recorded(lambda: x * x).backward()
        assert grad.asnumpy().tolist() == [2, 4]
        x.attach_grad()
        assert x.grad.asnumpy().tolist() == [0, 0] and grad.asnumpy().tolist() == [2, 4]
        x.attach_grad("null")
        assert x.grad is None
        with pytest.raises(KeyError):
            x.attach_grad("sometimes")
        x.attach_grad(stype="row_sparse")
        assert x.grad.stype == "row_sparse"

    def test_write_and_add(self):
        for req, wanted in (("write", (3, 3, 3)), ("add", (3, 6, 9))):
            x = variable(1.0, req=req)
            for expected in wanted:
                recorded(lambda x=x: x * x + x).backward()
                assert x.grad.asscalar() == expected

    def test_a_computed_array_becomes_a_leaf(self):
        x = variable(3.0)
        with autograd.record():
            y = x * 2
            y.attach_grad()
            z = y * y
        z.backward()
        assert (x.grad.asscalar(), y.grad.asscalar()) == (0, 12)

    def test_fresh_grad_is_set_by_backward_only_for_reached_variables(self):
        x, unused = variable(1.0), variable(1.0)
        assert not x._fresh_grad
        recorded(lambda: x * 2).backward()
        assert x._fresh_grad and not unused._fresh_grad
        x._fresh_grad = False
        assert not x._fresh_grad

    def test_mark_variables(self):
        x, g = nd.array([2.0]), nd.array([7.0])
        autograd.mark_variables(x, g, "add")
        recorded(lambda: x * x).backward()
        assert g.asscalar() == 11

    def test_integer_variables_have_integer_gradients(self):
        x = nd.array([3, 4], dtype="int32")
        x.attach_grad()
        recorded(lambda: x * x).backward()
        assert x.grad.dtype is np.int32 and x.grad.asnumpy().tolist() == [6, 8]


class TestBackward:
    def test_the_way_is_gone_after_one(self):
        x = variable(2.0)
        y = recorded(lambda: x * x)
        y.backward()
        with pytest.raises(mx.MXNetError, match="retain_graph=True"):
            y.backward()

    def test_backward_of_a_retained_graph_can_be_repeated(self):
        x = variable(2.0, req="add")
        y = recorded(lambda: x * x)
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.asscalar() == 8

    def test_shared_part_is_gone_too(self):
        x = variable(2.0)
        with autograd.record():
            shared = x * x
            first, second = shared * 2, shared * 3
        first.backward()
        with pytest.raises(mx.MXNetError, match="no inputs in computation graph that require"):
            second.backward()

    @pytest.mark.parametrize("make", [lambda: nd.ones(2), lambda: recorded(lambda: nd.ones(2) * 2)])
    def test_not_recorded(self, make):
        with pytest.raises(mx.MXNetError, match="not in a computational graph"):
            make().backward()

    def test_head_gradients(self):
        x = variable(1.0, 2.0)
        y = recorded(lambda: x * 3)
        y.backward(nd.array([1.0, 10.0]), retain_graph=True)
        assert x.grad.asnumpy().tolist() == [3, 30]
        with pytest.raises(mx.errors.ShapeError, match=r"\(2\), but its gradient has shape \(1\)"):
            y.backward(nd.ones(1), retain_graph=True)
        with pytest.raises(mx.errors.DTypeError, match="float32, but its gradient is float64"):
            y.backward(nd.ones(2, dtype="float64"), retain_graph=True)
        with pytest.raises(AttributeError, match="NDArray"):
            y.backward([1.0, 2.0])

    def test_several_heads(self):
        x = variable(2.0)
        y, z = recorded(lambda: (x * x, x * 3))
        autograd.backward([y, z], [None, nd.array([10.0])])
        assert x.grad.asscalar() == 34
        with pytest.raises(AssertionError, match="same length"):
            autograd.backward([y, z], [None])

    def test_one_head_twice_counts_once(self):
        x = variable(2.0)
        y = recorded(lambda: x * 1)
        autograd.backward([y, y], [nd.array([1.0]), nd.array([10.0])])
        assert x.grad.asscalar() == 10

    def test_a_head_that_is_an_ancestor(self):
        x = variable(2.0)
        y, z = recorded(lambda: (lambda y: (y, y * y))(x * x))
        autograd.backward([y, z])
        assert x.grad.asscalar() == 4 + 32

    def test_blocked_gradients_are_zeros(self):
        x = variable(9.0)
        x.grad[:] = 9
        recorded(lambda: nd.stop_gradient(x) + nd.sign(x)).backward()
        assert x.grad.asscalar() == 0

    def test_no_gradient_at_all(self):
        x = variable(1.0, 2.0)
        y = recorded(lambda: nd.argmax_channel(x.reshape((1, 2))))
        with pytest.raises(mx.MXNetError, match="argmax_channel is non-differentiable because"):
            y.backward()
        recorded(lambda: nd.stop_gradient(nd.argmax_channel(x.reshape((1, 2)))) * 1).backward()

    def test_from_another_thread(self):
        x = variable(3.0)
        y = recorded(lambda: x * x)
        flags = []
        thread = threading.Thread(
            target=lambda: (flags.append(autograd.is_recording()), y.backward())
        )
        with autograd.record():
            thread.start()
            thread.join()
        assert x.grad.asscalar() == 6 and flags == [False]

    def test_a_long_chain(self):
        x = variable(1.0)
        with autograd.record():
            y = x
            for _ in range(20_000):
                y = y + 1
        y.backward()
        assert x.grad.asscalar() == 1


class TestViewsAndWrites:
    def test_gradients_of_slices_and_indices_add_up(self):
        x = variable(1.0, 2.0, 3.0, 4.0)
        y = recorded(lambda: x[1:3] * x[0] + x[nd.array([1, 1], dtype="int32")])
        y.backward()
        assert x.grad.asnumpy().tolist() == [5, 3, 1, 0]

    def test_reshape_copy_and_transpose(self):
        x = nd.arange(6).reshape((2, 3))
        x.attach_grad()
        weights = nd.arange(6).reshape((3, 2))
        recorded(lambda: x.copy().T.reshape((-1,)) * weights.reshape((-1,))).backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), weights.asnumpy().T)

    def test_a_part_differentiated_twice(self):
        x = variable(2.0, 3.0)
        with autograd.record():
            (first,) = autograd.grad(x[0] ** 3, x, create_graph=True)
            first.sum().backward()
        assert x.grad.asnumpy().tolist() == [12, 0]

    def test_writes_to_recorded_arrays_raise(self):
        x = variable(1.0, 2.0)
        with autograd.record():
            y = x * 2
            for write in (
                lambda: x.__iadd__(1),
                lambda: y.__setitem__(0, 1.0),
                lambda: nd.relu(x, out=y),
            ):
                with pytest.raises(mx.MXNetError, match="Assigning to NDArrays that are already"):
                    write()
            plain = nd.zeros(2)
            with pytest.raises(mx.MXNetError, match="Inplace operations"):
                plain[0:1] = y[0:1]
            for places in (np.array([1, 0]), nd.array([1, 0]), [1, 0]):
                with pytest.raises(mx.MXNetError, match="Inplace operations"):
                    plain[places] = y
            plain[:] = y
            z = nd.zeros(2)
            nd.square(plain, out=z)
        z.backward()
        assert x.grad.asnumpy().tolist() == [8, 16]

    def test_a_write_in_a_pause_is_seen(self):
        x = variable(1.0)
        with autograd.record():
            y = x * 2
            with autograd.pause():
                y += 1
            z = y * y
        z.backward()
        assert x.grad.asscalar() == 12

    def test_detached_arrays_count_as_constants(self):
        x = variable(2.0)
        recorded(lambda: x.detach() * x).backward()
        assert x.grad.asscalar() == 2


class TestGrad:
    def test_new_arrays(self):
        x = variable(2.0)
        (g,) = autograd.grad(recorded(lambda: x * x), x)
        assert g.asscalar() == 4 and x.grad.asscalar() == 0 and not x._fresh_grad

    def test_of_gradients(self):
        x = variable(0.5)
        with autograd.record():
            y = nd.sin(x) * x
            (first,) = autograd.grad(y, [x], create_graph=True)
            (second,) = autograd.grad(first, [x], create_graph=True)
        second.backward()
        sine, cosine = np.sin(0.5), np.cos(0.5)
        np.testing.assert_allclose(x.grad.asscalar(), -3 * sine - 0.5 * cosine, rtol=1e-5)

    def test_grad_raises_for_variables_without_a_gradient(self):
        x, y = variable(1.0), nd.ones(1)
        z = recorded(lambda: x * 2)
        with pytest.raises(mx.MXNetError, match="1-th variable because it does not require"):
            autograd.grad(z, [y], retain_graph=True)
        with pytest.raises(mx.MXNetError, match="2-th variable because it is unreachable"):
            autograd.grad(z, [x, variable(1.0)], retain_graph=True)
        with pytest.raises(AssertionError, match="cannot be an empty list"):
            autograd.grad(z, [])


class Cube(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x * x

    def backward(self, d):
        (x,) = self.saved_tensors
        return 3 * x * x * d


class TestFunction:
    @pytest.mark.parametrize("req, wanted", [("write", 24), ("add", 25)])
    def test_its_own_gradient(self, req, wanted):
        x = variable(2.0, req=req)
        x.grad[:] = 1
        recorded(lambda: Cube()(x) * 2).backward()
        assert x.grad.asscalar() == wanted

    def test_one_call_each(self):
        cube = Cube()
        cube(nd.ones(1))
        with pytest.raises(AssertionError, match="only be called once"):
            cube(nd.ones(1))

    def test_wrong_backwards(self):
        class Wrong(Cube):
            def backward(self, d):
                return d, d

        class Numbers(Cube):
            def backward(self, d):
                return [1.0]

        for kind, says in ((Wrong, "each of 1 inputs, got 2"), (Numbers, "NDArrays, got")):
            y = recorded(lambda kind=kind: kind()(variable(1.0)))
            with pytest.raises(mx.MXNetError, match=says):
                y.backward()


def test_dropout_uses_the_mask_of_the_forward():
    x = nd.ones((1000,))
    x.attach_grad()
    y = recorded(lambda: nd.Dropout(x, p=0.3))
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
    with autograd.record(train_mode=False):
        y = nd.Dropout(x, p=0.3) * 2
    y.backward()
    assert (x.grad.asnumpy() == 2).all()


def test_batchnorm_updates_its_statistics_in_backward():
    data = nd.array(np.random.default_rng(0).normal(1, 2, (4, 3)))
    gamma, beta, mean, var = nd.ones(3), nd.zeros(3), nd.zeros(3), nd.ones(3)
    gamma.attach_grad()

    def run():
        return nd.BatchNorm(data, gamma, beta, mean, var, momentum=0.7, fix_gamma=False)

    y = recorded(run)
    assert (mean.asnumpy() == 0).all()
    y.backward(retain_graph=True)
    batch = data.asnumpy()
    np.testing.assert_allclose(mean.asnumpy(), 0.3 * batch.mean(0), rtol=1e-5)
    np.testing.assert_allclose(var.asnumpy(), 0.7 + 0.3 * batch.var(0), rtol=1e-5)
    y.backward(train_mode=False)
    np.testing.assert_allclose(mean.asnumpy(), 0.3 * batch.mean(0), rtol=1e-5)


@pytest.mark.parametrize("train_mode", [True, False])
def test_batchnorm_recorded_outside_training_has_the_slope_of_its_kept_statistics(train_mode):
    data, gamma = nd.array(np.random.default_rng(0).normal(1, 2, (4, 3))), nd.array([1, 2, 3])
    data.attach_grad()
    with autograd.record(train_mode=False):
        y = nd.BatchNorm(data, gamma, nd.zeros(3), nd.zeros(3), nd.full(3, 4), fix_gamma=False)
    y.backward(train_mode=train_mode)
    wanted = np.broadcast_to(gamma.asnumpy() / np.sqrt(4 + 1e-3), (4, 3))
    np.testing.assert_allclose(data.grad.asnumpy(), wanted, rtol=1e-6)


def test_synced_batchnorm_gives_the_variance_in_training():
    data = nd.array(np.random.default_rng(0).normal(1, 2, (4, 3)))
    states = [nd.ones(3), nd.zeros(3), nd.zeros(3), nd.ones(3)]
    states[0].attach_grad()
    with autograd.record():
        y, mean, var = nd.contrib.SyncBatchNorm(data, *states, output_mean_var=True, key="k")
    np.testing.assert_allclose(mean.asnumpy(), data.asnumpy().mean(0), rtol=1e-5)
    np.testing.assert_allclose(var.asnumpy(), data.asnumpy().var(0), rtol=1e-5)
    y.backward()
    np.testing.assert_allclose(states[3].asnumpy(), 0.9 + 0.1 * data.asnumpy().var(0), rtol=1e-5)


def test_the_scope_that_programs_import_sets_flags_and_leaves_others():
    with autograd._RecordingStateScope(True, None):
        assert autograd.is_recording() and not autograd.is_training()
        with autograd._RecordingStateScope(None, True):
            assert autograd.is_recording() and autograd.is_training()
        assert autograd.is_recording() and not autograd.is_training()
    assert not autograd.is_recording()


def test_the_older_names():
    older = mx.contrib.autograd
    x, dx = nd.array([1.0, 2]), nd.zeros(2)
    older.mark_variables([x], [dx])
    with older.train_section():
        assert autograd.is_recording() and autograd.is_training()
        y = x * x
        with older.test_section():
            assert not autograd.is_recording() and not autograd.is_training()
    assert not autograd.is_recording() and not autograd.is_training()
    older.compute_gradient([y])
    assert dx.asnumpy().tolist() == [2, 4]
    grads, loss = older.grad_and_loss(lambda a, b: a * b)(nd.array([3.0]), nd.array([5.0]))
    assert [g.asscalar() for g in grads] == [5, 3] and loss.asscalar() == 15
    (by_b,) = older.grad(lambda a, b: a * b, 1)(nd.array([3.0]), nd.array([5.0]))
    assert by_b.asscalar() == 3
    with pytest.raises(AssertionError, match="should be NDArray"):
        older.grad(lambda a: a)(3.0)
    assert older.set_is_training(True) is False and older.set_is_training(False) is True


def arrays_of(net):
    """The arrays of a network's parameters."""
    return [param.data() for param in net.collect_params().values()]


class TestSymbols:
    def nodes(self, x):
        graph = json.loads(autograd.get_symbol(x).tojson())
        return [(n["op"], n.get("attrs", {}), n["inputs"]) for n in graph["nodes"]]

    def test_a_history_is_a_graph(self):
        x, c = variable(1.0, 2.0), nd.ones(2)
        y = recorded(lambda: nd.sin(x) * 2 + x * c)
        assert [(op, attrs) for op, attrs, _ in self.nodes(y)] == [
            ("null", {}),
            ("sin", {}),
            ("_mul_scalar", {"scalar": "2.0"}),
            ("null", {}),
            ("broadcast_mul", {}),
            ("broadcast_add", {}),
        ]
        symbol = autograd.get_symbol(y)
        names = symbol.list_arguments()
        assert names[0].startswith("var") and names[1].startswith("null")
        assert symbol.list_outputs()[0].startswith("node_")
        (found,) = symbol.bind(args=dict(zip(names, (x, c))), ctx=mx.cpu()).forward()
        np.testing.assert_array_equal(found.asnumpy(), y.asnumpy())

    def test_names_stay(self):
        x = variable(1.0)
        y = recorded(lambda: x * x)
        first, second = (autograd.get_symbol(y).tojson() for _ in range(2))
        assert first == second
        assert autograd.get_symbol(x).list_arguments() == autograd.get_symbol(y).list_arguments()

    def test_one_of_several_results(self):
        x = nd.array([[1.0, 2.0]])
        x.attach_grad()
        _, y = recorded(lambda: nd.split(x, 2, axis=1))
        assert autograd.get_symbol(y).list_outputs()[0].endswith("_output1")

    def test_views_are_operators(self):
        x = nd.arange(12).reshape((3, 4))
        x.attach_grad()
        for part in (lambda: x[1], lambda: x[0:2, 1:], lambda: x.reshape((4, 3)), lambda: x.copy()):
            y = recorded(part)
            symbol = autograd.get_symbol(y)
            (found,) = symbol.bind(args={symbol.list_arguments()[0]: x}, ctx=mx.cpu()).forward()
            np.testing.assert_array_equal(found.asnumpy(), y.asnumpy())

    @pytest.mark.parametrize(
        "limit, operators",
        [(None, ["_CachedOp"]), (1, ["_CachedOp"]), (4, ["FullyConnected", "sin"])],
    )
    def test_a_hybridized_network_is_one_operator_or_its_few_ones(self, limit, operators):
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(2), mx.gluon.nn.HybridLambda("sin"), mx.gluon.nn.Dense(3))
        net.initialize(mx.init.Normal(1))
        net.hybridize(**({} if limit is None else {"inline_limit": limit}))
        x = variable([1.0, 2.0], [0.5, -1.0])
        y = recorded(lambda: net(x) * 2)
        symbol = mx.sym.load_json(autograd.get_symbol(y).tojson())
        made = [op for op, _, _ in self.nodes(y) if op != "null"]
        ending = operators if len(operators) == 1 else [*operators, "FullyConnected"]
        assert made == [*ending, "_mul_scalar"]
        leaves = {f"var{array._leaf.number}": array for array in [x, *arrays_of(net)]}
        grads = {name: nd.zeros(array.shape) for name, array in leaves.items()}
        executor = symbol.bind(mx.cpu(), leaves, grads)
        (found,) = executor.forward(is_train=True)
        largest = np.abs(y.asnumpy()).max()
        np.testing.assert_allclose(found.asnumpy(), y.asnumpy(), rtol=0, atol=1e-5 * largest)
        executor.backward(nd.ones(y.shape))
        y.backward()
        for name, array in leaves.items():
            expected = array.grad.asnumpy()
            np.testing.assert_allclose(grads[name].asnumpy(), expected, rtol=1e-5, atol=1e-6)

    def test_get_symbol_raises_for_arrays_without_a_history(self):
        x = variable(1.0, 2.0)
        y = recorded(lambda: x * x)
        y.backward()
        for array in (nd.ones(2), y):
            with pytest.raises(mx.MXNetError, match="not part of a computation graph"):
                autograd.get_symbol(array)
        with pytest.raises(mx.MXNetError, match="not consist of operators"):
            autograd.get_symbol(recorded(lambda: Cube()(x)))


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize(
    "joined, last",
    [
        (lambda a, b, c: a.sum() + b.sum(), 1),
        (lambda a, b, c: b.sum() + a.sum(), 2),
        (lambda a, b, c: nd.concat(b, a, dim=0).sum(), 2),
        (lambda a, b, c: (c * a).sum() + b.sum(), 3),
        (lambda a, b, c: a.sum() + (b.sum() + c.sum()), 1),
    ],
)
def test_calls_of_one_layer_move_its_statistics_in_mxnets_order(joined, last, is_compiled):
    """As in MXNet 1.9.1: the producer of the first operand comes last in backward."""
    layer = mx.gluon.nn.BatchNorm(momentum=0.0, in_channels=2)
    layer.initialize()
    layer.hybridize(is_compiled)
    with autograd.record():
        loss = joined(*(layer(nd.full((2, 2), i)) for i in (1, 2, 3)))
    loss.backward()
    assert layer.running_mean.data().asnumpy().tolist() == [last, last]


def test_the_gradient_of_exp_has_the_bits_of_exp():
    x = nd.array(np.linspace(-3, 3, 500))
    x.attach_grad()
    y = recorded(nd.exp, x)
    y.backward()
    assert (x.grad.asnumpy() == y.asnumpy()).all()
