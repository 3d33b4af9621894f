"""A batch that runs one sample after the other, with the same code, memory and bits.

Input: the executable of one sample, and possibly that of the last layers for all samples. Output:
an object that is called like an executable of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..ir.plan import Plan
from .binding import PackedStore
from .executable import Bound, Executable
from .instance import Code, Instance

Arrays = Sequence[np.ndarray]


class SplitBatch:
    """Calls ``one``, the executable for a batch of 1, for each of ``samples`` samples; then
    ``last``, if there are last layers for the whole batch, on the output of all samples.

    types_between  shapes and dtypes of the outputs of ``one`` for all samples
    """

    def __init__(self, one: Executable, samples: int, last: Executable | None = None) -> None:
        self.one = one
        self.last = last
        self.samples = samples
        self.types_between = [((samples, *shape[1:]), dtype) for shape, dtype in one.output_types]
        self.output_types = self.types_between if last is None else last.output_types
        self._bounds: tuple[Bound | None, Bound | None] = (None, None)

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
        return self.one.nbytes + (self.last.nbytes if self.last else 0)

    @property
    def thread_count(self) -> int:
        """Number of threads that the next call uses."""
        return max(each.thread_count for each in self._executables)

    @property
    def _executables(self) -> tuple[Executable, ...]:
        return (self.one,) if self.last is None else (self.one, self.last)

    def bind(self, params: Mapping[str, np.ndarray], store: PackedStore | None = None) -> None:
        """As :meth:`Executable.bind`."""
        store = PackedStore() if store is None else store
        for each in self._executables:
            each.bind(params, store)
        # At once, so that a call on another thread never gets new parameters for one of the two.
        self._bounds = (self.one.bound, self.last.bound if self.last else None)

    def pack(self) -> None:
        """As :meth:`Executable.pack`."""
        for each in self._executables:
            each.pack()

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
        # For all samples, even if other parameters are bound meanwhile.
        one, last = self._bounds if self.last else (self.one.bound, None)
        made = self._made(outputs)
        for sample in range(self.samples):
            self.one.run_into(take_sample(inputs, sample), take_sample(made, sample), bound=one)
        if self.last:
            self.last.run_into(made, outputs, bound=last)

    def _made(self, outputs: Arrays) -> Arrays:
        """The arrays into which the samples compute: the outputs, unless last layers follow."""
        if self.last is None:
            return outputs
        return [np.empty(shape, dtype) for shape, dtype in self.types_between]

    def connected(self, inputs: Arrays, outputs: Arrays) -> Callable[[], None]:
        """A function that runs on these arrays, with a private instance."""
        assert self.one.binding is not None
        instance = Instance(self.one, self.one.binding, self.one.thread_count)
        made = self._made(outputs)
        samples = [(take_sample(inputs, i), take_sample(made, i)) for i in range(self.samples)]
        run_last = self.last.connected(made, outputs) if self.last else None

        def run() -> None:
            for given, results in samples:
                instance.connect(*given, *results)
                self.one.run_segments(instance, given, results)
            if run_last:
                run_last()

        return run


def take_sample(arrays: Arrays, sample: int) -> list[np.ndarray]:
    """Sample ``sample`` of each array, as a batch of 1."""
    return [array[sample : sample + 1] for array in arrays]
