"""Loops and branches in graphs: MXNet's files and numbers, eager, compiled and at the limits."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, cli, gluon, nd, sym
from hybridjit._core.types import type_of
from hybridjit.control import body as bodies
from hybridjit.control import unroll, unrolled
from hybridjit.formats.mxnet import symbol_json
from hybridjit.ir.node import topological

# Graphs that MXNet 1.9.1 made with sym.contrib, its results in both modes, and its gradients
RECORDED = json.loads((Path(__file__).parent.parent / "fixtures" / "control_flow.json").read_text())
CASES = sorted(RECORDED)


def bound(case):
    graph = sym.load_json(case["json"])
    args = {name: nd.array(np.array(values)) for name, values in case["args"].items()}
    grads = {name: nd.zeros(array.shape) for name, array in args.items()}
    return graph.bind(mx.cpu(), args, grads)


def require_close(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), np.array(theirs), rtol=1e-4, atol=1e-5)


@pytest.fixture(params=["written out", "in steps"])
def way(request, monkeypatch):
    """Both ways in which a loop over rows runs."""
    if request.param == "in steps":
        monkeypatch.setattr(unroll, "MOST_NODES", 0)
    return request.param


class TestMXNets:
    @pytest.mark.parametrize("name", CASES)
    def test_files_are_written_byte_for_byte(self, name):
        text = RECORDED[name]["json"]
        assert sym.load_json(text).tojson() == text

    @pytest.mark.parametrize("name", CASES)
    def test_shapes_follow_from_a_few(self, name):
        case = RECORDED[name]
        graph = sym.load_json(case["json"])
        args, outs, aux = graph.infer_shape(**{k: tuple(v) for k, v in case["shapes"].items()})
        assert args == [np.shape(case["args"][n]) for n in graph.list_arguments()]
        assert outs == [np.shape(x) for x in case["outputs"]]
        assert aux == []

    @pytest.mark.parametrize("name", CASES)
    def test_results_and_gradients(self, name, way):
        case = RECORDED[name]
        executor = bound(case)
        require_close(executor.forward(is_train=False), case["predicted"])
        if name == "norm":
            return  # MXNet does not train it
        require_close(executor.forward(is_train=True), case["outputs"])
        executor.backward([nd.array(np.array(head)) for head in case["heads"]])
        for n, expected in case["grads"].items():
            require_close([executor.grad_dict[n]], [expected])


class Net(gluon.HybridBlock):
    """A function of F and symbols or arrays, with a layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, flatten=False)

    def hybrid_forward(self, F, *args):
        return self.function(self, F, *args)


def scan(net, F, x, h):
    return F.contrib.foreach(lambda d, s: (F.relu(net.dense(d) + s), net.dense(d) * s), x, h)


def search(net, F, x, h):
    made, (last, count) = F.contrib.while_loop(
        lambda s, i: F.sum(s) < 20,
        lambda s, i: (s * 2, (s + F.abs(net.dense(x.slice_axis(0, 0, 1)).squeeze(0)), i + 1)),
        (h, F.zeros_like(h.slice_axis(0, 0, 1).reshape((-1,)).slice_axis(0, 0, 1))),
        max_iterations=50,
    )
    return made, [last, count]


def choose(net, F, x, h):
    return F.contrib.cond(
        F.sum(x) > 0,
        lambda: net.dense(x) * 2,
        lambda: F.broadcast_sub(net.dense(x), h.expand_dims(0)),
    )


def filled(function):
    mx.random.seed(7)
    net = Net(function)
    net.initialize(mx.init.Uniform(0.5))
    return net


def flat(result):
    return (
        [x for item in result for x in flat(item)]
        if isinstance(result, (list, tuple))
        else [result]
    )


