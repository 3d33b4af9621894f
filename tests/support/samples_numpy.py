"""Samples of the operators of NumPy mode."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from sampling import add, bad, ints

SHAPES = ((), (7,), (2, 3, 5))
BOOLS = np.array([[True, False, True], [False, False, True]])
WHOLE = ints([3, -2, 0], [7, 1, -5])
NUMBERS = np.array([[0.0, -1.5, np.inf], [-np.inf, np.nan, 2.0]], np.float32)
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], np.float32)
SYMMETRIC = np.stack([SQUARE, SQUARE * 2]).astype(np.float64)
PROMOTING = ("add", "subtract", "multiply", "mod")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")
# Attribute strings of elementwise operators
ELEMENTWISE: dict[str, list[dict[str, str]]] = {
    "_npi_rpower_scalar": [{"scalar": "2"}],
    "_npi_power_scalar": [{"scalar": "2"}],
}


def pointwise() -> None:
    for name in ("isnan", "isinf", "isposinf", "isneginf", "isfinite", "logical_not"):
        for x in (NUMBERS, WHOLE, BOOLS, NUMBERS.astype("float16"), NUMBERS[:0]):
            add(f"_npi_{name}", x)
    for x in (WHOLE, BOOLS):
        add("_npi_bitwise_not", x)
    for x in (NUMBERS, WHOLE, NUMBERS.astype("float64")):
        add("_npi_around", x, decimals=1)
    for name in ("around", "nan_to_num"):
        add(f"_npi_{name}", (2, 3), dtype="float64")
    add("_npi_nan_to_num", NUMBERS)
    add("_npi_nan_to_num", NUMBERS, nan=1.5, posinf=9.0, neginf=-9.0)
    add("_npi_nan_to_num", WHOLE)
    bad("_npi_bitwise_not", (2,), error=DTypeError, says="takes integers, got float32")


def pairs() -> None:
    for name in PROMOTING + ("power", "true_divide"):
        for a, b in (((), (3,)), ((2, 3), (3,)), ((0, 3), (1, 3)), ((2, 1, 3), (4, 1))):
            add(f"_npi_{name}", a, b)
        add(f"_npi_{name}", np.abs(WHOLE) + 1, np.full((3,), 2.3, np.float32))
    for name in PROMOTING:
        add(f"_npi_{name}", WHOLE, ints(2, 3, 4, dtype="int64"))
        add(f"_npi_{name}", np.float64(NUMBERS[:, 1:2]), np.ones((1, 3), np.float16))
    add("_npi_add", BOOLS, BOOLS)
    add("_npi_multiply", BOOLS, BOOLS)
    for name in COMPARISONS:
        add(f"_npi_{name}", (2, 3), (3,))
        add(f"_npi_{name}", WHOLE, WHOLE[:1])
        add(f"_npi_{name}", BOOLS, BOOLS[:1])
        for x in ((2, 3), WHOLE, BOOLS, (0, 2)):
            add(f"_npi_{name}_scalar", x, scalar=0.5)
    for name in BITWISE:
        add(f"_npi_{name}", WHOLE, ints(3, 1, 2))
        add(f"_npi_{name}", BOOLS, BOOLS[:1])
        add(f"_npi_{name}_scalar", WHOLE, scalar=3.0)
    for name in ("hypot", "copysign", "ldexp"):
        add(f"_npi_{name}", (2, 3), (3,))
    add("_npi_ldexp", WHOLE, ints(-1, 2, 0))
    for name in ("arctan2", "copysign", "ldexp"):
        for x in ((2, 3), ()):
            add(f"_npi_{name}_scalar", x, scalar=1.5)
            add(f"_npi_r{name}_scalar", x, scalar=1.5)
    for name in ("add", "subtract", "rsubtract", "multiply", "mod", "rmod", "power", "rpower"):
        add(f"_npi_{name}_scalar", (2, 3), scalar=2.0)
        add(f"_npi_{name}_scalar", np.abs(WHOLE) + 1, scalar=2.0)
        add(f"_npi_{name}_scalar", BOOLS | name.startswith("rmod"), scalar=2.5)
    for name in ("subtract", "mod"):
        add(f"_npi_{name}", BOOLS, WHOLE[:1] + 5)
        add(f"_npi_{name}", WHOLE, BOOLS | True)
    for name in ("true_divide", "rtrue_divide"):
        for x in ((2, 3), np.abs(WHOLE) + 1, BOOLS | True):
            add(f"_npi_{name}_scalar", x, scalar=2.0)
    _refusals()


def _refusals() -> None:
    double = TensorType((3,), np.dtype("float64"))
    whole = TensorType((3,), np.dtype("int32"))
    bools = TensorType((3,), np.dtype("bool"))
    small = TensorType((3,), np.dtype("int8")), TensorType((3,), np.dtype("uint8"))
    bad("_npi_add", *small, error=DTypeError, says="no common element type")
    bad("_npi_add", (2,), (3,), error=ShapeError, says="could not be broadcast")
    bad("_npi_subtract", bools, bools, error=DTypeError, says="takes numbers")
    bad("_npi_true_divide", (3,), double, error=DTypeError, says="one element type")
    bad("_npi_less", (3,), whole, error=DTypeError, says="one element type")
    bad("_npi_arctan2", whole, whole, error=DTypeError, says="floating types")
    bad("_npi_bitwise_and", (3,), (3,), error=DTypeError, says="takes integers")
    bad("_npi_where", (3,), (3,), whole, error=DTypeError, says="one element type")


def selection() -> None:
    for x, y in (((2, 3), (3,)), ((), (2, 3)), ((1, 3), ())):
        add("_npi_where", BOOLS, x, y)
    add("_npi_where", (2, 3), WHOLE, WHOLE[:1])
    for name in ("_npi_where_lscalar", "_npi_where_rscalar"):
        add(name, BOOLS, (2, 3), scalar=1.5)
        add(name, BOOLS, (3,), scalar=-2.0)
        add(name, BOOLS, WHOLE, scalar=2.5)
    add("_npi_where_scalar2", BOOLS, x=1.5, y=-2.0)
    add("_npx_constraint_check", BOOLS | True, msg="no")


def assigning() -> None:
    for x, mask, start in (((2, 3), BOOLS, 0), ((4, 2, 3), BOOLS, 1), ((2, 3, 4), BOOLS, 0)):
        add("_npi_boolean_mask_assign_scalar", x, mask, value=2.5, start_axis=start)
    add("_npi_boolean_mask_assign_scalar", WHOLE, BOOLS, value=7.0)
    add("_npi_boolean_mask_assign_tensor", (2, 3), BOOLS, (3,))
    add("_npi_boolean_mask_assign_tensor", (2, 3, 2), BOOLS, (1, 2))
    add("_npi_boolean_mask_assign_tensor", (4, 2, 3), BOOLS, (4, 3), start_axis=1)
    add("_values_at_mask", (2, 3), BOOLS, (3,))
    add("_values_at_mask", (2, 3, 2), BOOLS, (1, 2))
    add("_values_at_mask", (4, 2, 3), BOOLS, (4, 3), start_axis=1)
    bad("_npi_boolean_mask_assign_scalar", (3, 2), TensorType((2, 3), BOOLS.dtype),
        error=ShapeError, says="has the sizes of the array's axes")  # fmt: skip
    bad("_npi_boolean_mask_assign_scalar", (2, 3), (2, 3), error=DTypeError, says="a mask is bool")
    corners = ints([0, 1], [0, 2], dtype="int64")
    add("_scatter_set_nd", (2, 3), (2,), corners, shape=(2, 3))
    add("_scatter_set_nd", (2, 3, 2), (2, 2), corners)
    bad("_scatter_set_nd", (2, 3), (2,), (2, 2), error=ShapeError, says="shape must be that of the",
        shape=(3, 2))  # fmt: skip
    # of equal vectors the last value is written, and all get the gradient: no slope
    repeated, apart = ints([1, 0, 1], [2, -3, 2]), ints([1, 0, 1], [2, -3, 1])
    for name, vectors in (("_npx_index_add", repeated), ("_npx_index_update", apart)):
        for ind, val in (
            (vectors, ()),
            (vectors, (3, 1)),
            (corners, (1, 4)),
            (ints(1, 0), (3, 4)),
        ):
            add(name, (2, 3, 4), ind, val)
        add(name, (2, 3), ints(1).reshape(()), (3,))
        add(name, WHOLE, corners, ints(3, -1))
        bad(name, (2, 3), ints([0], [1], [0]), (1,), error=ShapeError, says="it must be (axes, N)")
        bad(name, (2, 3), corners, (3,), error=ShapeError, says="cannot be broadcast to")
    add("_npi_share_memory", (2, 3), (2, 3))


def reductions() -> None:
    for name in ("_np_sum", "_np_prod", "_npi_mean", "_np_max", "_np_min", "_np_all", "_np_any"):
        for shape in SHAPES:
            add(name, shape)
        for axis in ((1,), (0, 2), (-1,), ()):
            add(name, (2, 3, 5), axis=axis, keepdims=axis == (-1,))
        add(name, WHOLE)
        add(name, BOOLS, axis=(0,))
        add(name, (0, 3), axis=(1,))
    for name in ("_np_sum", "_npi_mean"):
        add(name, (2, 3), dtype_="float64")
        add(name, ints([-34], [-113], dtype="int8"), dtype_="int8")
        add(name, (2, 3), axis=(1,), dtype_="int32")
        add(name, np.float32([[0.6, 0.7], [-0.6, -0.7]]), axis=(1,), dtype_="int32")
        add(name, (0, 3), axis=(0,))
        bad(name, (2, 3), error=DTypeError, says="initial is not supported", initial=1.0)
    for name in ("_npi_std", "_npi_var"):
        for given in ({}, {"axis": (1,)}, {"axis": (0, 2), "ddof": 1, "keepdims": True}):
            add(name, (2, 3, 5), **given)
        add(name, WHOLE)
        add(name, (0, 3), axis=(0,))
    for name in ("_npi_argmax", "_npi_argmin"):
        for shape in SHAPES:
            add(name, shape)
        add(name, (2, 3, 5), axis=1)
        add(name, WHOLE, axis=-1, keepdims=True)
        add(name, (0, 3), axis=1)
        bad(name, (0, 3), error=ShapeError, says="of no elements")
    bad("_np_max", (0, 3), error=ShapeError, says="of no elements")
    bad("_np_sum", (2, 3), error=ShapeError, says="axis 2 is out of range", axis=(2,))
    add("_npi_average", (2, 3), weighted=False)
    add("_npi_average", (2, 3), weighted=False, axis=(0,), returned=True)
    add("_npi_average", (2, 3), np.ones((2, 3), np.float32) + 1)
    add("_npi_average", (2, 3), np.float32([1, 2, 5]), axis=(1,), returned=True)
    bad(
        "_npi_average",
        (2, 3),
        (2,),
        error=ShapeError,
        says="weights must have the operand",
        axis=(1,),
    )
    _norms()
    for given in ({}, {"offset": 1}, {"offset": -4}, {"axis1": 2, "axis2": 0}):
        add("_np_trace", (3, 4, 2), **given)
    bad("_np_trace", (3, 4), error=ShapeError, says="both name axis", axis2=0)
    for x in (np.float32([0.5, -2.0]), np.zeros((2, 0), np.float32), np.float32(1.5)):
        add("_npi_polyval", np.float32([2.0, -1.0, 0.5]), np.asarray(x))
    bad("_npi_polyval", (2, 2), (3,), error=ShapeError, says="have one axis")


def _norms() -> None:
    add("_npi_norm", (2, 3, 4))
    for ord_ in (1.0, 2.0, 3.0, 0.0, float("inf"), float("-inf")):
        add("_npi_norm", (2, 3), axis=(1,), ord=ord_, flag=-1)
    for ord_ in (1.0, -1.0, 2.0, -2.0, float("inf"), float("-inf")):
        add("_npi_norm", (2, 3), axis=(0, 1), ord=ord_, flag=-1, keepdims=True)
    add("_npi_norm", (2, 3), axis=(0, 1), flag=1)
    add("_npi_norm", (2, 3), axis=(0, 1), flag=2)


def shapes() -> None:
    for shape in ((3, 2), (-1,), (1, 6, 1)):
        add("_np_reshape", (2, 3), newshape=shape)
    add("_np_reshape", (), newshape=(1, 1))
    add("_np_reshape", (0, 3), newshape=(3, 0))
    for codes, reverse in (((-2, -1), 0), ((-4,), 0), ((-5, -4), 0), ((-6, 1, -1, -4), 0),
                           ((-1, -2), 1), ((2, -1), 0)):  # fmt: skip
        add("_npx_reshape", (2, 3, 4), newshape=codes, reverse=bool(reverse))
    add("_npx_reshape", (1, 3), newshape=(-3, -4))
    bad("_np_reshape", (2, 3), error=ShapeError, says="do not fill", newshape=(4, 2))
    bad("_np_reshape", (2, 3), error=ShapeError, says="one -1 at most", newshape=(-1, -1))
    bad(
        "_np_reshape", (2, 3), error=ShapeError, says="cannot have sizes below -1", newshape=(-2, 3)
    )
    bad("_npx_reshape", (2, 3), error=ShapeError, says="code -3 skips", newshape=(-3, -4))
    bad("_npx_reshape", (2, 3), error=ShapeError, says="accepts the codes", newshape=(-7,))
    bad("_npx_reshape", (2,), error=ShapeError, says="more axes than remain", newshape=(-5,))
    bad("_npx_reshape", (6,), error=ShapeError, says="cannot be split", newshape=(-6, 4, -1))
    for given in ({}, {"axis": (0,)}, {"axis": (0, -1)}):
        add("_np_squeeze", (1, 3, 1), **given)
    add("_np_squeeze", (1, 1))
    for shape in ((2, 2), (3, 4), (7,), (1,), (0, 2)):
        add("_npi_resize_fallback", (2, 3), new_shape=shape)
    add("_npi_resize_fallback", (0, 3), new_shape=(2, 2))
    bad("_np_squeeze", (2, 3), error=ShapeError, says="takes axes of size 1", axis=(0,))
    for count in (1, 2, 3):
        add(f"_np_atleast_{count}d", (), (3,), (2, 3), num_args=3)
    for name in ("_np_copy",):
        add(name, (2, 3))
    for given in ({}, {"axes": (1, 2, 0)}, {"axes": (0, -1, 1)}):
        add("_np_transpose", (2, 3, 4), **given)
    add("_np_transpose", ())
    add("_np_moveaxis", (2, 3, 4), source=(0, 1), destination=(-1, 0))
    bad("_np_moveaxis", (2, 3), error=ShapeError, says="has an axis twice", source=(0, 0),
        destination=(0, 1))  # fmt: skip
    for axis in ((0,), (0, -1), ()):
        add("_npi_flip", (2, 3, 4), axis=axis)
    bad("_npi_flip", (2, 3), error=AttributeValueError, says="an axis twice", axis=(1, -1))
    add("_np_roll", (2, 3), shift=(1,))
    add("_np_roll", (2, 3), shift=(0,))
    add("_np_roll", (2, 3), shift=(1, -2), axis=(0, 1))
    bad("_np_roll", (2, 3), error=ShapeError, says="needs one shift", shift=(1, 2))
    for k in (0, 1, 2, 3, -1):
        add("_npi_rot90", (2, 3, 4), k=k, axes=(0, 2))
    bad("_npi_rot90", (2, 3), error=ShapeError, says="two different axes", axes=(0, 0))
    _diagonals()


def _diagonals() -> None:
    for k in (0, 1, -1, 5):
        add("_np_diagonal", (3, 4, 2), offset=k)
        add("_np_diag", (3, 4), k=k)
        add("_np_diagflat", (2, 2), k=k)
        add("_npi_tril", (3, 4), k=k)
    add("_np_diag", (3,), k=-1)
    add("_npi_tril", (2, 3, 3))
    add("_npi_tril", (3,))
    add("_npi_tri", N=3, M=4, k=1)
    bad("_np_diag", (2, 3, 4), error=ShapeError, says="a vector or a matrix")
    for shape in ((4, 3), (2, 4, -1)):
        add("_npi_broadcast_to", (1, 3) if shape == (4, 3) else (3,), shape=shape)
    bad("_npi_broadcast_to", (2, 3), error=ShapeError, says="cannot be broadcast", shape=(3, 3))
    for mode in ("constant", "edge", "reflect", "symmetric", "maximum", "minimum"):
        add("_npi_pad", (3, 4), pad_width=((1, 2), (0, 3)), mode=mode, constant_value=1.5)
    add("_npi_pad", (3,), pad_width=((4, 5),), mode="reflect")
    bad("_npi_pad", (3, 4), error=ShapeError, says="a pair for each", pad_width=((1, 1),))
    bad(
        "_npi_pad", (3,), error=AttributeValueError, says="cannot be negative", pad_width=((-1, 1),)
    )


def joining() -> None:
    for axis in (0, 1, None):
        add("_npi_concatenate", (2, 3), (2, 3), num_args=2, axis=axis)
    add("_npi_concatenate", (2, 3), (0, 3), num_args=2)
    add("_npi_concatenate", (2, 3), num_args=1)
    add("_npi_stack", (2, 3), (2, 3), num_args=2, axis=-1)
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        add(f"_npi_{name}", (2, 3), (2, 3), num_args=2)
        add(f"_npi_{name}", (3,), (3,), num_args=2)
    for name, shape in (("hsplit", (2, 4, 6)), ("hsplit", (4,)), ("dsplit", (2, 3, 4))):
        add(f"_npi_{name}", shape, indices=(), sections=2)
        add(f"_npi_{name}", shape, indices=(0, 1, 3))
    add("_npi_hsplit", (2, 5), indices=(), sections=2)
    for n in (0, 1, 2, 9):
        add("_npi_diff", (3, 5), n=n)
    add("_npi_diff", (3, 5), axis=0)
    bad("_npi_diff", (3,), error=ShapeError, says="is not negative", n=-1)
    add("_npi_diff", (1, 2), axis=0)
    add("_npi_ediff1d", (2, 3))
    add("_npi_ediff1d", (4,), (0, 2), to_begin_arr_given=True)
    add("_npi_ediff1d", (2, 3), to_begin_scalar=1.5, to_end_scalar=2.0)
    add("_npi_ediff1d", (4,), (2,), (2, 2), to_begin_arr_given=True, to_end_arr_given=True)
    for given in ({"int_ind": 1}, {"start": 0, "stop": 4, "step": 2}):
        add("_npi_delete", (4, 3), axis=0, **given)
        form = "scalar" if "int_ind" in given else "slice"
        add(f"_npi_insert_{form}", (4, 3), val=2.5, axis=0, **given)
        count = 1 if form == "scalar" else 2
        add(f"_npi_insert_{form}", (4, 3), (count, 3), axis=0, **given)
    add("_npi_delete", (4, 3), ints(0, 2, dtype="int64"), axis=0)
    add("_npi_delete", (4, 3), int_ind=5)
    add("_npi_insert_tensor", (4, 3), ints(0, 2, dtype="int64"), val=1.0, axis=0)
    add("_npi_insert_tensor", (4, 3), (2, 3), ints(0, 2, dtype="int64"), axis=0)


def creation() -> None:
    for name in ("_npi_zeros", "_npi_ones"):
        add(name, shape=(2, 3))
        add(name, shape=(4,), dtype_="int32")
    add("_npi_identity", shape=(3, 3))
    bad("_npi_identity", error=AttributeValueError, says="a square shape", shape=(2, 3))
    add("_npi_full_like", (2, 3), fill_value=1.5)
    add("_npi_full_like", (2, 3), fill_value=1.5, dtype_="int32")
    add("_npi_arange", start=0.0, stop=5.0, step=1.5)
    add("_npi_arange", start=5.0, stop=0.0, step=1.0)
    bad("_npi_arange", error=AttributeValueError, says="step cannot be 0", start=0.0, step=0.0)
    bad("_npi_arange", error=AttributeValueError, says="finite", start=0.0, stop=float("inf"))
    add("_npi_logspace", start=0.0, stop=2.0, num=5)
    add("_npi_eye", N=3)
    add("_npi_eye", N=3, M=4, k=-1, dtype_="float64")
    bad("_npi_eye", error=AttributeValueError, says="is not negative", N=-1)
    bad("_npi_exponential", (2, 1), error=ShapeError, says="do not broadcast", scale=None,
        size=(2,) * 40)  # fmt: skip
    add("_npi_indices", dimensions=(2, 3))
    bad("_npi_indices", error=DTypeError, says="dtype bool", dimensions=(2, 3), dtype="bool")
    for name in ("hanning", "hamming", "blackman"):
        add(f"_npi_{name}", M=7)


def counting() -> None:
    x = ints([3, 1, 3], [0, 1, 2])
    add("_npi_unique", x)
    add("_npi_unique", x, return_index=True, return_inverse=True, return_counts=True)
    add("_npi_unique", x, axis=0)
    add("_npx_nonzero", x)
    for dtype in ("int64", "int32", "uint8"):
        add("_npi_bincount", x.ravel().astype(dtype))
    add("_npi_bincount", x.ravel(), (6,), has_weights=True, minlength=9)
    bad("_npi_bincount", (3,), error=DTypeError, says="counts integers")
    add("_npi_diag_indices_from", (3, 3))
    bad("_npi_diag_indices_from", (2, 3), error=ShapeError, says="axes of equal size")
    for method in ("linear", "lower", "higher", "nearest", "midpoint"):
        add("_npi_percentile", (3, 5), q_scalar=30.0, interpolation=method)
    add("_npi_percentile", (3, 5), np.float32([10, 50, 90]), axis=(1,), keepdims=True)
    bad("_npi_percentile", (3,), error=AttributeValueError, says="between 0 and 100",
        q_scalar=101.0)  # fmt: skip


def products() -> None:
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((2, 3, 4), (5, 4, 2)), ((), (2, 3))):
        add("_np_dot", a, b)
    for a, b in (((3,), (3,)), ((3,), (3, 4)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)),
                 ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5))):  # fmt: skip
        add("_npi_matmul", a, b)
    add("_npi_tensordot", (2, 3, 4), (4, 3, 5), a_axes_summed=(2, 1), b_axes_summed=(0, 1))
    for axes in (0, 1, 2):
        add("_npi_tensordot_int_axes", (2, 3), (2, 3)[2 - axes :] + (4,), axes=axes)
    for text, *operands in (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        ("ii", (3, 3)),
        ("ii->i", (3, 3)),
        ("ij->ji", (2, 3)),
        ("i,j->ij", (2,), (3,)),
        ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ):
        add("_npi_einsum", *operands, num_args=len(operands), subscripts=text)
    for whole in (WHOLE, WHOLE.astype(np.float16), WHOLE.astype(bool)):
        add("_npi_einsum", whole, whole, num_args=2, subscripts="ij,kj->ik")
    bad("_np_dot", (2, 3), (2, 3), error=ShapeError, says="they must be equal")
    bad("_npi_matmul", (), (2, 3), error=ShapeError, says="got a scalar")
    bad("_npi_einsum", (2, 3), error=AttributeValueError, says="names 2 operands", num_args=1,
        subscripts="ij,jk")  # fmt: skip


def matrices() -> None:
    for x in (SQUARE, SYMMETRIC):
        add("_npi_cholesky", x)
        for name in ("eigh", "eigvalsh"):
            for triangle in "LU":
                add(f"_npi_{name}", x, UPLO=triangle)
        for name in ("eig", "eigvals", "svd"):
            add(f"_npi_{name}", x)
    for name in ("eig", "eigvals", "eigh", "eigvalsh"):
        add(f"_npi_{name}", ints([2, 1], [1, 3]))
    add("_npi_solve", SQUARE, (3, 2))
    add("_npi_solve", SQUARE, (3,))
    add("_npi_solve", SYMMETRIC, np.ones((2, 3, 1)))
    bad("_npi_solve", (3, 3), (2, 1), error=ShapeError, says="as many rows")
    add("_npi_tensorinv", (4, 2, 2), ind=1)
    bad("_npi_tensorinv", (2, 3), error=ShapeError, says="equal products", ind=1)
    add("_npi_tensorsolve", SQUARE.reshape(3, 3, 1), (3,))
    add("_npi_tensorsolve", np.float32([[[2.0]]]), (1, 1, 1))
    add("_npi_tensorsolve", np.full((), 2, np.float32), (1, 1))
    bad("_npi_tensorsolve", (3, 2), (3,), error=ShapeError, says="as many elements as b")
    bad("_npi_tensorsolve", (), (1, 1), error=ShapeError, says="a_axes 7 is out", a_axes=(7,))
    add("_npi_svd", (2, 3, 4))
    bad("_npi_svd", (3, 2), error=ShapeError, says="at least as many columns as rows")
    for shape in ((2, 3), (3, 2), (2, 3, 2)):
        add("_npi_pinv_scalar_rcond", shape)
    add("_npi_pinv", (2, 3, 2), np.float32([1e-5, 1e-5]))


def draws() -> None:
    one = np.float32([[1.5], [2.0]])
    for suffix in ("", "_n"):
        for name, low, high in (("uniform", "low", "high"), ("normal", "loc", "scale")):
            op = f"_npi_{name}{suffix}"
            add(op, size=(2, 3), **{low: 0.5, high: 1.5})
            add(op, one, size=(2, 3), **{low: 0.5})
            add(op, one, one, size=(2, 3))
    for name, params in (
        ("gamma", ("shape", "scale")),
        ("gumbel", ("loc", "scale")),
        ("logistic", ("loc", "scale")),
        ("exponential", ("scale",)),
        ("rayleigh", ("scale",)),
        ("weibull", ("a",)),
        ("pareto", ("a",)),
        ("powerd", ("a",)),
    ):
        add(f"_npi_{name}", size=(2, 3), **dict.fromkeys(params, 1.5))
        add(f"_npi_{name}", *[one] * len(params), **dict.fromkeys(params))
    bad("_npi_uniform", (2,), (3,), error=ShapeError, says="do not broadcast")
    add("_npi_bernoulli", prob=0.5, size=(3,))
    add("_npi_bernoulli", one - 1, is_logit=False, prob=None)
    add("_npi_choice", a=5, size=(4,))
    add("_npi_choice", (5,), np.float32([1, 1, 1, 1, 1]) / 5, size=(2,), weighted=True)
    add("_npi_multinomial", n=5, pvals=(0.5, 0.25, 0.25), size=(2,))
    add("_npi_multinomial", np.float32([0.5, 0.5]), n=5)


def declare() -> None:
    pointwise()
    pairs()
    selection()
    assigning()
    reductions()
    shapes()
    joining()
    creation()
    counting()
    products()
    matrices()
    draws()
