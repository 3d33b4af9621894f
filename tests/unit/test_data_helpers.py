"""Data sets through test_utils, samplers, and which generator decides an order."""

from __future__ import annotations

import bz2
import os
import random
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, image, nd, test_utils
from hybridjit.errors import MXNetError


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "datasets" / "mnist"
    folder.mkdir(parents=True)
    for part, count in (("train", 6), ("t10k", 4)):
        pixels = np.full((count, 28, 28), 51, np.uint8)
        head = struct.pack(">4I", 0x803, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        data = struct.pack(">2I", 0x801, count) + bytes(range(count))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(data)
    return folder


def test_get_mnist_reads_local_files(mnist):
    found = test_utils.get_mnist()
    assert found["train_data"].shape == (6, 1, 28, 28) and found["test_data"].shape[0] == 4
    assert found["train_data"].dtype == np.float32 and found["train_data"].max() == np.float32(0.2)
    assert found["test_label"].tolist() == [0, 1, 2, 3] and found["test_label"].dtype == np.int8
    train, test = test_utils.get_mnist_iterator(2, (784,))
    assert len(list(train)) == 3 and test.next().data[0].shape == (2, 784)
    assert test_utils.get_mnist_iterator(2, (1, 28, 28))[0].next().data[0].shape == (2, 1, 28, 28)


def test_missing_files_are_named(mnist):
    (mnist / "t10k-labels-idx1-ubyte").unlink()
    for function in (test_utils.get_mnist, test_utils.get_mnist_ubyte):
        with pytest.raises(MXNetError, match=r"t10k-labels-idx1-ubyte.*does not download"):
            function()


def test_a_file_where_a_program_would_download_it_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").touch()
    found = test_utils.download("http://x.org/a.txt", dirname="data")
    assert found == "data/a.txt" == test_utils.download("http://x.org/b", "a.txt", "data")
    with pytest.raises(MXNetError, match=r"save http://x.org/b as b"):
        test_utils.download("http://x.org/b")
    for function in (test_utils.get_mnist_pkl, test_utils.get_cifar10):
        with pytest.raises(MXNetError, match=r"does not download files: save .* as data/"):
            function()


def test_archives_are_unpacked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile("data/cifar10.zip", "w") as archive:
        for part in ("train.rec", "train.lst", "test.rec", "test.lst"):
            archive.writestr(f"cifar/{part}", part)
    test_utils.get_cifar10()
    assert (tmp_path / "data" / "cifar" / "test.lst").read_text() == "test.lst"
    test_utils.get_zip_data("data", "http://x.org/y", "cifar10.zip")
    (tmp_path / "data" / "t.bz2").write_bytes(bz2.compress(b"1 2:3"))
    for _ in range(2):  # unpacked, then there
        test_utils.get_bz2_data("data", "t", "http://x.org/t.bz2", "t.bz2")
        assert (tmp_path / "data" / "t").read_bytes() == b"1 2:3"
    (tmp_path / "data" / "cifar10.zip").write_bytes(b"no")
    with pytest.raises(MXNetError, match="cifar10.zip: File is not a zip file"):
        test_utils.get_zip_data("data", "http://x.org/y", "cifar10.zip")


def test_interval_sampler():
    sampler = gluon.contrib.data.IntervalSampler
    assert list(sampler(5, 2)) == [0, 2, 4, 1, 3] and len(sampler(5, 2)) == 5
    short = sampler(13, 3, rollover=False)
    assert list(short) == [0, 3, 6, 9, 12] and len(short) == 5
    with pytest.raises(AssertionError, match="Interval 3"):
        sampler(2, 3)


def test_numpys_seed_decides_the_order():
    orders = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        orders.append(list(gluon.data.RandomSampler(20)))
    wanted = np.arange(20)
    np.random.seed(1)
    np.random.shuffle(wanted)
    assert orders[0] == orders[1] == wanted.tolist() != orders[2]


def test_pythons_seed_decides_a_random_crop():
    x = nd.array(np.zeros((50, 50, 3)), dtype="uint8")
    places = []
    for seed in (1, 1, 2):
        random.seed(seed)
        mx.random.seed(len(places))
        places.append(image.random_crop(x, (5, 5))[1])
    assert places[0] == places[1] != places[2]


def test_star_import_brings_the_names_that_mxnets_does():
    """All but ``requests``, ``ss`` (scipy.stats) and ``get_im2rec_path``."""
    names: dict[str, object] = {}
    exec("from hybridjit.test_utils import *", names)
    assert names["mx"] is mx and names["os"] is os and names["npt"] is np.testing
    assert names["OrderedDict"]().__class__ is OrderedDict
    assert names["np_symbol"] is mx.sym.np._Symbol
    assert len(names["Features"]()) == len(mx.runtime.feature_list())


def test_helpers_of_comparisons_and_matrices(monkeypatch):
    utils, tolerances = test_utils, {np.dtype("f2"): 0.5}
    assert (utils.get_etol(), utils.get_etol(3)) == (0, 3)
    assert utils.get_tolerance(np.ones(2, "f2"), None, tolerances) == 0.5
    assert utils.get_tolerance(np.ones(2, "f2"), {np.dtype("f2"): 2.0}, tolerances) == 2
    assert utils.get_tolerance(np.ones(2), 0.25, tolerances) == 0.25
    with pytest.raises(KeyError, match="float64"):
        utils.get_tolerance(np.ones(2), None, tolerances)
    utils.checkShapes(nd.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(AssertionError, match=r"\(2, 3\) and b.shape = \(3,\)"):
        utils.checkShapes(nd.ones((2, 3)), np.ones(3))
    said = utils.locationError(np.ones((2, 2)), np.zeros((2, 2)), (1, 0), ("a", "b"), maxError=True)
    assert said == "Location of maximum error: (1, 0), a=1.00000000, b=0.00000000"
    assert utils.get_identity_mat(3).asnumpy().tolist() == np.eye(3).tolist()
    assert utils.get_identity_mat_batch(3).asnumpy().tolist() == [np.eye(3).tolist()] * 2
    with pytest.raises(ValueError, match=r"received ctx cpu\(0\)"):
        utils.get_cuda_compute_capability(mx.cpu())
    monkeypatch.setenv("CD_JOB", "1")
    assert utils.is_cd_run()
