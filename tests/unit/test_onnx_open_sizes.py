"""ONNX models whose nodes ask for sizes that are open: one network for all sizes."""

from __future__ import annotations

import numpy as np
import pytest
from test_onnx import model_of, node, numbers

from hybridjit import nd
from hybridjit.errors import ShapeError
from hybridjit.formats.onnx.messages import Dimension, Model
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN
from recorded import as_list


def of_all_sizes(model: Model, *calls: np.ndarray) -> list[np.ndarray]:
    """The results of one network for arrays of several sizes, compiled equal to eager.

    They also equal those of a model that is read again for each size.
    """
    assert model.graph is not None
    name = model.graph.input[0].name
    block = make_block(make_graph(model, KNOWN, None, {}))
    found = []
    for x in calls:
        alone = make_block(make_graph(model, KNOWN, None, {name: x.shape}))
        block.hybridize()
        (compiled,) = as_list(block(nd.array(x)))
        block.hybridize(active=False)
        for (other,) in (as_list(block(nd.array(x))), as_list(alone(nd.array(x)))):
            np.testing.assert_allclose(compiled, other, rtol=1e-5, atol=1e-6)
        found.append(compiled)
    return found


def named(model: Model, *names: str) -> Model:
    """The first input's open sizes with names, as exporters write them."""
    assert model.graph is not None
    kind = model.graph.input[0].type
    assert kind is not None and kind.tensor_type is not None
    shape = kind.tensor_type.shape
    assert shape is not None
    left = iter(names)
    shape.dim = [d if d.dim_value else Dimension(dim_param=next(left)) for d in shape.dim]
    return model


def test_flattening_by_the_batch():
    """The nodes of ``x.view(x.size(0), -1)``."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Unsqueeze", "batch axes", "first"),
        node("Concat", "first rest", "sizes", axis=0),
        node("Reshape", "x sizes"),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    model = model_of(nodes, {"x": (None, 3, 4)}, constants)
    calls = [numbers(n, 3, 4) for n in (1, 5)]
    for x, y in zip(calls, of_all_sizes(model, *calls)):
        np.testing.assert_array_equal(y, x.reshape(len(x), -1))


def test_other_sizes_than_the_files_are_not_cut_short():
    """MXNet's Reshape takes the first elements where there are too many."""
    nodes = [
        node("Shape", "x", "batch", end=1),
        node("Concat", "batch rest", "sizes", axis=0),
        node("Reshape", "x sizes", "flat"),
        node("MatMul", "flat w"),
    ]
    constants = {"rest": np.array([12]), "w": numbers(12, 2)}
    block = make_block(make_graph(model_of(nodes, {"x": (None, 3, 4)}, constants), KNOWN, None, {}))
    block(nd.array(numbers(2, 3, 4)))
    with pytest.raises(ShapeError, match=r"input 'x' takes shape \(\?,3,4\), got \(2,6,4\)"):
        block(nd.array(numbers(2, 6, 4)))


def test_heads_of_attention():
    """Batches and steps are open: two sizes are copied, products are of both."""
    nodes = [
        node("Shape", "x", "outer", end=2),
        node("Concat", "outer parts", "apart", axis=0),
        node("Concat", "outer whole", "together", axis=0),
        node("Reshape", "x apart", "heads"),
        node("Transpose", "heads", "q", perm=(0, 2, 1, 3)),
        node("Transpose", "heads", "k", perm=(0, 2, 3, 1)),
        node("MatMul", "q k", "scores"),
        node("Softmax", "scores", "weights", axis=-1),
        node("MatMul", "weights q", "sums"),
        node("Transpose", "sums", "steps", perm=(0, 2, 1, 3)),
        node("Reshape", "steps together"),
    ]
    constants = {"parts": np.array([2, 4]), "whole": np.array([8])}
    model = named(model_of(nodes, {"x": (None, None, 8)}, constants), "batch", "steps")
    calls = [numbers(2, 3, 8), numbers(1, 7, 8), numbers(3, 1, 8)]
    for x, y in zip(calls, of_all_sizes(model, *calls)):
        q = x.reshape(*x.shape[:2], 2, 4).swapaxes(1, 2)
        e = np.exp(q @ q.swapaxes(-1, -2))
        right = (e / e.sum(-1, keepdims=True) @ q).swapaxes(1, 2).reshape(x.shape)
        np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_a_constant_for_every_sample():
    """A token before the others, as vision transformers have it."""
    nodes = [
        node("Shape", "x", "batch", end=1),
        node("Concat", "batch rest", "sizes", axis=0),
        node("Expand", "token sizes", "tokens"),
        node("Concat", "tokens x", axis=1),
    ]
    token = numbers(1, 1, 4)
    model = model_of(nodes, {"x": (None, 3, 4)}, {"rest": np.array([1, 4]), "token": token})
    calls = [numbers(n, 3, 4) for n in (1, 3)]
    for x, y in zip(calls, of_all_sizes(model, *calls)):
        np.testing.assert_array_equal(y, np.concatenate([np.repeat(token, len(x), 0), x], 1))


