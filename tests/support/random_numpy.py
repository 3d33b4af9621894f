"""Random graphs draw operators of NumPy mode: importing this file adds their growers."""

from __future__ import annotations

from growing import Generator, Shape, grower
from hybridjit.ir.node import Output


@grower(2)
def numpy_unary(g: Generator, x: Output, shape: Shape) -> None:
    name = g.one_of("tanh", "sin", "cos", "arctan", "absolute", "negative", "radians", "copy")
    g.add("_np_copy" if name == "copy" else f"_npi_{name}", x)


@grower(2)
def numpy_pair(g: Generator, x: Output, shape: Shape) -> None:
    other = g.like(shape)
    op = g.one_of("add", "subtract", "multiply", "maximum", "minimum")
    g.add(f"_npi_{op}", *((x, other) if g.maybe() else (other, x)))


@grower(2)
def numpy_number(g: Generator, x: Output, shape: Shape) -> None:
    op = g.one_of("add", "subtract", "rsubtract", "multiply", "true_divide")
    g.add(f"_npi_{op}_scalar", x, scalar=g.one_of(0.5, 1.25, -0.75), is_int=False)


@grower(2)
def numpy_reduction(g: Generator, x: Output, shape: Shape) -> None:
    axis = tuple(i for i in range(len(shape)) if g.maybe())
    op = g.one_of("_np_sum", "_npi_mean", "_npi_mean", "_np_max", "_np_min", "_npi_var")
    made = g.add(op, x, axis=axis if axis or g.maybe() else None, keepdims=g.maybe())
    if op == "_np_sum" and made is not None:
        g.add("_npi_tanh", made)  # sums grow


@grower(2)
def numpy_shape(g: Generator, x: Output, shape: Shape) -> None:
    last = len(shape) - 1
    if last < 0:
        return
    axis, other = g.between(0, last), g.between(0, last)
    kind = g.one_of("reshape", "moveaxis", "flip", "roll", "diff", "squeeze", "expand", "tril")
    if kind == "reshape":
        g.add("_npx_reshape", x, newshape=(-1, shape[axis]) if last else (-1,))
    elif kind == "moveaxis":
        g.add("_np_moveaxis", x, source=(axis,), destination=(other,))
    elif kind == "flip":
        g.add("_npi_flip", x, axis=(axis,))
    elif kind == "roll":
        g.add("_np_roll", x, shift=(g.between(-2, 3),), axis=(axis,))
    elif kind == "diff":
        g.add("_npi_diff", x, n=1, axis=axis)
    elif kind == "expand":
        g.add("expand_dims", x, axis=axis)
    elif kind == "squeeze":
        g.add("_np_squeeze", x)
    elif last:
        g.add("_npi_tril", x, k=g.between(-1, 1))


@grower(2)
def numpy_joined(g: Generator, x: Output, shape: Shape) -> None:
    other = g.like(shape)
    op = g.one_of("_npi_concatenate", "_npi_stack", "_npi_vstack", "_npi_hstack")
    takes_axis = op in ("_npi_concatenate", "_npi_stack")
    named = {"axis": g.between(0, max(len(shape) - 1, 0))} if takes_axis else {}
    if shape:
        g.add(op, x, other, num_args=2, **named)


@grower(2)
def numpy_product(g: Generator, x: Output, shape: Shape) -> None:
    if not shape or not shape[-1]:
        return
    weight = g.param((shape[-1], g.one_of(1, 5, 16)), shape[-1] ** -0.5)
    if g.maybe():
        g.add("_npi_tensordot_int_axes", x, weight, axes=1)
    else:
        g.add(g.one_of("_np_dot", "_npi_matmul") if len(shape) > 1 else "_np_dot", x, weight)


@grower(1)
def numpy_choice(g: Generator, x: Output, shape: Shape) -> None:
    """A choice whose sides are equal where the condition changes."""
    condition = g.add("_npi_greater_scalar", x, scalar=0.0, is_int=False)
    g.add("_npi_where", condition, x, g.add("_npi_multiply_scalar", x, scalar=0.5, is_int=False))
