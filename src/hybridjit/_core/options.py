"""What a caller may choose for one network: the flags of ``hybridize`` that the compiler knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from ..ir.mode import PRECISIONS
from .frozen import dataclass

Flag: TypeAlias = Any  # of ``hybridize``: its name decides what it may be


@dataclass(frozen=True)
class Options:
    """What a caller may choose for one network.

    winograd   True where it pays, False never, "always" wherever it is possible; so is Strassen's
               algorithm, for 1x1 layers
    precision  the element type of what products multiply: ``float32`` or ``bfloat16``
    memory     ``small`` saves less for the way back and computes more again; ``default`` what is
               cheap alone
    dynamic    the sizes of inputs for which one compilation serves all values: None those that
               vary from call to call, True all, False none, or axes by the name of an input
    """

    winograd: bool | str = True
    precision: str = "float32"
    memory: str = "default"
    dynamic: bool | Mapping[str, Sequence[int]] | None = None

    @staticmethod
    def of(flags: Mapping[str, Flag]) -> Options:
        """What ``hybridize`` was given; names that are no options are left alone."""
        return Options(**{f.name: flags[f.name] for f in fields(Options) if f.name in flags})

    def __post_init__(self) -> None:
        if self.winograd not in (True, False, "always"):
            raise ValueError(f'winograd is True, False or "always", got {self.winograd!r}')
        if self.precision not in PRECISIONS:
            known = " or ".join(map(repr, PRECISIONS))
            raise ValueError(f"precision is {known}, got {self.precision!r}")
        if not _is_dynamic(self.dynamic):
            raise ValueError(
                "dynamic is True, False, None or axes by the name of an input, such as "
                f'{{"data": (0, 2)}}, got {self.dynamic!r}'
            )
        if self.memory not in ("default", "small"):
            raise ValueError(f"memory is 'default' or 'small', got {self.memory!r}")


def _is_dynamic(value: Any) -> bool:
    """Whether a value is one of the option ``dynamic``."""
    if not isinstance(value, Mapping):
        return value is None or isinstance(value, bool)
    return all(
        isinstance(name, str)
        and not isinstance(axes, str)
        and isinstance(axes, Sequence)
        and all(isinstance(axis, int) and axis >= 0 for axis in axes)
        for name, axes in value.items()
    )
