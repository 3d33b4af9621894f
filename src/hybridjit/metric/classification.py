"""Metrics of classes and probabilities: accuracy, F1, correlation, cross entropy."""

from __future__ import annotations

import math

import numpy as np

from .._core.frames import public
from ..nd import NDArray
from .base import (
    Arrays,
    EvalMetric,
    alias,
    check_label_shapes,
    paired,
    predicted_classes,
    register,
)

Names = list[str] | None


@alias("acc")
@register
class Accuracy(EvalMetric):
    """Fraction of samples with the right class.

    Parameters
    ----------
    axis : int
        Axis of the classes in predictions that are scores.
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Examples
    --------
    >>> metric = mx.metric.Accuracy()
    >>> metric.update([nd.array([0, 1])], [nd.array([[0.9, 0.1], [0.8, 0.2]])])
    >>> round(float(metric.get()[1]), 4)
    0.5
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True, axis=axis)
        self.axis = axis

    def measure(self, label: NDArray, pred: NDArray) -> tuple[float, float]:
        found = predicted_classes(label, pred, self.axis).ravel()
        wanted = label.asnumpy().astype(np.int32).ravel()
        check_label_shapes(wanted, found)
        return (found == wanted).sum(), len(found)


@alias("top_k_accuracy", "top_k_acc")
@register
class TopKAccuracy(EvalMetric):
    """Fraction of samples whose class is among the ``top_k`` largest scores.

    Parameters
    ----------
    top_k : int
        Number of scores that count, above 1.
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Raises
    ------
    AssertionError
        For a ``top_k`` of 1 or less.

    Examples
    --------
    >>> metric = mx.metric.TopKAccuracy(top_k=2)
    >>> metric.update([nd.array([2])], [nd.array([[0.5, 0.1, 0.4]])])
    >>> round(float(metric.get()[1]), 4)
    1.0
    """

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        assert top_k > 1, "Please use Accuracy if top_k is no more than 1"
        super().__init__(
            f"{name}_{top_k}", output_names, label_names, has_global_stats=True, top_k=top_k
        )
        self.top_k = top_k

    def measure(self, label: NDArray, pred: NDArray) -> tuple[float, float]:
        assert pred.ndim <= 2, f"Predictions should be no more than 2 dims, got {pred.ndim}"
        check_label_shapes(label, pred)
        wanted = label.asnumpy().astype(np.int32)
        if pred.ndim == 1:
            return (pred.asnumpy().argsort().ravel() == wanted.ravel()).sum(), len(wanted)
        if self.top_k > pred.shape[1]:
            raise ValueError(f"top_k is {self.top_k}, but predictions have {pred.shape[1]} classes")
        best = np.argsort(-pred.asnumpy(), axis=1, kind="stable")[:, : self.top_k]
        return (best == wanted.reshape(-1, 1)).sum(), len(wanted)


class _OfCounts(EvalMetric):
    """Metric computed from a table of counts, ``counts[predicted, wanted]``.

    ``average`` "macro" is the mean over updates, "micro" the value of the total counts.
    """

    classes = 2

    def __init__(
        self,
        name: str,
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        self.global_counts = np.zeros((self.classes, self.classes))
        super().reset()

    def reset_local(self) -> None:
        self.counts = np.zeros((self.classes, self.classes))
        super().reset_local()

    def score(self, counts: np.ndarray) -> float:
        """Value for these counts. To override."""
        raise NotImplementedError(f"{type(self).__name__} does not define score")

    @public
    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Count a batch. Raises ValueError for labels of more than two classes."""
        found = np.zeros_like(self.counts)
        for label, pred in paired(labels, preds):
            check_label_shapes(label, pred)
            wanted = label.asnumpy().astype(np.int32).ravel()
            if len(np.unique(wanted)) > 2:
                raise ValueError(
                    f"{type(self).__name__} currently only supports binary classification."
                )
            chosen = pred.asnumpy().argmax(axis=1)
            np.add.at(found, ((chosen == 1) * 1, (wanted == 1) * 1), 1)
        if self.average == "macro":
            self._count(self.score(found), 1)
            return
        self.counts += found
        self.global_counts += found
        self.num_inst, self.global_num_inst = self.counts.sum(), self.global_counts.sum()
        self.sum_metric = self.score(self.counts) * self.num_inst
        self.global_sum_metric = self.score(self.global_counts) * self.global_num_inst


