"""Targets: this machine's CPU, and others by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from .._core.lazy import Late
from .._core.target import Target
from .emit.keys import machine_facts
from .families import FAMILIES

if TYPE_CHECKING:
    from .llvm import permission
else:
    permission = Late(".llvm.permission", __package__)  # for CPUs with tile registers

# LLVM's name of the CPU, bytes of a vector, number of registers, and support of FMA.
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
# Features beyond those of LLVM's CPU name.
_MORE_FEATURES = {"avx512bf16": "+avx512bf16"}
_ALIASES = {"x86-64-v4": "avx512", "x86-64-v3": "avx2", "x86-64": "sse2", "x86-64-v2": "sse2"}


@lru_cache(maxsize=8)
def find_target(name: str = "") -> Target:
    """The host, or a narrower CPU of the same architecture by name. Raises ValueError."""
    host = _host_target()
    if name in ("", "native", host.name):
        return _permitted(host, name)
    name = _ALIASES.get(name, name)
    if name == "avx512" and host.has_tiles:
        return _without_tiles(host)
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
    """A CPU by name, independent of the host, for code that runs on all CPUs with such vectors.

    Raises ValueError for an unknown name.
    """
    row = _PORTABLE.get(_ALIASES.get(name, name))
    if row is None:
        raise ValueError(f"unknown target {name!r}: the targets are {', '.join(_PORTABLE)}")
    triple, cpu, width, registers, has_fma = row
    known = _ALIASES.get(name, name)
    features = _MORE_FEATURES.get(known, "")
    return Target(known, triple, cpu, features, width, registers, has_fma)


# LLVM's name of the first CPU with AMX, whose costs are those of the later ones.
_WITH_TILES = "sapphirerapids"


def _host_target() -> Target:
    """The CPU of this machine. LLVM's features account for the registers that the system saves."""
    facts = machine_facts()
    triple, features = facts.triple, facts.features.split(",")
    if triple.startswith(("aarch64", "arm64")):
        return Target("neon", triple, facts.cpu, facts.features, 16, 32, True)
    if "+avx512f" in features and "+avx512vl" in features:
        cpu = _cpu_name(facts.cpu, features)
        target = Target("avx512", triple, cpu, facts.features, 64, 32, True)
        return replace(target, name="amx") if target.has_tiles else target
    if "+avx2" in features and "+fma" in features:
        return Target("avx2", triple, facts.cpu, facts.features, 32, 16, True)
    name = "sse2" if "x86_64" in triple else "generic"
    return Target(name, triple, facts.cpu, facts.features, 16, 16, False)


def _permitted(host: Target, name: str) -> Target:
    """The host, without tile registers if the operating system denies the permission to use them.

    Raises ValueError in that case if ``name`` requests them.
    """
    if not host.has_tiles or permission.allows_tiles():
        return host
    if name == host.name:
        raise ValueError(
            f"HYBRIDJIT_TARGET={name!r}: the system refuses this process the registers of AMX; a "
            "thread may have an alternative signal stack that is too small for them"
        )
    return _without_tiles(host)


def _without_tiles(target: Target) -> Target:
    """The CPU without tile registers; LLVM's name of the CPU may imply them."""
    return replace(target, name="avx512", features=target.features.replace("+amx", "-amx"))


def _cpu_name(name: str, features: Sequence[str]) -> str:
    """LLVM's name of the CPU, or of a CPU with the same costs if no family contains the name.

    A virtual machine may report the model number of another CPU: for one with AMX, LLVM reports
    ``rocketlake``, a CPU without AMX.
    """
    is_known = any(name in family.cpus for family in FAMILIES)
    return _WITH_TILES if "+amx-tile" in features and not is_known else name
