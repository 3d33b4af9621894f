"""Shapes and indices of MXNet 1.9.1: Reshape's codes, slices, joins, ties of orderings.

Also inference from outputs to operands.
"""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.errors import MXNetError, ShapeError
from hybridjit.ir.graph import from_symbol
from hybridjit.ir.interpret import interpret
from hybridjit.ir.node import Output, apply, variable
from hybridjit.ops import lookup, run_ref
from hybridjit.ops.tensor import new_arrays
from hybridjit.ops.tensor.reductions import cumsum
from hybridjit.passes.infer import infer_node_types
from running import run

BLOCK = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
NAN = float("nan")


@pytest.mark.parametrize(
    "codes, reverse, wanted",
    [
        ((0, -1), False, (2, 60)),
        ((-1, 0), False, (40, 3)),
        ((-1, 0), True, (24, 5)),
        ((0, -1), True, (4, 30)),
        ((-3, -3), False, (6, 20)),
        ((0, -3, 0), False, (2, 12, 5)),
        ((-3, -2), False, (6, 4, 5)),
        ((-4, -1, 2, -2), False, (1, 2, 3, 4, 5)),
        ((2, -4, -1, 3, -2), False, (2, 1, 3, 4, 5)),
        ((0, -4, 3, -1, -2), False, (2, 3, 1, 4, 5)),
        ((6, 1, -2), False, (6, 1, 4, 5)),
        ((-2, 1, 1), False, (2, 3, 4, 5, 1, 1)),
        ((-2, -2), False, (2, 3, 4, 5)),
        ((-1,), False, (120,)),
    ],
)
def test_reshape_codes(codes, reverse, wanted):
    found = run("Reshape", BLOCK, shape=codes, reverse=reverse)
    np.testing.assert_array_equal(found, BLOCK.reshape(wanted))


def test_reshape_raises_where_mxnet_corrupts_memory():
    with pytest.raises(ShapeError, match=r"into \(3,4,20\): that shape has 240"):
        run("Reshape", BLOCK, shape=(0, 0, 20), reverse=True)


@pytest.mark.parametrize(
    "target, keep_highest, wanted",
    [((2, 0), False, (2, 60)), ((0, 60), False, (2, 60)), ((9, 5, 0), True, (2, 5, 12))],
)
def test_legacy_target_shape(target, keep_highest, wanted):
    found = run("Reshape", BLOCK, target_shape=target, keep_highest=keep_highest)
    assert found.shape == wanted


def test_flatten_squeeze_and_full_reductions_have_an_axis_left():
    assert run("Flatten", [1, 2, 3]).shape == (3, 1)
    assert run("squeeze", [[1]]).shape == (1,)
    assert run("sum", BLOCK).shape == (1,)
    assert run("sum", BLOCK, exclude=True).shape == (1,)
    assert run("sum", BLOCK, axis=(), exclude=True).shape == (1,)
    assert run("sum", BLOCK, axis=(0, 1, 2, 3), exclude=True).shape == BLOCK.shape
    assert run("max", BLOCK, keepdims=True).shape == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "begin, end, step, part",
    [
        ((1, 0), (2, 9), (), np.s_[1:2, 0:9]),
        ((None, None), (None, None), (None, -1), np.s_[:, ::-1]),
        ((None, 2, 3), (None, None, 0), (None, -1, -2), np.s_[:, 2::-1, 3:0:-2]),
        ((-1,), (None,), (), np.s_[-1:]),
        ((-9,), (9,), (), np.s_[:]),
    ],
)
def test_slice_marks(begin, end, step, part):
    np.testing.assert_array_equal(run("slice", BLOCK, begin=begin, end=end, step=step), BLOCK[part])


def test_depth_to_space_counts_blocks_first():
    x = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
    found = run("depth_to_space", x, block_size=2)
    assert found.tolist() == [[[[0, 2], [4, 6]], [[1, 3], [5, 7]]]]
    np.testing.assert_array_equal(run("space_to_depth", found, block_size=2), x)


