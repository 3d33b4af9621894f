"""``mx.sym.np.random``: draws in graphs."""

from typing import Any

from ...ops.numpy_api.draws import Draws
from ...ops.numpy_api.functions import bound
from .front import FRONT

table: dict[str, Any] = bound(Draws(FRONT))
globals().update(table)
