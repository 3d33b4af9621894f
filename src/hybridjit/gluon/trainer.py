"""``Trainer``: a set of parameters with gradients, and the optimizer that updates them.

Input: parameters after backward. Output: the same parameters, updated. On several contexts a store
adds up the gradients, and optionally updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, NoReturn

from .. import optimizer as opt
from .._core.frames import FAILURES, public, shortened
from .._core.lazy import other_names
from .._core.recording import FLAGS, recording_as
from .._core.safe_open import open_file
from ..context import Context
from ..formats.atomic import system_errors, write_atomically
from ..kvstore.base import KVStoreBase
from ..kvstore.dist import DistKVStore
from ..kvstore.kvstore import KVStore, choose, create, updates_too
from ..nd import NDArray
from ..nd.storage import together_written
from ..nd.tape import Leaf
from ..nd.undo import whole
from ..optimizer import Optimizer, Updater
from .parameter import Parameter
from .update_lists import UpdateLists, arrays_of, listed, require_fresh, update_lists

__all__ = ["Trainer"]

_ON_STORE = (
    "{method} when parameters are updated on kvstore is not supported. Try setting "
    "`update_on_kvstore` to False when creating trainer."
)
_FRESH = attrgetter("fresh")


class _Wanted(NamedTuple):
    """The caller's arguments for the store."""

    kvstore: Any
    update_on_kvstore: bool | None


