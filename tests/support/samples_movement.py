"""Samples of the operators that move, reduce, order, select and create; and of attributes."""

from __future__ import annotations

import math

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from sampling import add, bad, ints

F16, BOOL = np.dtype("float16"), np.dtype("bool")
WORDS = np.random.default_rng(4).integers(0, 1 << 32, (3, 37), np.uint32).view(np.int32)

ACTIVATIONS = ("relu", "sigmoid", "softrelu", "softsign", "tanh")
LEAKY = ("leaky", "elu", "selu", "gelu", "rrelu")
SCALAR_FORMS = (
    *("plus", "minus", "rminus", "mul", "div", "rdiv", "maximum", "minimum", "equal"),
    *("not_equal", "greater", "greater_equal", "lesser", "lesser_equal"),
    *("logical_and", "logical_or", "logical_xor"),
)
REDUCTIONS = ("sum", "mean", "prod", "max", "min", "nansum", "nanprod")

# Attribute strings of elementwise operators
ELEMENTWISE: dict[str, list[dict[str, str]]] = {
    "Activation": [{"act_type": t} for t in ACTIVATIONS],
    "LeakyReLU": [{"act_type": t} for t in LEAKY]
    + [{"act_type": "leaky", "slope": "0.1"}, {"act_type": "elu", "slope": "1.5"}],
    "hard_sigmoid": [{}, {"alpha": "0.5", "beta": "-0.1"}],
    "clip": [{"a_min": "-1", "a_max": "1.5"}, {"a_min": "0", "a_max": "6"}],
    "smooth_l1": [{}, {"scalar": "2"}],
    "_contrib_quadratic": [{"a": "1", "b": "-2", "c": "0.5"}],
    "Cast": [{"dtype": "float64"}],
    "cast_storage": [{"stype": "csr"}],
    "amp_cast": [{"dtype": "float16"}],
    "add_n": [{"num_args": "1"}, {"num_args": "3"}],
    **{f"_{name}_scalar": [{"scalar": "2"}, {"scalar": "1.5"}] for name in SCALAR_FORMS},
}


