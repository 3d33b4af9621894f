"""Work in separate threads: exceptions, threads that cannot start, threads that die."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit._core import background as tasks
from hybridjit._core.background import Task, begin, undisturbed
from patience import PATIENCE


def refusing(function: object, args: object) -> int:
    """The system makes no more threads."""
    raise RuntimeError("can't start new thread")


def dying(function: object, args: object) -> int:
    """A thread ends before it runs anything, as one does that gets no memory for a frame."""
    return 0


def returned(work: Callable[[], object]) -> list[object]:
    """The result or exception of ``work``; raises AssertionError if it does not end."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found, "it does not come to an end"
    return found


def test_background_work_returns_its_result_or_exception():
    assert undisturbed(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        undisturbed(lambda: 1 // 0)


def test_a_task_is_awaited_for_so_long_and_as_often_as_one_likes():
    gate = threading.Event()
    task = Task(lambda: gate.wait(PATIENCE) and None)
    assert not task.wait(0.01)  # it returned, though the task did not
    gate.set()
    assert task.wait(PATIENCE) and task.wait(0.0) and task.wait()


def test_without_threads_the_caller_does_it(monkeypatch):
    monkeypatch.setattr(tasks, "start_new_thread", refusing)
    assert begin(lambda: None) is None
    assert undisturbed(threading.get_ident) == threading.get_ident()


def test_waits_end_if_the_thread_dies(monkeypatch):
    monkeypatch.setattr(tasks, "start_new_thread", dying)
    assert returned(lambda: Task(lambda: None).wait()) == [True]
    (error,) = returned(lambda: undisturbed(lambda: None))
    assert isinstance(error, MemoryError)


@pytest.mark.parametrize("start", [refusing, dying])
def test_a_file_is_read_and_weights_are_packed_without_helping_threads(
    tmp_path, monkeypatch, start
):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(1100, in_units=1000), gluon.nn.Dense(1000, in_units=1100))
    net.initialize()
    net.hybridize()
    x = nd.array(np.ones((2, 1000)))
    right = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    monkeypatch.setattr(tasks, "start_new_thread", start)
    with mx.threads(4):
        (loaded,) = returned(lambda: mx.load(str(tmp_path / "net")))
    for param in loaded.collect_params().values():
        assert param.data().asnumpy().any() or param.name.endswith("bias")
    for param in net.collect_params().values():
        param.set_data(param.data() * 1)
    with mx.threads(4):
        (found,) = returned(lambda: net(x).asnumpy())
    np.testing.assert_array_equal(found, right)
