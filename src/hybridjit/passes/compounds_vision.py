"""Compounds of images and boxes; and what follows from a shape alone, which becomes a constant."""

from __future__ import annotations

import json
from typing import Any

from ..ir.graph import Use, Value, make
from ..ir.rewrite import Match, Replacement, rule
from ..ops.attrs import attr_text
from ..types import FLOAT32, FLOAT64, product
from .compounds import is_plain_float
from .moves import broadcast, cut, reshaped, sliced, transposed

# What reads no more of its operand than the shape.
OF_SHAPES = (
    "_contrib_MultiBoxPrior",
    "_contrib_arange_like",
    "_contrib_index_array",
    "shape_array",
    "size_array",
)


@rule("MultiBoxPrior, arange_like, shape_array, ...  =>  a constant: they read a shape alone")
def constant_of_shape(value: Value, match: Match) -> Replacement:
    if not value.is_op(*OF_SHAPES):
        return None
    data = value.inputs[0].type
    given = {key: attr_text(each) for key, each in value.attrs.items() if each is not None}
    attrs: dict[str, Any] = {"sizes": data.dims, "dtype": data.dtype, "given": json.dumps(given)}
    attrs["op"] = value.op.name  # type: ignore[union-attr]
    return Use(make("_of_shape", value.name, [], value.source, **attrs))


# --- boxes ---


@rule("box_decode(x, anchors)  =>  pointwise on the four columns")
def box_decode_apart(value: Value, match: Match) -> Replacement:
    if not value.is_op("_contrib_box_decode") or not is_plain_float(value):
        return None
    steps, attrs = _Steps(value.name), value.attrs
    offsets, anchors = (steps.columns(use) for use in value.inputs)
    if attrs["format"] == "corner":
        anchors = _centres(steps, anchors)
    sides = []
    for axis in (0, 1):
        move = steps.one("_mul_scalar", offsets[axis], attrs[f"std{axis}"])
        grow = steps.one("_mul_scalar", offsets[axis + 2], attrs[f"std{axis + 2}"])
        if attrs["clip"] > 0:
            grow = steps.one("_minimum_scalar", grow, attrs["clip"])
        centre = steps.two("add", steps.two("mul", move, anchors[axis + 2]), anchors[axis])
        whole = steps.two("mul", steps.one("exp", grow), anchors[axis + 2])
        half = steps.one("_mul_scalar", whole, 0.5)
        sides.append([steps.two("sub", centre, half), steps.two("add", centre, half)])
    corners = [side[end] for end in (0, 1) for side in sides]
    return Use(make("Concat", value.name, corners, value.source, dim=2, num_args=4))


