"""Costs of moving bytes on a family of CPUs, by name, so that choices do not depend on a clock.

Rates are per core and cycle. Those of Zen 5 and of Sapphire Rapids, and those of Zen 4's memory,
were measured; the others are estimates from published figures. ``GENERIC`` serves unknown CPUs, and
code for a narrower CPU than the host.
"""

from __future__ import annotations

from .._core.frozen import dataclass
from .._core.target import Target


@dataclass(frozen=True)
class Family:
    """Cores with the same rates.

    cpus          their names in LLVM
    operations    float32 operations per cycle with the widest vectors; a multiply-add counts as two
    units         number of units that multiply vectors, and of those that load vectors
    memory        bytes from memory per cycle
    alone         the same while neighbouring cores are idle
    third_level   bytes per cycle from the third-level cache, or the last one
    second_level  bytes per cycle from the second-level cache
    third_bytes   size of the third-level cache, for the cores that share it
    """

    name: str
    cpus: tuple[str, ...]
    operations: int
    units: int
    memory: float
    alone: float
    third_level: float
    second_level: float
    third_bytes: int

    @property
    def memory_price(self) -> float:
        """Operations in the time of loading a byte from memory."""
        return self.operations / self.memory

    @property
    def third_level_price(self) -> float:
        """Operations in the time of loading a byte from the third-level cache."""
        return self.operations / self.third_level

    @property
    def second_level_price(self) -> float:
        """Operations in the time of loading a byte from the second-level cache."""
        return self.operations / self.second_level

    @property
    def is_slow_beyond_second(self) -> bool:
        """Whether the third-level cache has at most a quarter of the second level's rate.

        Then kernels that read and write in the order of memory, which the hardware prefetches,
        are faster on operands that exceed the second-level cache.
        """
        return 4 * self.third_level <= self.second_level

    def instructions(self, target: Target) -> float:
        """Vectors added, multiplied or loaded per cycle."""
        return min(self.units, self.operations / (2 * target.lanes))

    def works_on_halves(self, target: Target) -> bool:
        """Whether an instruction on a full vector takes twice as long as on half of one."""
        return self.instructions(target) <= self.units / 2

    def sums(self, target: Target) -> float:
        """Vectors multiplied and added per cycle: two instructions each without FMA."""
        return self.instructions(target) / (1 if target.has_fma else 2)


_MB = 1 << 20
# As Zen 5: 240 GFLOP/s against 24 GB/s for one core while others load as much, 39 GB/s otherwise.
GENERIC = Family("generic", (), 64, 2, 6.4, 10.4, 32, 64, 20 * _MB)
FAMILIES = (
    Family("Zen 2", ("znver2",), 32, 2, 4, 6.5, 16, 32, 16 * _MB),
    Family("Zen 3", ("znver3",), 32, 2, 4.5, 8, 20, 32, 32 * _MB),
    # 512-bit vectors in two halves: 118 GFLOP/s against 22 to 27 GB/s, 30 GB/s if alone
    Family("Zen 4", ("znver4",), 32, 2, 6, 8, 20, 32, 32 * _MB),
    Family("Zen 5", ("znver5",), 64, 2, 6.4, 10.4, 32, 64, 20 * _MB),
    Family("Haswell", ("haswell", "broadwell", "skylake"), 32, 2, 4, 5, 10, 32, 8 * _MB),
    Family(
        "Skylake-X",
        ("skylake-avx512", "cascadelake", "cooperlake"),
        *(64, 2, 4, 5, 10, 48, 24 * _MB),
    ),
    Family(
        "Ice Lake",
        ("icelake-client", "icelake-server", "tigerlake"),
        64,
        2,
        4.5,
        5.5,
        11,
        48,
        24 * _MB,
    ),
    Family(
        "Sapphire Rapids",
        ("sapphirerapids", "emeraldrapids", "graniterapids"),
        # 225 GFLOP/s against 14.5 GB/s from memory and 25 GB/s from the third level (a virtual one)
        *(64, 2, 4, 4.5, 7, 28, 48 * _MB),
    ),
    Family(
        "Alder Lake",
        ("alderlake", "raptorlake", "meteorlake", "arrowlake"),
        *(32, 2, 6, 8, 16, 48, 24 * _MB),
    ),
    Family("Neoverse N1", ("neoverse-n1",), 16, 2, 6, 8, 12, 24, 32 * _MB),
    Family("Neoverse V1", ("neoverse-v1", "neoverse-n2"), 32, 4, 7, 9, 16, 32, 32 * _MB),
    Family("Neoverse V2", ("neoverse-v2", "neoverse-v3"), 32, 4, 8, 10, 16, 48, 64 * _MB),
    Family("Apple", tuple(f"apple-m{n}" for n in range(1, 6)), 32, 4, 16, 20, 24, 48, 8 * _MB),
)
_BY_CPU = {cpu: family for family in FAMILIES for cpu in family.cpus}


def family_of(target: Target) -> Family:
    """The family of the CPU whose costs decide, by its name."""
    return _BY_CPU.get(target.model or target.cpu, GENERIC)
