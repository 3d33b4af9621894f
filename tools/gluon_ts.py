"""Trains every MXNet model of gluon-ts on small series, and asks it for forecasts.

    python -m hybridjit.run tools/gluon_ts.py                        each estimator, hybridized
    python -m hybridjit.run tools/gluon_ts.py --eager --only DeepAR Transformer
    python tools/gluon_ts.py --json THERE                            in an environment with MXNet
    python -m hybridjit.run tools/gluon_ts.py --beside THERE         the losses beside MXNet's

It needs gluonts 0.16 or 0.17 and scipy, and with Python 3.12 setuptools. Prints how many modules of
gluonts.mx import, and a line for each estimator: how far it came, the loss of each epoch, the mean
of its median forecasts, the seconds of the first epoch and of the fastest, and its exception.
Exit code: 1 if an estimator stopped that MXNet 1.9.1 trains.

The initial weights follow from the names of the parameters, and NumPy draws the batches: with
--still, which sets every ``dropout_rate`` to 0, the losses of estimators that draw nothing else are
the same on each engine, eager and hybridized.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import logging
import pkgutil
import random
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import gluonts.mx
import mxnet as mx
import numpy as np
import pandas as pd
from gluonts.dataset.common import Dataset, ListDataset
from gluonts.model.estimator import Estimator
from gluonts.mx.block.decoder import ForkingMLPDecoder
from gluonts.mx.block.encoder import HierarchicalCausalConv1DEncoder, MLPEncoder
from gluonts.mx.block.quantile_output import QuantileOutput
from gluonts.mx.trainer import Trainer
from gluonts.mx.trainer.callback import Callback

Settings = dict[str, Any]

START, FREQUENCY = pd.Timestamp("2021-01-01"), "H"
SERIES, STEPS = 8, 240
AHEAD, BEFORE = 6, 12


def waves() -> np.ndarray:
    """(SERIES, STEPS): a wave of 24 hours for each series, at its own height, with noise."""
    draw = np.random.RandomState(0)
    height, shift = draw.uniform(5, 20, (SERIES, 1)), draw.uniform(0, 24, (SERIES, 1))
    daily = np.sin((np.arange(STEPS) + shift) * (2 * np.pi / 24))
    return height * (1 + daily / 3) + draw.normal(0, 0.3, (SERIES, STEPS))


def single_series() -> Dataset:
    rows = [
        {"start": START, "target": row, "feat_static_cat": [number]}
        for number, row in enumerate(waves())
    ]
    return ListDataset(rows, freq=FREQUENCY)


def groups_of_three() -> Dataset:
    """Two entries of three series, the first of which is the sum of the others."""
    pairs = waves()[:4].reshape(2, 2, STEPS)
    rows = [{"start": START, "target": np.vstack([pair.sum(0), pair])} for pair in pairs]
    return ListDataset(rows, freq=FREQUENCY, one_dim_target=False)


def one_group() -> Dataset:
    rows = [{"start": START, "target": waves()}]
    return ListDataset(rows, freq=FREQUENCY, one_dim_target=False)


def sparse_counts() -> Dataset:
    draw = np.random.RandomState(1)
    counts = draw.poisson(3, (SERIES, STEPS)) * (draw.uniform(size=(SERIES, STEPS)) < 0.4)
    return ListDataset([{"start": START, "target": row} for row in counts], freq=FREQUENCY)


def marked_points() -> list[Settings]:
    """Events in continuous time: the gaps between them and their marks."""
    draw = np.random.RandomState(2)
    end = START + pd.Timedelta(hours=100)
    target = np.stack([draw.exponential(0.2, 300), draw.randint(0, 2, 300)])
    return [{"start": START, "end": end, "target": target}]


@dataclass(frozen=True)
class Case:
    """How an estimator is made, its training data, and why MXNet 1.9.1 does not, if so."""

    settings: Settings = field(default_factory=dict)
    data: Callable[[], Any] = single_series
    parts: Callable[[], Settings] = dict  # settings that hold blocks
    eager_only: bool = False
    stops: str = ""


def forking_parts() -> Settings:
    encoder = HierarchicalCausalConv1DEncoder(
        [1, 3], [3, 3], [8, 8], use_residual=True, use_static_feat=True, use_dynamic_feat=True
    )
    return {
        "encoder": encoder,
        "decoder": ForkingMLPDecoder(AHEAD, AHEAD, hidden_dimension_sequence=[8]),
        "quantile_output": QuantileOutput([0.1, 0.5, 0.9]),
    }


_AHEAD: Settings = {"prediction_length": AHEAD}
_HOURLY: Settings = {**_AHEAD, "freq": FREQUENCY}
_WINDOW: Settings = {**_HOURLY, "context_length": BEFORE}
_FEW: Settings = {"num_parallel_samples": 10}
_CELLS: Settings = {**_FEW, "num_layers": 2, "num_cells": 8}
_LAGS: Settings = {"lags_seq": [1, 2, 24]}
_KINDS: Settings = {"cardinality": [SERIES], "embedding_dimension": 4}
_SEQ2SEQ: Settings = {
    **{**_WINDOW, **_FEW, **_KINDS},
    **{"decoder_mlp_layer": [8], "decoder_mlp_static_dim": 3},
}
_SUMS = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
_CONVOLUTIONS: Settings = {
    **{"channels_seq": [8, 8], "dilation_seq": [1, 3], "kernel_size_seq": [3, 3]},
    "decoder_mlp_dim_seq": [8],
}
_POINTS: Settings = {
    **{"prediction_interval_length": 5.0, "context_interval_length": 10.0, "num_marks": 2},
    **{**_FEW, "num_training_instances": 10},
}
_SKIPS: Settings = {
    **{**_AHEAD, "context_length": 48, "num_series": SERIES, "skip_size": 4, "ar_window": 4},
    **{"channels": 8, "rnn_num_cells": 8, "skip_rnn_num_cells": 4},
}
_ENSEMBLE: Settings = {
    **{"meta_context_length": [12], "meta_loss_function": ["MAPE", "sMAPE"]},
    **{"meta_bagging_size": 1, "num_stacks": 2, "widths": [16]},
}
_RANKS = "batch_dot takes no operands of two and three axes"

CASES: dict[str, Case] = {
    "CNN2QRForecaster": Case(_SEQ2SEQ, stops=_RANKS),
    "CanonicalEstimator": Case(
        {**_WINDOW, **_FEW, **_KINDS, "is_sequential": False},
        parts=lambda: {"model": mx.gluon.nn.Dense(8, flatten=False)},
    ),
    "CanonicalRNNEstimator": Case({**_WINDOW, **_FEW, **_KINDS, "num_cells": 8}),
    "DeepAREstimator": Case({**_WINDOW, **_CELLS, **_LAGS}),
    "DeepFactorEstimator": Case(
        {**_WINDOW, **_FEW, **_KINDS, "num_hidden_global": 8, "num_factors": 3}
    ),
    "DeepRenewalProcessEstimator": Case(
        {**_AHEAD, **_CELLS, "context_length": BEFORE}, sparse_counts
    ),
    "DeepStateEstimator": Case(
        {**_HOURLY, **_CELLS, "cardinality": [SERIES], "past_length": BEFORE}
    ),
    "DeepTPPEstimator": Case(
        _POINTS, marked_points, eager_only=True, stops="gluonts leaves out a field of its own"
    ),
    "DeepVAREstimator": Case({**_WINDOW, **_CELLS, **_LAGS, "target_dim": 3}, groups_of_three),
    "DeepVARHierarchicalEstimator": Case(
        {**_WINDOW, **_CELLS, **_LAGS, "S": _SUMS, "num_samples_for_loss": 10}, groups_of_three
    ),
    "ForkingSeq2SeqEstimator": Case(_WINDOW, parts=forking_parts),
    "GPVAREstimator": Case(
        {**_WINDOW, **_CELLS, **_LAGS, "target_dim": 3, "target_dim_sample": 2}, groups_of_three
    ),
    "GaussianProcessEstimator": Case({**_WINDOW, **_FEW, "cardinality": SERIES}),
    "LSTNetEstimator": Case(_SKIPS, one_group),
    "MLP2QRForecaster": Case({**_SEQ2SEQ, "encoder_mlp_layer": [8]}, stops=_RANKS),
    "MLPForecasterEstimator": Case({**_WINDOW, **_FEW, **_KINDS, "hidden_dim_sequence": [8]}),
    "MQCNNEstimator": Case({**_WINDOW, **_CONVOLUTIONS}),
    "MQRNNEstimator": Case({**_WINDOW, "decoder_mlp_dim_seq": [8]}),
    "NBEATSEnsembleEstimator": Case({**_HOURLY, **_ENSEMBLE}),
    "NBEATSEstimator": Case({**_WINDOW, "num_stacks": 3, "widths": [16]}),
    "RNN2QRForecaster": Case(
        {**_SEQ2SEQ, "encoder_rnn_layer": 1, "encoder_rnn_num_hidden": 8}, stops=_RANKS
    ),
    "Seq2SeqEstimator": Case(_SEQ2SEQ, parts=lambda: {"encoder": MLPEncoder([8])}, stops=_RANKS),
    "SimpleFeedForwardEstimator": Case(
        {**_AHEAD, **_FEW, "context_length": BEFORE, "num_hidden_dimensions": [16, 16]}
    ),
    "TemporalFusionTransformerEstimator": Case(
        {**_WINDOW, "hidden_dim": 8, "num_heads": 2, "num_instance_per_series": 4}
    ),
    "TransformerEstimator": Case({**_WINDOW, **_FEW, **_LAGS, "model_dim": 8, "num_heads": 2}),
    "WaveNetEstimator": Case(
        {
            **{**_HOURLY, **_FEW, "num_bins": 32, "n_residue": 4, "n_skip": 4},
            **{"dilation_depth": 3, "train_window_length": 24},
        }
    ),
}


class DrawnByName(mx.init.Initializer):
    """Numbers within +-0.2 that a parameter's name and the seed determine."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__()
        self.draw = np.random.RandomState(zlib.crc32(name.encode()) + seed)

    def _init_weight(self, name: str, array: mx.nd.NDArray) -> None:
        array[:] = self.draw.uniform(-0.2, 0.2, array.shape)


