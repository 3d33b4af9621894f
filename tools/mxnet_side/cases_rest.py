"""Random cases of the rarer operators: detection, warps, attention, linear algebra, legacy names.

The caller skips cases that MXNet rejects, so attribute ranges may be generous.
"""

from __future__ import annotations

import numpy as np

from hybridjit import sym
from mxnet_side.draw import Case, Draw, data


def likes(draw: Draw) -> Case:
    """Operators that take a shape from a second tensor, or tell one."""
    shape = draw.shape(1, 4)
    kind = draw.pick("reshape", "broadcast", "shape", "arange", "index")
    inputs = {"data": draw.normal(shape)}
    if kind == "reshape":
        flat = (int(np.prod(shape)),)
        inputs["like"] = draw.normal(draw.pick(flat, (1, *flat), shape[::-1]))
        x = sym.reshape_like(data(), data("like"))
    elif kind == "broadcast":
        small = tuple(1 if draw.chance(0.5) else size for size in shape)
        inputs = {"data": draw.normal(small), "like": draw.normal(shape)}
        x = sym.broadcast_like(data(), data("like"))
    elif kind == "shape":
        x = sym.Group([sym.shape_array(data()), sym.size_array(data())])
    elif kind == "arange":
        given = draw.some(start=2, step=0.5, axis=draw.int(-1, len(shape) - 1))
        x = sym.contrib.arange_like(data(), **given)
    else:
        x = sym.contrib.index_array(data(), **draw.some(axes=(0,)))
    return Case(x, inputs)


def creation(draw: Draw) -> Case:
    """Constants beside a tensor."""
    shape = draw.shape(1, 3)
    kind = draw.pick("zeros", "ones", "full", "arange", "linspace", "eye")
    given = draw.some(dtype=draw.pick("float32", "int32", "float64"))
    if kind in ("zeros", "ones"):
        x = getattr(sym, kind)(shape, **given)
    elif kind == "full":
        x = sym.full(shape, draw.pick(0.5, -3, 7), **given)
    elif kind == "arange":
        stop = draw.pick(None, draw.int(8, 20))
        x = sym.arange(draw.int(1, 7), stop, draw.pick(1, 0.5, 2), repeat=draw.int(1, 3), **given)
    elif kind == "linspace":
        x = sym.linspace(0, draw.int(1, 9), draw.int(2, 9), endpoint=draw.chance(0.5), **given)
    else:
        x = sym.eye(draw.int(1, 6), draw.int(0, 6), draw.int(-2, 2), **given)
    return Case(sym.Group([x, data() * 2]), {"data": draw.normal(shape)})


def detection(draw: Draw) -> Case:
    batch, count = draw.int(1, 2), draw.int(1, 9)
    kind = draw.pick("prior", "detection", "decode", "iou")
    corners = np.sort(draw.uniform((count, 2, 2), 0, 1), axis=1).reshape(1, count, 4)
    if kind == "prior":
        given = draw.some(
            sizes=draw.pick((0.5,), (0.3, 0.8)), ratios=draw.pick((1.0, 2.0), (1.0, 2.0, 0.5)),
            clip=True, steps=(0.1, 0.2), offsets=(0.3, 0.6),
        )  # fmt: skip
        shape = (1, 3, draw.int(1, 9), draw.int(1, 9))
        return Case(sym.contrib.MultiBoxPrior(data(), **given), {"data": draw.normal(shape)})
    if kind == "decode":
        given = draw.some(std0=0.1, std2=0.2, clip=0.3, format=draw.pick("center", "corner"))
        x = sym.contrib.box_decode(data(), data("anchors"), **given)
        return Case(x, {"data": draw.normal((batch, count, 4)), "anchors": corners})
    if kind == "iou":
        other = np.sort(draw.uniform((draw.int(1, 7), 2, 2), 0, 1), axis=1).reshape(-1, 4)
        x = sym.contrib.box_iou(data(), data("other"), format=draw.pick("corner", "center"))
        return Case(x, {"data": corners[0], "other": other})
    classes = draw.int(2, 5)
    scores = draw.uniform((batch, classes, count), 0, 1)
    inputs = {
        "data": scores / scores.sum(1, keepdims=True),
        "shifts": draw.normal((batch, 4 * count)),
        "anchors": corners,
    }
    given = draw.some(threshold=0.3, nms_threshold=0.2, force_suppress=True, clip=False, nms_topk=3)
    x = sym.contrib.MultiBoxDetection(*map(data, inputs), **given)
    return Case(x, inputs, tolerance=1e-4)


