"""Array files: the bytes that MXNet writes, the older layouts it reads, and careful writing."""

import os
import stat
import struct
from pathlib import Path

import numpy as np
import pytest

from hybridjit.errors import DTypeError, ModelFormatError, MXNetError
from hybridjit.formats import atomic
from hybridjit.formats.mxnet import bulk, params
from hybridjit.nd import files as nd_files
from hybridjit.nd.ndarray import NDArray
from params_written_by_mxnet import MAGIC, written

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DEVICE_F32 = struct.pack("<iii", 1, 0, 0)


def container(*records, names=()):
    """A file of these records, of any layout."""
    encoded = [name.encode() for name in names]
    tail = b"".join(struct.pack("<Q", len(name)) + name for name in encoded)
    head = bytes.fromhex(MAGIC) + struct.pack("<Q", len(records))
    return head + b"".join(records) + struct.pack("<Q", len(names)) + tail


def v2(dims, tail, storage=0, magic=V2):
    return struct.pack(f"<Iii{len(dims)}q", magic, storage, len(dims), *dims) + tail


ONE = v2((1,), DEVICE_F32 + struct.pack("<f", 3.0))


class TestBytes:
    """Files of MXNet 1.9.1 are reproduced byte for byte."""

    def test_documented_example(self):
        arrays = {"arg:w": np.array([[1, 2, 3]], "f4"), "b": np.array([7], "i8")}
        data = params.dumps(arrays)
        assert len(data) == 146
        assert data[24:56].hex(" ", 4) == "c9fa93f9 00000000 02000000 01000000 " + (
            "00000000 03000000 00000000 01000000"
        )
        assert data[-9:] == b"\1\0\0\0\0\0\0\0b"

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype(self, dtype):
        data = params.dumps({dtype: np.array([[1, 0, 1]], dtype)})
        assert data == written(dtype)

    @pytest.mark.parametrize("name", (*DTYPES, "list", "unicode"))
    def test_read_and_written_again(self, name):
        assert params.dumps(params.loads(written(name))) == written(name)

    def test_layout_and_byte_order_of_the_array_do_not_matter(self):
        plain = np.arange(6, dtype="f4").reshape(2, 3)
        expected = params.dumps([plain])
        assert params.dumps([np.asfortranarray(plain)]) == expected
        assert params.dumps([plain.astype(">f4")]) == expected
        assert params.dumps([np.repeat(plain, 2, axis=1)[:, ::2]]) == expected

    def test_scalars_are_v3_and_empty_arrays_v2(self):
        data = params.dumps([np.float32(7).reshape(()), np.zeros((2, 0), "f4")])
        scalar, empty = params.loads(data)
        assert scalar.shape == () and scalar == 7
        assert empty.shape == (2, 0)
        assert struct.unpack_from("<I", data, 24)[0] == V3
        assert struct.unpack_from("<I", data, 24 + 28)[0] == V2


