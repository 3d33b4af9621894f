"""Samples of the vision operators: boxes, regions, grids, deformable convolution, images."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import UNKNOWN, TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from sampling import add, bad

I32 = np.dtype("int32")


def corners(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Boxes (..., 4) whose second corner lies beyond the first."""
    boxes = np.random.default_rng(len(shape)).random((*shape, 4), np.float32) * np.float32(scale)
    boxes[..., 2:] += boxes[..., :2]
    return boxes


def detections(*shape: int) -> np.ndarray:
    """Rows of id, score and box; scores repeat, as sorting must keep their order."""
    random = np.random.default_rng(7)
    ids = random.integers(-1, 3, (*shape, 1)).astype(np.float32)
    scores = random.integers(0, 10, (*shape, 1)).astype(np.float32) / 10
    return np.concatenate([ids, scores, corners(*shape)], -1)


def boxes() -> None:
    nms = "_contrib_box_nms"
    rows = detections(2, 9)
    add(nms, rows)
    add(nms, rows, id_index=0, overlap_thresh=0.3)
    add(nms, rows, id_index=0, background_id=0, valid_thresh=0.25, topk=4)
    add(nms, rows, id_index=0, force_suppress=True, in_format="center")
    add(nms, rows + np.float32(0.4), id_index=0, overlap_thresh=0.3)
    add(nms, rows, out_format="center")
    add(nms, rows[0], topk=0)
    many = detections(1, 400)
    many[..., 2:] *= 4
    add(nms, many, id_index=0, overlap_thresh=0.2)
    add(nms, many, overlap_thresh=0.2, topk=60)
    add(nms, np.ones((3, 5), np.float32), coord_start=0, score_index=4)
    back = "_box_nms_back"
    add(back, (2, 9, 6), rows, id_index=0, overlap_thresh=0.3)
    add(back, (1, 400, 6), many, overlap_thresh=0.2, topk=60)
    add(back, (9, 6), rows[0], topk=0)
    bad(nms, (6,), error=ShapeError, says="(..., num_box, box_width)")
    bad(nms, (3, 5), error=AttributeValueError, says="coord_start 2 is out of range for rows of 5")
    bad(nms, (3, 6), error=AttributeValueError, says="id_index 6", id_index=6)
    bad(nms, TensorType((3, 6), I32), error=DTypeError, says="int32")
    for name in ("corner", "center"):
        add("_contrib_box_iou", corners(2, 3), corners(5), format=name)
        add("_contrib_box_decode", (2, 3, 4), corners(1, 3), format=name, std0=0.1, clip=0.5)
    add("_contrib_box_decode", (2, 3, 4), corners(1, 3))
    bad("_contrib_box_iou", (2, 3), (5, 4), error=ShapeError, says="lhs must be")
    bad("_contrib_box_decode", (2, 3, 4), (2, 3, 4), error=ShapeError, says="(1,3,4)")


def anchors() -> None:
    prior, detect = "_contrib_MultiBoxPrior", "_contrib_MultiBoxDetection"
    add(prior, (1, 2, 3, 4))
    add(prior, (2, 1, 2, 3), sizes=(0.5, 0.25), ratios=(1, 2, 0.5))
    add(prior, (1, 1, 2, 2), sizes=(0.9,), clip=True, steps=(0.4, 0.3), offsets=(0.2, 0.7))
    bad(prior, (2, 3, 4), error=ShapeError, says="4D: batch-channel-y-x")
    bad(prior, (1, 2, 3, 4), error=AttributeValueError, says="at least one value", sizes=())
    scores = np.random.default_rng(3).random((2, 3, 7), np.float32)
    for options in ({}, {"nms_topk": 2}, {"force_suppress": True}, {"threshold": 0.8}):
        add(detect, scores, (2, 28), corners(1, 7, scale=0.5), **options)
    add(detect, scores, (2, 28), corners(1, 7, scale=0.5), nms_threshold=-1, clip=False)
    add("_detections", detections(2, 9), force_suppress=True, nms_topk=5)
    bad(detect, (2, 3, 7), (2, 27), (1, 7, 4), error=ShapeError, says="loc_pred should be (2,28)")
    bad(detect, (2, 3, 7), (2, 28), (1, 6, 4), error=ShapeError, says="anchor should be (1,7,4)")


