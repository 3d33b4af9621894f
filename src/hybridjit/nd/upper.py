"""What arrays ask of the layer of file formats above them.

Imports point down, so ``nd`` cannot reach it. The package (``hybridjit/__init__.py``) puts the
function into :data:`UPPER` when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InternalError


def _absent(data: bytes | bytearray) -> np.ndarray:
    raise InternalError("this function is attached by `import hybridjit`, which did not finish")


@dataclass
class Upper:
    """read_record  the values of one array of a ``.params`` file, from its bytes"""

    read_record: Callable[[bytes | bytearray], np.ndarray] = _absent


UPPER = Upper()
