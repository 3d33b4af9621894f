"""Compiled nets in programs with several processes and threads: idle threads, exits and pickles.

Tests that need a separate process run a small Python program.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit.codegen.emit import compile_pool
from hybridjit.codegen.llvm.jit import compile_object
from hybridjit.codegen.llvm.library import Library
from hybridjit.codegen.targets import find_target
from hybridjit.runtime import binding
from hybridjit.runtime.threads import THREADS
from patience import PATIENCE

HAS_FORK = hasattr(os, "fork")


def make_net(units: int = 256) -> gluon.nn.HybridSequential:
    """Enough work in a call that threads share it."""
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(gluon.nn.Dense(units, activation="relu", in_units=300))
        net.add(gluon.nn.Dense(10, in_units=units))
    net.initialize()
    net.hybridize()
    return net


ROWS = np.random.default_rng(0).standard_normal((64, 300)).astype("float32")


def run_file(path: Path, program: str, *words: str) -> str:
    """The output of a program in a file: a spawned process imports the file."""
    path.write_text(program)
    command = [sys.executable, "-W", "error", str(path), *words]
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": "off", "HYBRIDJIT_NUM_THREADS": "2"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IN_PIECES = """
import ctypes, mmap
from hybridjit.codegen.llvm.jit import compile_object
from hybridjit.codegen.targets import find_target
from hybridjit.codegen.llvm.library import Library

CODE = '''
@table = private unnamed_addr constant [2 x double] [double 1.5, double 2.5]
define double @entry(i64 %i) {
  %at = getelementptr [2 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %at
  ret double %x
}
'''
PAGE, FAR, NO_RESERVE = mmap.PAGESIZE, 3 << 30, 0x4000
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def take(size):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return libc.mmap(None, size, 0, flags, -1, 0)

target = find_target()
code = compile_object(CODE, target)
Library([code], target, ["entry"]).close()  # what comes with the first is there
first, size = take(FAR), 1 << 30
while size >= PAGE:  # no room above, but for one page; all other room is below
    place = take(size)
    if place < first:
        libc.munmap(place, size)
        size //= 2
libc.munmap(first + FAR - 2 * PAGE, PAGE)
library = Library([code], target, ["entry"])
print(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(library.address("entry"))(1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="where mmap finds room is known of Linux")
def test_code_is_near_its_constants_where_memory_is_in_pieces(tmp_path):
    assert run_file(tmp_path / "pieces.py", IN_PIECES) == "2.5\n"


POOL = """
import multiprocessing, sys, warnings
warnings.filterwarnings("ignore", message=".*fork")  # Python's own advice: there are threads
import numpy as np
from hybridjit import gluon, nd

rows = np.random.default_rng(1).standard_normal((40, 30)).astype("float32")

def work(task):
    net, first = task
    assert net._cached is None  # code does not travel
    return net(nd.array(rows[first : first + 20])).asnumpy()

if __name__ == "__main__":
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(2000, activation="tanh"), gluon.nn.Dense(5))
    net.initialize()
    net.hybridize()
    whole = net(nd.array(rows)).asnumpy()
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(1) as pool:
            parts = pool.map(work, [(net, 0), (net, 20)])
        assert (np.concatenate(parts) == whole).all(), method
        print(method)
"""


def test_nets_travel_to_other_processes(tmp_path):
    """They pickle (never their code) and give the same bits there, however it was started."""
    methods = ["spawn", *(["forkserver", "fork"] if HAS_FORK else [])]
    assert run_file(tmp_path / "pool.py", POOL, *methods).split() == methods


SERVER = """
import os, signal, sys, threading, warnings
warnings.filterwarnings("ignore", message=".*fork")
import numpy as np
import hybridjit
from hybridjit import gluon, nd

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(1000, activation="tanh"), gluon.nn.Dense(5))
net.initialize()
net.hybridize()
x = nd.array(np.random.default_rng(1).standard_normal((40, 50)))
right = net(x).asnumpy()

def serve():
    signal.alarm(900)
    for _ in range(100):
        if not (net(x).asnumpy() == right).all():
            return 1
    grown = net(x[0:7]).asnumpy()  # a signature that the parent did not compile
    return 0 if (grown == right[:7]).all() else 2

children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        os._exit(serve())
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
"""


@pytest.mark.skipif(not HAS_FORK, reason="this system has no fork")
@pytest.mark.any_cpu
def test_a_fork_while_a_network_that_logs_is_traced_ends(tmp_path):
    """The fork held the lock of ``logging`` and waited for the trace, which needed that lock."""
    program = """if True:
        import os, threading, time, warnings
        import hybridjit as mx
        import logging  # after hybridjit: hooks that were registered last run first before a fork
        warnings.filterwarnings("ignore", message=".*fork")
        begun = threading.Event()

        class Logs(mx.gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                begun.set()
                time.sleep(0.5)  # the fork begins meanwhile
                logging.getLogger("traced").info("tracing")
                return x + 1

        net = Logs()
        net.hybridize()
        thread = threading.Thread(target=net, args=(mx.nd.ones(3),))
        thread.start()
        begun.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(int(net(mx.nd.ones(3)).sum().asscalar()))
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert run_file(tmp_path / "program.py", program) == "6\n"


@pytest.mark.skipif(not HAS_FORK, reason="this system has no fork")
def test_a_server_that_loads_once_and_forks_its_workers(tmp_path):
    assert run_file(tmp_path / "server.py", SERVER) == "[0, 0, 0, 0]\n"


EXIT = """
import sys, threading, time
import numpy as np
from hybridjit import gluon, nd
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(500, activation="tanh"), gluon.nn.Dense(5))
net.initialize()
net.hybridize()
x = nd.array(np.ones((64, 400)))
net(x)
def forever():
    while True:
        net(x)
