"""Operators of MXNet's contrib and older names, whose values MXNet 1.9.1 gave."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd, sym


def processes() -> list[np.ndarray]:
    """Two sequences of at most three events with two marks."""
    return [
        *map(
            np.float32, ([[0.5, 0.2], [0.3, 0.9]], [0.4, 0.7], [1.5, 0.8], [[0.1, 0.3], [0, 0.6]])
        ),
        np.float32([[0.2, 0.5, 0.1], [0.4, 0.3, 0.9]]),
        np.int32([[0, 1, 0], [1, 1, 0]]),
        np.float32([3, 2]),
        np.float32([1.5, 2]),
    ]


def test_hawkes_processes():
    arrays = [nd.array(x, dtype=x.dtype) for x in processes()]
    for x in arrays[:4]:
        x.attach_grad()
    with mx.autograd.record():
        found, state = nd.contrib.hawkesll(*arrays)
    mx.autograd.backward([found, state], [nd.array([1, -2]), nd.ones((2, 2))])
    np.testing.assert_allclose(found.asnumpy(), [-4.263836, -3.131781], rtol=1e-6)
    at_end = [[0.502752, 0.617651], [0, 0.75263]]
    np.testing.assert_allclose(state.asnumpy(), at_end, rtol=2e-6)
    gradients = [
        [[1.649032, 1.878799], [4, 0.946617]],
        [-0.533538, 1.687083],
        [-0.12201, 0.346942],
        [[0, 0], [0, 0]],
    ]
    for x, gradient in zip(arrays, gradients):
        np.testing.assert_allclose(x.grad.asnumpy(), gradient, rtol=1e-5, atol=2e-6)


def test_hawkes_processes_refuse_events_that_are_not_there():
    arrays = [nd.array(x, dtype=x.dtype) for x in processes()]
    with pytest.raises(mx.MXNetError, match="a valid_length is 4, but there are 3 events"):
        nd.contrib.hawkesll(*arrays[:6], nd.array([4, 1]), arrays[7])
    with pytest.raises(mx.MXNetError, match="mark 2 is not in the range 0 to 1"):
        nd.contrib.hawkesll(*arrays[:5], arrays[5] + 1, *arrays[6:])
    arrays[4].attach_grad()
    with mx.autograd.record():
        found = nd.contrib.hawkesll(*arrays)[0]
    with pytest.raises(mx.MXNetError, match="no gradient with respect to lags"):
        found.backward()


def test_counts_and_edges_of_csr_matrices():
    graph = nd.sparse.csr_matrix(
        (np.float32([5, 0, 3, 7]), [0, 2, 2, 1], [0, 2, 3, 4]), shape=(3, 3)
    )
    assert nd.contrib.getnnz(graph).asnumpy().tolist() == [4]  # with a zero that is stored
    assert nd.contrib.getnnz(graph, axis=1).asnumpy().tolist() == [2, 1, 1]
    assert nd.contrib.getnnz(graph).dtype == np.int64
    with pytest.raises(mx.MXNetError, match="axis None or 1, got 0"):
        nd.contrib.getnnz(graph, axis=0)
    u, v = nd.array([0, 0, 1, 2, 0], dtype="int64"), nd.array([0, 1, 2, 1, 2], dtype="int64")
    found = nd.contrib.edge_id(graph, u, v)
    assert found.asnumpy().tolist() == [5, -1, 3, 7, 0] and found.dtype == np.float32
    with pytest.raises(IndexError, match="rows 5 to 5 are not all below 3"):
        nd.contrib.edge_id(graph, nd.array([5]), nd.array([0]))
    data, u, v = sym.var("data", stype="csr"), sym.var("u"), sym.var("v")
    executor = sym.contrib.edge_id(data, u, v).bind(
        mx.cpu(), {"data": graph, "u": nd.array([0, 2]), "v": nd.array([1, 1])}
    )
    assert executor.forward()[0].asnumpy().tolist() == [-1, 7]


def test_count_sketches_add_signed_columns():
    data = nd.array([[1, 2, 3], [4, 5, 6]])
    h, s = nd.array([[0, 1, 1]]), nd.array([[1, -1, 1]])
    data.attach_grad()
    with mx.autograd.record():
        found = nd.contrib.count_sketch(data, h, s, out_dim=2)
    assert found.asnumpy().tolist() == [[1, 1], [4, 1]]
    found.backward(nd.array([[1, 10], [2, 20]]))
    assert data.grad.asnumpy().tolist() == [[1, -10, 10], [2, -20, 20]]
    sketch = sym.contrib.count_sketch(sym.var("data"), sym.var("h"), sym.var("s"), out_dim=7)
    assert sketch.infer_shape(data=(2, 5, 6, 3))[1] == [(2, 5, 6, 7)]


def test_elements_are_filled_by_index():
    lhs = nd.array([[0, 1, 2], [3, 4, 5]])
    found = nd.fill_element_0index(lhs, nd.array([10, 20]), nd.array([0, 2]))
    assert found.asnumpy().tolist() == [[10, 1, 2], [3, 4, 20]]
    nd.fill_element_0index(lhs, nd.array([10, 20]), nd.array([0, 2]), out=lhs)
    assert lhs.asnumpy().tolist() == [[10, 1, 2], [3, 4, 20]]
    filled = sym.fill_element_0index(sym.var("lhs"), sym.var("mhs"), sym.var("rhs"))
    assert filled.infer_shape(lhs=(2, 3)) == ([(2, 3), (2,), (2,)], [(2, 3)], [])


@pytest.mark.parametrize(
    "dtype, mean, variance",
    [("int32", [-1, -1], [17, 14]), ("int64", [-1, -1], [17, 14]), ("float32", None, None)],
)
def test_moments_of_integers_are_integers(dtype, mean, variance):
    data = nd.array([[-1, -2], [3, -5], [-7, 4]], dtype=dtype)
    found = nd.moments(data, axes=(0,))
    assert [x.dtype for x in found] == [np.dtype(dtype).type] * 2
    if mean is not None:
        assert [x.asnumpy().tolist() for x in found] == [mean, variance]


def test_moments_of_small_integers_wrap():
    found = nd.moments(nd.array([[1, 2], [3, 250]], dtype="uint8"), axes=(0,))
    assert [x.asnumpy().tolist() for x in found] == [[2, 126], [1, 16]]


def graph(op: str, inputs: int) -> str:
    """A file of one operator over variables, as MXNet wrote such."""
    variables = [{"op": "null", "name": name, "inputs": []} for name in "ab"[:inputs]]
    node = {"op": op, "name": "n", "inputs": [[i, 0, 0] for i in range(inputs)]}
    return json.dumps(
        {"nodes": [*variables, node], "arg_nodes": [*range(inputs)], "heads": [[inputs, 0, 0]]}
    )


def test_files_of_graphs_that_were_split_or_differentiated():
    a, b = nd.array([1, 2]), nd.array([3, 5])
    added = sym.load_json(graph("_grad_add", 2)).bind(mx.cpu(), {"a": a, "b": b})
    assert added.forward()[0].asnumpy().tolist() == [4, 7]
    copied = sym.load_json(graph("_CrossDeviceCopy", 1)).bind(mx.cpu(), {"a": a})
    assert copied.forward()[0].asnumpy().tolist() == [1, 2]


CHANGES = {
    "random_brightness": {"min_factor": 0.5, "max_factor": 1.5},
    "random_contrast": {"min_factor": 0.5, "max_factor": 1.5},
    "random_saturation": {"min_factor": 0.5, "max_factor": 1.5},
    "random_hue": {"min_factor": 0.1, "max_factor": 0.4},
    "random_color_jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.3},
    "random_lighting": {"alpha_std": 0.3},
    "random_flip_left_right": {},
    "random_flip_top_bottom": {},
}


@pytest.mark.parametrize("name", CHANGES)
def test_symbols_change_images_at_random(name):
    picture = nd.array(np.random.default_rng(0).uniform(0, 255, (4, 5, 3)))
    change = getattr(sym.image, name)(sym.var("data"), **CHANGES[name])
    assert change.tojson().count(f"_image_{name}") == 1
    gradient = nd.zeros((4, 5, 3))
    executor = change.bind(mx.cpu(), {"data": picture}, {"data": gradient})
    mx.random.seed(3)
    found = [executor.forward(is_train=True)[0].asnumpy() for _ in range(8)]
    assert any((x != found[0]).any() for x in found[1:])
    mx.random.seed(3)
    eager = getattr(nd.image, name)(picture, **CHANGES[name])
    np.testing.assert_allclose(found[0], eager.asnumpy(), rtol=1e-6)
    executor.backward(picture * 2)
    np.testing.assert_array_equal(gradient.asnumpy(), (picture * 2).asnumpy())


def test_a_hybridized_block_draws_in_every_call():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.image.random_brightness(x, 0.5, 1.5) * 2

    net = Net()
    net.hybridize()
    picture = nd.ones((4, 5, 3))
    assert len({float(net(picture)[0, 0, 0].asscalar()) for _ in range(6)}) > 1


def test_light_is_added_to_images():
    found = nd.image.adjust_lighting(nd.zeros((1, 1, 3)), (0.1, 0.2, 0.3)).asnumpy()
    np.testing.assert_allclose(found[0, 0], [-2.3197162, -3.505773, -3.7580683], rtol=1e-5)
    with pytest.raises(mx.MXNetError, match="3 channels or 1"):
        nd.image.random_hue(nd.zeros((4, 4, 2)), 0.5, 1)
    with pytest.raises(mx.MXNetError, match="min_factor must be at least 0, got -1"):
        nd.image.random_brightness(nd.zeros((4, 4, 3)), -1, 1)


@pytest.mark.parametrize("stype", ["default", "csr"])
def test_a_bias_may_be_a_column(stype):
    draw = np.random.default_rng(1).standard_normal
    x, w, b = (np.float32(draw(shape)) for shape in ((2, 3), (4, 3), (4, 1)))
    arrays = [nd.array(x).tostype(stype), nd.array(w), nd.array(b)]
    arrays[2].attach_grad()
    with mx.autograd.record():
        found = nd.FullyConnected(*arrays, num_hidden=4)
    np.testing.assert_allclose(found.asnumpy(), x @ w.T + b[:, 0], rtol=1e-5)
    found.backward(nd.array([[1, 2, 3, 4], [5, 6, 7, 8]]))
    assert arrays[2].grad.asnumpy().tolist() == [[6], [8], [10], [12]]
    dense = sym.FullyConnected(sym.var("x"), sym.var("w"), sym.var("b", shape=(4, 1)), num_hidden=4)
    compiled = dense.bind(mx.cpu(), dict(zip("xwb", map(nd.array, (x, w, b)))))
    np.testing.assert_allclose(compiled.forward()[0].asnumpy(), found.asnumpy(), rtol=1e-5)
    bound = compiled.arg_dict["b"]
    assert bound.shape == (4, 1)
    with pytest.raises(mx.MXNetError):
        nd.FullyConnected(nd.array(x), nd.array(w), nd.ones((1, 4)), num_hidden=4)