def test_zero_sizes():
    empty = np.zeros((0, 3), np.float32)
    assert run("Concat", empty, BLOCK[0, :, :3, 0], dim=0).shape == (3, 3)
    assert run("Reshape", empty, shape=(0, 1, 3)).shape == (0, 1, 3)
    assert run("SliceChannel", empty, num_outputs=3)[0].shape == (0, 1)
    assert run("sum", empty, axis=0).tolist() == [0, 0, 0]
    assert run("broadcast_add", empty, [[1, 2, 3]]).shape == (0, 3)
    assert run("slice", empty, begin=(0,), end=(None,)).shape == (0, 3)
    assert run("topk", np.zeros((0, 4), np.float32), k=2).shape == (0, 2)


TIES = np.array([[1, 3, 3, 2, 3], [5, 0, 7, -1, 7]], np.float32)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_ties_come_in_the_order_of_the_array(dtype):
    ties = TIES.astype(dtype)
    assert run("topk", ties, k=3).tolist() == [[1, 2, 4], [2, 4, 0]]
    assert run("topk", ties, k=3, is_ascend=True).tolist() == [[0, 3, 1], [3, 1, 0]]
    assert run("topk", ties, k=2, axis=None).tolist() == [7, 9]
    assert run("argsort", ties).tolist() == [[0, 3, 1, 2, 4], [3, 1, 0, 2, 4]]
    assert run("argsort", ties, is_ascend=False).tolist() == [[1, 2, 4, 3, 0], [2, 4, 0, 1, 3]]
    assert run("topk", ties, k=2, ret_typ="mask")[0].tolist() == [0, 1, 1, 0, 0]
    assert run("argmax", ties, axis=1).tolist() == [1, 2]


def test_index_types():
    assert run("topk", TIES).dtype == run("argsort", TIES.astype("int32")).dtype == np.float32
    values, places = run("topk", TIES.astype("int32"), ret_typ="both", dtype="int64")
    assert (values.dtype, places.dtype) == (np.int32, np.int64)
    assert run("argmax", TIES.astype("int32"), axis=0).dtype == np.int32
    assert run("shape_array", TIES).dtype == np.int64


def test_nan_is_the_largest_and_the_smallest():
    x = [1, NAN, 5, NAN]
    assert run("argmax", x, axis=0).tolist() == run("argmin", x, axis=0).tolist() == [1]
    assert np.isnan(run("max", x)[0]) and run("nansum", x)[0] == 6


def test_integer_sums_wrap_before_the_mean_divides():
    x = np.array([[100, 100, 101]], "uint8")
    assert run("sum", x, axis=1).tolist() == [45] and run("mean", x, axis=1).tolist() == [15]
    assert run("mean", np.array([-1, -2], "int32")).tolist() == [-1]


def test_float16_sums_are_formed_in_a_wider_type():
    assert run("mean", np.full((70000,), 1, "float16")).tolist() == [1]


def test_indices_are_truncated_and_brought_into_range():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = [0, -1, 3.9, 7, -0.5, -5, NAN]
    assert run("take", table, rows)[:, 0].tolist() == [0, 0, 9, 9, 0, 0, 0]
    assert run("take", table, rows[:6], mode="wrap")[:, 0].tolist() == [0, 9, 9, 9, 0, 9]
    assert run("pick", table, [-1, -2, 1.9, -7]).tolist() == [0, 3, 7, 9]
    assert run("one_hot", [-0.5, -1, 5, NAN], depth=2).tolist() == [[1, 0], [0, 0], [0, 0], [0, 0]]
    assert run("gather_nd", table, [[0, 1, -1], [2, 0, -3]]).tolist() == [2, 3, 9]


def test_indices_out_of_range_are_refused_where_mxnet_refuses_them():
    table = np.zeros((4, 3), np.float32)
    with pytest.raises(MXNetError, match="index -1 is not in the range 0 to 3"):
        run("take", table, [0, -1], mode="raise")
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        run("gather_nd", table, [[4], [0]])


def test_scatter_keeps_the_last_of_equal_places():
    assert run("scatter_nd", [1, 2, 3], [[1, 0, 1]], shape=(3,)).tolist() == [2, 3, 0]


