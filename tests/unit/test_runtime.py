"""Running compiled nets: the same bits everywhere, threads, forks, parameters, memory, failures."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import platform
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from test_fuzz_graphs import tool

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core.config import override
from hybridjit._core.live_set import LiveSet
from hybridjit.codegen.emit import compile_pool, generate
from hybridjit.errors import InternalError, MXNetError
from hybridjit.gluon import nn
from hybridjit.graph_exec import cached_graph, training
from hybridjit.runtime import cache
from hybridjit.runtime.cache import LEAST_SIGNATURES
from hybridjit.runtime.threads import Pool, threads
from patience import PATIENCE
from recorded import NETWORKS, arrays_of, as_list, block_of

rng = np.random.default_rng(7)


class Joined(gluon.HybridBlock):
    """Branches of a convolution's result: depthwise, pooled, and itself, joined by channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2D(channels, 3, padding=1, in_channels=3)
        self.norm = nn.BatchNorm(in_channels=channels)
        self.each = nn.Conv2D(channels, 3, padding=1, groups=channels, in_channels=channels)
        self.mixed = nn.Conv2D(channels, 3, padding=1, in_channels=channels)
        self.last = nn.Dense(10, in_units=3 * channels)

    def hybrid_forward(self, F, x):
        y = F.relu(self.norm(self.first(x)))
        pooled = F.Pooling(y, kernel=(3, 3), pad=(1, 1), pool_type="avg")
        z = F.concat(self.each(y), pooled, self.mixed(y) + y, dim=1)
        return F.softmax(self.last(F.Pooling(z, global_pool=True, pool_type="avg")))


def filled(net: gluon.Block) -> gluon.Block:
    """The net with parameters drawn at random, hybridized."""
    net.initialize()
    random = np.random.default_rng(3)
    for name, param in net.collect_params().items():
        values = random.normal(0, 0.3, param.shape)
        param.set_data(nd.array(np.abs(values) + 0.5 if name.endswith("var") else values))
    net.hybridize()
    return net


@pytest.fixture(scope="module")
def joined() -> gluon.Block:
    return filled(Joined(20))


@pytest.fixture
def dense() -> gluon.Block:
    net = nn.HybridSequential()
    net.add(nn.Dense(17, activation="relu", in_units=9), nn.Dense(4, in_units=17))
    return filled(net)


def rows(count: int, width: int = 9) -> np.ndarray:
    return np.random.default_rng(count).normal(0, 1, (count, width)).astype(np.float32)


def run(net: gluon.Block, x: np.ndarray) -> np.ndarray:
    return net(nd.array(x)).asnumpy()


def cache_of(net: gluon.Block) -> cached_graph.SignatureCache:
    return net._cached.graph.cache


