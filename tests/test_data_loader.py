"""Batches made by worker processes and threads: order, exceptions, deaths and what is left."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit.gluon.data import ArrayDataset, DataLoader, SimpleDataset

WAYS = [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True}]
WORKERS = WAYS[1:]


class _Doing(gluon.data.Dataset):
    """Elements that a function makes where they are asked for."""

    def __init__(self, length, do):
        self._length = length
        self._do = do

    def __len__(self):
        return self._length

    def __getitem__(self, idx):
        return self._do(idx)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_order_is_the_samplers(way):
    def slow_at_first(i):
        time.sleep(0.05 if i < 4 else 0)
        return i

    loader = DataLoader(_Doing(11, slow_at_first), batch_size=2, **way)
    for _ in range(2):
        found = [batch.asnumpy().tolist() for batch in loader]
        assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]
    assert len(loader) == 6


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_pinned_batches_say_so(way):
    dataset = ArrayDataset(np.arange(4.0), np.arange(4))
    for device in (0, 1):
        loader = DataLoader(dataset, 2, pin_memory=True, pin_device_id=device, **way)
        first, _ = list(loader)
        assert [part.context for part in first] == [mx.cpu_pinned(device)] * 2
        assert first[0].asnumpy().tolist() == [0, 1]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_batches_keep_types_and_structure(way):
    x = np.arange(24, dtype=np.float64).reshape(4, 3, 2)
    y = nd.array([1, 2, 3, 4], dtype="int32")
    z = nd.array(np.zeros((4, 0)))
    (batch,) = DataLoader(ArrayDataset(x, y, z), batch_size=4, **way)
    assert isinstance(batch, list) and all(isinstance(part, nd.NDArray) for part in batch)
    assert [np.dtype(part.dtype).name for part in batch] == ["float64", "int32", "float32"]
    assert (batch[0].asnumpy() == x).all() and batch[1].asnumpy().tolist() == [1, 2, 3, 4]
    assert batch[2].shape == (4, 0)
    batch[0][:] = 5  # the consumer's own
    assert (batch[0] + 1).asnumpy().max() == 6


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_what_batchify_makes_arrives(way):
    def batchify(data):
        return {"array": np.array(data), "text": "x" * 300_000, "pair": (nd.array(data), None)}

    (batch,) = DataLoader(SimpleDataset([1.0, 2.0]), 2, batchify_fn=batchify, **way)
    assert type(batch["array"]) is np.ndarray and batch["array"].tolist() == [1, 2]
    assert len(batch["text"]) == 300_000
    assert batch["pair"][0].asnumpy().tolist() == [1, 2] and batch["pair"][1] is None


class _OwnError(Exception):
    pass


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", [KeyError, _OwnError, mx.MXNetError])
def test_a_workers_exception_has_its_type(way, kind):
    def fail(i):
        if i == 5:
            raise kind("five")
        return i

    batches = iter(DataLoader(_Doing(8, fail), batch_size=2, **way))
    assert next(batches).asnumpy().tolist() == [0, 1]
    with pytest.raises(kind, match="five") as caught:
        list(batches)
    if way == WAYS[1]:
        assert "in fail" in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_pickled_is_named():
    class Local(Exception):
        pass

    def fail(i):
        raise Local("here")

    with pytest.raises(mx.MXNetError, match="Local: here"):
        list(DataLoader(_Doing(2, fail), batch_size=2, num_workers=1))


def test_a_worker_that_dies_is_an_error():
    def die(i):
        if i == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    began = time.monotonic()
    with pytest.raises(mx.MXNetError, match="killed by signal 9"):
        list(DataLoader(_Doing(8, die), batch_size=1, num_workers=2))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("way", WORKERS, ids=str)
def test_a_slow_batch_times_out(way):
    loader = DataLoader(_Doing(2, lambda i: time.sleep(1.5)), batch_size=1, timeout=0.2, **way)
    with pytest.raises(multiprocessing.TimeoutError, match=r"0\.2 seconds"):
        next(iter(loader))


@pytest.mark.parametrize("way", WORKERS, ids=str)
def test_leaving_in_the_middle_and_two_rounds_at_once(way):
    loader = DataLoader(SimpleDataset(list(range(20))), batch_size=2, **way)
    for batch in loader:
        assert batch.asnumpy().tolist() == [0, 1]
        break
    pairs = [(a.asscalar(), b.asscalar()) for a, b in zip(_ones(loader), _ones(loader))]
    assert pairs == [(i, i) for i in range(0, 20, 2)]


def _ones(loader):
    for batch in loader:
        yield batch[:1]


@pytest.mark.parametrize("way", WORKERS, ids=str)
@pytest.mark.parametrize("prefetch", [0, 1, 100])
def test_prefetch(way, prefetch):
    loader = DataLoader(SimpleDataset(list(range(7))), 2, prefetch=prefetch, **way)
    assert [len(batch) for batch in loader] == [2, 2, 2, 1]


def test_auto_reload_begins_the_next_round():
    loader = DataLoader(SimpleDataset([1, 2, 3]), 2, num_workers=1, auto_reload=True)
    for _ in range(3):
        assert [batch.asnumpy().tolist() for batch in loader] == [[1, 2], [3]]


def test_workers_draw_different_numbers_that_follow_the_seeds():
    def draw(i):
        return nd.array([nd.random.uniform().asscalar(), np.random.rand(), random.random()])

    def drawn():
        mx.random.seed(1)
        np.random.seed(2)
        random.seed(3)
        loader = DataLoader(_Doing(4, draw), batch_size=1, num_workers=2)
        return np.concatenate([batch.asnumpy() for batch in loader])

    first, second = drawn(), drawn()
    assert len(np.unique(first)) == 12
    assert (first == second).all()


def test_no_process_and_no_file_is_left():
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    loader = DataLoader(SimpleDataset(list(range(8))), batch_size=2, num_workers=2)
    batch = next(iter(loader))
    children = multiprocessing.active_children()
    assert len(children) >= 2
    del loader
    assert not [child for child in multiprocessing.active_children() if child in children]
    assert batch.asnumpy().tolist() == [0, 1]  # its memory stays
    if before:
        assert set(os.listdir("/dev/shm")) <= before


def test_arguments():
    with pytest.raises(ValueError, match="timeout"):
        DataLoader([1], 1, timeout=0)


def test_a_loader_as_a_modules_iterator():
    x, y = np.arange(20.0).reshape(5, 4), np.arange(5)
    batches = mx.contrib.io.DataLoaderIter(DataLoader(ArrayDataset(x, y), 2), label_name="lr_label")
    assert batches.provide_data == [("data", (2, 4))] and batches.batch_size == 2
    for _ in range(2):
        found = list(batches)
        assert [batch.pad for batch in found] == [0, 0, 1]
        assert found[0].data[0].dtype == found[0].label[0].dtype == np.float32
        assert found[2].data[0].asnumpy().tolist() == [[16, 17, 18, 19], [0, 0, 0, 0]]
        assert found[2].label[0].asnumpy().tolist() == [4, 0]
        batches.reset()
    line = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1)
    module = mx.mod.Module(mx.sym.LinearRegressionOutput(line, name="lr"), label_names=["lr_label"])
    module.fit(batches, eval_metric="mse", num_epoch=1)
    assert module.predict(batches).shape == (5, 1)
