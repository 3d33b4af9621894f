"""Options of one network: the flags of ``hybridize`` that the compiler knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from ..ir.mode import PRECISIONS
from .frozen import dataclass

Flag: TypeAlias = Any  # a flag of ``hybridize``: its type depends on its name


@dataclass(frozen=True)
class Options:
    """Options of one network.

    winograd   Winograd convolution: True where it is faster, False never, "always" wherever
               possible;
               the same for Strassen's algorithm in 1x1 layers
    precision  the element type of the operands of products: ``float32``, ``bfloat16`` or ``int8``
    memory     ``small`` saves fewer values for the backward part and recomputes more; ``default``
               recomputes only cheap values
    dynamic    the sizes of inputs for which one compilation serves all values: None those that
               vary from call to call, True all, False none, or axes by the name of an input
    inline_limit  the number of operators up to which the symbol of a recorded call contains them
               instead of one operator for the network
    """

    winograd: bool | str = True
    precision: str = "float32"
    memory: str = "default"
    dynamic: bool | Mapping[str, Sequence[int]] | None = None
    inline_limit: int = 2

    @staticmethod
    def of(flags: Mapping[str, Flag]) -> Options:
        """The options among the flags of ``hybridize``; other names are ignored."""
        return Options(**{f.name: flags[f.name] for f in fields(Options) if f.name in flags})

    def __post_init__(self) -> None:
        if self.winograd not in (True, False, "always"):
            raise ValueError(f'winograd is True, False or "always", got {self.winograd!r}')
        if self.precision not in PRECISIONS:
            known = ", ".join(map(repr, PRECISIONS))
            raise ValueError(f"precision is one of {known}, got {self.precision!r}")
        if not _is_dynamic(self.dynamic):
            raise ValueError(
                "dynamic is True, False, None or axes by the name of an input, such as "
                f'{{"data": (0, 2)}}, got {self.dynamic!r}'
            )
        if self.memory not in ("default", "small"):
            raise ValueError(f"memory is 'default' or 'small', got {self.memory!r}")


def _is_dynamic(value: Any) -> bool:
    """Whether ``value`` is valid for the option ``dynamic``."""
    if not isinstance(value, Mapping):
        return value is None or isinstance(value, bool)
    return all(
        isinstance(name, str)
        and not isinstance(axes, str)
        and isinstance(axes, Sequence)
        and all(isinstance(axis, int) and axis >= 0 for axis in axes)
        for name, axes in value.items()
    )
