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
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType

import llvmlite

from ...target import Target
from ..llvm.jit import compile_object
from .compile_worker import GREETING, job_frame, read_frame, target_frame, write_frame
from .objects import PACKAGE

# Characters of IR text that are worth a process: about 0.1 s of LLVM's time, which a worker takes
# to start.
_WORTH_A_PROCESS = 400_000
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
from hybridjit.codegen.build.compile_worker import serve
serve()
"""


@dataclass(eq=False)
class Job:
    """A kernel to compile. ``code`` is its object, once ``seconds`` have been spent on it."""

    label: str
    text: str
    with_passes: bool
    code: bytes = b""
    seconds: float = 0.0


class Crew:
    """This process and its workers: ``add`` jobs inside a ``with`` block, then ``finish``.

    processes  how many may work, this one included
    done       called with every job that is compiled, by whichever thread learns of it
    """

    def __init__(self, target: Target, processes: int, done: Callable[[Job], None]) -> None:
        self._target = target
        self._most_workers = processes - 1 if can_start_workers() else 0
        self._done = done
        self._news = threading.Condition()
        self._numbers = count()
        self._waiting: list[tuple[int, int, Job]] = []
        self._with_workers: list[Job] = []
        self._given_back: list[Job] = []
        self._left = 0
        self._size = 0
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all workers, whatever they are doing."""
        with self._news:
            self._closed = True
            self._news.notify_all()
            for process in self._workers:
                process.kill()
        for thread in self._threads:
            thread.join(5.0)

    @property
    def hired(self) -> int:
        """How many workers were asked to help."""
        return len(self._threads)

    def add(self, job: Job) -> None:
        """Longest first; a worker is started for every so much text."""
        with self._news:
            self._left += 1
            self._size += len(job.text)
            heapq.heappush(self._waiting, (-len(job.text), next(self._numbers), job))
            self._news.notify_all()
            wanted = self._size // _WORTH_A_PROCESS
        if self.hired < min(wanted, self._most_workers):
            self._hire()

    def finish(self) -> None:
        """Work here too, until all is done. Raises InternalError for what LLVM refuses."""
        while (job := self._next_here()) is not None:
            start = time.perf_counter()
            code = compile_object(job.text, self._target, job.with_passes)
            self._note(job, code, time.perf_counter() - start)

    # --- the jobs ---

    def _next_here(self) -> Job | None:
        """A job for this process: one that waits, else one that a worker does not come back from.

        Waits in short steps, so that Ctrl-C is heard on every system.
        """
        with self._news:
            patient_until = time.monotonic() + _PATIENCE
            left = self._left
            while self._left:
                if self._given_back:
                    return self._given_back.pop()
                if self._waiting:
                    return heapq.heappop(self._waiting)[2]
                if self._left < left:
                    left, patient_until = self._left, time.monotonic() + _PATIENCE
                if time.monotonic() > patient_until:
                    return self._with_workers[0]
                self._news.wait(0.1)
            return None

    def _next_for_worker(self) -> Job | None:
        with self._news:
            while not self._waiting and self._left and not self._closed:
                self._news.wait()
            if self._closed or not self._left:
                return None
            job = heapq.heappop(self._waiting)[2]
            self._with_workers.append(job)
            return job

    def _note(self, job: Job, code: bytes, seconds: float) -> None:
        with self._news:
            if job.code:
                return
            job.code, job.seconds = code, seconds
            self._left -= 1
            if job in self._with_workers:
                self._with_workers.remove(job)
            self._news.notify_all()
        self._done(job)

    def _give_back(self, job: Job) -> None:
        """A worker did not do it: this process will, and no other worker."""
        with self._news:
            if not job.code:
                self._with_workers.remove(job)
                self._given_back.append(job)
                self._news.notify_all()

    # --- the workers ---

    def _hire(self) -> None:
        thread = threading.Thread(target=self._employ, daemon=True, name="hybridjit-compile")
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is about to exit
            self._most_workers = 0
            return
        self._threads.append(thread)

    def _employ(self) -> None:
        """One worker's life, seen from here."""
        process = _start_worker()
        if process is None:
            return
        with self._news:
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
                write_frame(sink, job_frame(job.text, job.with_passes))
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