def compile_forever():
    for width in range(1, 10_000):
        block = gluon.nn.HybridLambda("softmax")
        block.hybridize()
        block(nd.ones((1, width)))
for target in (forever, forever, compile_forever):
    threading.Thread(target=target, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("seconds", ["0", "0.05", "0.2"])
def test_exit_while_daemon_threads_call_and_compile(tmp_path, seconds):
    """It neither hangs nor crashes."""
    assert run_file(tmp_path / "exit.py", EXIT, seconds) == ""


# ---- quiet ---------------------------------------------------------------------------------------


def least_used(work: Callable[[], None]) -> float:
    """Seconds of the processor that the process takes meanwhile: the least of a few times.

    Programs beside this one empty the caches, which costs it some.
    """
    used = []
    for _ in range(5):
        time.sleep(0.05)
        before = time.process_time()
        work()
        used.append(time.process_time() - before)
    return min(used)


def test_nothing_spins_between_calls():
    """Other programs get the cores: after a call, all threads sleep immediately."""
    with mx.threads(3):
        net, x = make_net(), nd.array(ROWS)
        for _ in range(5):
            net(x)
        assert least_used(lambda: time.sleep(0.5)) < 0.01


def test_ten_calls_a_second_take_less_than_a_hundredth_of_a_core():
    with mx.threads(2):
        net, x = make_net(), nd.array(ROWS)
        net(x)

        def ten_calls() -> None:
            for _ in range(10):
                time.sleep(0.1)
                net(x)

        assert least_used(ten_calls) < 0.01 * 10 * 0.1 * 2  # of two threads


def test_one_thread_means_none_but_the_callers(monkeypatch):
    """Neither calling nor packing nor compiling is shared out."""
    monkeypatch.setattr(THREADS, "_pools", {})
    started: list[object] = []
    for module in (binding, compile_pool):
        monkeypatch.setattr(module, "begin", started.append)
    monkeypatch.setattr(threading.Thread, "start", started.append)
    with mx.threads(1):
        net = make_net(8000)
        net(nd.array(ROWS))
    assert started == []
    assert [pool.workers for pool in THREADS._pools.values()] == [0]
    assert THREADS.count >= 1


# ---- the caller's floating-point environment -----------------------------------------------------

_READ = """
target triple = "{triple}"
declare void @llvm.x86.sse.stmxcsr(ptr)
define i32 @mxcsr() {{
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %word = load i32, ptr %place
  ret i32 %word
}}
"""
_FLAGS = 0x3F  # events so far; the rest are expected


@pytest.mark.skipif("x86_64" not in find_target().triple, reason="MXCSR is x86's")
@pytest.mark.parametrize("rounding", [0, 0xC00])
def test_control_word_of_the_caller(rounding):
    """Rounding, masks, flush-to-zero and denormals-are-zero stay as they were."""
    target = find_target()
    code = compile_object(_READ.format(triple=target.triple), target)
    library = Library([code], target, ["mxcsr"])
    read = ctypes.CFUNCTYPE(ctypes.c_uint32)(library.address("mxcsr"))
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    net, x = make_net(), nd.array(ROWS)
    with mx.threads(2):
        net(x)
        assert libm.fesetround(rounding) == 0
        try:
            before = read()
            net(x)
            after = read()
        finally:
            libm.fesetround(0)
    assert after & ~_FLAGS == before & ~_FLAGS
    assert bool(before & 0x6000) == bool(rounding)
