"""Parts of a random case: a stream of choices, and the case itself.

In: a seed and a number. Out: always the same case for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridjit import sym
from hybridjit.sym import Symbol

# Around the sizes of tiles and vectors, where loops have tails.
CHANNELS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 23, 24, 25, 31, 32, 33, 39, 40)
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 20, 23)


class Draw:
    """A seeded stream of choices."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def int(self, low: int, high: int) -> int:
        """Between ``low`` and ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def channels(self) -> int:
        return self.pick(*CHANNELS)

    def length(self) -> int:
        return self.pick(*LENGTHS)

    def shape(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        """A shape of ``low`` to ``high`` axes with at most some thousand elements."""
        rank = self.int(low, high)
        bound = {1: 70, 2: 40, 3: 17, 4: 9, 5: 5}[rank]
        return tuple(self.int(1, bound) for _ in range(rank))

    def some(self, **values: Any) -> dict[str, Any]:
        """A random half of these attributes: omitted ones have their defaults."""
        return {name: value for name, value in values.items() if self.chance(0.5)}

    def normal(self, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
        return self.rng.normal(size=shape).astype(dtype)

    def uniform(self, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def integers(self, shape: tuple[int, ...], low: int, high: int, dtype: str) -> np.ndarray:
        return self.rng.integers(low, high, shape).astype(dtype)


@dataclass
class Case:
    """A graph with inputs. Parameters that ``params`` lacks are drawn once shapes are known."""

    symbol: Symbol
    inputs: dict[str, np.ndarray]
    params: dict[str, np.ndarray] = field(default_factory=dict)
    tolerance: float = 1e-5  # of the largest expected magnitude


Build = Callable[[Draw], Case]


def draw_params(draw: Draw, case: Case) -> dict[str, np.ndarray]:
    """``arg:`` and ``aux:`` arrays for every variable of the case that is not an input.

    Raises MXNetError when shapes contradict each other, ValueError when one stays unknown.
    """
    shapes = {name: array.shape for name, array in case.inputs.items()}
    types = {name: array.dtype for name, array in case.inputs.items()}
    found = case.symbol.infer_shape(**shapes)
    if found[0] is None:
        raise ValueError("shapes cannot be inferred")
    dtypes = case.symbol.infer_type(**types)
    names = case.symbol.list_arguments(), case.symbol.list_auxiliary_states()
    result = {}
    for kind, position in (("arg", 0), ("aux", 2)):
        for name, shape, dtype in zip(names[position // 2], found[position], dtypes[position]):
            if name not in case.inputs:
                given = case.params.get(name)
                value = _drawn(draw, name, shape) if given is None else given
                result[f"{kind}:{name}"] = np.asarray(value, dtype)
    return result


def _drawn(draw: Draw, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name.endswith("var"):
        return draw.uniform(shape, 0.3, 2.0)
    if name.endswith("weight"):
        fan_in = max(int(np.prod(shape[1:])), 1)
        return draw.normal(shape) / np.float32(np.sqrt(fan_in))
    return draw.normal(shape)


def data(name: str = "data", dtype: str | None = None) -> Symbol:
    return sym.var(name, dtype=dtype)
