"""Base of all symbolic cells: parameters, states, unrolling, and unpacking of weights.

Input: symbols. Output: symbols; a cell holds no values. Packed weights are one array for all gates,
the format of operators; unpacked weights are one array per gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, overload

from .. import nd, sym
from ..gluon.rnn.gates import StateInfo
from ..nd import NDArray
from ..ops.attrs import Declared
from ..sym import Symbol

States = list[Any]  # symbols; two lists of symbols for a bidirectional cell
Steps = Symbol | list[Symbol]  # one symbol, or one per step
Weights = dict[str, NDArray]
PRODUCTS = ("i2h", "h2h")
KINDS = ("weight", "bias")


class RNNParams:
    """Variables by name, each made at its first use; cells with the same object share them."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """The variable ``<prefix><name>``; ``kwargs`` are arguments of ``sym.var`` for a new
        one."""
        full = self._prefix + name
        if full not in self._params:
            self._params[full] = sym.var(full, **kwargs)
        return self._params[full]


class BaseRNNCell:
    """One step: ``output, states = cell(inputs, states)``."""

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Restart the count of steps; required before use in another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """To override: one step."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    @property
    def params(self) -> RNNParams:
        """The variables. Afterwards they count as shared."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[StateInfo]:
        """To override: shape and layout of each state; 0 is the batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shapes of the states; 0 is the batch."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> tuple[str, ...]:
        """Suffix of an unpacked weight's name for each gate, in the order of their rows."""
        return ()

    def begin_state(self, func: Callable[..., object] = sym.zeros, **kwargs: object) -> States:
        """The initial states, made by ``func(name=..., shape=..., **kwargs)``."""
        self._require_unmodified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**kwargs, **info}))
        return states

    def _require_unmodified(self) -> None:
        assert not self._modified, (
            "After applying modifier cells (e.g. DropoutCell) the base cell cannot be called "
            "directly. Call the modifier cell instead."
        )

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        """A copy of ``args`` in which this cell's weights have an array for each gate."""
        args = dict(args)
        gates = self._gate_names
        for start in self._weight_prefixes():
            whole = {kind: args.pop(f"{start}_{kind}") for kind in KINDS}
            for i, gate in enumerate(gates):
                for kind, array in whole.items():
                    rows = len(array) // len(gates)
                    args[f"{start}{gate}_{kind}"] = array[i * rows : (i + 1) * rows].copy()
        return args

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        """The inverse of :meth:`unpack_weights`."""
        args = dict(args)
        for start in self._weight_prefixes():
            for kind in KINDS:
                parts = [args.pop(f"{start}{gate}_{kind}") for gate in self._gate_names]
                args[f"{start}_{kind}"] = nd.concatenate(parts)
        return args

    def _get_activation(self, inputs: Symbol, activation: object, **kwargs: Declared) -> Symbol:
        """For user-defined cells: the activation of that name, or the function itself."""
        if isinstance(activation, str):
            return sym.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)  # type: ignore[operator,no-any-return]

    def _weight_prefixes(self) -> list[str]:
        """Name prefixes of the weights of each product; empty for a cell without weights."""
        return [f"{self._prefix}{name}" for name in PRODUCTS if self._gate_names]

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Steps, States]:
        """``length`` steps over ``inputs``, a symbol in ``layout`` or a list of steps.

        Returns the outputs (one symbol if ``merge_outputs``, else a list) and the last states.
        """
        self.reset()
        steps = formed(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in steps[:length]:
            output, states = self(step, states)
            outputs.append(output)
        return formed(length, outputs, layout, merge_outputs), states


@overload
def formed(length: int, steps: Steps, layout: str, merge: Literal[True]) -> Symbol: ...
@overload
def formed(length: int, steps: Steps, layout: str, merge: Literal[False]) -> list[Symbol]: ...
@overload
def formed(length: int, steps: Steps, layout: str, merge: bool | None) -> Any: ...
def formed(length: int, steps: Steps, layout: str, merge: bool | None) -> Symbol | list[Symbol]:
    """``steps`` as one symbol (``merge`` True), as a list (False), or unchanged (None).

    Raises AssertionError unless there are ``length`` steps.
    """
    assert steps is not None, (
        "unroll(inputs=None) has been deprecated. Please create input variables outside unroll."
    )
    axis = layout.find("T")
    if isinstance(steps, Symbol):
        if merge is not False:
            return steps
        assert len(steps) == 1, (
            "unroll doesn't allow grouped symbol as input. Please convert to list with "
            "list(inputs) first or let unroll handle splitting."
        )
        squeeze: Any = 1  # the attribute that MXNet writes
        return list(sym.split(steps, axis=axis, num_outputs=length, squeeze_axis=squeeze))
    assert len(steps) == length, f"unroll needs {length} steps, got {len(steps)}"
    if merge is not True:
        return steps
    return sym.Concat(*[sym.expand_dims(step, axis=axis) for step in steps], dim=axis)
