"""The parameters of a trainer, and the arguments of their updates.

Input: parameters. Output: them in the order of their indices; indices, gradients and weights for
each context, kept while the parameters have the same arrays.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, is_
from typing import NamedTuple

from ..nd import NDArray
from ..nd.storage import WRITES
from ..nd.tape import Leaf
from .parameter import Parameter, ParameterDict

_STALE = (
    "Gradient of Parameter `{name}` on context {ctx} has not been updated by backward since last "
    "`step`. This could mean a bug in your model that made it only use a subset of the Parameters "
    "(Blocks) for this iteration. If you are intentionally only using a subset, call step with "
    "ignore_stale_grad=True to suppress this warning and skip updating of Parameters with stale "
    "gradient"
)
_DATA, _GRAD, _ENTRY = map(attrgetter, ("_data", "_grad", "_entry"))


class UpdateLists(NamedTuple):
    """Arguments of all updates of a trainer, and the objects from which they were made.

    by_context      for each context the indices, gradients and weights of parameters with gradients
    leaves          of these weights, on all contexts
    """

    by_context: list[tuple[list[int], list[NDArray], list[NDArray]]]
    leaves: list[Leaf]
    params: list[Parameter]
    read: list[object]
    weights: list[NDArray]
    entries: list[object]
    replaced: int

    def hold(self) -> bool:
        """Whether all parameters still have the same arrays."""
        if self.replaced != WRITES.replaced:
            return False
        found = chain(map(_DATA, self.params), map(_GRAD, self.params))
        return all(map(is_, found, self.read)) and all(
            map(is_, map(_ENTRY, self.weights), self.entries)
        )


def update_lists(params: list[Parameter]) -> UpdateLists | None:
    """The lists for these parameters; None if some are deferred, or of a user's class."""
    if any(not p._is_plain or p._data is None or p.stype != "default" for p in params):
        return None
    replaced = WRITES.replaced
    trained = [(i, param) for i, param in enumerate(params) if param.grad_req != "null"]
    if not trained:
        return None
    numbers = [i for i, _ in trained]
    grads = zip(*(param.list_grad() for _, param in trained))
    weights = [*zip(*(param.list_data() for _, param in trained))]
    every = [weight for some in weights for weight in some]
    leaves = [leaf for leaf in (weight._leaf for weight in every) if leaf is not None]
    if len(leaves) < len(every):
        return None
    by_context = [(numbers, list(g), list(w)) for g, w in zip(grads, weights)]
    read = [*map(_DATA, params), *map(_GRAD, params)]
    return UpdateLists(by_context, leaves, params, read, every, [*map(_ENTRY, every)], replaced)


def listed(params: object) -> list[Parameter]:
    """The parameters in the order of their indices."""
    if isinstance(params, (dict, ParameterDict)):
        params = [params[name] for name in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ValueError(
            f"First argument must be a list or dict of Parameters, got {type(params)}"
            f"{': pass net.collect_params()' if hasattr(params, 'collect_params') else ''}."
        )
    for param in params:
        if not isinstance(param, Parameter):
            raise ValueError(
                f"First argument must be a list or dict of Parameters, got list of {type(param)}."
            )
    if not params:
        raise TypeError(
            "Trainer needs at least one Parameter, got none: net.params are a block's own ones "
            "alone; pass net.collect_params(), and check the pattern given to it"
        )
    return list(params)


def arrays_of(param: Parameter) -> list[NDArray]:
    """The arrays; a parameter of a user's class provides them by ``list_data``."""
    return param.list_data() if param.stype == "default" else param.arrays()


def require_fresh(param: Parameter, all_params: list[Parameter]) -> None:
    """Raise UserWarning unless backward wrote the gradient on every context.

    Before the first call some parameters may have no values; then raise their exception.
    """
    for data in arrays_of(param):
        if not data._fresh_grad:
            for one in all_params:
                if one.grad_req != "null":
                    one.list_data()
            raise UserWarning(_STALE.format(name=param.name, ctx=data.context))
