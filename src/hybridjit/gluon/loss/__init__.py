"""``gluon.loss``: losses of predictions against labels, one value per sample.

In: predictions and labels, optionally a weight for each sample. Out: the loss of every sample
along ``batch_axis``, unless a class states otherwise. Losses are hybrid blocks: their gradients are
computed and compiled like those of layers.
"""

from __future__ import annotations

from typing import NoReturn

from ..._core.lazy import arrived
from ...base import numeric_types as numeric_types
from ...errors import missing_attribute
from ..hybrid_block import HybridBlock as HybridBlock
from .base import Loss
from .base import _apply_weighting as _apply_weighting
from .classification import (
    CTCLoss,
    HingeLoss,
    KLDivLoss,
    LogisticLoss,
    SigmoidBCELoss,
    SigmoidBinaryCrossEntropyLoss,
    SoftmaxCELoss,
    SoftmaxCrossEntropyLoss,
    SquaredHingeLoss,
)
from .pairs import CosineEmbeddingLoss, SDMLLoss, TripletLoss
from .regression import HuberLoss, L1Loss, L2Loss, PoissonNLLLoss

__all__ = [
    "CTCLoss",
    "CosineEmbeddingLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "L2Loss",
    "LogisticLoss",
    "Loss",
    "PoissonNLLLoss",
    "SDMLLoss",
    "SigmoidBCELoss",
    "SigmoidBinaryCrossEntropyLoss",
    "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss",
    "SquaredHingeLoss",
    "TripletLoss",
]


def __getattr__(name: str) -> NoReturn:
    raise missing_attribute(__name__, name, __all__, "LOSSES")


arrived(__name__)