def reshapes() -> None:
    for shape, reverse in (
        ((0, -1), False),
        ((-1, 0), True),
        ((-3, -3), False),
        ((-4, -1, 2, -2), False),
        ((0, -4, 3, -1, -2), False),
        ((-2, 1, 1), False),
        ((-1,), False),
    ):
        add("Reshape", (2, 3, 4, 5), shape=shape, reverse=reverse)
    add("Reshape", (2, 3), shape=(3, 2))
    add("Reshape", (2, 3, 4, 5), shape=(5, 4, 3, 2))
    add("Reshape", (0, 3, 4), shape=(0, 12))
    add("Reshape", (2, 3, 4), target_shape=(2, 0))
    add("Reshape", (3, 4), shape=(-1,), dtype="int32")
    add("Flatten", (2, 3, 4))
    add("Flatten", (5,))
    add("Flatten", (0, 3, 4))
    for axis in (0, 2, -1):
        add("expand_dims", (3, 4), axis=axis)
    add("squeeze", (1, 3, 1))
    add("squeeze", (1, 3, 1), axis=(0,))
    add("squeeze", (1, 1))
    add("reshape_like", (2, 3, 4), (4, 6))
    add("reshape_like", (30, 7), (15, 2, 4), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
    add("shape_array", (2, 0, 4))
    add("shape_array", (2, 3))
    add("size_array", (2, 3, 4))

    bad("Reshape", (2, 3, 4, 5), error=ShapeError, shape=(121, -1),
        says="Reshape of 120 elements into (121,-1): that shape needs at least 121")  # fmt: skip
    bad("Reshape", (2, 3), error=ShapeError, says="that shape has 8", shape=(2, 4))
    bad("Reshape", (2, 3), error=ShapeError, says="cannot infer two sizes", shape=(-1, -1))
    bad("Reshape", (2, 3), error=ShapeError, says="0 to -4, got -5", shape=(-5,))
    bad("Reshape", (2, 3), error=ShapeError, says="code 0 needs 1 more", shape=(0, 0, 0))
    bad("Reshape", (2, 3), error=ShapeError, says="code -3 needs 2 more", shape=(0, -3))
    bad("Reshape", (6, 3), error=ShapeError, says="cannot split 6 into 4 x -1", shape=(-4, 4, -1))
    bad("Reshape", (6, 3), error=ShapeError, says="code -4 needs two sizes", shape=(-4, 2))
    bad("Reshape", (6, 3), error=ShapeError, says="needs a shape")
    bad("expand_dims", (3, 4), error=ShapeError, says="axis 3 is out of range", axis=3)
    bad("squeeze", (1, 3), error=ShapeError, says="axis 1 has size 3", axis=1)
    bad("squeeze", (1, 3), error=ShapeError, says="has an axis twice", axis=(0, -2))
    bad("reshape_like", (2, 3), (7,), error=ShapeError, says="6 elements")
    bad("reshape_like", (2, 3), (7,), error=ShapeError, says="do not select axes of 2", lhs_begin=2)


def moves() -> None:
    add("transpose", (2, 3, 4))
    add("transpose", (2, 3, 4), axes=(1, 0, 2))
    add("transpose", (2, 3, 4, 5), axes=(0, 2, 3, 1))
    add("transpose", (4, 3), dtype="uint8")
    add("SwapAxis", (2, 3, 4), dim1=0, dim2=-1)
    add("reverse", (2, 3, 4), axis=1)
    add("reverse", (2, 3, 4), axis=(0, 2))
    add("reverse", (2, 3, 4), axis=(1, 0, 1))
    add("depth_to_space", (2, 8, 2, 3), block_size=2)
    add("space_to_depth", (2, 2, 4, 6), block_size=2)
    add("Pad", (1, 2, 3, 4), mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 0),
        constant_value=2.5)  # fmt: skip
    add("Pad", np.arange(6, dtype=np.int8).reshape(1, 1, 2, 3), mode="constant",
        pad_width=(0, 0, 0, 0, 1, 0, 0, 2), constant_value=-128)  # fmt: skip
    add("Pad", (1, 2, 3, 4), mode="reflect", pad_width=(0, 0, 0, 0, 2, 1, 0, 3))
    add("Pad", (1, 2, 3, 4, 2), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 2, 2, 3, 3))
    for mode in ("constant", "edge", "reflect"):
        add("_pad_axes", (2, 3, 40), mode=mode, before=(0, 2, 3), after=(0, 1, 2), value=-1.5)
    add("_place", (2, 3), shape=(4, 5), begin=(1, 0), end=(3, 3))
    add("_place", (2, 3, 2), shape=(4, 5, 2), begin=(0, 4), end=(4, None), step=(2, -2))
    add("_on_diagonal", (3,), shape=(5, 3), k=-1, axis1=0, axis2=1)
    add("_on_diagonal", (3, 2), shape=(2, 3, 4), k=-2, axis1=-1, axis2=0)
    bad("_on_diagonal", (3,), error=ShapeError, says="is not diagonal 1 of (3,3)",
        shape=(3, 3), k=1, axis1=0, axis2=1)  # fmt: skip
    add("diag", (3,), k=1)
    add("diag", (3, 4), k=-1)
    add("diag", (2, 3, 4), axis1=1, axis2=-1)
    add("Cast", np.array([-1, 300, 1.9, np.nan, np.inf, 3e9], np.float32), dtype_="int32")
    add("Cast", np.array([-1, 300, 1.9, -1.9, 0, 3], np.float32), dtype_="uint8")
    add("Cast", (3, 4), dtype_="float16")
    add("Cast", (3, 4), dtype_="float64")
    add("Cast", (3, 4), dtype_="float32", dtype="uint8")
    add("amp_cast", (3, 4), dtype_="float16")
    add("amp_cast", (3, 4), dtype_="float16", dtype="int32")
    add("amp_cast", (3, 4), dtype_="float16", dtype="float64")
    add("amp_multicast", np.ones((2, 3), np.float16), (2, 3), num_outputs=2)

    bad("transpose", (2, 3), error=ShapeError, says="not a permutation of 2 axes", axes=(0, 2))
    bad("SwapAxis", (2, 3), error=ShapeError, says="dim2 2 is out of range", dim2=2)
    bad("reverse", (2, 3), error=ShapeError, says="axis 2 is out of range", axis=2)
    bad("depth_to_space", (1, 6, 2, 2), error=ShapeError, says="6 channels", block_size=2)
    bad("space_to_depth", (1, 6, 3, 2), error=ShapeError, says="3 x 2", block_size=2)
    for name in ("depth_to_space", "space_to_depth"):
        bad(name, (1, 0, 2, 2), error=ShapeError, says="above 0, got (1,0,2,2)", block_size=2)
    bad("Pad", (1, 2, 3), error=ShapeError, says="4 or 5 axes, got 3", mode="edge", pad_width=())
    for dtype, value in (("uint8", 256), ("uint8", -1), ("int32", 3e9), ("int8", math.nan),
                         ("int64", 1e20), ("int64", math.inf)):  # fmt: skip
        bad("Pad", np.zeros((1, 2, 3, 4), dtype), error=AttributeValueError, mode="constant",
            says=f"constant_value is {value:g}, but data is {dtype}",
            pad_width=(0, 0, 0, 0, 1, 1, 1, 1), constant_value=value)  # fmt: skip
    bad("Pad", (1, 2, 3, 4), error=ShapeError, says="less than the size 3, got 3", mode="reflect",
        pad_width=(0, 0, 0, 0, 3, 0, 0, 0))  # fmt: skip
    bad("Pad", (1, 2, 3, 4), error=ShapeError, says="four zeros", mode="edge",
        pad_width=(0, 0, 1, 0, 0, 0, 0, 0))  # fmt: skip
    bad("diag", (2, 3), error=ShapeError, says="are both axis 1", axis1=1, axis2=-1)


