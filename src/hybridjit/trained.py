"""Graphs compiled for training: forward and backward executables of one signature or of many.

Input: the joint graph, its partition, and the executables. Output: both executables for each call.
"""

from __future__ import annotations

from functools import cached_property

from ._core.frozen import dataclass
from ._core.symbolic import Scope
from .ir.graph import Use
from .ir.sized import Values, sized_uses
from .passes.training.differentiate import Joint
from .passes.training.partition import Parts
from .runtime.binding import PackedStore
from .runtime.executable import Executable
from .runtime.variant import Signature, Templates, Variant


@dataclass(frozen=True)
class Replayed:
    """The uses by which a backward pass is recorded operator by operator.

    inputs      the joint graph's inputs
    wanted      the gradients and the new states
    saved       the saved values
    """

    inputs: tuple[Use, ...]
    wanted: tuple[Use, ...]
    saved: tuple[Use, ...]


@dataclass(frozen=True)
class Trained:
    """A graph compiled for training. Both executables have all variables as inputs.

    forward     computes the outputs, then the saved values
    backward    reads the inputs that ``parts`` names, the saved values, and the output gradients;
                computes the gradients and the new states that ``joint`` names. None without
                gradients
    values      values of the symbols of ``joint`` and ``parts``, by name
    """

    joint: Joint
    parts: Parts
    forward: Executable
    backward: Executable | None
    values: Values | None = None

    @cached_property
    def unread(self) -> frozenset[int]:
        """The outputs whose gradients backward does not read."""
        return frozenset(range(len(self.joint.forward.outputs))).difference(self.parts.heads)

    @cached_property
    def replayed(self) -> Replayed:
        """The joint graph's uses for the sizes of the call."""
        inputs = tuple(map(Use, self.joint.graph.inputs))
        wanted, saved = self.joint.backward_outputs, self.parts.saved
        if self.values:
            uses = sized_uses((*inputs, *wanted, *saved), self.values)
            first, last = len(inputs), len(uses) - len(saved)
            inputs, wanted, saved = uses[:first], uses[first:last], uses[last:]
        return Replayed(inputs, wanted, saved)

    @cached_property
    def nbytes(self) -> int:
        """Approximate memory of both executables."""
        return self.forward.nbytes + (0 if self.backward is None else self.backward.nbytes)


class TrainedVariant(Variant):
    """A graph compiled for training at all sizes that satisfy the guards.

    Its signature is that of the inputs only: parameters have fixed shapes. The executables of all
    sizes, forward and backward, share the same memory.
    """

    def __init__(
        self, signature: Signature, scope: Scope, joint: Joint, parts: Parts,
        forward: Templates, backward: Templates | None,
    ) -> None:  # fmt: skip
        super().__init__(signature, scope, forward)
        self._joint, self._parts = joint, parts
        self._store = PackedStore()
        self._backward: Variant | None = None
        if backward is not None:
            self._backward = Variant(signature, scope, backward)
            self._backward.share_turns(self)

    def knows(self, sizes: tuple[int, ...]) -> bool:
        """Whether machine code finds that the guards hold, and that there are kernels."""
        backward = self._backward
        return super().knows(sizes) and (backward is None or backward.knows(sizes))

    def serves(self, sizes: tuple[int, ...]) -> bool:
        """Whether kernels exist for these sizes, which satisfy the guards."""
        backward = self._backward
        return super().serves(sizes) and (backward is None or backward.serves(sizes))

    def trained(self, sizes: tuple[int, ...]) -> Trained:
        """Both executables for sizes from :meth:`sizes_for`, bound.

        Raises ShapeError for sizes that do not fit into memory.
        """
        forward = self._bound(self, sizes)
        backward = None if self._backward is None else self._bound(self._backward, sizes)
        values = dict(zip(self.scope.symbols, sizes))
        return Trained(self._joint, self._parts, forward, backward, values)

    def _bound(self, variant: Variant, sizes: tuple[int, ...]) -> Executable:
        executable = variant.at(sizes)
        assert isinstance(executable, Executable), "training does not split batches"
        if executable.bound is None:
            variant.bind(executable, {}, self._store)
        return executable