class _Steps:
    """Makes values with names of their own, one after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def _named(self) -> str:
        self.count += 1
        return f"{self.name}:{self.count}"

    def columns(self, boxes: Use) -> list[Use]:
        return [cut(boxes, 2, k, 1, self._named()) for k in range(4)]

    def one(self, op: str, x: Use, scalar: float | None = None) -> Use:
        attrs: dict[str, Any] = {} if scalar is None else {"scalar": scalar}
        return Use(make(op, self._named(), [x], **attrs))

    def two(self, op: str, x: Use, y: Use) -> Use:
        return Use(make(f"broadcast_{op}", self._named(), [x, y]))


def _centres(steps: _Steps, corners: list[Use]) -> list[Use]:
    """Centre and size of corner boxes, column by column."""
    sizes = [steps.two("sub", corners[axis + 2], corners[axis]) for axis in (0, 1)]
    halves = [steps.one("_mul_scalar", size, 0.5) for size in sizes]
    return [*(steps.two("add", c, h) for c, h in zip(corners, halves)), *sizes]


# --- deformable convolutions ---

_DEFORMABLE = ("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")


@rule("deformable convolution  =>  weights times samples at the taps' places")
def deformable_apart(value: Value, match: Match) -> Replacement:
    if not value.is_op(*_DEFORMABLE) or not is_plain_float(value):
        return None
    return _Deformable(value).run()


class _Deformable:
    """One deformable convolution: data (N, C, H, W), P = oh * ow places of the result."""

    def __init__(self, value: Value) -> None:
        self.value, self.attrs, self.name = value, value.attrs, value.name
        self.data, self.offset, *rest = value.inputs
        self.mask = rest.pop(0) if value.is_op(_DEFORMABLE[1]) else None
        self.weight, *self.bias = rest
        self.parts, self.groups = self.attrs["num_deformable_group"], self.attrs["num_group"]
        self.places = product(value.shape[2:])
        self.taps = product(self.attrs["kernel"])
        self.batch, self.channels = self.data.type.dims[:2]

    def run(self) -> Use:
        """The product, laid out as (N, F, oh, ow)."""
        rows = self._columns()
        if self.groups == 1:
            y = self._dense(rows)
        else:
            y = self._grouped(rows)
        images = reshaped(
            y, (self.batch, self.places, self.attrs["num_filter"]), self._at("images")
        )
        return reshaped(
            transposed(images, (0, 2, 1), self._at("nchw")), self.value.shape, self.name
        )

    def _at(self, what: str) -> str:
        return f"{self.name}:{what}"

    def _split(self, use: Use, sizes: tuple[int, ...], what: str) -> Use:
        """The images of ``use``, each cut into its parts, as images of their own."""
        return reshaped(use, (self.batch * self.parts, *sizes), self._at(what))

    def _columns(self) -> Use:
        """(N * P, taps * C): the samples under each place, tap by tap."""
        deep = self.channels // self.parts
        cells = self._split(self.data, (deep, *self.data.type.dims[2:]), "parts")
        inputs = [transposed(cells, (0, 2, 3, 1), self._at("nhwc")), self._samples_at()]
        if self.mask is not None:
            mask = self._split(self.mask, (self.taps, self.places), "mask")
            inputs.append(transposed(mask, (0, 2, 1), self._at("factors")))
        attrs = {"is_held": self.mask is None, "is_masked": self.mask is not None}
        source = self.value.source
        found = Use(make("_sample_cells_last", self._at("samples"), inputs, source, **attrs))
        if self.parts > 1:
            apart = (self.batch, self.parts, self.places, self.taps, deep)
            found = reshaped(found, apart, self._at("apart"))
            found = transposed(found, (0, 2, 3, 1, 4), self._at("together"))
        rows = (self.batch * self.places, self.taps * self.channels)
        return reshaped(found, rows, self._at("rows"))

    def _samples_at(self) -> Use:
        """Rows and columns to sample at: (N * parts, 2, P, taps)."""
        keys = ("kernel", "stride", "dilate", "pad")
        attrs = {key: self.attrs[key] for key in keys}
        attrs |= {"size": self.value.shape[2:], "dtype": self.value.type.dtype}
        grid = Use(make("_tap_grid", self._at("grid"), [], **attrs))
        grid = reshaped(grid, (1, *grid.type.dims), self._at("grids"))
        offset = self._split(self.offset, (self.taps, 2, self.places), "offsets")
        at = Use(make("broadcast_add", self._at("at"), [offset, grid]))
        return transposed(at, (0, 2, 3, 1), self._at("places"))

    def _rows_of_weights(self) -> Use:
        """(F, taps * C / groups), in the order of the columns."""
        filters, deep = self.weight.type.dims[:2]
        flat = reshaped(self.weight, (filters, deep, self.taps), self._at("weight_taps"))
        turned = transposed(flat, (0, 2, 1), self._at("weight_last"))
        return reshaped(turned, (filters, self.taps * deep), self._at("weight_rows"))

    def _dense(self, rows: Use) -> Use:
        inputs = [rows, self._rows_of_weights(), *self.bias]
        attrs = {"num_hidden": self.attrs["num_filter"], "no_bias": not self.bias}
        return Use(make("FullyConnected", self._at("product"), inputs, self.value.source, **attrs))

    def _grouped(self, rows: Use) -> Use:
        count, filters = rows.type.dims[0], self.attrs["num_filter"] // self.groups
        deep = self.channels // self.groups
        split = reshaped(rows, (count, self.taps, self.groups, deep), self._at("split"))
        turned = transposed(split, (2, 0, 1, 3), self._at("grouped"))
        left = reshaped(turned, (self.groups, count, self.taps * deep), self._at("left"))
        right = reshaped(
            self._rows_of_weights(), (self.groups, filters, self.taps * deep), self._at("right")
        )
        each = Use(make("batch_dot", self._at("product"), [left, right], transpose_b=True))
        beside = transposed(each, (1, 0, 2), self._at("beside"))
        y = reshaped(beside, (count, self.groups * filters), self._at("joined"))
        if not self.bias:
            return y
        return Use(make("broadcast_add", self._at("biased"), [y, self.bias[0]]))


# --- images ---


@rule("to_tensor(image)  =>  transpose(Cast(image)) / 255")
def to_tensor_apart(value: Value, match: Match) -> Replacement:
    if not value.is_op("_image_to_tensor"):
        return None
    name, rank = value.name, len(value.shape)
    wide = Use(make("Cast", f"{name}:wide", value.inputs, value.source, dtype=value.type.dtype))
    part = Use(make("_div_scalar", f"{name}:part", [wide], scalar=255.0))
    return transposed(part, (*range(rank - 3), rank - 1, rank - 3, rank - 2), name)


@rule("normalize(image)  =>  (image - mean) / std per channel")
def normalize_apart(value: Value, match: Match) -> Replacement:
    if not value.is_op("_image_normalize") or not is_plain_float(value):
        return None
    steps, dtype, channels = _Steps(value.name), value.type.dtype, value.shape[-3]
    mean, std = (
        Use(make("_channel_numbers", f"{value.name}:{key}", [], numbers=value.attrs[key],
                 channels=channels, dtype=dtype))
        for key in ("mean", "std")
    )  # fmt: skip
    moved = steps.two("sub", value.inputs[0], mean)
    return Use(make("broadcast_div", value.name, [moved, std], value.source))


@rule("image crop, flips  =>  slice, reverse")
def moved_image(value: Value, match: Match) -> Replacement:
    flips = {"_image_flip_left_right": (1,), "_image_flip_top_bottom": (0,)}
    for op, axes in flips.items():
        if value.is_op(op):
            return Use(make("reverse", value.name, value.inputs, value.source, axis=axes))
    if not value.is_op("_image_crop") or not value.type.size:
        return None
    attrs, sizes = value.attrs, value.inputs[0].type.dims
    lead = len(sizes) - 3
    begin = (*(0,) * lead, attrs["y"], attrs["x"], 0)
    end = (*sizes[:lead], attrs["y"] + attrs["height"], attrs["x"] + attrs["width"], sizes[-1])
    return sliced(value.inputs[0], begin, end, (1,) * len(sizes), value.name, value.source)


@rule("UpSampling(x, nearest) of types without a kernel  =>  broadcast_to(x)")
def repeated_image(value: Value, match: Match) -> Replacement:
    if not value.is_op("UpSampling") or value.attrs["sample_type"] != "nearest":
        return None
    has_kernel = value.type.dtype in (FLOAT32, FLOAT64)
    if len(value.inputs) > 1 or has_kernel or not value.type.size:
        return None
    (x,), scale, name = value.inputs, value.attrs["scale"], value.name
    batch, channels, height, width = x.type.dims
    split = reshaped(x, (batch, channels, height, 1, width, 1), f"{name}:split")
    wide = broadcast(split, (batch, channels, height, scale, width, scale), f"{name}:wide")
    return reshaped(wide, value.shape, name, value.source)


VISION = (
    constant_of_shape,
    box_decode_apart,
    deformable_apart,
    to_tensor_apart,
    normalize_apart,
    moved_image,
    repeated_image,
)
