"""``mx.sym.npx``: neural network operators on symbols of NumPy mode."""

import sys
from types import ModuleType
from typing import Any

from ..ops.namespace import attach
from ..ops.numpy_api.draws import Batches
from ..ops.numpy_api.functions import bound
from ..ops.numpy_api.later import LaterBatches, LaterLayers
from .control import cond as cond
from .control import foreach as foreach
from .control import while_loop as while_loop
from .np.symbols import EXTENSIONS, FRONT


def reshape(a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """Array reshaped; -1 to -6 are codes, as in MXNet."""
    sizes = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    return FRONT.op("_npx_reshape", a, newshape=sizes, reverse=reverse, order=order)


globals().update(bound(LaterLayers(FRONT)))
random = ModuleType(f"{__name__}.random", "``sym.npx.random``: more distributions.")
_batches = Batches(FRONT)
for _name in ("bernoulli", "normal_n", "uniform_n"):
    setattr(random, _name, getattr(_batches, _name))
random.categorical = LaterBatches(FRONT).categorical  # type: ignore[attr-defined]
image = ModuleType(f"{__name__}.image", "``sym.npx.image``: operators on images.")
for _name in EXTENSIONS:
    if _name.startswith("_image_"):
        setattr(image, _name[len("_image_") :], EXTENSIONS[_name])
attach(sys.modules[__name__], EXTENSIONS)
