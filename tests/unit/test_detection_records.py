"""mx.io.ImageDetRecordIter: labels as MXNet gives them, and boxes that follow their pictures.

Decoding is left out: a record's bytes are the pixels, behind their height and width.
"""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import recordio
from hybridjit.errors import MXNetError
from hybridjit.io import box_augment, image_det_record_iter


@pytest.fixture(autouse=True)
def raw_pixels(monkeypatch):
    def decoded(data, colour):
        height, width = np.frombuffer(data[:4], np.uint16)
        return np.frombuffer(data[4:], np.uint8).reshape(height, width, 3)

    monkeypatch.setattr(image_det_record_iter, "decoded", decoded)


def label(objects: int) -> list[float]:
    return [2, 5, *(value for i in range(objects) for value in (i, 0.25, 0.5, 0.5, 0.75))]


def records(path, labels=None, size=(8, 16)) -> str:
    """Pictures that are white where the box is, and black elsewhere."""
    pixels = np.zeros((*size, 3), np.uint8)
    pixels[size[0] // 2 : size[0] * 3 // 4, size[1] // 4 : size[1] // 2] = 255
    data = np.array(size, np.uint16).tobytes() + pixels.tobytes()
    file = recordio.MXRecordIO(str(path / "d.rec"), "w")
    for i, values in enumerate(labels or [label(1), label(2), label(1)]):
        file.write(recordio.pack(recordio.IRHeader(0, values, i, 0), data))
    file.close()
    return str(path / "d.rec")


def test_labels_are_padded_and_headed(tmp_path):
    path = records(tmp_path)
    it = mx.io.ImageDetRecordIter(path, (3, 8, 16), 2)
    assert it.provide_data == [("data", (2, 3, 8, 16))]
    assert it.provide_label == [("softmax_label", (2, 16))]
    for _ in range(2):
        first, last = list(it)
        wanted = [3, 8, 16, 7, 2, 5, 0, 0.25, 0.5, 0.5, 0.75]
        assert first.label[0][0].asnumpy().tolist() == [*wanted, *[-1] * 5]
        assert first.label[0][1].asnumpy()[3:12].tolist() == [12, *label(2)[:8]]
        assert first.data[0][0].asnumpy()[:, 4, 4].tolist() == [255] * 3
        assert (first.pad, last.pad) == (0, 1) and last.index.tolist() == [2, 0]
        it.reset()
    longer = mx.io.ImageDetRecordIter(path, (3, 8, 16), 1, label_pad_width=20, label_pad_value=7)
    assert longer.next().label[0].asnumpy()[0, -13:].tolist() == [7] * 13
    kept = mx.io.ImageDetRecordIter(path, (3, 8, 16), 2, round_batch=False)
    assert list(kept)[1].index.tolist() == [2, 2]


def test_pictures_are_fitted_and_normalized(tmp_path):
    path = records(tmp_path)
    one = {"path_imgrec": path, "data_shape": (3, 8, 8), "batch_size": 1}
    (fitted,) = mx.io.ImageDetRecordIter(**one, resize_mode="fit", mean_g=55, std_g=2).next().data
    assert fitted.asnumpy()[0, 1, 2, 2:4].tolist() == [100, 100]
    assert fitted.asnumpy()[0, 1, 3, 0] == -27.5
    assert (fitted.asnumpy()[0, 1, 4:] == -27.5).all()  # black is normalized too, as in MXNet
    assert not fitted.asnumpy()[0, [0, 2], 4:].any()
    shrunk = mx.io.ImageDetRecordIter(path, (3, 99, 99), 1, resize_mode="shrink").next()
    assert shrunk.label[0].asnumpy()[0, :3].tolist() == [3, 8, 16]
    resized = mx.io.ImageDetRecordIter(path, (3, 99, 99), 1, resize=16, resize_mode="shrink")
    assert resized.next().label[0].asnumpy()[0, :3].tolist() == [3, 16, 32]


CHANGES = {
    "mirrored": {"rand_mirror_prob": 1},
    "padded": {"rand_pad_prob": 1, "max_pad_scale": 4, "fill_value": 0},
    "cropped": {"rand_crop_prob": 1, "min_crop_scales": 0.5, "min_crop_object_coverages": (1,)},
    "by one of two rules": {
        **{"rand_crop_prob": 1, "num_crop_sampler": 2, "max_crop_trials": [0, 50]},
        **{"min_crop_scales": (0.1, 0.6), "min_crop_object_coverages": (1,)},
        **{"crop_emit_mode": "overlap", "emit_overlap_thresh": 0.9},
    },
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_boxes_follow_their_pictures(tmp_path, changes):
    path = records(tmp_path, [label(1)] * 8, size=(64, 128))
    it = mx.io.ImageDetRecordIter(path, (3, 80, 80), 8, inter_method=0, **changes)
    (batch,) = list(it)
    changed = 0
    for pixels, values in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy()):
        rows, columns = np.nonzero(pixels[0])
        edges = [
            columns.min() / 80,
            rows.min() / 80,
            (columns.max() + 1) / 80,
            (rows.max() + 1) / 80,
        ]
        np.testing.assert_allclose(values[7:11], edges, atol=0.04)
        changed += not np.allclose(values[7:11], label(1)[3:7], atol=1e-3)
    assert changed >= 6


def test_a_crop_keeps_who_is_in_it():
    objects = np.array([[0, 0.1, 0.1, 0.3, 0.3], [1, 0.4, 0.4, 0.8, 0.8]], np.float32)
    half = (0.0, 0.0, 0.5, 0.5)
    (left,) = box_augment.Kept().of(objects, half)
    np.testing.assert_allclose(left, [0, 0.2, 0.2, 0.6, 0.6], rtol=1e-6)
    both = box_augment.Kept(False, 0.05).of(objects, half)
    np.testing.assert_allclose(both[1], [1, 0.8, 0.8, 1, 1], rtol=1e-6)
    never = box_augment.CropRule(20, (0.1, 0.2), (1, 1), (0.9, 1), (0, 1), (0, 1))
    assert never.drawn(objects, 1.0, np.random.default_rng(0)) is None


def test_recoloured_changes_hue_saturation_and_value():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    assert np.abs(box_augment.recoloured(pixels, 0, 0, 0).astype(int) - pixels).max() <= 1
    red = np.array([[[200, 20, 20]]], np.uint8)
    assert box_augment.recoloured(red, 60, 0, 0).tolist() == [[[20, 200, 20]]]
    assert box_augment.recoloured(red, -60, 0, 0).tolist() == [[[20, 20, 200]]]
    assert box_augment.recoloured(red, 0, 255, 0).tolist() == [[[255, 255, 255]]]
    assert box_augment.recoloured(red, 0, 0, -255).tolist() == [[[110, 110, 110]]]


def test_colours_change_where_they_may(tmp_path):
    path = records(tmp_path, [label(1)] * 4)
    still = mx.io.ImageDetRecordIter(path, (3, 8, 16), 4).next().data[0].asnumpy()
    darker = {"random_illumination_prob": 1, "max_random_illumination": 32}
    for options in (darker, {"random_contrast_prob": 1, "max_random_contrast": 0.5}):
        found = mx.io.ImageDetRecordIter(path, (3, 8, 16), 4, **options).next().data[0].asnumpy()
        assert (found[:, :, 4, 4] < still[:, :, 4, 4]).any()


def test_iterator_raises_for_wrong_options(tmp_path):
    path = records(tmp_path)
    for options, words in (
        ({"unheard": 1}, "not have the argument unheard"),
        ({"path_imglist": "a.lst"}, "path_imglist=a.lst is not supported"),
        (
            {"resize_mode": "stretch"},
            "resize_mode must be one of force, shrink, fit, got 'stretch'",
        ),
        ({"label_width": 7}, "label_width is 7, but labels have 7 to 12"),
        ({"label_pad_width": 9}, "label_pad_width is 9, but a label has 12 values"),
        ({"num_crop_sampler": 3, "min_crop_scales": (0, 1)}, "2 values for 3 samplers"),
        ({"num_parts": 4, "part_index": 4}, "part_index must be 0 to num_parts - 1, got 4 of 4"),
        ({"data_shape": (2, 4, 4)}, "channels must be 1 or 3, got 2"),
    ):
        with pytest.raises(MXNetError, match=words):
            mx.io.ImageDetRecordIter(
                **{"path_imgrec": path, "data_shape": (3, 8, 8), "batch_size": 1, **options}
            )
    not_widths = [[2, float(text), 1, 1, 1] for text in ("nan", "inf", "-inf")]
    not_widths += [[float(text), 5, 1, 1, 1] for text in ("nan", "inf", "-inf")]
    for wrong in ([1.0, 5.0], [2.0, 4.0, 0.0], [2, 5, 1, 1, 1], [9, 5, 0, 0], *not_widths):
        with pytest.raises(MXNetError, match="the label of record 0"):
            mx.io.ImageDetRecordIter(records(tmp_path, [wrong]), (3, 8, 8), 1)