def deformable(draw: Draw) -> Case:
    group = draw.int(1, 2)
    channels, filters = 2 * draw.int(1, 4), draw.int(1, 5)
    kernel, stride, pad = draw.int(1, 3), draw.int(1, 2), draw.int(0, 1)
    height, width = draw.int(3, 8), draw.int(3, 8)
    out = [(n + 2 * pad - kernel) // stride + 1 for n in (height, width)]
    taps = group * kernel * kernel
    inputs = {
        "data": draw.normal((2, channels, height, width)),
        "offset": draw.normal((2, 2 * taps, *out)),
    }
    given = {
        "kernel": (kernel, kernel), "stride": (stride, stride), "pad": (pad, pad),
        "num_filter": filters, "num_deformable_group": group, "no_bias": draw.chance(0.5),
        "name": "conv",
    }  # fmt: skip
    if draw.chance(0.5):
        inputs["mask"] = draw.uniform((2, taps, *out), 0, 1)
        x = sym.contrib.ModulatedDeformableConvolution(*map(data, inputs), **given)
    else:
        x = sym.contrib.DeformableConvolution(*map(data, inputs), **given)
    return Case(x, inputs, tolerance=5e-5)


def warping(draw: Draw) -> Case:
    batch, channels = draw.int(1, 2), draw.int(1, 5)
    height, width = draw.int(2, 9), draw.int(2, 9)
    image = draw.normal((batch, channels, height, width))
    target = (draw.int(2, 8), draw.int(2, 8))  # for one row or column MXNet divides by zero
    kind = draw.pick("sampler", "affine", "warp", "transformer", "correlation", "crop", "im2col")
    if kind == "sampler":
        inputs = {"data": image, "grid": draw.uniform((batch, 2, *target), -1.3, 1.3)}
        return Case(sym.BilinearSampler(data(), data("grid")), inputs, tolerance=5e-5)
    if kind == "affine":
        x = sym.GridGenerator(data(), transform_type="affine", target_shape=target)
        return Case(x, {"data": draw.normal((batch, 6))})
    if kind == "warp":
        x = sym.GridGenerator(data(), transform_type="warp")
        return Case(x, {"data": draw.normal((batch, 2, height, width))})
    if kind == "transformer":
        x = sym.SpatialTransformer(
            data(), data("loc"), target_shape=target, transform_type="affine",
            sampler_type="bilinear",
        )  # fmt: skip
        inputs = {"data": image, "loc": draw.normal((batch, 6)) * np.float32(0.4)}
        return Case(x, inputs, tolerance=1e-4)
    if kind == "correlation":
        given = {"kernel_size": draw.pick(1, 3), "max_displacement": draw.int(1, 2), "pad_size": 3}
        given.update(draw.some(stride1=2, stride2=2, is_multiply=False))
        x = sym.Correlation(data(), data("other"), **given)
        return Case(x, {"data": image, "other": draw.normal(image.shape)}, tolerance=2e-5)
    if kind == "crop":
        size = (draw.int(1, height), draw.int(1, width))
        x = sym.Crop(data(), num_args=1, h_w=size, center_crop=draw.chance(0.5))
        return Case(x, {"data": image})
    given = draw.some(stride=(2, 1), pad=(1, 0), dilate=(1, 2))
    return Case(sym.im2col(data(), kernel=(2, 1), **given), {"data": image})


def attention(draw: Draw) -> Case:
    heads, width = draw.int(1, 4), draw.int(1, 9)
    length, batch = draw.int(1, 7), draw.int(1, 3)
    kind = draw.pick("qk", "valatt", "encdec_qk", "encdec_valatt", "scale")
    if kind == "scale":
        return Case(sym.contrib.div_sqrt_dim(data()), {"data": draw.normal(draw.shape(1, 3))})
    ops = sym.contrib
    if kind in ("qk", "valatt"):
        inputs = {"data": draw.normal((length, batch, heads * 3 * width))}
        if kind == "qk":
            x = ops.interleaved_matmul_selfatt_qk(data(), heads=heads)
        else:
            inputs["attention"] = draw.uniform((batch * heads, length, length), 0, 1)
            x = ops.interleaved_matmul_selfatt_valatt(*map(data, inputs), heads=heads)
        return Case(x, inputs, tolerance=2e-5)
    other = draw.int(1, 6)
    keys = draw.normal((other, batch, heads * 2 * width))
    if kind == "encdec_qk":
        inputs = {"data": draw.normal((length, batch, heads * width)), "keys": keys}
        x = ops.interleaved_matmul_encdec_qk(*map(data, inputs), heads=heads)
    else:
        weights = draw.uniform((batch * heads, length, other), 0, 1)
        inputs = {"data": keys, "attention": weights}
        x = ops.interleaved_matmul_encdec_valatt(*map(data, inputs), heads=heads)
    return Case(x, inputs, tolerance=2e-5)


def linear_algebra(draw: Draw) -> Case:
    n, batch = draw.int(1, 6), draw.shape(1, 1)[:1]
    square = draw.normal((*batch, n, n))
    positive = square @ square.swapaxes(-1, -2) + np.float32(n) * np.eye(n, dtype=np.float32)
    lower = np.tril(square, -1) + 2 * np.eye(n, dtype=np.float32)
    ops = sym.linalg
    flags = {"transpose": draw.chance(0.5), "rightside": draw.chance(0.5)}
    kind = draw.pick(
        *("potrf", "potri", "trsm", "trmm", "syrk", "inverse", "det", "slogdet", "sumlogdiag"),
        *("extractdiag", "makediag", "gemm", "khatri", "extracttrian"),
    )
    if kind in ("trsm", "trmm"):
        inputs = {"data": lower, "other": draw.normal((*batch, n, n))}
        x = getattr(ops, kind)(data(), data("other"), alpha=0.5, **flags)
    elif kind == "syrk":
        x, inputs = ops.syrk(data(), transpose=flags["transpose"], alpha=2), {"data": square}
    elif kind == "gemm":
        inputs = {"data": square, "other": positive, "sum": lower}
        x = ops.gemm(*map(data, inputs), transpose_a=draw.chance(0.5), alpha=0.5, beta=2)
    elif kind == "khatri":
        inputs = {"data": draw.normal((draw.int(1, 5), n)), "other": draw.normal((3, n))}
        x = sym.khatri_rao(*map(data, inputs), num_args=2)
    elif kind in ("potrf", "sumlogdiag", "inverse", "det", "slogdet"):
        x, inputs = getattr(ops, kind)(data()), {"data": positive}
    elif kind == "potri":
        x, inputs = ops.potri(data()), {"data": lower}
    elif kind == "makediag":
        x, inputs = ops.makediag(data(), **draw.some(offset=1)), {"data": square[..., 0]}
    else:
        x, inputs = getattr(ops, kind)(data(), **draw.some(offset=0)), {"data": square}
    return Case(x, inputs, tolerance=2e-3)


def legacy(draw: Draw) -> Case:
    """Old names, ends of training graphs, and operators that few graphs hold."""
    shape = draw.shape(2, 4)
    values = {"data": draw.normal(shape)}
    kind = draw.pick(
        *("regression", "loss", "smooth_l1", "quadratic", "cumsum", "batch_take", "ravel"),
        *("unravel", "scatter", "bn_relu", "dropout", "finite", "entropy"),
    )
    if kind == "regression":
        name = draw.pick(
            "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"
        )
        return Case(getattr(sym, name)(data(), name="out"), values)
    if kind == "loss":
        return Case(sym.MakeLoss(sym.square(data())), values)
    if kind == "smooth_l1":
        return Case(sym.smooth_l1(data(), **draw.some(scalar=2.0)), values)
    if kind == "quadratic":
        return Case(sym.contrib.quadratic(data(), a=0.5, b=-1, c=2), values)
    if kind == "cumsum":
        return Case(sym.cumsum(data(), **draw.some(axis=draw.int(0, len(shape) - 1))), values)
    if kind == "batch_take":
        inputs = {"data": draw.normal((5, 7)), "index": draw.integers((5,), 0, 7, "int32")}
        return Case(sym.batch_take(data(), data("index", "int32")), inputs)
    if kind in ("ravel", "unravel"):
        x = sym.ravel_multi_index if kind == "ravel" else sym.unravel_index
        rows = draw.integers((2, 5), 0, 3, "float32")
        index = rows if kind == "ravel" else draw.integers((6,), 0, 12, "float32")
        return Case(x(data(), shape=(3, 4)), {"data": index})
    if kind == "scatter":
        index = np.stack([draw.rng.permutation(6)[:4], draw.rng.permutation(6)[:4]])
        inputs = {"data": draw.normal((4,)), "index": index.astype(np.float32)}
        return Case(sym.scatter_nd(data(), data("index"), shape=(6, 6)), inputs)
    if kind == "bn_relu":
        return Case(sym.contrib.BatchNormWithReLU(data(), name="bn"), values)
    if kind == "dropout":
        return Case(sym.tanh(sym.Dropout(data(), p=0.3)), values)
    if kind == "finite":
        if draw.chance(0.5):
            values["data"].flat[0] = draw.pick(np.nan, np.inf)
        return Case(sym.all_finite(data()), values)
    inputs = {"data": draw.normal((4, 6)), "label": draw.integers((4,), 0, 6, "float32")}
    return Case(sym.softmax_cross_entropy(data(), data("label")), inputs)


def states(draw: Draw) -> Case:
    """Constants of unknown batch size, which follows from other operands."""
    batch, width, hidden = draw.int(1, 5), draw.int(1, 6), draw.int(1, 6)
    begin = draw.pick(sym.zeros, sym.ones)(shape=(0, hidden), name="begin")
    x = sym.FullyConnected(data(), num_hidden=hidden, name="i2h")
    kind = draw.pick("sum", "dense", "cell", "concat", "split", "reshape", "stack", "where")
    if kind == "sum":
        x = x + begin
    elif kind == "dense":
        x = x + sym.FullyConnected(begin, num_hidden=hidden, name="h2h")
    elif kind == "cell":
        gates = sym.SliceChannel(sym.concat(x, begin, dim=1), num_outputs=2, axis=1)
        x = sym.tanh(gates[0] + begin) * sym.sigmoid(gates[1])
    elif kind == "concat":
        x = sym.concat(x, begin * 2, dim=draw.pick(1, -1)) + sym.concat(begin, x, dim=1)
    elif kind == "split":
        parts = sym.SliceChannel(begin, num_outputs=hidden, axis=1)
        x = sym.broadcast_add(x, parts[0] + sym.slice_axis(x, axis=1, begin=0, end=1))
    elif kind == "reshape":
        x = sym.Reshape(begin, shape=(0, 1, hidden)) + sym.expand_dims(x, axis=1)
    elif kind == "stack":
        x = sym.stack(x, sym.relu(begin), axis=draw.int(0, 2))
    else:
        x = sym.where(x > 0, x, begin)
    return Case(x, {"data": draw.normal((batch, width))})


KINDS = {
    "likes": (2, likes),
    "creation": (2, creation),
    "detection": (2, detection),
    "deformable": (1, deformable),
    "warping": (2, warping),
    "attention": (1, attention),
    "linear_algebra": (2, linear_algebra),
    "legacy": (3, legacy),
    "states": (1, states),
}