class Watch(Callback):
    """Sets the weights, and notes the loss and the seconds of every epoch.

    On the class, since gluonts copies trainers together with their callbacks.
    """

    seed: ClassVar[int] = 0
    losses: ClassVar[list[float]] = []
    seconds: ClassVar[list[float]] = []
    since: ClassVar[float] = 0.0

    def on_train_start(self, max_epochs: int) -> None:
        Watch.since = time.perf_counter()

    def on_network_initializing_end(self, training_network: mx.gluon.Block) -> None:
        for name, parameter in training_network.collect_params(".*(weight|bias)").items():
            parameter.initialize(DrawnByName(name, self.seed), force_reinit=True)

    def on_train_epoch_end(self, epoch_no: int, epoch_loss: float, *rest: Any, **more: Any) -> bool:
        now = time.perf_counter()
        self.losses.append(float(epoch_loss))
        self.seconds.append(now - Watch.since)
        Watch.since = now
        return True


@dataclass
class Outcome:
    """How far an estimator came, the losses and seconds of its epochs, and its exception."""

    name: str
    reached: str = "-"
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    forecast: float | None = None
    why: str = ""

    def __str__(self) -> str:
        shown = " ".join(f"{loss:.5g}" for loss in self.losses[:1] + self.losses[1:][-1:])
        forecast = "" if self.forecast is None else f"{self.forecast:.2f}"
        times = f"{self.seconds[0]:6.2f} {min(self.seconds):6.3f}" if self.seconds else 13 * " "
        why = " ".join(self.why.split())[:100]
        return f"{self.name:34} {self.reached:10} {shown:20} {forecast:>7} {times} {why}"