def regions() -> None:
    rois = np.concatenate([[[0], [1], [-1], [1]], corners(4, scale=6) - 1], 1).astype(np.float32)
    align, pooling = "_contrib_ROIAlign", "ROIPooling"
    for ratio in (-1, 2):
        for aligned in (False, True):
            add(align, (2, 3, 7, 5), rois, pooled_size=(2, 3), spatial_scale=0.5,
                sample_ratio=ratio, aligned=aligned)  # fmt: skip
    add(align, (2, 12, 7, 5), rois, pooled_size=(2, 3), spatial_scale=1, position_sensitive=True)
    add(align, (1, 2, 4, 4), rois[:, 1:], pooled_size=(1, 1), spatial_scale=1)
    add(pooling, (2, 3, 7, 5), rois, pooled_size=(2, 3), spatial_scale=0.5)
    add(pooling, (2, 3, 7, 5), rois, pooled_size=(4, 4), spatial_scale=1)
    bins = {"pooled_size": (3, 2), "spatial_scale": 0.5}
    add("_roi_pooling_last", (2, 7, 5, 17), rois, **bins)
    add("_roi_align_last", (2, 7, 5, 17), rois, sample_ratio=-1, aligned=False, **bins)
    shape = (2, 12, 7, 5)
    for is_split, channels in ((False, 12), (True, 2)):
        add("_roi_align_back", (4, channels, 3, 2), rois, shape=shape, position_sensitive=is_split,
            **bins)  # fmt: skip
    add("_roi_pooling_back", (4, 3, 3, 2), (2, 3, 7, 5), rois, **bins)
    for name in (align, pooling):
        bad(name, (2, 7, 5), (4, 5), error=ShapeError, says="4D", pooled_size=(2, 2),
            spatial_scale=1)  # fmt: skip
        bad(name, (2, 3, 7, 5), (4, 6), error=ShapeError, says="rois should be rows",
            pooled_size=(2, 2), spatial_scale=1)  # fmt: skip
        bad(name, (2, 3, 7, 5), (4, 5), error=AttributeValueError, says="two positive integers",
            pooled_size=(2,), spatial_scale=1)  # fmt: skip


def proposals() -> None:
    random = np.random.default_rng(5)
    small = {"scales": (2, 4), "ratios": (0.5, 1), "feature_stride": 8, "rpn_min_size": 4}
    scores = random.random((2, 8, 3, 4), np.float32)
    moves = random.normal(0, 0.3, (2, 16, 3, 4)).astype(np.float32)
    info = np.array([[24, 32, 1], [20, 25, 0.5]], np.float32)
    for name in ("_contrib_Proposal", "_contrib_MultiProposal"):
        add(name, scores, moves, info, rpn_post_nms_top_n=5, **small)
        add(name, scores, moves, info, output_score=True, rpn_pre_nms_top_n=20, threshold=0.5,
            rpn_post_nms_top_n=30, **small)  # fmt: skip
        add(name, scores[:1], moves[:1], info[:1], iou_loss=True, rpn_post_nms_top_n=4, **small)
        bad(name, (2, 7, 3, 4), (2, 16, 3, 4), (2, 3), error=ShapeError, says="(batch, 8, h, w)",
            **small)  # fmt: skip
        bad(name, (2, 8, 3, 4), (2, 16, 3, 4), (1, 3), error=ShapeError,
            says="im_info should be (2,3)", **small)  # fmt: skip
    rows = np.concatenate([scores.reshape(2, -1, 1)[:, :9], corners(2, 9, scale=6)], 2)
    add("_proposals", rows.astype(np.float32), before=8, after=11, threshold=0.2)
    add("_proposal_anchors", height=2, width=3, feature_stride=8, scales=(2, 4), ratios=(1,))
    rois = np.concatenate([[[0], [1], [-1], [1]], corners(4, scale=6)], 1).astype(np.float32)
    pooling = "_contrib_PSROIPooling"
    add(pooling, (2, 12, 7, 5), rois, spatial_scale=1, output_dim=3, pooled_size=2)
    add(pooling, (2, 8, 7, 5), rois, spatial_scale=0.5, output_dim=2, pooled_size=3, group_size=2)
    add("_position_sensitive_back", (4, 2, 3, 3), rois, shape=(2, 8, 7, 5), spatial_scale=0.5,
        output_dim=2, pooled_size=3, group_size=2)  # fmt: skip
    bad(pooling, (2, 12, 7, 5), (4, 5), error=ShapeError, says="27 channels, but has 12",
        spatial_scale=1, output_dim=3, pooled_size=3)  # fmt: skip


