"""Machine code in memory without LLVM: the same as by LLVM's linker, and errors."""

from __future__ import annotations

import ast
import ctypes
import errno
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hybridjit._core.config import override
from hybridjit.codegen.emit import keys, objects
from hybridjit.codegen.llvm import cpuid, elf, jit, library, memory
from hybridjit.codegen.llvm.jit import compile_object
from hybridjit.codegen.llvm.library import Library, needs_no_llvm, provide
from hybridjit.codegen.targets import find_target
from hybridjit.errors import InternalError, OutOfMemoryError

pytestmark = pytest.mark.skipif(not needs_no_llvm(), reason="this system needs LLVM to load code")

# Constants that are addressed by distance and by address, a function of the process, a provided
# one, and variables without contents in the file.
MODULE = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40], align 64
@places = internal constant { ptr, ptr } { ptr @table, ptr @double }, align 64
@count = internal global i64 0
declare i64 @labs(i64)
declare i64 @hybridjit_test_provided(i64)
define internal i64 @double(i64 %n) noinline { %r = add i64 %n, %n  ret i64 %r }
define i64 @of_table(i64 %i) {
  %at = getelementptr i64, ptr @table, i64 %i
  %n = load i64, ptr %at
  ret i64 %n
}
define i64 @of_places(i64 %i) {
  %t = load volatile ptr, ptr @places
  %at = getelementptr i64, ptr %t, i64 %i
  %n = load i64, ptr %at
  %slot = getelementptr ptr, ptr @places, i64 1
  %f = load volatile ptr, ptr %slot
  %r = call i64 %f(i64 %n)
  ret i64 %r
}
define i64 @of_process(i64 %i) { %r = call i64 @labs(i64 %i)  ret i64 %r }
define i64 @of_provided(i64 %i) { %r = call i64 @hybridjit_test_provided(i64 %i)  ret i64 %r }
define i64 @counted(i64 %i) {
  %n = load i64, ptr @count
  %r = add i64 %n, %i
  store i64 %r, ptr @count
  ret i64 %r
}
"""
NAMES = ("of_table", "of_places", "of_process", "of_provided", "counted")


@pytest.fixture(scope="module")
def code() -> bytes:
    return compile_object(MODULE, find_target())


@pytest.fixture
def seventh() -> Iterator[None]:
    """A function that machine code finds by a name that the process does not have."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda n: n + 7)
    provide("hybridjit_test_provided", ctypes.cast(function, ctypes.c_void_p).value)
    yield
    del library._PROVIDED["hybridjit_test_provided"]


def called(loaded: Library) -> list[int]:
    of = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    inputs = {"of_process": (-5, 6), "counted": (3, 4)}
    calls = [(of(loaded.address(name)), inputs.get(name, (0, 3))) for name in NAMES]
    return [function(n) for function, each in calls for n in each]


def test_both_loaders_link_the_same(code, seventh, monkeypatch):
    mine = called(Library([code], find_target(), NAMES))
    monkeypatch.setattr(library, "needs_no_llvm", lambda: False)
    assert mine == [10, 40, 20, 80, 5, 6, 7, 10, 3, 7]
    assert mine == called(Library([code], find_target(), NAMES))