class TestHybridized:
    @pytest.mark.parametrize("function", [scan, search, choose])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_it_is_as_eager(self, function, sign, way):
        """Results, their nesting, gradients of inputs and of parameters."""
        found = []
        rng = np.random.default_rng(3)
        values = [sign * rng.uniform(0.2, 1, s).astype("float32") for s in ((4, 2, 3), (2, 3))]
        net = filled(function)
        for hybridized in (False, True):
            if hybridized:
                net.hybridize()
            arrays = [nd.array(x) for x in values]
            plain = flat(net(*arrays))
            for x in arrays:
                x.attach_grad()
            with autograd.record():
                result = net(*arrays)
                total = sum((x * x).sum() for x in flat(result))
            total.backward()
            weight = net.dense.weight.grad().copy()
            found.append([*plain, *flat(result), *(x.grad for x in arrays), weight])
        assert len(found[0]) == len(found[1])
        require_close(found[1], [x.asnumpy() for x in found[0]])
        assert np.abs(found[0][-1].asnumpy()).max() > 0

    def test_export_and_import(self, tmp_path):
        net = filled(scan)
        net.hybridize()
        x, h = nd.ones((4, 2, 3)), nd.ones((2, 3))
        expected = flat(net(x, h))
        net.export(str(tmp_path / "net"))
        again = mx.load(str(tmp_path / "net"))
        require_close(flat(again(x, h)), [y.asnumpy() for y in expected])

    def test_loops_over_rows_are_written_out(self):
        """Then the compiler sees operators alone."""
        case = RECORDED["nested"]
        graph = sym.load_json(case["json"])
        known = {n: type_of(np.array(x, np.float32)) for n, x in case["args"].items()}
        names = [node.op.name for node in topological(unrolled(graph.outputs, known)) if node.op]
        assert "_foreach" not in names and names.count("stack") == 1 + 3

    def test_branches_and_loops_on_equal_operands_are_not_one(self):
        def with_factor(F, x, h, k):
            chosen = F.contrib.cond(F.sum(x) > 0, lambda: x * k, lambda: x - k)
            return chosen, F.contrib.foreach(lambda d, s: (d * k + s, s + d), x, h)[0]

        def twice(net, F, x, h):
            return [*with_factor(F, x, h, 2), *with_factor(F, x, h, 3)]

        net, args = filled(twice), (nd.ones((5000, 3)), nd.zeros((3,)))
        wanted = [y.asnumpy() for y in net(*args)]
        net.hybridize()
        for found, right in zip(net(*args), wanted, strict=True):
            np.testing.assert_allclose(found.asnumpy(), right)

    def test_dropout_in_a_branch_drops_in_training_alone(self):
        net = filled(
            lambda net, F, x: F.contrib.cond(F.sum(x) > 0, lambda: F.Dropout(x), lambda: x)
        )
        net.hybridize()
        x = nd.ones((50,))
        assert net(x).asnumpy().all()
        with autograd.train_mode():
            assert not net(x).asnumpy().all()
        x.attach_grad()
        with autograd.record():
            y = net(x)
        with pytest.raises(mx.MXNetError, match="_cond has no gradient if its graph draws"):
            y.backward()

    def test_dropout_in_rows_has_the_gradient_of_its_factors(self):
        net = filled(
            lambda net, F, x, h: F.contrib.foreach(lambda d, s: (F.Dropout(d), s + d), x, h)[0]
        )
        net.hybridize()
        x = nd.ones((5, 20))
        x.attach_grad()
        with autograd.record():
            y = net(x, nd.zeros((20,)))
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
        assert {*y.asnumpy().ravel()} == {0.0, 2.0}


class Scanned(gluon.HybridBlock):
    """A recurrent cell that a loop takes from row to row, and a layer behind it."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.cell, self.out = gluon.rnn.LSTMCell(5), gluon.nn.Dense(2)

    def hybrid_forward(self, F, x, h, c):
        rows, states = F.contrib.foreach(self.cell, x, [h, c])
        return self.out(states[0]), rows


@pytest.fixture(scope="module")
def scanned():
    """A hybridized network whose parameters' shapes follow from inside of the loop."""
    net = Scanned()
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    arrays = [nd.random.uniform(shape=s) for s in ((4, 2, 3), (2, 5), (2, 5))]
    return net, arrays, [x.asnumpy() for x in net(*arrays)]


