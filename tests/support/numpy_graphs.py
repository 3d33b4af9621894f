"""Random graphs of NumPy mode alone: shapes without axes or elements, several element types.

In: a seed. Out: a graph as ``random_graphs`` grows them, of operators of NumPy mode and the layers
that its programs call. Integers and bools stand beside floats, as operands that are promoted.
"""

from __future__ import annotations

import numpy as np

import random_numpy  # noqa: F401 - registers growers of NumPy mode
from growing import GROWERS, STEPS, Generator, Grower, Shape
from hybridjit.ir.node import Output

SHAPES: tuple[Shape, ...] = (
    (3, 4),
    (2, 3, 4),
    (5,),
    (),
    (1, 4),
    (2, 1, 3),
    (3, 0),
    (0,),
    (2, 3, 2, 2),
)
OTHER_TYPES = ("int32", "bool", "int64", "float64", "float16", "int8", "uint8")
OWN: list[Grower] = []


class NumpyGenerator(Generator):
    """Draws growers of NumPy mode alone, and shapes without axes or elements among others."""

    least = 0

    def __init__(self, seed: int, with_steps: bool = False) -> None:
        super().__init__(seed, with_steps)
        there = [each for each in GROWERS if each.__module__ == "random_numpy"]
        self.growers = [*there, *OWN, *(STEPS if with_steps else [])]
        self.dtype = np.dtype(self.one_of("float32", "float32", "float64", "float32", "float16"))

    def _start(self) -> None:
        for index in range(int(self.random.integers(1, 4))):
            shape = SHAPES[int(self.random.integers(len(SHAPES)))]
            self.graph.inputs.append(f"data{index}")
            self.pool.append((self._variable(f"data{index}", shape), shape))

    def other(self, shape: Shape) -> Output:
        """A variable of another element type with the values 0, 1 and 2."""
        values = self.random.integers(0, 3, shape).astype(self.one_of(*OTHER_TYPES))
        name = f"p{len(self.graph.arrays)}"
        return self._variable_of(name, values)


def own(weight: int):  # noqa: ANN201 - a decorator
    """Register a grower of these graphs alone."""

    def register(function):  # noqa: ANN001, ANN202
        OWN.extend([function] * weight)
        return function

    return register


def part_of(g: NumpyGenerator, shape: Shape) -> Shape:
    """A shape that broadcasts to ``shape``."""
    kept = shape[g.between(0, len(shape)) :]
    return tuple(1 if g.maybe(0.3) else size for size in kept)


