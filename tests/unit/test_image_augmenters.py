"""mx.image's augmenters and ImageIter."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, image, nd, recordio
from hybridjit.errors import MXNetError

# Results of MXNet 1.9.1's CreateAugmenter for these arguments.
USUAL = [
    '["resizeaug", {"size": 5, "interp": 2}]',
    '["randomcropaug", {"size": [4, 4], "interp": 2}]',
    '["horizontalflipaug", {"p": 0.5}]',
    '["castaug", {"type": "float32"}]',
    [
        "colorjitteraug",
        [
            '["brightnessjitteraug", {"brightness": 0.1}]',
            '["contrastjitteraug", {"contrast": 0.1}]',
            '["saturationjitteraug", {"saturation": 0.1}]',
        ],
    ],
    '["huejitteraug", {"hue": 0.1}]',
    '["lightingaug", {"alphastd": 0.1, "eigval": [55.46, 4.794, 1.148], "eigvec": '
    "[[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.814], [-0.5836, -0.6948, 0.4203]]}]",
    '["randomgrayaug", {"p": 0.1}]',
    '["colornormalizeaug", {"mean": [123.68000030517578, 116.27999877929688, 103.52999877929688], '
    '"std": [58.39500045776367, 57.119998931884766, 57.375]}]',
]


def usual():
    changes = dict.fromkeys(("brightness", "contrast", "saturation", "hue", "pca_noise"), 0.1)
    return image.CreateAugmenter(
        (3, 4, 4),
        5,
        rand_crop=True,
        rand_mirror=True,
        mean=True,
        std=True,
        rand_gray=0.1,
        **changes,
    )


def test_the_usual_ones_are_mxnets():
    assert [each.dumps() for each in usual()] == USUAL
    sized = image.CreateAugmenter((3, 4, 4), rand_crop=True, rand_resize=True)[0]
    name, keywords = json.loads(sized.dumps())
    assert name == "randomsizedcropaug"
    assert keywords == {"size": [4, 4], "area": 0.08, "ratio": [3 / 4, 4 / 3], "interp": 2}


def test_pictures_come_out_in_the_size_and_follow_the_seeds():
    x = nd.array(np.random.default_rng(0).integers(0, 256, (9, 7, 3)), dtype="uint8")
    before = x.asnumpy()

    def made():
        for seed in (random.seed, np.random.seed, mx.random.seed):
            seed(5)
        found = []
        for _ in range(5):
            picture = x
            for augmenter in usual():
                picture = augmenter(picture)
            found.append(picture.asnumpy())
        return found

    first, second = made(), made()
    assert all(a.shape == (4, 4, 3) and a.dtype == np.float32 for a in first)
    assert all((a == b).all() for a, b in zip(first, second)) and (first[0] != first[1]).any()
    assert (x.asnumpy() == before).all()


FLOATS = np.random.default_rng(1).uniform(0, 255, (4, 5, 3)).astype(np.float32)
GREY = np.array([0.299, 0.587, 0.114])


def test_colour_augmenters_follow_their_definitions():
    random.seed(0)
    x = nd.array(FLOATS)
    factor = image.BrightnessJitterAug(0.5)(x).asnumpy() / FLOATS
    assert np.ptp(factor) < 1e-5 and 0.5 <= factor[0, 0, 0] <= 1.5
    contrast = image.ContrastJitterAug(0.5)(x).asnumpy()
    assert (contrast @ GREY).mean() == pytest.approx((FLOATS @ GREY).mean(), rel=1e-5)
    saturation = image.SaturationJitterAug(0.5)(x).asnumpy()
    np.testing.assert_allclose(saturation @ GREY, FLOATS @ GREY, rtol=1e-4)
    grey = image.RandomGrayAug(1)(x).asnumpy()
    np.testing.assert_allclose(
        grey, (FLOATS @ [0.21, 0.72, 0.07])[..., None].repeat(3, 2), rtol=1e-5
    )
    assert (image.RandomGrayAug(0)(x).asnumpy() == FLOATS).all()
    assert (image.HorizontalFlipAug(1)(x).asnumpy() == FLOATS[:, ::-1]).all()
    np.testing.assert_allclose(image.HueJitterAug(0)(x).asnumpy(), FLOATS, atol=1.0)
    light = image.LightingAug(0.1, np.ones(3), np.eye(3))(x).asnumpy() - FLOATS
    assert np.ptp(light, axis=(0, 1)).max() < 1e-3 and np.abs(light).max() > 0
    normal = image.ColorNormalizeAug(nd.array([1, 2, 3]), nd.array([2, 2, 2]))(x).asnumpy()
    np.testing.assert_allclose(normal, (FLOATS - [1, 2, 3]) / 2, rtol=1e-6)
    assert (x.asnumpy() == FLOATS).all()
    assert image.ForceResizeAug((7, 6))(x).shape == (6, 7, 3)
    with pytest.raises(AssertionError):
        image.CreateAugmenter((3, 4, 4), mean=[1, 2, 3])
    with pytest.raises(AssertionError):
        image.CreateAugmenter((3, 4, 4), rand_resize=True)


class TestImageIter:
    def test_of_no_pictures(self):
        it = image.ImageIter(2, (3, 4, 4), imglist=[], path_root="", shuffle=True)
        assert list(it) == []

    def files(self, tmp_path, count=4):
        pytest.importorskip("PIL")
        for i in range(count):
            record = recordio.pack_img((0, 0, 0, 0), np.full((6, 5, 3), i, np.uint8), 3, ".png")
            (tmp_path / f"{i}.png").write_bytes(recordio.unpack(record)[1])
        text = "".join(f"{i}\t{i}.0\t{i}.png\n" for i in range(count))
        (tmp_path / "all.lst").write_text(text)
        return {"path_imglist": str(tmp_path / "all.lst"), "path_root": str(tmp_path)}

    @pytest.mark.parametrize(
        ("handle", "wanted"),
        [
            ("pad", [([0, 1, 2], 0), ([3, 0, 1], 2)] * 2),
            ("discard", [([0, 1, 2], 0)] * 2),
            ("roll_over", [([0, 1, 2], 0), ([3, 0, 1], 2)]),
        ],
    )
    def test_last_batches_are_handled_as_requested(self, tmp_path, handle, wanted):
        it = image.ImageIter(3, (3, 4, 4), last_batch_handle=handle, **self.files(tmp_path))
        seen = []
        for _ in range(2):
            seen += [(b.label[0].asnumpy().tolist(), b.pad, b.data[0]) for b in it]
            it.reset()
        assert [(label, pad) for label, pad, _ in seen] == wanted
        for label, _, data in seen:
            assert data.shape == (3, 3, 4, 4)
            assert data.asnumpy()[:, 0, 0, 0].tolist() == label

    def test_records_lists_and_shuffling(self, tmp_path):
        self.files(tmp_path)
        paths = str(tmp_path / "x.idx"), str(tmp_path / "x.rec")
        file = recordio.MXIndexedRecordIO(*paths, "w")
        for i in range(4):
            file.write_idx(
                i, recordio.pack((0, [i, 7], 0, 0), (tmp_path / f"{i}.png").read_bytes())
            )
        file.close()
        it = image.ImageIter(4, (3, 4, 4), 2, path_imgrec=paths[1], shuffle=True)
        assert sorted(it.next().label[0].asnumpy().tolist()) == [[i, 7] for i in range(4)]
        given = [[5, "1.png"], [6, "2.png"]]
        it = image.ImageIter(2, (3, 4, 4), imglist=given, path_root=str(tmp_path))
        assert it.next().label[0].asnumpy().tolist() == [5, 6]

    def test_image_iter_raises_for_wrong_arguments(self, tmp_path):
        with pytest.raises(AssertionError, match="needs"):
            image.ImageIter(1, (3, 4, 4))
        with pytest.raises(ValueError, match="data_shape"):
            image.ImageIter(1, (4, 4), imglist=[[1, "x.png"]])
        with pytest.raises(MXNetError, match="nowhere"):
            image.ImageIter(1, (3, 4, 4), path_imglist=str(tmp_path / "nowhere"))

    @pytest.mark.parametrize(
        "line",
        [b"x\ty", b"nan\t0\ty", b"9" * 5000 + b"\t0\ty", b"0\tx\ty", b"0\t\xff\ty", b"0\t\ty"],
        ids=range(6),
    )
    def test_malformed_lines_of_a_list_raise(self, tmp_path, line):
        (tmp_path / "bad.lst").write_bytes(b"0\t1\tx.png\n" + line + b"\n")
        with pytest.raises(
            MXNetError, match=r"bad.lst: line 2 must be an index, labels and a path"
        ):
            image.ImageIter(1, (3, 4, 4), path_imglist=str(tmp_path / "bad.lst"))
        if line.startswith(b"0\t"):
            with pytest.raises(
                MXNetError, match=r"bad.lst: line 2 must be an index, labels and a path"
            ):
                gluon.data.vision.ImageListDataset(str(tmp_path), "bad.lst")

    def test_a_label_beyond_its_type(self, tmp_path):
        (tmp_path / "bad.lst").write_text(f"0\t{2**70}\tx.png\n")
        with pytest.raises(MXNetError, match=r"bad.lst: line 1"):
            image.ImageIter(1, (3, 4, 4), path_imglist=str(tmp_path / "bad.lst"), dtype="int64")

    def test_a_list_names_a_record_that_is_not_there(self, tmp_path):
        (tmp_path / "all.lst").write_text("0\t1\tx.png\n")
        given = {"path_imglist": str(tmp_path / "all.lst")}
        file = recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "w")
        file.close()
        it = image.ImageIter(1, (3, 4, 4), path_imgrec=str(tmp_path / "x.rec"), **given)
        with pytest.raises(MXNetError, match=r"x.rec has no record 0"):
            it.next()
