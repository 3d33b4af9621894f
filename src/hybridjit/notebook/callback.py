"""Callbacks for ``fit`` that collect measurements in pandas tables, or draw them with bokeh.

Input: the parameters that ``fit`` passes to its callbacks. Output: tables, or a chart that is
redrawn. The packages pandas and bokeh are imported when a callback is made; hybridjit does not
install them.
"""

from __future__ import annotations

import datetime
import importlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..callback import BatchEndParam

__all__ = [
    "LiveBokehChart",
    "LiveLearningCurve",
    "LiveTimeSeries",
    "PandasLogger",
    "args_wrapper",
]

Callbacks = dict[str, Callable[..., None]]


def _measured(param: BatchEndParam) -> dict[str, Any]:
    """The metrics by name; resets the metric."""
    if param.eval_metric is None:
        return {}
    found = dict(param.eval_metric.get_name_value())
    param.eval_metric.reset()
    return found


class PandasLogger:
    """Tables of training batches, evaluations and epochs: ``train_df``, ``eval_df``, ``epoch_df``.

    Every ``frequent``-th training batch is recorded. Raises ImportError without pandas.
    """

    def __init__(self, batch_size: int, frequent: int = 50) -> None:
        self.batch_size, self.frequent = batch_size, frequent
        tables = importlib.import_module("pandas")
        self._dataframes = {name: tables.DataFrame() for name in ("train", "eval", "epoch")}
        self.last_time = time.time()
        self.start_time = self.last_epoch_time = datetime.datetime.now()

    @property
    def train_df(self) -> Any:
        """The table of training batches."""
        return self._dataframes["train"]

    @property
    def eval_df(self) -> Any:
        """The table of evaluations."""
        return self._dataframes["eval"]

    @property
    def epoch_df(self) -> Any:
        """The table of epochs."""
        return self._dataframes["epoch"]

    @property
    def all_dataframes(self) -> dict[str, Any]:
        """The three tables by name."""
        return self._dataframes

    def elapsed(self) -> datetime.timedelta:
        """The time since creation of this object."""
        return datetime.datetime.now() - self.start_time

    def append_metrics(self, metrics: dict[str, Any], df_name: str) -> None:
        """Add a row to a table, with new columns if needed."""
        table = self._dataframes[df_name]
        for column in metrics.keys() - set(table.columns):
            table[column] = None
        table.loc[len(table)] = metrics

    def train_cb(self, param: BatchEndParam) -> None:
        """Callback after a training batch."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")

    def eval_cb(self, param: BatchEndParam) -> None:
        """Callback after an evaluation."""
        self._process_batch(param, "eval")

    def epoch_cb(self, *args: object) -> None:
        """Callback after an epoch."""
        now = datetime.datetime.now()
        self.append_metrics(
            {"elapsed": self.elapsed(), "epoch_time": now - self.last_epoch_time}, "epoch"
        )
        self.last_epoch_time = now

    def _process_batch(self, param: BatchEndParam, dataframe: str) -> None:
        now = time.time()
        took = now - self.last_time
        speed = self.frequent / took if took else float("inf")
        row = {
            **_measured(param),
            "batches_per_sec": speed * self.batch_size,  # MXNet swaps these two names
            "records_per_sec": speed,
            "elapsed": self.elapsed(),
            "minibatch_count": param.nbatch,
            "epoch": param.epoch,
        }
        self.append_metrics(row, dataframe)
        self.last_time = now

    def callback_args(self) -> Callbacks:
        """Arguments for ``fit`` that enable all callbacks."""
        return {
            "batch_end_callback": self.train_cb,
            "eval_end_callback": self.eval_cb,
            "epoch_end_callback": self.epoch_cb,
        }


class LiveBokehChart:
    """A chart that is redrawn at most every ``display_freq`` seconds; subclasses define it.

    Raises ImportError without bokeh, and without pandas if no ``pandas_logger`` is given.
    """

    def __init__(
        self,
        pandas_logger: PandasLogger | None,
        metric_name: str | None,
        display_freq: float = 10,
        batch_size: int | None = None,
        frequent: int = 50,
    ) -> None:
        self._plotting = importlib.import_module("bokeh.plotting")
        self._io = importlib.import_module("bokeh.io")
        self.pandas_logger = pandas_logger or PandasLogger(batch_size or 1, frequent)
        self.display_freq, self.metric_name = display_freq, metric_name
        self.last_update = time.time()
        self._io.output_notebook()
        self.handle = self.setup_chart()

    def setup_chart(self) -> Any:
        """Draw the chart; return its handle."""
        raise NotImplementedError("Incomplete base class: LiveBokehChart must be sub-classed")

    def update_chart_data(self) -> None:
        """Pass new data to the chart."""
        raise NotImplementedError("Incomplete base class: LiveBokehChart must be sub-classed")

    def interval_elapsed(self) -> bool:
        """Whether ``display_freq`` seconds have passed since the last redraw."""
        return time.time() - self.last_update > self.display_freq

    def _figure(self, label: str, **options: Any) -> Any:
        figure = getattr(self._plotting, "figure", None) or self._plotting.Figure
        return figure(x_axis_type="datetime", x_axis_label=label, **options)

    def _shown(self, figure: Any) -> Any:
        return self._plotting.show(figure, notebook_handle=True)

    def _push_render(self) -> None:
        self._io.push_notebook(handle=self.handle)
        self.last_update = time.time()

    def _do_update(self) -> None:
        self.update_chart_data()
        self._push_render()

    def batch_cb(self, param: BatchEndParam) -> None:
        """Callback after a training batch."""
        if self.interval_elapsed():
            self._do_update()

    def eval_cb(self, param: BatchEndParam) -> None:
        """Callback after an evaluation."""
        self._do_update()

    def callback_args(self) -> Callbacks:
        """Arguments for ``fit`` that enable the chart."""
        return {"batch_end_callback": self.batch_cb, "eval_end_callback": self.eval_cb}


class LiveTimeSeries(LiveBokehChart):
    """A line of values over the time since creation. ``fig_params`` are arguments of bokeh's
    figure."""

    def __init__(self, **fig_params: Any) -> None:
        self._options = fig_params
        self.x_axis_val: list[datetime.timedelta] = []
        self.y_axis_val: list[float] = []
        self.start_time = datetime.datetime.now()
        super().__init__(None, None)

    def setup_chart(self) -> Any:
        """Draw the empty line."""
        self.fig = self._figure("Elapsed time", **self._options)
        self.fig.line(self.x_axis_val, self.y_axis_val)
        return self._shown(self.fig)

    def elapsed(self) -> datetime.timedelta:
        """The time since creation of this object."""
        return datetime.datetime.now() - self.start_time

    def update_chart_data(self, value: float = 0.0) -> None:
        """Add a value, and redraw."""
        self.x_axis_val.append(self.elapsed())
        self.y_axis_val.append(value)
        self._push_render()


class LiveLearningCurve(LiveBokehChart):
    """One metric of training and evaluation over time."""

    def __init__(self, metric_name: str, display_freq: float = 10, frequent: int = 50) -> None:
        self.frequent = frequent
        self.start_time = datetime.datetime.now()
        self._data: dict[str, dict[str, list[Any]]] = {"train": {}, "eval": {}}
        self._lines: dict[str, tuple[list[Any], list[Any]]] = {}
        super().__init__(None, metric_name, display_freq, frequent=frequent)

    def setup_chart(self) -> Any:
        """Draw both empty lines."""
        self.fig = self._figure("Training time")
        styles: dict[str, dict[str, Any]] = {
            "train": {"line_dash": "dotted", "alpha": 0.3},
            "eval": {"line_color": "green"},
        }
        for name, style in styles.items():
            self._lines[name] = ([], [])
            self.fig.line(*self._lines[name], line_width=2, **style)
        self.fig.yaxis.axis_label = self.metric_name
        return self._shown(self.fig)

    def batch_cb(self, param: BatchEndParam) -> None:
        """Callback after a training batch."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")
        super().batch_cb(param)

    def eval_cb(self, param: BatchEndParam) -> None:
        """Callback after an evaluation."""
        self._process_batch(param, "eval")
        super().eval_cb(param)

    def _process_batch(self, param: BatchEndParam, df_name: str) -> None:
        row = {**_measured(param), "elapsed": datetime.datetime.now() - self.start_time}
        for name, value in row.items():
            self._data[df_name].setdefault(name, []).append(value)

    def update_chart_data(self) -> None:
        """Extend both lines by the new measurements."""
        for name, (times, values) in self._lines.items():
            found = self._data[name]
            times.extend(found.get("elapsed", [])[len(times) :])
            values.extend(found.get(str(self.metric_name), [])[len(values) :])


def args_wrapper(*args: Any) -> dict[str, list[Callable[..., None]]]:
    """Arguments for ``fit`` that enable all callbacks of several callback objects."""
    found = defaultdict(list)
    for callback in args:
        for name, function in callback.callback_args().items():
            found[name].append(function)
    return dict(found)
