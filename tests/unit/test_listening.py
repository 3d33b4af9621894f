"""Long calls: Ctrl-C is heard in them, kernels that poll everywhere give the same bits."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiling import compiled, has_tiles, var
from guarded import (
    KERNEL,
    at_places,
    by_index,
    of_any_size,
    of_type,
    products_of_any_size,
    strided,
)
from hybridjit._core.config import config
from hybridjit.codegen.kinds import all_emitters
from hybridjit.codegen.llvm import builder
from hybridjit.ir.node import Output
from hybridjit.runtime.instance import Instance
from neighbours import (
    LAYERS,
    LIVE,
    Network,
    dense_of_bytes,
    inside,
    layer,
    live,
    matrices_of_bytes,
    network,
    of_bytes,
    of_nibbles,
    pool_of_bytes,
    table_of_bytes,
)
from patience import PATIENCE
from unoptimised import optimise_nothing

ROOT = Path(__file__).resolve().parent.parent.parent

# ---- signals in calls ----------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys, threading, time, traceback
import numpy as np
import hybridjit
from hybridjit import gluon, nd

class Interrupt(BaseException):
    pass

def interrupt(*_):
    raise Interrupt

def layers(size=200, count=10):
    "Convolutions as in VGG: 0.8 s for each at 200 on one thread of a Zen 4, 0.2 s at 100."
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        for _ in range(count):
            net.add(gluon.nn.Conv2D(512, 3, padding=1, in_channels=512, activation="relu"))
        net.add(gluon.nn.GlobalAvgPool2D())
    return net, nd.ones((1, 512, size, size))

def enormous():
    "One kernel that takes days."
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(gluon.nn.MaxPool2D(3000, 1))
    return net, nd.ones((1, 1, 6000, 6000))

def short():
    net = gluon.nn.Dense(500)
    return net, nd.array(np.random.default_rng(1).standard_normal((64, 300)))

def made(make):
    net, x = make()
    net.initialize()
    net.hybridize()
    return net, x

def latency(run, where="hybridjit/runtime"):
    "Seconds from a signal to the exception of its handler, which comes in a call, not before it."
    "The least of several: a busy machine has other things to do in between."
    signal.signal(signal.SIGALRM, interrupt)
    found = []
    for _ in range(10):
        took = one_latency(run, where)
        found += [] if took is None else [took]
        if found and min(found) < 0.1:
            break
    return min(found)

def one_latency(run, where):
    for _ in range(20):
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            run()
        except Interrupt as error:
            took = time.perf_counter() - start - 0.5
            frames = traceback.extract_tb(error.__traceback__)
            if any(where in frame.filename for frame in frames):
                return took
    return None
"""


def output(program: str, *arguments: str) -> str:
    """The output of a program, which must end without an error."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM + program, *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


HEARD = """
name, way, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
other, y = made(short)
net, x = made({"layers": layers, "enormous": enormous}[name])
with hybridjit.threads(1):
    right = other(y).asnumpy()
with hybridjit.threads(count):
    run = net.bind(x) if way == "bound" else lambda: net(x)
    print(latency(run))
    assert all((other(y).asnumpy() == right).all() for _ in range(8))
    print(latency(run))
"""


@pytest.mark.parametrize(
    "name, way, count, seconds",
    [
        ("layers", "called", 1, 0.5),
        ("layers", "called", 2, 0.5),
        ("layers", "bound", 2, 0.5),
        ("enormous", "called", 1, 1.0),
        ("enormous", "called", 2, 1.0),
    ],
)
def test_ctrl_c_is_heard_in_the_middle_of_a_call(name, way, count, seconds):
    """It takes less than 100 ms, and once in ten times on a busy machine not many times as long."""
    first, second = map(float, output(HEARD, name, way, str(count)).split())
    assert 0 <= first < seconds
    assert 0 <= second < seconds


UNDISTURBED = """
count = int(sys.argv[1])
net, x = made(lambda: layers(100, 3))
heard = []
def note(*_):
    heard.append(threading.current_thread() is threading.main_thread())