@register
class F1(_OfCounts):
    """F1 score of class 1: 2 precision recall / (precision + recall).

    Parameters
    ----------
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.
    average : str
        macro: mean over batches; micro: over all samples.

    Examples
    --------
    >>> metric = mx.metric.F1()
    >>> metric.update([nd.array([1, 0])], [nd.array([[0.1, 0.9], [0.2, 0.8]])])
    >>> round(float(metric.get()[1]), 4)
    0.6667
    """

    def __init__(
        self,
        name: str = "f1",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def score(self, counts: np.ndarray) -> float:
        right, wrong = counts[1, 1], counts[1, 0] + counts[0, 1]
        return 2 * right / (2 * right + wrong) if right else 0.0


@register
class MCC(_OfCounts):
    """Matthews' correlation coefficient of two classes.

    Empty rows and columns of the table count as 1 in the divisor.

    Parameters
    ----------
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.
    average : str
        macro: mean over batches; micro: over all samples.

    Examples
    --------
    >>> metric = mx.metric.MCC()
    >>> metric.update([nd.array([1, 0])], [nd.array([[0.1, 0.9], [0.8, 0.2]])])
    >>> round(float(metric.get()[1]), 4)
    1.0
    """

    def __init__(
        self,
        name: str = "mcc",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def score(self, counts: np.ndarray) -> float:
        if not counts.sum():
            return 0.0
        sums = [*counts.sum(0), *counts.sum(1)]
        divisor = math.prod(total for total in sums if total)
        return float(np.linalg.det(counts) / math.sqrt(divisor))


@register
class PCC(EvalMetric):
    """Matthews' correlation for any number of classes, from the total counts.

    The value is between -1 and 1, and NaN while all labels or all predictions are of one class.

    Parameters
    ----------
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.
    has_global_stats : bool
        Whether values since ``reset`` are kept beside those since ``reset_local``.

    Examples
    --------
    >>> measured = mx.metric.PCC()
    >>> scores = nd.array([[9, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 0]])
    >>> measured.update(nd.array([0, 1, 2, 2]), scores)
    >>> round(measured.get()[1], 3)
    0.7
    """

    def __init__(
        self,
        name: str = "pcc",
        output_names: Names = None,
        label_names: Names = None,
        has_global_stats: bool = True,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def reset(self) -> None:
        self.global_counts = np.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        self.counts = np.zeros((2, 2))
        super().reset_local()

    @public
    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in paired(labels, preds):
            found = predicted_classes(label, pred).ravel()
            wanted = label.asnumpy().astype(np.int32).ravel()
            classes = max(found.max(), wanted.max()) + 1
            for name in ("counts", "global_counts"):
                counts = _grown(getattr(self, name), classes)
                np.add.at(counts, (found, wanted), 1)
                setattr(self, name, counts)
        self.num_inst += 1
        self.global_num_inst += 1
        self.sum_metric = _correlation(self.counts) * self.num_inst
        self.global_sum_metric = _correlation(self.global_counts) * self.global_num_inst


def _grown(counts: np.ndarray, classes: int) -> np.ndarray:
    """Counts padded with rows and columns for at least ``classes`` classes."""
    more = max(0, classes - len(counts))
    return np.pad(counts, ((0, more), (0, more)))


def _correlation(counts: np.ndarray) -> float:
    total, rows, columns = counts.sum(), counts.sum(1), counts.sum(0)
    spread = (rows * (total - rows)).sum() * (columns * (total - columns)).sum()
    if not spread:
        return float("nan")
    return float((counts.diagonal() * total - rows * columns).sum() / math.sqrt(spread))


@register
class Perplexity(EvalMetric):
    """Exponential of the mean negative log-probability of the right class.

    Parameters
    ----------
    ignore_label : int or None
        Label whose samples do not count.
    axis : int
        Axis of the classes.
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Examples
    --------
    >>> metric = mx.metric.Perplexity(ignore_label=None)
    >>> metric.update([nd.array([0])], [nd.array([[0.5, 0.5]])])
    >>> round(float(metric.get()[1]), 4)
    2.0
    """

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(
            name, output_names, label_names, has_global_stats=True, ignore_label=ignore_label
        )
        self.ignore_label = ignore_label
        self.axis = axis

    @public
    def update(self, labels: Arrays, preds: Arrays) -> None:
        assert len(labels) == len(preds), f"{len(labels)} labels for {len(preds)} predictions"
        loss, count = 0.0, 0
        for label, pred in zip(labels, preds):
            assert label.size * pred.shape[-1] == pred.size, (
                f"shape mismatch: {label.shape} vs. {pred.shape}"
            )
            share = pred.pick(label.reshape((-1,)), axis=self.axis).asnumpy().ravel()
            if self.ignore_label is not None:
                share = share[label.asnumpy().ravel() != self.ignore_label]
            loss -= np.log(np.maximum(1e-10, share)).sum()
            count += share.size
        self._count(loss, count)

    def value_of(self, total: float, instances: float) -> float:
        return math.exp(total / instances) if instances else float("nan")


@alias("ce")
@register
class CrossEntropy(EvalMetric):
    """Mean of -log(probability of the right class + eps).

    Parameters
    ----------
    eps : float
        Added to probabilities.
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Examples
    --------
    >>> metric = mx.metric.CrossEntropy()
    >>> metric.update([nd.array([0])], [nd.array([[0.5, 0.5]])])
    >>> round(float(metric.get()[1]), 4)
    0.6931
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True, eps=eps)
        self.eps = eps

    def measure(self, label: NDArray, pred: NDArray) -> tuple[float, float]:
        wanted = label.asnumpy().ravel().astype(np.int64)
        assert len(wanted) == len(pred), f"{len(wanted)} labels for {len(pred)} predictions"
        share = pred.asnumpy()[np.arange(len(wanted)), wanted]
        return -np.log(share + self.eps).sum(), len(wanted)


@alias("nll_loss")
@register
class NegativeLogLikelihood(CrossEntropy):
    """Cross entropy under another name; parameters as in :class:`CrossEntropy`.

    Examples
    --------
    >>> metric = mx.metric.NegativeLogLikelihood()
    >>> metric.update([nd.array([0])], [nd.array([[0.5, 0.5]])])
    >>> round(float(metric.get()[1]), 4)
    0.6931
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)
