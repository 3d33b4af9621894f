"""mx.io's iterators over files."""

from __future__ import annotations

import colorsys
import gzip
import struct

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import recordio
from hybridjit.errors import MXNetError
from hybridjit.io.augmenting import hls, rgb


def write(path, text):
    path.write_text(text)
    return str(path)


class TestCSV:
    def test_batches_labels_and_padding(self, tmp_path):
        data = write(
            tmp_path / "d.csv", "".join(f"{i},{i + 1},{i + 2},{i + 3}\n" for i in range(3))
        )
        label = write(tmp_path / "l.csv", "7\n8\n9\n")
        it = mx.io.CSVIter(data_csv=data, data_shape=(2, 2), label_csv=label, batch_size=2)
        for _ in range(2):
            first, last = list(it)
            assert first.data[0].asnumpy().tolist() == [[[0, 1], [2, 3]], [[1, 2], [3, 4]]]
            it.reset()
            next(it)
            assert it.getdata().shape == (2, 2, 2) and it.getlabel().asnumpy().tolist() == [7, 8]
            assert first.label[0].asnumpy().tolist() == [7, 8] and first.pad == 0
            assert last.label[0].asnumpy().tolist() == [9, 7] and last.pad == 1
            it.reset()
        assert it.provide_data[0].shape == (2, 2, 2) and it.provide_label[0].shape == (2,)

    def test_a_module_learns_from_the_labels(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(40, 3))
        np.savetxt(tmp_path / "d.csv", rows, delimiter=",")
        np.savetxt(tmp_path / "l.csv", rows[:, 0] > 0)
        files = {"data_csv": f"{tmp_path}/d.csv", "label_csv": f"{tmp_path}/l.csv"}
        it = mx.io.CSVIter(data_shape=(3,), batch_size=8, **files)
        line = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
        module = mx.mod.Module(mx.sym.SoftmaxOutput(line, name="softmax"))
        module.fit(it, num_epoch=20, optimizer_params={"learning_rate": 0.5})
        assert module.score(it, "acc")[0][1] > 0.9

    def test_without_labels(self, tmp_path):
        it = mx.io.CSVIter(
            data_csv=write(tmp_path / "d.csv", "1\n2\n"), data_shape=(1,), batch_size=1
        )
        assert [batch.label[0].asnumpy().tolist() for batch in it] == [[0], [0]]

    @pytest.mark.parametrize("text", ["1,2\n", "1\nx\n", "", "1\n2\n3\n"])
    def test_csv_files_that_do_not_fit_raise(self, tmp_path, text):
        path, label = write(tmp_path / "d.csv", text), write(tmp_path / "l.csv", "1\n2\n")
        with pytest.raises(MXNetError, match="csv"):
            mx.io.CSVIter(data_csv=path, data_shape=(1,), label_csv=label)
        with pytest.raises(MXNetError, match="nowhere"):
            mx.io.CSVIter(data_csv=str(tmp_path / "nowhere"), data_shape=(1,))