def turned_regions() -> None:
    rotated, moved = "_contrib_RROIAlign", "_contrib_DeformablePSROIPooling"
    turned = np.array([[0, 3, 3, 4, 2, 30], [1, -1, 2, 0.5, 9, -100]], np.float32)
    add(rotated, (2, 3, 6, 5), turned, pooled_size=(2, 3), spatial_scale=1)
    add(rotated, (2, 3, 6, 5), turned, pooled_size=(1, 2), spatial_scale=0.5, sampling_ratio=2)
    bad(rotated, (2, 3, 6, 5), (4, 5), error=ShapeError, says="rows of 6 values",
        pooled_size=(2, 2), spatial_scale=1)  # fmt: skip
    rois = np.concatenate([[[0], [1]], corners(2, scale=6)], 1).astype(np.float32)
    bins = {"output_dim": 2, "group_size": 2, "pooled_size": 3}
    add(moved, (2, 8, 7, 5), rois, spatial_scale=1, no_trans=True, **bins)
    add(moved, (2, 8, 7, 5), rois, (2, 4, 3, 3), spatial_scale=0.5, trans_std=0.5,
        sample_per_part=3, **bins)  # fmt: skip
    add(moved, (2, 8, 7, 5), rois, (2, 2, 2, 2), spatial_scale=1, part_size=2, **bins)
    back, head = "_deformable_pooling_back", (2, 2, 3, 3)
    add(back, head, (2, 8, 7, 5), rois, spatial_scale=1, no_trans=True, **bins)
    add(back, head, (2, 8, 7, 5), rois, (2, 4, 3, 3), spatial_scale=0.5, trans_std=0.5,
        sample_per_part=3, **bins)  # fmt: skip
    bad(moved, (2, 7, 7, 5), (2, 5), error=ShapeError, says="need 8 channels", spatial_scale=1,
        no_trans=True, **bins)  # fmt: skip
    bad(moved, (2, 8, 7, 5), (2, 5), (2, 2, 2, 2), error=ShapeError, says="trans must be (2,",
        spatial_scale=1, **bins)  # fmt: skip
    bad(moved, (2, 8, 7, 5), (2, 5), error=AttributeValueError, says="between 0 and 1",
        spatial_scale=1.5, no_trans=True, **bins)  # fmt: skip


def training_targets() -> None:
    match, encode, target = (
        f"_contrib_{n}" for n in ("bipartite_matching", "box_encode", "MultiBoxTarget")
    )
    scores = np.random.default_rng(2).permutation(24).reshape(2, 3, 4).astype(np.float32)
    add(match, scores, threshold=5)
    add(match, scores[0], threshold=20, is_ascend=True, topk=1)
    bad(match, (3,), error=ShapeError, says="dim >= 2", threshold=1)
    chosen = np.array([[1, 0, -1], [0.6, 0.5, 1]], np.float32)
    places = np.array([[1, 0, 0], [0, 1, 1]], np.float32)
    add(encode, chosen, places, corners(1, 3), corners(2, 2), (4,), np.float32([1, 2, 3, 4]))
    add(encode, chosen, places, corners(2, 3), corners(2, 2), (4,), np.float32([1, 2, 3, 4]))
    bad(encode, (2, 3), (2, 2), (1, 3, 4), (2, 2, 4), (4,), (4,), error=ShapeError,
        says="samples and matches")  # fmt: skip
    labels = np.concatenate([[[[1], [0]], [[2], [-1]]], corners(2, 2, scale=0.5)], 2)
    labels, found = labels.astype(np.float32), corners(1, 9, scale=0.5)
    add(target, found, labels, (2, 3, 9))
    add(target, found, labels, (2, 3, 9), overlap_threshold=0.2, negative_mining_ratio=1,
        negative_mining_thresh=1, variances=(1, 1, 1, 1), ignore_label=-7)  # fmt: skip
    bad(target, (1, 9, 4), (2, 2, 5), (2, 3, 8), error=ShapeError, says="class predictions")
    bad(target, (2, 9, 4), (2, 2, 5), (2, 3, 9), error=ShapeError, says="anchors must be (1, N, 4)")


