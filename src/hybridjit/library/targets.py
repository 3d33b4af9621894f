"""Target CPUs of a library, by name."""

from __future__ import annotations

from dataclasses import replace

from .._core.config import config
from .._core.target import Target
from ..codegen.targets import find_target, portable_target


def find_targets(names: str, precision: str = "float32") -> tuple[Target, ...]:
    """Targets of these names, separated by commas, the widest vectors first; "" is this host.

    The host's kernels are those of its JIT code, so that bits are equal. ``precision`` is the type
    in which contractions multiply: "bfloat16" selects the host's instructions for bfloat16.
    Raises ValueError for unknown names, and for CPUs of different architectures.
    """
    wanted = (names or config.target).split(",") if names or config.target else []
    found = [portable_target(name.strip()) for name in wanted] or [_here(precision)]
    if len({target.triple for target in found}) > 1:
        raise ValueError(f"a library supports one CPU architecture, got {names}")
    unique = {target.name: target for target in found}
    return tuple(sorted(unique.values(), key=_order))


def _here(precision: str) -> Target:
    host = find_target()
    name = "avx512" if host.has_tiles else host.name
    in_pairs = precision == "bfloat16" and host.has_bfloat16
    return replace(portable_target("avx512bf16" if in_pairs else name), model=host.cpu)


def _order(target: Target) -> tuple[int, bool, bool]:
    return -target.vector_bytes, not target.has_fma, not target.has_bfloat16