class TestLibSVM:
    def test_libsvm_rows_become_csr_batches(self, tmp_path):
        path = write(tmp_path / "d", "1 0:0.5 2:1.5\n-2\n3 3:4 1:2\n")
        it = mx.io.LibSVMIter(data_libsvm=path, data_shape=(4,), batch_size=3)
        (batch,) = list(it)
        assert batch.data[0].asnumpy().tolist() == [[0.5, 0, 1.5, 0], [0] * 4, [0, 2, 0, 4]]
        assert batch.label[0].asnumpy().tolist() == [1, -2, 3]

    def test_batches_are_csr(self, tmp_path):
        path = write(tmp_path / "d", "1 0:0.5 999999:1.5\n-2\n3 3:4 1:2\n")
        labels = write(tmp_path / "l", "0 0:1 1:2\n0 1:5\n0 0:3\n")
        it = mx.io.LibSVMIter(path, (1000000,), labels, (2,), batch_size=2)
        first, second = list(it)
        assert [x.stype for x in (*first.data, *first.label)] == ["csr", "csr"]
        assert first.data[0].indices.asnumpy().tolist() == [0, 999999]
        assert second.data[0].indices.asnumpy().tolist() == [1, 3, 0, 999999]
        assert second.data[0].indptr.asnumpy().tolist() == [0, 2, 4] and second.pad == 1
        assert second.label[0].asnumpy().tolist() == [[3, 0], [1, 2]]
        second.data[0].check_format()
        with pytest.raises(MXNetError, match="rows of a csr array have one axis"):
            mx.io.LibSVMIter(path, (2, 500000), batch_size=2)

    @pytest.mark.parametrize("line", ["1 4:1", "1 -1:1", "1 a:1", "x", "1 1", "1 1:2:3"])
    def test_damaged_libsvm_lines_raise(self, tmp_path, line):
        with pytest.raises(MXNetError, match="line 2"):
            mx.io.LibSVMIter(write(tmp_path / "d", f"0 0:1\n{line}\n"), (4,), batch_size=1)


def test_names_are_mxnets(tmp_path):
    csv, svm = write(tmp_path / "d.csv", "1\n"), write(tmp_path / "d", "1 0:1\n")
    _, images, labels = TestMNIST().files(tmp_path)
    for kind, given in (
        (mx.io.CSVIter, {"data_csv": csv, "data_shape": (1,), "batch_size": 1}),
        (mx.io.LibSVMIter, {"data_libsvm": svm, "data_shape": (1,), "batch_size": 1}),
        (mx.io.MNISTIter, {"image": images, "label": labels, "batch_size": 1}),
    ):
        it = kind(**given)
        assert it.provide_data[0].name == "data" and it.provide_label[0].name == "softmax_label"
        it = kind(**given, data_name="x", label_name="y")
        assert it.provide_data[0].name == "x" and it.provide_label[0].name == "y"


class TestMNIST:
    def files(self, tmp_path, packed=False):
        pictures = np.arange(5 * 3 * 2, dtype=np.uint8).reshape(5, 3, 2)
        texts = {
            "images": struct.pack(">4I", 0x803, 5, 3, 2) + pictures.tobytes(),
            "labels": struct.pack(">2I", 0x801, 5) + bytes(range(5)),
        }
        paths = []
        for name, data in texts.items():
            path = tmp_path / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(data) if packed else data)
            paths.append(str(path))
        return (pictures, *paths)

    @pytest.mark.parametrize("packed", [False, True])
    def test_mnist_iter_drops_an_incomplete_batch(self, tmp_path, packed):
        pictures, images, labels = self.files(tmp_path, packed)
        it = mx.io.MNISTIter(image=images, label=labels, batch_size=2, shuffle=False)
        batches = list(it)
        assert len(batches) == 2  # the fifth fills no batch
        assert batches[1].label[0].asnumpy().tolist() == [2, 3]
        assert (batches[0].data[0].asnumpy() == pictures[:2, None] / 256).all()
        flat = mx.io.MNISTIter(image=images, label=labels, batch_size=5, flat=True)
        (batch,) = list(flat)
        assert batch.data[0].shape == (5, 6)
        assert sorted(batch.label[0].asnumpy().tolist()) == [0, 1, 2, 3, 4]

    def test_parts_and_damage(self, tmp_path):
        _, images, labels = self.files(tmp_path)
        it = mx.io.MNISTIter(images, labels, 1, False, num_parts=2, part_index=1)
        assert [batch.label[0].asscalar() for batch in it] == [2, 3, 4]
        with pytest.raises(MXNetError, match="IDX"):
            mx.io.MNISTIter(image=labels, label=labels)
        with pytest.raises(MXNetError, match="part_index"):
            mx.io.MNISTIter(images, labels, num_parts=2, part_index=2)


