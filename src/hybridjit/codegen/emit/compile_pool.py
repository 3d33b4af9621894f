"""Compile many kernels: in this process, and in worker processes if there is enough work.

Input: jobs, as they are emitted. Output: each job's object code. LLVM's binding holds one lock, so
threads would not help. Workers are optional: one that cannot be started, dies or hangs costs only
time, because this process compiles every remaining job. Workers end with the compilation that
started them, even if an exception ends it.
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
from ..llvm import LEVEL
from ..llvm.jit import compile_object
from .compile_worker import GREETING, job_frame, read_frame, target_frame, write_frame
from .keys import PACKAGE

# Characters of IR text per worker: about 0.1 s of LLVM's time, the start-up time of a worker.
_WORTH_A_PROCESS = 300_000
# Seconds without a result after which this process repeats jobs that workers have begun.
_PATIENCE = 20.0
# Workers start without site packages, the user's environment, and this package's ``__init__``: they
# need only LLVM's binding, from the location where this process found it.
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
    """A kernel to compile; later its object ``code`` and the ``seconds`` spent on it."""

    label: str
    text: str
    with_passes: int
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
    """Compile all jobs, beginning while they are being emitted.

    processes  maximal number of processes, including this one
    done       called with every compiled job, by the thread that receives its result
    at_once    whether a worker starts before the first job exists, because many are expected

    No worker outlives this call. Raises InternalError for text that LLVM rejects.
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

    Threads communicate only by operations of lists, sets, heaps and queues that are atomic in the
    interpreter: an exception cannot leave a lock held.
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
        self._news: SimpleQueue[None] = SimpleQueue()  # wakes this process
        self._more: SimpleQueue[bool] = SimpleQueue()  # for workers: True is a job, False the end
        self._closed = False
        self._threads: list[Task] = []
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def worker_count(self) -> int:
        """Number of workers that were started."""
        return len(self._threads)

    def start(self) -> None:
        """Start a worker, if workers are possible."""
        if self._most_workers:
            self._start_thread()

    def add(self, job: Job) -> None:
        """Queue a job, longest first; start a worker for every ``_WORTH_A_PROCESS`` characters."""
        self._left.add(job)
        heapq.heappush(self._waiting, (-len(job.text), next(self._numbers), job))
        self._more.put(True)
        self._size += len(job.text)
        if self.worker_count < min(self._size // _WORTH_A_PROCESS, self._most_workers):
            self._start_thread()

    def finish(self) -> None:
        """Compile in this process too, until all jobs are done."""
        while (job := self._next_here()) is not None:
            start = time.perf_counter()
            code = compile_object(job.text, self._target, job.with_passes, job.level)
            self._note(job, code, time.perf_counter() - start)

    def close(self) -> None:
        """Kill all workers; may be called again."""
        self._closed = True
        for _ in range(self._processes):  # a thread may have just started and not be counted yet
            self._more.put(False)
        for process in tuple(self._workers):
            process.kill()
        for thread in self._threads:
            thread.wait(5.0)

    # --- the jobs ---

    def _next_here(self) -> Job | None:
        """A job for this process: a waiting one, else one that a worker has not returned in time.

        Waits in short steps, so that every system handles Ctrl-C.
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
        """Store a job's code. Two processes may have compiled it, with the same result."""
        if job in self._left:
            job.code, job.seconds = code, seconds
            self._done(job)
            self._left.discard(job)
            self._news.put(None)

    def _give_back(self, job: Job) -> None:
        """Return a failed job of a worker, for this process only."""
        self._given_back.append(job)
        self._news.put(None)

    # --- the workers ---

    def _start_thread(self) -> None:
        thread = begin(self._run_worker)
        if thread is None:  # no more threads, or the interpreter is exiting
            self._most_workers = 0
        else:
            self._threads.append(thread)

    def _run_worker(self) -> None:
        """Start a worker, give it jobs, end it."""
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
    """Whether ``sys.executable`` is a Python, not a program that embeds Python."""
    name = Path(sys.executable or "").name
    is_python = re.fullmatch(r"python[\d.]*[a-z]*(\.exe)?", name, re.IGNORECASE) is not None
    return is_python and not getattr(sys, "frozen", False)


def _start_worker() -> subprocess.Popen[bytes] | None:
    """A worker in a separate session: Ctrl-C reaches only this process, which ends its workers."""
    binding = Path(llvmlite.__file__).resolve().parent.parent
    options = ["-I", "-S", "-B"]
    if sys.pycache_prefix:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    try:
        return subprocess.Popen(
            [sys.executable, *options, "-c", _PROGRAM, PACKAGE, str(binding)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError):
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, reap it, and close its pipes."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