class TestReading:
    def test_dtypes_and_values(self):
        for dtype in DTYPES:
            (name, array), *_ = params.loads(written(dtype)).items()
            assert name == array.dtype.name == dtype
            assert array.tolist() == [[1, 0, 1]]

    def test_bfloat16_becomes_float32(self):
        array = params.loads(written("bf16"))["b"]
        assert array.dtype == np.float32
        assert array.tolist() == [1.0, -2.5, 3.140625]

    def test_csr_becomes_dense(self):
        array = params.loads(written("csr"))["c"]
        assert array.tolist() == [[0, 1.5, 0], [0, 0, 0], [2, 0, 3]]

    def test_row_sparse_becomes_dense(self):
        assert params.loads(written("rsp"))["r"].tolist() == [[0, 0], [1, 2], [0, 0], [3, 4]]

    @pytest.mark.parametrize("name", ["csr0", "rsp0"])
    def test_sparse_without_values(self, name):
        assert params.loads(written(name))["c"].tolist() == [[0, 0, 0], [0, 0, 0]]

    def test_np_shape_file(self):
        arrays = params.loads(written("v3"))
        assert arrays["s"].shape == () and arrays["s"] == 7
        assert arrays["z"].shape == (0, 2)
        assert arrays["m"].tolist() == [1, 2] and arrays["m"].dtype == np.int32

    def test_v0_and_v1_mixed_with_v2(self):
        v0 = struct.pack("<III", 2, 1, 2) + DEVICE_F32 + struct.pack("<2f", 1, 2)
        v1 = struct.pack("<Iiq", V1, 1, 2) + struct.pack("<iii", 2, 3, 4)
        v1 += struct.pack("<2i", 5, 6)
        a, b, c = params.loads(container(v0, v1, ONE))
        assert a.tolist() == [[1, 2]] and b.tolist() == [5, 6] and c.tolist() == [3]

    @pytest.mark.parametrize(
        "record",
        [
            v2((), b""),
            struct.pack("<I", 0),
            struct.pack("<Ii", V1, 0),
            struct.pack("<Iii", V3, 0, -1),
        ],
    )
    def test_array_without_shape_ends_there(self, record):
        empty, one = params.loads(container(record, ONE))
        assert empty.size == 0 and one.tolist() == [3]

    def test_bool_bytes_other_than_one_are_true(self):
        record = v2((3,), struct.pack("<iii", 1, 0, 7) + b"\0\2\xff")
        (array,) = params.loads(container(record))
        assert array.view("u1").tolist() == [0, 1, 1]

    def test_last_of_equal_names_wins(self):
        two = v2((1,), DEVICE_F32 + struct.pack("<f", 4.0))
        assert params.loads(container(ONE, two, names=("a", "a")))["a"] == 4

    def test_no_arrays_is_a_list(self):
        assert params.loads(container()) == []
        assert params.loads(params.dumps({})) == []

    def test_trailing_bytes_are_ignored(self):
        assert list(params.loads(written("float32") + b"rest")) == ["float32"]

    def test_arrays_are_their_own_aligned_and_writable(self):
        data = bytearray(params.dumps([np.ones(3, "u1"), np.ones(5, "f8"), np.ones(2, "?")]))
        arrays = params.loads(data)
        for array in arrays:
            assert array.flags.owndata and array.flags.aligned and array.flags.writeable
        data[:] = bytes(len(data))
        assert arrays[1].tolist() == [1] * 5

    def test_files_and_buffers_give_equal_arrays(self, tmp_path):
        path = tmp_path / "a.params"
        path.write_bytes(written("csr"))
        assert params.load(path)["c"].tolist() == params.loads(written("csr"))["c"].tolist()

    @pytest.mark.parametrize("at_once", [1, 1 << 19, 1 << 30])
    def test_large_arrays_are_read_together(self, tmp_path, monkeypatch, at_once):
        """In calls of any size, with small arrays between them, and a disk that gives less."""
        sizes = (40_000, 3, 20_000, 0, 1, *(9_000,) * 9, 70_000, 16_384)
        arrays = {f"a{i}": np.arange(n, dtype=np.float32) + i for i, n in enumerate(sizes)}
        params.save(tmp_path / "a.params", arrays)
        read, calls = os.preadv, []

        def some(handle, buffers, offset):
            calls.append(len(buffers))
            half = buffers[0][: len(buffers[0]) // 2 + 1]
            return read(handle, buffers if len(calls) % 2 else [half], offset)

        monkeypatch.setattr(bulk, "_CALL_BYTES", at_once)
        monkeypatch.setattr(os, "preadv", some)
        found = params.load(tmp_path / "a.params")
        assert calls and found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].tolist() == array.tolist(), name
            assert found[name].flags.owndata

    def test_file_that_shrinks_while_it_is_read(self, tmp_path, monkeypatch):
        path = tmp_path / "a.params"
        params.save(path, [np.ones(100_000, np.float32), np.ones(200_000, np.float32)])
        fill = bulk.Bulk.read

        def shrunk(self):
            os.truncate(path, 900_000)
            fill(self)

        monkeypatch.setattr(bulk.Bulk, "read", shrunk)
        with pytest.raises(ModelFormatError, match="file shrank while it was read"):
            params.load(path)

    def test_params_can_be_read_from_a_pipe(self):
        read, write = os.pipe()
        with os.fdopen(write, "wb") as out:
            out.write(written("int8"))
        assert params.load(f"/dev/fd/{read}")["int8"].tolist() == [[1, 0, 1]]
        os.close(read)


