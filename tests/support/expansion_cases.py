"""Where operators expand, and where they only seem to.

In: nothing. Out: for each expansion two graphs over variables, for ``test_expand.py`` to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from compiling import node, var
from hybridjit.ir.node import Node, Output

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


IMAGE: Shape = (2, 3, 5, 6)
CONV = {"w": (4, 3, 3, 3), "b": (4,)}
NORM = {"gamma": (4,), "beta": (4,), "mean": (4,), "var": (4,)}
ROWS = {"x": (2, 3, 4), "g": (4,), "b": (4,)}
GROUPS = {"x": (2, 4, 3), "g": (2,), "b": (2,)}
BOXES = {"x": (2, 5, 4), "a": (1, 5, 4)}
SCALE = {"std0": 0.1, "std1": 0.3, "std2": 0.2, "std3": 0.4}

DEFORMABLE = ("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")

ATTENTION = "_contrib_interleaved_matmul_"

# By operator, maybe with a word behind it: where it expands, and where it looks as if it should
# and must not.
EXPANSIONS: dict[str, tuple[Case, Case]] = {
    "Dropout": (
        Case(one("Dropout", "x"), {"x": (2, 3)}),
        Case(one("Dropout", "x", mode="always", p=0.0), {"x": (2, 3)}),
    ),
    "Cast": (
        Case(one("Cast", "x", dtype="float32"), {"x": (2, 3)}),
        Case(one("Cast", "x", dtype="float64"), {"x": (2, 3)}),
    ),
    "Reshape": (
        Case(one("Reshape", "x", shape=(0, -3, -2)), {"x": (2, 3, 4, 5)}),
        Case(one("tile", "x", reps=(1, 1)), {"x": (2, 3)}),
    ),
    "SwapAxis": (
        Case(one("SwapAxis", "x", dim1=0, dim2=2), {"x": (2, 3, 4)}),
        Case(one("reverse", "x", axis=(0, 2)), {"x": (2, 3, 4)}),
    ),
    "transpose": (
        Case(one("transpose", "x"), {"x": (2, 3, 4)}),
        Case(one("transpose", "x", axes=(2, 1, 0)), {"x": (2, 3, 4)}),
    ),
    "SliceChannel": (
        Case(one("SliceChannel", "x", num_outputs=3, squeeze_axis=True), {"x": (2, 3, 4)}),
        Case(one("slice", "x", begin=(0, 1), end=(2, 3)), {"x": (2, 3, 4)}),
    ),
    "broadcast_axis": (
        Case(one("broadcast_axis", "x", axis=(1,), size=(4,)), {"x": (2, 1, 3)}),
        Case(one("broadcast_to", "x", shape=(2, 4, 3)), {"x": (2, 1, 3)}),
    ),
    "LeakyReLU": (
        Case(one("LeakyReLU", "x", "g", act_type="prelu"), {"x": IMAGE, "g": (3,)}),
        Case(one("LeakyReLU", "x", act_type="leaky"), {"x": IMAGE}),
    ),
    "_power_scalar": (
        Case(one("_power_scalar", "x", scalar=3), {"x": (2, 3)}),
        Case(one("_power_scalar", "x", scalar=3), {"x": (2, 3)}, "float16"),
    ),
    "SoftmaxActivation": (
        Case(one("SoftmaxActivation", "x", mode="channel"), {"x": IMAGE}),
        Case(one("softmax", "x", axis=1), {"x": IMAGE}),
    ),
    "FullyConnected": (
        Case(one("FullyConnected", "x", "w", no_bias=True, num_hidden=5),
             {"x": (2, 3, 4), "w": (5, 12)}),
        Case(one("FullyConnected", "x", "w", no_bias=True, num_hidden=5),
             {"x": (2, 12), "w": (5, 12)}),
    ),
    "dot": (
        Case(one("dot", "x", "w", transpose_a=True), {"x": (3, 2, 4), "w": (3, 5)}),
        Case(one("dot", "x", "w"), {"x": (2, 0), "w": (0, 5)}),
    ),
    "batch_dot": (
        Case(one("batch_dot", "x", "y", transpose_b=True), {"x": (2, 3, 4), "y": (2, 5, 4)}),
        Case(one("batch_dot", "x", "y"), {"x": (2, 3, 4), "y": (2, 4, 5)}),
    ),
    "BatchNorm": (
        Case(one("BatchNorm", "x", *NORM, output_mean_var=True),
             {"x": (2, 4, 5), **NORM}),
        Case(one("BatchNorm", "x", *NORM), {"x": (2, 4, 5), **NORM}),
    ),
    "ones_like": (
        Case(one("ones_like", "x"), {"x": (2, 3)}),
        Case(one("ones_like", "x"), {"x": ()}),
    ),
    "Concat": (
        Case(one("Concat", "x", num_args=1), {"x": (2, 3)}),
        Case(one("Concat", "x", "x", num_args=2), {"x": (2, 3)}),
    ),
    "_contrib_interleaved_matmul_encdec_qk": (
        Case(one(f"{ATTENTION}encdec_qk", "x", "y", heads=2), {"x": (5, 2, 8), "y": (3, 2, 16)}),
        Case(one("batch_dot", "x", "y"), {"x": (2, 3, 4), "y": (2, 4, 5)}),
    ),
    "_contrib_interleaved_matmul_selfatt_valatt": (
        Case(one(f"{ATTENTION}selfatt_valatt", "x", "y", heads=2),
             {"x": (5, 2, 24), "y": (4, 5, 5)}),
        Case(one("batch_dot", "x", "y"), {"x": (2, 3, 4), "y": (2, 4, 5)}),
    ),
    "_contrib_div_sqrt_dim": (
        Case(one("_contrib_div_sqrt_dim", "x"), {"x": (2, 5)}),
        Case(one("_contrib_div_sqrt_dim", "x"), {"x": (2, 5)}, "float16"),
    ),
    "softmax": (
        Case(one("softmax", "x", temperature=3.0, axis=1), {"x": (2, 5, 3)}),
        Case(one("softmax", "x", temperature=1.0, axis=1), {"x": (2, 5, 3)}),
    ),
    "_linalg_gemm": (
        Case(one("_linalg_gemm", "x", "y", "z", transpose_a=True, alpha=2.0, beta=3.0, axis=0),
             {"x": (4, 2, 3), "y": (4, 2, 5), "z": (3, 2, 5)}),
        Case(one("_linalg_syrk", "x"), {"x": (2, 2)}),
    ),
    "SequenceLast": (
        Case(one("SequenceLast", "x", axis=1), {"x": (2, 3, 4)}),
        Case(one("SequenceLast", "x", "y", axis=1, use_sequence_length=True),
             {"x": (2, 3, 4), "y": (2,)}),
    ),
    "Convolution_v1": (
        Case(one("Convolution_v1", "x", "w", "b", kernel=(3, 3), num_filter=4),
             {"x": IMAGE, **CONV}),
        Case(one("Convolution", "x", "w", "b", kernel=(3, 3), num_filter=4),
             {"x": IMAGE, **CONV}),
    ),
    "Pooling_v1": (
        Case(one("Pooling_v1", "x", kernel=(2, 2), stride=(2, 2)), {"x": IMAGE}),
        Case(one("Pooling_v1", "x", kernel=(2, 2), pad=(1, 1)), {"x": IMAGE}),
    ),
    "_contrib_AdaptiveAvgPooling2D": (
        Case(one("_contrib_AdaptiveAvgPooling2D", "x", output_size=(2, 3)), {"x": (2, 3, 4, 6)}),
        Case(one("_contrib_AdaptiveAvgPooling2D", "x", output_size=(2, 3)), {"x": (2, 3, 5, 6)}),
    ),
    "UpSampling": (
        Case(one("UpSampling", "x", "w", scale=2, sample_type="bilinear", num_filter=3,
                 num_args=2), {"x": IMAGE, "w": (3, 1, 4, 4)}),
        Case(one("UpSampling", "x", scale=2, sample_type="nearest", num_args=1), {"x": IMAGE}),
    ),
    "SpatialTransformer": (
        Case(one("SpatialTransformer", "x", "y", target_shape=(4, 3), transform_type="affine",
                 sampler_type="bilinear"), {"x": IMAGE, "y": (2, 6)}),
        Case(one("BilinearSampler", "x", "y"), {"x": IMAGE, "y": (2, 2, 4, 3)}),
    ),
    "GridGenerator": (
        Case(one("GridGenerator", "x", transform_type="affine", target_shape=(4, 3)),
             {"x": (2, 6)}),
        Case(one("GridGenerator", "x", transform_type="affine", target_shape=(4, 3)),
             {"x": (2, 6)}, "float16"),
    ),
    "GridGenerator warp": (
        Case(one("GridGenerator", "x", transform_type="warp"), {"x": (2, 2, 4, 1)}),
        Case(one("GridGenerator", "x", transform_type="warp"), {"x": (2, 2, 4, 1)}, "float16"),
    ),
    "RNN": (
        Case(one("RNN", "x", "y", "state", state_size=2, num_layers=1, mode="rnn_tanh"),
             {"x": (4, 1, 3), "y": (14,), "state": (1, 1, 2)}),
        Case(one("RNN", "x", "y", "state", state_size=2, num_layers=1, mode="rnn_tanh"),
             {"x": (4, 0, 3), "y": (14,), "state": (1, 0, 2)}),
    ),
    "tile": (
        Case(one("tile", "x", reps=(2, 1, 3)), {"x": (2, 3)}),
        Case(one("repeat", "x", repeats=0, axis=1), {"x": (2, 3)}),
    ),
    "stack": (
        Case(one("stack", "x", "y", axis=-1, num_args=2), {"x": (2, 3), "y": (2, 3)}),
        Case(one("stack", "x", "y", num_args=2), {"x": (2, 0), "y": (2, 0)}),
    ),
    "_split_v2": (
        Case(one("_split_v2", "x", indices=(0, 1, 4)), {"x": (2, 6)}),
        Case(one("_split_v2", "x", indices=(0, 2, 2)), {"x": (2, 6)}),
    ),
    "Crop": (
        Case(one("Crop", "x", num_args=1, h_w=(2, 3), center_crop=True), {"x": IMAGE}),
        Case(one("slice", "x", begin=(0, 0, 1), end=(2, 3, 3)), {"x": IMAGE}),
    ),
    "space_to_depth": (
        Case(one("space_to_depth", "x", block_size=2), {"x": (2, 3, 4, 6)}),
        Case(one("space_to_depth", "x", block_size=2), {"x": (0, 3, 4, 6)}),
    ),
    "reverse": (
        Case(one("reverse", "x", axis=(0, 2)), {"x": (2, 3, 4)}),
        Case(one("reverse", "x", axis=1), {"x": (2, 0)}),
    ),
    "diag": (
        Case(one("diag", "x", k=-1, axis1=2, axis2=0), {"x": (4, 2, 3)}),
        Case(one("diag", "x", k=1), {"x": (3,)}),
    ),
    "where": (
        Case(one("where", "y", "x", "z"), {"x": (3, 4), "y": (3,), "z": (3, 4)}),
        Case(one("where", "y", "x", "z"), {"x": (3, 4), "y": (3, 4), "z": (3, 4)}),
    ),
    "Pad": (
        Case(one("Pad", "x", mode="reflect", pad_width=(0, 0, 0, 0, 2, 1, 0, 3)), {"x": IMAGE}),
        Case(one("Pad", "x", mode="edge", pad_width=(0,) * 8), {"x": (0, 3, 5, 6)}),
    ),
    "argmax": (
        Case(one("argmax", "x", keepdims=True), {"x": (2, 3)}),
        Case(one("argmin", "x", axis=0), {"x": (2, 3)}),
    ),
    "amp_multicast": (
        Case(one("amp_multicast", "x", "y", num_outputs=2), {"x": (3,), "y": (3,)}, "float16"),
        Case(one("amp_cast", "x", dtype="float64"), {"x": (3,)}, "float16"),
    ),
    "_contrib_SparseEmbedding": (
        Case(one("_contrib_SparseEmbedding", "x", "w", input_dim=5, output_dim=3),
             {"x": (2, 4), "w": (5, 3)}),
        Case(one("take", "w", "x"), {"x": (2, 4), "w": (5, 3)}),
    ),
    "cast_storage": (
        Case(one("cast_storage", "x", stype="csr"), {"x": (2, 3)}),
        Case(one("square", "x"), {"x": (2, 3)}),
    ),
    "_square_sum": (
        Case(one("_square_sum", "x", axis=1), {"x": (2, 3)}),
        Case(one("sum", "x", axis=1), {"x": (2, 3)}),
    ),
    "_rnn_param_concat": (
        Case(one("_rnn_param_concat", "x", "y", num_args=2, dim=0), {"x": (4,), "y": (3,)}),
        Case(one("Concat", "x", "y", num_args=2, dim=0), {"x": (4,), "y": (3,)}),
    ),
    "LogisticRegressionOutput": (
        Case(one("LogisticRegressionOutput", "x", "y"), {"x": (4, 2), "y": (4, 2)}),
        Case(one("LinearRegressionOutput", "x", "y"), {"x": (4, 2), "y": (4, 2)}),
    ),
    "_contrib_BatchNormWithReLU": (
        Case(one("_contrib_BatchNormWithReLU", "x", *NORM, output_mean_var=True),
             {"x": (2, 4, 5), **NORM}),
        Case(one("BatchNorm", "x", *NORM), {"x": (2, 4, 5), **NORM}),
    ),
    "moments": (
        Case(one("moments", "x", axes=(-1, 0)), {"x": (2, 3, 4)}),
        Case(one("moments", "x", axes=(0,), keepdims=True), {"x": (2, 3)}, "float16"),
    ),
    "LayerNorm": (
        Case(one("LayerNorm", "x", "g", "b", axis=2, output_mean_var=True, eps=0.1), ROWS),
        Case(one("LayerNorm", "x", "g", "b"), ROWS),
    ),
    "GroupNorm": (
        Case(one("GroupNorm", "x", "g", "b", num_groups=2, output_mean_var=True), GROUPS),
        Case(one("GroupNorm", "x", "g", "b", num_groups=2), GROUPS),
    ),
    "softmax_cross_entropy": (
        Case(one("softmax_cross_entropy", "x", "y"), {"x": (3, 5), "y": (3,)}),
        Case(one("softmax", "x"), {"x": (3, 5)}),
    ),
    "_contrib_MultiBoxPrior": (
        Case(one("_contrib_MultiBoxPrior", "x", sizes=(0.5, 0.2), ratios=(1.0, 2.0)),
             {"x": (1, 2, 3, 4)}),
        Case(one("relu", "x"), {"x": (2, 3)}),
    ),
    "topk": (
        Case(one("topk", "x", k=2, axis=0, ret_typ="both", is_ascend=True), {"x": (4, 3)}),
        Case(one("topk", "x", k=2, ret_typ="mask"), {"x": (4, 3)}),
    ),
    "sort": (
        Case(one("sort", "x", axis=None), {"x": (4, 3)}),
        Case(one("sort", "x"), {"x": (0, 3)}),
    ),
    "argsort": (
        Case(one("argsort", "x", axis=0, dtype="int64"), {"x": (4, 3)}),
        Case(one("argsort", "x"), {"x": (0, 3)}),
    ),
    "_contrib_MultiBoxDetection": (
        Case(one("_contrib_MultiBoxDetection", "x", "y", "a", nms_threshold=0.3),
             {"x": (2, 3, 5), "y": (2, 20), "a": (1, 5, 4)}),
        Case(one("_contrib_box_iou", "x", "a"), BOXES),
    ),
    "_contrib_box_iou": (
        Case(one("_contrib_box_iou", "x", "a", format="center"), {"x": (2, 3, 4), "a": (5, 4)}),
        Case(one("_contrib_box_iou", "x", "a"), {"x": (0, 4), "a": (5, 4)}),
        Case(one("_contrib_box_iou", "x", "a"), {"x": (3, 4), "a": (5, 4)}, "float16"),
    ),
    "_contrib_box_decode": (
        Case(one("_contrib_box_decode", "x", "a", format="corner", clip=0.3, **SCALE), BOXES),
        Case(one("_contrib_box_iou", "x", "a"), BOXES),
    ),
    "_contrib_ModulatedDeformableConvolution": (
        Case(one(f"{DEFORMABLE[1]}", "x", "y", "m", "w", "b", kernel=(2, 3), stride=(2, 1),
                 pad=(1, 1), dilate=(1, 2), num_filter=4, num_group=2, num_deformable_group=2),
             {"x": (2, 4, 5, 6), "y": (2, 24, 3, 4), "m": (2, 12, 3, 4), "w": (4, 2, 2, 3),
              "b": (4,)}),
        Case(one("Convolution", "x", "w", kernel=(2, 2), num_filter=3, no_bias=True),
             {"x": (1, 2, 4, 4), "w": (3, 2, 2, 2)}),
    ),
    "_image_to_tensor": (
        Case(one("_image_to_tensor", "x"), {"x": (2, 4, 5, 3)}, "uint8"),
        Case(one("transpose", "x"), {"x": (4, 5, 3)}),
    ),
    "_image_normalize": (
        Case(one("_image_normalize", "x", mean=(0.1, 0.2, 0.3), std=(2.0,)), {"x": (3, 4, 5)}),
        Case(one("_image_normalize", "x", mean=(0.1,), std=(2.0,)), {"x": (3, 4, 5)}, "float16"),
    ),
    "_image_crop": (
        Case(one("_image_crop", "x", x=1, y=2, width=3, height=2), {"x": (2, 5, 4, 3)}),
        Case(one("reverse", "x", axis=0), {"x": (4, 5, 3)}),
    ),
    "UpSampling nearest": (
        Case(one("UpSampling", "x", scale=3, sample_type="nearest", num_args=1),
             {"x": (1, 2, 3, 4)}, "float16"),
        Case(one("UpSampling", "x", scale=3, sample_type="nearest", num_args=1),
             {"x": (1, 2, 3, 4)}),
    ),
}  # fmt: skip
