"""What BatchNorm does while ``autograd.is_training()``.

In: arrays and attribute values. Out: the results and the new moving statistics.
Every operator that is not named here means the same in both modes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# (arrays, attribute values) -> (results, {input position: new contents})
TrainingForm = Callable[
    [Sequence[np.ndarray], Mapping[str, Any]], tuple[list[np.ndarray], dict[int, np.ndarray]]
]
TRAINING_FORMS: dict[str, TrainingForm] = {}
