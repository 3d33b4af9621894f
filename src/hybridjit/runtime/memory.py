"""Memory held by compiled networks, and by the process.

Input: nothing; every live instance is registered. Output: numbers of bytes. Parameters are the
user's arrays and are not counted; gradients and states of optimizers are, because the library
allocates them.
"""

from __future__ import annotations

import sys

from .._core import host
from .executable import EXECUTABLES, Executable
from .holders import GRADIENTS, STATES, held_bytes
from .instance import INSTANCES
from .saved import SAVED
from .sized_call import SIZED_CALLS, SizedCall

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def memory_stats() -> dict[str, int]:
    """Bytes of all compiled networks of this process, and of the process itself.

    Returns
    -------
    dict of str to int
        - ``executables``: compiled signatures that are alive
        - ``kernels``: distinct pieces of machine code in them
        - ``code_bytes``: bytes of this machine code
        - ``packed_bytes``: weights in the layout of kernels, shared ones counted once
        - ``arena_bytes``: intermediate results and working memory of concurrent calls
        - ``saved_bytes``: values that recorded calls save for their backward pass
        - ``saved_idle_bytes``: memory of released ones, kept for the next calls
        - ``gradient_bytes``: gradients of variables and executors, whether written or not
        - ``state_bytes``: states of optimizers
        - ``resident_bytes``, ``peak_resident_bytes``: of the process, now and at most; 0 if unknown

    Examples
    --------
    >>> mx.memory_stats()["resident_bytes"] > 0
    True
    """
    instances = [*INSTANCES]
    executables: list[Executable | SizedCall] = [*EXECUTABLES, *SIZED_CALLS]
    bindings = [e.binding for e in executables if e.binding is not None]
    bindings += [i.binding for i in instances]
    packed = {id(array): array for binding in bindings for array in binding.arrays()}
    kernels = {id(k): k for e in executables for k in e.code.kernels.values()}
    libraries = {id(k.library): k.library for k in kernels.values()}
    arenas = {id(arena): arena for i in instances for arena in (i.arena, i.scratch)}
    saved, saved_idle = SAVED.nbytes()
    return {
        "executables": len(executables),
        "kernels": len(kernels),
        "code_bytes": sum(library.nbytes for library in libraries.values()),
        "packed_bytes": sum(array.nbytes for array in packed.values()),
        "arena_bytes": sum(arena.nbytes for arena in arenas.values()),
        "saved_bytes": saved,
        "saved_idle_bytes": saved_idle,
        "gradient_bytes": held_bytes(GRADIENTS),
        "state_bytes": held_bytes(STATES),
        "resident_bytes": _status("VmRSS:"),
        "peak_resident_bytes": peak_memory(),
    }


def peak_memory() -> int:
    """The largest resident memory of this process so far in bytes; 0 if unknown."""
    most = _status("VmHWM:")
    if most or resource is None:
        return most
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _status(field: str) -> int:
    """A number of bytes from Linux's status file of this process; 0 on other systems."""
    try:
        lines = host.system_text("/proc/self/status").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return 0
