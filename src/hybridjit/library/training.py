"""A step of training in plain data, and where a context keeps what it learns.

In: a graph of losses, initial arrays, update rules. Out: a name, a place and a first value for
everything that stays from step to step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..errors import MXNetError
from ..ir.node import Output
from ..ir.update import UpdateRule
from ..options import Options
from ..records import dataclass
from ..types import TensorType
from .chance import seeded
from .interface import ALIGNMENT, CHANCE, COUNT, Array


@dataclass(frozen=True)
class Update:
    """One weight's update.

    variable  the variable whose gradient it reads
    kept      names of what it reads and writes: the weight that is computed on, then its states
    stored    the weight's name where that is rounded from the one that is computed on; "" else
    lr_mult   what the learning rate is multiplied by
    wd        the weight decay
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

    outputs      the losses; the gradients are those of their sum
    inputs       types of the arrays of a call by the graph's names, in their order
    input_names  what callers know them by
    kept         what variables and the optimizer's states are before the first step, by name
    variables    which of it the graph reads, in order
    wanted       variables whose gradients are computed
    numbers      what all updates are told beside rate and decay, in the order of their rules
    unbiased     the factors of running means whose bias the rate corrects, if there are any
    count        updates before the first step
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
        """Every variable of the graph, in the order in which it is called."""
        return {**self.variables, **self.inputs}


class Memory:
    """What a context keeps: named arrays, then the numbers that updates are told.

    arrays  what callers read and write by name, with its first value; the state of chance is there
            where something is drawn
    nbytes  of all
    first   the bytes that are not all 0 at the start: so many of them, from the beginning
    """

    def __init__(self, training: Training, draws: bool) -> None:
        own = {COUNT: np.array(training.count, np.int64)}
        if draws:
            own[CHANCE] = seeded(0)
        self.arrays = {**training.kept, **own}
        if both := [name for name in own if name in training.kept]:
            raise MXNetError(f"a library has something of its own that it calls '{both[0]}'")
        self._own = [(0.0, update.wd) for update in training.updates]
        self._shared = training.numbers
        self._places: dict[str, int] = {}
        end = self._lay_out(name for name, array in self.arrays.items() if array.any())
        self._numbers_at = end
        numbers = np.array([n for row in self._own for n in row] + [*self._shared], np.float64)
        with np.errstate(over="ignore"):  # beyond float32 is infinity, as operators have it
            self._numbers = numbers.astype(np.float32)
        end = _aligned(end + self._numbers.nbytes)
        self.first = self._first_bytes(end)
        rest = [name for name in self.arrays if name not in self._places]
        self.nbytes = self._lay_out(rest, end)

    def place(self, name: str) -> int:
        """Where an array begins."""
        return self._places[name]

    def number(self, row: int, column: int) -> int:
        """Where a number that an update is told lies: the row's rate, its decay, what all share."""
        at = 2 * row + column if column < 2 else 2 * len(self._own) + column - 2
        return self._numbers_at + 4 * at

    def states(self) -> tuple[Array, ...]:
        """The named arrays as callers see them."""
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
