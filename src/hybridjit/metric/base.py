"""Base of all metrics: running sums since ``reset`` and since ``reset_local``.

Input: lists of labels and predictions, one pair per output of a network. Output: a name and a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy

from .. import registry
from .._core.frames import public, public_methods, shortened
from .._core.types import shape_text
from ..errors import ShapeError, require_arguments
from ..nd import NDArray
from ..nd import op as array_ops

_PACKAGE = __name__.partition(".")[0] + "."
Arrays: TypeAlias = NDArray | Sequence[NDArray]
Values: TypeAlias = float | list[float]  # value of one metric, or values of several

Found: TypeAlias = Arrays | numpy.ndarray
Measure: TypeAlias = Callable[[numpy.ndarray, numpy.ndarray], float | tuple[float, float]]
Described: TypeAlias = (
    "str | EvalMetric | Measure | dict[str, object] | list[Described]"  # an argument of create
)


class EvalMetric:
    """Base of all metrics: sum of measured values divided by the number of instances.

    A subclass overrides ``measure(label, prediction)`` or ``update``.
    """

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        if cls.__module__.startswith(_PACKAGE):
            try:
                require_arguments(cls, args, kwargs)
            except TypeError as error:
                raise shortened(error) from None
        return super().__new__(cls)

    def __init__(
        self,
        name: str,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        **kwargs: object,
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = bool(kwargs.pop("has_global_stats", False))
        self._kwargs = kwargs
        self.reset()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.get_name_value())
        return f"{type(self).__name__}({values})"

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, object]:
        """Configuration from which ``create`` creates an equal metric."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def measure(self, label: NDArray, pred: NDArray) -> tuple[float, float]:
        """Sum over this pair, and its number of instances. To override."""
        raise NotImplementedError(f"{type(self).__name__} does not define measure or update")

    @public
    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Count a batch. Raises ValueError if the counts of labels and predictions differ."""
        for label, pred in paired(labels, preds):
            self._count(*self.measure(label, pred))

    def _count(self, total: float, instances: float) -> None:
        self.sum_metric += total
        self.num_inst += instances
        self.global_sum_metric += total
        self.global_num_inst += instances

    @public
    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Count a batch given by name: entries of ``output_names`` and ``label_names``, or all."""
        preds = [pred[name] for name in self.output_names or pred]
        labels = [label[name] for name in self.label_names or label]
        self.update(labels, preds)

    def reset(self) -> None:
        """Reset all sums."""
        self.global_num_inst: float = 0
        self.global_sum_metric: float = 0.0
        self.reset_local()

    def reset_local(self) -> None:
        """Reset the local sums, not those of ``get_global``."""
        self.num_inst: float = 0
        self.sum_metric: float = 0.0

    def get(self) -> tuple[str | list[str], Values]:
        """Name and value; NaN before the first batch."""
        return self.name, self.value_of(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[str | list[str], Values]:
        """Name and value over all batches since ``reset``."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self.value_of(self.global_sum_metric, self.global_num_inst)

    def value_of(self, total: float, instances: float) -> float:
        """Value from the two sums."""
        return float(total / instances) if instances else float("nan")

    def get_name_value(self) -> list[tuple[str, float]]:
        """Pairs of names and values."""
        return _pairs(*self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Pairs of names and values over all batches since ``reset``."""
        return _pairs(*self.get_global())


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


@public
def create(metric: Described, *args: Any, **kwargs: Any) -> EvalMetric:
    """Metric from a name, a configuration, a function of NumPy arrays, or a list of these.

    Raises AssertionError for a name that is not registered.
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        together = CompositeEvalMetric()
        for each in metric:
            together.add(create(each, *args, **kwargs))
        return together
    return _create(metric, *args, **kwargs)


@alias("composite")
@register
@public_methods
class CompositeEvalMetric(EvalMetric):
    """Several metrics; ``get`` returns lists of names and values.

    Parameters
    ----------
    metrics : list, optional
        Metrics, or their names.
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Examples
    --------
    >>> metric = mx.metric.CompositeEvalMetric(["mae", "mse"])
    >>> metric.update([nd.array([1.0])], [nd.array([3.0])])
    >>> [round(float(value), 4) for value in metric.get()[1]]
    [2.0, 4.0]
    """

    def __init__(
        self,
        metrics: list[Described] | None = None,
        name: str = "composite",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        self.metrics = [create(metric) for metric in metrics or []]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Described) -> None:
        """Append a metric, or an argument of ``create``."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Metric at ``index``. Raises IndexError if out of range."""
        return self.metrics[index]

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        for metric in self.metrics:
            metric.update_dict(_chosen(label, self.label_names), _chosen(pred, self.output_names))

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list[str], list[float]]:
        return _unzipped(pair for metric in self.metrics for pair in metric.get_name_value())

    def get_global(self) -> tuple[list[str], list[float]]:
        return _unzipped(pair for metric in self.metrics for pair in metric.get_global_name_value())

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "metrics": [m.get_config() for m in self.metrics]}