def test_a_part_up_to_the_end():
    """All steps but the last two, whatever their number is."""
    nodes = [node("Slice", "x start end axis")]
    constants = {"start": np.array([1]), "end": np.array([-2]), "axis": np.array([1])}
    model = named(model_of(nodes, {"x": (None, None, 2)}, constants), "?", "?")
    calls = [numbers(2, 5, 2), numbers(1, 9, 2)]
    for x, y in zip(calls, of_all_sizes(model, *calls)):
        np.testing.assert_array_equal(y, x[:, 1:-2])


@pytest.mark.parametrize(
    "use, weights",
    [
        (node("ConvTranspose", "x w", strides=(2, 2), pads=(1, 1, 1, 1)), (3, 2, 3, 3)),
        (node("Conv", "x w", auto_pad="SAME_UPPER", strides=(2, 2)), (2, 3, 3, 3)),
        (node("Resize", "x none scales", mode="cubic"), ()),
        (node("Pad", "x pads"), ()),
        (node("Split", "x", "y z", axis=2, num_outputs=2), ()),
        (node("ArgMax", "x", axis=1, select_last_index=1), ()),
    ],
    ids=lambda case: case.op_type if hasattr(case, "op_type") else "",
)
def test_pictures_of_open_batches(use, weights):
    held = {
        "scales": np.array([1, 1, 1.5, 0.7], "f4"),
        "none": np.zeros(0, "f4"),
        "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1]),
        "w": numbers(*weights),
    }
    constants = {name: array for name, array in held.items() if name in use.input}
    model = model_of([use], {"x": (None, 3, 6, 7)}, constants, opset=18)
    of_all_sizes(model, *(numbers(n, 3, 6, 7) for n in (1, 4)))


def test_sizes_of_one_name_are_one_size():
    """Two inputs of one batch; the second is broadcast by the first."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Expand", "b shape", "whole"),
        node("Add", "whole x"),
    ]
    model = model_of(nodes, {"x": (None, 3), "b": (None, 1)})
    named(model, "batch")
    assert model.graph is not None
    model.graph.input = model.graph.input[::-1]
    named(model, "batch")
    block = make_block(make_graph(model, KNOWN, None, {}))
    for n in (1, 4):
        b, x = numbers(n, 1), numbers(n, 3)
        np.testing.assert_array_equal(block(nd.array(b), nd.array(x)).asnumpy(), b + x)


SHAPE = node("Shape", "x", "s")


@pytest.mark.parametrize(
    "nodes, shape",
    [
        ([node("Slice", "x start end axis")], (2, None)),
        ([SHAPE, node("Reshape", "x s", "z"), node("Squeeze", "z")], (None, 2)),
        ([SHAPE, node("ReduceProd", "s", "n"), node("Tile", "x n")], (None,)),
    ],
)
def test_graphs_that_depend_on_a_size_need_that_size(nodes, shape):
    """A limit of 500 steps, an axis that is taken away where it has one element, a count."""
    constants = {"start": np.array([0]), "end": np.array([500]), "axis": np.array([1])}
    used = {name for use in nodes for name in use.input}
    model = model_of(nodes, {"x": shape}, {n: a for n, a in constants.items() if n in used})
    with pytest.raises(ShapeError, match="shapes="):
        make_graph(model, KNOWN, None, {})
