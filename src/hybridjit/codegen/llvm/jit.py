"""llvmlite's binding: find the host, optimise, emit objects, load them, disassemble.

Facts about llvmlite that this file works around:
- What MCJIT loads may end the process: it maps the sections of an object one by one, and where
  memory is in pieces code comes to lie more than 2 GB from its constants, which it reaches by 32
  bits. Its other memory manager (``use_lmm``) has no room for calls of functions outside. JITLink
  maps all sections of an object at once.
- ``ModulePassManager`` leaks about 75 KB a run: its real dispose is hidden by a no-op in the class
  order, and is called here by its name.
- Every LLVM call holds one global lock; ours, :data:`LOCK`, is taken around it so that a fork can
  wait for the compile to end instead of inheriting a lock that nobody will release.
- An exception from outside (Ctrl-C) in its Python code leaves that lock taken, or frees memory
  twice: what was disposed of is marked so by the next statement. LLVM is called in threads in which
  there are no such exceptions, see :func:`calling_llvm`.
- A process whose exit overtakes an LLVM call of a daemon thread aborts: LLVM's globals go while it
  uses them. Exit takes :data:`LOCK` first, and code that such a thread may be in stays loaded.
"""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from ..._core.async_safety import holding
from ..._core.background import undisturbed
from ..._core.fork_locks import Rank, held_at_fork
from ..._core.frozen import dataclass
from ..._core.target import Target
from ...errors import InternalError

P = ParamSpec("P")
R = TypeVar("R")

LOCK = held_at_fork(Rank.LLVM)
# Of LLVM's code generation. At 3 it takes 5 % longer, and what it makes differs in a copied end of
# a block of some convolutions with strides, or not at all: kernels of ResNet-18's and ResNet-50's
# steps, for each width of vectors.
LEVEL = 1
_LONGEST_CALL = 30.0  # seconds; a kernel takes 0.1
atexit.register(LOCK.acquire, timeout=_LONGEST_CALL)