def spectra() -> None:
    for name in ("_contrib_fft", "_contrib_ifft"):
        add(name, (3, 8))
        add(name, (2, 2, 3, 6), dtype="float64")
        bad(name, (2, 3, 4), error=ShapeError, says="2 or 4 axes")
    bad("_contrib_ifft", (2, 3), error=ShapeError, says="its size is 3")


def deformable() -> None:
    plain = "_contrib_DeformableConvolution"
    modulated = "_contrib_ModulatedDeformableConvolution"
    for name in (plain, modulated):
        add(name, (1, 2, 6, 7), kernel=(3, 3), num_filter=4, pad=(1, 1))
        add(name, (2, 4, 8, 8), kernel=(3, 2), num_filter=6, stride=(2, 1), dilate=(1, 2),
            num_group=2, num_deformable_group=2, no_bias=True)  # fmt: skip
        fields = [UNKNOWN] * (2 if name == plain else 3)
        bad(name, (1, 4, 6), *fields, error=ShapeError, says="needs a 2D kernel", kernel=(3,),
            num_filter=4, no_bias=True)  # fmt: skip
        bad(name, (1, 3, 6, 6), *fields, error=ShapeError, says="2 does not divide 3",
            kernel=(3, 3), num_filter=4, num_deformable_group=2, no_bias=True)  # fmt: skip
    bad(plain, (1, 2, 6, 6), (1, 17, 4, 4), (4, 2, 3, 3), error=ShapeError, says="offset: expected",
        kernel=(3, 3), num_filter=4, no_bias=True)  # fmt: skip


def grids() -> None:
    add("GridGenerator", (2, 6), transform_type="affine", target_shape=(3, 4))
    add("GridGenerator", (2, 2, 3, 4), transform_type="warp")
    add("BilinearSampler", (2, 3, 5, 4), (2, 2, 3, 6))
    add("_bilinear_sampler_back", (2, 3, 3, 6), (2, 3, 5, 4), (2, 2, 3, 6))
    add("_sample_last", (2, 5, 4, 17), (2, 2, 3, 6))
    places = np.random.default_rng(4).uniform(-1.5, 6, (2, 2, 3, 6)).astype(np.float32)
    for is_held in (False, True):
        add("_sample_cells_last", (2, 5, 4, 17), places, is_held=is_held, is_masked=False)
        add("_back_from_sample_cells", (2, 3, 6, 2), (2, 5, 4, 2), places, (2, 3, 6),
            is_held=is_held, is_masked=True)  # fmt: skip
    add("_sample_cells_last", (2, 5, 4, 3), places, (2, 3, 6), is_held=True, is_masked=True)
    taps = {"kernel": (2, 3), "stride": (), "dilate": (1, 2), "pad": (1, 0), "size": (2, 4)}
    add("_tap_grid", **taps, dtype_="float32")
    given = '{"sizes": "(0.5, 0.2)", "clip": "True"}'
    add("_of_shape", op="_contrib_MultiBoxPrior", sizes=(1, 2, 3, 4), dtype_="float32", given=given)
    add("_of_shape", op="shape_array", sizes=(5, 2), dtype_="float64", given="{}")
    add("_channel_numbers", numbers=(0.5, 2.0, 4.0), channels=3, dtype_="float64")
    add("_channel_numbers", numbers=(0.5,), channels=3, dtype_="float32")
    transformer = {"transform_type": "affine", "sampler_type": "bilinear"}
    add("SpatialTransformer", (2, 3, 5, 4), target_shape=(3, 4), **transformer)
    bad("GridGenerator", (2, 5), error=ShapeError, says="(batch, 6)", transform_type="affine",
        target_shape=(3, 4))  # fmt: skip
    bad("GridGenerator", (2, 6), error=AttributeValueError, says="target_shape",
        transform_type="affine")  # fmt: skip
    bad("BilinearSampler", (2, 3, 5, 4), (2, 3, 3, 6), error=ShapeError, says="(batch, 2, h, w)")
    bad("SpatialTransformer", (2, 3, 5), (2, 6), error=ShapeError, says="4D",
        target_shape=(3, 4), **transformer)  # fmt: skip
    add("Correlation", (1, 2, 6, 7), (1, 2, 6, 7), pad_size=1)
    add("Correlation", (2, 3, 7, 8), (2, 3, 7, 8), kernel_size=3, max_displacement=2, stride1=2,
        stride2=2, pad_size=3, is_multiply=False)  # fmt: skip
    add("_back_from_correlation", (1, 9, 6, 7), (1, 2, 6, 7), (1, 2, 6, 7), pad_size=1)
    bad("Correlation", (1, 2, 6, 7), (1, 2, 6, 7), error=AttributeValueError, says="must be odd",
        kernel_size=2)  # fmt: skip
    bad("Correlation", (1, 2, 6, 7), (1, 2, 7, 7), error=ShapeError, says="of equal shapes")