def joins() -> None:
    add("Concat", (2, 3, 4), (2, 1, 4), num_args=2)
    add("Concat", (2, 3, 4), (2, 3, 1), (2, 3, 2), num_args=3, dim=-1)
    add("Concat", (2, 16, 5, 5), (2, 8, 5, 5), num_args=2, dim=1)
    add("Concat", (2, 3), num_args=1, dim=0)
    add("Concat", (0, 3), (2, 3), num_args=2, dim=0)
    add("stack", (2, 3), (2, 3), num_args=2)
    add("stack", (2, 3), (2, 3), (2, 3), num_args=3, axis=-1)
    add("tile", (2, 3), reps=(2, 1, 3))
    add("tile", (2, 3), reps=(2,))
    add("repeat", (2, 3), repeats=2)
    add("repeat", (2, 3), repeats=3, axis=-1)
    add("broadcast_to", (2, 1, 4), shape=(2, 3, 0))
    add("broadcast_axis", (1, 3, 1), axis=(0, 2), size=(4, 5))
    add("broadcast_like", (1, 3, 1), (2, 3, 5))
    add("broadcast_like", (1, 4), (2, 3, 5), lhs_axes=(0,), rhs_axes=(-1,))

    bad("Concat", (2, 3), (3, 3), error=ShapeError, says="expected shape (2,?), got (3,?)",
        num_args=2)  # fmt: skip
    bad("Concat", (2, 3), TensorType((2, 3), F16), error=DTypeError, says="expected float32",
        num_args=2)  # fmt: skip
    bad("Concat", (2,), (2,), error=ShapeError, says="axis 1 is out of range", num_args=2)
    bad("stack", (2, 3), (2, 4), error=ShapeError, says="(2,3), got (2,4)", num_args=2)
    bad("tile", (2,), error=AttributeValueError, says="reps must be at least 1", reps=(0,))
    bad("repeat", (2,), error=AttributeValueError, says="negative, got -1", repeats=-1)
    bad("broadcast_to", (2, 1), error=ShapeError, says="has 2 axes", shape=(2, 3, 4))
    bad("broadcast_to", (2, 3), error=ShapeError, says="cannot be broadcast to (2,4)", shape=(2, 4))
    bad("broadcast_axis", (2, 3), error=ShapeError, says="axis 1 must have size 1", axis=1, size=4)
    bad("broadcast_like", (2, 3), (2, 4), error=ShapeError, says="cannot be broadcast to (2,4)")


