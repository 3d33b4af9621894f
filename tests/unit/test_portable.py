"""HYBRIDJIT_PORTABLE=1: functions that Linux alone has are not used, and results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from patience import PATIENCE

# Functions and modules of Python that Windows does not have, besides those of Linux alone.
ABSENT = {
    "os": "fork register_at_fork sched_getaffinity getuid geteuid preadv sysconf fchmod",
    "mmap": "PROT_READ PROT_WRITE",
}
WITHOUT = f"""if True:
    import importlib, sys
    import concurrent.futures, logging, multiprocessing.connection, random, tempfile, threading
    import llvmlite.binding, numpy as np
    for module, names in {ABSENT!r}.items():
        for name in names.split():
            delattr(importlib.import_module(module), name)
    sys.modules["resource"] = sys.modules["fcntl"] = None
    import hybridjit as mx
    from hybridjit import autograd, gluon, nd
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(64, activation="relu", in_units=32), gluon.nn.Dense(3, in_units=64))
    net.initialize()
    x = nd.random.uniform(shape=(256, 32))
    eager = net(x).asnumpy()
    net.hybridize()
    assert np.allclose(net(x).asnumpy(), eager, atol=1e-5)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    trainer.step(256)
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x), 128, num_workers=2)
    assert sum(len(batch) for batch in loader) == 256
    net.export("net")
    again = mx.load("net")
    assert (again(x).asnumpy() == net(x).asnumpy()).all()
    assert mx.memory_stats()["peak_resident_bytes"] == 0
"""
PROGRAM = """if True:
    import json, os, sys
    opened = []
    def hook(event, arguments):
        if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/")):
            opened.append(str(arguments[0]))
    sys.addaudithook(hook)
    if os.environ["HYBRIDJIT_PORTABLE"] == "1":
        def absent(*given):
            raise AssertionError(f"a function of Linux is called: {given}")
        os.memfd_create = os.sched_getaffinity = absent
    import numpy as np
    import hybridjit as mx
    from hybridjit import autograd, gluon, nd
    from hybridjit.cli import main
    from hybridjit.runtime.threads import thread_limits
    mx.random.seed(3)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(64, activation="relu", in_units=32), gluon.nn.Dense(3, in_units=64))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.array(np.random.RandomState(1).rand(256, 32))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    trainer.step(256)
    rows = [b.asnumpy().tolist()
            for b in gluon.data.DataLoader(gluon.data.ArrayDataset(x), 128, num_workers=2)]
    stats = mx.memory_stats()
    assert main(["doctor", "--quick", "--json"]) == 0
    print()
    print(json.dumps({"y": net(x).asnumpy().tolist(), "loss": float(loss.asscalar()), "rows": rows,
                      "limits": thread_limits(), "resident": stats["resident_bytes"],
                      "peak": stats["peak_resident_bytes"], "opened": opened}))
"""


def run(portable: bool) -> dict:
    environment = {**os.environ, "HYBRIDJIT_PORTABLE": str(int(portable))}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_functions_that_windows_does_not_have_are_not_needed(tmp_path):
    """Networks, training, a loader with workers, files; the workers are threads there."""
    environment = {**os.environ, "HYBRIDJIT_PORTABLE": "1"}
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the forms of Linux exist on Linux alone")
def test_portable_forms_give_the_same_results():
    portable, usual = run(True), run(False)
    assert portable["opened"] == []
    assert any(path.startswith("/proc/self/") for path in usual["opened"])
    for key in ("y", "loss", "rows"):
        assert portable[key] == usual[key], key
    assert portable["limits"]["cgroup quota"] is portable["limits"]["physical cores"] is None
    assert portable["limits"]["affinity"] == os.cpu_count()
    assert portable["resident"] == 0 and portable["peak"] > 0
