"""``mx.np.random``: random arrays of NumPy mode, from the generator of ``mx.random``."""

from typing import Any

from .._core.lazy import Late
from ..errors import missing_attribute as _missing_attribute
from ..ops.numpy_api.draws import Draws
from ..ops.numpy_api.functions import bound
from ..ops.numpy_api.later import LaterDraws
from .front import FRONT

_generator: Any = Late("..random", __package__)


def seed(seed: int, ctx: Any = "all") -> None:
    """Restart the generator.

    Parameters
    ----------
    seed : int
        The same number gives the same draws again.
    ctx : Context or str
        Accepted: all contexts share one generator.

    Raises
    ------
    ValueError
        If the seed is not an integer.
    """
    _generator.seed(seed, ctx)


table: dict[str, Any] = {**bound(Draws(FRONT)), **bound(LaterDraws(FRONT)), "seed": seed}
globals().update(table)
__all__ = sorted(table)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise _missing_attribute(__name__, name, __all__)
