"""Record files: MXNet's bytes, and files that are damaged."""

from __future__ import annotations

import fractions
import os
import pickle
import struct
import sys
from unittest import mock

import numpy as np
import pytest

from hybridjit import gluon, image, nd, recordio
from hybridjit.errors import MXNetError

MAGIC = struct.pack("<I", 0xCED7230A)
# The bytes that MXNet 1.9.1 writes for these records.
KNOWN = {
    b"abc": "0a23d7ce0300000061626300",
    b"": "0a23d7ce00000000",
    MAGIC + b"xx": "0a23d7ce000000200a23d7ce0200006078780000",
    b"zz" + MAGIC: "0a23d7ce060000007a7a0a23d7ce0000",
    b"1234" + MAGIC + MAGIC + b"5": (
        "0a23d7ce04000020313233340a23d7ce000000400a23d7ce0100006035000000"
    ),
}


def written(tmp_path, *records):
    path = str(tmp_path / "x.rec")
    file = recordio.MXRecordIO(path, "w")
    for record in records:
        file.write(record)
    file.close()
    return path


def read_all(path):
    file = recordio.MXRecordIO(path, "r")
    return list(iter(file.read, None))


@pytest.mark.parametrize("record", KNOWN, ids=repr)
def test_bytes_are_mxnets(tmp_path, record):
    path = written(tmp_path, record)
    with open(path, "rb") as file:
        assert file.read().hex() == KNOWN[record]
    assert read_all(path) == [record]


def test_random_records_come_back(tmp_path):
    rng = np.random.default_rng(0)
    pieces = [MAGIC, b"a", b"1234", b"", MAGIC * 3]
    records = [b"".join(pieces[i] for i in rng.integers(0, 5, n)) for n in range(60)]
    assert read_all(written(tmp_path, *records)) == records


def test_a_cut_file_is_one_clear_error(tmp_path):
    path = written(tmp_path, b"first", b"12345678" + MAGIC + b"tail")
    with open(path, "rb") as file:
        whole = file.read()
    for length in range(1, len(whole)):
        with open(path, "wb") as file:
            file.write(whole[:length])
        try:
            assert read_all(path) in ([b"first"], [b"first", b"12345678" + MAGIC + b"tail"])
        except MXNetError as error:
            assert path in str(error)


def test_hostile_lengths_are_not_believed(tmp_path):
    path = tmp_path / "x.rec"
    for flag in range(8):
        path.write_bytes(MAGIC + struct.pack("<I", flag << 29 | 0x1FFFFFFF) + b"tail")
        with pytest.raises(MXNetError, match="536870911 bytes, 4 are left"):
            read_all(str(path))
    path.write_bytes(b"\0" * 64)
    with pytest.raises(MXNetError, match="begins with 0a23d7ce, got 00000000"):
        read_all(str(path))
    for flag in (2, 3):
        path.write_bytes(MAGIC + struct.pack("<I", flag << 29))
        with pytest.raises(MXNetError, match="begins with the last chunk"):
            read_all(str(path))


