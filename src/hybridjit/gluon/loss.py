"""``gluon.loss``: how far predictions are from what was wanted, one number per sample.

In: predictions and labels, optionally a weight for each sample. Out: the loss of every sample
along ``batch_axis`` (a scalar per sample unless a class says otherwise). Only the values are
computed: there are no gradients here.
"""

from __future__ import annotations

import math
from types import ModuleType

from .. import nd
from ..base import numeric_types
from .hybrid_block import HybridBlock
from .types import BlockArgs, Tensor, Unpack

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

_TINY = 1e-12  # keeps logarithms and quotients finite


class Loss(HybridBlock):
    """Base of all losses: ``weight`` scales every value, samples lie along ``batch_axis``."""

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _weighted(
        self,
        F: ModuleType,
        loss: Tensor,
        sample_weight: Tensor | None = None,
        weight: float | None = None,
    ) -> Tensor:
        weight = self._weight if weight is None else weight
        return _apply_weighting(F, loss, weight, sample_weight)

    def _mean(self, F: ModuleType, loss: Tensor) -> Tensor:
        """The mean over all axes but the samples'."""
        return F.mean(loss, axis=self._batch_axis, exclude=True)


# Losses in other packages import these two from MXNet by their names.
def _apply_weighting(
    F: ModuleType, loss: Tensor, weight: float | None = None, sample_weight: Tensor | None = None
) -> Tensor:
    """``loss`` times the samples' weights (broadcast) and one number for all."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        assert isinstance(weight, numeric_types), f"weight must be a number, got {weight!r}"
        loss = loss * weight
    return loss


def _reshape_like(F: ModuleType, x: Tensor, other: Tensor) -> Tensor:
    """``x`` in the shape of ``other``, which has as many elements."""
    return x.reshape(other.shape) if F is nd else F.reshape_like(x, other)


def _logistic(F: ModuleType, pred: Tensor, label: Tensor) -> Tensor:
    """-label log(s) - (1 - label) log(1 - s) for s = sigmoid(pred), without overflow."""
    return F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")


class L2Loss(Loss):
    """weight / 2 * (label - pred)^2."""

    def __init__(
        self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        loss = F.square(_reshape_like(F, label, pred) - pred)
        half = None if self._weight is None else self._weight / 2
        return self._mean(F, self._weighted(F, loss, sample_weight, half))


class L1Loss(Loss):
    """|label - pred|."""

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        loss = F.abs(_reshape_like(F, label, pred) - pred)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Cross entropy of independent yes-or-no labels between 0 and 1.

    ``from_sigmoid`` says that predictions are probabilities already. ``pos_weight`` multiplies the
    part of the positive labels.
    """

    def __init__(
        self,
        from_sigmoid: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        pred: Tensor,
        label: Tensor,
        sample_weight: Tensor | None = None,
        pos_weight: Tensor | None = None,
    ) -> Tensor:
        label = _reshape_like(F, label, pred)
        of = self._of_probabilities if self._from_sigmoid else self._of_scores
        loss = of(F, pred, label, pos_weight)
        return self._mean(F, self._weighted(F, loss, sample_weight))

    def _of_scores(
        self, F: ModuleType, pred: Tensor, label: Tensor, pos_weight: Tensor | None
    ) -> Tensor:
        if pos_weight is None:
            return _logistic(F, pred, label)
        scale = 1 + F.broadcast_mul(pos_weight - 1, label)
        negative_log = F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred)
        return pred - pred * label + scale * negative_log

    def _of_probabilities(
        self, F: ModuleType, pred: Tensor, label: Tensor, pos_weight: Tensor | None
    ) -> Tensor:
        positive = F.log(pred + _TINY) * label
        if pos_weight is not None:
            positive = F.broadcast_mul(positive, pos_weight)
        return -(positive + F.log(1.0 - pred + _TINY) * (1.0 - label))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """-log of the probability of the right class, classes along ``axis``.

    Labels are class numbers, or with ``sparse_label`` False distributions. ``from_logits`` says
    that predictions are log-probabilities already.
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            product = pred * _reshape_like(F, label, pred)
            loss = -F.sum(product, axis=self._axis, keepdims=True)
        return self._mean(F, self._weighted(F, loss, sample_weight))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """label * (log(label) - pred), averaged; predictions are log-probabilities (``from_logits``).

    Without ``from_logits`` a log-softmax along ``axis`` is taken first.
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        loss = self._weighted(F, label * (F.log(label + _TINY) - pred), sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """-log of the probability of a label sequence; the last class is the blank (Graves 2006).

    Predictions are scores in ``layout``, labels class numbers in ``label_layout`` padded with -1.
    """

    def __init__(
        self,
        layout: str = "NTC",
        label_layout: str = "NT",
        weight: float | None = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        assert layout in ("NTC", "TNC"), f"layout of predictions is NTC or TNC, got {layout}"
        assert label_layout in ("NT", "TN"), f"layout of labels is NT or TN, got {label_layout}"
        self._layout = layout
        self._label_layout = label_layout
        super().__init__(weight, label_layout.find("N"), **kwargs)

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        pred: Tensor,
        label: Tensor,
        pred_lengths: Tensor | None = None,
        label_lengths: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._label_layout == "TN":
            label = F.swapaxes(label, 0, 1)
        lengths = {"data_lengths": pred_lengths, "label_lengths": label_lengths}
        given = {name: array for name, array in lengths.items() if array is not None}
        flags = {f"use_{name}": name in given for name in lengths}
        loss = F.CTCLoss(pred, label, blank_label="last", **given, **flags)
        return self._weighted(F, loss, sample_weight)


class HuberLoss(Loss):
    """Quadratic up to a distance of ``rho``, linear beyond. Raises ValueError for rho = 0."""

    def __init__(
        self,
        rho: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if rho == 0:
            raise ValueError("HuberLoss divides by rho, got 0: L1Loss is what it tends to")
        self._rho = rho

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        distance = F.abs(_reshape_like(F, label, pred) - pred)
        linear = distance - 0.5 * self._rho
        quadratic = (0.5 / self._rho) * F.square(distance)
        loss = F.where(distance > self._rho, linear, quadratic)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class HingeLoss(Loss):
    """max(0, margin - pred * label) for labels -1 and 1."""

    def __init__(
        self,
        margin: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def _too_close(self, F: ModuleType, pred: Tensor, label: Tensor) -> Tensor:
        return F.relu(self._margin - pred * _reshape_like(F, label, pred))

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        loss = self._too_close(F, pred, label)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class SquaredHingeLoss(HingeLoss):
    """The square of the hinge loss."""

    def _too_close(self, F: ModuleType, pred: Tensor, label: Tensor) -> Tensor:
        return F.square(super()._too_close(F, pred, label))


class LogisticLoss(Loss):
    """log(1 + exp(-pred * label)) for labels -1 and 1, or 0 and 1 (``label_format`` binary)."""

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        label_format: str = "signed",
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format is signed or binary, got {label_format}")
        self._label_format = label_format

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = _logistic(F, pred, label)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class TripletLoss(Loss):
    """max(0, |positive - pred|^2 - |negative - pred|^2 + margin)."""

    def __init__(
        self,
        margin: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, positive: Tensor, negative: Tensor
    ) -> Tensor:
        near = F.square(_reshape_like(F, positive, pred) - pred)
        far = F.square(_reshape_like(F, negative, pred) - pred)
        loss = F.sum(near - far, axis=self._batch_axis, exclude=True)
        return self._weighted(F, F.relu(loss + self._margin))


class PoissonNLLLoss(Loss):
    """Negative log-likelihood of Poisson counts, one mean over everything.

    With ``from_logits`` predictions are logarithms of the rate. ``compute_full`` adds Stirling's
    approximation of log(target!) where the target is above 1.
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        pred: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        epsilon: float = 1e-8,
    ) -> Tensor:
        target = _reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            loss = loss + _log_factorial(F, target) * (target > 1)
        return F.mean(self._weighted(F, loss, sample_weight))


def _log_factorial(F: ModuleType, n: Tensor) -> Tensor:
    """Stirling: n log(n) - n + log(2 pi n) / 2."""
    return n * F.log(n) - n + 0.5 * F.log(2 * n * math.pi)


class CosineEmbeddingLoss(Loss):
    """1 - cos for label 1, max(0, cos - margin) for label -1; the result has shape (N, 1)."""

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        margin: float = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        input1: Tensor,
        input2: Tensor,
        label: Tensor,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        label = label.reshape((-1, 1))
        cosine = _cosine(F, _reshape_like(F, input1, input2), input2)
        alike = (1 - cosine) * (label == 1)
        apart = F.relu((label == -1) * (cosine - self._margin))
        return self._weighted(F, alike + apart, sample_weight)


def _cosine(F: ModuleType, x: Tensor, y: Tensor) -> Tensor:
    """The cosine between rows of x and y, as a column."""
    lengths = [F.norm(each, axis=-1).reshape((-1, 1)) for each in (x, y)]
    product = F.sum(x * y, axis=-1).reshape((-1, 1))
    return product / F.maximum(lengths[0] * lengths[1], _TINY)


class SDMLLoss(Loss):
    """Rows of two batches belong together pairwise, all other rows apart (1905.12786).

    Eagerly only: the number of rows has to be known.
    """

    def __init__(
        self,
        smoothing_parameter: float = 0.3,
        weight: float = 1.0,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: ModuleType, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        assert x1.shape == x2.shape, f"both inputs have one shape, got {x1.shape} and {x2.shape}"
        count = x1.shape[0]
        same = F.eye(count, ctx=x1.context)
        spread = self.smoothing_parameter
        labels = same * (1 - spread) + (1 - same) * spread / (count - 1)
        difference = F.expand_dims(x1, 1) - F.expand_dims(x2, 0)
        distances = F.sum(difference**2, axis=2)
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels)
