"""Losses of pairs and triplets of vectors."""

from __future__ import annotations

from types import ModuleType

from ..._core.shapes import is_np_array
from ..naming import BlockArgs
from ..types import Tensor, Unpack
from .base import TINY, Loss, reshape_like
from .classification import KLDivLoss


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
        near = F.square(reshape_like(F, positive, pred) - pred)
        far = F.square(reshape_like(F, negative, pred) - pred)
        loss = F.sum(near - far, axis=self._batch_axis, exclude=True)
        return self._weighted(F, F.relu(loss + self._margin))


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
        cosine = _cosine(F, reshape_like(F, input1, input2), input2)
        alike = (1 - cosine) * (label == 1)
        apart = F.relu((label == -1) * (cosine - self._margin))
        return self._weighted(F, alike + apart, sample_weight)


def _cosine(F: ModuleType, x: Tensor, y: Tensor) -> Tensor:
    """The cosine between rows of x and y, as a column."""
    lengths = [F.norm(each, axis=-1).reshape((-1, 1)) for each in (x, y)]
    product = F.sum(x * y, axis=-1).reshape((-1, 1))
    return product / F.maximum(lengths[0] * lengths[1], TINY)


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
