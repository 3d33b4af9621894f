"""mx.image's augmenters of boxes and ImageDetIter: MXNet's results for the same seeds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from hybridjit import MXNetError, image, io, nd, recordio
from hybridjit.image import (
    CreateDetAugmenter,
    CreateMultiRandCropAugmenter,
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
    ForceResizeAug,
    ImageDetIter,
)

# MXNet 1.9.1 on the cases below: for each augmenter its dumps, and for each seed the picture's
# shape, mean, the boxes and the next random number; for each iterator its batches.
RECORDED = json.loads((Path(__file__).parent.parent / "fixtures" / "detection.json").read_text())
PICTURE = np.random.RandomState(0).randint(0, 255, (40, 50, 3)).astype(np.uint8)

AUGMENTERS = {
    "flip": lambda: DetHorizontalFlipAug(0.5),
    "crop": lambda: DetRandomCropAug(),
    "crop most": lambda: DetRandomCropAug(0.5, (0.5, 2.0), (0.1, 0.9), 0.4, 20),
    "crop one size": lambda: DetRandomCropAug(0.9, 1, 0.4),
    "crop wide": lambda: DetRandomCropAug(0.0, (1.5, 3), (0.3, 0.9)),
    "pad": lambda: DetRandomPadAug(),
    "pad much": lambda: DetRandomPadAug((0.5, 2), (1.5, 4), 10, (1, 2, 3)),
    "pad one size": lambda: DetRandomPadAug(1.2, 2.5),
    "several crops": lambda: CreateMultiRandCropAugmenter(
        [0.1, 0.5, 0.9], (0.75, 1.33), [(0.1, 1.0), (0.2, 1.0), (0.3, 0.9)], 0.3, 50, 0.2
    ),
    "one of two": lambda: DetRandomSelectAug([DetHorizontalFlipAug(1), DetRandomPadAug()], 0.3),
    "none": lambda: DetRandomSelectAug([]),
    "borrowed": lambda: DetBorrowAug(ForceResizeAug((20, 30), 1)),
}
CHAINS: dict[str, dict[str, object]] = {
    "plain": {},
    "geometry": {"rand_crop": 0.5, "rand_pad": 0.5, "rand_mirror": True},
    "ssd": {
        "resize": 45,
        "rand_crop": 1,
        "min_object_covered": [0.3, 0.5, 0.9],
        "area_range": (0.3, 3.0),
        "mean": True,
        "std": True,
        "inter_method": 1,
    },
    "colours": {
        "brightness": 0.1,
        "contrast": 0.2,
        "saturation": 0.1,
        "hue": 0.1,
        "pca_noise": 0.1,
        "rand_gray": 0.3,
        "mean": np.array([1, 2, 3.0]),
        "inter_method": 1,
    },
}
ITERATORS: dict[str, dict[str, object]] = {
    "pad": {},
    "shuffled": {"shuffle": True},
    "discard": {"last_batch_handle": "discard"},
    "augmented": {"rand_crop": 0.8, "rand_pad": 0.5, "rand_mirror": True, "mean": True},
}


def boxes(count: int, seed: int, width: int = 5) -> np.ndarray:
    rng = np.random.RandomState(seed)
    rows = []
    for _ in range(count):
        x, y = rng.uniform(0, 0.7, 2)
        w, h = rng.uniform(0.05, 0.6, 2)
        corners = [x, y, min(1, x + w), min(1, y + h)]
        rows.append([rng.randint(5), *corners, *rng.uniform(0, 1, width - 5)])
    return np.array(rows, "float32")


def seeded(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)


def described(picture, label) -> list[object]:
    pixels = picture.asnumpy().astype("float64")
    label = label.asnumpy() if hasattr(label, "asnumpy") else label
    return [*pixels.shape, round(pixels.mean(), 3), np.round(label.astype("float64"), 5).tolist()]


def assert_same(found: list, wanted: list) -> None:
    *shape, mean, label = found[:5]
    assert shape == wanted[:3]
    assert mean == pytest.approx(wanted[3], abs=2e-3)
    np.testing.assert_allclose(label, wanted[4], atol=2e-5)
    assert found[5:] == wanted[5:]


def augmented(name: str) -> list[object]:
    augmenter = AUGMENTERS[name]()
    found = [augmenter.dumps()]
    for seed in range(12):
        seeded(seed)
        label = boxes(1 + seed % 4, seed + 100, 5 + seed % 2)
        made = augmenter(nd.array(PICTURE, dtype="uint8"), label)
        found.append([*described(*made), random.random()])
    return found


def chained(name: str) -> list[object]:
    augmenters = CreateDetAugmenter((3, 32, 24), **CHAINS[name])
    found: list[object] = [[augmenter.dumps() for augmenter in augmenters]]
    for seed in range(4):
        seeded(seed)
        picture, label = nd.array(PICTURE, dtype="uint8"), boxes(3, seed)
        for augmenter in augmenters:
            picture, label = augmenter(picture, label)
        found.append(described(picture, label))
    return found


class RawIter(ImageDetIter):
    """Reads pictures that are height, width and pixels, for which no decoder is needed."""

    def imdecode(self, s):
        return nd.array(np.frombuffer(s[2:], np.uint8).reshape(s[0], s[1], 3), dtype="uint8")


def record_file(folder, count: int = 7, width: int = 5, header: int = 2) -> dict[str, str]:
    paths = {"path_imgidx": str(folder / "a.idx"), "path_imgrec": str(folder / "a.rec")}
    file = recordio.MXIndexedRecordIO(*paths.values(), "w")
    for i in range(count):
        h, w = 20 + i, 30 - i
        pixels = (np.arange(h * w * 3) * (i + 1)) % 251
        data = bytes([h, w]) + pixels.astype(np.uint8).tobytes()
        label = [header, width, *[7] * (header - 2), *boxes(1 + i % 3, i, width).ravel().tolist()]
        file.write_idx(i, recordio.pack(recordio.IRHeader(0, label, i, 0), data))
    file.close()
    return paths


def batches(name: str, folder) -> list[object]:
    seeded(1)
    given = {**record_file(folder), "inter_method": 1, **ITERATORS[name]}
    it = RawIter(3, (3, 16, 12), **given)
    found: list[object] = []
    for _ in range(2):
        for batch in it:
            data, label = (
                batch.data[0].asnumpy(),
                np.round(batch.label[0].asnumpy().astype("float64"), 5),
            )
            means = data.astype("float64").mean(axis=(1, 2, 3))
            found.append([batch.pad, means.round(3).tolist(), label.tolist()])
        it.reset()
    return found


@pytest.mark.parametrize("name", AUGMENTERS)
def test_augmenters_are_mxnets(name):
    dumps, *found = augmented(name)
    wanted_dumps, *wanted = RECORDED["augmenters"][name]
    assert dumps == wanted_dumps
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_mxnets(name):
    dumps, *found = chained(name)
    wanted_dumps, *wanted = RECORDED["chains"][name]
    assert dumps == wanted_dumps
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("name", ITERATORS)
def test_batches_are_mxnets(name, tmp_path):
    found, wanted = batches(name, tmp_path), RECORDED["iterators"][name]
    for (pad, means, labels), other in zip(found, wanted, strict=True):
        assert pad == other[0]
        np.testing.assert_allclose(means, other[1], atol=2e-3)
        np.testing.assert_allclose(labels, other[2], atol=2e-5)


class TestAugmenters:
    def test_augmenters_do_not_change_their_operands(self):
        label = boxes(3, 1)
        before = label.copy()
        for augmenter in (DetHorizontalFlipAug(1), DetRandomCropAug(), DetRandomPadAug()):
            seeded(1)
            augmenter(nd.array(PICTURE, dtype="uint8"), label)
            assert (label == before).all()

    def test_one_number_fills_all_channels(self):
        seeded(0)
        padded, _ = DetRandomPadAug(pad_val=9)(nd.array(PICTURE, dtype="uint8"), boxes(1, 1))
        assert padded.shape != PICTURE.shape
        edges = padded.asnumpy()[[0, -1]][:, [0, -1]].reshape(-1, 3)
        assert [9, 9, 9] in edges.tolist()

    def test_boxes_without_an_area(self):
        label = np.array([[1, 0.2, 0.2, 0.2, 0.6], [2, 0.3, 0.3, 0.7, 0.7]], "float32")
        seeded(3)
        _, kept = DetRandomCropAug(0.0, 1.0, (0.6, 0.9))(nd.array(PICTURE, dtype="uint8"), label)
        assert kept[:, 0].tolist() == [2]

    @pytest.mark.parametrize(
        "kind, given",
        [
            (DetRandomCropAug, {"area_range": (0.5, 0.2)}),
            (DetRandomCropAug, {"aspect_ratio_range": (0, 1)}),
            (DetRandomPadAug, {"area_range": (0.5, 1.0)}),
            (DetRandomPadAug, {"aspect_ratio_range": (2, 1)}),
        ],
    )
    def test_ranges_that_cannot_be(self, kind, given):
        with pytest.warns(UserWarning, match=f"Skip {kind.__name__} due to invalid"):
            augmenter = kind(**given)
        picture, label = nd.array(PICTURE, dtype="uint8"), boxes(2, 1)
        assert augmenter(picture, label) == (picture, label)

    def test_augmenters_raise_for_wrong_arguments(self):
        with pytest.raises(TypeError, match="Borrowing from invalid Augmenter"):
            DetBorrowAug(DetHorizontalFlipAug(1))
        with pytest.raises(ValueError, match="Allow DetAugmenter in list only"):
            DetRandomSelectAug([image.CastAug()])
        with pytest.raises(NotImplementedError, match="DetAugmenter does not define __call__"):
            DetAugmenter()(PICTURE, boxes(1, 1))
        with pytest.raises(AssertionError, match=r"the same length, got \[2, 1, 3, 1, 1\]"):
            CreateMultiRandCropAugmenter([0.1, 0.2], area_range=[(0.1, 1)] * 3)
        with pytest.raises(AssertionError, match="a range must be two numbers, got 'x'"):
            DetRandomCropAug(area_range="x")
        with pytest.raises(AssertionError, match="mean must be True or an array"):
            CreateDetAugmenter((3, 4, 4), mean=[1, 2, 3])


class TestIterator:
    def test_iterator_infers_label_shapes(self, tmp_path):
        it = RawIter(4, (3, 16, 12), **record_file(tmp_path, width=6, header=4))
        assert it.label_shape == (3, 6)
        assert it.provide_label == [("label", (4, 3, 6))]
        assert it.provide_data == [("data", (4, 3, 16, 12))]

    def test_roll_over_starts_the_next_epoch_with_the_remainder(self, tmp_path):
        paths = record_file(tmp_path)
        it = RawIter(3, (3, 16, 12), last_batch_handle="roll_over", **paths)
        first = [batch.label[0].asnumpy()[:, 0, 1] for batch in it]
        it.reset()
        found = list(it)
        second = [batch.label[0].asnumpy()[:, 0, 1] for batch in found]
        assert [batch.pad for batch in found] == [2, 0]  # 2 of the first batch are this epoch's
        starts = [boxes(1, i)[0, 1] for i in range(7)]
        np.testing.assert_allclose(np.concatenate(first), starts[:6], rtol=1e-6)
        np.testing.assert_allclose(np.concatenate(second), [starts[6], *starts[:5]], rtol=1e-6)
        it.hard_reset()
        assert it.next().label[0].asnumpy()[0, 0, 1] == pytest.approx(starts[0])

    def test_reshape_changes_data_and_label_shapes(self, tmp_path):
        it = RawIter(2, (3, 16, 12), aug_list=[], **record_file(tmp_path, count=2))
        it.reshape((3, 8, 8), (5, 5))
        it.auglist = CreateDetAugmenter((3, 8, 8))
        batch = it.next()
        assert batch.data[0].shape == (2, 3, 8, 8) and batch.label[0].shape == (2, 5, 5)
        assert (batch.label[0].asnumpy()[:, 2:] == -1).all()
        for shapes, text in (
            ((None, (1, 5)), "reduce label count from 5 to 1"),
            ((None, (9, 6)), "object width inconsistent: 5 vs 6"),
            ((None, (9,)), "should have length 2"),
            (((8, 8), None), "data_shape must be"),
        ):
            with pytest.raises(ValueError, match=text):
                it.reshape(*shapes)

    def test_two_take_the_same_shape(self, tmp_path, caplog):
        caplog.set_level("INFO")
        for name in "abc":
            (tmp_path / name).mkdir()
        many = RawIter(2, (3, 8, 8), **record_file(tmp_path / "a", count=3))
        few = RawIter(2, (3, 8, 8), **record_file(tmp_path / "b", count=1))
        assert few.label_shape == (1, 5)
        assert many.sync_label_shape(few, verbose=True) is few
        assert many.label_shape == few.label_shape == (3, 5)
        assert few.provide_label == [("label", (2, 3, 5))]
        assert "Resized label_shape to (3, 5)." in caplog.text
        wide = RawIter(2, (3, 8, 8), **record_file(tmp_path / "c", width=6))
        with pytest.raises(AssertionError, match="object width mismatch"):
            many.sync_label_shape(wide)

    @pytest.mark.parametrize(
        "label, text",
        [
            ([2, 5, 0], r"Label shape is invalid: \(3,\)"),
            ([2, 5, 0, 0.1, 0.1, 0.2, 0.2, 3], "inconsistent with a header of 2"),
            ([2, 0, 0, 0.1, 0.1, 0.2, 0.2], r"annotation width 0 \(at least 5\)"),
            ([-1, 5, 0, 0.1, 0.1, 0.2, 0.2], "a header of -1 numbers"),
            ([np.nan, 5, 0, 0.1, 0.1, 0.2, 0.2], "Label shape is invalid"),
            ([1e30, 5, 0, 0.1, 0.1, 0.2, 0.2], "inconsistent"),
            ([7, 5, 0, 0.1, 0.1, 0.2, 0.2], "no valid label"),
            ([2, 5, 0, 0.3, 0.1, 0.2, 0.2], "no valid label"),
        ],
    )
    def test_labels_that_are_wrong(self, label, text):
        with pytest.raises(RuntimeError, match=text):
            ImageDetIter(1, (3, 8, 8), imglist=[[label, __file__]])

    def test_a_label_without_a_class_is_left_out(self, tmp_path):
        class Unknown(DetAugmenter):
            def __call__(self, src, label):
                rows = label.copy()
                rows[:, 0] = np.where(label.shape[0] == 2, -1, rows[:, 0])
                return src, rows

        augmenters = [Unknown(), *CreateDetAugmenter((3, 8, 8))]
        it = RawIter(2, (3, 8, 8), aug_list=augmenters, **record_file(tmp_path, count=3))
        batch = it.next()
        found = batch.label[0].asnumpy()[:, 0, 1]
        np.testing.assert_allclose(found, [boxes(1, 0)[0, 1], boxes(3, 2)[0, 1]], rtol=1e-6)
        with pytest.raises(StopIteration):
            it.next()

    def test_pictures_of_another_size(self, tmp_path):
        it = RawIter(1, (3, 8, 8), aug_list=[], **record_file(tmp_path, count=1))
        with pytest.raises(
            MXNetError, match=r"\(3, 20, 30\) after augmentation, but data_shape is"
        ):
            it.next()

    def test_draw_next_draws_boxes(self, tmp_path):
        given = record_file(tmp_path, count=2)
        it = RawIter(1, (3, 16, 12), mean=True, std=True, inter_method=1, **given)
        first, second = it.draw_next((255, 0, 7), 1, mean=True, std=True)
        plain = RawIter(1, (3, 16, 12), inter_method=1, **given).next().data[0].asnumpy()[0]
        row = boxes(1, 0)[0]
        x1, y1, x2, y2 = (int(part * size) for part, size in zip(row[1:], (12, 16, 12, 16)))
        assert first.dtype == np.uint8 and first.shape == second.shape == (16, 12, 3)
        assert first[y1, x1].tolist() == [7, 0, 255] == first[y1, (x1 + x2) // 2].tolist()
        untouched = plain.transpose(1, 2, 0)[:, :, ::-1]
        inside = np.s_[y1 + 1 : y2, x1 + 1 : x2]
        assert np.abs(first[inside] - untouched[inside]).max() <= 1
        with pytest.raises(MXNetError, match="does not show windows"):
            it.draw_next(waitKey=0)


def stored(count: int, folder) -> str:
    """A record file of pictures as :class:`RawIter` reads them, with 1, 2, 3, 1, 2 ... boxes."""
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    file = recordio.MXIndexedRecordIO(*paths, "w")
    for i in range(count):
        h, w = 20 + 3 * i, 30 - 2 * i
        y, x, c = np.meshgrid(np.arange(h), np.arange(w), np.arange(3), indexing="ij")
        pixels = (y * 5 + x * 3 + c * 40 + i * 17) % 251
        label: list[float] = [2, 5]
        for k in range(1 + i % 3):
            label += [k, 0.1 + 0.05 * k, 0.2, 0.5 + 0.1 * k, 0.9 - 0.1 * k]
        data = bytes([h, w]) + pixels.astype(np.uint8).tobytes()
        file.write_idx(i, recordio.pack(recordio.IRHeader(0, label, i, 0), data))
    file.close()
    return paths[1]


FIRST = [0, 0.1, 0.2, 0.5, 0.9]
MIRRORED = [0, 0.5, 0.2, 0.9, 0.9]


class TestRecordIter:
    @pytest.fixture(autouse=True)
    def _raw(self, monkeypatch):
        def decode(data: bytes, is_colour: bool) -> np.ndarray:
            return np.frombuffer(data[2:], np.uint8).reshape(data[0], data[1], 3)

        monkeypatch.setattr("hybridjit.io.image_det_record_iter.decoded", decode)

    @pytest.mark.parametrize(
        "shape, given, size, means, first",
        [
            ((16, 12), {}, (16, 12), [129.8, 145.146, 152.25, 150.024, 141.269], FIRST),
            (
                (16, 12),
                {"resize_mode": "shrink"},
                (8, 12),
                [64.858, 81.628, 114.252, 131.292, 129.42],
                FIRST,
            ),
            (
                (40, 36),
                {"resize_mode": "fit"},
                (24, 36),
                [77.85, 105.112, 136.813, 137.567, 105.797],
                FIRST,
            ),
            (
                (40, 36),
                {"resize_mode": "shrink"},
                (20, 30),
                [54.119, 64.89, 71.399, 72.587, 69.02],
                FIRST,
            ),
            (
                (16, 12),
                {"resize": 40, "resize_mode": "shrink"},
                (8, 12),
                [64.858, 90.79, 114.175, 131.201, 129.299],
                FIRST,
            ),
            (
                (16, 12),
                {"rand_mirror_prob": 1.0, "inter_method": 0},
                (16, 12),
                [130.193, 144.655, 151.898, 151.227, 141.177],
                MIRRORED,
            ),
            (
                (40, 36),
                {"resize_mode": "shrink", "mean_r": 10, "std_r": 2},
                (20, 30),
                [46.132, 54.837, 59.248, 58.569, 54.442],
                FIRST,
            ),
            (
                (16, 12),
                {"mean_r": 10, "mean_g": 20, "mean_b": 30, "std_r": 2, "std_g": 3, "std_b": 4,
                 "scale": 0.5},
                (16, 12),
                [18.635, 21.75, 23.704, 24.183, 23.07],
                FIRST,
            ),
        ],
    )  # fmt: skip
    def test_batches_are_mxnets(self, tmp_path, shape, given, size, means, first):
        it = io.ImageDetRecordIter(stored(5, tmp_path), (3, *shape), 2, **given)
        assert it.provide_label == [("softmax_label", (2, 21))]
        found = list(it)
        assert [batch.pad for batch in found] == [0, 0, 1]
        pictures = np.concatenate([batch.data[0].asnumpy() for batch in found])
        labels = np.concatenate([batch.label[0].asnumpy() for batch in found])
        seen = pictures.astype("float64").mean(axis=(1, 2, 3))
        np.testing.assert_allclose(seen, [*means, means[0]], atol=2e-3)
        np.testing.assert_allclose(labels[0, :11], [3, *size, 7, 2, 5, *first], rtol=1e-6)
        assert (labels[0, 11:] == -1).all()
        assert labels[:, 3].tolist() == [7, 12, 17, 7, 12, 7]
        it.reset()
        assert (next(it).label[0].asnumpy() == labels[:2]).all()
