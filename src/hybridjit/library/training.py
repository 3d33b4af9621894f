"""A training step as plain data, and the memory layout of a context's states.

Input: a graph of losses, initial arrays, update rules. Output: name, location and initial value of
every value that is kept from step to step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from .._core.frozen import dataclass
from .._core.options import Options
from .._core.types import TensorType
from ..errors import MXNetError
from ..ir.node import Output
from ..ir.update import UpdateRule
from .interface import ALIGNMENT, CHANCE, COUNT, Array
from .random_generator import seeded


@dataclass(frozen=True)
class Update:
    """Update of one weight.

    variable    the variable whose gradient it reads kept        names of the values it reads and
    writes: the weight used in the update, then its states stored      name of the weight if that is
    rounded from the one used in the update; otherwise "" lr_mult     factor of the learning rate wd
    weight decay
    """

    rule: UpdateRule
    variable: str
    kept: tuple[str, ...]
    stored: str
    lr_mult: float
    wd: float


@dataclass(frozen=True)
class Training:
    """Forward, loss, backward and update of one batch.

    outputs      the losses; gradients are of their sum
    inputs      types of the arrays of a call by the graph's names, in order
    input_names their names for callers
    kept        initial values of variables and optimizer states, by name
    variables   types of those that the graph reads, in order
    wanted      variables whose gradients are computed
    numbers     hyperparameters that all updates share, in the order of their rules
    unbiased    decay factors of running means whose bias the rate corrects, or None
    count       number of updates before the first step
    """

    outputs: tuple[Output, ...]
    output_names: tuple[str, ...]
    inputs: Mapping[str, TensorType]
    input_names: tuple[str, ...]
    kept: Mapping[str, np.ndarray]
    variables: Mapping[str, TensorType]
    wanted: frozenset[str]
    updates: tuple[Update, ...]
    numbers: tuple[float, ...]
    unbiased: tuple[float, float] | None
    count: int
    options: Options

    @property
    def types(self) -> dict[str, TensorType]:
        """Types of all variables of the graph, in the order of its inputs."""
        return {**self.variables, **self.inputs}


class Memory:
    """Memory of a context: named arrays, then the hyperparameters of updates.

    arrays      states by name with their initial values, including that of the random generator if
                the step draws
    nbytes      size of all
    first       initial bytes, up to the last array that is not all 0
    """

    def __init__(self, training: Training, draws: bool) -> None:
        own = {COUNT: np.array(training.count, np.int64)}
        if draws:
            own[CHANCE] = seeded(0)
        self.arrays = {**training.kept, **own}
        if both := [name for name in own if name in training.kept]:
            raise MXNetError(
                f"'{both[0]}' is the name of a state that every library has: rename the parameter"
            )
        self._own = [(0.0, update.wd) for update in training.updates]
        self._shared = training.numbers
        self._places: dict[str, int] = {}
        end = self._lay_out(name for name, array in self.arrays.items() if array.any())
        self._numbers_at = end
        numbers = np.array([n for row in self._own for n in row] + [*self._shared], np.float64)
        with np.errstate(over="ignore"):  # out of float32's range becomes infinity, as in operators
            self._numbers = numbers.astype(np.float32)
        end = _aligned(end + self._numbers.nbytes)
        self.first = self._first_bytes(end)
        rest = [name for name in self.arrays if name not in self._places]
        self.nbytes = self._lay_out(rest, end)

    def place(self, name: str) -> int:
        """Offset of an array."""
        return self._places[name]

    def number(self, row: int, column: int) -> int:
        """Offset of a hyperparameter of an update: learning rate, weight decay, then shared
        ones."""
        at = 2 * row + column if column < 2 else 2 * len(self._own) + column - 2
        return self._numbers_at + 4 * at

    def states(self) -> tuple[Array, ...]:
        """The named arrays as part of the interface."""
        return tuple(Array(name, a.dtype, a.shape) for name, a in self.arrays.items())

    def _lay_out(self, names: Iterable[str], end: int = 0) -> int:
        for name in names:
            self._places[name] = end
            end = _aligned(end + self.arrays[name].nbytes)
        return end

    def _first_bytes(self, nbytes: int) -> np.ndarray:
        made = np.zeros(nbytes, np.uint8)
        placed = [(self._places[name], self.arrays[name]) for name in self._places]
        for start, array in [*placed, (self._numbers_at, self._numbers)]:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            made[start : start + flat.size] = flat
        return made


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
