"""Tracing: call a block's ``hybrid_forward`` once with symbols, and store the resulting graph.

Input: a hybrid block and the arguments of a call. Output: a :class:`Trace`: the graph's outputs,
the names of its inputs, and the formats of arguments and results. A trace does not depend on
shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .. import sym
from .._core.frozen import dataclass
from .._core.shapes import is_np_array
from ..ir.node import Output
from ..nd import NDArray
from ..sym import Symbol
from .structure import Format, flatten, regroup


@dataclass(frozen=True)
class Trace:
    """A block as a graph.

    inputs      variables, in the order of the flattened arguments without Nones
    in_format   the format of the list of arguments
    out_format  the format of the result
    mode        "np" or "nd": the kind of its results; "" means that of the arguments
    """

    inputs: tuple[Symbol, ...]
    outputs: tuple[Output, ...]
    in_format: Format
    out_format: Format
    mode: str = ""

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [str(symbol.name) for symbol in self.inputs]

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.inputs, self.symbol, self.in_format, self.out_format, self.mode)

    @property
    def symbol(self) -> Symbol:
        """The outputs as a Symbol."""
        return Symbol(self.outputs)


def _restored(
    inputs: tuple[Symbol, ...],
    symbol: Symbol,
    in_format: Format,
    out_format: Format,
    mode: str = "",
) -> Trace:
    return Trace(inputs, symbol.outputs, in_format, out_format, mode)


class Traceable(Protocol):
    """A block that computes with symbols."""

    def forward_symbols(self, *args: Any) -> Any:
        """The results of ``hybrid_forward`` on symbols."""


def trace(block: Traceable, args: Sequence[object]) -> Trace:
    """The graph that ``block`` computes for arguments of this structure.

    Raises ValueError for arguments or results that are not tensors, TypeError for a result that
    contains None, and the exceptions of ``hybrid_forward``.
    """
    flat, in_format = flatten(args, "input")
    count = sum(item is not None for item in flat)
    names = ["data"] if count == 1 else [f"data{i}" for i in range(count)]
    arrays = [item for item in flat if item is not None]
    inputs = tuple(_variable(*pair) for pair in zip(names, arrays))
    result = block.forward_symbols(*regroup(inputs, in_format))
    flat_result, out_format = flatten(result, "output")
    if not flat_result or any(item is None for item in flat_result):
        name = type(block).__name__
        way = f": {name}.hybrid_forward returned None, not its results" if result is None else ""
        raise TypeError(f"Expected a list of symbols as input{way}")
    for item in flat_result:
        _require_symbol(item, type(block).__name__)
    outputs = tuple(output for symbol in flat_result for output in symbol.outputs)
    return Trace(inputs, outputs, in_format, out_format, mode_of(flat_result))


def _require_symbol(result: object, name: str) -> None:
    if isinstance(result, NDArray):
        raise TypeError(
            f"Expected a list of symbols as input: {name}.hybrid_forward returned an NDArray of "
            f"shape {result.shape}, which does not follow from its input: compute with functions "
            "of F, and make constants by self.params.get_constant(name, value)"
        )


def _variable(name: str, argument: object) -> Symbol:
    """The variable for an argument; in NumPy mode if the array or the thread is."""
    is_classic = isinstance(argument, NDArray) and argument._plain is NDArray
    found = sym.var(name)
    return found.as_np_ndarray() if is_np_array() or not is_classic else found


def mode_of(results: Sequence[object]) -> str:
    """The kind of symbols or arrays, "np" or "nd". Raises TypeError for a mixture."""
    are_classic = {type(x) in (Symbol, NDArray) for x in results}
    if len(are_classic) > 1:
        raise TypeError(
            "the results of a block must be all arrays of NumPy mode or all classic ones: convert "
            "some with as_np_ndarray() or as_nd_ndarray()"
        )
    return "nd" if True in are_classic else "np"


def as_mode(symbol: Symbol) -> Symbol:
    """The symbol, converted to NumPy mode if this thread is in that mode."""
    return symbol.as_np_ndarray() if is_np_array() else symbol


def of_symbols(outputs: object, inputs: object) -> Trace:
    """The trace of an existing graph, for a SymbolBlock.

    A group in ``outputs`` is split into its parts; a single output is not a list.
    Raises AssertionError if an input is not a variable.
    """
    if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
        outputs = outputs[0]
    if not isinstance(inputs, (list, tuple)):
        inputs = list(inputs) if isinstance(inputs, Symbol) else [inputs]
    flat_inputs, in_format = flatten(inputs, "input")
    flat_outputs, out_format = flatten(outputs, "output")
    for symbol in (*flat_inputs, *flat_outputs):
        if not isinstance(symbol, Symbol):
            raise AttributeError(
                f"a SymbolBlock is made of symbols, got {type(symbol).__name__}: make them by "
                "sym.var and functions of sym; SymbolBlock.imports reads files"
            )
    for symbol in flat_inputs:
        assert len(symbol.outputs) == 1 and symbol.outputs[0].node.is_variable, (
            f"Input symbols must be variable, but {symbol} is an output of operators"
        )
    heads = tuple(output for symbol in flat_outputs for output in symbol.outputs)
    return Trace(tuple(flat_inputs), heads, in_format, out_format)
