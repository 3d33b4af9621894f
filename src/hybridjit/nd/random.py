"""``nd.random``: random arrays. The ``*_like`` operators are filled in from the registry."""

from typing import TYPE_CHECKING, Any

from ..ops.random.sampling import Distributions
from .ndarray import FUNCTIONS, NDArray

_distributions = Distributions(FUNCTIONS["_internal"], NDArray, (1,))

exponential = _distributions.exponential
gamma = _distributions.gamma
generalized_negative_binomial = _distributions.generalized_negative_binomial
multinomial = _distributions.multinomial
negative_binomial = _distributions.negative_binomial
normal = _distributions.normal
poisson = _distributions.poisson
randint = _distributions.randint
randn = _distributions.randn
shuffle = _distributions.shuffle
uniform = _distributions.uniform

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
