"""MXNet's private functions for training loops written over executors.

Input: a store or its name, and for each parameter a list of arrays, one per device. Output: the
store, or the parameters after one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..io import DataDesc
from ..nd import NDArray
from ..sym import Symbol
from .base_module import Shapes, described
from .names import check_names, match_names
from .updates import Store, open_store, updates_there

if TYPE_CHECKING:
    from ..kvstore import KVStoreBase

Devices = Sequence[Sequence[NDArray]]  # per parameter, an array per device
Gradients = Sequence[Sequence[NDArray | None]]
Update = Callable[[int, NDArray, NDArray], object]


def create_kvstore(
    kvstore: Store, num_device: int, arg_params: Mapping[str, NDArray]
) -> tuple[KVStoreBase | None, bool]:
    """The store for this number of devices (None if none is needed), and whether it updates.

    Raises TypeError if ``kvstore`` is not a store, a name or None.
    """
    store = open_store(kvstore, num_device)
    largest = max((array.size for array in arg_params.values()), default=0)
    return store, updates_there(kvstore, store, largest)


def create_sparse_kvstore(kvstore: Store) -> tuple[KVStoreBase | None, bool]:
    """The store of row_sparse parameters, which updates them. Raises TypeError without a store."""
    if kvstore is None:
        raise TypeError(
            "Cannot create 'None' KVStore with row_sparse parameters. The type must be KVStore or "
            "str."
        )
    return open_store(kvstore, 2), True


def initialize_kvstore(
    kvstore: Any,
    param_arrays: Devices,
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Put all parameters into the store; a store that updates broadcasts dense ones."""
    for name, arrays in zip(param_names, param_arrays):
        value = arg_params[name]
        if update_on_kvstore and value.stype == "default":
            kvstore.broadcast(name, value, out=list(arrays))
        else:
            kvstore.init(name, value)


def update_params_on_kvstore(
    param_arrays: Devices, grad_arrays: Gradients, kvstore: Any, param_names: Sequence[str]
) -> None:
    """Update every parameter with gradients in the store, and pull it to all devices."""
    for number, (name, weights, given) in enumerate(zip(param_names, param_arrays, grad_arrays)):
        grads = [grad for grad in given if grad is not None]
        if grads:
            _exchange(kvstore, name, weights, grads, list(weights), -number)


def update_params(
    param_arrays: Devices,
    grad_arrays: Gradients,
    updater: Update,
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] = (),
) -> None:
    """Update every parameter with gradients, which the store adds up first.

    A parameter has a separate index, hence a separate state, on each device.
    """
    updates: list[list[tuple[int, NDArray, NDArray]]] = [[] for _ in range(num_device)]
    for number, (weights, given) in enumerate(zip(param_arrays, grad_arrays)):
        grads = [grad for grad in given if grad is not None]
        if grads and kvstore is not None:
            _exchange(kvstore, param_names[number], weights, grads, grads, -number)
        for device, (weight, grad) in enumerate(zip(weights, grads)):
            updates[device].append((number * num_device + device, grad, weight))
    for found in updates:
        for update in found:
            updater(*update)


def _exchange(
    kvstore: Any,
    name: str,
    weights: Sequence[NDArray],
    grads: list[NDArray],
    out: list[NDArray],
    priority: int,
) -> None:
    if {weights[0].stype, grads[0].stype} == {"default"}:
        kvstore.pushpull(name, grads, out=out, priority=priority)
    else:
        kvstore.push(name, grads, priority=priority)
        kvstore.pull(name, out=out, priority=priority)


def check_input_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Raise ValueError, or warn, for a name that is not an argument of the symbol."""
    check_names(symbol.list_arguments(), list(names), typename, throw)


def check_names_match(
    data_names: Sequence[str], data_shapes: Shapes, name: str, throw: bool
) -> None:
    """Raise ValueError, or warn, if the descriptions have other names than ``data_names``."""
    match_names(list(data_names), described(data_shapes), name, throw)


def parse_data_desc(
    data_names: Sequence[str],
    label_names: Sequence[str],
    data_shapes: Shapes,
    label_shapes: Shapes | None,
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Shapes as descriptions. Raises ValueError for wrong data names, warns of wrong labels."""
    data, label = described(data_shapes), described(label_shapes or ())
    match_names(list(data_names), data, "data", True)
    match_names(list(label_names), label, "label", False)
    return data, None if label_shapes is None else label


def split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The samples of each device, in proportion to its work load; the last takes the rest.

    Raises ValueError if a device would get no sample.
    """
    whole, ends = sum(work_load_list), [0]
    for load in work_load_list:
        ends.append(min(ends[-1] + round(load * batch_size / whole), batch_size))
    ends[-1] = batch_size if ends[-1] < batch_size else ends[-1]
    if any(begin >= end for begin, end in zip(ends, ends[1:])):
        raise ValueError("Too many slices. Some splits are empty.")
    return [slice(begin, end) for begin, end in zip(ends, ends[1:])]


def load_general(
    data: Sequence[NDArray],
    targets: Sequence[NDArray | Sequence[tuple[slice, NDArray]]],
    major_axis: Sequence[int] | None = None,
) -> None:
    """Copy each array to its target, or to several targets the samples of each.

    ``major_axis`` is the batch axis of each array; -1 copies the whole array.
    """
    axes = [0] * len(data) if major_axis is None else major_axis
    for source, target, axis in zip(data, targets, axes):
        if isinstance(target, NDArray):
            source.copyto(target)
            continue
        for part, array in target:
            is_whole = axis < 0 or part.stop - part.start == source.shape[axis]
            taken = source if is_whole else source.slice_axis(axis, part.start, part.stop)
            taken.copyto(array)


def load_data(batch: Any, targets: Sequence[Any], major_axis: Sequence[int] | None = None) -> None:
    """Copy a batch's data to the arrays of the devices."""
    load_general(batch.data, targets, major_axis)


def load_label(batch: Any, targets: Sequence[Any], major_axis: Sequence[int] | None = None) -> None:
    """Copy a batch's labels to the arrays of the devices."""
    load_general(batch.label, targets, major_axis)


def check_arguments(symbol: Symbol) -> None:
    """Raise ValueError if two arguments, or two auxiliary states, have the same name."""
    for what, names in (
        ("arguments", symbol.list_arguments()),
        ("auxiliary states", symbol.list_auxiliary_states()),
    ):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(
                f'Find duplicated name "{twice[0]}" among the {what}, please make the weight name '
                f"non-duplicated (using name arguments), {what} are {names}"
            )
