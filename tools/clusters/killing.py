"""Find a worker of a job that computes, and kill it (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

BUSY = 4.0  # seconds of a CPU: a worker that used them is in the middle of its records
_TICKS = os.sysconf("SC_CLK_TCK")


def kill_a_worker(job: subprocess.Popen[bytes], mark: str) -> str:
    """Kill the first process beside the job's own that has the network and computed for a while.

    Returns its number and CPU time. Raises SystemExit if the job ends before there is one.
    """
    while job.poll() is None:
        for pid in workers(mark):
            if pid != job.pid and (used := cpu_seconds(pid)) >= BUSY:
                os.kill(pid, signal.SIGKILL)
                return f"process {pid} after {used:.1f} s of a CPU"
        time.sleep(0.05)
    raise SystemExit("the job ended before a worker could be killed")


def workers(mark: str) -> Iterator[int]:
    """Processes that inherited the mark and have a compiler loaded."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = mark.encode() in (folder / "environ").read_bytes()
            if is_ours and b"libllvmlite" in (folder / "maps").read_bytes():
                yield int(folder.name)
        except OSError:
            continue  # it ended meanwhile, or is another user's


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
