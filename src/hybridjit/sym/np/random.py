"""``mx.sym.np.random``: random draws in graphs."""

from typing import Any

from ...ops.numpy_api.draws import Draws
from ...ops.numpy_api.functions import bound
from ...ops.numpy_api.later import LaterDraws
from .symbols import FRONT

table: dict[str, Any] = {**bound(Draws(FRONT)), **bound(LaterDraws(FRONT))}
globals().update(table)
