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
from .._core.types import product
from .grid import Bound

ABI_VERSION = 1
SIZED_ABI_VERSION = 2  # of libraries whose calls give sizes
# States other than those of weights: the number of updates, and the random generator.
COUNT, CHANCE = "num_update", "random_state"
# Alignment of a caller's workspace: a cache line, as for the compiler's own.
ALIGNMENT = 64
MAX_THREADS = 1024
# The name of the first axis of every input, if samples run one after the other.
BATCH_NAME = "N"
# Largest array of a call: its size times the batch fits 64 bits.
MAX_BYTES = 1 << 47

# Kinds of errors: the low byte of a code.
OK, NULL, CPU, THREADS, MEMORY, OPEN, FOREIGN, BATCH, BUSY, ROOM, DATA, FORKED = range(12)
BOUND, REFUSED = 12, 13  # of libraries whose calls give sizes
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
SIZED_KIND_NAMES = {BOUND: "SIZE_BOUND", REFUSED: "REFUSED_SIZES"}
TRAINING_KIND_NAMES = {RATE: "RATE", NO_STATE: "STATE_NAME", STATE_SIZE: "STATE_BYTES"}
TRAINING_KIND_NAMES[STATE_VALUE] = "STATE_VALUE"
MAX_COUNT = 1 << 53  # updates: the largest count that a double represents exactly