def slices() -> None:
    add("slice", (4, 5, 6), begin=(1,), end=(3,))
    add("slice", (4, 5, 6), begin=(None, 1, -4), end=(None, 9, -1))
    add("slice", (4, 5, 6), begin=(None, 3, None), end=(None, 0, None), step=(2, -1, 3))
    add("slice", (4, 5), begin=(1,), end=(1,))
    add("slice", (4, 5), begin=(0, 3), end=(4, 1))
    add("slice", (4, 5), begin=(1, 2), end=(3, 2), step=(-1, 1))
    add("slice", (4, 5, 3), begin=(5, None, -9), end=(9, 0, -8), step=(1, 1, 2))
    add("slice_axis", (4, 5), axis=-1, begin=1, end=None)
    add("slice_axis", (4, 5), axis=0, begin=-3, end=-1)
    add("slice_like", (4, 5, 6), (2, 5, 3))
    add("slice_like", (4, 5, 6), (2, 3), axes=(0, -2))
    add("Crop", (1, 2, 5, 6), num_args=1, h_w=(2, 3), offset=(1, 2))
    add("Crop", (1, 2, 5, 6), (1, 1, 3, 3), num_args=2, center_crop=True)
    add("SliceChannel", (2, 6, 3), num_outputs=3)
    add("SliceChannel", (2, 3, 4), num_outputs=3, squeeze_axis=True)
    add("SliceChannel", (4, 5), num_outputs=2, axis=0)
    add("_split_v2", (2, 6, 3), indices=(0, 1, 4))
    add("_split_v2", (2, 6, 3), indices=(), sections=6, squeeze_axis=True)

    bad("slice", (4,), error=ShapeError, says="slice has 2 axes", begin=(0, 0), end=(1, 1))
    bad("slice", (4,), error=ShapeError, says="begin has 1 elements, end 2", begin=(0,), end=(1, 1))
    bad("slice", (4,), error=AttributeValueError, says="step cannot be 0", begin=0, end=2, step=0)
    bad("slice_axis", (4,), error=ShapeError, says="0:5 is not inside an axis of size 4",
        axis=0, begin=0, end=5)  # fmt: skip
    bad("slice_like", (4,), (5,), error=ShapeError, says="axis 0 of size 4 cannot be cut to 5")
    bad("slice_like", (4,), (2, 2), error=ShapeError, says="equal ranks, got 1 and 2")
    bad("SliceChannel", (2, 5), error=ShapeError, says="size 5 is not divisible into 2",
        num_outputs=2)  # fmt: skip
    bad("SliceChannel", (2, 4), error=ShapeError, says="size 1, got 2", num_outputs=2,
        squeeze_axis=True)  # fmt: skip
    bad("_split_v2", (2, 4), error=ShapeError, says="must begin at 0", indices=(1, 2))
    bad("Crop", (1, 2, 5, 6), error=ShapeError, says="Crop of 7 from 0", num_args=1, h_w=(7, 3))


def reductions() -> None:
    for name in REDUCTIONS:
        add(name, (3, 4, 5))
        add(name, (3, 4, 5), axis=1)
        add(name, (3, 4, 17), axis=(0, -1), keepdims=True)
        add(name, (3, 4, 5), axis=1, exclude=True)
        add(name, (3, 4), axis=1, dtype="int32")
        add(name, (3, 4), axis=0, dtype="float16")
        bad(name, (3, 4), error=ShapeError, says="axis 2 is out of range", axis=2)
        bad(name, (3, 4), error=ShapeError, says="contain an axis twice", axis=(0, -2))
    add("sum", (0, 3), axis=0)
    add("max", (0, 3), axis=1)
    add("max", (0, 0), axis=1)
    add("min", (0, 0), axis=1)
    bad("max", (0, 3), error=ShapeError, says="max of no elements", axis=0)
    add("_mean_square_about", (3, 4, 5), (1, 4, 1), axis=(0, 2), keepdims=True)
    add("_mean_square_about", (3, 4, 17), (3, 1, 1), axis=(1, 2))
    x, y = (3, 4, 17), (2, 5, 6, 7)
    add("_sums_about", x, x, (1, 4, 1), axis=(0, 2), keepdims=True)
    add("_sums_about", x, x, (3, 1, 1), axis=(1, 2))
    add("_sums_about", y, y, (1, 1, 1, 7), axis=(1, 2), keepdims=True)
    add("_mean_square_about", (2, 5, 6, 7), (1, 1, 1, 7), axis=(1, 2), keepdims=True)
    add("_moments", (3, 4, 5), axis=(0, 2), keepdims=True)
    add("_moments", (3, 4, 17), axis=(1, 2))
    add("_moments", (2, 5, 6, 7), axis=(1, 2), keepdims=True)
    add("norm", (3, 4, 5))
    add("norm", (3, 4, 5), ord=1, axis=(1, 2))
    add("norm", (3, 4, 17), axis=-1, keepdims=True)
    bad("norm", (3,), error=AttributeValueError, says="1 or 2, got 3", ord=3)
    bad("norm", TensorType((3,), BOOL), error=DTypeError, says="got bool")
    add("_np_cumsum", (3, 4))
    add("_np_cumsum", (3, 4), axis=1, dtype_="float64")
    add("Reshape", (2, 3), shape=(5,))
    add("Reshape", (2, 3), shape=(-1, 5))
    add("Reshape", (2, 3, 4), shape=(0, 2), dtype="int32")
    add("all_finite", (3, 4))
    add("multi_all_finite", (3, 4), (2,), num_arrays=2)
    add("multi_all_finite", np.array([1, np.nan], np.float16))
    bad("multi_all_finite", (3,), TensorType((3,), F16), error=DTypeError, says="got float16",
        num_arrays=2)  # fmt: skip
    bad("multi_all_finite", TensorType((3,), np.dtype("int32")), error=DTypeError, says="got int32")
    add("_contrib_allclose", (3, 4), (3, 4))
    bad("_contrib_allclose", (3, 4), (3, 5), error=ShapeError, says="f32[3,4] and f32[3,5]")


