"""Idle threads take chunks of work from others.

The threads run one after the other here, and their claims are written by hand, so that the
assignment of chunks is known.
"""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from test_listening import POLL, Bound

import hybridjit
from guarded import KERNEL
from hybridjit import nd
from hybridjit.codegen.emit.pool_memory import POLL_SLOTS, QUEUE, RECORD_SLOTS
from hybridjit.gluon import nn
from neighbours import Network, conv, inside, network, pool

# More pieces than any kernel makes of a share; the claims of kernels that make none stay.
_UNTOUCHED = -(10**6)
# Each of so much work that a share of two is eight pieces.
LAYERS = {
    "conv": (conv(256, (1, 1)), (1, 256, 28, 28)),
    "winograd": (inside(conv(64, pad=(1, 1))), (1, 64, 112, 112)),
    "depthwise": (inside(conv(64, (5, 5), num_group=64, pad=(2, 2))), (1, 64, 112, 112)),
    "pool": (pool(kernel=(7, 7), stride=(2, 2), pool_type="avg"), (1, 128, 112, 112)),
}


class Calls:
    """A network's kernels on one set of arrays, for two threads with their claims."""

    def __init__(self, net: Network) -> None:
        self._net, self._bound = net, Bound(net, threads=2)
        self.outputs = self._bound.outputs
        self.kinds = [call.spec.kind for call in self._bound.calls]
        self.claims = (ctypes.c_int64 * (2 * RECORD_SLOTS))()
        self.polls = 0
        self.stops_at = 0
        self._function = POLL(self._polled)
        self._poll = (ctypes.c_void_p * POLL_SLOTS)(ctypes.cast(self._function, ctypes.c_void_p))

    def _polled(self, _: int | None) -> int:
        self.polls += 1
        return self.polls == self.stops_at

    def run(self, number: int, tid: int, threads: int = 2, queued: bool = True) -> None:
        self._poll[QUEUE] = ctypes.addressof(self.claims) if queued else None
        address, args, _ = map(int, self._bound._instance._steps[number])
        KERNEL(address)(args, tid, threads, ctypes.addressof(self._poll))

    def results(self) -> list[np.ndarray]:
        """The written values, which are then discarded."""
        found = [output.copy() for output in self.outputs]
        for output in self.outputs:
            output.fill(np.nan)
        return found

    def alone(self) -> list[np.ndarray]:
        """Each kernel by one thread."""
        self.results()
        for number in range(len(self.kinds)):
            self.run(number, 0, 1, queued=False)
        return self.results()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("pieces", [2, 8])
def test_remaining_chunks_of_a_thread_are_done_by_another(kind, pieces):
    """The second thread has claimed some of its eight chunks; the bits are the same."""
    calls = Calls(network(*LAYERS[kind]))
    wanted = calls.alone()
    for number, name in enumerate(calls.kinds):
        if name != kind:
            calls.run(number, 0, 1, queued=False)
            continue
        calls.claims[RECORD_SLOTS] = -8
        if pieces < 8:  # those that it has claimed itself, it does
            calls.claims[0] = 0
            calls.run(number, 1)
            calls.claims[RECORD_SLOTS] = -pieces
        calls.run(number, 0)
        assert calls.claims[0] >= 0 and calls.claims[RECORD_SLOTS] >= 0
    for found, same in zip(calls.results(), wanted, strict=True):
        np.testing.assert_array_equal(found, same)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_thread_that_has_not_begun_does_its_own(kind):
    """Its claims are those of the step before: its presence is unknown."""
    calls = Calls(network(*LAYERS[kind]))
    wanted = calls.alone()
    for number, name in enumerate(calls.kinds):
        calls.claims[RECORD_SLOTS] = 3
        calls.run(number, 0)
        assert calls.claims[RECORD_SLOTS] == 3
        before = calls.results()
        if name == kind:
            assert any(np.isnan(each).any() for each in before)
        for output, each in zip(calls.outputs, before):
            output[:] = each
        calls.run(number, 1)
    for found, same in zip(calls.results(), wanted, strict=True):
        np.testing.assert_array_equal(found, same)


def test_a_stopped_thread_claims_no_more():
    calls = Calls(network(inside(conv(512, pad=(1, 1))), (1, 512, 56, 56)))
    calls.claims[RECORD_SLOTS] = -8
    calls.stops_at = 1
    calls.run(calls.kinds.index("winograd"), 0)
    assert calls.polls == 1
    assert calls.claims[0] < -1 and calls.claims[RECORD_SLOTS] == -8


def test_little_work_is_not_divided():
    calls = Calls(network(conv(16, (1, 1)), (1, 16, 9, 9)))
    calls.claims[0] = calls.claims[RECORD_SLOTS] = _UNTOUCHED
    wanted = calls.alone()
    for number in range(len(calls.kinds)):
        calls.run(number, 0)
        calls.run(number, 1)
    assert calls.claims[0] == calls.claims[RECORD_SLOTS] == _UNTOUCHED
    for found, same in zip(calls.results(), wanted, strict=True):
        np.testing.assert_array_equal(found, same)


def test_callers_and_workers_that_overlap_give_the_same_bits():
    """More threads than cores: some are held up in the middle of a step, others take its rest."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(64, 7, 2, 3, in_channels=3, activation="relu"), nn.MaxPool2D(3, 2, 1))
        net.add(nn.Conv2D(64, 3, padding=1, in_channels=64, groups=64, activation="relu"))
        net.add(nn.Conv2D(128, 1, in_channels=64), nn.Conv2D(64, 3, padding=1, in_channels=128))
    net.initialize(hybridjit.init.Xavier())
    net.hybridize()
    x = nd.random.uniform(shape=(1, 3, 160, 160))
    with hybridjit.threads(1):
        wanted = net(x).asnumpy()
    different: list[int] = []

    def call(times: int) -> None:
        different.extend(n for n in range(times) if (net(x).asnumpy() != wanted).any())

    with hybridjit.threads(7):
        call(20)
        both = [threading.Thread(target=call, args=(10,)) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
    assert not different
