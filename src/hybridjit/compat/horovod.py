"""``horovod.mxnet`` on the processes of a job: the functions that MXNet programs use.

Input: arrays of every process. Output: their sum or mean in all processes. The exchange is that of
``kvstore="dist_sync"``. Names, arguments and defaults are those of Horovod 0.28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import autograd
from ..errors import DeferredInitializationError, MXNetError
from ..gluon.parameter import Parameter, ParameterDict
from ..gluon.parameter.single import _Deferred
from ..gluon.trainer import Trainer
from ..kvstore.exchange import Sums
from ..kvstore.job import Job, current_job
from ..nd import NDArray
from ..optimizer import Optimizer
from ..optimizer.base import Index, Indices, State, Weights

__all__ = [
    "DistributedOptimizer",
    "DistributedTrainer",
    "allgather",
    "allreduce",
    "allreduce_",
    "broadcast",
    "broadcast_",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "grouped_allreduce_",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_enabled",
    "mpi_threads_supported",
    "rank",
    "shutdown",
    "size",
]
_jobs: list[Job] = []  # the job of init


def init(comm: object = None) -> None:
    """Join the job. Raises MXNetError for a subset ``comm`` of its processes, and without
    mpi4py."""
    if comm:
        raise MXNetError("horovod.init(comm) does not support a subset of the processes: use all")
    if not _jobs:
        _jobs.append(current_job())


def shutdown() -> None:
    """Leave the job."""
    _jobs.clear()


def is_initialized() -> bool:
    """Whether ``init`` was called."""
    return bool(_jobs)


def _job() -> Job:
    if not _jobs:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _jobs[0]


def rank() -> int:
    """This process's number. Raises ValueError before ``init``, like all following functions."""
    return _job().rank


def size() -> int:
    """The number of processes of the job."""
    return _job().size


def local_rank() -> int:
    """This process's number on its machine."""
    return _job().local_rank


def local_size() -> int:
    """The number of processes of the job on this machine."""
    return _job().local_size


def cross_rank() -> int:
    """The number of this process's machine, if all machines have the same number of processes."""
    return _job().rank // _job().local_size


