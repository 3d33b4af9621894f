"""Compiling in worker processes: the same objects, nothing lost whatever happens to a worker."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hybridjit import autograd, compilation, compiler, gluon, nd, sym, threads
from hybridjit._core import background as tasks
from hybridjit._core.config import override
from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.codegen.emit import compile_pool, fetch, generate
from hybridjit.codegen.emit.compile_pool import Job, compile_jobs
from hybridjit.codegen.emit.compile_worker import target_frame, target_of
from hybridjit.codegen.llvm.jit import compile_object
from hybridjit.codegen.targets import find_target
from hybridjit.compiler import new_log, plan_graph
from hybridjit.errors import InternalError
from patience import PATIENCE, wait_until

pytestmark = pytest.mark.usefixtures("nothing_stored")

TARGET = find_target()
BOOT = compile_pool._start_worker


@pytest.fixture(autouse=True)
def eager_to_start_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any work is worth a process, and started ones can be looked at."""
    monkeypatch.setattr(compile_pool, "_WORTH_A_PROCESS", 1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The worker processes of the test; all of them have to be over and collected at its end."""
    found: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes] | None:
        process = BOOT()
        if process is not None:
            found.append(process)
        return process

    monkeypatch.setattr(compile_pool, "_start_worker", start)
    return found


def text(number: int) -> str:
    """IR of one function; later ones are longer."""
    lines = [f"  %v{i + 1} = add i64 %v{i}, {number}" for i in range(number + 1)]
    body = "\n".join(lines)
    return (
        f'target triple = "{TARGET.triple}"\n'
        f"define i64 @f{number}(i64 %v0) {{\n{body}\n  ret i64 %v{number + 1}\n}}\n"
    )


def jobs(count: int = 6) -> list[Job]:
    return [Job(f"f{number}", text(number), bool(number % 2)) for number in range(count)]


def objects(processes: int, work: list[Job]) -> list[bytes]:
    compile_jobs(work, TARGET, processes, lambda job: None)
    return [job.code for job in work]


def instead_of_worker(monkeypatch: pytest.MonkeyPatch, program: str) -> list[subprocess.Popen]:
    """Start ``program`` where a worker is wanted."""
    found: list[subprocess.Popen] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", "-c", program]
        pipe = subprocess.PIPE
        found.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
        return found[-1]

    monkeypatch.setattr(compile_pool, "_start_worker", start)
    return found


def test_workers_make_the_same_objects(started, monkeypatch):
    """This process is kept from compiling until a worker has done all but one."""
    done: list[Job] = []
    here = compile_object

    def when_others_are_done(*args: object) -> bytes:
        wait_until(lambda: len(done) == 5)
        return here(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(compile_pool, "compile_object", when_others_are_done)
    work = jobs()
    compile_jobs(work, TARGET, 3, done.append)
    assert len(started) == 2 and all(process.returncode is not None for process in started)
    assert sorted(job.label for job in done) == [job.label for job in work]
    assert [job.code for job in work] == [here(job.text, TARGET, job.with_passes) for job in jobs()]


def test_one_process_starts_none(started):
    assert all(objects(1, jobs()))
    assert started == []


def test_little_work_starts_none(started, monkeypatch):
    monkeypatch.setattr(compile_pool, "_WORTH_A_PROCESS", 400_000)
    assert all(objects(4, jobs()))
    assert started == []


GREET = "import sys, os; sys.stdout.buffer.write(b'hybridjit worker 1\\n'); sys.stdout.flush();"


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(1)",  # cannot import its dependencies
        "print('Welcome to an application')",
        "import sys; sys.stdout.buffer.write(b'\\xff' * 4000)",
        GREET,  # dies at once
        GREET + "os.read(0, 10); os._exit(1)",  # dies at work
        GREET + "sys.stdout.buffer.write(b'\\xff' * 4000)",  # an object without an end
        GREET + "os.write(1, bytes(8)); os.write(1, bytes(8)); sys.stdin.read()",  # refuses
    ],
)
def test_a_worker_that_is_no_help(monkeypatch, program):
    found = instead_of_worker(monkeypatch, program)
    right = [compile_object(job.text, TARGET, job.with_passes) for job in jobs()]
    assert objects(2, jobs()) == right
    assert found and all(process.returncode is not None for process in found)


def test_a_worker_that_hangs(monkeypatch):
    """It gets a job and never answers: after a while this process does it."""
    monkeypatch.setattr(compile_pool, "_PATIENCE", 0.2)
    found = instead_of_worker(monkeypatch, GREET + "import time; time.sleep(1000)")
    taken = threading.Event()
    next_for_worker = compile_pool._CompilePool._next_for_worker

    def noting(pool: compile_pool._CompilePool) -> Job | None:
        job = next_for_worker(pool)
        taken.set()
        return job

    monkeypatch.setattr(compile_pool._CompilePool, "_next_for_worker", noting)
    work = jobs()

    def emitted() -> Iterator[Job]:
        yield from work
        assert taken.wait(PATIENCE)

    compile_jobs(emitted(), TARGET, 2, lambda job: None)
    assert all(job.code for job in work)
    assert found[0].returncode is not None


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_worker_before_the_first_job(started, processes):
    """One is asked to come, where one may; it is over when nothing was to be done."""

    def emitted() -> Iterator[Job]:
        wait_until(lambda: len(started) == min(processes - 1, 1))
        yield from work

    for work in (jobs(), []):
        compile_jobs(emitted(), TARGET, processes, lambda job: None, at_once=True)
        assert all(job.code for job in work)
        assert all(process.returncode is not None for process in started)
        started.clear()


@pytest.mark.parametrize(
    ("is_stored", "is_large", "expected"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_the_first_large_plans_have_a_worker_at_once(monkeypatch, is_stored, is_large, expected):
    """Not where something is in the cache: then all may be."""
    asked: list[bool] = []

    class Asked(Exception):
        pass

    def fetched(parts, target, processes, at_once):
        asked.append(at_once)
        raise Asked

    monkeypatch.setattr(generate, "_DRIVERS", {})
    monkeypatch.setattr(generate, "load_object", lambda key: b"code" if is_stored else None)
    monkeypatch.setattr(generate, "fetch_objects", fetched)
    with pytest.raises(Asked):
        generate.generate_codes([], False, 2, is_large=is_large)
    assert asked == [expected]


def test_a_process_whose_objects_are_stored_does_not_load_the_pool(tmp_path):
    """Nor the standard library's module of processes, which nothing else needs."""
    program = """
        import sys
        from hybridjit import nd
        nd.softmax(nd.ones((64, 4096))).asnumpy()
        print({"hybridjit.codegen.emit.compile_pool", "subprocess"} & {*sys.modules} != set())
        print("hybridjit.codegen.emit.generate" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": str(tmp_path)}
    said = [subprocess.check_output(command, env=environment, text=True) for _ in range(2)]
    assert said == ["True\nTrue\n", "False\nTrue\n"]


@pytest.mark.parametrize(
    "executable",
    ["", None, "/usr/sbin/uwsgi", "/opt/application.exe", "/nowhere/python3"],
)
def test_an_executable_that_is_no_python(monkeypatch, executable):
    """It is not started, or cannot be."""
    monkeypatch.setattr(sys, "executable", executable)
    assert all(objects(2, jobs()))
    assert compile_pool.can_start_workers() == (executable == "/nowhere/python3")


def test_a_frozen_application(monkeypatch, started):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert all(objects(2, jobs()))
    assert started == []


def test_no_more_processes_or_threads(monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        assert all(objects(2, jobs()))

    def no_thread(*args: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "start_new_thread", no_thread)
        assert all(objects(2, jobs()))


def test_errors_of_llvm_in_workers_are_raised(started):
    work = [*jobs(), Job("bad", "define i64 @f(i64 %x) { ret i32 0 }" * 20, False)]
    with pytest.raises((InternalError, RuntimeError)):
        objects(2, work)
    assert all(process.returncode is not None for process in started)


def test_interrupt_ends_workers_and_the_next_compilation_works(started, monkeypatch):
    """Ctrl-C ends the workers with the compilation, and the next one is as any other."""

    def interrupted(*args: object) -> bytes:
        wait_until(lambda: len(started) == 1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compile_pool, "compile_object", interrupted)
        with pytest.raises(KeyboardInterrupt):
            objects(2, jobs())
    assert started[0].returncode is not None
    assert all(objects(2, jobs()))


class Chain(gluon.nn.HybridSequential):
    """Dense layers of different sizes: a kernel for each."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            for units in range(20, 32):
                self.add(gluon.nn.Dense(units, activation="tanh", in_units=units - 1))


def by_one_process_and_two(run: Callable[[], np.ndarray]) -> None:
    """The same bits, of kernels that are compiled anew each time."""
    results = []
    for processes in (1, 2):
        generate._KERNELS.clear()
        with threads(processes):
            results.append(run())
    np.testing.assert_array_equal(*results)


def test_a_network(started, monkeypatch):
    net, x = Chain(), nd.random.uniform(shape=(2, 19))
    net.initialize()
    monkeypatch.setattr(generate, "_KERNELS", {})

    def run() -> np.ndarray:
        net.hybridize()
        return net(x).asnumpy()

    by_one_process_and_two(run)
    assert len(started) == 1


def test_a_network_that_is_trained(started, monkeypatch):
    """Forward and backward are compiled by the same workers, and give the same bits."""
    net, x = Chain(), nd.random.uniform(shape=(2, 19))
    net.initialize()
    monkeypatch.setattr(generate, "_KERNELS", {})

    def run() -> np.ndarray:
        net.hybridize()
        with override(cache_dir="off"), autograd.record():
            y = net(x)
        y.backward()
        return net[0].weight.grad().asnumpy()

    by_one_process_and_two(run)
    assert len(started) == 1


def test_a_part_is_compiled_while_the_next_is_made(started):
    """Workers have begun with forward when backward is planned."""
    waiting = [fetch.Wanted(f"{i}", partial(text, i), False) for i in range(12)]

    def parts() -> Iterator[fetch.Part]:
        log = new_log()
        yield fetch.Part(waiting[:6], log)
        wait_until(lambda: len(log.details) == 6)
        yield fetch.Part(waiting[6:], new_log())

    with override(cache_dir="off"):
        codes = fetch.fetch_objects(parts(), TARGET, 2)
    assert codes == {w.text: compile_object(text(int(w.text)), TARGET, False) for w in waiting}


IN_CHILD = """
import os, sys, time
from hybridjit.codegen.emit import compile_pool
from hybridjit.codegen.targets import find_target
compile_pool._WORTH_A_PROCESS = 1
target = find_target()
text = 'define i64 @f(i64 %x) { ret i64 %x }'
def work():
    jobs = [compile_pool.Job(str(i), text, False) for i in range(4)]
    compile_pool.compile_jobs(jobs, target, 2, lambda job: None)
    return all(job.code for job in jobs)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", IN_CHILD + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_child_of_a_fork_starts_its_own():
    done = run(
        "assert work()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if work() else 1)\n"
        "print(os.waitpid(pid, 0)[1])\n"
    )
    assert done.stdout == "0\n", done.stderr


EXIT = """
import threading
text = 'define i64 @f(i64 %x) { ' + ''.join(f'%v{i} = add i64 %x, {i} ' for i in range(4000))
text += 'ret i64 %x }'
begun = []
boot = compile_pool._start_worker
compile_pool._start_worker = lambda: begun.append(boot()) or begun[-1]
threading.Thread(target=work, daemon=True).start()
while not begun:
    time.sleep(0.001)
print(begun[0].pid, flush=True)
time.sleep(float(sys.argv[1]))
"""


def test_the_interpreter_exits_while_a_thread_compiles():
    """It does not crash, wherever the thread is; the worker sees the end of its input and ends."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "error", "-c", IN_CHILD + EXIT]
    running = [
        subprocess.Popen([*command, delay], **pipes)  # type: ignore[call-overload]
        for delay in ("0.05", "0.1", "0.15", "0.25")
    ]
    for process in running:
        said, complaint = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, complaint
        worker = int(said)
        wait_until(lambda worker=worker: not is_running(worker))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_ctrl_c_in_the_middle_of_a_network(started):
    """A real signal, at several moments; each time the net works afterwards."""
    for delay in (0.02, 0.1):
        net = Chain()
        net.initialize()
        net.hybridize()
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            # Again after a while: Python ignores exceptions in callbacks of weak references.
            signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
            with threads(2):
                generate._KERNELS.clear()
                for _ in range(10_000):
                    net.hybridize()
                    generate._KERNELS.clear()
                    net(nd.ones((1, 19)))
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("it was not interrupted")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        assert net(nd.ones((1, 19))).shape == (1, 31)
    wait_until(lambda: all(process.poll() is not None for process in started))


def test_a_target_travels_as_data():
    narrow = replace(TARGET, name="sse2", cpu="x86-64", features="", vector_bytes=16)
    (job,) = jobs(1)
    compile_jobs([job], narrow, 1, lambda job: None)
    assert job.code


def test_a_worker_imports_little():
    """Neither NumPy nor the package's front end: it starts in the time of LLVM's binding."""
    asking = compile_pool._PROGRAM.replace(
        "serve()", "print('numpy' in sys.modules, len(sys.modules))"
    )
    package, binding = (
        compile_pool.PACKAGE,
        Path(compile_pool.llvmlite.__file__).resolve().parent.parent,
    )
    command = [sys.executable, "-I", "-S", "-B", "-c", asking, str(package), str(binding)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == "False" and int(said[1]) < 250


def test_a_target_arrives_as_it_was():
    """It is a key in a worker's cache."""
    found = target_of(target_frame(TARGET))
    assert found == TARGET and hash(found) == hash(TARGET)


@pytest.mark.parametrize(("layers", "expected"), [(2, False), (100, True)])
def test_large_networks_ask_for_a_worker_before_their_passes(monkeypatch, layers, expected):
    asked: list[bool] = []

    class Asked(Exception):
        pass

    def generated(plans, options, decide=None, is_large=False):
        asked.append(is_large)
        raise Asked

    def planned(*args):
        raise AssertionError("passes ran before a worker was asked for")

    monkeypatch.setattr(compilation, "generate_all", generated)
    monkeypatch.setattr(compiler, "plan_graph", planned)
    y = sym.var("x")
    for _ in range(layers):
        y = sym.sin(y)
    with pytest.raises(Asked):
        compilation.compile_graph(y.outputs, {"x": TensorType((1, 2), FLOAT32)}, {})
    assert asked == [expected]


def test_kernels_are_chosen_without_garbage_collection(monkeypatch):
    seen: list[bool] = []

    def chosen(step, setting):
        seen.append(gc.isenabled())
        return ()

    monkeypatch.setattr(generate, "choose", chosen)
    y = sym.sin(sym.var("x"))
    plan = plan_graph(y.outputs, {"x": TensorType((1, 2), FLOAT32)}, {}, new_log())
    generate.choose_calls(plan, TARGET, False, new_log())
    assert seen == [False]
    assert gc.isenabled()