class Trainer:
    """Optimizer of a set of parameters: ``step`` updates them by their gradients.

    Parameters
    ----------
    params : ParameterDict, dict or list of Parameter
        The parameters to update, usually ``net.collect_params()``. A dictionary is taken in the
        order of its names; the position is the parameter's index in files of states.
    optimizer : str or Optimizer
        Name of an optimizer (sgd, adam, ...), or an instance.
    optimizer_params : dict, optional
        Arguments of a named optimizer: learning_rate, wd, momentum, lr_scheduler, ...
    kvstore : str, KVStore or None
        Store that sums gradients over several contexts; ``dist_sync`` over processes of
        ``mpirun``.
    compression_params : dict, optional
        Compression of gradients in the store.
    update_on_kvstore : bool, optional
        Whether the store updates the parameters; by default the store decides.

    Raises
    ------
    ValueError
        If ``params`` contains other objects than parameters, or the optimizer is unknown.
    TypeError
        If ``params`` is empty, as ``net.params`` of a block that has children alone.
    RuntimeError
        If a parameter is not initialized.
    AssertionError
        If parameters are on different contexts, or an instance comes with ``optimizer_params``.

    Notes
    -----
    On one context all parameters are updated in one compiled call for SGD, NAG, Signum, Adam,
    AdaGrad, AdaDelta, RMSProp and Ftrl. Other optimizers run their Python code.

    Examples
    --------
    >>> net = nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> with autograd.record():
    ...     loss = gluon.loss.L2Loss()(net(nd.ones((4, 2))), nd.ones((4, 1)))
    >>> loss.backward()
    >>> trainer.step(batch_size=4)
    >>> trainer.learning_rate
    0.1
    """

    @public
    def __init__(
        self,
        params: object,
        optimizer: str | Optimizer,
        optimizer_params: Mapping[str, object] | None = None,
        kvstore: object = "device",
        compression_params: Mapping[str, object] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        self._params = listed(params)
        self._param2idx = {param.name: i for i, param in enumerate(self._params)}
        for param in self._params:
            param._set_trainer(self)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        if not isinstance(optimizer_params, (Mapping, NoneType)):
            raise TypeError(
                "optimizer_params must be a mapping such as {'learning_rate': 0.1}, "
                f"got {optimizer_params!r}"
            )
        self._init_optimizer(optimizer, dict(optimizer_params or {}))
        self._scale = self._optimizer.rescale_grad
        self._wanted = _Wanted(kvstore, update_on_kvstore)
        self._lists: UpdateLists | None = None
        self._reset_kvstore()

    def __repr__(self) -> str:
        count = len(self._params)
        return f"Trainer({count} parameter{'' if count == 1 else 's'}, {self._optimizer})"

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for param in self._params:
            found = param.list_ctx()
            assert contexts is None or contexts == found, (
                "All Parameters must be initialized on the same set of contexts, but Parameter "
                f"{param.name} is initialized on {found} while previous Parameters are initialized "
                f"on {contexts}."
            )
            contexts = found
        return contexts or []

    def _init_optimizer(self, optimizer: str | Optimizer, arguments: dict[str, Any]) -> None:
        if isinstance(optimizer, Optimizer):
            assert not arguments, (
                "optimizer_params must be None if optimizer is an instance of Optimizer instead of "
                "str"
            )
            self._optimizer = optimizer
            self._optimizer.param_dict = self._by_index()
        else:
            self._optimizer = opt.create(optimizer, param_dict=self._by_index(), **arguments)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]

    def _by_index(self) -> dict[int | str, Parameter]:
        return dict(enumerate(self._params))

    # ---- the store ----------------------------------------------------------------------------

    def _reset_kvstore(self) -> None:
        """Discard the store: the next step makes one from the current values."""
        self._kv_initialized = False
        self._kvstore: KVStoreBase | None = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _init_kvstore(self) -> None:
        """Choose the store, and whether it updates."""
        store: KVStoreBase | None
        on_store: bool | None
        if any(param.stype != "default" for param in self._params):
            store, on_store = self._store_of_rows(), True
        else:
            store = choose(self._wanted.kvstore, len(self._contexts))
            on_store = self._chosen_updates(store)
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)  # type: ignore[attr-defined]
            if on_store:
                store.set_optimizer(self._optimizer)
        self._kvstore, self._update_on_kvstore = store, on_store
        self._kv_initialized = True

    def _store_of_rows(self) -> KVStoreBase:
        """The store that holds and updates sparse parameters, also for one context.

        Raises TypeError without a store, ValueError with ``update_on_kvstore=False``.
        """
        wanted = self._wanted.kvstore
        if not isinstance(wanted, (str, KVStoreBase)):
            raise TypeError(
                f"Cannot create '{wanted}' KVStore with row_sparse parameters. The type must be "
                "KVStore or str."
            )
        if self._wanted.update_on_kvstore is False:
            raise ValueError("Cannot set update_on_kvstore=False when sparse weights are present.")
        return create(wanted) if isinstance(wanted, str) else wanted

    def _row_sparse_pull(self, param: Parameter, out: list[NDArray], row_id: NDArray) -> None:
        """Write rows of a sparse parameter from its store to arrays, also to variables."""
        index = self._param2idx[param.name]
        with recording_as(False, FLAGS.training):
            self._prepare()
            self._kvstore.row_sparse_pull(index, out, -index, row_id)  # type: ignore[union-attr]

    def _chosen_updates(self, store: KVStoreBase | None) -> bool | None:
        """Whether the store updates; None without a store."""
        asked = self._wanted.update_on_kvstore
        if store is None:
            if asked:
                raise ValueError(
                    "update_on_kvstore=True needs a kvstore, and kvstore="
                    f"{self._wanted.kvstore!r} makes none for {len(self._contexts)} context"
                )
            return None
        can = store.is_capable(KVStoreBase.OPTIMIZER)
        if asked and not can:
            raise ValueError(f"Please set update_on_kvstore=False when training with {type(store)}")
        if asked is not None:
            return asked
        gives_rows = any(param.grad_stype != "default" for param in self._params)
        if gives_rows and "dist" not in store.type:
            return False  # as MXNet: row_sparse gradients of dense parameters are applied locally
        return can and self._stores_update_by_default()

    def _stores_update_by_default(self) -> bool:
        if isinstance(self._wanted.kvstore, KVStoreBase):
            return True
        return updates_too(self._wanted.kvstore, self._largest())

    def _largest(self) -> int:
        known = (arrays_of(param)[0].size for param in self._params if param.is_initialized)
        return max(known, default=0)

    def _init_params(self) -> None:
        """Initialise the parameters that have values in the store."""
        waiting = []
        for param in self._params_to_init:
            if param.is_deferred:
                waiting.append(param)
            elif self._kvstore is not None:
                arrays, index = arrays_of(param), self._param2idx[param.name]
                if param.stype == "default":
                    self._kvstore.broadcast(index, arrays[0], arrays)
                else:
                    self._kvstore.init(index, arrays[0])  # type: ignore[attr-defined]
        self._params_to_init = waiting

    def _prepare(self) -> None:
        """Make the store if there is none, and initialise new parameters in it."""
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _values_changed(self, param: Parameter) -> None:
        """Report new values of ``param``: a store that updates must start again from them."""
        if self._kv_initialized and self._update_on_kvstore and param not in self._params_to_init:
            self._reset_kvstore()

    # ---- learning rate ------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The optimizer's current learning rate."""
        return self._optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, lr: float) -> None:
        raise AttributeError(f"learning_rate is read only: write set_learning_rate({lr!r})")

    def __getattr__(self, name: str) -> NoReturn:
        way = other_names.way(name, "TRAINERS")
        raise shortened(AttributeError(f"'Trainer' object has no attribute {name!r}{way}"))

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer."""
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate.

        Raises
        ------
        UserWarning
            If the optimizer has a scheduler, which determines the rate.
        """
        self._optimizer.set_learning_rate(lr)

    # ---- updates ------------------------------------------------------------------------------

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients over contexts, then update the parameters.

        Parameters
        ----------
        batch_size : float
            Gradients are divided by it. Use 1 if the loss is a mean.
        ignore_stale_grad : bool
            True leaves parameters without a new gradient unchanged.

        Raises
        ------
        UserWarning
            If a gradient was not written by backward since the last step, unless
            ``ignore_stale_grad``.
        ZeroDivisionError
            If ``batch_size`` is 0.
        """
        try:
            self._check_and_rescale_grad(self._share(batch_size))
            self._prepare()
            self._allreduce_grads()
            self._update(ignore_stale_grad)
        except FAILURES as error:
            raise shortened(error)

    def _share(self, batch_size: float) -> float:
        """The factor of the gradients."""
        try:
            return self._scale / batch_size
        except TypeError:
            raise TypeError(f"batch_size is a number, got {batch_size!r}") from None
        except ZeroDivisionError:
            raise ZeroDivisionError(
                f"gradients are divided by batch_size, got {batch_size!r}: pass the number of "
                "samples, or 1 for a loss that is a mean"
            ) from None

    @public
    def allreduce_grads(self) -> None:
        """Add up the gradients over the contexts, before a call of :meth:`update`.

        Raises AssertionError if the store updates.
        """
        self._prepare()
        self._require_own_updates("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update the parameters with their gradients, divided by ``batch_size``.

        Raises AssertionError if the store updates, UserWarning as :meth:`step`.
        """
        try:
            self._prepare()
            self._require_own_updates("update()")
            self._check_and_rescale_grad(self._share(batch_size))
            self._update(ignore_stale_grad)
        except FAILURES as error:
            raise shortened(error)

    def _require_own_updates(self, method: str) -> None:
        is_ours = self._kvstore is None or not self._update_on_kvstore
        assert is_ours, _ON_STORE.format(method=method)

    def _check_and_rescale_grad(self, scale: float) -> None:
        self._optimizer.rescale_grad = scale

    def _allreduce_grads(self) -> None:
        if self._kvstore is None or self._exchanged():
            return
        if not self._update_on_kvstore:
            self._push_and_pull()
        elif self._is_distributed:
            self._update_there()
        else:
            self._update_there_together()

    @property
    def _is_distributed(self) -> bool:
        """Whether the store waits for other processes; no lock may be held meanwhile."""
        return isinstance(self._kvstore, DistKVStore)

    @together_written
    def _update_there_together(self) -> None:
        self._update_there()

    def _update_there(self) -> None:
        whole(self._push_and_pull, [], self._kvstore)

    def _push_and_pull(self) -> None:
        assert self._kvstore is not None
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            grads = param.list_grad()
            if param.stype != "default":
                self._kvstore.push(i, grads, -i)  # type: ignore[attr-defined]
            elif param.grad_stype != "default" and isinstance(self._kvstore, KVStore):
                self._kvstore.push(i, grads, -i)
                out = param.list_data() if self._update_on_kvstore else grads
                self._kvstore.pull(i, out, -i, ignore_sparse=False)
            elif self._update_on_kvstore:
                self._kvstore.pushpull(i, grads, out=param.list_data(), priority=-i)
            else:
                self._kvstore.pushpull(i, grads, priority=-i)

    def _exchanged(self) -> bool:
        """Add up all gradients over processes together; return False if that is not possible.

        That is so for stores of one process or of a user's class, and for several contexts.
        """
        if not isinstance(self._kvstore, DistKVStore) or len(self._contexts) > 1:
            return False
        lists = self._current_lists()
        if lists is None:
            return False
        ((numbers, _, weights),) = lists.by_context
        self._kvstore.exchange(numbers, lists.leaves, weights, bool(self._update_on_kvstore))
        return True

    def _current_lists(self) -> UpdateLists | None:
        """The lists of the previous step, or new ones if they are outdated."""
        if self._lists is None or not self._lists.hold():
            self._lists = update_lists(self._params)
        return self._lists

    def _update(self, ignore_stale_grad: bool = False) -> None:
        scaler = getattr(self, "_amp_loss_scaler", None)
        if scaler is not None and scaler.has_overflow(self._params):
            return
        on_store = self._kvstore is not None and self._update_on_kvstore
        lists = None if on_store else self._current_lists()
        if lists is not None and all(map(_FRESH, lists.leaves)):
            self._run_updaters(lists.by_context, lists.leaves)
            return
        updates: list[list[tuple[int, NDArray, NDArray]]] = [[] for _ in self._updaters]
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            if not ignore_stale_grad:
                require_fresh(param, self._params)
            if on_store:
                continue
            for found, weight, grad in zip(updates, param.list_data(), param.list_grad()):
                if not ignore_stale_grad or weight._fresh_grad:
                    found.append((i, grad, weight))
        leaves = [w._leaf for found in updates for _, _, w in found if w._leaf is not None]
        self._run_updaters([tuple(map(list, zip(*found))) for found in updates], leaves)

    @together_written
    def _run_updaters(self, given: Sequence[Any], leaves: Iterable[Leaf]) -> None:
        """Update with the indices, gradients and weights of each context; ``leaves`` are the
        weights'.

        Atomic: if an exception is raised before completion, gradients keep their freshness.
        """
        done: list[Any] = []
        fresh = [leaf for leaf in leaves if leaf.fresh]
        pairs = [(updater, some) for updater, some in zip(self._updaters, given) if some]
        try:
            for leaf in fresh:
                leaf.fresh = False
            if len(pairs) == 1:
                ((updater, (indices, grads, weights)),) = pairs
                updater.update(indices, grads, weights, done)
            else:
                each = partial(_update_each, pairs)
                whole(each, done, self._optimizer, self._optimizer.lr_scheduler)
        except BaseException:
            if not done:
                for leaf in fresh:
                    leaf.fresh = True
            raise

    # ---- files --------------------------------------------------------------------------------

    @public
    def save_states(self, fname: str) -> None:
        """Write the optimizer and its states to the file ``fname``, in MXNet's format."""
        self._prepare()
        if self._kvstore is not None and self._update_on_kvstore:
            assert not self._params_to_init, (
                "Cannot save trainer states when some parameters are not yet initialized in "
                "kvstore."
            )
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            write_atomically(fname, [self._updaters[0].get_states(dump_optimizer=True)])

    @public
    def load_states(self, fname: str) -> None:
        """Read optimizer and states from a file of this class or of MXNet's.

        The optimizer of the file replaces the current one, with its learning rate and counts. No
        code in the file is executed.

        Raises
        ------
        ModelFormatError
            For a file with other contents.
        MXNetError
            If the file cannot be read.
        """
        self._prepare()
        if self._kvstore is not None and self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer  # type: ignore[attr-defined]
        else:
            with system_errors(fname), open_file(fname) as file:
                states = file.read()
            for updater in self._updaters:
                updater.set_states(states)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = self._by_index()


def _update_each(pairs: Iterable[tuple[Updater, Sequence[Any]]]) -> None:
    for updater, some in pairs:
        updater(*some)
