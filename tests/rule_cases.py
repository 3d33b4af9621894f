"""Where the rules for compounds of layers and images apply, and where they only seem to.

In: nothing. Out: for each rule two graphs over variables, for ``test_passes.py`` to rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from compiling import node, var
from hybridjit.ir.node import Node, Output
from hybridjit.ir.rewrite import Rule
from hybridjit.passes import compounds_nn as layers
from hybridjit.passes import compounds_vision as vision

Shape = tuple[int, ...]


class Case(NamedTuple):
    """A graph over variables of these shapes; all but ``x``, of this type, and ``y`` are fixed."""

    outputs: Callable[[], Sequence[Output]]
    shapes: dict[str, Shape]
    dtype: str = "float32"


def several(op: str, *inputs: Output, **attrs: object) -> list[Output]:
    """All outputs of an operator."""
    made: Node = node(op, *inputs, name="several", **attrs)
    return [Output(made, i) for i in range(len(made.output_names))]


def one(op: str, *names: str, **attrs: object) -> Callable[[], list[Output]]:
    """One operator on the variables of these names."""
    return lambda: several(op, *(var(n) for n in names), **attrs)


NORM = {"gamma": (4,), "beta": (4,), "mean": (4,), "var": (4,)}
ROWS = {"x": (2, 3, 4), "g": (4,), "b": (4,)}
GROUPS = {"x": (2, 4, 3), "g": (2,), "b": (2,)}
BOXES = {"x": (2, 5, 4), "a": (1, 5, 4)}
SCALE = {"std0": 0.1, "std1": 0.3, "std2": 0.2, "std3": 0.4}

DEFORMABLE = ("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")

COMPOUND_CASES: dict[Rule, tuple[Case, Case]] = {
    layers.plain_embedding: (
        Case(one("_contrib_SparseEmbedding", "x", "w", input_dim=5, output_dim=3),
             {"x": (2, 4), "w": (5, 3)}),
        Case(one("take", "w", "x"), {"x": (2, 4), "w": (5, 3)}),
    ),
    layers.plain_concat: (
        Case(one("_rnn_param_concat", "x", "y", num_args=2, dim=0), {"x": (4,), "y": (3,)}),
        Case(one("Concat", "x", "y", num_args=2, dim=0), {"x": (4,), "y": (3,)}),
    ),
    layers.logistic_output: (
        Case(one("LogisticRegressionOutput", "x", "y"), {"x": (4, 2), "y": (4, 2)}),
        Case(one("LinearRegressionOutput", "x", "y"), {"x": (4, 2), "y": (4, 2)}),
    ),
    layers.split_batchnorm_relu: (
        Case(one("_contrib_BatchNormWithReLU", "x", *NORM, output_mean_var=True),
             {"x": (2, 4, 5), **NORM}),
        Case(one("BatchNorm", "x", *NORM), {"x": (2, 4, 5), **NORM}),
    ),
    layers.moments_apart: (
        Case(one("moments", "x", axes=(-1, 0)), {"x": (2, 3, 4)}),
        Case(one("moments", "x", axes=(0,), keepdims=True), {"x": (2, 3)}, "float16"),
    ),
    layers.layer_norm_statistics: (
        Case(one("LayerNorm", "x", "g", "b", axis=2, output_mean_var=True, eps=0.1), ROWS),
        Case(one("LayerNorm", "x", "g", "b"), ROWS),
    ),
    layers.group_norm_statistics: (
        Case(one("GroupNorm", "x", "g", "b", num_groups=2, output_mean_var=True), GROUPS),
        Case(one("GroupNorm", "x", "g", "b", num_groups=2), GROUPS),
    ),
    layers.cross_entropy_apart: (
        Case(one("softmax_cross_entropy", "x", "y"), {"x": (3, 5), "y": (3,)}),
        Case(one("softmax", "x"), {"x": (3, 5)}),
    ),
    vision.constant_of_shape: (
        Case(one("_contrib_MultiBoxPrior", "x", sizes=(0.5, 0.2), ratios=(1.0, 2.0)),
             {"x": (1, 2, 3, 4)}),
        Case(one("relu", "x"), {"x": (2, 3)}),
    ),
    vision.box_decode_apart: (
        Case(one("_contrib_box_decode", "x", "a", format="corner", clip=0.3, **SCALE), BOXES),
        Case(one("_contrib_box_iou", "x", "a"), BOXES),
    ),
    vision.deformable_apart: (
        Case(one(f"{DEFORMABLE[1]}", "x", "y", "m", "w", "b", kernel=(2, 3), stride=(2, 1),
                 pad=(1, 1), dilate=(1, 2), num_filter=4, num_group=2, num_deformable_group=2),
             {"x": (2, 4, 5, 6), "y": (2, 24, 3, 4), "m": (2, 12, 3, 4), "w": (4, 2, 2, 3),
              "b": (4,)}),
        Case(one("Convolution", "x", "w", kernel=(2, 2), num_filter=3, no_bias=True),
             {"x": (1, 2, 4, 4), "w": (3, 2, 2, 2)}),
    ),
    vision.to_tensor_apart: (
        Case(one("_image_to_tensor", "x"), {"x": (2, 4, 5, 3)}, "uint8"),
        Case(one("transpose", "x"), {"x": (4, 5, 3)}),
    ),
    vision.normalize_apart: (
        Case(one("_image_normalize", "x", mean=(0.1, 0.2, 0.3), std=(2.0,)), {"x": (3, 4, 5)}),
        Case(one("_image_normalize", "x", mean=(0.1,), std=(2.0,)), {"x": (3, 4, 5)}, "float16"),
    ),
    vision.moved_image: (
        Case(one("_image_crop", "x", x=1, y=2, width=3, height=2), {"x": (2, 5, 4, 3)}),
        Case(one("reverse", "x", axis=0), {"x": (4, 5, 3)}),
    ),
    vision.repeated_image: (
        Case(one("UpSampling", "x", scale=3, sample_type="nearest", num_args=1),
             {"x": (1, 2, 3, 4)}, "float16"),
        Case(one("UpSampling", "x", scale=3, sample_type="nearest", num_args=1),
             {"x": (1, 2, 3, 4)}),
    ),
}  # fmt: skip