def orders() -> None:
    for name in ("argmax", "argmin"):
        add(name, (3, 4, 5))
        add(name, (3, 4, 5), axis=1)
        add(name, (3, 4), axis=-1, keepdims=True, dtype="int32")
        bad(name, (3, 0), error=ShapeError, says="0 elements do not have", axis=1)
    add("argmax_channel", (3, 4, 5))
    for ret_typ in ("indices", "value", "both", "mask"):
        add("topk", (3, 7), k=2, ret_typ=ret_typ)
        add("topk", (3, 7), k=4, ret_typ=ret_typ, axis=None, is_ascend=True)
    # Long rows of few values, most of them equal to others, and one that is not a number.
    long = np.random.default_rng(5).integers(0, 400, (2, 1100)).astype(np.float32)
    long[1, 7] = np.nan
    for ascending in (False, True):
        add("topk", long, k=30, ret_typ="both", is_ascend=ascending)
    add("topk", long.T, k=3, axis=0, ret_typ="mask")
    add("_ordered", (3, 7), k=4, is_ascend=False)
    add("_ordered", long, k=30, is_ascend=True)
    for dtype in ("int32", "int64"):
        add("_ordered", (3, 70), k=70, is_ascend=False, dtype=dtype)
    add("topk", (3, 7), k=2, ret_typ="both", dtype="float16")
    add("topk", (3, 7), k=0, axis=0, dtype_="int32", dtype="uint8")
    bad("topk", (3, 7), error=ShapeError, says="top 8 of 7", k=8)
    for name in ("sort", "argsort"):
        add(name, (3, 7))
        add(name, (3, 7), axis=0, is_ascend=False)
        add(name, (3, 7), axis=None, dtype="int32")


