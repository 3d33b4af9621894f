"""``mx.sym.np.linalg``: linear algebra on symbols."""

from typing import Any

from ...ops.numpy_api.functions import bound
from ...ops.numpy_api.products import Linalg
from .symbols import FRONT

table: dict[str, Any] = bound(Linalg(FRONT))
globals().update(table)
