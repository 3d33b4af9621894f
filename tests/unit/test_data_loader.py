"""Batches made by worker processes and threads: order, exceptions, deaths and leftovers."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit.gluon.data import ArrayDataset, DataLoader, SimpleDataset, processes
from patience import PATIENCE, wait_until

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
def test_batches_of_any_structure_arrive_unchanged(way):
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

    with pytest.raises(mx.MXNetError, match="killed by signal 9"):
        list(DataLoader(_Doing(8, die), batch_size=1, num_workers=2, timeout=PATIENCE))


@pytest.mark.parametrize("way", WORKERS, ids=str)
def test_a_slow_batch_times_out(way):
    loader = DataLoader(_Doing(2, lambda i: time.sleep(60)), batch_size=1, timeout=0.2, **way)
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
def test_any_prefetch_gives_all_batches(way, prefetch):
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
    others = set(multiprocessing.active_children())
    loader = DataLoader(SimpleDataset(list(range(8))), batch_size=2, num_workers=2)
    batch = next(iter(loader))
    children = set(multiprocessing.active_children()) - others
    assert len(children) == 2
    del loader
    assert not [child for child in multiprocessing.active_children() if child in children]
    assert batch.asnumpy().tolist() == [0, 1]  # its memory stays
    if before:
        assert set(os.listdir("/dev/shm")) <= before


def test_contradicting_arguments_raise():
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


# ---- interrupts, limits, and ends


def _descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def _interrupt(work, count=25):
    """Call ``work`` until signals at random times came in the middle of ``count`` calls."""
    chance, longest = random.Random(0), 1e-3
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while count:
            began = time.perf_counter()
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, longest))
                work()
                signal.setitimer(signal.ITIMER_REAL, 0)
                longest = time.perf_counter() - began
            except KeyboardInterrupt:
                count -= 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.parametrize("way", WORKERS, ids=str)
@pytest.mark.parametrize("options", [{}, {"prefetch": 50}, {"auto_reload": True}], ids=str)
def test_a_loader_works_after_interrupts(way, options):
    x = np.arange(40 * 3000, dtype=np.float32).reshape(40, 3000)
    loader = DataLoader(x, batch_size=2, timeout=PATIENCE, **way, **options)
    list(loader)
    before = _descriptors()
    _interrupt(lambda: list(loader))
    for _ in range(2):
        assert (np.concatenate([batch.asnumpy() for batch in loader]) == x).all()
    wait_until(lambda: _descriptors() <= before)  # one may be of a batch that arrives


def test_a_loader_works_after_a_workers_exception():
    def fail_once(i, failed=[]):  # noqa: B006 - memory of the worker
        if i == 3 and not failed:
            failed.append(i)
            raise KeyError(i)
        return i

    loader = DataLoader(_Doing(6, fail_once), batch_size=2, num_workers=1)
    with pytest.raises(KeyError):
        list(loader)
    assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


def _run(program, *arguments):
    """Run a program that must end. Its output; the limit is for one that hangs."""
    code = "import resource, hybridjit as mx, numpy as np\nfrom hybridjit.gluon.data import *\n"
    done = subprocess.run(
        [sys.executable, "-c", code + textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("width", [3, 5000])
def test_as_many_batches_ahead_as_one_likes(width):
    """Each side filled the other's buffer, and both waited for room."""
    program = """if True:
        import sys
        x = np.arange(2400.0)[:, None] + np.zeros(int(sys.argv[1]))
        loader = DataLoader(x, 2, num_workers=2, prefetch=1200)
        for _ in range(2):
            print(sum(int(batch[1, 0].asscalar()) for batch in loader))
    """
    assert _run(program, width) == [str(sum(range(1, 2400, 2)))] * 2


def test_long_lists_of_indices_ahead():
    program = """if True:
        loader = DataLoader(
            np.zeros(20_000), num_workers=1, prefetch=40, batch_sampler=[range(20_000)] * 40
        )
        print(sum(len(batch) for batch in loader))
    """
    assert _run(program) == ["800000"]


def test_batches_that_a_program_keeps_hold_no_files():
    program = """if True:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        kept = list(DataLoader(np.arange(600.0)[:, None] + np.zeros(5000), 2, num_workers=2))
        print(len(kept), int(kept[-1][1, 7].asscalar()))
    """
    assert _run(program) == ["300", "599"]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="mappings are not listed")
def test_memory_of_batches_is_given_back():
    program = """if True:
        def mappings():  # of files without a name: in memory, or in the temporary folder
            with open("/proc/self/maps") as file:
                return sum(" rw-s " in line and "(deleted)" in line for line in file)

        loader = DataLoader(np.zeros((40, 5000)), 2, num_workers=2)
        kept = list(loader)
        print(mappings())
        part = kept[3][1:]
        del kept
        print(part.asnumpy().sum(), mappings())
        del part
        print(mappings())
    """
    assert _run(program) == ["20", "0.0", "1", "0"]