def images() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    add("_image_to_tensor", picture)
    add("_image_to_tensor", (2, 4, 5, 1))
    add("_image_normalize", (3, 4, 5), mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 3.0))
    add("_image_normalize", (2, 1, 4, 5), mean=(0.1,), std=(2.0,))
    add("_image_crop", picture, x=1, y=2, width=4, height=3)
    add("_image_resize", picture, size=(4, 8))
    add("_image_resize", picture, size=(3,), keep_ratio=True)
    add("_image_resize", (2, 5, 7, 3), size=(9, 4), interp=0)
    bad("_image_to_tensor", (4, 5), error=ShapeError, says="an image must have 3 axes")
    for flip in ("_image_flip_left_right", "_image_flip_top_bottom"):
        add(flip, (3, 5, 3))
        bad(flip, (1, 3, 5, 3), error=ShapeError, says="(height, width, channels)")
    bad("_image_normalize", (2, 4, 5), error=ShapeError, says="1 or 3 channels")
    bad("_image_crop", (5, 7, 3), error=ShapeError, says="is not inside the image of 5 x 7", x=5,
        y=0, width=3, height=2)  # fmt: skip
    bad("_image_resize", (5, 7, 3), error=AttributeValueError, says="got 9", size=(2, 2), interp=9)


def colours() -> None:
    pixels = np.random.default_rng(2).uniform(0, 255, (2, 5, 4, 3))
    jitter = {"brightness": 0.2, "contrast": 0.3, "saturation": 0.4, "hue": 0.1}
    for picture in (pixels[0].astype(np.float32), pixels.astype(np.uint8), pixels[..., :1]):
        for name in ("brightness", "contrast", "saturation", "hue"):
            add(f"_image_random_{name}", picture, min_factor=0.7, max_factor=1.3)
            # between two equal bounds there is nothing to draw
            add(f"_image_random_{name}", picture, min_factor=0.7, max_factor=0.7)
        add("_image_random_color_jitter", picture, **jitter)
        add("_image_random_lighting", picture)
        add("_image_adjust_lighting", picture, alpha=(0.1, -0.2, 0.05))
        add("_image_random_flip_left_right", picture)
        add("_image_random_flip_top_bottom", picture)
    bad("_image_adjust_lighting", (4, 5, 3), error=AttributeValueError, says="3 components",
        alpha=(1, 2))  # fmt: skip
    factors = {"min_factor": -1, "max_factor": 1}
    bad("_image_random_hue", (4, 5, 3), error=AttributeValueError, says="at least 0", **factors)
    bad("_image_random_lighting", (4, 5, 2), error=ShapeError, says="3 channels or 1")


def declare() -> None:
    """List them all."""
    boxes()
    anchors()
    regions()
    proposals()
    turned_regions()
    training_targets()
    spectra()
    deformable()
    grids()
    images()
    colours()