@register
class Loss(EvalMetric):
    """Mean of the outputs, which are losses. Labels are not read.

    Parameters
    ----------
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Examples
    --------
    >>> metric = mx.metric.Loss()
    >>> metric.update([nd.array([0])], [nd.array([1.0, 3.0])])
    >>> round(float(metric.get()[1]), 4)
    2.0
    """

    def __init__(
        self,
        name: str = "loss",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    @public
    def update(self, labels: Arrays, preds: Arrays) -> None:
        for pred in [preds] if isinstance(preds, NDArray) else preds:
            self._count(array_ops.sum(pred).asscalar(), pred.size)


@register
class Torch(Loss):
    """:class:`Loss` under another name."""

    def __init__(
        self,
        name: str = "torch",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """:class:`Loss` under another name."""

    def __init__(
        self,
        name: str = "caffe",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """A metric from a function of NumPy arrays.

    Parameters
    ----------
    feval : callable
        ``feval(label, prediction)`` returns a value, or a sum and the number of instances.
    name : str, optional
        Name of the result; by default that of the function.
    allow_extra_outputs : bool
        Whether there may be more predictions than labels.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.

    Examples
    --------
    >>> metric = mx.metric.CustomMetric(lambda label, pred: abs(label - pred).max())
    >>> metric.update([nd.array([1.0])], [nd.array([3.0])])
    >>> round(float(metric.get()[1]), 4)
    2.0
    """

    def __init__(
        self,
        feval: Measure,
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        if name is None:
            if not callable(feval):
                raise AttributeError(f"feval is a function of label and prediction, got {feval}")
            given = feval.__name__
            name = f"custom({given})" if "<" in given else given
        super().__init__(
            name,
            output_names,
            label_names,
            has_global_stats=True,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
        )
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    @public
    def update(self, labels: Arrays, preds: Arrays) -> None:
        pairs = zip(labels, preds) if self._allow_extra_outputs else paired(labels, preds)
        for label, pred in pairs:
            found = self._feval(label.asnumpy(), pred.asnumpy())
            self._count(*(found if isinstance(found, tuple) else (found, 1)))

    def get_config(self) -> dict[str, object]:
        """Raise NotImplementedError: a function cannot be serialized."""
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(
    numpy_feval: Measure, name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """Metric of a function of NumPy arrays, named after it."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)


def check_label_shapes(
    labels: Found, preds: Found, wrap: bool = False, shape: bool = False
) -> tuple[Found, Found]:
    """Both arguments, in lists if ``wrap``. Raises ValueError unless lengths or shapes agree."""
    sizes = (labels.shape, preds.shape) if shape else (len(labels), len(preds))  # type: ignore[union-attr]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"Shape of labels {sizes[0]} does not match shape of predictions {sizes[1]}"
        )
    if wrap:
        labels = [labels] if isinstance(labels, NDArray) else labels
        preds = [preds] if isinstance(preds, NDArray) else preds
    return labels, preds


def paired(labels: Arrays, preds: Arrays) -> Iterator[tuple[NDArray, NDArray]]:
    """Pairs of labels and predictions. Raises ValueError if their counts differ."""
    check_label_shapes(labels, preds)
    both = [[a] if isinstance(a, NDArray) else a for a in (labels, preds)]
    if any(isinstance(x, numpy.ndarray) for found in both for x in (found, *found)):
        raise AttributeError("'numpy.ndarray' object has no attribute 'asnumpy': pass nd.array(x)")
    return zip(*both)


def predicted_classes(label: NDArray, pred: NDArray, axis: int = 1) -> numpy.ndarray:
    """Predicted classes: predictions of the label's shape, else the index of the largest score."""
    if pred.shape != label.shape and axis >= pred.ndim:
        raise ShapeError(
            f"axis {axis} of predictions of shape {shape_text(pred.shape)} does not exist; labels "
            f"have shape {shape_text(label.shape)}: update takes labels first, then predictions"
        )
    scores = pred.asnumpy()
    return (scores if pred.shape == label.shape else scores.argmax(axis)).astype(numpy.int32)


def _pairs(names: str | list[str], values: Values) -> list[tuple[str, float]]:
    listed = names if isinstance(names, list) else [names]
    return list(zip(listed, values if isinstance(values, list) else [values]))


def _unzipped(pairs: Iterator[tuple[str, float]]) -> tuple[list[str], list[float]]:
    listed = list(pairs)
    return [name for name, _ in listed], [value for _, value in listed]


def _chosen(arrays: Mapping[str, NDArray], names: list[str] | None) -> Mapping[str, NDArray]:
    return {n: a for n, a in arrays.items() if names is None or n in names}
