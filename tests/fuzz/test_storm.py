"""Interrupts of calls: signals at random times, threads that cannot be made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("count", [2, 4])
def test_interrupts_at_random_times(count):
    """No call hangs or gives other bits, and nothing spins; ``tools/storm.py`` makes a long one."""
    command = [sys.executable, "tools/storm.py", "--interrupts", "1500", "--threads", str(count)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{count} threads: 1500 interrupts" in ran.stdout


FEW = """
import resource
import numpy as np
import hybridjit
from hybridjit import gluon, nd
from hybridjit.runtime.threads import THREADS

net = gluon.nn.Dense(1000)
net.initialize()
net.hybridize()
x = nd.array(np.ones((40, 50)))
with hybridjit.threads(1):
    right = net(x).asnumpy()

def called():
    with hybridjit.threads(4):
        found = net(x).asnumpy()
    assert (found == right).all()
    return [pool.workers for pool in THREADS._pools.values()]

(pages, *_) = open("/proc/self/statm").read().split()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (int(pages) * resource.getpagesize() + (3 << 20), hard))
(few,) = called()
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
print(few < 3, called())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_call_runs_on_as_many_threads_as_the_system_makes():
    """Stacks find no room, and glibc keeps none of threads that ended; later there is room."""
    own = {**os.environ, "GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0"}
    ran = subprocess.run(
        [sys.executable, "-c", FEW],
        cwd=ROOT,
        env=own,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ran.stdout, ran.stderr) == ("True [3]\n", "")