def selections() -> None:
    add("take", (4, 3), ints(0, -1, 7))
    add("take", (4, 3), ints([0, 1], [2, 5]), axis=1, mode="wrap")
    add("take", (4, 3), ints(0, 3), mode="raise")
    add("take", (4, 3), np.array([0.0, 1.9, -0.5], np.float32))
    add("take", (4, 3), np.zeros((0,), np.int64))
    add("pick", (4, 3), ints(0, 1, 2, 5))
    add("pick", (4, 3), ints(0, 1, -1), axis=0, keepdims=True, mode="wrap")
    add("batch_take", (4, 3), ints(0, 1, 2, 5))
    bad("batch_take", (4, 3), (4,), error=DTypeError, says="needs int32 indices, got float32")
    add("one_hot", ints(0, 2, -1, 5), depth=3)
    add("one_hot", ints([0], [1]), depth=3, on_value=5, off_value=-1, dtype_="int32")
    add("gather_nd", (4, 3), ints([0, 1, -1], [2, 0, -3]))
    add("gather_nd", (4, 3), ints([[0, 3]]))
    add("_sparse_retain", (4, 3), ints(3, 0))
    table = np.array([[5, 0, 2], [0, 0, 3]], np.float32)
    add("_contrib_getnnz", table)
    add("_contrib_getnnz", table, axis=1)
    bad("_contrib_getnnz", (2, 3), error=AttributeValueError, says="None or 1, got 0", axis=0)
    add("_contrib_edge_id", table, ints(0, 0, 1), ints(0, 1, 2))
    bad(
        "_contrib_edge_id", (2, 3), (2,), (3,), error=ShapeError, says="two vectors of equal length"
    )
    add("fill_element_0index", (4, 3), (4,), np.array([0, 2, 5, 1], np.float32))
    bad("fill_element_0index", (4,), (4,), (4,), error=ShapeError, says="lhs (N, M)")
    hashes = np.array([[1, 0, 3, 1]], np.float32), np.array([[1, -1, -1, 1]], np.float32)
    add("_contrib_count_sketch", (3, 4), *hashes, out_dim=5)
    add("_contrib_count_sketch", (2, 3, 2, 4), *hashes, out_dim=5)
    bad("_contrib_count_sketch", (2, 3, 4), (1, 4), (1, 4), error=ShapeError, says="2 or 4 axes",
        out_dim=5)  # fmt: skip
    add("_square_sum", (4, 3), axis=1)
    add("_square_sum", (2, 3, 4), axis=(0, 2), keepdims=True)
    add("scatter_nd", (3,), ints([0, 1, 0], [1, 2, 0]), shape=(2, 3))
    add("_in_range", ints([0, 2, 1]), reader="take", classes=3)
    add("_in_range", ints([-1, 2]), reader="SoftmaxOutput", classes=3, use_ignore=True)
    add("_add_at", (3,), ints([0, 1, 0], [1, 2, 1]), shape=(2, 3))
    add("_add_at", (4, 2), ints([2, 0, 2, -1]), shape=(3, 2))
    add("_add_at", (6, 19), ints([2, 0, 2, 1, 2, 2]), shape=(3, 19))
    add("_add_at", (6, 19), ints([2, 0, 2, 1, 2, 2]), shape=(3, 19), dtype="float16")
    add("_add_at", (6, 2), ints([2, 0, 2, 1, 2, 2]), shape=(3, 2), dtype="uint8")
    add("_add_at", (6, 2), ints([2, 0, 2, 1, 2, 2]), shape=(3, 2), dtype="bool")
    add("_ravel_multi_index", ints([0, 1], [2, 1], dtype="float32"), shape=(3, 4))
    bad("_ravel_multi_index", (2, 3, 4), shape=(3, 4), error=ShapeError, says="data must be (2, N)")
    add("_unravel_index", ints(2, 5, 11), shape=(2, 3, 4))
    add("where", ints(1, 0, 2), (3, 4), (3, 4))
    add("where", (3, 4), (3, 4), (3, 4))
    add("_contrib_boolean_mask", (3, 4), ints(1, 1, 1))
    add("_mask_back", (2, 4), ints(1, 0, 7), axis=0)
    add("_mask_back", (3, 1, 2), ints(0, 0, 1), axis=1)
    add("_contrib_index_copy", (4, 3), ints(1, 3), (2, 3))
    add("_contrib_index_array", (2, 3))
    add("_contrib_index_array", (2, 3, 4), axes=(2, 0))
    add("_slice_assign", (4, 3), (2, 1), begin=(0, 1), end=(4, 2), step=(2, 1))
    add("_slice_assign_scalar", (4, 3), scalar=7.5, begin=(0, 1), end=(4, 2))
    add("_slice_assign_scalar", (4, 3), scalar=7.5, begin=(2, 1), end=(1, 2))
    add("_slice_assign", (4, 3), (0, 1), begin=(2, 1), end=(2, 2))
    bad(
        "_histogram", (5,), (3,), range=(), error=AttributeValueError, says="must be given together"
    )
    add("_histogram", (9,), bin_cnt=5, range=(-2, 2))
    add("_histogram", (9,), np.array([-1, 0, 2], np.float32))
    add("LeakyReLU", (2, 3, 4), act_type="prelu")
    add("LeakyReLU", (2, 3, 4), np.array([0.3], np.float32), act_type="prelu")
    add("LeakyReLU", (2, 17, 4, 5), act_type="prelu")
    add("LeakyReLU", (2, 3, 4), (2, 3), act_type="prelu")
    add("LeakyReLU", (2, 3), (1, 3), act_type="prelu")

    bad("take", (4, 3), ints(0), error=ShapeError, says="axis 2 is out of range", axis=2)
    bad("take", (0, 3), ints(0), error=ShapeError, says="from an axis of size 0")
    bad("pick", (4, 3), ints(0, 1), error=ShapeError, says="index (2) must be (4)")
    bad("pick", (4, 3), ints(0), error=AttributeValueError, says="needs an axis", axis=None)
    bad("one_hot", ints(0), error=AttributeValueError, says="cannot be negative, got -1", depth=-1)
    bad("gather_nd", (4, 3), ints([0], [0], [0]), error=ShapeError, says="3 indices for 2 axes")
    bad("scatter_nd", (2,), ints([0, 1, 2]), error=ShapeError, says="must be (3)", shape=(5,))
    bad("where", (2, 1), (2, 3), (2, 3), error=ShapeError, says="condition (2,1)")
    bad("where", (2,), (2,), (3,), error=ShapeError, says="expected shape (2), got (3)")
    bad("_contrib_boolean_mask", (3, 4), ints(1), error=ShapeError, says="must be (3,)")
    bad("_slice_assign", (4, 3), (2, 2), error=ShapeError, says="expected shape (4,1)",
        begin=(0, 1), end=(4, 2))  # fmt: skip
    bad("LeakyReLU", (2, 3, 4), (3, 4), error=ShapeError, says="gamma (3,4)", act_type="prelu")
    bad("LeakyReLU", (2, 3), (2,), error=ShapeError, says="gamma (2)", act_type="prelu")


