"""``Module._exec_group``: names and arrays of a bound module, as MXNet's programs access them.

Input: a bound module. Output: a view of it with one executor, because one computation serves all
contexts. The view holds no data: each access reads the module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import nd
from ..io import DataDesc
from ..nd import NDArray
from .base_module import Merged
from .binding import BoundModule

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


# For each array a list of one copy per executor; there is one executor.
Copies = list[list[NDArray]]


class BoundExecutor:
    """The executor of a module."""

    def __init__(self, module: BoundModule) -> None:
        self._module = module

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arrays of the arguments by name."""
        return self._module.arg_dict

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The arrays of the auxiliary states by name."""
        return self._module.aux_dict

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Gradients by argument: zeros, or None without a gradient."""
        params = self._module._params
        return {
            name: None if name not in params or params[name]._grad is None else params[name].grad()
            for name in self.arg_dict
        }

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs of the last batch by name."""
        return dict(zip(self._module.output_names, self.outputs))

    @property
    def arg_arrays(self) -> list[NDArray]:
        """The arrays of the arguments, in order."""
        return list(self.arg_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        """The arrays of the auxiliary states, in order."""
        return list(self.aux_dict.values())

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """The gradients, in the order of the arguments."""
        return list(self.grad_dict.values())

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs of the latest batch."""
        return list(self._module._outputs)

    def forward(self, is_train: bool = False, **kwargs: ArrayLike) -> list[NDArray]:
        """Copy ``kwargs`` into the inputs of the same names, and compute the outputs.

        Raises TypeError for an unknown name.
        """
        for name, given in kwargs.items():
            if name not in self._module._inputs:
                raise TypeError(f"Unknown argument {name}")
            self._module._inputs[name] = nd.array(given)
        self._module.compute(is_train)
        return self.outputs

    def set_monitor_callback(
        self, callback: Callable[[str, NDArray], object], monitor_all: bool = False
    ) -> None:
        """Call ``callback(name, array)`` for the results of every operator."""
        self._module.set_monitor_callback(callback, monitor_all)


class ExecutorGroup:
    """A bound module with the attributes of MXNet's executor group."""

    def __init__(self, module: BoundModule) -> None:
        self._module = module
        self.symbol = module._symbol
        self.contexts = module._context
        self.for_training = module.for_training
        self.arg_names = module._symbol.list_arguments()
        self.aux_names = module._aux_names
        self.param_names = module._param_names
        self.fixed_param_names = module._fixed_param_names
        self.state_names = module._state_names
        self.data_shapes = module.data_shapes
        self.label_shapes = module.label_shapes
        self.data_names = [desc.name for desc in module.data_shapes]
        self.label_names = [desc.name for desc in module.label_shapes or []]
        self.output_names = module.output_names
        self.execs = [BoundExecutor(module)]

    @property
    def batch_size(self) -> int:
        """Samples in a batch."""
        first = self.data_shapes[0]
        return first.shape[DataDesc.get_batch_axis(first.layout)]

    @property
    def slices(self) -> list[slice]:
        """The samples of each executor."""
        return [slice(0, self.batch_size)]

    @property
    def data_arrays(self) -> list[list[tuple[slice, NDArray]]]:
        """For each input, the slice of samples and the array that holds them."""
        return self._sliced(self.data_names)

    @property
    def label_arrays(self) -> list[list[tuple[slice, NDArray]]] | None:
        """For each label, the slice of samples and the array that holds them."""
        return self._sliced(self.label_names) if self.label_shapes else None

    @property
    def state_arrays(self) -> Copies:
        """The arrays of the states."""
        return [[self._module._inputs[name]] for name in self.state_names]

    @property
    def param_arrays(self) -> Copies:
        """The arrays of ``param_names``."""
        return [[self._module._params[name].data()] for name in self.param_names]

    @property
    def aux_arrays(self) -> Copies:
        """The arrays of ``aux_names``."""
        return [[self._module._params[name].data()] for name in self.aux_names]

    @property
    def grad_arrays(self) -> list[list[NDArray | None]] | None:
        """The gradients of ``param_names``; None unless the module is bound for training."""
        gradients = self.execs[0].grad_dict
        return [[gradients[name]] for name in self.param_names] if self.for_training else None

    def get_outputs(self, merge_multi_context: bool = True) -> list[Merged]:
        """The outputs of the last batch."""
        return self._module.get_outputs(merge_multi_context)

    def _sliced(self, names: list[str]) -> list[list[tuple[slice, NDArray]]]:
        inputs = self._module._inputs
        return [[(self.slices[0], inputs[name])] for name in names if name in inputs]
