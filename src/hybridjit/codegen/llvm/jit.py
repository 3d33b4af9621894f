"""llvmlite's binding: detect the host, optimise, emit objects, load them, disassemble.

This module works around these facts of llvmlite:

- Objects loaded by MCJIT may crash the process: it maps the sections of an object one by one, and
in fragmented memory code may be more than 2 GB away from its constants, which it addresses with 32
bits. Its other memory manager (``use_lmm``) does not support calls of external functions. JITLink
maps all sections of an object at once.
- ``ModulePassManager`` leaks about 75 KB per run: a no-op hides its real dispose in the class
order; this module calls the real one by its name.
- Every LLVM call holds one global lock; :data:`LOCK` is taken around it so that a fork can wait for
the end of a compilation instead of inheriting a lock that is never released.
- An asynchronous exception (Ctrl-C) in its Python code leaves that lock taken, or frees memory
twice, because an object is marked as disposed only by the next statement. LLVM is called in threads
without such exceptions, see :func:`calling_llvm`.
- A process that exits during an LLVM call of a daemon thread aborts, because LLVM's globals are
destroyed while in use. Exit takes :data:`LOCK` first, and code that such a thread may execute stays
loaded.
"""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from . import ALL_PASSES, LEVEL

P = ParamSpec("P")
R = TypeVar("R")

LOCK = held_at_fork(Rank.LLVM)
_LONGEST_CALL = 30.0  # seconds; a kernel takes 0.1
atexit.register(LOCK.acquire, timeout=_LONGEST_CALL)


def calling_llvm(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to run in a thread without asynchronous exceptions, holding :data:`LOCK`.

    Switching threads takes 0.05 ms. The function must release its llvmlite objects before it
    returns, except an engine: otherwise they are destroyed in the thread that drops the last
    reference.
    """
    held = holding(LOCK)(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if LOCK._is_owned():  # in such a thread already, or in a finaliser that interrupted one
            return function(*args, **kwargs)
        return undisturbed(lambda: held(*args, **kwargs))

    return run


@lru_cache(maxsize=1)
def _initialize() -> None:
    """Initialise only the host's architecture: all of them cost 10 MB and 5 ms more."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def llvm_version() -> str:
    """The version of LLVM in llvmlite."""
    return ".".join(map(str, llvm.llvm_version_info))


@calling_llvm
def machine_facts() -> tuple[str, str, str, str]:
    """The names of the system, of the CPU and of its features, and LLVM's version.

    The features account for the registers that the system saves.
    """
    _initialize()
    features = llvm.get_host_cpu_features().flatten()
    names = llvm.get_process_triple(), llvm.get_host_cpu_name(), features
    return *names, repr(llvm.llvm_version_info)


def _machine(target: Target, level: int = LEVEL) -> Any:
    if target.triple != llvm.get_process_triple():
        _initialize_all()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=16)
def _compiling_machine(target: Target, level: int) -> object:
    """A machine that emits one module after the other, as long as the process lives.

    Creating one takes 0.7 ms, a tenth of the time for a small kernel.
    """
    machine = _machine(target, level)
    machine._owned = True  # never disposed of, because other threads may use it even during exit
    return machine


def optimised(
    text: str, target: Target, with_passes: int = True, level: int = LEVEL
) -> tuple[Any, object]:
    """LLVM's module and machine for IR text, verified and optimised. Raises InternalError.

    ``with_passes`` False keeps the IR as emitted: unrolled kernels that keep all values in
    registers gain nothing from LLVM's passes (measured: within 1 %). ``ALL_PASSES`` are those of
    LLVM's level 2. True means two: the others take eight times as long, 5 to 60 ms a kernel, and
    without them code takes .96 of the time (geometric mean of 36 kernels of 17 kinds on Zen 4).
    """
    module = llvm.parse_assembly(text)
    try:
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"bug in hybridjit: LLVM rejects the module: {error}") from None
    machine = _compiling_machine(target, level)
    if not with_passes:
        return module, machine
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    if with_passes == ALL_PASSES:
        manager = passes.getModulePassManager()
    else:
        manager = llvm.create_new_module_pass_manager()
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
    manager.run(module, passes)
    NewPassManager._dispose(manager)
    manager.detach()
    passes.close()
    return module, machine