def import_all() -> list[ModuleType]:
    """Every module below gluonts.mx; an import that fails ends the program."""
    infos = pkgutil.walk_packages(gluonts.mx.__path__, "gluonts.mx.")
    return [importlib.import_module(info.name) for info in infos]


def find_estimators(modules: list[ModuleType]) -> dict[str, type]:
    """The estimators that are defined in ``modules``, but for the two that others derive from."""
    found = {
        value.__name__: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Estimator)
    }
    return {name: found[name] for name in sorted({*found} - {"Estimator", "GluonEstimator"})}


def construct(made: type, case: Case, args: argparse.Namespace) -> Estimator:
    trainer = Trainer(
        epochs=args.epochs,
        num_batches_per_epoch=args.batches,
        hybridize=not (args.eager or case.eager_only),
        callbacks=[Watch()],
    )
    settings = {**case.settings, **case.parts(), "trainer": trainer}
    taken = inspect.signature(made.__init__).parameters
    if "batch_size" in taken:
        settings["batch_size"] = 8
    if args.still and "dropout_rate" in taken:
        settings["dropout_rate"] = 0.0
    return made(**settings)


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    mx.random.seed(seed)


def try_out(name: str, made: type, args: argparse.Namespace) -> Outcome:
    """Construct, train and predict with fresh names and seeds. An error is part of the result."""
    case, outcome = CASES[name], Outcome(name)
    Watch.losses, Watch.seconds, Watch.seed = outcome.losses, outcome.seconds, args.seed
    seed_all(args.seed)
    try:
        with mx.name.NameManager():
            estimator = construct(made, case, args)
            outcome.reached = "constructs"
            predictor = estimator.train(case.data())
            outcome.reached = "trains"
            forecasts = list(predictor.predict(case.data()))
        outcome.forecast = float(np.mean([forecast.quantile(0.5) for forecast in forecasts]))
        outcome.reached = "predicts"
    except Exception as error:
        if args.raises:
            raise
        outcome.why = f"{type(error).__name__}: {error}"
    return outcome


