"""``gluon.loss``: losses of predictions against labels, one value per sample.

In: predictions and labels, optionally a weight for each sample. Out: the loss of every sample
along ``batch_axis``, unless a class states otherwise. Losses are hybrid blocks: their gradients are
computed and compiled like those of layers.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import NoReturn

from .. import nd
from .._core.shapes import is_np_array
from ..base import numeric_types
from ..errors import missing_attribute
from .hybrid_block import HybridBlock
from .naming import BlockArgs
from .types import Tensor, Unpack

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
    """Base of all losses: ``weight`` scales every value, ``batch_axis`` is the axis of samples."""

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
        """The mean over all axes except the batch axis."""
        return F.mean(loss, axis=self._batch_axis, exclude=True)


# Loss classes of other packages import these two names from MXNet.
def _apply_weighting(
    F: ModuleType, loss: Tensor, weight: float | None = None, sample_weight: Tensor | None = None
) -> Tensor:
    """``loss`` times the broadcast weights of samples, and times one factor."""
    if sample_weight is not None:
        loss = _product(F, loss, sample_weight)
    if weight is not None:
        assert isinstance(weight, numeric_types), f"weight must be a number, got {weight!r}"
        loss = loss * weight
    return loss


def _product(F: ModuleType, x: Tensor, y: Tensor) -> Tensor:
    """x * y with broadcasting; arrays of NumPy mode may differ in their element types."""
    return x * y if is_np_array() else F.broadcast_mul(x, y)


def _reshape_like(F: ModuleType, x: Tensor, other: Tensor) -> Tensor:
    """``x`` in the shape of ``other``, which has the same number of elements."""
    return x.reshape(other.shape) if F is nd else F.reshape_like(x, other)


def _logistic(F: ModuleType, pred: Tensor, label: Tensor) -> Tensor:
    """-label log(s) - (1 - label) log(1 - s) for s = sigmoid(pred), without overflow."""
    return F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")


class L2Loss(Loss):
    """Squared error: weight / 2 * (label - pred)^2.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    weight : float
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> gluon.loss.L2Loss()(nd.array([[1, 2]]), nd.array([[1, 4]])).asnumpy()
    array([1.], dtype=float32)
    """

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
    """Absolute error: |label - pred|.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> gluon.loss.L1Loss()(nd.array([[1, 2]]), nd.array([[1, 4]])).asnumpy()
    array([1.], dtype=float32)
    """

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
    """Cross entropy of independent binary labels.

    Call ``loss(pred, label, sample_weight=None, pos_weight=None)``: labels are between 0 and 1;
    ``pos_weight`` multiplies the term of the positive labels. The result has one element per
    sample, the mean over all other axes.

    Parameters
    ----------
    from_sigmoid : bool
        True: predictions are probabilities; False: scores, of which the sigmoid is computed
        together with the loss without overflow.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    >>> loss(nd.array([[0], [100]]), nd.array([[1], [1]])).asnumpy().round(4)
    array([0.6931, 0.    ], dtype=float32)
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
        scale = 1 + _product(F, pos_weight - 1, label)
        negative_log = F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred)
        return pred - pred * label + scale * negative_log

    def _of_probabilities(
        self, F: ModuleType, pred: Tensor, label: Tensor, pos_weight: Tensor | None
    ) -> Tensor:
        positive = F.log(pred + _TINY) * label
        if pos_weight is not None:
            positive = _product(F, positive, pos_weight)
        return -(positive + F.log(1.0 - pred + _TINY) * (1.0 - label))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of classes: -log of the probability of the right class.

    Call ``loss(pred, label, sample_weight=None)``. With ``sparse_label`` labels are class
    numbers of shape (N, ...) without the axis of classes; numbers outside of the classes count
    as the nearest class. Otherwise labels are distributions in the shape of ``pred``. The result
    has one element per sample, the mean over all other axes.

    Parameters
    ----------
    axis : int
        Axis of the classes in ``pred``.
    sparse_label : bool
        Whether labels are class numbers.
    from_logits : bool
        True: predictions are log-probabilities; False: scores, of which the log-softmax is
        taken.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.SoftmaxCrossEntropyLoss()
    >>> loss(nd.zeros((2, 4)), nd.array([0, 3])).asnumpy().round(4)
    array([1.3863, 1.3863], dtype=float32)
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
    """Kullback-Leibler divergence: label * (log(label) - pred).

    Call ``loss(pred, label, sample_weight=None)`` with distributions as labels. The result has
    one element per sample, the sum over all other axes.

    Parameters
    ----------
    from_logits : bool
        True: predictions are log-probabilities; False: scores, of which the log-softmax is
        taken.
    axis : int
        Axis of the distribution, for the log-softmax.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.KLDivLoss(from_logits=False)
    >>> loss(nd.zeros((1, 2)), nd.array([[0.5, 0.5]])).asnumpy().round(4)
    array([0.], dtype=float32)
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
    """Connectionist temporal classification: -log of the probability of a label sequence.

    Call ``loss(pred, label, pred_lengths=None, label_lengths=None, sample_weight=None)``.
    ``pred`` has scores for each step and class; the last class is the blank. Labels are class
    numbers, padded with -1 unless ``label_lengths`` states their lengths. The result has one
    element per sample. (Graves et al., 2006)

    Parameters
    ----------
    layout : str
        Axes of the predictions: NTC or TNC.
    label_layout : str
        Axes of the labels: NT or TN.
    weight : float, optional
        Factor of all losses.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    AssertionError
        For another layout.

    Examples
    --------
    >>> loss = gluon.loss.CTCLoss()
    >>> loss(nd.zeros((1, 4, 3)), nd.array([[0, 1]])).shape
    (1,)
    """

    def __init__(
        self,
        layout: str = "NTC",
        label_layout: str = "NT",
        weight: float | None = None,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        assert layout in ("NTC", "TNC"), f"layout of predictions must be NTC or TNC, got {layout}"
        assert label_layout in ("NT", "TN"), (
            f"layout of labels must be NT or TN, got {label_layout}"
        )
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
    """Huber loss: quadratic up to a distance of ``rho``, linear beyond.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    rho : float
        Distance at which the loss becomes linear.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    ValueError
        For ``rho`` 0.

    Examples
    --------
    >>> gluon.loss.HuberLoss()(nd.array([[0], [0]]), nd.array([[1], [3]])).asnumpy()
    array([0.5, 2.5], dtype=float32)
    """

    def __init__(
        self,
        rho: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if rho == 0:
            raise ValueError("HuberLoss divides by rho, got 0: use L1Loss, its limit")
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
    """Hinge loss: max(0, margin - pred * label) for labels -1 and 1.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    margin : float
        Distance from the boundary beyond which the loss is 0.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> gluon.loss.HingeLoss()(nd.array([[0.5], [2]]), nd.array([[1], [1]])).asnumpy()
    array([0.5, 0. ], dtype=float32)
    """

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
    """Squared hinge loss: max(0, margin - pred * label)^2; parameters as in :class:`HingeLoss`.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Examples
    --------
    >>> gluon.loss.SquaredHingeLoss()(nd.array([[0.5], [2]]), nd.array([[1], [1]])).asnumpy()
    array([0.25, 0.  ], dtype=float32)
    """

    def _too_close(self, F: ModuleType, pred: Tensor, label: Tensor) -> Tensor:
        return F.square(super()._too_close(F, pred, label))


class LogisticLoss(Loss):
    """Logistic loss: log(1 + exp(-pred * label)).

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.
    label_format : str
        signed: labels are -1 and 1; binary: 0 and 1.

    Raises
    ------
    ValueError
        For another ``label_format``.

    Examples
    --------
    >>> loss = gluon.loss.LogisticLoss(label_format="binary")
    >>> loss(nd.array([[0]]), nd.array([[1]])).asnumpy().round(4)
    array([0.6931], dtype=float32)
    """

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        label_format: str = "signed",
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format must be signed or binary, got {label_format}")
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
    """Triplet loss: max(0, |positive - pred|^2 - |negative - pred|^2 + margin).

    Call ``loss(pred, positive, negative)`` with arrays of one shape. The result has one element
    per sample; the squares are summed over all other axes.

    Parameters
    ----------
    margin : float
        Difference of the distances beyond which the loss is 0.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.TripletLoss(margin=1)
    >>> loss(nd.array([[0]]), nd.array([[1]]), nd.array([[3]])).asnumpy()
    array([0.], dtype=float32)
    """

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
    """Negative log-likelihood of counts under a Poisson distribution.

    Call ``loss(pred, target, sample_weight=None, epsilon=1e-8)``. The result is one mean over
    all elements.

    Parameters
    ----------
    weight : float, optional
        Factor of all losses.
    from_logits : bool
        True: predictions are logarithms of the rate; False: rates, to which ``epsilon`` is added
        before the logarithm.
    batch_axis : int
        Axis of the samples.
    compute_full : bool
        Whether Stirling's approximation of log(target!) is added where the target is above 1.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.PoissonNLLLoss()
    >>> loss(nd.array([[0]]), nd.array([[1]])).asnumpy()
    array([1.], dtype=float32)
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
    """Cosine distance: 1 - cos for label 1, max(0, cos - margin) for label -1.

    Call ``loss(input1, input2, label, sample_weight=None)`` with rows of vectors and one label
    per row. The result has shape (N, 1).

    Parameters
    ----------
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    margin : float
        Cosine below which unequal pairs have no loss.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.CosineEmbeddingLoss()
    >>> loss(nd.array([[1, 0]]), nd.array([[0, 1]]), nd.array([1])).asnumpy()
    array([[1.]], dtype=float32)
    """

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
    """Smoothed deep metric learning: rows of two batches match pairwise (arXiv 1905.12786).

    Call ``loss(x1, x2)`` with two arrays of shape (N, features). The result has one element per
    row. It works eagerly only, because the number of rows has to be known.

    Parameters
    ----------
    smoothing_parameter : float
        Probability that is spread over the rows that do not match.
    weight : float
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    AssertionError
        In a call, if the inputs have different shapes.

    Examples
    --------
    >>> gluon.loss.SDMLLoss()(nd.ones((3, 2)), nd.ones((3, 2))).shape
    (3,)
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
        assert x1.shape == x2.shape, (
            f"both inputs must have the same shape, got {x1.shape} and {x2.shape}"
        )
        count = x1.shape[0]
        same = F.eye(count, ctx=x1.context)
        same = same.as_np_ndarray() if is_np_array() else same
        spread = self.smoothing_parameter
        labels = same * (1 - spread) + (1 - same) * spread / (count - 1)
        difference = F.expand_dims(x1, 1) - F.expand_dims(x2, 0)
        distances = F.sum(difference**2, axis=2)
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels)


def __getattr__(name: str) -> NoReturn:
    raise missing_attribute(__name__, name, __all__)
