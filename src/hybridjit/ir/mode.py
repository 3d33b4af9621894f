"""The mode of a graph: inference, or a part of a training step.

A graph carries its purpose through all passes; the planner and the runtime read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._core.frozen import dataclass
from .._core.types import TensorType, shape_text
from ..errors import DTypeError, MXNetError, ShapeError

PRECISIONS = ("float32", "bfloat16", "int8")


@dataclass(frozen=True)
class Purpose:
    """The mode of a graph, and the results beside its visible outputs.

    training  whether operators compute as in training mode: Dropout drops elements, BatchNorm uses
              the batch's own statistics
    updates   pairs (number of an output, name of an input): after a call the input's array holds
              the output, and is the output. Each output and each input occurs once
    saved     number of outputs, the last ones, that a later call of another executable reads
    goes_back  whether it computes gradients from values that another executable saved
    repeats   names of values that are recomputed from checkpoints. Other values may compute the
              same; so that lifetimes stay short, the two are neither shared nor fused
    precision  the element type of the operands of products: ``float32``, ``bfloat16``, or ``int8``
              for layers whose data have a range
    winograd  whether convolutions may use fewer products than their definition
    is_library  whether parameters are constants: values that depend on them and on sizes which
              calls give are computed in each call
    """

    training: bool = False
    updates: tuple[tuple[int, str], ...] = ()
    saved: int = 0
    goes_back: bool = False
    repeats: frozenset[str] = frozenset()
    precision: str = "float32"
    winograd: bool = True
    is_library: bool = False

    def require_fitting(
        self, inputs: Mapping[str, TensorType], outputs: Sequence[TensorType]
    ) -> None:
        """Raise MXNetError, ShapeError or DTypeError if the graph lacks an output or input."""
        visible = len(outputs) - self.saved
        if self.saved < 0 or visible < 0:
            raise MXNetError(f"saved is between 0 and {len(outputs)} outputs, got {self.saved}")
        for number, name in self.updates:
            if not 0 <= number < visible:
                raise MXNetError(
                    f"an update's output is between 0 and {visible - 1}, got {number} for {name!r}"
                )
            if name not in inputs:
                raise MXNetError(
                    f"output {number} updates {name!r}, which is not an input: {', '.join(inputs)}"
                )
            _require_same(f"output {number} updates input {name!r}", inputs[name], outputs[number])
        for what, found in zip(("output", "input"), zip(*self.updates)):
            if twice := [x for i, x in enumerate(found) if x in found[:i]]:
                raise MXNetError(f"an update's {what} may occur only once, {twice[0]!r} is in two")


def _require_same(what: str, wanted: TensorType, found: TensorType) -> None:
    if wanted.shape != found.shape:
        shapes = f"{shape_text(wanted.dims)}, got {shape_text(found.dims)}"
        raise ShapeError(f"{what} and has its shape {shapes}")
    if wanted.dtype != found.dtype:
        raise DTypeError(f"{what} and has its type {wanted.dtype}, got {found.dtype}")


INFERENCE = Purpose()