BROKEN = {
    "empty": (b"", "header takes 24 bytes, 0 are left", 0),
    "magic": (b"\x13" + written("int8")[1:], "magic number is 0x113", 0),
    "too many arrays": (
        bytes.fromhex(MAGIC) + struct.pack("<Q", 2**60),
        "1152921504606846976 arrays cannot be",
        16,
    ),
    "truncated data": (written("float64")[:80], "data of shape (1, 3) and float64 takes 24", 64),
    "no names": (container(ONE)[:-8], "number of names takes 8", 60),
    "name count": (container(ONE, ONE, names=["a"]), "1 names for 2 arrays", 96),
    "name length": (written("int8")[:-5] + b"\x7f", "name takes 9151314442816847876", 83),
    "name text": (written("int8")[:-1] + b"\xff", "name is not UTF-8", 86),
    "dtype": (container(v2((1,), struct.pack("<iii", 1, 0, 9) + ONE)), "Unknown type enum 9", 52),
    "storage": (container(v2((1,), DEVICE_F32, storage=5)), "Unknown storage type 5", 28),
    "neither": (container(struct.pack("<I", 99) + ONE), "0x63 is neither a magic number", 24),
    "dimensions": (container(struct.pack("<Iii", V2, 0, 99) + ONE), "99 dimensions", 32),
    "negative ndim": (container(struct.pack("<Iii", V2, 0, -2) + ONE), "-2 dimensions", 32),
    "negative size": (container(v2((2, -1), DEVICE_F32)), "negative size in shape (2, -1)", 36),
    "huge": (container(v2((2**40, 2**40), DEVICE_F32)), "is larger than any file", 36),
    "huge beside zero": (container(v2((0, 2**62), DEVICE_F32)), "is larger than any file", 36),
    "large": (container(v2((2**30,), DEVICE_F32)), "takes 4294967296 bytes", 56),
    "csr bomb": (
        container(
            struct.pack("<Iiiq", V2, 2, 1, 0)
            + struct.pack("<iqq", 2, 0, 2**40)
            + DEVICE_F32
            + struct.pack("<iiqiiq", 6, 1, 1, 6, 1, 0)
            + bytes(8)
        ),
        None,
        None,
    ),
    "row bomb": (
        container(
            struct.pack("<Iiiqq", V2, 1, 2, 0, 2**20)
            + struct.pack("<iqq", 2, 2**20, 2**20)
            + DEVICE_F32
            + struct.pack("<iiq", 6, 1, 0)
        ),
        "needs 4398046511104 bytes when dense",
        84,
    ),
}


class TestRefusing:
    @pytest.mark.parametrize("case", [name for name in BROKEN if name != "csr bomb"])
    def test_errors_name_the_cause_and_the_offset(self, case):
        data, what, offset = BROKEN[case]
        with pytest.raises(ModelFormatError) as caught:
            params.loads(data)
        message = str(caught.value)
        assert "Invalid NDArray file format" in message
        assert what in message
        assert f"at byte {offset} of {len(data)}" in message

    def test_empty_rows_need_no_memory(self):
        (array,) = params.loads(BROKEN["csr bomb"][0])
        assert array.shape == (0, 2**40)

    def test_names_the_array_and_the_file(self, tmp_path):
        path = tmp_path / "net.params"
        path.write_bytes(container(ONE, ONE)[:95])
        with pytest.raises(ModelFormatError, match=r"in array 1 of 2, .*net\.params"):
            params.load(path)

    @pytest.mark.parametrize(
        "old, new, what",
        [
            (struct.pack("<4q", 0, 1, 1, 3), struct.pack("<4q", 0, 2, 1, 3), "do not ascend"),
            (struct.pack("<4q", 0, 1, 1, 3), struct.pack("<4q", 1, 1, 1, 3), "do not ascend"),
            (struct.pack("<3q", 1, 0, 2), struct.pack("<3q", 1, 0, 3), "from 0 to 3 for size 3"),
            (struct.pack("<3q", 1, 0, 2), struct.pack("<3q", -1, 0, 2), "from -1 to 2"),
        ],
    )
    def test_csr_indices(self, old, new, what):
        assert written("csr").count(old) == 1
        with pytest.raises(ModelFormatError, match=what):
            params.loads(written("csr").replace(old, new))

    def test_row_sparse_indices(self):
        data = written("rsp").replace(struct.pack("<2q", 1, 3), struct.pack("<2q", 1, 4))
        with pytest.raises(ModelFormatError, match="indices from 1 to 4 for size 4"):
            params.loads(data)

    def test_missing_file(self, tmp_path):
        with pytest.raises(MXNetError, match="nowhere.params: No such file or directory"):
            params.load(tmp_path / "nowhere.params")

    def test_reading_a_folder_raises(self, tmp_path):
        with pytest.raises(MXNetError, match="Is a directory"):
            params.load(tmp_path)