def test_hue_lightness_and_saturation():
    """Those of the standard library, there and back."""
    colours = np.random.default_rng(0).uniform(0, 1, (40, 3)).astype(np.float32)
    colours[:3] = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]]
    found = np.stack(hls(colours), -1)
    wanted = [colorsys.rgb_to_hls(*map(float, colour)) for colour in colours]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(rgb(*found.T), colours, atol=1e-5)


class TestImageRecords:
    def file(self, tmp_path, count=3, size=(6, 5)):
        pytest.importorskip("PIL")
        rng = np.random.default_rng(0)
        pictures = rng.integers(0, 256, (count, *size, 3), dtype=np.uint8)
        file = recordio.MXRecordIO(str(tmp_path / "p.rec"), "w")
        for i, picture in enumerate(pictures):
            file.write(recordio.pack_img((0, [i, -i], i, 0), picture, 3, ".png"))
        file.close()
        return str(tmp_path / "p.rec"), pictures[:, :, :, ::-1]

    def test_pictures_are_cut_and_normalized(self, tmp_path):
        path, pictures = self.file(tmp_path)
        it = mx.io.ImageRecordIter(
            path_imgrec=path, data_shape=(3, 4, 3), batch_size=2, mean_r=10, std_g=2, scale=0.5
        )
        first, last = list(it)
        cut = pictures[:, 1:5, 1:4].transpose(0, 3, 1, 2).astype(np.float32)
        cut = (cut - np.reshape([10, 0, 0], (3, 1, 1))) / np.reshape([1, 2, 1], (3, 1, 1)) * 0.5
        np.testing.assert_allclose(first.data[0].asnumpy(), cut[:2], rtol=1e-6)
        assert first.label[0].asnumpy().tolist() == [0, 1]
        assert last.label[0].asnumpy().tolist() == [2, 0] and last.pad == 1

    def test_integer_pixels_are_not_scaled(self, tmp_path):
        path, pictures = self.file(tmp_path)
        given = {"mean_r": 10.5, "mean_g": 100.4, "std_b": 2, "scale": 0.5}
        pixels = pictures.transpose(0, 3, 1, 2)
        as_it_is = mx.io.ImageRecordUInt8Iter(path, (3, 6, 5), 3, **given)
        assert isinstance(as_it_is, mx.io.MXDataIter) and not isinstance(
            as_it_is, mx.io.NDArrayIter
        )
        assert as_it_is.provide_data[0].dtype is np.uint8
        (batch,) = as_it_is
        assert batch.data[0].dtype == np.uint8 and (batch.data[0].asnumpy() == pixels).all()
        signed = (pixels - np.reshape([11, 100, 0], (3, 1, 1))).clip(-128, 127)  # MXNet's values
        for found in (
            mx.io.ImageRecordInt8Iter(path, (3, 6, 5), 3, **given),
            mx.io.ImageRecordIter_v1(path, (3, 6, 5), 3, dtype="int8", **given),
        ):
            (batch,) = found
            assert batch.data[0].dtype == np.int8 and (batch.data[0].asnumpy() == signed).all()
        with pytest.raises(mx.MXNetError, match="dtype is float32, int8 or uint8, got int32"):
            mx.io.ImageRecordIter(path, (3, 6, 5), 3, dtype="int32")

    def test_shuffled_mirrored_enlarged(self, tmp_path):
        path, pictures = self.file(tmp_path)
        it = mx.io.ImageRecordIter(
            path, (3, 8, 9), 3, label_width=2, shuffle=True, rand_crop=True, rand_mirror=True
        )
        (batch,) = list(it)
        assert batch.data[0].shape == (3, 3, 8, 9)
        assert sorted(batch.label[0].asnumpy().tolist()) == [[0, 0], [1, -1], [2, -2]]
        mirrored = mx.io.ImageRecordIter(path, (3, 6, 5), 3, mirror=True)
        (batch,) = list(mirrored)
        assert (batch.data[0].asnumpy() == pictures[:, :, ::-1].transpose(0, 3, 1, 2)).all()

    def test_a_border_of_one_value(self, tmp_path):
        path, pictures = self.file(tmp_path)
        (batch,) = mx.io.ImageRecordIter(path, (3, 10, 9), 3, pad=2, fill_value=7)
        wanted = np.pad(pictures, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=7)
        assert (batch.data[0].asnumpy() == wanted.transpose(0, 3, 1, 2)).all()

    @pytest.mark.parametrize(
        "given",
        [
            {"random_resized_crop": True, "min_random_area": 0.2, "max_aspect_ratio": 1.5},
            {"max_crop_size": 5, "min_crop_size": 3, "rand_crop": True},
            {"max_random_scale": 2.0, "min_random_scale": 1.5},
            {"max_aspect_ratio": 0.4, "max_img_size": 7},
        ],
    )
    def test_sizes_by_chance(self, tmp_path, given):
        """Pixels lie between those of the pictures, and follow from the seed."""
        path, pictures = self.file(tmp_path)
        first, again, other = (
            next(mx.io.ImageRecordIter(path, (3, 4, 4), 3, seed=seed, **given)).data[0].asnumpy()
            for seed in (1, 1, 2)
        )
        assert first.shape == (3, 3, 4, 4) and (first == again).all()
        assert pictures.min() <= first.min() and first.max() <= pictures.max()
        assert (first != other).any()

    @pytest.mark.parametrize(
        "name", ["brightness", "contrast", "saturation", "pca_noise", "random_h", "random_s",
                 "random_l"],
    )  # fmt: skip
    def test_colours_by_chance(self, tmp_path, name):
        path, pictures = self.file(tmp_path)
        amount = {"random_h": 40, "random_s": 40, "random_l": 40}.get(name, 0.4)
        (batch,) = mx.io.ImageRecordIter(path, (3, 6, 5), 3, **{name: amount})
        plain, found = pictures.transpose(0, 3, 1, 2) / 255.0, batch.data[0].asnumpy() / 255
        assert found.min() >= 0 and found.max() <= 1 and (np.abs(found - plain) > 0.01).any()
        before, after = (hls(np.moveaxis(x, 1, -1)) for x in (plain, found))
        kept = {"random_h": (1, 2), "random_s": (0, 1), "random_l": (0,)}.get(name, ())
        for part in kept:
            inside = (after[1] > 0.01) & (after[1] < 0.99) & (after[2] > 0.01) & (after[2] < 0.99)
            away = np.abs(before[part] - after[part])[inside]
            assert np.minimum(away, 1 - away).max() < 1e-3

    def test_image_record_iter_raises_for_wrong_arguments(self, tmp_path):
        path = str(tmp_path / "empty.rec")
        recordio.MXRecordIO(path, "w").close()
        with pytest.raises(MXNetError, match="not contain records"):
            mx.io.ImageRecordIter(path, (3, 4, 4), 1)
        with pytest.raises(MXNetError, match="rotate=5"):
            mx.io.ImageRecordIter(path, (3, 4, 4), 1, rotate=5)
        with pytest.raises(MXNetError, match="min_random_area .* got 0.5 and 0.4"):
            mx.io.ImageRecordIter(path, (3, 4, 4), 1, min_random_area=0.5, max_random_area=0.4)
        for name, value in {"inter_method": 9, "path_imglist": "a.lst"}.items():
            with pytest.raises(MXNetError, match=f"{name}={value} is not supported"):
                mx.io.ImageRecordIter(path, (3, 4, 4), 1, **{name: value})
        with pytest.raises(MXNetError, match="not have the argument unheard"):
            mx.io.ImageRecordIter(path, (3, 4, 4), 1, unheard=5)
        with pytest.raises(MXNetError, match="channels"):
            mx.io.ImageRecordIter(path, (2, 4, 4), 1)