# Switches of LLVM's code generator: their defaults, and the values for kernels. Emitters decide
# order, addresses and register use of kernels; LLVM spends two fifths of its time on finding
# others, which make training steps slower: ResNet-18 397 against 379 ms, MobileNet 212 against 203.
_SWITCHES = (
    ("-disable-lsr=0", "-disable-lsr=1"),
    ("-disable-cgp=0", "-disable-cgp=1"),
    ("-disable-post-ra=0", "-disable-post-ra=1"),
)
# With few registers, products spill without it.
_SCHEDULING = ("-enable-misched=1", "-enable-misched=0")
_MANY_REGISTERS = 32
# Emitters place loop-invariant code before loops; this pass would only move constants, which
# AVX-512 instructions read from memory directly. Without it LLVM takes 2 to 4 % less time for
# kernels of training steps (ResNet-18, ResNet-50, MobileNet), and these run as fast.
_HOISTING = ("-disable-machine-licm=0", "-disable-machine-licm=1")
_READING_CONSTANTS = 64  # bytes of a vector


def _switches(target: Target) -> tuple[tuple[str, str], ...]:
    """The defaults, and the values for kernels on this CPU."""
    scheduling = (_SCHEDULING,) if target.vector_registers >= _MANY_REGISTERS else ()
    hoisting = (_HOISTING,) if target.vector_bytes >= _READING_CONSTANTS else ()
    return (*_SWITCHES, *scheduling, *hoisting)


@contextmanager
def _in_our_order(target: Target) -> Iterator[None]:
    """Make LLVM keep the order of instructions that kernels specify, mostly.

    The switches belong to the process: they are reset for other users of LLVM in it.
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
def compile_object(text: str, target: Target, with_passes: int = True, level: int = LEVEL) -> bytes:
    """Object code for IR text. Without passes and at ``level`` 0 LLVM takes a quarter of the time,
    for slow code.
    """
    _initialize()
    module, machine = optimised(text, target, with_passes, level)
    code = _object_of(module, machine, target)
    module.close()
    return code


@dataclass(frozen=True)
class Unit:
    """The IR of one module of a linked object, its CPU, and its public symbols."""

    text: str
    target: Target
    public: Collection[str]
    with_passes: int = True


@calling_llvm
def compile_together(units: Sequence[Unit]) -> bytes:
    """One relocatable object of all units; only public symbols of the first unit are visible.

    The first unit is for the least capable of the CPUs. Units are optimised separately: the code of
    a kernel is the same as in a separate object.
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
    """Make all functions except ``public`` ones internal."""
    for function in module.functions:
        if not function.is_declaration and function.name not in public:
            function.linkage = "internal"


def _for_cpu(unit: Unit) -> str:
    """The unit's IR with the CPU as an attribute of each function."""
    features = f' "target-features"="{unit.target.features}"' if unit.target.features else ""
    return re.sub(
        r"^(define .*\)[^()\n]*)$",
        rf'\1 "target-cpu"="{unit.target.cpu}"{features}',
        unit.text,
        flags=re.MULTILINE,
    )


@calling_llvm
def optimised_text(text: str, target: Target, with_passes: int = True) -> str:
    """The IR after LLVM's passes, as text."""
    _initialize()
    return str(optimised(text, target, with_passes)[0])


@calling_llvm
def assembly(text: str, target: Target, with_passes: int = True) -> str:
    """The machine code for IR text, as assembly."""
    _initialize()
    module, machine = optimised(text, target, with_passes)
    return _assembly_of(module, machine, target)


@calling_llvm
def listings(text: str, target: Target, with_passes: int = True) -> tuple[str, str]:
    """The results of :func:`optimised_text` and :func:`assembly`, optimised once for both."""
    _initialize()
    module, machine = optimised(text, target, with_passes)
    return str(module), _assembly_of(module, machine, target)


class Linked:
    """Objects in memory: ``addresses`` of the functions with these names.

    ``provided`` are addresses of functions outside of them. Raises InternalError for a missing
    name.
    """

    def __init__(
        self,
        objects: Sequence[bytes],
        target: Target,
        names: Sequence[str],
        provided: Mapping[str, int],
    ) -> None:
        self._parts: tuple[Any, ...] = ()  # in the order of disposal
        self.addresses: dict[str, int] = {}
        self._link(objects, target, names, provided)

    @calling_llvm
    def _link(
        self,
        objects: Sequence[bytes],
        target: Target,
        names: Sequence[str],
        provided: Mapping[str, int],
    ) -> None:
        _initialize()
        linker = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            linker.add_object_img(code)
        for name, address in provided.items():
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
        self._parts = code_of, engine
        self.addresses = {name: code_of[name] for name in names}

    @calling_llvm
    def close(self) -> None:
        parts, self._parts = self._parts, ()
        for part in parts:
            part.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Free the code. The names of this module are gone when the interpreter ends."""
        if not getattr(self, "_parts", ()):
            return
        if is_finalizing():
            for part in self._parts:
                part.detach()
        else:
            self.close()  # destroys the parts, because it drops their last references
