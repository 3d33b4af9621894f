"""Recipes of the rarer operators: detection, warps, images, linear algebra, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridjit.ops import all_ops
from mxnet_side.draw import Draw
from mxnet_side.singles import FLOATS, Single, fixed, recipe, values

WIDE = ("float32", "float32", "float64")


def boxes(draw: Draw, count: int, high: float = 1.0) -> np.ndarray:
    """Corner boxes (count, 4), a few with sides that are equal or the wrong way round."""
    corners = draw.uniform((count, 2, 2), 0, high)
    if draw.chance(0.85):
        corners = np.sort(corners, axis=1)
    return corners.reshape(count, 4)


def rois(draw: Draw, count: int, batch: int, high: float) -> np.ndarray:
    number = draw.integers((count, 1), 0, batch, "float32")
    return np.concatenate([number, boxes(draw, count, high)], axis=1)


@recipe("_contrib_ROIAlign", WIDE)
def roi_align(draw: Draw, name: str) -> Single:
    batch, channels = draw.int(1, 2), draw.int(1, 4)
    bins = (draw.int(1, 3), draw.int(1, 3))
    given: dict[str, Any] = {"pooled_size": bins, "spatial_scale": draw.pick(0.5, 0.75, 1)}
    given.update(draw.some(sample_ratio=draw.pick(-1, 1, 2, 3), aligned=draw.chance(0.5)))
    if draw.chance(0.3):
        given["position_sensitive"] = True
        channels *= bins[0] * bins[1]
    data = draw.normal((batch, channels, draw.int(2, 9), draw.int(2, 9)))
    return Single(name, [data, rois(draw, draw.int(1, 5), batch, 12)], given)


@recipe("ROIPooling", WIDE)
def roi_pooling(draw: Draw, name: str) -> Single:
    batch = draw.int(1, 2)
    data = draw.normal((batch, draw.int(1, 3), draw.int(2, 9), draw.int(2, 9)))
    given = {"pooled_size": (draw.int(1, 4), draw.int(1, 4)), "spatial_scale": draw.pick(0.5, 1)}
    return Single(name, [data, rois(draw, draw.int(1, 5), batch, 12)], given)


@recipe("_contrib_PSROIPooling")
def psroi(draw: Draw, name: str) -> Single:
    batch, pooled, out = draw.int(1, 2), draw.int(1, 3), draw.int(1, 3)
    group = draw.pick(pooled, pooled, draw.int(1, 3))
    data = draw.normal((batch, out * group * group, draw.int(3, 9), draw.int(3, 9)))
    given = {"spatial_scale": draw.pick(0.5, 1), "output_dim": out, "pooled_size": pooled}
    if group != pooled or draw.chance(0.5):
        given["group_size"] = group
    return Single(name, [data, rois(draw, draw.int(1, 5), batch, 12)], given)


@recipe("_contrib_box_nms", FLOATS)
def box_nms(draw: Draw, name: str) -> Single:
    lead = draw.pick((), (draw.int(1, 3),), (2, 2))
    count, width = draw.int(1, 9), draw.pick(5, 6, 7)
    start = draw.pick(2, 1) if width > 5 else 1
    rows = draw.uniform((*lead, count, width), 0, 1)
    corners = np.sort(draw.uniform((*lead, count, 2, 2), 0, 1), axis=-2)
    rows[..., start : start + 4] = corners.reshape(*lead, count, 4)
    given: dict[str, Any] = {"coord_start": start, "score_index": 0 if start == 1 else 1}
    if start == 2 and draw.chance(0.6):
        rows[..., 0] = np.floor(rows[..., 0] * 3)
        given["id_index"] = 0
        given.update(draw.some(background_id=draw.pick(0, 1), force_suppress=draw.chance(0.5)))
    given.update(draw.some(overlap_thresh=draw.pick(0.1, 0.3, 0.9, 0)))
    given.update(draw.some(valid_thresh=draw.pick(0.3, 0.7, -1)))
    given.update(draw.some(topk=draw.pick(-1, 0, 2, 5)))
    given.update(draw.some(in_format=draw.pick("center", "corner")))
    given.update(draw.some(out_format=draw.pick("center", "corner")))
    return Single(name, [fixed(rows) if draw.chance(0.8) else rows], given)


@recipe("_contrib_box_iou", FLOATS)
def box_iou(draw: Draw, name: str) -> Single:
    a, b = boxes(draw, draw.int(1, 6)), boxes(draw, draw.int(1, 6))
    shapes = draw.pick(((-1, 4), (-1, 4)), ((1, -1, 4), (-1, 4)), ((-1, 1, 4), (1, -1, 4)))
    arrays = [array.reshape(shape) for array, shape in zip((a, b), shapes)]
    return Single(name, arrays, draw.some(format=draw.pick("center", "corner")))


@recipe("_contrib_box_decode", WIDE)
def box_decode(draw: Draw, name: str) -> Single:
    batch, count = draw.int(1, 3), draw.int(1, 8)
    given: dict[str, Any] = draw.some(
        std0=draw.pick(0.1, 2), std1=draw.pick(0.3, -1), std2=draw.pick(0.2, 1), std3=0.4
    )
    given.update(draw.some(clip=draw.pick(0.3, 4)))
    given.update(draw.some(format=draw.pick("center", "corner")))
    return Single(name, [draw.normal((batch, count, 4)), boxes(draw, count)[None]], given)


@recipe("_contrib_MultiBoxPrior")
def prior(draw: Draw, name: str) -> Single:
    given = draw.some(
        sizes=draw.pick((0.5,), (0.3, 0.8), (0.1, 0.2, 0.3)), clip=draw.chance(0.5),
        ratios=draw.pick((1.0, 2.0), (1.0, 2.0, 0.5)),
        steps=draw.pick((0.1, 0.2), (-1.0, -1.0), (0.5, 1.0)),
        offsets=draw.pick((0.3, 0.6), (0.0, 1.0)),
    )  # fmt: skip
    return Single(name, [draw.normal((draw.int(1, 2), 3, draw.int(1, 9), draw.int(1, 9)))], given)


@recipe("_contrib_MultiBoxDetection")
def detection(draw: Draw, name: str) -> Single:
    batch, count, classes = draw.int(1, 2), draw.int(1, 9), draw.int(2, 5)
    scores = draw.uniform((batch, classes, count), 0, 1)
    anchors = np.sort(draw.uniform((count, 2, 2), 0, 1), axis=1).reshape(1, count, 4)
    arrays = [scores / scores.sum(1, keepdims=True), draw.normal((batch, 4 * count)), anchors]
    given = draw.some(threshold=draw.pick(0.3, 0.05), nms_threshold=draw.pick(0.2, 0.7, 0))
    given.update(draw.some(force_suppress=draw.chance(0.6), clip=draw.chance(0.4)))
    given.update(draw.some(nms_topk=draw.pick(3, 1, -1), background_id=0))
    given.update(draw.some(variances=draw.pick((0.2, 0.1, 0.3, 0.1), (1.0, 1.0, 1.0, 1.0))))
    return Single(name, [fixed(a) for a in arrays], given, tolerance=1e-4)


@recipe("_contrib_Proposal _contrib_MultiProposal")
def proposal(draw: Draw, name: str) -> Single:
    batch = 1 if name == "_contrib_Proposal" else draw.int(1, 2)
    height, width = draw.int(2, 5), draw.int(2, 5)
    scales, ratios = draw.pick((1.0, 2.0), (2.0,)), draw.pick((1.0,), (0.5, 1.0, 2.0))
    count = len(scales) * len(ratios)
    order = draw.rng.permutation(batch * 2 * count * height * width).astype(np.float32)
    scores = (order / order.size).reshape(batch, 2 * count, height, width)
    shifts = draw.normal((batch, 4 * count, height, width)) * np.float32(0.2)
    info = np.array([[height * 16, width * 16, draw.pick(1.0, 0.5)]] * batch, np.float32)
    given: dict[str, Any] = {"scales": scales, "ratios": ratios}
    given.update(rpn_pre_nms_top_n=draw.int(4, 30), rpn_post_nms_top_n=draw.int(1, 12))
    given.update(draw.some(threshold=draw.pick(0.3, 0.9), rpn_min_size=draw.pick(4, 20)))
    given.update(draw.some(feature_stride=draw.pick(8, 16), output_score=draw.chance(0.7)))
    given.update(draw.some(iou_loss=draw.chance(0.7)))
    return Single(name, [fixed(a) for a in (scores, shifts, info)], given, tolerance=1e-4)


@recipe("_contrib_DeformableConvolution _contrib_ModulatedDeformableConvolution", WIDE)
def deformable(draw: Draw, name: str) -> Single:
    parts, group = draw.int(1, 2), draw.int(1, 2)
    channels, filters = parts * group * draw.int(1, 3), group * draw.int(1, 3)
    kernel, stride = (draw.int(1, 3), draw.int(1, 3)), (draw.int(1, 2), draw.int(1, 2))
    given: dict[str, Any] = {"kernel": kernel, "num_filter": filters}
    given.update(draw.some(stride=stride, pad=(draw.int(0, 1), draw.int(0, 2))))
    given.update(draw.some(dilate=draw.pick((2, 1), (1, 3), (2, 2)), layout="NCHW"))
    given.update(draw.some(no_bias=draw.chance(0.5)))
    given.update({"num_deformable_group": parts} if parts > 1 else {})
    given.update({"num_group": group} if group > 1 else {})
    if "Modulated" in name:
        given.update(draw.some(im2col_step=draw.pick(1, 2, 64)))
    size = (draw.int(5, 9), draw.int(7, 9))
    pad, dilate = given.get("pad", (0, 0)), given.get("dilate", (1, 1))
    stride = given.get("stride", (1, 1))
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(size, pad, dilate, kernel, stride)
    ]
    taps = parts * kernel[0] * kernel[1]
    arrays = [draw.normal((2, channels, *size)), draw.normal((2, 2 * taps, *out))]
    if "Modulated" in name:
        arrays.append(draw.uniform((2, taps, *out), 0, 1))
    arrays.append(draw.normal((filters, channels // group, *kernel)))
    arrays += [] if given.get("no_bias") else [draw.normal((filters,))]
    return Single(name, arrays, given, tolerance=5e-5)


@recipe("_contrib_BilinearResize2D", WIDE)
def bilinear(draw: Draw, name: str) -> Single:
    data = draw.normal((draw.int(1, 2), draw.int(1, 3), draw.int(1, 8), draw.int(1, 8)))
    mode = draw.pick(
        "size", "size", "scale", "like", "odd_scale", "to_even_down", "to_even_up", "to_odd_down",
        "to_odd_up",
    )  # fmt: skip
    given: dict[str, Any] = draw.some(align_corners=draw.chance(0.5))
    arrays = [data]
    if mode == "size":
        given.update(draw.some(height=draw.int(1, 12), width=draw.int(1, 12), mode="size"))
    elif mode in ("scale", "odd_scale"):
        given.update(scale_height=draw.pick(0.5, 1.5, 2, 2.7), scale_width=draw.pick(0.7, 1, 3))
        given.update({"mode": "odd_scale"} if mode == "odd_scale" else {})
    elif mode == "like":
        arrays.append(draw.normal((1, 2, draw.int(1, 12), draw.int(1, 12))))
        given["mode"] = "like"
    else:
        given["mode"] = mode
    return Single(name, arrays, given)


@recipe("_contrib_AdaptiveAvgPooling2D", WIDE)
def adaptive(draw: Draw, name: str) -> Single:
    data = draw.normal((draw.int(1, 2), draw.int(1, 3), draw.int(1, 9), draw.int(1, 9)))
    size = draw.pick(draw.int(1, 5), (draw.int(1, 5), draw.int(1, 5)), (draw.int(1, 4),), (), None)
    return Single(name, [data], draw.some(output_size=size))


@recipe("GridGenerator BilinearSampler SpatialTransformer", WIDE)
def warp(draw: Draw, name: str) -> Single:
    batch, height, width = draw.int(1, 2), draw.int(2, 8), draw.int(2, 8)
    target = (draw.int(2, 7), draw.int(2, 7))  # for one row or column MXNet divides by zero
    theta = draw.normal((batch, 6)) * np.float32(0.4)
    image = draw.normal((batch, draw.int(1, 3), height, width))
    if name == "BilinearSampler":
        return Single(name, [image, draw.uniform((batch, 2, *target), -1.3, 1.3)], tolerance=1e-4)
    if name == "SpatialTransformer":
        given = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": target}
        return Single(name, [image, theta], given, tolerance=1e-4)
    if draw.chance(0.5):
        return Single(name, [theta], {"transform_type": "affine", "target_shape": target})
    flow = draw.normal((batch, 2, height, width))
    return Single(name, [flow], {"transform_type": "warp"})


@recipe("Correlation")
def correlation(draw: Draw, name: str) -> Single:
    shape = (draw.int(1, 2), draw.int(1, 3), draw.int(5, 9), draw.int(5, 9))
    given = draw.some(kernel_size=draw.pick(1, 3), max_displacement=draw.int(1, 3))
    given.update(draw.some(stride1=draw.int(1, 2), stride2=draw.int(1, 2), pad_size=draw.int(1, 4)))
    given.update(draw.some(is_multiply=draw.chance(0.5)))
    return Single(name, [draw.normal(shape), draw.normal(shape)], given)


def image(draw: Draw, channels: int = 3, last: bool = True) -> np.ndarray:
    batch = draw.pick((), (), (2,))
    size = (draw.int(3, 8), draw.int(3, 8))
    shape = (*batch, *size, channels) if last else (*batch, channels, *size)
    array = draw.rng.integers(0, 256, shape)
    return array.astype(draw.pick("uint8", "float32") if last else "float32")


@recipe("_image_to_tensor", ("float32", "uint8"))
def to_tensor(draw: Draw, name: str) -> Single:
    return Single(name, [fixed(image(draw, draw.pick(1, 3)))])


@recipe("_image_normalize")
def normalize(draw: Draw, name: str) -> Single:
    channels = draw.pick(1, 3)
    given = {  # MXNet's defaults have four numbers and serve no image
        "mean": draw.pick((0.5,), (0.1, 0.2, 0.3)[:channels]),
        "std": draw.pick((2.0,), (1.0, 2.0, 0.5)[:channels]),
    }
    return Single(name, [image(draw, channels, last=False) / np.float32(255)], given)


@recipe("_image_crop")
def image_crop(draw: Draw, name: str) -> Single:
    array = image(draw, draw.pick(1, 3))
    height, width = array.shape[-3:-1]
    x, y = draw.int(0, width - 1), draw.int(0, height - 1)
    given = {"x": x, "y": y, "width": draw.int(1, width - x), "height": draw.int(1, height - y)}
    return Single(name, [fixed(array)], given)


@recipe("_image_resize")
def image_resize(draw: Draw, name: str) -> Single:
    size = draw.pick(draw.int(1, 9), (draw.int(1, 9), draw.int(1, 9)), (draw.int(1, 9),))
    given = draw.some(keep_ratio=draw.chance(0.5), interp=draw.pick(0, 1))
    array = image(draw).astype(np.float32)  # of bytes, the last bit is OpenCV's affair
    return Single(name, [fixed(array)], {"size": size, **given}, tolerance=1e-4)


@recipe("_image_flip_left_right _image_flip_top_bottom")
def image_flip(draw: Draw, name: str) -> Single:
    # MXNet does not copy the middle of an odd number of columns or rows
    height, width = 2 * draw.int(1, 4), 2 * draw.int(1, 4)
    array = draw.rng.integers(0, 256, (height, width, draw.pick(1, 3)))
    return Single(name, [fixed(array, draw.pick("uint8", "float32"))])


@recipe("_contrib_RROIAlign")
def rotated(draw: Draw, name: str) -> Single:
    batch, count = draw.int(1, 2), draw.int(1, 5)
    data = draw.normal((batch, draw.int(1, 4), draw.int(3, 9), draw.int(3, 9)))
    place, size = draw.uniform((count, 2), -2, 12), draw.uniform((count, 2), 0, 9)
    number = draw.integers((count, 1), 0, batch, "float32")
    regions = np.concatenate([number, place, size, draw.uniform((count, 1), -180, 180)], axis=1)
    given = {"pooled_size": (draw.int(1, 3), draw.int(1, 3)), "spatial_scale": draw.pick(0.5, 1)}
    given.update(draw.some(sampling_ratio=draw.pick(-1, 1, 2, 3)))
    return Single(name, [data, fixed(regions)], given, tolerance=2e-4)


@recipe("_contrib_DeformablePSROIPooling")
def deformable_psroi(draw: Draw, name: str) -> Single:
    batch, count, classes = draw.int(1, 2), draw.int(1, 4), draw.int(1, 2)
    group, pooled, out = draw.int(1, 3), draw.int(1, 3), classes * draw.int(1, 2)
    data = draw.normal((batch, out * group * group, draw.int(4, 9), draw.int(4, 9)))
    given: dict[str, Any] = {"spatial_scale": draw.pick(0.5, 1), "output_dim": out}
    given.update(group_size=group, pooled_size=pooled)
    given.update(draw.some(part_size=draw.pick(0, pooled, 2), sample_per_part=draw.int(1, 4)))
    given.update(draw.some(trans_std=draw.pick(0.1, 0.5)))
    arrays = [fixed(data), fixed(rois(draw, count, batch, 10))]
    if draw.chance(0.3):
        given["no_trans"] = True
    else:
        part = given.get("part_size") or pooled
        arrays.append(fixed(draw.normal((count, 2 * classes, part, part))))
    return Single(name, arrays, given, tolerance=2e-4)


@recipe("_contrib_bipartite_matching")
def bipartite(draw: Draw, name: str) -> Single:
    lead, rows, columns = draw.pick((), (2,), (2, 2)), draw.int(1, 6), draw.int(1, 6)
    shape = (*lead, rows, columns)
    order = draw.rng.permutation(int(np.prod(shape))).reshape(shape)
    given = {"threshold": draw.pick(-1.0, 5.0, 12.5), **draw.some(is_ascend=draw.chance(0.5))}
    given.update(draw.some(topk=draw.pick(-1, 0, 1, 3)))
    return Single(name, [fixed(order, draw.pick(*WIDE))], given)


@recipe("_contrib_box_encode", WIDE)
def box_encode(draw: Draw, name: str) -> Single:
    batch, count, refs = draw.int(1, 3), draw.int(1, 8), draw.int(1, 5)
    samples = draw.pick(*[draw.integers((batch, count), -1, 2, "float32")] * 3,
                        draw.uniform((batch, count), 0, 1))  # fmt: skip
    matches = draw.integers((batch, count), 0, refs, "float32")
    anchors, labels = (
        np.sort(draw.uniform((batch, n, 2, 2), 0, 1), axis=2).reshape(batch, n, 4) + (0, 0, 1, 1)
        for n in (count, refs)
    )
    means, stds = draw.uniform((4,), -0.2, 0.2), draw.uniform((4,), 0.1, 1)
    arrays = [samples, matches, anchors.astype(np.float32), labels.astype(np.float32), means, stds]
    return Single(name, [fixed(array) for array in arrays], tolerance=1e-4)


@recipe("_contrib_MultiBoxTarget")
def multibox_target(draw: Draw, name: str) -> Single:
    batch, count, labels = draw.int(1, 3), draw.int(1, 12), draw.int(1, 4)
    anchors = np.sort(draw.uniform((1, count, 2, 2), 0, 1), axis=2).reshape(1, count, 4)
    corners = np.sort(draw.uniform((batch, labels, 2, 2), 0, 1), axis=2).reshape(batch, labels, 4)
    kinds = np.floor(draw.uniform((batch, labels, 1), 0, 3))
    label = np.concatenate([kinds, corners], axis=2).astype(np.float32)
    for row in label:
        row[draw.int(0, labels) :] = -1
    given = draw.some(overlap_threshold=draw.pick(0.2, 0.7, -1), ignore_label=-7)
    given.update(draw.some(negative_mining_ratio=draw.pick(1, 3, 0.5), negative_mining_thresh=0.8))
    given.update(draw.some(minimum_negative_samples=draw.pick(1, 3)))
    given.update(draw.some(variances=draw.pick((0.2, 0.1, 0.4, 0.3), (1.0, 0.5, 1.0, 2.0))))
    scores = draw.normal((batch, draw.int(2, 4), count))
    return Single(name, [fixed(a) for a in (anchors, label, scores)], given, tolerance=1e-4)


@recipe("_contrib_fft _contrib_ifft")
def spectrum(draw: Draw, name: str) -> Single:
    shape = draw.pick(draw.shape(2, 2), draw.shape(4, 4))
    return Single(name, [draw.normal((*shape[:-1], 2 * shape[-1]))])


def _matrices(draw: Draw) -> tuple[tuple[int, ...], int]:
    return draw.pick((), (2,), (2, 3)), draw.int(1, 5)


@recipe(
    "_linalg_potrf _linalg_potri _linalg_inverse _linalg_det _linalg_slogdet _linalg_sumlogdiag "
    "_linalg_syevd _linalg_gelqf _linalg_syrk",
    WIDE,
)
def one_matrix(draw: Draw, name: str) -> Single:
    lead, n = _matrices(draw)
    square = draw.normal((*lead, n, n))
    positive = square @ square.swapaxes(-1, -2) + np.float32(n) * np.eye(n, dtype=np.float32)
    given: dict[str, Any] = {}
    array = positive
    if name == "_linalg_potri":
        array = np.tril(square, -1) + 2 * np.eye(n, dtype=np.float32)
    elif name in ("_linalg_syrk", "_linalg_gelqf"):
        array = draw.normal((*lead, n, n + draw.int(0, 3)))
        if name == "_linalg_syrk":
            given = draw.some(transpose=draw.chance(0.5), alpha=draw.pick(2, -0.5))
    if name in ("_linalg_potri", "_linalg_potrf") and draw.chance(0.3):
        given["lower"] = draw.chance(0.5)
    return Single(name, [array], given, tolerance=2e-3)


@recipe("_linalg_trsm _linalg_trmm", WIDE)
def triangular(draw: Draw, name: str) -> Single:
    lead, n = _matrices(draw)
    given = draw.some(transpose=draw.chance(0.5), rightside=draw.chance(0.5))
    given.update(draw.some(alpha=draw.pick(0.5, -2)))
    given.update(draw.some(lower=draw.chance(0.5)))
    other = draw.int(1, 5)
    shape = (other, n) if given.get("rightside") else (n, other)
    square = draw.normal((*lead, n, n)) + 4 * np.eye(n, dtype=np.float32)
    return Single(name, [square, draw.normal((*lead, *shape))], given, tolerance=2e-3)


@recipe("_linalg_extractdiag _linalg_makediag _linalg_extracttrian _linalg_maketrian", WIDE)
def parts(draw: Draw, name: str) -> Single:
    lead, n = _matrices(draw)
    offset = draw.int(1 - n, n - 1) if "diag" in name else draw.int(-2, 2)
    given: dict[str, Any] = draw.some(offset=offset)
    if "trian" in name:
        given.update(draw.some(lower=draw.chance(0.5)))
    shape = (*lead, n, n)
    if name == "_linalg_makediag":
        shape = (*lead, n)
    elif name == "_linalg_maketrian":
        shape = (*lead, n * (n + 1) // 2)
    return Single(name, [draw.normal(shape)], given)


_PARAMETERS = {
    "uniform": {"low": -1.5, "high": 2.5},
    "normal": {"loc": 1, "scale": 2},
    "exponential": {"lam": 2},
    "gamma": {"alpha": 2, "beta": 0.5},
    "poisson": {"lam": 3},
    "negative_binomial": {"k": 3, "p": 0.4},
    "generalized_negative_binomial": {"mu": 2, "alpha": 0.3},
}
_RANDOM = [
    op.name
    for op in all_ops()
    for kind in _PARAMETERS
    if op.name in (f"_random_{kind}", f"_random_{kind}_like", f"_sample_{kind}")
]


@recipe(" ".join(_RANDOM))
def random(draw: Draw, name: str) -> Single:
    kind = name.removeprefix("_random_").removeprefix("_sample_").removesuffix("_like")
    given = _PARAMETERS[kind]
    if name.startswith("_sample"):
        shape = draw.shape(1, 2)
        arrays = [np.full(shape, value, np.float32) for value in given.values()]
        if kind == "negative_binomial":
            arrays[0] = arrays[0].round()
        case = Single(name, arrays, draw.some(shape=draw.shape(1, 2)))
        case.attrs.update(draw.some(dtype=draw.pick(*FLOATS)))
    elif name.endswith("_like"):
        case = Single(name, [values(draw, draw.shape())], draw.some(**given))
    else:
        case = Single(name, [], {"shape": draw.shape(), **draw.some(**given)})
        case.attrs.update(draw.some(dtype=draw.pick(None, *FLOATS)))
    case.has_values = False
    return case


@recipe("_random_randint")
def randint(draw: Draw, name: str) -> Single:
    given = {"low": draw.int(-9, 0), "high": draw.int(1, 99), "shape": draw.shape()}
    given.update(draw.some(dtype=draw.pick("int32", "int64", None)))
    return Single(name, [], given, has_values=False)


@recipe("_sample_multinomial")
def multinomial(draw: Draw, name: str) -> Single:
    odds = draw.uniform(draw.shape(1, 2), 0.1, 1)
    given = draw.some(shape=draw.pick((), *[draw.shape(1, 2)] * 2), get_prob=draw.chance(0.5))
    given.update(draw.some(dtype=draw.pick("int32", "float32", "uint8", "float64")))
    return Single(name, [odds / odds.sum(-1, keepdims=True)], given, has_values=False)


@recipe("_shuffle", ("float32", "float64", "int32"))
def shuffle(draw: Draw, name: str) -> Single:
    return Single(name, [values(draw, draw.shape(1, 3))], has_values=False)


@recipe(" ".join(op.name for op in all_ops() if op.name.startswith("_random_pdf_")))
def density(draw: Draw, name: str) -> Single:
    kind = name.removeprefix("_random_pdf_")
    lead, count = draw.shape(1, 2), draw.int(1, 5)
    given = draw.some(is_log=draw.chance(0.5))
    if kind == "dirichlet":
        alpha = draw.uniform((*lead, 3), 0.5, 3)
        sample = draw.uniform((*lead, count, 3), 0.1, 1)
        arrays = [sample / sample.sum(-1, keepdims=True), alpha]
        return Single(name, arrays, given, tolerance=1e-3, half_tolerance=5e-2)
    centre = _PARAMETERS[kind]
    params = [np.float32(v) * draw.uniform(lead, 0.8, 1.2) for v in centre.values()]
    sample = draw.uniform((*lead, count), 0.1, 2)
    if kind in ("poisson", "negative_binomial", "generalized_negative_binomial"):
        sample = np.round(sample * 2)
    return Single(name, [sample, *params], given, tolerance=1e-3, half_tolerance=5e-2)
