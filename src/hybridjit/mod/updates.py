"""What a module updates its parameters with: an optimizer and its states, or a store that has them.

In: parameters with gradients. Out: new values, in the parameters' own arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MXNetError
from ..formats.atomic import write_atomically
from ..gluon import Parameter
from ..opening import open_file
from ..sym import Symbol

if TYPE_CHECKING:
    from .. import optimizer

Options = Mapping[str, Any] | Sequence[tuple[str, Any]]


class Updates:
    """The optimizer of a module, with a state for each parameter.

    Several modules over the same parameters may share one, as buckets do. ``updater`` updates by
    the parameter's number, or ``store`` by its name; the other one is None.
    """

    def __init__(self, made: optimizer.Optimizer, kvstore: Any = None) -> None:
        from .. import optimizer  # noqa: PLC0415 (see tests/test_layers.py)

        self.optimizer = made
        self.store = kvstore
        self.updater = optimizer.get_updater(made) if kvstore is None else None
        self._known: set[str] = set()
        if kvstore is not None:
            kvstore.set_optimizer(made)

    def apply(self, params: Mapping[str, Parameter]) -> None:
        """One step of every parameter that has a gradient."""
        for index, (name, param) in enumerate(params.items()):
            if param.grad_req == "null":
                continue
            for weight, grad in zip(param.list_data(), param.list_grad()):
                if self.updater is not None:
                    self.updater(index, grad, weight)
                else:
                    self._by_store(name, weight, grad)

    def _by_store(self, name: str, weight: Any, grad: Any) -> None:
        if name not in self._known:
            self.store.init(name, weight)
            self._known.add(name)
        self.store.push(name, grad)
        self.store.pull(name, weight)

    def save(self, fname: str) -> None:
        """Write the states as MXNet does: pickled, by the parameter's number."""
        if self.updater is None:
            self.store.save_optimizer_states(fname)
            return
        write_atomically(Path(fname), [self.updater.get_states(dump_optimizer=False)])

    def load(self, fname: str) -> None:
        """Read what :meth:`save` or MXNet wrote."""
        if self.updater is None:
            self.store.load_optimizer_states(fname)
            return
        with open_file(fname) as file:
            self.updater.set_states(file.read())


def make_optimizer(
    wanted: str | optimizer.Optimizer,
    options: Options,
    symbol: Symbol | None,
    names: Sequence[str],
    batch_size: int,
) -> optimizer.Optimizer:
    """An optimizer whose gradients are divided by the batch's size, unless ``options`` say else.

    ``wanted`` is a name, or an optimizer, which stays as it is, with a warning where it does not
    divide.
    """
    from .. import optimizer  # noqa: PLC0415 (see tests/test_layers.py)

    scale = 1.0 / batch_size
    if isinstance(wanted, optimizer.Optimizer):
        if wanted.rescale_grad != scale:
            warnings.warn(
                "Optimizer created manually outside Module but rescale_grad is not normalized to "
                f"1.0/batch_size/num_workers ({wanted.rescale_grad} vs. {scale}). Is this "
                "intended?",
                stacklevel=3,
            )
        wanted.idx2name = wanted.idx2name or dict(enumerate(names))
        return wanted
    given = {"rescale_grad": scale, **dict(options)}
    return optimizer.create(wanted, sym=symbol, param_idx2name=dict(enumerate(names)), **given)


def require_local(kvstore: object) -> object:
    """The store to update by: None for the names of local ones.

    Raises MXNetError for a name of a distributed one.
    """
    if isinstance(kvstore, str) and kvstore.startswith("dist"):
        raise MXNetError(f"kvstore {kvstore!r}: hybridjit trains on one machine, use 'local'")
    return None if isinstance(kvstore, str) else kvstore