signal.signal(signal.SIGALRM, note)
with hybridjit.threads(count):
    right = net(x).asnumpy()
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    found = net(x).asnumpy()
    signal.setitimer(signal.ITIMER_REAL, 0)
assert (found == right).all()
assert len(heard) > 5 and all(heard), len(heard)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_handlers_run_in_the_middle_of_a_call(count):
    """They change nothing if they do not raise."""
    output(UNDISTURBED, str(count))


FORKS = """
net, x = made(lambda: layers(100, 3))
def fork(*_):
    global pid
    pid = os.fork()
with hybridjit.threads(2):
    right = net(x).asnumpy()
    signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        error, found = None, net(x).asnumpy()
    except hybridjit.MXNetError as raised:
        error = str(raised)
    if pid == 0:
        signal.alarm(900)
        good = "forked" in error and (net(x).asnumpy() == right).all()
        os._exit(0 if good else 1)
    assert error is None and (found == right).all()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_a_handler_that_forks_in_the_middle_of_a_shared_call():
    """The child has no workers, and says so; its next call makes some."""
    output(FORKS)


OTHERS = """
net, x = made(lambda: layers(150, 4))
with hybridjit.threads(1):
    right = net(x).asnumpy()
    found = []
    def call():
        found.append((net(x).asnumpy() == right).all())
    thread = threading.Thread(target=call)
    thread.start()
    print(latency(lambda: time.sleep(20), ""))
    thread.join()
assert found == [True]
"""


def test_other_threads_compute_on_when_the_main_thread_is_interrupted():
    assert 0 <= float(output(OTHERS)) < 0.5


# ---- kernels that poll ---------------------------------------------------------------------------

POLL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
Kernel = Callable[[Callable[[], bool]], None]


class Bound:
    """A network's kernels in their order, with the arrays of a call."""

    def __init__(self, net: Network, threads: int = 1) -> None:
        executable = compiled(net.outputs, net.arrays, net.params, options=net.options)
        assert executable.binding is not None
        self.outputs = [np.empty(shape, dtype) for shape, dtype in executable.output_types]
        self._instance = Instance(executable, executable.binding, threads)
        self._instance.connect(*net.inputs, *self.outputs)
        self._executable = executable
        self.calls = [c for row in executable.code.calls for c in row]

    def run(self, number: int, poll: Callable[[], bool]) -> None:
        """All of the kernel's work on one thread; the polled value decides whether to stop."""
        function = POLL(lambda _: poll())
        record = (ctypes.c_void_p * 1)(ctypes.cast(function, ctypes.c_void_p))
        address, args, _ = map(int, self._instance._steps[number])
        KERNEL(address)(args, 0, 1, ctypes.addressof(record))


def some_networks() -> Iterator[Network]:
    """Every kind of kernel that runs without a step in NumPy."""
    for make, shape in LAYERS.values():
        yield network(make, shape, "nothing")
    yield strided(17)
    for name in ("conv3x3", "conv-winograd", "conv-few", "lstm", "deconv"):
        yield live(network(*LIVE[name]))
    yield products_of_any_size(40, 70, 50)
    yield from of_any_size(70)
    yield of_type("float16", 17)
    yield of_bytes(40, (2, 9, 9, 17), pad=(1, 1))
    yield of_bytes(40, (2, 9, 9, 40), num_group=40, pad=(1, 1))
    yield of_bytes(64, (1, 16, 16, 64), pad=(1, 1))
    yield of_bytes(40, (2, 9, 9, 1), (3, 5))
    yield dense_of_bytes(9, 70, 40)
    yield dense_of_bytes(1, 70, 150)
    yield pool_of_bytes((2, 9, 9, 150))
    yield matrices_of_bytes(9, 70, 40)
    yield table_of_bytes(9000)
    yield of_nibbles(9, 48, 40, 16)
    yield from at_places(17)
    yield from by_index(17)
    border = layer("Pad", mode="reflect", pad_width=(0, 0, 0, 0, 2, 1, 1, 2))
    yield network(border, (2, 5, 6, 7))
    yield network(layer("_contrib_box_nms", id_index=0, overlap_thresh=0.0), (2, 17, 6))
    yield network(layer("_detections", threshold=-9.0), (2, 17, 6))
    limits = {"before": 16, "after": 20, "threshold": 0.0}
    yield network(layer("_proposals", **limits), (2, 17, 5))
    yield network(layer("_moments", axis=1), (2, 150, 17))
    yield network(layer("_moments", axis=2), (2, 17, 150))
    yield network(layer("sort"), (2, 40))
    yield network(layer("sort"), (2, 60))