def test_objects_of_one_library_call_each_other():
    caller = "declare i64 @f()\ndefine i64 @g() { %r = call i64 @f()  ret i64 %r }"
    codes = [
        compile_object(text, find_target()) for text in (caller, "define i64 @f() { ret i64 9 }")
    ]
    loaded = Library(codes, find_target(), ["g"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.address("g"))() == 9


def test_code_can_be_executed_and_not_written(code, seventh):
    loaded = Library([code], find_target(), NAMES)
    start = loaded.address("of_table")
    rows = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    of = {range(*(int(n, 16) for n in place.split("-"))): rights for place, rights in rows}
    assert [rights for place, rights in of.items() if start in place] == ["r-xp"]


def test_a_missing_function_is_named(code):
    with pytest.raises(InternalError, match="hybridjit_test_provided"):
        Library([code], find_target(), NAMES)


def test_an_unknown_relocation_is_refused(code, seventh):
    calls = [struct.pack("<IIq", 4, symbol, -4) for symbol in range(64)]
    at = max(map(code.find, calls))
    broken = code[:at] + struct.pack("<I", 77) + code[at + 4 :]
    with pytest.raises(InternalError, match="77"):
        Library([broken], find_target(), NAMES)


def test_memory_is_freed(code, seventh):
    loaded = elf.Loaded([code], NAMES, library._PROVIDED)
    start = loaded.addresses["of_table"]
    assert f"{start & -4096:x}-" in Path("/proc/self/maps").read_text()
    loaded.close()
    loaded.close()
    assert f"{start & -4096:x}-" not in Path("/proc/self/maps").read_text()


def test_lack_of_memory_for_code_is_said():
    with pytest.raises(OutOfMemoryError, match="machine code"):
        memory.new_block(1 << 60)
    with pytest.raises(OutOfMemoryError, match="machine code"):
        memory.protect(4096, 4096, memory.CODE)  # where nothing is mapped


# A system that executes files alone: prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN).
REFUSING = """
import ctypes, sys
import hybridjit as mx
from hybridjit import autograd, gluon, nd
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    sys.exit("cannot refuse")
net = gluon.nn.Dense(300, in_units=300)
net.initialize(mx.init.One())
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
with autograd.record():
    loss = net(nd.ones((100, 300))).sum()
loss.backward()
trainer.step(100)
assert net.weight.data()[0, 0].asscalar() == 0
net.hybridize()
try:
    net(nd.ones((100, 300)))
except mx.MXNetError as error:
    print(error)
"""


def test_a_system_that_refuses_new_code_trains_eagerly(tmp_path):
    environment = {"HYBRIDJIT_CACHE_DIR": str(tmp_path), "HYBRIDJIT_EAGER": "numpy", "PATH": ""}
    command = [sys.executable, "-c", REFUSING]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "cannot refuse" in run.stderr:
        pytest.skip("the test refuses new code by PR_SET_MDWE, which this kernel lacks")
    assert not run.stderr and "HYBRIDJIT_EAGER=numpy" in run.stdout


# ---- facts that records keep -------------------------------------------------------------------


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and no facts in memory."""
    with override(cache_dir=str(tmp_path)):
        keys.machine_facts.cache_clear()
        yield tmp_path
    keys.machine_facts.cache_clear()


def test_facts_of_the_machine_are_llvms_and_stored_once(forgetful, monkeypatch):
    facts = keys.machine_facts()
    assert facts == keys.MachineFacts(*jit.machine_facts())
    keys.machine_facts.cache_clear()
    monkeypatch.setattr(jit, "machine_facts", None)
    assert keys.machine_facts() == facts
    assert len([*forgetful.iterdir()]) == 1


@pytest.mark.parametrize("what", ["CPU", "LLVM"])
def test_another_machine_asks_llvm(forgetful, monkeypatch, what):
    keys.machine_facts()
    keys.machine_facts.cache_clear()
    if what == "CPU":
        monkeypatch.setattr(cpuid, "cpu_description", lambda: "another")
    else:
        other = forgetful / "libllvmlite.so"
        other.write_bytes(b"")
        monkeypatch.setattr(keys, "LLVM", other)
    monkeypatch.setattr(jit, "machine_facts", lambda: ("t", "c", "+f", "v"))
    assert keys.machine_facts() == keys.MachineFacts("t", "c", "+f", "v")


def test_the_cpu_describes_itself_the_same_on_every_core():
    assert len({cpuid.cpu_description() for _ in range(20)}) == 1


def test_family_and_stepping_are_in_the_description():
    """LLVM's name of the CPU follows from the family and the model."""
    text = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    rows = dict(re.split(r"\s*: ?", line, maxsplit=1) for line in text.splitlines())
    numbers = ast.literal_eval(cpuid.cpu_description().rpartition(" ")[0])
    number = numbers[1, 0][0]
    family = (number >> 8 & 15) + (number >> 20 & 255)
    assert [str(family), str(number & 15)] == [rows["cpu family"], rows["stepping"]]


def test_the_digest_of_the_sources_is_kept_until_one_changes(forgetful, monkeypatch):
    source = forgetful / "generator.py"
    source.write_text("first")
    monkeypatch.setattr(keys, "PACKAGE", forgetful)
    digest = partial(keys._sources_digest.__wrapped__, ("generator.py",))
    first = digest()
    with monkeypatch.context() as without:
        without.setattr(keys.hashlib, "blake2b", None)
        assert digest() == first
    source.write_text("other")  # of the same size
    assert digest() != first


def test_records_that_cannot_be_stored_need_no_warning(forgetful, monkeypatch):
    """The folder of a container's image holds all objects, and the process only reads it."""
    monkeypatch.setattr(objects.os, "replace", refused)
    assert keys.machine_facts().cpu and not [*forgetful.iterdir()]
    assert objects._complaints == []


def refused(*args: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


PROGRAM = """
import sys
import numpy as np
from hybridjit import nd
x = nd.array(np.arange(64 * 4096, dtype=np.float32).reshape(64, 4096) % 31)
print(nd.softmax(x).asnumpy().sum(), "llvmlite.binding" in sys.modules)
late = ("codegen.packing", "codegen.emit.packers", "codegen.math.single", "codegen.math.double")
assert LLVM or not {"numpy.ma", "pathlib", *("hybridjit." + name for name in late)} & {*sys.modules}
"""


def test_a_process_whose_objects_are_stored_does_not_load_llvm(tmp_path):
    """Nor modules for packing and emission, nor those of other packages: together 30 ms."""
    environment = {"HYBRIDJIT_CACHE_DIR": str(tmp_path), "PATH": ""}
    programs = [PROGRAM.replace("LLVM", text) for text in ("True", "False")]
    commands = [[sys.executable, "-c", program] for program in programs]
    runs = [subprocess.run(c, env=environment, capture_output=True, text=True) for c in commands]
    assert [run.stderr for run in runs] == ["", ""]
    (first, loaded), (second, again) = (run.stdout.split() for run in runs)
    assert first == second and (loaded, again) == ("True", "False")