def _limit(name, value):
    kind = getattr(resource, name)
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda: _limit("RLIMIT_FSIZE", 4096), "File too large.*RLIMIT_FSIZE.*4096"),
        (lambda: _limit("RLIMIT_NOFILE", 3), "Too many open files.*RLIMIT_NOFILE.*ulimit -n.*3"),
    ],
    ids=["size", "descriptors"],
)
def test_a_worker_without_room_for_its_batch_says_so(do, says):
    def element(i):
        if i == 3:
            do()
        return np.zeros(5000)

    batches = iter(DataLoader(_Doing(4, element), batch_size=1, num_workers=1))
    assert next(batches).shape == (1, 5000)
    with pytest.raises(mx.MXNetError, match=says):
        list(batches)


@pytest.mark.parametrize("kind", [ConnectionResetError, BrokenPipeError, EOFError, SystemExit])
def test_exceptions_that_look_like_a_lost_connection(kind):
    def fail(i):
        raise kind("the data server is gone")

    with pytest.raises(kind, match="the data server is gone"):
        list(DataLoader(_Doing(4, fail), batch_size=1, num_workers=1))


@pytest.mark.parametrize("code", [0, 7])
def test_a_worker_that_leaves_says_how(code):
    loader = DataLoader(_Doing(4, lambda i: os._exit(code)), batch_size=1, num_workers=2)
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match=f"ended with exit code {code}"):
            list(loader)


def test_a_loader_ends_at_once_beside_a_younger_one(monkeypatch):
    """The younger one's processes hold copies of its pipes."""
    monkeypatch.setattr(processes, "_GRACE", PATIENCE)
    loader, _younger = (DataLoader(np.zeros(8), 2, num_workers=2) for _ in range(2))
    workers = loader._workers._workers
    del loader
    assert [worker.process.exitcode for worker in workers] == [0, 0]


@pytest.mark.parametrize("way", WORKERS, ids=str)
def test_a_fork_of_the_program_cannot_use_the_workers(way):
    loader = DataLoader(np.zeros(8), 2, **way)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            list(loader)
        except mx.MXNetError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert f"process {os.getpid()}" in os.read(ours, 1000).decode()
    assert len(list(loader)) == 4
    os.close(ours)
    os.close(theirs)


# ---- loaders of other packages, which extend MXNet's iterator over a pool ------------------------


def _pickled(indices, scale, batchify):
    """A worker's function, as loaders of other packages define it."""
    made = io.BytesIO()
    mx.gluon.data.dataloader.ForkingPickler(made, pickle.HIGHEST_PROTOCOL).dump(
        batchify([nd.array([i * scale]) for i in indices])
    )
    return made.getvalue()


class _Scaling(gluon.data.dataloader._MultiWorkerIter):
    """Batches that are multiplied by their number."""

    def _push_next(self):
        indices = next(self._iter, None)
        if indices is not None:
            arguments = (indices, self._sent_idx, self._batchify_fn)
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(_pickled, arguments)
            self._sent_idx += 1


class _ScalingLoader(DataLoader):
    def __iter__(self):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            yield from _Scaling(
                pool, self._batchify_fn, self._batch_sampler, pin_memory=self._pin_memory,
                pin_device_id=self._pin_device_id, prefetch=self._prefetch,
            )  # fmt: skip


@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_a_subclass_requests_batches_from_its_own_pool(prefetch):
    loader = _ScalingLoader(np.zeros(5), 2, pin_memory=True, pin_device_id=1, prefetch=prefetch)
    batches = list(loader)
    assert [b.asnumpy().ravel().tolist() for b in batches] == [[0, 0], [2, 3], [8]]
    assert {b.context for b in batches} == {mx.cpu_pinned(1)}


def test_a_pool_of_threads_returns_batches_themselves():
    def work(indices, batchify, dataset):
        return batchify([dataset[i] for i in indices])

    order = gluon.data.BatchSampler(gluon.data.SequentialSampler(4), 2)
    with ThreadPool(1) as pool:
        made = gluon.data.dataloader._MultiWorkerIter(
            pool, nd.array, order, worker_fn=work, dataset=[4, 5, 6, 7], prefetch=1
        )
        assert len(made) == 2
        assert [batch.asnumpy().tolist() for batch in made] == [[4, 5], [6, 7]]
        slow = gluon.data.dataloader._MultiWorkerIter(
            pool, nd.array, order, worker_fn=lambda *_: time.sleep(1), dataset=[4], timeout=0.01
        )
        with pytest.raises(multiprocessing.TimeoutError):
            slow.next()