def beside(outcome: Outcome, other: Outcome) -> str:
    """How far the losses are from those of another engine, relative to them, and both speeds."""
    if not outcome.losses or len(outcome.losses) != len(other.losses):
        return f"    other: {other.reached}, {len(other.losses)} losses"
    ours, theirs = np.array(outcome.losses), np.array(other.losses)
    apart = np.abs(ours - theirs) / np.abs(theirs)
    times = f"{min(other.seconds):.3f} s"
    return f"    other: losses {apart.max():.1e} apart, the last {theirs[-1]:.5g}; {times}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="beginnings of estimators' names")
    parser.add_argument("--eager", action="store_true", help="leave the networks unhybridized")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4, help="in an epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--still", action="store_true", help="no dropout")
    parser.add_argument("--raises", action="store_true", help="end with the first error")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="what --json wrote elsewhere")
    return parser.parse_args()


def main() -> int:
    args = parsed()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    modules = import_all()
    print(f"{len(modules)} modules of gluonts.mx {gluonts.__version__} on NumPy {np.__version__}")
    others = json.loads(args.beside.read_text()) if args.beside else []
    known = {row["name"]: Outcome(**row) for row in others}
    outcomes = []
    for name, made in find_estimators(modules).items():
        if args.only and not name.startswith(tuple(args.only)):
            continue
        outcomes.append(try_out(name, made, args))
        print(outcomes[-1], flush=True)
        if name in known:
            print(beside(outcomes[-1], known[name]), flush=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    return int(any(row.why and not CASES[row.name].stops for row in outcomes))


if __name__ == "__main__":
    sys.exit(main())