def in_threads(work: Callable[[int], None], count: int) -> None:
    """``work(i)`` in ``count`` threads that start together; the first error is raised here."""
    start, errors = threading.Barrier(count), []

    def body(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


# --- the same bits ---

IMAGES = np.random.default_rng(1).normal(0, 1, (9, 3, 20, 21)).astype(np.float32)


@pytest.fixture(scope="module")
def alone(joined) -> np.ndarray:
    """The result for each image by itself, on one thread."""
    with threads(1):
        return np.concatenate([run(joined, IMAGES[i : i + 1]) for i in range(9)])


@pytest.mark.parametrize("batch", range(1, 10))
def test_batch_place_and_threads_do_not_change_a_bit(joined, alone, batch):
    for count in range(1, 5):
        with threads(count):
            for first in {0, 9 - batch}:
                part = slice(first, first + batch)
                np.testing.assert_array_equal(run(joined, IMAGES[part]), alone[part])
            turned = run(joined, IMAGES[:batch][::-1].copy())
            np.testing.assert_array_equal(turned[::-1], alone[:batch])


def shifted(array: np.ndarray, nbytes: int) -> np.ndarray:
    """The same array ``nbytes`` behind a cache line."""
    raw = np.empty(array.nbytes + 128, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64 + nbytes
    moved = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


@pytest.mark.parametrize("nbytes", range(0, 64, 4))
def test_threads_batch_and_alignment_do_not_change_a_bit(joined, alone, nbytes):
    """1 to 4 threads, batches of 1 to 9, inputs at every multiple of 4 bytes in a cache line."""
    for batch in range(1, 10):
        given = shifted(IMAGES[:batch], nbytes)
        x = nd.from_numpy(given)
        assert x._data.__array_interface__["data"][0] % 64 == nbytes
        for count in range(1, 5):
            with threads(count):
                np.testing.assert_array_equal(joined(x).asnumpy(), alone[:batch])


def test_floats_at_odd_addresses(joined, alone):
    x = nd.from_numpy(shifted(IMAGES[:2], 1))
    np.testing.assert_array_equal(joined(x).asnumpy(), alone[:2])


# --- many callers ---


def test_32_threads_call_one_net_1000_times():
    """Long enough calls that they meet, and a result of one in another's memory would show."""
    net = nn.HybridSequential()
    net.add(nn.Dense(100, activation="tanh", in_units=9), nn.Dense(90, in_units=100))
    net.add(nn.HybridLambda("softmax"), nn.Dense(4, in_units=90))
    net = filled(net)
    given = [nd.array(rows(8) + i) for i in range(32)]
    wanted = [net(x).asnumpy() for x in given]

    def work(number: int) -> None:
        for _ in range(1000):
            assert (net(given[number])._data == wanted[number]).all()

    in_threads(work, 32)


def test_many_threads_call_one_large_net(joined, alone):
    def work(number: int) -> None:
        first = number % 8
        for _ in range(10):
            found = run(joined, IMAGES[first : first + 2])
            np.testing.assert_array_equal(found, alone[first : first + 2])

    with threads(2):
        in_threads(work, 12)


def test_parameters_change_under_calls(dense):
    """Every call sees one state of the parameters, the old or the new, never a mixture."""
    x = nd.array(rows(2))
    last = dense[1].bias
    states = [nd.array(np.full(4, value, np.float32)) for value in (0.0, 100.0)]
    results = []
    for state in states:
        last.set_data(state)
        results.append(dense(x).asnumpy())
    going = True

    def work(number: int) -> None:
        nonlocal going
        if number == 0:
            for turn in range(60):
                last.set_data(states[turn % 2])
            going = False
        while going:
            found = dense(x).asnumpy()
            assert any((found == result).all() for result in results)

    in_threads(work, 6)


# --- forks ---

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def forking() -> Iterator[None]:
    with warnings.catch_warnings():  # Python's own advice against forks when there are threads
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@needs_fork
def test_child_of_a_fork_computes_the_same(joined, alone, forking):
    with threads(2):
        run(joined, IMAGES)
        pid = os.fork()
        if pid == 0:
            good = False
            try:
                known = (run(joined, IMAGES) == alone).all()
                new = (run(joined, IMAGES[:8, :, :, :]) == alone[:8]).all()
                good = bool(known and new)
            finally:
                os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        np.testing.assert_array_equal(run(joined, IMAGES), alone)


@needs_fork
def test_multiprocessing_by_fork(dense, forking):
    wanted = [run(dense, rows(i)) for i in range(1, 5)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.starmap(run, [(dense, rows(i)) for i in range(1, 5)])
    for mine, right in zip(found, wanted):
        np.testing.assert_array_equal(mine, right)


# --- whose memory is whose ---


def test_outputs_belong_to_the_caller(dense):
    x = nd.array(rows(3))
    first = dense(x)
    kept = first.asnumpy().copy()
    second = dense(nd.array(rows(3) + 1))
    assert not np.shares_memory(first._data, second._data)
    np.testing.assert_array_equal(first.asnumpy(), kept)
    first[:] = 0
    np.testing.assert_array_equal(dense(x).asnumpy(), kept)


class Itself(gluon.HybridBlock):
    """Returns views of its input and one result twice."""

    def hybrid_forward(self, F, x):
        y = F.relu(x)
        return x.reshape((-1,)), F.transpose(x), y, y, F.BlockGrad(x)


FAULTS = """
import resource
from hybridjit import nd
from hybridjit.gluon import nn

net = nn.Dense(1024, flatten=False, in_units=8)
net.initialize()
net.hybridize()
x = nd.ones((320, 8))
for count in (5, 20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        net(x).asnumpy()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only of glibc's malloc")
def test_outputs_do_not_ask_the_system_for_memory_at_every_call():
    """An output of 1.3 MB and its copy are 640 pages: asked for again by each call, 12,800."""
    command = [sys.executable, "-c", FAULTS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert int(run.stdout) < 640


def test_outputs_are_five_arrays_apart_from_the_input():
    net = Itself()
    net.hybridize()
    x = nd.array(rows(3))
    results = net(x)
    for number, result in enumerate(results):
        for other in (x, *results[:number]):
            assert not np.shares_memory(result._data, other._data)
    flat, turned, *_ = (result.asnumpy() for result in results)
    np.testing.assert_array_equal(flat, rows(3).ravel())
    np.testing.assert_array_equal(turned, rows(3).T)


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_are_never_written(name):
    net = block_of(name)
    net.hybridize()
    inputs, _ = arrays_of(name)
    before = [x.asnumpy().copy() for x in inputs]
    for x in inputs:
        x._data.flags.writeable = False
    first, second = as_list(net(*inputs)), as_list(net(*inputs))
    for x, copy in zip(inputs, before):
        np.testing.assert_array_equal(x.asnumpy(), copy)
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(0, 7, 8), (2, 0, 8)])
def test_layers_without_elements_are_not_merged(shape):
    """Several dense layers on the same data, which keep the axes before the last one."""

    class Attention(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.q, self.k, self.v = (nn.Dense(16, flatten=False, in_units=8) for _ in range(3))

        def hybrid_forward(self, F, x):
            weights = F.softmax(F.batch_dot(self.q(x), self.k(x), transpose_b=True))
            return F.batch_dot(weights, self.v(x))

    net = filled(Attention())
    assert run(net, np.zeros(shape, np.float32)).shape == (*shape[:2], 16)


def test_objects_begin_to_live_during_an_iteration():
    class Thing:
        """An object that can be referred to weakly."""

    kept, found = [Thing()], LiveSet()
    found.add(kept[0])
    for _ in found:
        kept.append(Thing())
        found.add(kept[-1])
    for _ in range(5000):
        found.add(Thing())
    assert set(found) == set(kept)
    assert len(found._refs) < 1000


@pytest.mark.parametrize("count", [0, 1, 3])
def test_zero_size_batches(joined, dense, count):
    assert run(dense, rows(count)).shape == (count, 4)
    assert run(joined, IMAGES[:count]).shape == (count, 10)
    assert run(filled(nn.GlobalMaxPool2D()), IMAGES[:count]).shape == (count, 3, 1, 1)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.astype(">f4"),
        lambda a: a[::-1][::-1],
        lambda a: np.asfortranarray(a),
        lambda a: a.T.copy().T,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: _read_only(a),
        lambda a: a.astype(np.float64),
    ],
    ids=["big-endian", "reversed", "fortran", "transposed", "strided", "read-only", "float64"],
)
def test_numpy_arrays_of_every_make(dense, view):
    x = rows(5)
    wanted = run(dense, x)
    np.testing.assert_array_equal(dense(nd.array(view(x), dtype="float32")).asnumpy(), wanted)
    if view(x).dtype != x.dtype:
        return
    if view(x).flags.c_contiguous:
        np.testing.assert_array_equal(dense(nd.from_numpy(view(x))).asnumpy(), wanted)
    else:
        with pytest.raises(ValueError, match="c-contiguous"):
            nd.from_numpy(view(x))


def _read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


# --- parameters ---


def test_weights_change_in_every_cached_signature(dense, tmp_path):
    """set_data, load_parameters, in-place writes and initialisation, at three batch sizes."""

    def results() -> list[np.ndarray]:
        return [run(dense, rows(count)) for count in (1, 2, 5)]

    def right() -> list[np.ndarray]:
        w0, b0, w1, b1 = (p.data().asnumpy() for p in dense.collect_params().values())
        return [np.maximum(rows(count) @ w0.T + b0, 0) @ w1.T + b1 for count in (1, 2, 5)]

    before = results()
    dense.save_parameters(str(tmp_path / "net.params"))
    weight = dense[0].weight
    changes: list[Callable[[], object]] = [
        lambda: weight.set_data(weight.data() * 2),
        lambda: weight.data().__setitem__(slice(3, 5), -1.0),
        lambda: weight.data().__iadd__(0.25),
        lambda: dense.initialize(mx.init.Constant(0.1), force_reinit=True),
        lambda: dense.load_parameters(str(tmp_path / "net.params")),
    ]
    last = before
    for change in changes:
        change()
        now = results()
        for mine, old, wanted in zip(now, last, right()):
            assert (mine != old).any()
            np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)
        assert cache_of(dense).compiled <= 3
        last = now
    for mine, right in zip(last, before):
        np.testing.assert_array_equal(mine, right)


def test_the_users_own_array_is_not_the_packed_weight(dense):
    x = nd.array(rows(2))
    mine = nd.array(np.ones((4, 17), np.float32))
    dense[1].weight.set_data(mine)
    before = dense(x).asnumpy()
    mine[:] = 0
    np.testing.assert_array_equal(dense(x).asnumpy(), before)


# --- the cache ---


@pytest.fixture
def compilations(monkeypatch) -> list[dict]:
    """The input types of every compilation from here on."""
    seen: list[dict] = []

    def counting(original):
        def compile_and_note(outputs, inputs, *args, **kwargs):
            seen.append(dict(inputs))
            return original(outputs, inputs, *args, **kwargs)

        return compile_and_note

    for name in ("load_or_compile", "compile_variant"):
        monkeypatch.setattr(cached_graph, name, counting(getattr(cached_graph, name)))
    return seen


def test_one_signature_compiles_once(dense, compilations):
    for _ in range(3):
        for count in (1, 2):
            run(dense, rows(count))
    assert [str(types["data"]) for types in compilations] == ["f32[1,9]", "f32[s0,9]"]
    for param in dense.collect_params().values():
        param.set_data(param.data() * 2)
    run(dense, rows(1)), run(dense, rows(2))
    assert len(compilations) == 2


def test_first_calls_from_many_threads_compile_once(dense, compilations):
    wanted = run(dense, rows(2))
    dense.hybridize()
    compilations.clear()
    found: list[np.ndarray] = []
    in_threads(lambda number: found.append(run(dense, rows(2))), 8)
    assert len(compilations) == 1 and len(found) == 8
    for result in found:
        np.testing.assert_array_equal(result, wanted)


def test_cache_is_bounded_and_gives_code_back(monkeypatch, caplog):
    """By bytes, of which there are none here: 16 signatures are kept whatever they hold."""
    monkeypatch.setattr(cache, "KEPT_BYTES", 0)
    net = nn.HybridLambda(lambda F, x: F.log_softmax(F.sin(x) * 3))
    net.hybridize(dynamic=False)
    kernels: list[weakref.ref] = []
    for width in range(1, LEAST_SIGNATURES + 4):
        run(net, rows(2, width))
        entry = list(cache_of(net)._entries.values())[-1]
        kernels += map(weakref.ref, entry.executable.code.kernels.values())
    assert len(cache_of(net)) == LEAST_SIGNATURES
    (said,) = [record.getMessage() for record in caplog.records if record.name == "hybridjit"]
    assert "more signatures (shapes and dtypes) than are kept: 16" in said
    gc.collect()
    assert kernels[1]() is None, "the code of the oldest signature is still there"
    assert kernels[-1]() is not None
    del net, entry
    gc.collect()
    assert all(kernel() is None for kernel in kernels)


def test_small_signatures_are_kept_in_large_numbers(caplog):
    net = nn.HybridLambda(lambda F, x: F.sin(x) * 3)
    net.hybridize(dynamic=False)
    for _ in range(2):
        for width in range(1, 60):
            run(net, rows(2, width))
    assert cache_of(net).compiled == len(cache_of(net)) == 59
    for entry in cache_of(net)._entries.values():
        assert 0 < entry.nbytes < 1 << 18
    assert not caplog.records


def test_training_keeps_small_signatures_in_large_numbers(monkeypatch):
    compilations: list[str] = []
    compile_training = training.compile_training

    def counted(*args, name, **kwargs):
        compilations.append(name)
        return compile_training(*args, name=name, **kwargs)

    monkeypatch.setattr(training, "compile_training", counted)
    net, loss = filled(nn.Dense(3, in_units=4)), gluon.loss.L2Loss()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = mx.train_step(net, loss, trainer)
    made = []
    for _ in range(2):
        compilations.clear()
        for count in range(1, 30):
            x, label = nd.ones((count, 4)), nd.ones((count, 3))
            step(x, label)
            with autograd.record():
                value = loss(net(x), label)
            value.backward()
        made.append(len(compilations))
    assert len(step._ready) == 29
    assert made[1] == 0


def test_cache_size_is_the_users(capsys):
    net = nn.HybridLambda(lambda F, x: F.tanh(x) * 5)
    net.hybridize(cache_size=2, dynamic=False)
    with override(explain=True):
        for width in (3, 4, 3, 5, 3, 4):
            run(net, rows(2, width))
    assert len(cache_of(net)) == 2 and cache_of(net).compiled == 4  # 4 was not used for longest
    assert capsys.readouterr().err.count("forgets its oldest signature") == 2
    for size in (0, -1, 2.5, True, "8"):
        net.hybridize(cache_size=size)
        with pytest.raises(ValueError, match="cache_size"):
            run(net, rows(2, 3))


def test_a_signature_that_goes_gives_all_of_its_memory_back():
    """Its arena, and weights that no other signature packs alike; memory of others stays."""
    gc.collect()  # leftovers of earlier tests
    net = filled(nn.Dense(32, in_units=500))
    net.hybridize(cache_size=1)
    before = mx.memory_stats()
    run(net, np.ones((1, 500), np.float32))
    one = mx.memory_stats()
    assert one["executables"] == before["executables"] + 1
    assert one["packed_bytes"] >= before["packed_bytes"] + 32 * 500 * 4
    for count in range(2, 30):
        run(net, np.ones((count, 500), np.float32))
    many = mx.memory_stats()
    assert many["executables"] == one["executables"]
    # A variant keeps a packing for each of its classes of sizes: on narrow vectors there are two.
    assert many["packed_bytes"] <= one["packed_bytes"] + 32 * 500 * 4 + 64
    for count in range(2, 30):
        run(net, np.ones((count, 500), np.float32))
    assert mx.memory_stats()["packed_bytes"] == many["packed_bytes"]
    del net
    gc.collect()
    after = mx.memory_stats()
    same = ("executables", "packed_bytes", "arena_bytes")
    assert [after[name] for name in same] == [before[name] for name in same]


def test_weights_that_no_signature_packs_so_any_more_go():
    """One row of data wants more columns together than many rows do."""
    net = filled(nn.Dense(128, in_units=9))
    net.hybridize(cache_size=1)
    run(net, rows(1))
    (entry,) = cache_of(net)._entries.values()
    weights = [weakref.ref(array) for array in entry.executable.binding.arrays()]
    del entry
    run(net, rows(40))
    gc.collect()
    assert None in [weight() for weight in weights]


def test_signatures_share_equally_packed_weights():
    net = filled(nn.Conv2D(64, 1, in_channels=64))
    run(net, np.ones((1, 64, 9, 9), np.float32))
    one = mx.memory_stats()["packed_bytes"]
    for side in (11, 13, 17):
        run(net, np.ones((1, 64, side, side), np.float32))
    assert mx.memory_stats()["packed_bytes"] == one


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux says what is mapped")
def test_many_signatures_do_not_grow_the_process():
    """tools/soak.py does the same 5,000 times: here memory may still settle."""
    net = nn.HybridLambda("softmax")  # a kernel for every width
    net.hybridize(cache_size=4)

    def mapped() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    for width in range(1, 11):
        run(net, rows(3, width))
    own_bytes = tool("soak").own_bytes
    start, own = mapped(), own_bytes()
    for width in range(11, 36):
        run(net, rows(3, width))
    gc.collect()
    assert mapped() <= start + 12  # a library takes 4; 25 libraries would be 100
    assert own_bytes() < own + (3 << 20)


def test_hybridizing_again_gives_code_back(dense):
    run(dense, rows(2))
    executable = weakref.ref(next(iter(cache_of(dense)._entries.values())).executable)
    dense.hybridize()
    gc.collect()
    assert executable() is None


def test_explanation_of_a_recompilation(dense, capsys):
    with override(explain=True):
        run(dense, rows(8))
        run(dense, rows(8))
        run(dense, rows(5))
        dense(nd.array(rows(5)))
    lines = [line for line in capsys.readouterr().err.splitlines() if "compile " in line]
    assert lines == [
        "compile graph: data f32[8,9]",
        "recompile graph: input 'data' changed f32[8,9] -> f32[5,9]  (signature 2)",
    ]


# --- training, and failures ---


def test_training_mode_is_seen_at_every_call():
    net = nn.HybridSequential()
    net.add(nn.Dense(64, in_units=9), nn.Dropout(0.5), nn.BatchNorm(in_channels=64))
    net = filled(net)
    x = nd.array(rows(6))
    wanted = net(x).asnumpy()
    with autograd.train_mode():
        trained = net(x).asnumpy()
    assert (trained != wanted).any() and (trained != net(x).asnumpy()).any()
    with autograd.record():
        assert (net(x).asnumpy() != wanted).any()
        with autograd.predict_mode():
            again = net(x).asnumpy()
    assert again.shape == wanted.shape


@pytest.mark.usefixtures("nothing_stored")
def test_a_failed_compilation_leaves_the_net_usable(monkeypatch):
    net = filled(nn.Dense(23, in_units=9))
    known = run(net, rows(4))

    def fail(*args: object) -> bytes:
        raise InternalError("bug in hybridjit: planted")

    with monkeypatch.context() as patch:
        patch.setattr(compile_pool, "compile_object", fail)
        patch.setattr(generate, "_KERNELS", {})
        with pytest.raises(InternalError, match="planted"):
            run(net, rows(3))
        np.testing.assert_array_equal(run(net, rows(4)), known)
    np.testing.assert_array_equal(run(net, rows(4)), known)
    np.testing.assert_array_equal(run(net, rows(4)[:3]), known[:3])


def test_inputs_that_do_not_fit_leave_the_net_usable(joined, alone):
    run(joined, IMAGES[:1])
    for bad in (IMAGES[:, :2], IMAGES[0], IMAGES.astype(np.float64)):
        with pytest.raises(MXNetError, match="Error in operator Convolution"):
            joined(nd.array(bad, dtype=bad.dtype))
    np.testing.assert_array_equal(run(joined, IMAGES[:1]), alone[:1])


def test_an_error_in_a_host_step_leaves_the_net_usable(monkeypatch):
    net = nn.HybridLambda(lambda F, x: F.cumsum(F.relu(x)) * 2)
    net.hybridize()
    wanted = run(net, rows(3))
    executable = next(iter(cache_of(net)._entries.values())).executable

    def fail(*args: object) -> None:
        raise MemoryError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(executable, "run_host", fail)
        with pytest.raises(MemoryError, match="planted"):
            run(net, rows(3))
    np.testing.assert_array_equal(run(net, rows(3)), wanted)


_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def pool_and_driver() -> Pool:
    """A separate pool, with the loaded driver."""
    net = gluon.nn.Dense(3)
    net.initialize()
    net.hybridize()
    net(nd.ones((2, 2)))
    return Pool(next(iter(cache_of(net)._entries.values())).executable.code.driver)


def test_callers_at_the_same_time_share_the_threads():
    """A call during another call takes no thread from it, and gets its share of those that
    are free; later calls have all again.
    """
    pool = pool_and_driver()
    used: list[tuple[str, int, int]] = []
    second_runs, end_second = threading.Event(), threading.Event()

    @_KERNEL
    def kernel(number: int | None, tid: int, threads: int, poll: int) -> None:
        name = chr(number or 0)
        used.append((name, tid, threads))
        if name == "a" and tid == 0:
            second.start()
            assert second_runs.wait(PATIENCE)
        if name == "b":
            second_runs.set()
            assert end_second.wait(PATIENCE)

    def call(name: str) -> None:
        steps = (ctypes.c_int64 * 2)(ctypes.cast(kernel, ctypes.c_void_p).value, ord(name))
        pool.run(ctypes.addressof(steps), 0, 1, 4)

    second = threading.Thread(target=call, args=("b",))
    call("a")
    call("c")
    end_second.set()
    second.join()
    call("d")
    parts = {"a": 4, "b": 1, "c": 2, "d": 4}
    assert sorted(used) == [(name, tid, n) for name, n in parts.items() for tid in range(n)]
    assert pool.workers == 3


def empty_cache(folder: Path, knows_the_cpu: bool) -> dict[str, str]:
    """Variables of a process whose cache holds no objects, or only the facts of this CPU."""
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": str(folder)}
    if knows_the_cpu:
        finding = "from hybridjit.codegen.targets import find_target; find_target()"
        subprocess.run([sys.executable, "-c", finding], env=environment, check=True)
    return environment


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's here")
@pytest.mark.parametrize("free", [20, 130, 185, 220, 300])
@pytest.mark.parametrize("knows_the_cpu", [False, True])
@pytest.mark.any_cpu
def test_a_first_call_without_room_for_the_compiler_says_so(free, knows_the_cpu, tmp_path):
    """LLVM's library was "not found", or LLVM ended the process."""
    environment = empty_cache(tmp_path, knows_the_cpu)
    program = f"""if True:
        import resource
        import hybridjit as mx
        net = mx.gluon.nn.Dense(3, in_units=4)
        net.initialize()
        eager = net(mx.nd.ones((2, 4)))
        net.hybridize()
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + ({free} << 20)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        for kind in (MemoryError, mx.MXNetError):
            try:
                net(mx.nd.ones((2, 4)))
            except kind as error:
                print(error)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        assert abs(net(mx.nd.ones((2, 4))) - eager).max().asscalar() < 1e-5
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 2 and all("too little memory to load the compiler" in s for s in said)
    assert all("RLIMIT_AS" in text and "do not hybridize" in text for text in said)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's here")
@pytest.mark.parametrize("free", [4, 24, 48, 90])
@pytest.mark.any_cpu
def test_a_later_compilation_without_room_says_so(free, tmp_path):
    """The C library or LLVM ended the process."""
    program = f"""if True:
        import resource
        import hybridjit as mx
        nets = [mx.gluon.nn.Dense(3, in_units=4), mx.gluon.nn.Conv2D(5, 3, in_channels=2)]
        for net in nets:
            net.initialize()
            net.hybridize()
        x = mx.nd.ones((2, 4))
        right = nets[0](x)
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + ({free} << 20)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            nets[1](mx.nd.ones((1, 2, 9, 9)))
        except MemoryError as error:
            print(error)
        assert (nets[0](x) == right).asnumpy().all()
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        nets[1](mx.nd.ones((1, 2, 9, 9)))
    """
    command = [sys.executable, "-c", program]
    environment = empty_cache(tmp_path, knows_the_cpu=True)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "there is too little memory to compile" in done.stdout and "RLIMIT_AS" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's here")
@pytest.mark.parametrize("knows_the_cpu", [False, True])
@pytest.mark.any_cpu
def test_commands_without_room_for_the_compiler_say_so(knows_the_cpu, tmp_path):
    environment = empty_cache(tmp_path, knows_the_cpu)
    program = """if True:
        import resource, sys
        from hybridjit.cli import main
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (60 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        shape = ["--shape", "data=1,1,28,28"]
        print(main(["doctor", "--quick"]), main(["bench", sys.argv[1], *shape]))
    """
    model = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits"
    command = [sys.executable, "-c", program, str(model)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "1 1" and "Traceback" not in done.stderr
    assert "too little memory to load the compiler" in done.stdout  # doctor's table
    assert "too little memory to load the compiler" in done.stderr
