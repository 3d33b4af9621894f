"""Keys of stored objects, and the facts that they cover: the CPU, LLVM, the code generator.

A key covers the kernel's spec, the target with the CPU features that it uses, LLVM's version and
this package's code generator, so that a stale object cannot be found.

Facts are stored as records, so that a process whose objects are all stored does not load LLVM, nor
read the sources of the code generator. The key of a record covers all that the facts follow from:
the CPU's description of itself and the file of LLVM; the sizes and times of the sources.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import llvmlite

from ..._core.frozen import dataclass
from ..._core.lazy import Late
from ..._core.limits import loading_compiler
from ..._core.target import Target
from ..llvm.library import needs_no_llvm
from .objects import RECORD, load_record, store_record

if TYPE_CHECKING:
    from ..llvm import cpuid, jit
else:
    cpuid = Late("..llvm.cpuid", __package__)  # for systems that have it
    jit = Late("..llvm.jit", __package__)  # loads LLVM

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LLVM = os.path.join(os.path.dirname(llvmlite.__file__), "binding", "libllvmlite.so")
# Sources that determine generated code besides the spec: the emitters, the scalar formulas, the
# descriptions of CPUs and element types, and the layouts of tables.
GENERATORS = (
    *("codegen", "ops", "_core/frozen.py", "_core/target.py", "_core/types.py"),
    *("_core/symbolic/instructions.py", "ir/argument_rows.py", "ir/prologue.py"),
)
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class MachineFacts:
    """LLVM's names of the system, of the CPU and of its features, and LLVM's version."""

    triple: str
    cpu: str
    features: str
    llvm: str


def object_key(spec_text: str, target: Target) -> str:
    """The name of a kernel's object: the CPU, and a digest of all that determines code."""
    parts = (
        spec_text,
        repr(target),
        machine_facts().llvm,
        llvmlite.__version__,
        _sources_digest(GENERATORS),
    )
    return f"{_cpu_tag(target)}-{_digest(*parts)}"


def record_key(sources: tuple[str, ...], *parts: str) -> str:
    """The name of a record that follows from these strings and sources, and from LLVM."""
    versions = (machine_facts().llvm, llvmlite.__version__)
    return f"{RECORD}-{_digest(*parts, *versions, _sources_digest(sources))}"


def _cpu_tag(target: Target) -> str:
    """A digest of the CPU only, which later versions with more knowledge of it keep."""
    cpu = (target.name, target.triple, target.cpu, target.features)
    return _digest(repr(cpu))[:8]


def _digest(*parts: str) -> str:
    return hashlib.sha256(chr(0).join(parts).encode()).hexdigest()


@lru_cache(maxsize=1)
def machine_facts() -> MachineFacts:
    """The facts of this machine, from a record or from LLVM."""
    key = _machine_key() if needs_no_llvm() else None
    stored = load_record(key) if key else None
    if stored is not None:
        return MachineFacts(*stored.decode().split("\n"))
    with loading_compiler():
        facts = jit.machine_facts()
    if key:
        store_record(key, "\n".join(facts).encode())
    return MachineFacts(*facts)


def _machine_key() -> str | None:
    """The key of the record for this CPU and this file of LLVM; None if the file is elsewhere."""
    try:
        file = os.stat(LLVM)
    except OSError:
        return None
    names = (cpuid.cpu_description(), llvmlite.__version__, os.fspath(LLVM))
    return f"{RECORD}-{_digest('machine', *names, str((file.st_size, file.st_mtime_ns)))}"


@lru_cache(maxsize=4)
def _sources_digest(names: tuple[str, ...]) -> str:
    """A digest of folders and files of the package, from a record or from their contents.

    Of 300 files: from their sizes and times in 1.3 ms, from their contents in 7.
    """
    places = [os.path.join(PACKAGE, name) for name in names]
    found = sorted(row for place in places for row in _sources(place))
    key = f"{RECORD}-{_digest('sources', *map(str, found))}"
    stored = load_record(key)
    if stored is not None:
        return stored.decode()
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for path, *_ in found:
        with open(path, "rb", buffering=0) as file:
            digest.update(file.read())
    store_record(key, digest.hexdigest().encode())
    return digest.hexdigest()


def _sources(place: str) -> Iterator[tuple[str, int, int, int]]:
    """Path, size and times of the Python files of a folder, or of the file itself.

    The time of the last change of a file's attributes is that of its installation: no program sets
    it.
    """
    if not os.path.isdir(place):
        yield _row(place, os.stat(place))
        return
    for entry in os.scandir(place):
        if entry.name.endswith(".py"):
            yield _row(entry.path, entry.stat())
        elif entry.is_dir():
            yield from _sources(entry.path)


def _row(path: str, status: os.stat_result) -> tuple[str, int, int, int]:
    return path, status.st_size, status.st_mtime_ns, status.st_ctime_ns
