"""Interface of a library: arrays, error codes and their messages in one record.

Input: a plan and the options of the command. Output: names and sizes on which the header, the
emitted checks and the loader agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np

from .._core.frozen import dataclass
from .._core.types import Shape, product

ABI_VERSION = 1
# States other than those of weights: the number of updates, and the random generator.
COUNT, CHANCE = "num_update", "random_state"
# Alignment of a caller's workspace: a cache line, as for the compiler's own.
ALIGNMENT = 64
MAX_THREADS = 1024
# Largest array of a call: its size times the batch fits 64 bits.
MAX_BYTES = 1 << 47

# Kinds of errors: the low byte of a code.
OK, NULL, CPU, THREADS, MEMORY, OPEN, FOREIGN, BATCH, BUSY, ROOM, DATA, FORKED = range(12)
NO_ARRAY, SIZE, MISALIGNED, OVERLAP = range(16, 20)
RATE, NO_STATE, STATE_SIZE, STATE_VALUE = 32, 33, 34, 35  # of libraries that train
KIND_NAMES = {
    OK: "OK",
    NULL: "NULL",
    CPU: "CPU",
    THREADS: "THREADS",
    MEMORY: "MEMORY",
    OPEN: "WEIGHTS_FILE",
    FOREIGN: "WEIGHTS_CONTENT",
    BATCH: "BATCH",
    BUSY: "BUSY",
    ROOM: "WORKSPACE",
    DATA: "DATA",
    FORKED: "FORKED",
    NO_ARRAY: "ARRAY_NULL",
    SIZE: "ARRAY_BYTES",
    MISALIGNED: "ARRAY_ALIGNMENT",
    OVERLAP: "ARRAY_OVERLAP",
}
TRAINING_KIND_NAMES = {RATE: "RATE", NO_STATE: "STATE_NAME", STATE_SIZE: "STATE_BYTES"}
TRAINING_KIND_NAMES[STATE_VALUE] = "STATE_VALUE"
MAX_COUNT = 1 << 53  # updates: the largest count that a double represents exactly


@dataclass(frozen=True)
class Array:
    """An input or an output of one call; of one sample if the batch size is an argument."""

    name: str
    dtype: np.dtype
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return product(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Interface:
    """A library from the point of view of its callers.

    name        prefix of every function, a C identifier
    any_batch   whether the batch size is an argument of a call
    rounds      number of runs of the kernels for one sample, or for a call of a fixed batch
    threads     whether contexts may have several threads
    weights     name of the file of weights; "" if they are inside the object
    targets     names of CPUs, the widest vectors first
    states      trained values of a context, by name; empty for inference
    """

    name: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    any_batch: bool
    rounds: int
    threads: bool
    weights: str
    targets: tuple[str, ...]
    states: tuple[Array, ...] = ()

    @property
    def trains(self) -> bool:
        """Whether a call is a training step."""
        return bool(self.states)

    @property
    def draws(self) -> bool:
        """Whether a step draws random numbers."""
        return any(array.name == CHANCE for array in self.states)

    @property
    def kind_names(self) -> dict[int, str]:
        """The names of the error kinds of this library, by number."""
        return {**KIND_NAMES, **TRAINING_KIND_NAMES} if self.trains else KIND_NAMES

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Inputs, then outputs: the order of their numbers in error codes."""
        return self.inputs + self.outputs

    @property
    def max_batch(self) -> int:
        """The largest batch that a call may name."""
        largest = max((a.nbytes for a in self.arrays), default=1)
        return MAX_BYTES // max(1, largest) if self.any_batch else 1

    def shape(self, array: Array) -> list[str | int]:
        """The array's shape, with "N" for the batch size of a call."""
        return ["N", *array.shape[1:]] if self.any_batch else [*array.shape]

    def description(self) -> str:
        """The complete interface as JSON, for loaders in other languages."""
        return json.dumps(
            {
                "abi": ABI_VERSION,
                "name": self.name,
                "inputs": [self._described(a) for a in self.inputs],
                "outputs": [self._described(a) for a in self.outputs],
                "max_batch": self.max_batch,
                "alignment": ALIGNMENT,
                "threads": self.threads,
                "weights": self.weights,
                "targets": self.targets,
                "states": [self._described(a) for a in self.states],
            }
        )

    def _described(self, array: Array) -> dict[str, object]:
        return {
            "name": array.name,
            "dtype": array.dtype.name,
            "shape": self.shape(array),
            "bytes": array.nbytes,
        }

    def texts(self) -> Iterator[tuple[int, str]]:
        """Every error code of the library, with its message."""
        names = ", ".join(self.targets)
        yield OK, "no error"
        more = ", or to a name or its data" if self.trains else ""
        yield NULL, f"a pointer to a context, to inputs or to outputs{more} is NULL"
        yield (
            CPU,
            "this CPU or operating system lacks features of the CPUs that the library supports: "
            f"{names}",
        )
        if self.threads:
            yield (
                THREADS,
                f"threads must be 1 to {MAX_THREADS}, and the system must be able to start them",
            )
        else:
            yield THREADS, "this library was compiled without threads: threads must be 1"
        yield MEMORY, "out of memory"
        if self.weights:
            yield OPEN, f"the file of weights, {self.weights}, cannot be opened or mapped"
            yield FOREIGN, f"the file of weights is not the {self.weights} of this library"
        else:
            yield OPEN, "the weights are inside this library: the path of their file must be NULL"
        yield BATCH, f"the batch must be 1 to {self.max_batch}"
        if self.trains:
            yield (
                BUSY,
                "another thread is in a call that reads or writes the states of this context",
            )
        else:
            yield BUSY, "another thread is in a call that uses this context's own workspace"
        yield (
            ROOM,
            (
                f"the workspace must be aligned to {ALIGNMENT} bytes and have at least "
                f"{self.name}_workspace_bytes bytes"
            ),
        )
        kept = "weights and states did not change" if self.trains else "outputs are not valid"
        yield DATA, f"an index in an input is out of range: {kept}"
        yield FORKED, "this process is a fork of the one that started the context's threads"
        for number, array in enumerate(self.arrays):
            yield from self._texts_of(number, array)
        if self.trains:
            yield from self._texts_of_states()

    def _texts_of_states(self) -> Iterator[tuple[int, str]]:
        yield RATE, "the learning rate must be finite"
        yield NO_STATE, "no state has this name"
        for number, array in enumerate(self.states):
            text = f"state {number}, {array.name!a}, must have {array.nbytes} bytes"
            yield array_code(STATE_SIZE, number), text
            if array.name in _STATE_RULES:
                text = f"state {number}, {array.name!a}, {_STATE_RULES[array.name]}"
                yield array_code(STATE_VALUE, number), text

    def _texts_of(self, number: int, array: Array) -> Iterator[tuple[int, str]]:
        side = "input" if number < len(self.inputs) else "output"
        place = number if number < len(self.inputs) else number - len(self.inputs)
        what = f"{side} {place}, {array.name!a},"
        each = " for each sample" if self.any_batch else ""
        yield array_code(NO_ARRAY, number), f"{what} has no data: the pointer is NULL"
        yield (
            array_code(SIZE, number),
            f"{what} must have {array.nbytes} bytes{each}",
        )
        start = f"its address must be a multiple of {array.dtype.itemsize} bytes"
        yield array_code(MISALIGNED, number), f"{what} is {array.dtype.name}: {start}"
        yield (
            array_code(OVERLAP, number),
            f"{what} shares memory with an output or with the workspace",
        )


_STATE_RULES = {
    COUNT: f"must be 0 to {MAX_COUNT} (2**53)",
    CHANCE: "must be two 128-bit numbers, the second odd",
}


def array_code(kind: int, number: int) -> int:
    """The code of an error of one array; inputs come first, then outputs."""
    return kind | number << 8


_LONGEST_NAME = 64


def identifier(name: str) -> str:
    """A name as a C identifier of ASCII characters: ``v2_0`` for ``2.0``."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_LONGEST_NAME]
    return plain if plain and plain[0].isalpha() else f"v{plain}"