@pytest.fixture
def polling(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, kernels are compiled that poll about every 64 instructions."""

    def begin() -> None:
        monkeypatch.setattr(builder, "QUIET", 64)
        monkeypatch.setattr(builder, "LONG", 64)
        optimise_nothing(monkeypatch.setattr)
        monkeypatch.setattr(config, "cache_dir", "off")

    return begin


def test_kernels_that_poll_everywhere_give_the_same_bits(polling):
    """They are not optimised, which changes no bits either. A kernel that is stopped ends
    immediately.
    """
    nets = list(some_networks())
    right = []
    for net in nets:
        bound = Bound(net)
        for number in range(len(bound.calls)):
            bound.run(number, lambda: False)
        right.append(bound.outputs)
    polling()
    polled: Counter[str] = Counter()
    for net, wanted in zip(nets, right):
        bound = Bound(net)
        counts = [polls_of(bound, number) for number in range(len(bound.calls))]
        for found, array in zip(bound.outputs, wanted):
            np.testing.assert_array_equal(found, array)
        for number, (made, count) in enumerate(zip(bound.calls, counts)):
            polled[made.spec.kind] += count
            for last in {n for n in (1, count // 2, count) if 0 < n <= count}:
                assert polls_of(bound, number, last) == last, made.spec
    kinds = set(all_emitters()) - (set() if has_tiles() else {"byte_tiles"})
    assert set(polled) == kinds and all(count > 3 for count in polled.values()), polled


def polls_of(bound: Bound, number: int, last: int = 0) -> int:
    """How often a kernel polls; poll ``last`` stops it."""
    count = 0

    def poll() -> bool:
        nonlocal count
        count += 1
        return count == last

    bound.run(number, poll)
    return count


def alone(make: Callable[[Output], Output], shape: tuple[int, ...], **others: Any) -> Network:
    arrays = {"x": np.full(shape, 0.5, np.float32), **others}
    return Network([make(var("x"))], arrays, [])


_REGION = np.array([[0, 0, 0, 30, 30]], np.float32)
# Seconds of work in one unit: a graph or data may ask for as much as they like.
HUGE_UNITS = {
    "windows": alone(inside(layer("Pooling", kernel=(300, 300))), (1, 1, 600, 600)),
    "neighbours": alone(layer("LRN", nsize=20_001), (1, 20_000, 1, 4)),
    "a tall filter": alone(
        inside(layer("Convolution", var("w"), kernel=(6000, 1), num_filter=1, no_bias=True)),
        (1, 30, 6001, 128), w=np.ones((1, 30, 6000, 1), np.float32),
    ),
    "samples": alone(
        layer("_contrib_ROIAlign", var("y"), pooled_size=(1, 1), spatial_scale=1.0,
              sample_ratio=1024),
        (1, 2048, 40, 40), y=_REGION,
    ),
    "one place": alone(
        layer("scatter_nd", var("y"), shape=(2, 2)),
        (20_000_000,), y=np.ones((2, 20_000_000), np.float32),
    ),
    "a border": alone(
        layer("Pad", mode="edge", pad_width=(0, 0, 0, 0, 0, 0, 0, 60_000_000)), (1, 1, 1, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE_UNITS)
def test_a_huge_unit_of_work_polls_inside(name):
    """Between two polls are less than 0.1 s of the processor, and not many times as much."""
    bound = Bound(HUGE_UNITS[name])
    for number, made in enumerate(bound.calls):
        times = [time.thread_time()]

        def poll(times: list[float] = times) -> bool:
            times.append(time.thread_time())
            return times[-1] - times[0] > 1

        bound.run(number, poll)
        times.append(time.thread_time())
        longest = max(after - before for before, after in zip(times, times[1:]))
        assert longest < 0.5, (made.spec, longest, len(times))