def test_ranges_equal_mxnets():
    assert run("_arange", start=5).tolist() == [0, 1, 2, 3, 4]
    assert run("_arange", start=0, stop=3, repeat=2).tolist() == [0, 0, 1, 1, 2, 2]
    found = run("_arange", start=1, stop=2, step=0.3)
    assert found.tolist() == [1.0, 1.2999999523162842, 1.600000023841858, 1.9000000953674316]
    like = run("_contrib_arange_like", np.zeros((4, 3)), axis=0, repeat=2, start=1, step=0.5)
    assert like.tolist() == [1, 1, 1.5, 1.5]


def test_ctc_loss_sums_over_all_alignments():
    """Three steps and the label (1, 2): five paths, written out."""
    data = np.random.default_rng(4).normal(size=(3, 1, 3)).astype(np.float32)
    odds = np.exp(data[:, 0]) / np.exp(data[:, 0]).sum(1, keepdims=True)
    paths = [(1, 2, 0), (1, 0, 2), (0, 1, 2), (1, 1, 2), (1, 2, 2)]
    wanted = -np.log(sum(odds[0, a] * odds[1, b] * odds[2, c] for a, b, c in paths))
    np.testing.assert_allclose(run("CTCLoss", data, [[1, 2, 0]]), [wanted], rtol=1e-6)
    assert run("CTCLoss", data, [[2, 2, 2]]).tolist() == [0]  # no way, as in MXNet
    with pytest.raises(MXNetError, match="label 7 is not one of the 3 classes"):
        run("CTCLoss", data, [[1, 7, 0]])


@pytest.mark.parametrize(
    "name, key, others",
    [
        ("Pooling", "kernel", {"global_pool": "True"}),
        ("Deconvolution", "target_shape", {"kernel": "(3, 3)", "num_filter": "4"}),
        ("tile", "reps", {}),
        ("broadcast_axis", "size", {}),
        ("Dropout", "axes", {}),
        ("_contrib_AdaptiveAvgPooling2D", "output_size", {}),
        ("_split_v2", "indices", {"sections": "2"}),
    ],
)
def test_none_stands_for_no_numbers(name, key, others):
    """As a program writes it that has a None where it has no numbers."""
    assert lookup(name).parse({key: "None", **others})[key] == ()


def test_slice_like_cuts_all_axes_or_none():
    data, like = np.ones((3, 4)), np.ones((2, 2))
    assert run("slice_like", data, like).shape == (2, 2)
    assert run("slice_like", data, like, axes=None).shape == (3, 4)


def test_a_slice_without_begin_has_no_end_either():
    with pytest.raises(MXNetError):
        run("slice", np.ones((3, 4)), begin=None, end=(2,))
    assert run("slice", np.ones((3, 4)), begin=(1,), end=(None,), step=None).shape == (2, 4)


@pytest.mark.parametrize("key", ["stride", "pad", "dilate", "kernel"])
def test_none_is_no_size_of_a_window(key):
    with pytest.raises(MXNetError, match=f"attribute {key} takes shape, got 'None'"):
        lookup("Convolution").parse({"kernel": "(3, 3)", "num_filter": "4", key: "None"})


def inferred(name: str, *inputs: Output, known: dict[str, tuple], out=None, **attrs: object):
    """Types of the inputs and the first output after inference over ``x <op> other``."""
    node = apply(lookup(name), "node", inputs, {k: str(v) for k, v in attrs.items()})
    top = Output(node)
    if out is not None:
        top = Output(apply(lookup("elemwise_add"), "sum", (top, Output(variable("y"))), {}))
        known = {**known, "y": out}
    types = infer_node_types([top], {k: TensorType(v, FLOAT32) for k, v in known.items()})
    return [types[i.node][i.index].shape for i in inputs], types[node][0].shape


def zeros(*shape: int) -> Output:
    return Output(apply(lookup("_zeros"), "zeros", (), {"shape": str(shape)}))