class TestElsewhere:
    def test_verify_accepts_networks_with_loops(self, scanned):
        net, arrays, _ = scanned
        assert "compiled agrees with eager" in str(net.verify(*arrays, train=True))

    def test_networks_with_loops_can_be_pickled(self, scanned):
        net, arrays, expected = scanned
        require_close(pickle.loads(pickle.dumps(net))(*arrays), expected)

    def test_networks_with_loops_are_exported_to_onnx(self, scanned, tmp_path):
        net, arrays, expected = scanned
        net.export_onnx(str(tmp_path / "net.onnx"), *arrays)
        require_close(mx.onnx.load(str(tmp_path / "net.onnx"))(*arrays), expected)

    def test_libraries_support_loops_but_not_branches(self, scanned, tmp_path):
        """All of its steps have kernels, those of a branch do not."""
        net, arrays, expected = scanned
        net.export(str(tmp_path / "net"))
        shapes = ["--shape", "data0=4,2,3", "--shape", "data1=2,5", "--shape", "data2=2,5"]
        command = ["compile", str(tmp_path / "net"), *shapes, "--library", str(tmp_path)]
        assert cli.main(command) == 0
        made = mx.library.load(str(tmp_path / "net.so"))(*(x.asnumpy() for x in arrays))
        for found, right in zip(made, expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


class TestEager:
    def test_a_loop_without_a_step_has_no_rows(self):
        rows, last = nd.contrib.while_loop(
            lambda i: i < 0, lambda i: (i, i + 1), nd.array([1]), max_iterations=4
        )
        assert rows == [] and last.asscalar() == 1

    @pytest.mark.parametrize(
        "variables, most, words",
        [
            ([], 3, "at least one element"),
            ([nd.ones(1)], "x", "Cannot convert max_iteration"),
            ([nd.ones(1)], None, "should be specified"),
            ([nd.ones(1)], 3, "should be consistent"),
        ],
    )
    def test_while_loop_raises_for_wrong_arguments(self, variables, most, words):
        with pytest.raises(ValueError, match=words):
            nd.contrib.while_loop(lambda i: i < 3, lambda i: (i, [i, i]), variables, most)


a, b = sym.var("a"), sym.var("b")


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda c: c.foreach(lambda d, s: (d, d), a, b), AssertionError, "the state arrays have"),
        (lambda c: c.foreach(lambda d, s: (s, s), a, b), AssertionError, "the data arrays have"),
        (lambda c: c.foreach(lambda d, s: (d, [s]), a, b), AssertionError, "different format"),
        (lambda c: c.foreach(lambda d, s: (d, 3), a, b), AssertionError, "got 3 of type"),
        (lambda c: c.while_loop(lambda x: x, lambda x: (x, x), [a]), ValueError, "max_iterations"),
        (lambda c: c.while_loop(lambda x: 3, lambda x: (x, x), [a], 3), ValueError, "a Symbol"),
        (
            lambda c: c.while_loop(lambda x: x, lambda x: (b, b), [a], 3),
            ValueError,
            "1-th loop_var",
        ),
        (lambda c: c.while_loop(lambda: a, lambda: a, [], 3), ValueError, "at least one"),
        (lambda c: c.while_loop(lambda x: x, lambda x: (x, x), [a], "z"), ValueError, "to python"),
        (lambda c: c.cond(a, lambda: b, lambda: [a, b]), ValueError, "differs between then"),
        (lambda c: c.cond(3, lambda: b, lambda: b), AssertionError, "got 3 of type"),
    ],
)
def test_symbolic_loops_raise_for_wrong_arguments(call, kind, words):
    with pytest.raises(kind, match=words):
        call(sym.contrib)