def creations() -> None:
    add("_zeros", shape=(2, 3))
    add("_ones", shape=(2,), dtype_="int64")
    add("_full", shape=(2, 3), value=-1.5, dtype_="uint8")
    add("_arange", start=5)
    add("_arange", start=3, stop=0, step=-1, repeat=2)
    add("_arange", start=0, stop=1, step=0.1, dtype_="float64")
    add("_linspace", start=0, stop=1, num=5)
    add("_linspace", start=0, stop=1, num=5, endpoint=False)
    add("_eye", N=3, M=2, k=-1)
    add("_contrib_arange_like", (3, 4))
    add("_contrib_arange_like", (3, 4), axis=-1, start=1, step=0.5, repeat=2)
    bad("_zeros", error=ShapeError, says="cannot have negative sizes", shape=(-2, 2))
    bad("_arange", error=AttributeValueError, says="is empty", start=3, stop=5, step=-1)
    bad("_eye", error=AttributeValueError, says="cannot be negative, got -1", N=-1)


def draws() -> None:
    named = {
        "uniform": ({"low": -1, "high": 2}, ("low", "high")),
        "normal": ({"loc": 1, "scale": 2}, ("mu", "sigma")),
        "exponential": ({"lam": 2}, ("lam",)),
        "gamma": ({"alpha": 2, "beta": 0.5}, ("alpha", "beta")),
        "poisson": ({"lam": 3}, ("lam",)),
        "negative_binomial": ({"k": 3, "p": 0.4}, ("k", "p")),
        "generalized_negative_binomial": ({"mu": 2, "alpha": 0.3}, ("mu", "alpha")),
    }
    positive = np.array([0.2, 0.5], np.float32)
    for name, (attrs, inputs) in named.items():
        add(f"_random_{name}", shape=(2, 3), **attrs)
        add(f"_random_{name}", shape=(5,), dtype_="float16", **attrs)
        add(f"_random_{name}_like", (2, 3), **attrs)
        params = [positive + i for i in range(len(inputs))]
        if name == "negative_binomial":
            params[1] = positive
        add(f"_sample_{name}", *params, shape=(3,))
        add(f"_random_pdf_{name}", np.array([[1, 2], [0.5, 3]], np.float32), *params)
    add("_random_pdf_dirichlet", np.array([[0.2, 0.8]], np.float32), positive)
    add("_random_randint", low=0, high=5, shape=(3,))
    add("_random_randint", low=-5, high=5, shape=(3,), dtype_="int64")
    odds = np.array([[0.2, 0.8, 0], [0, 0, 1]], np.float32)
    add("_sample_multinomial", odds)
    add("_sample_multinomial", odds, shape=(2, 2), get_prob=True)
    add("_shuffle", (5, 2))
    add("_sample_unique_zipfian", range_max=9, shape=(2, 5))
    add("_sample_unique_zipfian", range_max=1, shape=(3, 1))
    add("_sample_unique_zipfian", range_max=1, shape=(2, 0))
    zipfian = "_sample_unique_zipfian"
    bad(zipfian, error=ShapeError, says="got (4)", range_max=9, shape=(4,))
    bad(zipfian, error=AttributeValueError, says="at most 9 candidates", range_max=9, shape=(1, 10))
    bad(
        "_random_uniform",
        error=AttributeValueError,
        says="low must be at most high",
        low=2,
        shape=3,
    )
    bad("_random_normal", error=AttributeValueError, says="above 0, got -1", scale=-1, shape=3)
    bad("_random_normal", error=DTypeError, says="got int32", dtype="int32", shape=3)
    bad("_random_randint", error=AttributeValueError, says="5 and 5", low=5, high=5, shape=3)