class TestIndexed:
    def made(self, tmp_path):
        paths = str(tmp_path / "x.idx"), str(tmp_path / "x.rec")
        file = recordio.MXIndexedRecordIO(*paths, "w")
        for key in (3, 1, 2):
            file.write_idx(key, b"record %d" % key)
        file.close()
        return paths

    def test_round_trip(self, tmp_path):
        paths = self.made(tmp_path)
        with open(paths[0]) as file:
            assert file.read() == "3\t0\n1\t16\n2\t32\n"
        file = recordio.MXIndexedRecordIO(*paths, "r")
        assert file.keys == [3, 1, 2] and file.idx == {3: 0, 1: 16, 2: 32}
        assert [file.read_idx(key) for key in (2, 3, 1)] == [b"record 2", b"record 3", b"record 1"]
        with pytest.raises(KeyError):
            file.read_idx(4)

    def test_pickled_and_forked(self, tmp_path):
        file = recordio.MXIndexedRecordIO(*self.made(tmp_path), "r")
        assert pickle.loads(pickle.dumps(file)).read_idx(1) == b"record 1"
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(theirs, file.read_idx(2))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(ours, 100) == b"record 2"
        assert file.read_idx(3) == b"record 3"

    LINES = [
        *(
            "1",
            "a\t0",
            "1\tx",
            "1\t2\t3",
            "\xff",
            "",
            "nan\t0",
            "inf\t0",
            "1.5\t0",
            "9" * 5000 + "\t0",
        ),
        *("1\t-5", "1\t1.5", "1\tnan", "1\tinf", "1\t1e3", "1\t+5", "1\t1_0", "1\t\u0663", "1\t"),
        *(f"1\t{2**63}", f"1\t{2**64}", "1\t" + "9" * 4000, "1\t" + "9" * 5000, "1\t0x10"),
    ]

    @pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
    def test_malformed_lines_of_an_index_raise(self, tmp_path, line):
        paths = self.made(tmp_path)
        with open(paths[0], "w") as file:
            file.write(f"3\t0\n{line}\n2\t32\n")
        rule = "x.idx: line 2 must be a key, a tab and a position .an integer from 0 to 9223372036"
        index = {"path_imgidx": paths[0], "path_imgrec": paths[1]}
        for read in (
            lambda: recordio.MXIndexedRecordIO(*paths, "r"),
            lambda: gluon.data.RecordFileDataset(paths[1]),
            lambda: image.ImageIter(1, (3, 2, 2), **index),
        ):
            with pytest.raises(MXNetError, match=rule):
                read()

    @pytest.mark.parametrize("convert", [float, fractions.Fraction, {"3": 3}.__getitem__])
    def test_keys_that_the_programs_type_refuses(self, tmp_path, convert):
        paths = self.made(tmp_path)
        with open(paths[0], "w") as file:
            file.write("3\t0\n1/0\t16\n")
        with pytest.raises(MXNetError, match="line 2"):
            recordio.MXIndexedRecordIO(*paths, "r", convert)

    def test_positions_that_are_no_records(self, tmp_path):
        paths = self.made(tmp_path)
        with open(paths[0], "w") as file:
            file.write(f"1\t4\n2\t9999\n3\t{2**63 - 1}\n")
        damaged = recordio.MXIndexedRecordIO(*paths, "r")
        with pytest.raises(MXNetError, match="x.rec is not a complete record file"):
            damaged.read_idx(1)
        assert damaged.read_idx(2) is None and damaged.read_idx(3) is None
        for kind in (gluon.data.RecordFileDataset, gluon.data.vision.ImageRecordDataset):
            with pytest.raises(MXNetError, match="x.rec ends before record 2"):
                kind(paths[1])[1]
        pictures = image.ImageIter(1, (3, 2, 2), path_imgidx=paths[0], path_imgrec=paths[1])
        for _ in range(3):
            with pytest.raises(MXNetError, match=r"x\.rec"):
                pictures.next_sample()

    def test_a_dataset_is_in_the_indexs_order(self, tmp_path):
        _, path = self.made(tmp_path)
        dataset = gluon.data.RecordFileDataset(path)
        assert [dataset[i] for i in range(len(dataset))] == [b"record 3", b"record 1", b"record 2"]
        loader = gluon.data.DataLoader(dataset, 2, batchify_fn=list, num_workers=2)
        assert [list(batch) for batch in loader] == [[b"record 3", b"record 1"], [b"record 2"]]


def test_headers_are_packed_as_mxnet_does():
    packed = recordio.pack(recordio.IRHeader(7, 4.0, 2574, 1), b"data")
    assert packed.hex() == "00000000000080400e0a000000000000010000000000000064617461"
    header, rest = recordio.unpack(packed)
    assert tuple(header) == (0, 4.0, 2574, 1) and rest == b"data"
    packed = recordio.pack((0, [1, 2, 3], 5, 0), b"x")
    header, rest = recordio.unpack(packed)
    assert header.flag == 3 and header.label.tolist() == [1, 2, 3] and rest == b"x"
    assert header.label.dtype == np.float32 and type(header).__name__ == "HEADER"
    for data, words in ((b"short", "24 bytes"), (struct.pack("<IfQQ", 2**31, 0, 0, 0), "labels")):
        with pytest.raises(MXNetError, match=words):
            recordio.unpack(data)


def test_flags_and_missing_files(tmp_path):
    with pytest.raises(ValueError, match="Invalid flag a"):
        recordio.MXRecordIO(str(tmp_path / "x"), "a")
    with pytest.raises(MXNetError, match="nowhere"):
        recordio.MXRecordIO(str(tmp_path / "nowhere"), "r")


@pytest.mark.parametrize(
    "kind, given, options",
    [
        (".png", 95, {"compress_level": 9}),
        (".png", -1, {"compress_level": 0}),
        (".jpg", 0, {"quality": 1}),
        (".jpg", 200, {"quality": 100}),
    ],
)
def test_qualities_beyond_a_codec_are_its_nearest(kind, given, options, monkeypatch):
    """As OpenCV does in MXNet: the default of 95 is for both kinds."""
    image = mock.Mock()
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.setitem(sys.modules, "PIL", mock.Mock())
    monkeypatch.setitem(sys.modules, "PIL.Image", image)
    recordio.pack_img((0, 1, 2, 3), np.zeros((2, 2, 3), np.uint8), given, kind)
    image.fromarray().save.assert_called_once_with(mock.ANY, mock.ANY, **options)


def test_images_are_packed_and_unpacked(tmp_path):
    pytest.importorskip("PIL")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    record = recordio.pack_img((0, 3.0, 1, 0), pixels, quality=3, img_fmt=".png")
    header, back = recordio.unpack_img(record)
    assert header.label == 3 and (back == pixels).all()
    file = recordio.MXIndexedRecordIO(str(tmp_path / "p.idx"), str(tmp_path / "p.rec"), "w")
    file.write_idx(0, record)
    file.close()
    picture, label = gluon.data.vision.ImageRecordDataset(str(tmp_path / "p.rec"))[0]
    assert label == 3 and isinstance(picture, nd.NDArray)
    assert (picture.asnumpy() == pixels[:, :, ::-1]).all()
