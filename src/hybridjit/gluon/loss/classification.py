"""Losses of classes: cross entropies, divergence, CTC, margins."""

from __future__ import annotations

from types import ModuleType

from ..naming import BlockArgs
from ..types import Tensor, Unpack
from .base import TINY, Loss, product, reshape_like


def _logistic(F: ModuleType, pred: Tensor, label: Tensor) -> Tensor:
    """-label log(s) - (1 - label) log(1 - s) for s = sigmoid(pred), without overflow."""
    return F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")


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
        label = reshape_like(F, label, pred)
        of = self._of_probabilities if self._from_sigmoid else self._of_scores
        loss = of(F, pred, label, pos_weight)
        return self._mean(F, self._weighted(F, loss, sample_weight))

    def _of_scores(
        self, F: ModuleType, pred: Tensor, label: Tensor, pos_weight: Tensor | None
    ) -> Tensor:
        if pos_weight is None:
            return _logistic(F, pred, label)
        scale = 1 + product(F, pos_weight - 1, label)
        negative_log = F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred)
        return pred - pred * label + scale * negative_log

    def _of_probabilities(
        self, F: ModuleType, pred: Tensor, label: Tensor, pos_weight: Tensor | None
    ) -> Tensor:
        positive = F.log(pred + TINY) * label
        if pos_weight is not None:
            positive = product(F, positive, pos_weight)
        return -(positive + F.log(1.0 - pred + TINY) * (1.0 - label))


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
            product = pred * reshape_like(F, label, pred)
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
        loss = self._weighted(F, label * (F.log(label + TINY) - pred), sample_weight)
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
        return F.relu(self._margin - pred * reshape_like(F, label, pred))

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
        label = reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = _logistic(F, pred, label)
        return self._mean(F, self._weighted(F, loss, sample_weight))
