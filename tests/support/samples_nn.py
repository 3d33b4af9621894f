"""Samples of the operators that work on windows, matrices and channels."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from hybridjit.ops.bfloat16 import rounded
from sampling import add, bad, ints

F16, F64, I32 = (np.dtype(t) for t in ("float16", "float64", "int32"))


def convolution() -> None:
    conv = "Convolution"
    add(conv, (2, 3, 9, 9), kernel=(3, 3), num_filter=4)
    add(conv, (2, 3, 9, 9), kernel=(3, 3), num_filter=4, pad=(1, 1), no_bias=True)
    add(conv, (1, 16, 7, 7), kernel=(3, 3), num_filter=32, pad=(1, 1))
    add(conv, (1, 5, 11, 8), kernel=(1, 1), num_filter=7)
    add(conv, (3, 8, 8, 8), kernel=(1, 1), num_filter=16, stride=(2, 2), no_bias=True)
    add(conv, (1, 3, 17, 19), kernel=(7, 7), num_filter=8, stride=(2, 2), pad=(3, 3))
    add(conv, (1, 2, 10, 12), kernel=(2, 3), num_filter=3, stride=(3, 1), pad=(1, 0))
    add(conv, (2, 4, 9, 7), kernel=(3, 3), num_filter=5, dilate=(2, 1), pad=(2, 1))
    add(conv, (1, 6, 8, 8), kernel=(3, 3), num_filter=9, num_group=3, pad=(1, 1))
    add(conv, (2, 8, 7, 7), kernel=(3, 3), num_filter=8, num_group=8, pad=(1, 1), no_bias=True)
    add(conv, (1, 17, 9, 9), kernel=(5, 5), num_filter=17, num_group=17, stride=(2, 2), pad=(2, 2))
    add(conv, (1, 4, 9, 9), kernel=(3, 3), num_filter=8, num_group=4, dilate=(2, 2), pad=(1, 3))
    add(conv, (1, 3, 5, 5), kernel=(5, 5), num_filter=2)
    add(conv, (1, 3, 1, 1), kernel=(3, 3), num_filter=2, pad=(1, 1))
    add(conv, (0, 3, 9, 9), kernel=(3, 3), num_filter=4)
    add(conv, (2, 3, 15), kernel=(4,), num_filter=5, stride=(2,), pad=(1,))
    add(conv, (2, 6, 15), kernel=(3,), num_filter=4, num_group=2, dilate=(3,), layout="NCW")
    add(conv, (1, 2, 5, 6, 7), kernel=(3, 2, 3), num_filter=4, stride=(1, 2, 2), pad=(1, 0, 1))
    add(conv, (1, 4, 4, 5, 5), kernel=(1, 3, 3), num_filter=4, num_group=2, no_bias=True)
    add(conv, (2, 9, 9, 3), kernel=(3, 3), num_filter=4, layout="NHWC", pad=(1, 1))
    add(conv, (2, 9, 8, 6), kernel=(3, 3), num_filter=4, layout="NHWC", num_group=2)
    add(conv, (2, 15, 3), kernel=(3,), num_filter=4, layout="NWC", stride=(2,))
    add(conv, (1, 4, 5, 6, 2), kernel=(2, 2, 2), num_filter=3, layout="NDHWC")
    add(conv, (1, 3, 9, 9), kernel=(3, 3), num_filter=4, dtype="float64")
    add(conv, (1, 3, 9, 9), kernel=(3, 3), num_filter=4, dtype="float16")
    add("Convolution_v1", (1, 3, 9, 9), kernel=(3, 3), num_filter=4, pad=(1, 1))

    by_weight = "_convolution_by_weight"
    add(by_weight, (2, 3, 9, 9), (2, 4, 7, 7), kernel=(3, 3))
    add(by_weight, (3, 40, 17, 18), (3, 35, 17, 16), kernel=(3, 3), pad=(1, 0))
    add(by_weight, (2, 9, 9, 36), (2, 9, 9, 70), kernel=(3, 3), pad=(1, 1), layout="NHWC")
    add(by_weight, (2, 6, 9, 8), (2, 4, 5, 3), kernel=(3, 2), stride=(2, 3), pad=(1, 1),
        num_group=2)  # fmt: skip
    add(by_weight, (3, 17, 8), (3, 17, 4), kernel=(3,), dilate=(2,), num_group=17)
    add(by_weight, (1, 2, 5, 6, 4), (1, 3, 4, 5, 3), kernel=(2, 2, 2))
    add(by_weight, (2, 7, 8, 4), (2, 5, 6, 6), kernel=(3, 3), num_group=2, layout="NHWC")
    add(by_weight, (0, 3, 9, 9), (0, 4, 7, 7), kernel=(3, 3))
    add(by_weight, (2, 3, 9, 9), (2, 4, 7, 7), kernel=(3, 3), dtype="float64")
    bad(by_weight, (2, 3, 9, 9), (2, 4, 6, 7), error=ShapeError,
        says="head has shape (2,4,6,7), but data needs (2,4,7,7)", kernel=(3, 3))  # fmt: skip

    takes_3 = {"kernel": (3, 3), "num_filter": 4, "no_bias": True}
    w = (4, 3, 3, 3)
    bad(conv, (1, 2, 9, 9), w, error=ShapeError,
        says="weight needs 3 input channels, but data has 2",
        **takes_3)  # fmt: skip
    bad(conv, (3, 9, 9), w, error=ShapeError,
        says="Input data should be 4D in batch-num_filter-y-x", **takes_3)  # fmt: skip
    bad(conv, (1, 3, 9, 9), w, error=ShapeError,
        says="Input data should be 3D in batch-num_filter-x", kernel=(3,), num_filter=4,
        no_bias=True)  # fmt: skip
    bad(conv, (1, 3, 2, 2), w, error=ShapeError, says="kernel size exceed input", **takes_3)
    bad(conv, (1, 3, 9, 9), w, error=ShapeError, says="3 does not divide 4", num_group=3, **takes_3)
    bad(conv, (1, 3, 9, 9), w, error=ShapeError, says="stride (1) has 1 elements, but needs 2",
        stride=(1,), **takes_3)  # fmt: skip
    bad(conv, (1, 3, 9, 9), w, error=AttributeValueError, says="stride (0,1)", stride=(0, 1),
        **takes_3)  # fmt: skip
    bad(conv, (1, 3, 9, 9), w, error=AttributeValueError, says="layout NCW", layout="NCW",
        **takes_3)  # fmt: skip
    bad(conv, (1, 3, 9, 9), w, error=AttributeValueError, says="kernel of shape is missing",
        num_filter=4, no_bias=True)  # fmt: skip
    bad(conv, (1, 3, 9, 9), w, (5,), error=ShapeError, says="(5)", kernel=(3, 3), num_filter=4)
    bad(conv, (1, 3, 9, 9), TensorType(w, F64), error=DTypeError, says="float64", **takes_3)
    bad(conv, TensorType((1, 3, 9, 9), I32), TensorType(w, I32), error=DTypeError,
        says="takes floating types, got int32", **takes_3)  # fmt: skip


def pooling() -> None:
    pool = "Pooling"
    add(pool, (2, 3, 8, 8), kernel=(2, 2), stride=(2, 2))
    add(pool, (2, 3, 9, 11), kernel=(3, 3), stride=(2, 2), pad=(1, 1))
    add(pool, (1, 17, 7, 7), kernel=(3, 2), pool_type="avg")
    add(pool, (1, 5, 9, 9), kernel=(3, 3), pool_type="avg", stride=(2, 2), pad=(1, 1))
    add(pool, (1, 5, 9, 9), kernel=(3, 3), pool_type="avg", pad=(1, 1), count_include_pad=False)
    add(pool, (1, 4, 6, 6), kernel=(3, 3), pool_type="avg", stride=(2, 2), pad=(1, 1),
        pooling_convention="full")  # fmt: skip
    add(pool, (1, 4, 6, 8), kernel=(3, 3), pool_type="avg", stride=(2, 2), pad=(1, 1),
        pooling_convention="full", count_include_pad=False)  # fmt: skip
    add(pool, (1, 4, 8, 6), kernel=(3, 3), stride=(2, 2), pooling_convention="full")
    add(pool, (1, 2, 6, 6), kernel=(1, 1), stride=(4, 4), pooling_convention="full")
    add(pool, (1, 2, 6, 6), kernel=(2, 2), stride=(5, 5), pad=(1, 1), pool_type="avg",
        pooling_convention="full")  # fmt: skip
    add(pool, (2, 3, 7, 5), kernel=(2, 3), pool_type="sum", stride=(1, 2), pad=(1, 2))
    add(pool, (2, 3, 7, 5), kernel=(2, 2), pool_type="lp", p_value=1)
    add(pool, (2, 3, 7, 5), kernel=(2, 2), pool_type="lp", p_value=2, pad=(1, 1))
    add(pool, (2, 3, 7, 5), kernel=(2, 2), pool_type="lp", p_value=3)
    for pool_type in ("max", "avg", "sum"):
        add(pool, (2, 17, 5, 7), pool_type=pool_type, global_pool=True)
    add(pool, (2, 3, 5, 5), kernel=(2, 2), pool_type="lp", p_value=2, global_pool=True)
    add(pool, (2, 3, 13), kernel=(3,), stride=(2,), pad=(1,))
    add(pool, (2, 3, 13), kernel=(4,), stride=(3,), pool_type="avg", layout="NCW")
    add(pool, (2, 3, 10), kernel=(4,), stride=(3,), pad=(0, 0, 0), pooling_convention="same")
    add(pool, (1, 2, 5, 6, 7), kernel=(1, 3, 3), stride=(1, 2, 2), pad=(0, 1, 1))
    add(pool, (1, 2, 5, 6, 7), kernel=(2, 2, 2), pool_type="avg", pooling_convention="full",
        stride=(2, 2, 2))  # fmt: skip
    add(pool, (2, 8, 9, 3), kernel=(2, 2), stride=(2, 2), layout="NHWC")
    add(pool, (2, 8, 9, 3), pool_type="avg", global_pool=True, layout="NHWC")
    add(pool, (0, 3, 8, 8), kernel=(2, 2))
    add(pool, (0, 3, 8, 8), global_pool=True)
    add(pool, (1, 3, 8, 8), kernel=(2, 2), dtype="float64")
    add(pool, (1, 3, 8, 8), kernel=(3, 3), pool_type="avg", dtype="float16")
    holes = np.full((1, 1, 4, 4), np.nan, np.float32)
    holes[0, 0, 0] = (1, -np.inf, np.inf, -5)
    add(pool, holes, kernel=(2, 2))
    add(pool, holes, pool_type="max", global_pool=True)
    for v1_type in ("max", "avg", "sum"):
        add("Pooling_v1", (1, 2, 7, 7), kernel=(2, 2), stride=(3, 3), pad=(1, 1),
            pool_type=v1_type, pooling_convention="full")  # fmt: skip
    add("Pooling_v1", (1, 2, 7, 7), global_pool=True, pool_type="avg")

    back_max, back_avg = "_back_from_max_pooling", "_back_from_average_pooling"
    image = np.random.default_rng(5).normal(size=(2, 3, 6, 6)).astype("float32")
    pooled = image.reshape(2, 3, 3, 2, 3, 2).max((3, 5))
    add(back_max, image, pooled, pooled, kernel=(2, 2), stride=(2, 2))
    add(back_max, image, image, image, kernel=(1, 1), to_all=True)
    add(back_max, image, image.max((2, 3), keepdims=True), (2, 3, 1, 1), global_pool=True)
    add(back_max, image, image.max((1, 2), keepdims=True), (2, 1, 1, 6), global_pool=True,
        layout="NHWC")  # fmt: skip
    add(back_max, (0, 3, 4), (0, 3, 1), (0, 3, 1), global_pool=True)
    add(back_avg, (2, 3, 4, 3), shape=(2, 3, 7, 6), kernel=(3, 2), stride=(2, 2), pad=(1, 0),
        pool_type="avg", count_include_pad=False)  # fmt: skip
    add(back_avg, (2, 4, 4, 3), shape=(2, 6, 6, 3), kernel=(3, 3), stride=(2, 2), pad=(1, 1),
        pool_type="avg", pooling_convention="full", layout="NHWC")  # fmt: skip
    add(back_avg, (2, 3, 1), shape=(2, 3, 5), pool_type="sum", global_pool=True)
    bad(back_max, (1, 1, 4), (1, 1, 3), (1, 1, 2), error=ShapeError, says="pooling of f32[1,1,4]",
        kernel=(2,))  # fmt: skip
    bad(back_avg, (1, 1, 2), error=ShapeError, says="got f32[1,1,2]", shape=(1, 1, 4),
        kernel=(2,))  # fmt: skip

    x = (1, 3, 8, 8)
    bad(pool, x, error=AttributeValueError, says="kernel is required")
    bad(pool, (3, 8, 8), error=ShapeError, says="Input data should be 4D", kernel=(2, 2))
    bad(pool, (3, 8), error=ShapeError, says="Input data should be 3D", global_pool=True)
    bad(pool, x, error=ShapeError, says="2 is not less than 2", kernel=(2, 2), pad=(2, 2))
    bad(pool, x, error=ShapeError, says="kernel size exceed input", kernel=(9, 9))
    bad(pool, x, error=AttributeValueError, says="stride (0,0)", kernel=(2, 2), stride=(0, 0))
    bad(pool, x, error=AttributeValueError, says="p_value of 1, 2 or 3", kernel=(2, 2),
        pool_type="lp")  # fmt: skip
    bad(pool, x, error=AttributeValueError, says="full, same, valid", kernel=(2, 2),
        pooling_convention="Full")  # fmt: skip
    bad(pool, x, error=ShapeError, says="same needs 3D data", kernel=(2, 2),
        pooling_convention="same")  # fmt: skip
    bad(pool, x, error=AttributeValueError, says="layout NCW", kernel=(2, 2), layout="NCW")
    bad(pool, TensorType(x, I32), error=DTypeError, says="got int32", kernel=(2, 2))


def products() -> None:
    fc = "FullyConnected"
    add(fc, (2, 3), num_hidden=4)
    add(fc, (5, 17), num_hidden=33, no_bias=True)
    add(fc, (2, 3, 4), num_hidden=5)
    add(fc, (2, 3, 4), num_hidden=5, flatten=False)
    add(fc, (3,), num_hidden=4)
    add(fc, (3,), num_hidden=4, flatten=False)
    add(fc, (1, 64), num_hidden=1)
    add(fc, (0, 6), num_hidden=4)
    add(fc, (2, 0), num_hidden=4)
    add(fc, (2, 3, 0), num_hidden=4, flatten=False)
    add(fc, (2, 3), num_hidden=4, dtype="float64")
    add(fc, (2, 3), num_hidden=4, dtype="float16")
    bad(fc, (2, 3), (4, 4), error=ShapeError, says="weight has 4 inputs, data has 3",
        num_hidden=4, no_bias=True)  # fmt: skip
    bad(fc, (2, 3), (5, 3), error=ShapeError, says="weight has 5 outputs, num_hidden is 4",
        num_hidden=4, no_bias=True)  # fmt: skip
    bad(fc, (2, 3), (4, 3), error=AttributeValueError, says="num_hidden", num_hidden=0,
        no_bias=True)  # fmt: skip
    bad(fc, (2, 3), (4, 3), error=AttributeValueError, says="num_hidden of int is missing",
        no_bias=True)  # fmt: skip
    bad(fc, TensorType((2, 3), I32), TensorType((4, 3), I32), error=DTypeError, says="int32",
        num_hidden=4, no_bias=True)  # fmt: skip
    bad(fc, (2, 3), TensorType((4, 3), F16), error=DTypeError, says="float16", num_hidden=4,
        no_bias=True)  # fmt: skip

    add("dot", (2, 3), (3, 5))
    add("dot", (17, 33), (33, 19))
    add("dot", (3, 2), (3, 5), transpose_a=True)
    add("dot", (2, 3), (5, 3), transpose_b=True)
    add("dot", (3, 2), (5, 3), transpose_a=True, transpose_b=True)
    add("dot", (4,), (4,))
    add("dot", (2, 4), (4,))
    add("dot", (4,), (4, 3))
    add("dot", (2, 3, 4), (4, 5))
    add("dot", (3, 4, 5), (3, 6), transpose_a=True)
    add("dot", (2, 3), (5, 6, 3), transpose_b=True)
    add("dot", (2, 3, 4), (4, 2, 3))
    add("dot", (0, 3), (3, 5))
    add("dot", (2, 3), (3, 5), dtype="float64")
    bad("dot", (2, 3), (4, 3), error=ShapeError, says="lhs contracts 3 elements, but rhs 4")
    bad("dot", (2, 3), TensorType((3, 2), F64), error=DTypeError, says="float64")

    batch = "batch_dot"
    add(batch, (2, 3, 4), (2, 4, 5))
    add(batch, (2, 4, 3), (2, 4, 5), transpose_a=True)
    add(batch, (2, 3, 4), (2, 5, 4), transpose_b=True)
    add(batch, (2, 4, 3), (2, 5, 4), transpose_a=True, transpose_b=True)
    add(batch, (2, 3, 17, 4), (2, 3, 4, 33))
    add(batch, (1, 1, 1), (1, 1, 1))
    add(batch, (0, 3, 4), (0, 4, 5))
    add(batch, (2, 3, 4), (2, 4, 5), dtype="float64")
    bad(batch, (2, 3, 4), (2, 3, 4), error=ShapeError, says="lhs contracts 4 elements, but rhs 3")
    bad(batch, (2, 3, 4), (1, 4, 3), error=ShapeError, says="batch dimensions must be equal")
    bad(batch, (3, 4), (4, 3), error=ShapeError, says="at least 3")


def normalisations() -> None:
    bn = "BatchNorm"
    add(bn, (2, 3, 5, 7))
    add(bn, (2, 3, 5, 7), fix_gamma=False)
    add(bn, (2, 5, 7, 3), fix_gamma=False, axis=3, eps=1e-5)
    add(bn, (2, 5, 7, 3), fix_gamma=False, axis=-1)
    add(bn, (2, 17), fix_gamma=False)
    add(bn, (2, 3, 5), fix_gamma=False, output_mean_var=True)
    add(bn, (3,), axis=0)
    add(bn, (2, 3, 4, 5, 6), fix_gamma=False)
    add(bn, (0, 3, 4), fix_gamma=False)
    add(bn, (2, 3, 5, 7), fix_gamma=False, dtype="float64")
    add(bn, (2, 3, 5, 7), fix_gamma=False, dtype="float16")
    for name in ("_contrib_BatchNormWithReLU", "_contrib_SyncBatchNorm", "BatchNorm_v1"):
        key = {"key": "a"} if "Sync" in name else {}
        add(name, (2, 3, 4, 5), fix_gamma=False, **key)
        add(name, (2, 3, 4, 5), eps=0.1, **key)
        add(name, (2, 3, 4), fix_gamma=False, output_mean_var=True, **key)
    kinds = ("_BatchNorm_training", "_BatchNormWithReLU_training", "_BatchNorm_v1_training")
    for name in kinds:
        add(name, (2, 3, 4, 5), fix_gamma=False)
        add(name, (3, 4, 5), axis=-1, eps=0.1)
        add(name, (0, 3, 4), fix_gamma=False)
        add(name, (2, 3, 5, 7), fix_gamma=False, dtype="float16")
    x, c3, c4 = (2, 3, 4), (3,), (4,)
    bad(bn, x, c4, c3, c3, c3, error=ShapeError, says="gamma has shape (4), data has 3 channels")
    bad(bn, x, c3, c3, c3, c3, error=ShapeError, says="channel axis 3 is out of range", axis=3)
    bad(bn, TensorType(x, F16), *[TensorType(c3, F16)] * 4, error=DTypeError, says="float32")
    bad(bn, TensorType(x, I32), *[TensorType(c3, I32)] * 4, error=DTypeError, says="int32")


def layer_norms() -> None:
    for shape, axis in (((2, 3), -1), ((5,), 0), ((2, 3, 17), 1), ((4, 33), 1), ((3, 4, 5), -3)):
        add("LayerNorm", shape, axis=axis)
    add("LayerNorm", (2, 6), eps=0.1, output_mean_var=True)
    add("LayerNorm", (3, 2, 4), axis=0, output_mean_var=True)
    add("LayerNorm", (0, 4))
    add("LayerNorm", (2, 6), dtype="float64")
    add("LayerNorm", (2, 6), dtype="float16")
    bad("LayerNorm", (2, 3), (2,), (3,), error=ShapeError, says="data has 3 elements on axis 1")
    bad("LayerNorm", (2, 3), (3,), (3,), error=ShapeError, says="axis 2 is out of range", axis=2)
    bad("LayerNorm", TensorType((2, 3), F16), (3,), (3,), error=DTypeError, says="float16")

    for shape in ((2, 3, 4), (2, 3, 5, 7), (1, 17, 2, 3, 4), (0, 3, 4)):
        add("InstanceNorm", shape)
        add("GroupNorm", shape)
    add("InstanceNorm", (2, 3, 4), eps=0.5, dtype="float64")
    add("GroupNorm", (2, 6, 4), num_groups=2, output_mean_var=True)
    add("GroupNorm", (2, 6, 4, 5), num_groups=6, eps=0.1)
    add("GroupNorm", (2, 6, 4), num_groups=3, dtype="float16")
    bad("InstanceNorm", (2, 3), (3,), (3,), error=ShapeError, says="rank >= 3, got 2")
    bad("InstanceNorm", (2, 3, 4), (4,), (3,), error=ShapeError, says="data has 3 channels")
    bad("GroupNorm", (2, 6, 4), (4,), (4,), error=ShapeError, says="4 does not divide 6",
        num_groups=4)  # fmt: skip
    bad("GroupNorm", (2, 6, 4), (6,), (6,), error=ShapeError, says="GroupNorm has 2 groups",
        num_groups=2)  # fmt: skip

    for mode in ("instance", "channel", "spatial"):
        add("L2Normalization", (2, 3, 4), mode=mode)
        add("L2Normalization", (2, 3, 4, 5), mode=mode, eps=0.1)
        add("L2Normalization", (0, 3, 4, 5), mode=mode)
    add("L2Normalization", (2, 17))
    add("L2Normalization", (5,), dtype="float16")
    bad("L2Normalization", (2, 3), error=ShapeError, says="at least 3 dimensions", mode="channel")
    bad("L2Normalization", TensorType((2, 3), I32), error=DTypeError, says="int32")
    for channels, nsize in ((5, 3), (7, 5), (2, 5), (6, 1)):
        add("LRN", (2, channels, 3, 4), nsize=nsize, alpha=0.5, beta=0.6, knorm=1)
    add("LRN", (1, 20, 2, 2), nsize=5)
    add("LRN", (3, 20), nsize=5, alpha=0.5, beta=0.6, knorm=1)
    bad("LRN", (2, 3, 4), error=ShapeError, says="4D or 2D data", nsize=3)
    bad("LRN", (2, 3, 4, 4), error=AttributeValueError, says="nsize must be at least 1", nsize=0)
    for axes in ((0,), (1, 2), (-1,), (0, 1, 2)):
        add("moments", (2, 3, 4), axes=axes)
        add("moments", (2, 3, 4), axes=axes, keepdims=True)
    whole = np.array([[-1, 250, 3], [7, -9, 200]])
    for kind in ("int8", "uint8", "int32", "int64"):
        add("moments", whole.astype(kind), axes=(0,))
    bad("moments", (2, 3), error=AttributeValueError, says="Empty axes is not supported")
    bad("moments", (2, 3), error=ShapeError, says="axis 2 is out of range", axes=(2,))


def made_by_passes() -> None:
    """Operators that only the compiler writes into a graph."""
    variance = np.array([0.5, 1, 2], np.float32)
    for fix_gamma in (True, False):
        attrs = {"eps": 1e-3, "fix_gamma": fix_gamma}
        add("_bn_scale", (3,), variance, **attrs)
        add("_bn_shift", (3,), (3,), (3,), variance, num_args=4, **attrs)
        add("_bn_shift", (3,), (3,), (3,), variance, (3,), num_args=5, **attrs)
    for channels in (3, 17):
        add("_instance_norm_last", (2, 5, 4, channels), (channels,), (channels,), eps=1e-3)
        for nsize in (1, 4, 5, 41):
            add("_lrn_last", (2, 3, 2, channels), alpha=0.1, beta=0.75, knorm=2.0, nsize=nsize)
    for how, height, width in (
        ("nearest", 6, 8),
        ("bilinear", 5, 3),
        ("average", 2, 3),
        ("average", 1, 3),
        ("bilinear", 1, 9),
    ):
        for channels in (2, 17):
            add("_resize_last", (2, 3, 4, channels), how=how, height=height, width=width)
    for what in ("points", "pixels", "halves"):
        add("_grid_constant", what=what, height=3, width=4, dtype_="float32")
    for mode, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        for hidden, batch in ((3, 2), (17, 1), (18, 15)):
            rows, state = gates * hidden, (batch, hidden)
            states = (state, state) if mode == "lstm" else (state,)
            add("_rnn_steps", (3, batch, rows), (rows, hidden), (rows,), *states, mode=mode,
                backward=batch == 2)  # fmt: skip
            short = rounded(np.random.RandomState(rows).randn(rows, hidden).astype(np.float32))
            add("_rnn_rounded_steps", (3, batch, rows), short, (rows,), *states,
                mode=mode, backward=batch == 2)  # fmt: skip
            # Small weights: gradients grow with them from step to step.
            weight = np.linspace(-0.3, 0.2, hidden * rows, dtype=np.float32).reshape(hidden, rows)
            y = (3, batch, hidden)
            attrs = {"mode": mode, "backward": batch == 2}
            if mode in ("lstm", "gru"):
                add("_rnn_kept_steps", (3, batch, rows), (rows, hidden), (rows,), *states, **attrs)
            if mode == "lstm":
                kept = (3, batch, 5 * hidden)
                add("_rnn_steps_back", kept, state, weight, y, **attrs)
                add("_rnn_steps_back", kept, state, weight, y, state, **attrs, of_cell=True)
            elif mode == "gru":
                add("_rnn_steps_back", (3, batch, 4 * hidden), y, state, weight, y, **attrs)
            else:
                add("_rnn_steps_back", y, weight, y, **attrs)
    read = ((3, 2, 20), (20, 4), (20,), (2, 4), (2, 5), (4, 5))
    for backward in (False, True):
        add("_rnn_projected_steps", *read, mode="lstm", backward=backward)
        add("_rnn_projected_steps_back", *read, (3, 2, 4), (3, 2, 4), (2, 5), backward=backward)
    add("_reshape_to", (2, 6), shape=(3, 4))
    add("_reshape_to", (2, 3, 4), shape=(24,))
    bad(
        "_reshape_to",
        (2, 3),
        error=ShapeError,
        says="6 elements do not match the shape (4)",
        shape=(4,),
    )


def softmaxes() -> None:
    for name in ("softmax", "log_softmax", "softmin"):
        add(name, (2, 3))
        add(name, (5,))
        add(name, (2, 17, 5), axis=1)
        add(name, (2, 3, 4, 5), axis=-3)
        add(name, (3, 33), temperature=2.5)
        add(name, (3, 5), dtype_="float64")
        add(name, (3, 5), dtype="float16")
        add(name, (3, 5), dtype="float64")
        add(name, (0, 5))
        bad(name, (2, 3), error=ShapeError, says="axis 2 is out of range", axis=2)
        bad(name, TensorType((2, 3), I32), error=DTypeError, says="got int32")
    add("softmax", np.array([[1000.0, -1000, 0], [-np.inf] * 3, [0, -np.inf, 1]], np.float32))
    add("softmax", (3, 5), ints(0, 2, 9), use_length=True)
    add("softmax", (2, 5, 3), ints([1, 2, 3], [0, 5, 4], dtype="int64"), use_length=True, axis=1)
    add("softmax", (3, 35), ints(0, 20, 99), use_length=True, temperature=2.0)
    lengths = np.arange(36).reshape(2, 18) % 7
    add("softmax", (2, 5, 18), lengths.astype("int32"), use_length=True, axis=1)
    bad("softmax", (2, 3), (2,), error=DTypeError, says="integer type", use_length=True)
    bad("softmax", (2, 3), ints(1, 2, 3), error=ShapeError, says="(3)", use_length=True)

    for name in ("SoftmaxActivation",):
        for shape in ((2, 3), (5,), (2, 3, 4), (2, 3, 4, 5), (0, 3)):
            add(name, shape)
        add(name, (2, 3, 4), mode="channel")
        add(name, (2, 3, 4, 5), mode="channel")
        add(name, (2, 3), dtype="float16")
        bad(name, (2, 3), error=ShapeError, says="at least 3 dimensions", mode="channel")
    output = "SoftmaxOutput"
    for shape in ((2, 3), (5,), (2, 3, 4), (0, 3)):
        add(output, shape)
    add(output, (2, 3), (2, 3))
    add(output, (2, 3, 4), multi_output=True)
    add(output, (2, 3, 4, 5), preserve_shape=True)
    add(output, (2, 3), dtype="float64")
    bad(output, (2, 3), (5,), error=ShapeError, says="label has shape (5), but data needs (2)")
    bad(output, (2, 3), ints(1, 2), error=DTypeError, says="int32")
    add("softmax_cross_entropy", (3, 5), np.array([0, 4, 2], np.float32))
    bad("softmax_cross_entropy", (3, 5, 2), (3,), error=ShapeError, says="needs 2D data")


def resolutions() -> None:
    deconv = "Deconvolution"
    add(deconv, (2, 3, 5, 5), kernel=(3, 3), num_filter=4)
    add(deconv, (1, 3, 5, 6), kernel=(3, 2), num_filter=4, stride=(2, 3), no_bias=False)
    add(deconv, (1, 4, 4, 4), kernel=(4, 4), num_filter=2, stride=(2, 2), pad=(1, 1))
    add(deconv, (1, 4, 4, 4), kernel=(3, 3), num_filter=2, stride=(2, 2), pad=(1, 1), adj=(1, 1))
    add(deconv, (1, 4, 4, 4), kernel=(2, 2), num_filter=2, stride=(3, 3), adj=(2, 1))
    add(deconv, (1, 6, 5, 5), kernel=(3, 3), num_filter=4, num_group=2, dilate=(2, 1))
    add(deconv, (1, 4, 5, 5), kernel=(4, 4), num_filter=4, num_group=4, stride=(2, 2), pad=(1, 1))
    add(deconv, (1, 3, 5, 5), kernel=(4, 4), num_filter=2, stride=(2, 2), target_shape=(9, 10))
    add(deconv, (2, 3, 7), kernel=(3,), num_filter=4, stride=(2,), layout="NCW")
    add(deconv, (1, 2, 3, 3, 3), kernel=(2, 2, 2), num_filter=3, stride=(2, 1, 2))
    add(deconv, (2, 5, 5, 3), kernel=(3, 3), num_filter=4, layout="NHWC")
    add(deconv, (2, 6, 4, 5), kernel=(3, 2), num_filter=4, num_group=2, stride=(3, 2), adj=(2, 1),
        pad=(1, 0), dilate=(2, 1), no_bias=False)  # fmt: skip
    add(deconv, (0, 3, 5, 5), kernel=(3, 3), num_filter=4)
    add(deconv, (1, 3, 5, 5), kernel=(3, 3), num_filter=4, dtype="float64")
    takes_4 = {"kernel": (3, 3), "num_filter": 3}
    x, w = (1, 4, 5, 5), (4, 3, 3, 3)
    bad(deconv, (1, 3, 5, 5), w, error=ShapeError,
        says="weight needs 4 input channels, but data has 3",
        **takes_4)  # fmt: skip
    bad(deconv, x, w, error=ShapeError, says="1 is not less than 1", adj=(1, 1), **takes_4)
    bad(deconv, x, w, error=ShapeError, says="too big target shape", target_shape=(9, 9), **takes_4)
    bad(deconv, x, w, error=ShapeError, says="pad 9 removes all", pad=(9, 9), **takes_4)
    bad(deconv, (4, 5, 5), w, error=ShapeError, says="Input data should be 4D", **takes_4)

    window = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "dilate": (1, 2)}
    add("im2col", (2, 3, 7, 8), **window)
    add("col2im", (2, 18, 24), output_size=(7, 8), **window)
    bad("col2im", (2, 17, 24), error=ShapeError, says="(N, C * 6, 24)", output_size=(7, 8),
        **window)  # fmt: skip

    up = "UpSampling"
    add(up, (2, 3, 4, 5), scale=2, sample_type="nearest", num_args=1)
    add(up, (1, 2, 3, 3), scale=3, sample_type="nearest", num_args=1)
    add(up, (1, 2, 4, 4), (1, 3, 8, 8), scale=2, sample_type="nearest", num_args=2)
    add(up, (1, 2, 4, 4), (1, 2, 8, 8), scale=2, sample_type="nearest", num_args=2,
        multi_input_mode="sum")  # fmt: skip
    add(up, (1, 2, 3, 4), scale=2, sample_type="bilinear", num_args=2, num_filter=2)
    add(up, (1, 3, 3, 4), scale=3, sample_type="bilinear", num_args=2, num_filter=3)
    bad(up, (2, 3, 4), error=ShapeError, says="4D data", scale=2, sample_type="nearest",
        num_args=1)  # fmt: skip
    bad(up, (1, 2, 4, 4), (1, 2, 3, 4), error=ShapeError, says="cannot be repeated to 8 x 8",
        scale=2, sample_type="nearest", num_args=2)  # fmt: skip
    bad(up, (1, 2, 4, 4), error=AttributeValueError, says="scale must be at least 1", scale=0,
        sample_type="nearest", num_args=1)  # fmt: skip

    for how in ("average", "bilinear"):
        add("_resize_back", (2, 3, 7, 4), how=how, height=5, width=6)
    add("_resize_back", (1, 2, 7, 4), how="bilinear", height=3, width=4, align=True)
    resize = "_contrib_BilinearResize2D"
    for align in (True, False):
        add(resize, (2, 3, 5, 7), height=8, width=3, align_corners=align)
        add(resize, (1, 2, 5, 7), (1, 1, 10, 14), mode="like", align_corners=align)
        add(resize, (1, 2, 5, 7), height=1, width=4, align_corners=align)
        add(resize, (1, 2, 5, 7), height=5, width=7, align_corners=align)
        add(resize, (1, 2, 1, 7), height=5, width=7, align_corners=align)
    add(resize, (1, 2, 5, 7), scale_height=1.5, scale_width=0.5)
    for mode in ("odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
        add(resize, (1, 2, 5, 6), mode=mode, scale_height=1.5, scale_width=2)
    add(resize, (1, 2, 5, 7), height=3, width=3, dtype="float16")
    bad(resize, (2, 5, 7), error=ShapeError, says="4D data", height=3, width=3)
    bad(resize, (1, 2, 5, 7), error=AttributeValueError, says="both scale_height and scale_width",
        scale_height=2)  # fmt: skip
    bad(resize, TensorType((1, 2, 5, 7), I32), error=DTypeError, says="int32", height=3, width=3)
    adaptive = "_contrib_AdaptiveAvgPooling2D"
    for size in ((), (2,), (3, 4), (7, 9)):
        add(adaptive, (2, 3, 5, 7), output_size=size)
    bad(adaptive, (1, 2, 5, 7), error=AttributeValueError, says="positive integers",
        output_size=(0,))  # fmt: skip


def declare() -> None:
    """List them all."""
    convolution()
    pooling()
    products()
    normalisations()
    softmaxes()
    layer_norms()
    resolutions()
    made_by_passes()
