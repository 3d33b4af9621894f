"""HYBRIDJIT_PORTABLE=1: functions that Linux alone has are not used, and results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from patience import PATIENCE

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
