"""``mx.npx``: neural network operators on arrays of NumPy mode, and that mode's switches.

The operator functions come from the registry, one for each ``_npx_`` name.
"""

import sys
from functools import partial
from types import ModuleType
from typing import Any

from ._core.lazy import Late, arrived
from .context import cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from .nd.contrib import cond, foreach, while_loop
from .nd.creation import waitall
from .np.files import load, save, savez
from .np.front import EXTENSIONS, FRONT
from .ops.namespace import attach
from .ops.numpy_api.draws import Batches
from .ops.numpy_api.functions import bound
from .ops.numpy_api.later import LaterBatches, LaterLayers
from .random import seed as _seed
from .util import (
    get_cuda_compute_capability,
    is_np_array,
    is_np_shape,
    reset_np,
    set_np,
    use_np,
)

__all__ = [
    "cond",
    "cpu",
    "cpu_pinned",
    "current_context",
    "foreach",
    "get_cuda_compute_capability",
    "gpu",
    "gpu_memory_info",
    "is_np_array",
    "is_np_shape",
    "load",
    "num_gpus",
    "random",
    "reset_np",
    "save",
    "savez",
    "seed",
    "set_np",
    "use_np",
    "waitall",
    "while_loop",
]


def reshape(a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """Array reshaped; -1 to -6 are codes, as in MXNet."""
    sizes = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    return FRONT.op("_npx_reshape", a, newshape=sizes, reverse=reverse, order=order)


def seed(seed: int, ctx: Any = "all") -> None:
    """Seed the random generator. Raises ValueError unless ``seed`` is an integer."""
    _seed(seed, ctx)


def constraint_check(x: Any, msg: str = "Constraint violated.") -> Any:
    """True if all elements of a boolean array are true; otherwise raises ValueError with
    ``msg``."""
    return FRONT.op("_npx_constraint_check", x, msg=msg)


globals().update(bound(LaterLayers(FRONT)))
random = ModuleType(f"{__name__}.random", "``npx.random``: more distributions.")
_batches = Batches(FRONT)
for _name in ("bernoulli", "normal_n", "uniform_n"):
    setattr(random, _name, getattr(_batches, _name))
random.categorical = LaterBatches(FRONT).categorical  # type: ignore[attr-defined]
random.seed = seed  # type: ignore[attr-defined]
sys.modules[random.__name__] = random
image = ModuleType(f"{__name__}.image", "``npx.image``: operators on images, and ``mx.image``.")
_image = Late(".image", __package__)  # functions other than operators: files, augmenters
for _name in EXTENSIONS:
    if _name.startswith("_image_"):
        setattr(image, _name[len("_image_") :], EXTENSIONS[_name])
image.__getattr__ = partial(getattr, _image)  # type: ignore[method-assign]
sys.modules[image.__name__] = image
attach(sys.modules[__name__], EXTENSIONS)
arrived(__name__)