@pytest.mark.parametrize(
    "name, attrs, out, whole",
    [
        ("SliceChannel", {"num_outputs": 3, "axis": 1}, (4, 1), (4, 3)),
        ("SliceChannel", {"num_outputs": 3, "axis": 1, "squeeze_axis": "True"}, (4,), (4, 3)),
        ("Reshape", {"shape": "(-1, 3)"}, (5, 3), (5, 3)),
        ("Reshape", {"shape": "(0, 1, 3)"}, (5, 1, 3), (5, 3)),
        ("transpose", {}, (3, 5), (5, 3)),
        ("SwapAxis", {"dim1": 0, "dim2": 1}, (3, 5), (5, 3)),
        ("relu", {}, (5, 3), (5, 3)),
        ("_plus_scalar", {"scalar": 1}, (5, 3), (5, 3)),
        ("Cast", {"dtype": "float32"}, (5, 3), (5, 3)),
    ],
)
def test_zeros_of_unknown_size_follow_from_their_consumer(name, attrs, out, whole):
    (found,), _ = inferred(name, zeros(0, 3), known={}, out=out, **attrs)
    assert found == whole


def test_a_sum_fills_either_side():
    shapes, out = inferred("elemwise_add", zeros(0, 3), Output(variable("x")), known={"x": (2, 3)})
    assert shapes == [(2, 3), (2, 3)] and out == (2, 3)


def test_the_addend_of_a_product_has_its_shape():
    known = {"a": (5, 4, 3), "b": (5, 4, 2), "c": (5, None, 2)}
    inputs = [Output(variable(name)) for name in "abc"]
    shapes, out = inferred("_linalg_gemm", *inputs, known=known, transpose_a="True")
    assert shapes[2] == out == (5, 3, 2)


def test_a_value_assigned_to_a_slice_has_its_shape():
    inputs = [Output(variable(name)) for name in "ab"]
    attrs = {"begin": "(None, 2)", "end": "(-1, None)", "step": "(1, -1)"}
    shapes, out = inferred("_slice_assign", *inputs, known={"a": (4, 5)}, **attrs)
    assert shapes[1] == (3, 3) and out == (4, 5)


def test_concat_finds_its_one_unknown_operand():
    inputs = (zeros(0, 3), Output(variable("x")))
    shapes, _ = inferred("Concat", *inputs, known={"x": (2, 3)}, out=(5, 3), num_args=2, dim=0)
    assert shapes == [(3, 3), (2, 3)]


def test_resolved_attributes_give_the_inferred_types():
    zeros_op, arange = lookup("_zeros"), lookup("_arange")
    wanted = TensorType((4, 3), FLOAT32)
    attrs = new_arrays.resolved(zeros_op, zeros_op.parse({"shape": "(0, 3)"}), wanted)
    assert run_ref(zeros_op, [], attrs)[0].shape == (4, 3)
    text = {"start": "1", "step": "0.1", "repeat": "2", "infer_range": "True"}
    attrs = new_arrays.resolved(arange, arange.parse(text), TensorType((60,), FLOAT32))
    (found,) = run_ref(arange, [], attrs)
    assert found.shape == (60,) and found[:3].tolist() == [1, 1, np.float32(1.1)]
    other = lookup("_full")
    attrs = other.parse({"shape": "(2,)", "value": "3"})
    assert new_arrays.resolved(other, attrs, TensorType((2,), FLOAT32)) == attrs


def test_a_graph_makes_sources_as_large_as_their_users_decided():
    x = Output(variable("x"))
    text = {"start": "2", "infer_range": "True"}
    steps = Output(apply(lookup("_arange"), "steps", (), text))
    total = Output(apply(lookup("elemwise_add"), "sum", (x, steps), {}))
    whole = Output(apply(lookup("elemwise_add"), "all", (total, zeros()), {}))
    given = {"x": TensorType((3,), FLOAT32)}
    graph = from_symbol([whole], given, infer_node_types([whole], given))
    (found,) = interpret(graph, {graph.inputs[0]: np.ones(3, np.float32)})
    assert found.tolist() == [3, 4, 5]


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "bool"])
def test_long_cumulative_sums_have_the_bits_of_numpys(axis, dtype):
    data = (np.random.default_rng(3).standard_normal((48, 49, 50)) * 3).astype(dtype)
    for each in (data, data[:, ::-1], data[:, :0] if axis in (0, 2) else data[:0]):
        found = cumsum(each, axis=axis, dtype=None)
        right = np.cumsum(each, axis=axis, dtype="int64" if dtype == "bool" else dtype)
        assert found.dtype == right.dtype and found.tobytes() == right.tobytes()