class TestLimits:
    def test_steps_of_one_call(self, monkeypatch):
        monkeypatch.setattr(bodies, "MOST_STEPS", 5)
        _, last = sym.contrib.while_loop(lambda x: x < 100, lambda x: (None, x + 1), a, 50)
        executor = last.bind(mx.cpu(), {"a": nd.array([96])})
        assert executor.forward()[0].asscalar() == 100
        executor.arg_dict["a"][:] = 0
        for _ in range(2):  # the first one's steps are not counted in the second
            with pytest.raises(mx.MXNetError, match="at most 5 steps"):
                executor.forward()
        executor.arg_dict["a"][:] = 96
        assert executor.forward()[0].asscalar() == 100

    def test_graphs_in_each_other(self):
        def deep(x, depth):
            if not depth:
                return x + 1
            return sym.contrib.cond(x, lambda: deep(x, depth - 1), lambda: x)

        assert deep(a, 6).eval(a=nd.ones(1))[0].asscalar() == 2
        with pytest.raises(mx.MXNetError, match="more than 6 deep"):
            deep(a, 7)

    def test_a_condition_has_one_element(self):
        chosen = sym.contrib.cond(a, lambda: a + 1, lambda: a)
        with pytest.raises(mx.MXNetError, match=r"a condition must have one element, got \(2,\)"):
            chosen.eval(a=nd.ones(2))

    def test_rows_have_to_be_as_many(self):
        rows, _ = sym.contrib.foreach(lambda d, s: (d[0] + d[1], s), [a, b], [])
        with pytest.raises(mx.MXNetError, match="the same number of rows"):
            rows.eval(a=nd.ones((2, 3)), b=nd.ones((3, 3)))

    def test_long_loops_are_not_written_out(self):
        rows, last = sym.contrib.foreach(lambda d, s: (d + s, s + 1), a, b)
        graph = sym.Group([rows, last])
        executor = graph.bind(mx.cpu(), {"a": nd.ones((5000, 1)), "b": nd.zeros((1,))})
        made, last = executor.forward()
        assert last.asscalar() == 5000 and made.asnumpy()[-1] == 5000


TEXT = RECORDED["while_loop"]["json"]


class TestFiles:
    @pytest.mark.parametrize(
        "old, new, words",
        [
            ('"num_args": "6"', '"num_args": "9"', "expects 7 inputs"),
            ('"num_args": "6"', '"num_args": "900000000"', "at most 16384 are possible"),
            ('"num_outputs": "4"', '"num_outputs": "5"', "say 4 operands and 5 results"),
            (
                '"max_iterations": "6"',
                '"max_iterations": "6e9"',
                "max_iterations must be an integer",
            ),
            (
                '"max_iterations": "6"',
                f'"max_iterations": "{10**30}"',
                "max_iterations must be an int",
            ),
            ('"func_var_locs": "[', '"func_var_locs": "[99, ', "has no variable 99"),
            ('"cond_input_locs": "[0', '"cond_input_locs": "[77', "index 77 is out of range"),
            ('"cond_input_locs": "[0]', '"cond_input_locs": "[]', "0 indices for the graph's 1"),
            (
                '"num_out_data": "2"',
                '"num_out_data": "1"',
                "results; they need 1 condition, 1 outputs",
            ),
            ('"op": "_lesser_scalar"', '"op": "NoSuch"', "Operator NoSuch is not registered"),
            ('"subgraphs": [', '"subgraphs": [3, ', "subgraph 0 of node"),
            ('"subgraphs": [', '"subgraphs": {}, "x": [', "Unknown field"),
        ],
    )
    def test_files_with_inconsistent_loops_raise(self, old, new, words):
        assert old in TEXT
        with pytest.raises(mx.MXNetError, match=words):
            symbol_json.loads(TEXT.replace(old, new))

    def test_without_graphs(self):
        document = json.loads(TEXT)
        (loop,) = [node for node in document["nodes"] if node["op"] == "_while_loop"]
        for graphs, words in (([], "has 2 subgraphs, got 0"), (loop["subgraphs"] * 4, "allowed")):
            loop["subgraphs"] = graphs
            with pytest.raises(mx.MXNetError, match=words):
                symbol_json.loads(json.dumps(document))
        del loop["subgraphs"]
        with pytest.raises(mx.MXNetError, match="has no subgraphs"):
            symbol_json.loads(json.dumps(document))

    def test_too_deep(self):
        text = '{"nodes": [{"op": "_cond", "name": "c", "inputs": [], "subgraphs": [%s]}], %s}'
        found, rest = "{}", '"arg_nodes": [], "heads": [[0, 0, 0]]'
        for _ in range(50):
            found = text % (found, rest)
        with pytest.raises(mx.MXNetError, match="graphs are nested more than 6 deep"):
            symbol_json.loads(found)
