"""The CPUs that a library is for, by name."""

from __future__ import annotations

from ..codegen.llvm.jit import find_target, portable_target
from ..config import config
from ..target import Target


def find_targets(names: str) -> tuple[Target, ...]:
    """Those named, separated by commas, the widest vectors first; none is what this host is.

    Raises ValueError for other names, and for CPUs of different kinds.
    """
    wanted = (names or config.target or find_target().name).split(",")
    found = [portable_target(name.strip()) for name in wanted]
    if len({target.triple for target in found}) > 1:
        raise ValueError(f"a library is for one kind of CPU, got {names}")
    unique = {target.name: target for target in found}
    return tuple(sorted(unique.values(), key=lambda t: (-t.vector_bytes, not t.has_fma)))