@dataclass(frozen=True)
class Array:
    """An input or an output of one call; of one sample if the batch size is an argument.

    A size in ``shape`` that depends on those of a call is the text of its expression.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements. Only for an array of constant size."""
        return product(tuple(map(int, self.shape))) * self.dtype.itemsize

    @property
    def is_constant(self) -> bool:
        """Whether all sizes are numbers."""
        return not any(isinstance(size, str) for size in self.shape)


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
    sizes       names of the sizes that calls give, in order; empty if their sizes are constant
    bounds      the bounds of these sizes, except those of a batch that runs sample by sample
    refusals    messages for the classes of sizes within the bounds that the network refuses
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
    sizes: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def abi(self) -> int:
        """The version of the functions' arguments."""
        return SIZED_ABI_VERSION if self.sizes else ABI_VERSION

    def place(self, name: str) -> int:
        """The number of a size."""
        return self.sizes.index(name)

    @property
    def batch_place(self) -> int | None:
        """The number of the size that is the batch, which runs sample by sample; or None."""
        return self.place(BATCH_NAME) if self.sizes and self.any_batch else None

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
        more = TRAINING_KIND_NAMES if self.trains else SIZED_KIND_NAMES if self.sizes else {}
        return {**KIND_NAMES, **more}

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Inputs, then outputs: the order of their numbers in error codes."""
        return self.inputs + self.outputs

    @property
    def max_batch(self) -> int:
        """The largest batch that a call may name."""
        if self.sizes:
            return MAX_BYTES
        largest = max((a.nbytes for a in self.arrays), default=1)
        return MAX_BYTES // max(1, largest) if self.any_batch else 1

    def shape(self, array: Array) -> list[str | int]:
        """The array's shape, with "N" for the batch size of a call."""
        return [BATCH_NAME, *array.shape[1:]] if self.any_batch else [*array.shape]

    def description(self) -> str:
        """The complete interface as JSON, for loaders in other languages."""
        return json.dumps(
            {
                "abi": self.abi,
                "name": self.name,
                "inputs": [self._described(a) for a in self.inputs],
                "outputs": [self._described(a) for a in self.outputs],
                "max_batch": self.max_batch,
                "alignment": ALIGNMENT,
                "threads": self.threads,
                "weights": self.weights,
                "targets": self.targets,
                "states": [self._described(a) for a in self.states],
                "sizes": [self._described_size(name) for name in self.sizes],
            }
        )

    def _described(self, array: Array) -> dict[str, object]:
        nbytes = {"bytes": array.nbytes} if array.is_constant else {}
        return {
            "name": array.name,
            "dtype": array.dtype.name,
            "shape": self.shape(array),
            **nbytes,
        }

    def _described_size(self, name: str) -> dict[str, object]:
        bound = next((each for each in self.bounds if each.name == name), None)
        if bound is None:
            return {"name": name, "low": 1, "high": None, "step": 1}
        return {"name": name, "low": bound.low, "high": bound.values[-1], "step": bound.step}

    def texts(self) -> Iterator[tuple[int, str]]:
        """Every error code of the library, with its message."""
        yield OK, "no error"
        yield from self._texts_of_contexts()
        yield BATCH, self._batch_text()
        for bound in self.bounds:
            yield array_code(BOUND, self.place(bound.name)), f"the size {bound}"
        for number, text in enumerate(self.refusals):
            yield array_code(REFUSED, number), text
        yield from self._texts_of_calls()
        for number, array in enumerate(self.arrays):
            yield from self._texts_of(number, array)
        if self.trains:
            yield from self._texts_of_states()

    def _texts_of_contexts(self) -> Iterator[tuple[int, str]]:
        """Errors that the creation of a context finds."""
        more = ", or to a name or its data" if self.trains else ""
        yield NULL, f"a pointer to a context, to inputs or to outputs{more} is NULL"
        yield (
            CPU,
            "this CPU or operating system lacks features of the CPUs that the library supports: "
            f"{', '.join(self.targets)}",
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

    def _texts_of_calls(self) -> Iterator[tuple[int, str]]:
        """Errors of a call that its arrays do not cause by their sizes."""
        kept = "weights and states did not change" if self.trains else "outputs are not valid"
        use = (
            "is in a call that reads or writes the states of this context"
            if self.trains
            else "is in a call that uses this context's own workspace"
        )
        given = f"the bytes that {self.name}_shapes gives"
        least = given if self.sizes else f"{self.name}_workspace_bytes bytes"
        yield BUSY, f"another thread {use}"
        yield ROOM, f"the workspace must be aligned to {ALIGNMENT} bytes and have at least {least}"
        yield DATA, f"an index in an input is out of range: {kept}"
        yield FORKED, "this process is a fork of the one that started the context's threads"

    def _texts_of_states(self) -> Iterator[tuple[int, str]]:
        yield RATE, "the learning rate must be finite in float32"
        yield NO_STATE, "no state has this name"
        for number, array in enumerate(self.states):
            text = f"state {number}, {array.name!a}, must have {array.nbytes} bytes"
            yield array_code(STATE_SIZE, number), text
            if array.name in _STATE_RULES:
                text = f"state {number}, {array.name!a}, {_STATE_RULES[array.name]}"
                yield array_code(STATE_VALUE, number), text

    def _batch_text(self) -> str:
        if self.sizes:
            return f"{BATCH_NAME} must be at least 1, and an array have at most {MAX_BYTES} bytes"
        return f"the batch must be 1 to {self.max_batch}"

    def _texts_of(self, number: int, array: Array) -> Iterator[tuple[int, str]]:
        side = "input" if number < len(self.inputs) else "output"
        place = number if number < len(self.inputs) else number - len(self.inputs)
        what = f"{side} {place}, {array.name!a},"
        each = " for each sample" if self.any_batch else ""
        yield array_code(NO_ARRAY, number), f"{what} has no data: the pointer is NULL"
        yield (
            array_code(SIZE, number),
            f"{what} must have {self._size_text(array)}{each}",
        )
        start = f"its address must be a multiple of {array.dtype.itemsize} bytes"
        yield array_code(MISALIGNED, number), f"{what} is {array.dtype.name}: {start}"
        yield (
            array_code(OVERLAP, number),
            f"{what} shares memory with an output or with the workspace",
        )

    def _size_text(self, array: Array) -> str:
        if array.is_constant:
            return f"{array.nbytes} bytes"
        sizes = ", ".join(map(str, self.shape(array)))
        return f"the bytes of shape ({sizes})"


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
