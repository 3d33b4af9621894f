"""Compile many kernels: in this process, and in worker processes where there is enough to do.

In: jobs, as they are emitted. Out: each job's object code. LLVM's binding holds one lock, so
threads would not help. Workers are a help and never a condition: one that cannot be started, dies
or hangs costs its time and nothing else, for this process takes every job that is left. They end
with the compilation that they were started for, whatever ends it.
"""

from __future__ import annotations

import heapq
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue

import llvmlite

from ..._core.background import Task, begin
from ..._core.target import Target
from ..llvm.jit import LEVEL, compile_object
from .compile_worker import GREETING, job_frame, read_frame, target_frame, write_frame
from .objects import PACKAGE

# Characters of IR text that are worth a process: about 0.1 s of LLVM's time, which a worker takes
# to start.
_WORTH_A_PROCESS = 300_000
# Seconds without any result after which this process does what its workers have begun.
_PATIENCE = 20.0
# Started without site packages and the user's environment, and without this package's own
# __init__: a worker needs LLVM's binding, found where this process found it.
_PROGRAM = """
import sys, types
sys.path.append(sys.argv[2])
package = types.ModuleType("hybridjit")
package.__path__ = [sys.argv[1]]
sys.modules["hybridjit"] = package
from hybridjit.codegen.emit.compile_worker import serve
serve()
"""


@dataclass(eq=False)
class Job:
    """A kernel to compile. ``code`` is its object, once ``seconds`` have been spent on it."""

    label: str
    text: str
    with_passes: bool
    level: int = LEVEL
    code: bytes = b""
    seconds: float = 0.0


def compile_jobs(
    jobs: Iterable[Job],
    target: Target,
    processes: int,
    done: Callable[[Job], None],
    at_once: bool = False,
) -> None:
    """Compile all of them, and begin while they are being emitted.

    processes  how many may work, this one included
    done       called with every job that is compiled, by whichever thread learns of it
    at_once    whether a worker is started before the first job is there, because many will come

    No worker outlives this call. Raises InternalError for what LLVM refuses.
    """
    pool = _CompilePool(target, processes, done)
    try:
        if at_once:
            pool.start()
        for job in jobs:
            pool.add(job)
        pool.finish()
        pool.close()
    except BaseException:
        pool.close()
        raise


