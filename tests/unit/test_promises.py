"""Promises of docs/guarantees.md, on a network that MXNet trained; test_runtime.py has the others.

Tests that need a separate process (fork, written files) run a small Python program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from hybridjit import autograd, gluon, nd
from hybridjit.codegen.emit import compile_pool, generate
from hybridjit.errors import ShapeError
from patience import PATIENCE

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
PREFIX = str(DIGITS / "digits")


@pytest.fixture(scope="module")
def net() -> gluon.SymbolBlock:
    return hybridjit.load(PREFIX)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """float32 [24,1,28,28]: enough work that several threads share it."""
    small = np.load(DIGITS / "digits-test.npz")["images"][:24].astype("float32") / 16
    large = np.kron(small, np.ones((1, 3, 3), "float32"))
    return np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, np.newaxis]


@pytest.fixture(scope="module")
def logits() -> np.ndarray:
    return np.load(DIGITS / "digits-test.npz")["logits"][:24]


def run(net: gluon.SymbolBlock, images: np.ndarray) -> np.ndarray:
    return net(nd.array(images)).asnumpy()


def programs_output(program: str, **settings: str) -> str:
    """The output of a program, run with these images' folder as its only argument."""
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": "off", **settings}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, PREFIX],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- numbers ------------------------------------------------------------------------------------


def test_the_same_numbers_eager_and_compiled(net, images, logits):
    compiled = run(net, images)
    plain = hybridjit.load(PREFIX)
    plain.hybridize(active=False)
    limit = 1e-5 * np.abs(logits).max()
    assert np.abs(compiled - run(plain, images)).max() <= limit
    assert np.abs(compiled - logits).max() <= limit


# ---- processes ----------------------------------------------------------------------------------