def calling_llvm(function: Callable[P, R]) -> Callable[P, R]:
    """The function runs undisturbed, in a thread that holds :data:`LOCK`.

    It takes 0.05 ms to get there and back. Objects of llvmlite's that the function makes have to
    be gone when it returns, but for an engine: they would end wherever their last name goes.
    """
    held = holding(LOCK)(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if LOCK._is_owned():  # there already, or in a finaliser that came meanwhile
            return function(*args, **kwargs)
        return undisturbed(lambda: held(*args, **kwargs))

    return run


# The CPU in LLVM's words, bytes of a vector, registers, and whether it multiplies and adds at once.
_NARROWER = {
    "avx512": ("x86-64-v4", 64, 32, True),
    "avx2": ("x86-64-v3", 32, 16, True),
    "sse2": ("x86-64", 16, 16, False),
}
_PORTABLE = {
    **{name: ("x86_64-unknown-linux-gnu", *row) for name, row in _NARROWER.items()},
    "avx512bf16": ("x86_64-unknown-linux-gnu", *_NARROWER["avx512"]),
    "neon": ("aarch64-unknown-linux-gnu", "generic", 16, 32, True),
}
# Beside what the CPU in LLVM's words has.
_MORE_FEATURES = {"avx512bf16": "+avx512bf16"}
_ALIASES = {"x86-64-v4": "avx512", "x86-64-v3": "avx2", "x86-64": "sse2", "x86-64-v2": "sse2"}


@lru_cache(maxsize=1)
def _initialize() -> None:
    """This kind of CPU alone: all of them are 10 MB and 5 ms more."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def llvm_version() -> str:
    """The version of the LLVM that llvmlite brings."""
    return ".".join(map(str, llvm.llvm_version_info))


@lru_cache(maxsize=8)
def find_target(name: str = "") -> Target:
    """The host, or a narrower CPU of the same kind by name. Raises ValueError.

    LLVM's host features already take into account what the operating system saves.
    """
    host = _host_target()
    if name in ("", "native", host.name):
        return host
    name = _ALIASES.get(name, name)
    if name == "neon" and host.name == "neon":
        return host
    if name not in _NARROWER or not host.triple.startswith("x86_64"):
        known = ", ".join(("native", *_NARROWER)) if "x86_64" in host.triple else "native, neon"
        raise ValueError(f"HYBRIDJIT_TARGET={name!r}: this host knows {known}")
    cpu, width, registers, has_fma = _NARROWER[name]
    if width > host.vector_bytes:
        raise ValueError(
            f"HYBRIDJIT_TARGET={name!r} is wider than this host, which has {host.name}"
        )
    return replace(
        host,
        name=name,
        cpu=cpu,
        features="",
        vector_bytes=width,
        vector_registers=registers,
        has_fma=has_fma,
    )


def portable_target(name: str) -> Target:
    """Any CPU by name, whatever the host is, for code that runs on all that have its vectors.

    Raises ValueError.
    """
    row = _PORTABLE.get(_ALIASES.get(name, name))
    if row is None:
        raise ValueError(f"no target is called {name!r}: {', '.join(_PORTABLE)} are")
    triple, cpu, width, registers, has_fma = row
    known = _ALIASES.get(name, name)
    features = _MORE_FEATURES.get(known, "")
    return Target(known, triple, cpu, features, width, registers, has_fma)


@calling_llvm
def _host_target() -> Target:
    _initialize()
    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    flags = llvm.get_host_cpu_features()
    features = flags.flatten()
    if triple.startswith(("aarch64", "arm64")):
        return Target("neon", triple, cpu, features, 16, 32, True)
    if flags.get("avx512f") and flags.get("avx512vl"):
        return Target("avx512", triple, cpu, features, 64, 32, True)
    if flags.get("avx2") and flags.get("fma"):
        return Target("avx2", triple, cpu, features, 32, 16, True)
    name = "sse2" if "x86_64" in triple else "generic"
    return Target(name, triple, cpu, features, 16, 16, False)


def _machine(target: Target, level: int = LEVEL) -> Any:
    if target.triple != llvm.get_process_triple():
        _initialize_all()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=16)
def _compiling_machine(target: Target, level: int) -> object:
    """A machine that emits one module after the other, for as long as the process lives.

    Making it takes 0.7 ms, a tenth of what a small kernel takes.
    """
    machine = _machine(target, level)
    machine._owned = True  # nobody disposes of it: not even an exit, which other threads may be in
    return machine


def optimised(
    text: str, target: Target, with_passes: bool = True, level: int = LEVEL
) -> tuple[Any, object]:
    """LLVM's module and machine for IR text, verified and optimised. Raises InternalError.

    ``with_passes`` False leaves the IR as it was emitted: unrolled kernels that keep everything in
    registers gain nothing by LLVM's passes (measured: within 1 %), which take half the time.
    """
    module = llvm.parse_assembly(text)
    try:
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"bug in hybridjit: LLVM refuses the module: {error}") from None
    machine = _compiling_machine(target, level)
    if not with_passes:
        return module, machine
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    manager = passes.getModulePassManager()
    manager.run(module, passes)
    NewPassManager._dispose(manager)
    manager.detach()
    passes.close()
    return module, machine


# Switches of LLVM's code generator, as they are and as kernels want them. Kernels have their order,
# their addresses and what stays in registers from here; LLVM takes two fifths of its time to find
# others, and a step of training is slower by it: ResNet-18 397 against 379 ms, MobileNet 212
# against 203.
_SWITCHES = (
    ("-disable-lsr=0", "-disable-lsr=1"),
    ("-disable-cgp=0", "-disable-cgp=1"),
    ("-disable-post-ra=0", "-disable-post-ra=1"),
)
# Where registers are few, products spill without it.
_SCHEDULING = ("-enable-misched=1", "-enable-misched=0")
_MANY_REGISTERS = 32
# What is the same in each round of a loop stands before it in kernels; constants alone would be
# moved there, which instructions of AVX-512 read from memory by themselves. LLVM takes 2 to 4 %
# less without it for kernels of steps (ResNet-18, ResNet-50, MobileNet), and these run as fast.
_HOISTING = ("-disable-machine-licm=0", "-disable-machine-licm=1")
_READING_CONSTANTS = 64  # bytes of a vector


def _switches(target: Target) -> tuple[tuple[str, str], ...]:
    """As they are and as kernels for this CPU want them."""
    scheduling = (_SCHEDULING,) if target.vector_registers >= _MANY_REGISTERS else ()
    hoisting = (_HOISTING,) if target.vector_bytes >= _READING_CONSTANTS else ()
    return (*_SWITCHES, *scheduling, *hoisting)


@contextmanager
def _in_our_order(target: Target) -> Iterator[None]:
    """LLVM generates code for what kernels say, about as they say it.

    The switches are the process's: they are set back for others that use LLVM here.
    """
    switches = _switches(target)
    for _, ours in switches:
        llvm.set_option("hybridjit", ours)
    try:
        yield
    finally:
        for usual, _ in switches:
            llvm.set_option("hybridjit", usual)


def _object_of(module: object, machine: Any, target: Target) -> bytes:
    with _in_our_order(target):
        code: bytes = machine.emit_object(module)
    return code


def _assembly_of(module: object, machine: Any, target: Target) -> str:
    with _in_our_order(target):
        return str(machine.emit_assembly(module))


@calling_llvm
def compile_object(
    text: str, target: Target, with_passes: bool = True, level: int = LEVEL
) -> bytes:
    """Object code for IR text. Without passes and at ``level`` 0 it takes LLVM a quarter of the
    time, for code that runs slowly.
    """
    _initialize()
    module, machine = optimised(text, target, with_passes, level)
    code = _object_of(module, machine, target)
    module.close()
    return code


@dataclass(frozen=True)
class Unit:
    """IR of one module of a linked object, the CPU that it is for, and what others see of it."""

    text: str
    target: Target
    public: Collection[str]
    with_passes: bool = True


@calling_llvm
def compile_together(units: Sequence[Unit]) -> bytes:
    """One relocatable object of all units; what the first makes public can be seen.

    The first unit is for the least of the CPUs. Each is optimised by itself: the code of a kernel
    is the same as in an object of its own.
    """
    _initialize()
    llvm.initialize_native_asmparser()
    whole, machine = optimised(units[0].text, units[0].target, units[0].with_passes)
    for unit in units[1:]:
        module = optimised(_for_cpu(unit), unit.target, unit.with_passes)[0]
        _hide(module, unit.public)
        whole.link_in(module)
    _hide(whole, units[0].public)
    code = _object_of(whole, machine, units[0].target)
    whole.close()
    return code


def _hide(module: Any, public: Collection[str]) -> None:
    """Let other modules see ``public`` functions alone."""
    for function in module.functions:
        if not function.is_declaration and function.name not in public:
            function.linkage = "internal"


def _for_cpu(unit: Unit) -> str:
    """The unit's IR, each function of which says what CPU it is for."""
    features = f' "target-features"="{unit.target.features}"' if unit.target.features else ""
    return re.sub(
        r"^(define .*\)[^()\n]*)$",
        rf'\1 "target-cpu"="{unit.target.cpu}"{features}',
        unit.text,
        flags=re.MULTILINE,
    )


@calling_llvm
def optimised_text(text: str, target: Target, with_passes: bool = True) -> str:
    """The IR after LLVM's passes, as text."""
    _initialize()
    return str(optimised(text, target, with_passes)[0])


@calling_llvm
def assembly(text: str, target: Target, with_passes: bool = True) -> str:
    """The machine code for IR text, as assembly."""
    _initialize()
    module, machine = optimised(text, target, with_passes)
    return _assembly_of(module, machine, target)


@calling_llvm
def listings(text: str, target: Target, with_passes: bool = True) -> tuple[str, str]:
    """What :func:`optimised_text` and :func:`assembly` give, optimised once for both."""
    _initialize()
    module, machine = optimised(text, target, with_passes)
    return str(module), _assembly_of(module, machine, target)


_PROVIDED: dict[str, int] = {}


def provide(name: str, address: int) -> None:
    """Let machine code that is loaded from now on call a function of the process by name."""
    _PROVIDED[name] = address


class Library:
    """Machine code in memory, from ``nbytes`` of objects: functions of these names.

    ``close`` gives all of it back. Raises InternalError for a name that is not there.
    """

    def __init__(self, objects: Iterable[bytes], target: Target, names: Sequence[str]) -> None:
        objects = tuple(objects)
        self.nbytes = sum(map(len, objects))
        self._linked: tuple[Any, ...] = ()  # what ends first comes first
        self._addresses: dict[str, int] = {}
        self._load(objects, target, names)

    @calling_llvm
    def _load(self, objects: tuple[bytes, ...], target: Target, names: Sequence[str]) -> None:
        _initialize()
        linker = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            linker.add_object_img(code)
        for name, address in _PROVIDED.items():
            linker.import_symbol(name, address)
        for name in names:
            linker.export_symbol(name)
        engine = llvm.create_lljit_compiler(
            _machine(target), use_jit_link=True, suppress_errors=True
        )
        try:
            code_of = linker.link(engine, "kernels")
        except RuntimeError as error:
            engine.close()
            raise InternalError(
                f"bug in hybridjit: the compiled code does not link: {error}"
            ) from None
        self._linked = code_of, engine
        self._addresses = {name: code_of[name] for name in names}

    def address(self, name: str) -> int:
        """The address of a function."""
        return self._addresses[name]

    @calling_llvm
    def close(self) -> None:
        linked, self._linked = self._linked, ()
        for part in linked:
            part.close()

    def __del__(self) -> None:
        if not getattr(self, "_linked", ()):
            return
        if sys.is_finalizing():
            for part in self._linked:
                part.detach()
        else:
            self.close()  # no name here holds the parts: they go where they are closed
