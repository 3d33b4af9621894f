"""Products of bytes in the tile registers of AMX: the bits of vectors, in any layout and thread."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hybridjit as mx
from compiling import compiled, run_reference
from hybridjit._core.config import override
from hybridjit.codegen import targets
from hybridjit.codegen.kinds.byte_tiles.spec import ByteTilesSpec
from hybridjit.codegen.targets import find_target
from neighbours import Network, dense_of_bytes, of_bytes
from patience import PATIENCE

needs_tiles = pytest.mark.skipif(not find_target().has_tiles, reason="this CPU has no AMX")
FEATURES = "+avx512f,+avx512vl,+avx512vnni,+amx-tile,+amx-int8,+amx-bf16"
LAYERS = {
    "1x1": of_bytes(70, (2, 7, 9, 64), (1, 1)),
    "1x1, columns apart": of_bytes(16, (1, 9, 21, 64), (1, 1), stride=(2, 2)),
    "3x3": of_bytes(48, (2, 10, 33, 20), pad=(1, 1)),
    "3x3, columns apart": of_bytes(33, (1, 19, 31, 64), pad=(1, 1), stride=(2, 2)),
    "3x3, taps apart": of_bytes(32, (1, 13, 17, 48), pad=(2, 2), dilate=(2, 2)),
    "3x3, inside": of_bytes(32, (1, 9, 18, 32)),
    "5x2": of_bytes(17, (1, 12, 14, 24), (5, 2), pad=(2, 1)),
    "7x7 of pixels": of_bytes(32, (1, 23, 23, 3), (7, 7), pad=(3, 3), stride=(2, 2)),
    "rows": dense_of_bytes(37, 192, 70),
    "few rows": dense_of_bytes(5, 256, 16),
    "rows of odd length": dense_of_bytes(16, 62, 33),
}


def specs_of(net: Network, target: str = "") -> list[ByteTilesSpec]:
    with override(target=target):
        calls = compiled(net.outputs, net.arrays, net.params).code.calls
    return [c.spec for row in calls for c in row if isinstance(c.spec, ByteTilesSpec)]


def run(net: Network, target: str = "") -> np.ndarray:
    with override(target=target):
        executable = compiled(net.outputs, net.arrays, net.params)
    return executable(net.inputs)[0].copy()


@needs_tiles
@pytest.mark.parametrize("name", LAYERS)
def test_sums_in_tiles_have_the_bits_of_sums_in_vectors(name):
    net = LAYERS[name]
    with override(target=""):
        assert len(specs_of(net)) == 1
    assert specs_of(net, "avx512") == []
    found = run(net)
    assert found.tobytes() == run(net, "avx512").tobytes()
    np.testing.assert_array_equal(found, run_reference(net.outputs, net.arrays)[0])


@needs_tiles
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_that_share_a_strip_give_the_same_bits(threads):
    net, before = of_bytes(160, (3, 30, 31, 64), pad=(1, 1)), mx.get_num_threads()
    right = run(net, "avx2")
    try:
        mx.set_num_threads(threads)
        np.testing.assert_array_equal(run(net, "native"), right)
    finally:
        mx.set_num_threads(before)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_host_whose_system_refuses_tiles_is_one_without_them(monkeypatch, is_allowed):
    facts = SimpleNamespace(triple="x86_64-unknown-linux-gnu", cpu="any", features=FEATURES)
    monkeypatch.setattr(targets, "machine_facts", lambda: facts)
    monkeypatch.setattr(targets.permission, "allows_tiles", lambda: is_allowed)
    host = targets.find_target.__wrapped__("")
    assert host.has_tiles is is_allowed and host.name == ("amx" if is_allowed else "avx512")
    assert host.has_quads and ("+amx" in host.features) is is_allowed
    if not is_allowed:
        with pytest.raises(ValueError, match="'amx': the system refuses .* signal stack"):
            targets.find_target.__wrapped__("amx")


def test_a_host_with_tiles_imitates_one_without_and_requests_none(monkeypatch):
    facts = SimpleNamespace(triple="x86_64-unknown-linux-gnu", cpu="any", features=FEATURES)
    monkeypatch.setattr(targets, "machine_facts", lambda: facts)
    requests: list[bool] = []
    monkeypatch.setattr(targets.permission, "allows_tiles", lambda: requests.append(True) or True)
    imitated = targets.find_target.__wrapped__("avx512")
    assert not imitated.has_tiles and imitated.has_quads and requests == []
    whole = targets.find_target.__wrapped__("amx")
    assert imitated == replace(whole, name="avx512", features=imitated.features)
    assert whole.has_tiles and requests == [True]


PROGRAM = """
import ctypes, faulthandler, signal, sys, threading
import numpy as np
sys.path.insert(0, {support!r})
if "small" in sys.argv:
    class Stack(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
    memory = ctypes.create_string_buffer(2048)
    small = Stack(ctypes.addressof(memory), 0, len(memory))
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(small), None) == 0
from compiling import compiled
from hybridjit.codegen.targets import find_target
from neighbours import of_bytes

def made():
    net = of_bytes(64, (1, 20, 30, 64), pad=(1, 1))
    return compiled(net.outputs, net.arrays, net.params), net.inputs

executable, inputs = made()
right = executable(inputs)[0].copy()
print(find_target().name)
faulthandler.enable()
faulthandler.register(signal.SIGUSR1)
inner, others = made()
wrong = []

def handler(*_):
    wrong.extend(np.flatnonzero(inner(others)[0] != right))

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)

def loop():
    for _ in range(300):
        wrong.extend(np.flatnonzero(executable(inputs)[0] != right))

def loop_apart():
    apart, given = made()
    for _ in range(300):
        wrong.extend(np.flatnonzero(apart(given)[0] != right))

thread = threading.Thread(target=loop_apart)
thread.start()
loop()
thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
signal.raise_signal(signal.SIGUSR1)
print(len(wrong))
if "end" in sys.argv:
    ctypes.string_at(0)
"""


def ran(tmp_path, *words: str) -> subprocess.CompletedProcess[str]:
    support = Path(__file__).parent.parent / "support"
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(support=str(support)))
    command = [sys.executable, str(path), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@needs_tiles
def test_signals_and_threads_leave_sums_in_tiles_as_they_are(tmp_path):
    """Handlers run networks while another is computed; Python's own handler prints the stacks."""
    done = ran(tmp_path)
    assert done.stdout.split() == [find_target().name, "0"], done.stderr
    assert "most recent call first" in done.stderr


@needs_tiles
def test_a_fault_is_reported_where_tiles_are_allowed(tmp_path):
    done = ran(tmp_path, "end")
    assert done.returncode < 0 and "Fatal Python error: Segmentation fault" in done.stderr


@needs_tiles
def test_a_small_stack_for_signals_is_a_cpu_without_tiles(tmp_path):
    """The system refuses tile registers, which such a stack cannot hold."""
    done = ran(tmp_path, "small")
    assert done.stdout.split() == ["avx512", "0"], done.stderr