@own(3)
def promoted(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    """An operand of another element type, or of another shape."""
    other = g.other(part_of(g, shape)) if g.maybe() else g.param(part_of(g, shape))
    op = g.one_of("multiply", "add", "subtract", "maximum", "minimum", "hypot")
    g.add(f"_npi_{op}", *((x, other) if g.maybe() else (other, x)))


@own(2)
def bounded(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    """A function that is smooth on its whole range, of an operand that it cannot overflow."""
    small = g.add("_npi_tanh", x)
    op = g.one_of("exp", "expm1", "square", "cosh", "sinh", "arcsinh", "arctan", "cbrt", "degrees")
    g.add(f"_npi_{op}", small)


@own(2)
def layer(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    kind = g.one_of("dense", "softmax", "norm", "sigmoid", "relu", "gelu", "log_softmax")
    last = shape[-1] if shape else 1
    if kind == "dense":
        weight = g.param((g.one_of(4, 3, 8), last), max(last, 1) ** -0.5)
        units = g.types[weight].dims[0]
        g.add("FullyConnected", x, weight, g.param((units,)), num_hidden=units, flatten=g.maybe())
    elif kind == "norm":
        g.add("LayerNorm", x, g.param((last,)), g.param((last,)), axis=-1, eps=0.1)
    elif kind == "gelu":
        g.add("LeakyReLU", x, act_type="gelu")
    elif kind in ("sigmoid", "relu"):
        g.add(f"_npx_{kind}", x)
    elif shape:
        g.add(kind, x, axis=g.between(-len(shape), -1))


@own(3)
def moved(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    kind = g.one_of("transpose", "flat", "broadcast", "tile", "rot90", "pad", "diag", "swap")
    last = len(shape) - 1
    if kind == "transpose":
        g.add("_np_transpose", x, axes=tuple(int(i) for i in g.random.permutation(len(shape))))
    elif kind == "flat":
        g.add("_np_reshape", x, newshape=g.one_of((-1,), (1, -1), (-1, 1)))
    elif kind == "broadcast":
        whole = tuple(g.one_of(3, 2, 0) if size == 1 else size for size in shape)
        g.add("_npi_broadcast_to", x, shape=(g.one_of(2, 1, 0), *whole))
    elif kind == "tile":
        g.add("tile", x, reps=g.one_of((2,), (1, 2), (2, 1, 1), (0,)))
    elif kind == "rot90" and last > 0:
        g.add("_npi_rot90", x, k=g.between(-1, 3), axes=(0, last))
    elif kind == "pad" and last >= 0:
        widths = tuple(g.between(0, 2) for _ in range(2 * len(shape)))
        g.add("_npi_pad", x, pad_width=widths, mode=g.one_of("constant", "edge", "reflect"))
    elif kind == "diag":
        g.add("_np_diag", x, k=g.between(-1, 1))
    elif last > 0:
        g.add("SwapAxis", x, dim1=g.between(-last, last), dim2=g.between(0, last))


@own(3)
def cut(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    """A part, also an empty one, or chosen rows."""
    if not shape:
        return
    axis = g.between(0, len(shape) - 1)
    size = shape[axis]
    kind = g.one_of("slice", "slice", "take", "split", "sort", "repeat")
    if kind == "slice":
        begin, end = sorted((g.between(0, size), g.between(0, size)))
        step = -1 if g.maybe(0.3) else 1
        bounds = (end - 1, begin - 1 if begin else None) if step < 0 else (begin, end)
        if end > begin or step > 0:
            places = [(None,) * axis + (each,) for each in (*bounds, step)]
            g.add("slice", x, begin=places[0], end=places[1], step=places[2])
    elif kind == "take" and size:
        index = g.indices(g.one_of((2,), (), (0,), (2, 3)), size)
        g.add("take", x, index, axis=axis, mode=g.one_of("clip", "wrap"))
    elif kind == "split" and size > 1:
        g.add("_split_v2", x, indices=(0, g.between(1, size - 1)), axis=axis)
    elif kind == "sort":
        g.add("sort", x, axis=axis)
    elif kind == "repeat":
        g.add("repeat", x, repeats=g.between(1, 2), axis=axis)


@own(2)
def summed(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    op = g.one_of("_np_cumsum", "_npi_std", "_np_trace", "_npi_average")
    axes = tuple(i for i in range(len(shape)) if g.maybe()) or None
    if op == "_np_cumsum":
        g.add(op, x, axis=g.between(0, len(shape) - 1) if shape and g.maybe() else None)
    elif op == "_npi_std" and np.prod([shape[i] for i in axes or range(len(shape))]) != 1:
        moved = g.add("_npi_add", x, g.param(shape))
        g.add(op, moved, axis=axes, keepdims=g.maybe())
    elif op == "_np_trace" and len(shape) > 1:
        g.add(op, x, offset=g.between(-1, 1), axis1=0, axis2=len(shape) - 1)
    elif op == "_npi_average":
        g.add(op, x, axis=axes, returned=False, weighted=False)


@own(2)
def contracted(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    """einsum and stacked products, sums of length 0 included."""
    if len(shape) < 2:
        return
    letters = "abcd"[: len(shape)]
    other = g.param((shape[-1], g.one_of(3, 1, 0)), max(shape[-1], 1) ** -0.5)
    kind = g.one_of("einsum", "matmul", "gram", "sum")
    if kind == "einsum":
        text = f"{letters},{letters[-1]}z->{letters[:-1]}z"
        g.add("_npi_einsum", x, other, num_args=2, subscripts=text, optimize=0)
    elif kind == "matmul":
        g.add("_npi_matmul", x, g.param((*shape[:-2], shape[-1], 2), 0.5))
    elif kind == "gram":
        g.add("_npi_matmul", x, g.add("SwapAxis", x, dim1=-1, dim2=-2))
    else:
        g.add("_npi_einsum", x, num_args=1, subscripts=f"{letters}->{letters[0]}", optimize=0)


@own(2)
def chosen(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    """``where`` with a condition of another type, broadcast."""
    condition = g.other(part_of(g, shape))
    kind = g.one_of("both", "left", "right")
    if kind == "both":
        g.add("_npi_where", condition, x, g.param(part_of(g, shape)))
    else:
        g.add(f"_npi_where_{kind[0]}scalar", condition, x, scalar=g.one_of(0.5, 0.0))


@own(1)
def other_type(g: NumpyGenerator, x: Output, shape: Shape) -> None:
    """A result of another element type, which a later operator may promote back."""
    whole = g.add(f"_npi_{g.one_of('greater', 'less')}_scalar", x, scalar=7.5, is_int=False)
    g.add("_npi_multiply", x, whole)