class TestSaving:
    def test_saved_bytes_equal_mxnets(self, tmp_path):
        path = tmp_path / "a.params"
        params.save(path, {"int8": np.array([[1, 0, 1]], "i1")})
        assert path.read_bytes() == written("int8")
        assert os.listdir(tmp_path) == ["a.params"]

    def test_full_disk_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "a.params"
        path.write_bytes(b"old")

        def full(handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(MXNetError, match="a.params: No space left on device"):
            params.save(path, [np.ones(3, "f4")])
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a.params"]

    def test_unknown_dtype_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "a.params"
        path.write_bytes(b"old")
        with pytest.raises(
            DTypeError, match="array 'x' has the type int16; the file format has float32"
        ):
            params.save(path, {"ok": np.ones(1, "f4"), "x": np.ones(1, "i2")})
        assert path.read_bytes() == b"old"

    def test_missing_folder(self, tmp_path):
        with pytest.raises(MXNetError, match="No such file or directory"):
            params.save(tmp_path / "no" / "a.params", [])

    def test_saved_files_have_default_or_previous_permissions(self, tmp_path):
        new, old = tmp_path / "new", tmp_path / "old"
        old.write_bytes(b"")
        old.chmod(0o640)
        before = os.umask(0o027)
        try:
            for path in (new, old):
                params.save(path, [])
        finally:
            os.umask(before)
        assert stat.S_IMODE(new.stat().st_mode) == 0o640
        assert stat.S_IMODE(old.stat().st_mode) == 0o640

    def test_link_stays_a_link(self, tmp_path):
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_bytes(b"old")
        link.symlink_to(target)
        params.save(link, [])
        assert link.is_symlink() and params.load(target) == []

    def test_saving_to_a_device_keeps_the_device(self):
        params.save(os.devnull, [np.ones(3, "f4")])
        assert Path(os.devnull).is_char_device()

    def test_failing_pieces_leave_no_temporary_file(self, tmp_path):
        def pieces():
            yield b"new"
            raise KeyboardInterrupt

        path = tmp_path / "a"
        path.write_bytes(b"old")
        with pytest.raises(KeyboardInterrupt):
            atomic.write_atomically(path, pieces())
        assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


def ndarray(values, dtype="f4"):
    return NDArray(np.array(values, dtype))


class TestNDArrays:
    def test_dictionaries_keep_names_order_and_types(self, tmp_path):
        path = str(tmp_path / "x")
        nd_files.save(path, {"b": ndarray([1, 2]), "a": ndarray([[3]], "i8")})
        loaded = nd_files.load(path)
        assert list(loaded) == ["b", "a"]
        assert isinstance(loaded["a"], NDArray)
        assert loaded["a"].dtype == np.int64 and loaded["a"].asnumpy().tolist() == [[3]]
        assert str(loaded["b"].context) == "cpu(0)"

    @pytest.mark.parametrize("data", [ndarray([1]), [ndarray([1])]])
    def test_array_and_list_load_as_list(self, tmp_path, data):
        path = str(tmp_path / "x")
        nd_files.save(path, data)
        (loaded,) = nd_files.load(path)
        assert loaded.asnumpy().tolist() == [1]

    def test_load_frombuffer_reads_bytes_only(self):
        loaded = nd_files.load_frombuffer(written("csr"))
        assert loaded["c"].shape == (3, 3)
        for wrong in (bytearray(b""), 3, None):
            with pytest.raises(TypeError, match="buf required to be a string or bytes"):
                nd_files.load_frombuffer(wrong)

    @pytest.mark.parametrize("data", [[3], {"a": 3}, {3: ndarray([1])}, [ndarray([1]), None]])
    def test_wrong_items(self, tmp_path, data):
        with pytest.raises(TypeError, match="save only accept dict str->NDArray"):
            nd_files.save(str(tmp_path / "x"), data)
        assert not os.listdir(tmp_path)

    @pytest.mark.parametrize("data", [3, "abc", (ndarray([1]),), np.ones(3)])
    def test_wrong_container(self, tmp_path, data):
        with pytest.raises(ValueError, match="data needs to either be a NDArray"):
            nd_files.save(str(tmp_path / "x"), data)

    @pytest.mark.parametrize("name", [None, 3, Path("x")])
    def test_file_name_is_a_string(self, name):
        with pytest.raises(TypeError, match="fname required to be a string"):
            nd_files.load(name)