def identities() -> None:
    add("Dropout", (3, 4))
    add("Dropout", (3, 4), p=0.5, axes=(0,))
    add("_mixed_bits", WORDS, WORDS[:, :1])
    add("_dropout_key")
    add("_Dropout_training", (3, 4), p=0.0)
    add("_Dropout_training", (3, 4), p=0.5, axes=(0,))
    for name in ("MakeLoss", "_contrib_gradientmultiplier"):
        add(name, (3, 4))
    for name in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"):
        add(name, (3, 4))
        add(name, (3, 1))
    add("SVMOutput", (3, 4))
    add("IdentityAttachKLSparseReg", (3, 4))
    for shape in ((3, 4), (2, 4, 3)):
        moving = np.full(4, 0.3, np.float32)
        add("_IdentityAttachKLSparseReg_training", shape, moving, penalty=0.1)
    bad("IdentityAttachKLSparseReg", (4,), (4,), error=ShapeError, says="at least 2 axes")
    bad("Dropout", TensorType((3,), np.dtype("int32")), error=DTypeError, says="got int32")
    bad(
        "Dropout",
        (3, 4),
        axes=(-2,),
        error=ShapeError,
        says="axes (-2) of Dropout must be between 0 and 1",
    )


def alignments() -> None:
    labels = np.array([[1, 2, 0], [3, 3, 1]], np.float32)
    add("CTCLoss", (5, 2, 4), labels)
    add("CTCLoss", (5, 2, 4), labels, np.array([4, 0], np.float32), use_data_lengths=True)
    add("CTCLoss", (5, 2, 4), labels, ints(2, 1), use_label_lengths=True, blank_label="last")
    add("CTCLoss", (5, 2, 4), np.array([[2, 2], [1, 0]], np.float32))
    add("_back_from_ctc_loss", (2,), (5, 2, 4), labels, np.array([4, 0], np.float32),
        use_data_lengths=True)  # fmt: skip
    bad(
        "CTCLoss", (5, 2, 4), (3, 2), error=ShapeError, says="label has 3 sequences, but data has 2"
    )
    bad("CTCLoss", (2, 2, 4), (2, 3), error=ShapeError, says="label of 3 is longer than data of 2")
    hawkes_processes()
    bad("CTCLoss", (2, 2), (2, 3), error=ShapeError, says="data (T, N, C)")


def hawkes_processes() -> None:
    """Four sequences of at most six events with three marks."""
    random = np.random.default_rng(3)

    def positive(*shape: int) -> np.ndarray:
        return random.uniform(0.1, 1, shape).astype(np.float32)

    processes = (
        *(positive(4, 3), positive(3), positive(3), positive(4, 3), positive(4, 6)),
        random.integers(0, 3, (4, 6)).astype(np.int32),
        *(np.array([6, 0, 3, 4.5], np.float32), np.array([9, 3, 4.5, 8], np.float32)),
    )
    name = "_contrib_hawkesll"
    add(name, *processes)
    add("_hawkesll_slopes", positive(4), *processes)
    shapes = [x.shape for x in processes]
    bad(name, (4,), *shapes[1:], error=ShapeError, says="lda of 2 axes")
    bad(name, shapes[0], (2,), *shapes[2:], error=ShapeError, says="3")
    marks = TensorType(shapes[5], np.dtype("float32"))
    bad(name, *shapes[:5], marks, *shapes[6:], error=DTypeError, says="float32")


def arithmetic() -> None:
    for name in ("_mod", "_power", "_hypot"):
        scalar = f"{name}_scalar"
        add(scalar, (3, 4), scalar=2)
        add(scalar, (3, 4), scalar=1.5, dtype="float16")
        add(scalar, (3, 4), scalar=3, dtype="int32")
    add("_rmod_scalar", (3, 4), scalar=2)
    add("_rpower_scalar", (3, 4), scalar=2)
    add("_plus_scalar", np.array([True, False]), scalar=2)
    f16 = TensorType((2, 3), F16)
    bad("elemwise_add", (2, 3), (1, 3), error=ShapeError, says="expected shape (2,3), got (1,3)")
    bad("elemwise_add", (2, 3), f16, error=DTypeError, says="expected float32, got float16")
    bad("broadcast_add", (2, 3), (2,), error=ShapeError, says="shapes (2,3) (2)")
    bad("broadcast_add", (2, 3), f16, error=DTypeError, says="expected float32, got float16")
    bad("relu", TensorType((2,), BOOL), error=DTypeError, says="takes numbers, got bool")
    bad("Activation", (2,), error=AttributeValueError, says="one of relu", act_type="gelu")
    bad("add_n", (2,), (3,), error=ShapeError, says="expected shape (2), got (3)", num_args=2)
    bad("clip", (2,), error=AttributeValueError, says="a_min of float is missing")


def declare() -> None:
    """Fill the tables; called once, by ``samples``."""
    for family in (
        reshapes, moves, joins, slices, reductions, orders, selections, creations, draws,
        identities, alignments, arithmetic,
    ):  # fmt: skip
        family()
