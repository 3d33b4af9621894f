"""One path names a model: a prefix, a file, a folder or an archive. NumPy arrays go in and out."""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hybridjit
import hybridjit as mx
from hybridjit import autograd, nd
from hybridjit.errors import ModelFormatError, MXNetError
from hybridjit.formats import archives
from hybridjit.gluon import nn, rnn

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
FILES = ("digits-symbol.json", "digits-0000.params")
IMAGES = np.random.default_rng(3).random((2, 1, 28, 28), np.float32)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return hybridjit.load(str(DIGITS / "digits"))(nd.array(IMAGES)).asnumpy()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(DIGITS / name, tmp_path)
    return tmp_path


def taped(target: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(target, mode) as tape:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tape.addfile(info, io.BytesIO(data))
    return target


def zipped(target: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def content(prefix: str = "") -> dict[str, bytes]:
    files = {prefix + name: (DIGITS / name).read_bytes() for name in FILES}
    return {**files, prefix + "code/inference.py": b"raise SystemExit('code was run')"}


@pytest.mark.parametrize("name", ["digits", *FILES, "", "digits-symbol.json"])
def test_a_prefix_a_file_and_a_folder_name_the_same_network(folder, name, expected):
    for path in (folder / name, str(folder / name)):
        np.testing.assert_array_equal(hybridjit.load(path)(nd.array(IMAGES)).asnumpy(), expected)


@pytest.mark.parametrize("ending", [".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz"])
def test_a_tape_of_a_service_is_loaded(tmp_path, ending, expected):
    mode = {".tar": "w", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}.get(ending, "w:gz")
    path = taped(tmp_path / f"model{ending}", content("./export/"), mode)
    np.testing.assert_array_equal(hybridjit.load(path)(nd.array(IMAGES)).asnumpy(), expected)


@pytest.mark.parametrize("ending", [".zip", ".mar", ".model"])
def test_an_archive_of_a_model_server_is_loaded(tmp_path, ending, expected):
    path = zipped(tmp_path / f"digits{ending}", content())
    np.testing.assert_array_equal(hybridjit.load(path)(nd.array(IMAGES)).asnumpy(), expected)


def test_an_onnx_file_is_loaded(expected):
    found = hybridjit.load(DIGITS / "digits.onnx")(nd.array(IMAGES)).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_only_epoch_is_found_and_several_are_listed(folder, expected):
    (folder / FILES[1]).rename(folder / "digits-0012.params")
    prefix = str(folder / "digits")
    np.testing.assert_array_equal(hybridjit.load(prefix)(nd.array(IMAGES)).asnumpy(), expected)
    shutil.copy(folder / "digits-0012.params", folder / "digits-0003.params")
    with pytest.raises(MXNetError, match="parameters of the epochs 3, 12: give epoch="):
        hybridjit.load(prefix)
    hybridjit.load(prefix, 3)
    with pytest.raises(MXNetError, match=r"digits-0004\.params: No such file"):
        hybridjit.load(prefix, 4)


def test_a_folder_without_a_model_or_with_several_is_refused(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(MXNetError, match=r"empty: one file \*-symbol\.json .* it has none"):
        hybridjit.load(empty)
    shutil.copy(DIGITS / "digits.onnx", folder)
    with pytest.raises(MXNetError, match=r"it has 2: digits-symbol\.json, digits\.onnx"):
        hybridjit.load(folder)


def test_a_folder_that_cannot_be_listed_is_an_error_of_ours(folder, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.listdir", refused)
    for path in (folder, folder / "other"):
        with pytest.raises(MXNetError, match="Permission denied"):
            hybridjit.load(path)


def test_a_file_in_an_archive_has_the_archives_name_in_errors(tmp_path):
    graph = content()[FILES[0]]
    path = taped(tmp_path / "model.tar.gz", {FILES[0]: graph})
    with pytest.raises(MXNetError, match=r"^\S+/model.tar.gz/digits-0000.params: No such file"):
        mx.load(path)
    path = zipped(tmp_path / "model.mar", {FILES[0]: graph, FILES[1]: b"nothing" * 99})
    with pytest.raises(MXNetError, match=r"model.mar/digits-0000.params"):
        mx.load(path)


def test_an_archive_without_room_for_its_files_is_an_error_of_ours(tmp_path, monkeypatch):
    path = taped(tmp_path / "model.tar.gz", content())

    def refused(**how):
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refused)
    with pytest.raises(MXNetError, match=r"model\.tar\.gz: No usable temporary directory"):
        hybridjit.load(path)


def test_members_stay_below_the_folder_that_is_unpacked(tmp_path):
    outside = tmp_path / "outside-symbol.json"
    path = taped(tmp_path / "model.tar.gz", {"../outside-symbol.json": b"{}"})
    with pytest.raises(MXNetError):
        hybridjit.load(path)
    assert not outside.exists()


def test_links_are_not_followed(tmp_path):
    path = tmp_path / "model.tar"
    with tarfile.open(path, "w") as tape:
        link = tarfile.TarInfo("x-symbol.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(DIGITS / FILES[0])
        tape.addfile(link)
    with pytest.raises(MXNetError, match="it has none"):
        hybridjit.load(path)


@pytest.mark.parametrize("ending", [".tar.gz", ".tar", ".tar.bz2", ".tar.xz", ".zip", ".mar"])
def test_a_malformed_archive_is_an_error_of_ours(tmp_path, ending):
    whole = tmp_path / f"model{ending}"
    if ending in (".zip", ".mar"):
        zipped(whole, content())
    else:
        mode = {".tar": "w", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}.get(ending, "w:gz")
        taped(whole, content(), mode)
    data = whole.read_bytes()
    for bad in (b"", b"no archive", data[: len(data) // 2], data[:30] + b"\xff" * 40 + data[70:]):
        whole.write_bytes(bad)
        with pytest.raises(MXNetError):
            hybridjit.load(whole)


def test_two_files_of_one_name_are_refused(tmp_path):
    path = taped(tmp_path / "model.tar.gz", {**content("a/"), **content("b/")})
    with pytest.raises(ModelFormatError, match="two files are named digits-symbol.json"):
        hybridjit.load(path)


@pytest.mark.parametrize("make", [taped, zipped], ids=["tape", "zip"])
def test_an_archive_has_a_bounded_size(tmp_path, make, monkeypatch):
    path = make(tmp_path / ("model.tar.gz" if make is taped else "model.zip"), content())
    monkeypatch.setattr(archives, "MOST_BYTES", 1000)
    with pytest.raises(ModelFormatError, match="at most 1000 bytes, this one more"):
        hybridjit.load(path)
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 30)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 1)
    with pytest.raises(ModelFormatError, match="at most 1 members, this one more"):
        hybridjit.load(path)


class TestPredict:
    def test_numpy_arrays_come_in_and_go_out(self, expected):
        net = hybridjit.load(DIGITS / "digits")
        found = net.predict(IMAGES)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(net.predict(data=nd.array(IMAGES)), expected)

    def test_nothing_is_recorded_and_nothing_trains(self):
        net = nn.HybridSequential()
        net.add(nn.Dropout(0.5), nn.BatchNorm(in_channels=4))
        net.initialize()
        x = np.ones((3, 4), np.float32)
        with autograd.record():
            first, second = net.predict(x), net.predict(x)
        np.testing.assert_array_equal(first, second)
        assert not net[1].running_mean.data().asnumpy().any()

    def test_nested_outputs_keep_their_structure(self):
        cell = rnn.LSTMCell(5, input_size=3)
        cell.initialize()
        states = [np.zeros((2, 5), np.float32)] * 2
        out, new = cell.predict(np.ones((2, 3), np.float32), states)
        assert [type(array) for array in (out, *new)] == [np.ndarray] * 3

    def test_an_element_type_that_does_not_fit_is_refused(self):
        with pytest.raises(MXNetError, match="float64"):
            hybridjit.load(DIGITS / "digits").predict(IMAGES.astype("float64"))

    def test_networks_of_numpy_mode_get_its_arrays(self):
        class Net(nn.HybridBlock):
            def forward(self, x):
                assert type(x) is mx.np.ndarray
                return mx.np.where(x > 0, x, 0)

        with mx.util.np_shape(True), mx.util.np_array(True):
            np.testing.assert_array_equal(Net().predict(np.array([-1.0, 2.0])), [0, 2])
