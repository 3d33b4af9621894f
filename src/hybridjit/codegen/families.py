"""What bytes cost on a family of CPUs: a table by name, so that a choice never depends on a clock.

Rates are those of one core while its neighbours work, in units of a cycle. Only the memory's of
Zen 4 and Zen 5 were measured; the others are estimates from published figures. A CPU that is not in
the table, or code for a narrower one than the host, has the prices of ``GENERIC``.
"""

from __future__ import annotations

from ..records import dataclass
from ..target import Target


@dataclass(frozen=True)
class Family:
    """Cores that are alike.

    cpus         their names, as LLVM has them
    operations   on float32 in a cycle, with the widest vectors; a multiply-add is two
    memory       bytes from memory in a cycle
    third_level  bytes from the third-level cache, or the last, in a cycle
    """

    name: str
    cpus: tuple[str, ...]
    operations: int
    memory: float
    third_level: float

    @property
    def memory_price(self) -> float:
        """Operations in the time in which a byte comes from memory."""
        return self.operations / self.memory

    @property
    def third_level_price(self) -> float:
        """Operations in the time in which a byte comes from the third-level cache."""
        return self.operations / self.third_level


# As on Zen 5: 240 GFLOP/s against 39 GB/s for one core, which others share.
GENERIC = Family("generic", (), 64, 6.4, 32)
FAMILIES = (
    Family("Zen 2", ("znver2",), 32, 4, 16),
    Family("Zen 3", ("znver3",), 32, 4.5, 20),
    # 512-bit vectors in two halves: 118 GFLOP/s against 27 GB/s
    Family("Zen 4", ("znver4",), 32, 5, 20),
    Family("Zen 5", ("znver5",), 64, 6.4, 32),
    Family("Haswell", ("haswell", "broadwell", "skylake"), 32, 4, 10),
    Family("Skylake-X", ("skylake-avx512", "cascadelake", "cooperlake"), 64, 4, 10),
    Family("Ice Lake", ("icelake-client", "icelake-server", "tigerlake"), 64, 4.5, 11),
    Family("Sapphire Rapids", ("sapphirerapids", "emeraldrapids", "graniterapids"), 64, 4.5, 11),
    Family("Alder Lake", ("alderlake", "raptorlake", "meteorlake", "arrowlake"), 32, 6, 16),
    Family("Neoverse N1", ("neoverse-n1",), 16, 6, 12),
    Family("Neoverse V1", ("neoverse-v1", "neoverse-n2"), 32, 7, 16),
    Family("Neoverse V2", ("neoverse-v2", "neoverse-v3"), 32, 8, 16),
    Family("Apple", tuple(f"apple-m{n}" for n in range(1, 6)), 32, 16, 24),
)
_BY_CPU = {cpu: family for family in FAMILIES for cpu in family.cpus}


def family_of(target: Target) -> Family:
    """The family of the CPU that code is made for, by its name."""
    return _BY_CPU.get(target.cpu, GENERIC)
