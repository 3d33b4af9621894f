"""The CPUs that a library is for, by name."""

from __future__ import annotations

from ..codegen.llvm.jit import find_target, portable_target
from ..config import config
from ..target import Target


def find_targets(names: str, precision: str = "float32") -> tuple[Target, ...]:
    """Those named, separated by commas, the widest vectors first; none is what this host is.

    ``precision`` is what products multiply: its instructions are a reason to take a CPU by another
    name. Raises ValueError for other names, and for CPUs of different kinds.
    """
    wanted = (names or config.target or _here(precision)).split(",")
    found = [portable_target(name.strip()) for name in wanted]
    if len({target.triple for target in found}) > 1:
        raise ValueError(f"a library is for one kind of CPU, got {names}")
    unique = {target.name: target for target in found}
    return tuple(sorted(unique.values(), key=_order))


def _here(precision: str) -> str:
    host = find_target()
    return "avx512bf16" if precision == "bfloat16" and host.has_bfloat16 else host.name


def _order(target: Target) -> tuple[int, bool, bool]:
    return -target.vector_bytes, not target.has_fma, not target.has_bfloat16