class _CompilePool:
    """This process and its workers.

    Threads meet in single operations of lists, sets, heaps and queues, which the interpreter does
    not divide: there is no lock that an exception could leave with anybody.
    """

    def __init__(self, target: Target, processes: int, done: Callable[[Job], None]) -> None:
        self._target = target
        self._processes = processes
        self._most_workers = processes - 1 if can_start_workers() else 0
        self._done = done
        self._numbers = count()
        self._size = 0
        self._waiting: list[tuple[int, int, Job]] = []  # a heap, the longest first
        self._left: set[Job] = set()  # not compiled yet
        self._given_back: list[Job] = []  # by workers that failed
        self._news: SimpleQueue[None] = SimpleQueue()  # for this process: look again
        self._more: SimpleQueue[bool] = SimpleQueue()  # for workers: True is a job, False the end
        self._closed = False
        self._threads: list[Task] = []
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def worker_count(self) -> int:
        """How many workers were asked to help."""
        return len(self._threads)

    def start(self) -> None:
        """Start a worker, if there may be one."""
        if self._most_workers:
            self._start_thread()

    def add(self, job: Job) -> None:
        """Longest first; a worker is started for every so much text."""
        self._left.add(job)
        heapq.heappush(self._waiting, (-len(job.text), next(self._numbers), job))
        self._more.put(True)
        self._size += len(job.text)
        if self.worker_count < min(self._size // _WORTH_A_PROCESS, self._most_workers):
            self._start_thread()

    def finish(self) -> None:
        """Work here too, until all is done."""
        while (job := self._next_here()) is not None:
            start = time.perf_counter()
            code = compile_object(job.text, self._target, job.with_passes, job.level)
            self._note(job, code, time.perf_counter() - start)

    def close(self) -> None:
        """End all workers, whatever they are doing; may be called again."""
        self._closed = True
        for _ in range(self._processes):  # of a thread that was just started nothing is known yet
            self._more.put(False)
        for process in tuple(self._workers):
            process.kill()
        for thread in self._threads:
            thread.wait(5.0)

    # --- the jobs ---

    def _next_here(self) -> Job | None:
        """A job for this process: one that waits, else one that a worker does not come back from.

        Waits in short steps, so that Ctrl-C is heard on every system.
        """
        left, patient_until = 0, 0.0
        while self._left:
            job = self._pop_given_back() or self._pop_waiting()
            if job is not None:
                return job
            if len(self._left) != left:
                left, patient_until = len(self._left), time.monotonic() + _PATIENCE
            if time.monotonic() > patient_until:
                return next(iter(tuple(self._left)), None)
            try:
                self._news.get(timeout=0.1)
            except Empty:
                continue
        return None

    def _pop_given_back(self) -> Job | None:
        while self._given_back:
            job = self._given_back.pop()
            if job in self._left:
                return job
        return None

    def _pop_waiting(self) -> Job | None:
        try:
            return heapq.heappop(self._waiting)[2]
        except IndexError:
            return None

    def _next_for_worker(self) -> Job | None:
        while self._more.get() and not self._closed:
            if (job := self._pop_waiting()) is not None:
                return job
        return None

    def _note(self, job: Job, code: bytes, seconds: float) -> None:
        """A job is done. Two may have done it: then it is noted twice, and the code is the same."""
        if job in self._left:
            job.code, job.seconds = code, seconds
            self._done(job)
            self._left.discard(job)
            self._news.put(None)

    def _give_back(self, job: Job) -> None:
        """A worker did not do it: this process will, and no other worker."""
        self._given_back.append(job)
        self._news.put(None)

    # --- the workers ---

    def _start_thread(self) -> None:
        thread = begin(self._run_worker)
        if thread is None:  # no more threads, or the interpreter is about to exit
            self._most_workers = 0
        else:
            self._threads.append(thread)

    def _run_worker(self) -> None:
        """One worker's life, seen from here."""
        process = None if self._closed else _start_worker()
        if process is None:
            return
        self._workers.append(process)
        if self._closed:
            process.kill()
        try:
            self._hand_out(process)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            _end(process)

    def _hand_out(self, process: subprocess.Popen[bytes]) -> None:
        source, sink = process.stdout, process.stdin
        assert source is not None and sink is not None
        if source.read(len(GREETING)) != GREETING:
            return
        write_frame(sink, target_frame(self._target))
        while (job := self._next_for_worker()) is not None:
            start, code = time.perf_counter(), b""
            try:
                write_frame(sink, job_frame(job.text, job.with_passes, job.level))
                code = read_frame(source)
            finally:
                if code:
                    self._note(job, code, time.perf_counter() - start)
                else:
                    self._give_back(job)
            if not code:
                return


def can_start_workers() -> bool:
    """Whether ``sys.executable`` is a Python: not a program that Python is embedded in."""
    name = Path(sys.executable or "").name
    is_python = re.fullmatch(r"python[\d.]*[a-z]*(\.exe)?", name, re.IGNORECASE) is not None
    return is_python and not getattr(sys, "frozen", False)


def _start_worker() -> subprocess.Popen[bytes] | None:
    """A worker, in a session of its own: Ctrl-C is for this process, which ends its workers."""
    binding = Path(llvmlite.__file__).resolve().parent.parent
    options = ["-I", "-S", "-B"]
    if sys.pycache_prefix:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    try:
        return subprocess.Popen(
            [sys.executable, *options, "-c", _PROGRAM, str(PACKAGE), str(binding)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError):
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, collect it, and close the pipes."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