def cross_size() -> int:
    """The number of machines, if all have the same number of processes."""
    return -(-_job().size // _job().local_size)


def mpi_enabled() -> bool:
    """True: processes communicate by MPI."""
    return True


def mpi_threads_supported() -> bool:
    """False: exchanges use one thread of each process."""
    return False


def allreduce(
    tensor: NDArray,
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray:
    """The mean or sum of every process's array, as a new array of the same shape and dtype."""
    given = tensor.asnumpy() if prescale_factor == 1 else tensor.asnumpy() * prescale_factor
    total = _job().summed(given.astype(tensor.dtype, copy=False), f"allreduce {name}")
    factor = postscale_factor / size() if average else postscale_factor
    scaled = total if factor == 1 else (total * factor).astype(tensor.dtype)
    return NDArray(scaled, tensor.context)


def allreduce_(
    tensor: NDArray,
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray:
    """Like :func:`allreduce`, written to the array itself."""
    tensor[:] = allreduce(tensor, average, name, priority, prescale_factor, postscale_factor)
    return tensor


def grouped_allreduce_(
    tensors: Sequence[NDArray], average: bool = True, name: str | None = None, priority: int = 0
) -> list[NDArray]:
    """:func:`allreduce_` of several arrays."""
    return [allreduce_(t, average, f"{name} {i}", priority) for i, t in enumerate(tensors)]


def allgather(tensor: NDArray, name: str | None = None, priority: int = 0) -> NDArray:
    """All arrays concatenated along their first axis in the order of ranks."""
    return NDArray(_job().gathered(tensor.asnumpy(), f"allgather {name}"), tensor.context)


def broadcast(
    tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0
) -> NDArray:
    """The array of process ``root_rank``, as a new array."""
    found = _job().of_rank(root_rank, tensor.asnumpy(), f"broadcast {name}")
    return NDArray(found, tensor.context)


def broadcast_(
    tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0
) -> NDArray:
    """Like :func:`broadcast`, written to the array itself."""
    tensor[:] = broadcast(tensor, root_rank, name, priority)
    return tensor


def broadcast_parameters(
    params: Mapping[str, Parameter | NDArray] | ParameterDict,
    root_rank: int = 0,
    prefix: str | None = None,
) -> None:
    """Broadcast the parameters or arrays of ``root_rank`` to all processes, by name.

    Deferred parameters are broadcast when they are initialised. Raises ValueError unless ``params``
    is a mapping.
    """
    if not isinstance(params, (Mapping, ParameterDict)):
        raise ValueError(f"invalid params of type: {type(params)}")
    for name in sorted(params.keys()):
        value = params[name]
        if isinstance(value, Parameter):
            _broadcast_parameter(value, root_rank, f"{prefix or ''}{name}")
        else:
            broadcast_(value, root_rank, f"{prefix or ''}{name}")


def _broadcast_parameter(param: Parameter, root: int, name: str) -> None:
    try:
        param.set_data(broadcast(param.data(), root, name))
    except DeferredInitializationError:
        fill = param._fill

        def fill_and_broadcast(waiting: _Deferred) -> None:
            fill(waiting)
            with autograd.pause():
                param.set_data(broadcast(param.data(), root, name))

        vars(param)["_fill"] = fill_and_broadcast


class DistributedOptimizer(Optimizer):
    """An optimizer that updates with the mean gradient of all processes."""

    def __init__(
        self,
        optimizer: Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
    ) -> None:
        self._optimizer = optimizer
        self._optimizer.rescale_grad *= gradient_predivide_factor / size()
        self._predivide = gradient_predivide_factor

    def __getattr__(self, item: str) -> Any:
        return getattr(self._optimizer, item)

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """See the wrapped optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def create_state(self, index: Index, weight: NDArray) -> State:
        """See the wrapped optimizer."""
        return self._optimizer.create_state(index, weight)

    def update(self, index: Indices, weight: Weights, grad: Weights, state: State) -> None:
        """Add up the gradient, or several gradients, and call the wrapped optimizer."""
        self._add_up(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(
        self, index: Indices, weight: Weights, grad: Weights, state: State
    ) -> None:
        """Like :meth:`update`, for weights with a float32 copy."""
        self._add_up(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        """See the wrapped optimizer."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Mapping[int | str, float]) -> None:
        """See the wrapped optimizer."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Mapping[int | str, float]) -> None:
        """See the wrapped optimizer."""
        self._optimizer.set_wd_mult(args_wd_mult)

    def _add_up(self, index: Indices, grad: Weights) -> None:
        pairs = zip(index, grad) if isinstance(index, (list, tuple)) else [(index, grad)]
        for one, array in pairs:
            allreduce_(array, False, str(one), prescale_factor=1.0 / self._predivide)


class DistributedTrainer(Trainer):
    """A Trainer that updates with the mean gradient of all processes."""

    def __init__(
        self,
        params: object,
        optimizer: str | Optimizer,
        optimizer_params: Mapping[str, Parameter | NDArray] | None = None,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._scale *= gradient_predivide_factor / size()
        self._predivide = gradient_predivide_factor
        self._prefix = prefix or ""
        self._sums = Sums(_job())

    def _allreduce_grads(self) -> None:
        lists = self._current_lists() if self._predivide == 1 and len(self._contexts) == 1 else None
        if lists is None or any(leaf.grad.stype != "default" for leaf in lists.leaves):
            self._allreduce_each()
            return
        numbers = lists.by_context[0][0]
        names = [f"{self._prefix}{number}" for number in numbers]
        for leaf, total in zip(lists.leaves, self._sums.of(names, lists.leaves)):
            leaf.grad[:] = total

    def _allreduce_each(self) -> None:
        for i, param in enumerate(self._params):
            if param.grad_req != "null":
                factor = 1.0 / self._predivide
                name = f"{self._prefix}{i}"
                for grad in param.list_grad():
                    allreduce_(grad, False, name, prescale_factor=factor)