FORK = """
import os, signal, sys, threading, warnings
warnings.filterwarnings("ignore", message=".*fork")  # Python's own advice: there are threads
import numpy as np
import hybridjit
from hybridjit import nd
net = hybridjit.load(sys.argv[1])
x = nd.array(np.random.default_rng(0).random((16, 1, 28, 28), "float32"))
before = net(x).asnumpy()
going = True

def compile_shapes():
    batch = 0
    while going:
        batch += 1
        net(nd.ones((batch % 40 + 1, 1, 28, 28)))

def call():
    while going:
        net(x)

def child():
    return bool((net(x).asnumpy() == before).all()) and net(x[0:5]).shape == (5, 10)

def exit_code_of_a_child():
    pid = os.fork()
    if pid == 0:
        signal.alarm(900)  # ends a child that waits for a lock that nobody will release
        good = False
        try:
            good = child()
        finally:
            os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

others = [threading.Thread(target=f, daemon=True) for f in (compile_shapes, call)]
for thread in others:
    thread.start()
print([exit_code_of_a_child() for _ in range(12)])
going = False
for thread in others:
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.any_cpu
def test_fork_while_other_threads_compile_and_call():
    """Children run compiled code of the parent, and compile new graphs."""
    assert programs_output(FORK, HYBRIDJIT_NUM_THREADS="2") == f"{[0] * 12}\n"


# ---- parameters and operators -------------------------------------------------------------------


def compiled_signatures(net: gluon.SymbolBlock) -> int:
    assert net._cached is not None
    return net._cached.graph.cache.compiled


def test_a_parameter_that_changes_takes_effect_and_compiles_nothing(images):
    net = hybridjit.load(PREFIX)
    before = run(net, images)
    count = compiled_signatures(net)
    last = net.collect_params()["digits_fc3_weight"]
    weight = last.data().asnumpy()
    last.set_data(nd.array(2 * weight))
    np.testing.assert_allclose(run(net, images), 2 * before, rtol=1e-6)
    last.data()[0] = 0
    assert (run(net, images)[:, 0] == 0).all() and (run(net, images)[:, 1] != 0).all()
    net.collect_params().load(f"{PREFIX}-0000.params")
    np.testing.assert_array_equal(run(net, images), before)
    assert compiled_signatures(net) == count


@pytest.mark.usefixtures("nothing_stored")
def test_batches_of_1_to_64_compile_at_most_three_sets_of_kernels(monkeypatch):
    """The same bits too: one row of a batch equals the row alone."""
    compiled: list[str] = []
    compile_object = compile_pool.compile_object

    def counted(text: str, *args: object) -> bytes:
        compiled.append(text)
        return compile_object(text, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(compile_pool, "compile_object", counted)
    monkeypatch.setattr(generate, "_KERNELS", {})
    net = hybridjit.load(PREFIX)
    net.hybridize(cache_size=64)
    rows = np.random.default_rng(3).random((64, 1, 28, 28), "float32")
    alone = run(net, rows[:1])
    kinds = len(compiled)
    found = {count: run(net, rows[:count]) for count in range(2, 65)}
    assert len(compiled) <= 3 * kinds and len(compiled) < kinds + 10
    whole = found[64]
    np.testing.assert_array_equal(alone, whole[:1])
    for count, result in found.items():
        np.testing.assert_array_equal(result, whole[:count])


class Mixed(gluon.HybridBlock):
    """Operators with kernels around some that have none."""

    def hybrid_forward(self, F, x):
        y = F.relu(x * 2)
        y = F.cumsum(y, axis=1) + F.cast(F.cast(x, dtype="int32"), dtype="float32")
        return F.softmax(F.gammaln(F.abs(y) + 1))


def test_operators_without_a_kernel_run_between_kernels():
    net, x = Mixed(), nd.random.uniform(-3, 3, shape=(4, 9))
    eager = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-5)


class SizedByValues(gluon.HybridBlock):
    def hybrid_forward(self, F, x, mask):
        return 2 * F.contrib.boolean_mask(F.relu(x), mask)


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}])
def test_a_shape_that_depends_on_values_runs_operator_by_operator(flags, capsys):
    net, x = SizedByValues(), nd.array([[1, -2], [3, 4], [-5, 6]])
    x.attach_grad()
    net.hybridize(**flags)
    with hybridjit.override(explain=True):
        assert net(x, nd.array([1, 0, 1])).asnumpy().tolist() == [[2, 0], [0, 12]]
    assert "_contrib_boolean_mask" in capsys.readouterr().err
    for mask, gradient in (
        ([0, 1, 1], [[0, 0], [2, 2], [0, 2]]),
        ([0, 1, 0], [[0, 0], [2, 2], [0, 0]]),
    ):
        with autograd.record():
            y = net(x, nd.array(mask))
        y.backward()
        assert y.shape == (sum(mask), 2) and x.grad.asnumpy().tolist() == gradient


def test_a_shape_that_depends_on_values_is_refused_by_name_where_code_has_to_be():
    net, arrays = SizedByValues(), (nd.ones((3, 2)), nd.array([1, 0, 1]))
    net.hybridize()
    with pytest.raises(ShapeError, match="boolean_mask.*a shape that depends on values"):
        net.bind(*arrays)


# ---- no surprises -------------------------------------------------------------------------------


def test_denormal_numbers_are_left_alone(net, images):
    run(net, images)
    assert np.float32(1e-40) * np.float32(1) > 0


@pytest.mark.any_cpu
def test_nothing_is_written_but_compiled_objects(tmp_path):
    """Neither sockets nor files, as Python's audit hooks report them."""
    program = """
import sys
seen = []

def listen(event, args):
    if event.startswith("socket."):
        seen.append(event)
    elif event == "open" and isinstance(args[0], str) and set(args[1] or "") & set("wax+"):
        seen.append(args[0])
    elif event in ("os.mkdir", "os.rename"):
        seen.append(str(args[0]))

sys.addaudithook(listen)
import hybridjit
from hybridjit import nd
hybridjit.load(sys.argv[1])(nd.ones((2, 1, 28, 28))).asnumpy()
print("\\n".join(seen))
"""
    settings = {"PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path / "home")}
    assert programs_output(program, **settings).split() == []
    folder = tmp_path / "objects"
    written = programs_output(program, **settings, HYBRIDJIT_CACHE_DIR=str(folder)).split()
    assert written and all(Path(name).is_relative_to(folder) for name in written)
