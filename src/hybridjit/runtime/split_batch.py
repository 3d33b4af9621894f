"""A batch that runs one sample after the other, with the same code, memory and bits.

Input: the executable of one sample. Output: an object that is called like an executable of the
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..ir.plan import Plan
from .binding import PackedStore
from .executable import Executable
from .instance import Code, Instance

Arrays = Sequence[np.ndarray]


class SplitBatch:
    """Calls ``one``, the executable for a batch of 1, for each of ``samples`` samples."""

    def __init__(self, one: Executable, samples: int) -> None:
        self.one = one
        self.samples = samples
        self.output_types = [((samples, *shape[1:]), dtype) for shape, dtype in one.output_types]

    @property
    def plan(self) -> Plan:
        """The plan of one sample."""
        return self.one.plan

    @property
    def code(self) -> Code:
        return self.one.code

    @property
    def nbytes(self) -> int:
        """As :attr:`Executable.nbytes`."""
        return self.one.nbytes

    @property
    def thread_count(self) -> int:
        """Number of threads that the next call uses."""
        return self.one.thread_count

    def bind(self, params: Mapping[str, np.ndarray], store: PackedStore | None = None) -> None:
        """As :meth:`Executable.bind`."""
        self.one.bind(params, store)

    def pack(self) -> None:
        """As :meth:`Executable.pack`."""
        self.one.pack()

    def __call__(self, inputs: Arrays) -> list[np.ndarray]:
        """The outputs, freshly allocated. ``inputs`` are contiguous, of the compiled types."""
        outputs = [np.empty(shape, dtype) for shape, dtype in self.output_types]
        self.run_into(inputs, outputs)
        return outputs

    def output_for(self, data: np.ndarray) -> np.ndarray:
        """The first output for the only input."""
        return self((data,))[0]

    def run_into(self, inputs: Arrays, outputs: Arrays) -> None:
        """Compute into ``outputs``: contiguous, of the compiled types, no input memory."""
        bound = self.one.bound  # for all samples, even if other parameters are bound meanwhile
        for sample in range(self.samples):
            arrays = take_sample(inputs, sample), take_sample(outputs, sample)
            self.one.run_into(*arrays, bound=bound)

    def connected(self, inputs: Arrays, outputs: Arrays) -> Callable[[], None]:
        """A function that runs on these arrays, with a private instance."""
        assert self.one.binding is not None
        instance = Instance(self.one, self.one.binding, self.thread_count)
        samples = [(take_sample(inputs, i), take_sample(outputs, i)) for i in range(self.samples)]

        def run() -> None:
            for given, made in samples:
                instance.connect(*given, *made)
                self.one.run_segments(instance, given, made)

        return run


def take_sample(arrays: Arrays, sample: int) -> list[np.ndarray]:
    """Sample ``sample`` of each array, as a batch of 1."""
    return [array[sample : sample + 1] for array in arrays]
