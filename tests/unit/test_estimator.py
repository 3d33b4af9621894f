"""gluon.contrib.estimator: MXNet's log, numbers and order of handlers; checkpoints."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit.gluon import nn
from hybridjit.gluon.contrib.estimator import (
    BatchBegin,
    BatchEnd,
    BatchProcessor,
    CheckpointHandler,
    EarlyStoppingHandler,
    EpochBegin,
    EpochEnd,
    Estimator,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
)

pytestmark = pytest.mark.filterwarnings("ignore:`greater` operator", "ignore:No trainer")

# 20 samples of 6 numbers in three classes; the losses below are MXNet's.
_RANDOM = np.random.RandomState(3)
X, Y = _RANDOM.randn(20, 6), _RANDOM.randint(0, 3, 20)
WEIGHT = _RANDOM.randn(3, 6)


def loader(samples: int = 20) -> gluon.data.DataLoader:
    data, labels = nd.array(X[:samples]), nd.array(Y[:samples])
    return gluon.data.DataLoader(gluon.data.ArrayDataset(data, labels), batch_size=8)


def estimator(hybrid: bool = False, **given) -> Estimator:
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(3, in_units=6))
    net.initialize()
    net[0].weight.set_data(nd.array(WEIGHT))
    net.hybridize(hybrid)
    rates = {"learning_rate": 0.1, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", rates)
    return Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, **given)


def weights(trained: Estimator) -> np.ndarray:
    return trained.net[0].weight.data().asnumpy()


def printed(capsys) -> str:
    return re.sub(r"\d+\.\d{3}s", "Ts", re.sub(r"total \d+s", "total 0s", capsys.readouterr().out))


LOG = """\
Training begin: using optimizer SGD with current learning rate 0.1000 
Train for 2 epochs.
[Epoch 0] Begin, current learning rate: 0.1000
Validation Begin
[Epoch 0] Finished in Ts, validation accuracy: 0.2500, validation softmaxcrossentropyloss: 2.3948
[Epoch 0] Finished in Ts, training accuracy: 0.2500, training softmaxcrossentropyloss: 2.6467
[Epoch 1] Begin, current learning rate: 0.1000
Validation Begin
[Epoch 0] Finished in Ts, validation accuracy: 0.5000, validation softmaxcrossentropyloss: 1.6160
[Epoch 1] Finished in Ts, training accuracy: 0.3000, training softmaxcrossentropyloss: 2.0702
Train finished using total 0s with 2 epochs. training accuracy: 0.3000, \
training softmaxcrossentropyloss: 2.0702
"""  # noqa: W291 (MXNet's first line ends in a space)


@pytest.mark.parametrize("hybrid", [False, True])
def test_log_and_numbers_are_mxnets(hybrid, capsys):
    trained = estimator(hybrid)
    trained.fit(loader(), val_data=loader(12), epochs=2)
    assert printed(capsys) == LOG


def test_lines_every_other_batch(capsys):
    trained = estimator()
    logging = LoggingHandler(2, trained.train_metrics[:1])
    trained.fit(loader(), event_handlers=logging, batches=3)
    lines = printed(capsys).splitlines()
    assert lines[1] == "Train for 3 batches."
    assert lines[3:5] == [
        "[Epoch 0][Batch 0][Samples 8] time/interval: Ts training accuracy: 0.2500",
        "[Epoch 0][Batch 2][Samples 20] time/interval: Ts training accuracy: 0.2500",
    ]


class Spy(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Notes every call, and the value of the first metrics of training and validation."""

    def __init__(self, calls: list[object], priority: float | None = None) -> None:
        self.calls = calls
        if priority is not None:
            self.priority = priority

    def note(self, moment: str, estimator: Estimator, given: dict[str, object]) -> None:
        values = [m[0].num_inst for m in (estimator.train_metrics, estimator.val_metrics)]
        self.calls.append((getattr(self, "priority", 0), moment, *given, *values))

    def train_begin(self, estimator, *args, **kwargs):
        self.note("train_begin", estimator, kwargs)

    def train_end(self, estimator, *args, **kwargs):
        self.note("train_end", estimator, kwargs)

    def epoch_begin(self, estimator, *args, **kwargs):
        self.note("epoch_begin", estimator, kwargs)

    def epoch_end(self, estimator, *args, **kwargs):
        self.note("epoch_end", estimator, kwargs)

    def batch_begin(self, estimator, *args, **kwargs):
        self.note("batch_begin", estimator, kwargs)

    def batch_end(self, estimator, *args, **kwargs):
        self.note("batch_end", estimator, kwargs)


def test_the_least_priority_is_called_first():
    calls: list[object] = []
    handlers = [Spy(calls), Spy(calls, -3000)]
    estimator().fit(loader(8), val_data=loader(8), epochs=1, event_handlers=handlers)
    end = ("batch_end", "batch", "pred", "label", "loss")
    assert calls == [
        (-3000, "train_begin", 0, 0),
        (0, "train_begin", 0, 0),
        (-3000, "epoch_begin", 0, 0),
        (0, "epoch_begin", 0, 0),
        (-3000, "batch_begin", "batch", 0, 0),
        (0, "batch_begin", "batch", 0, 0),
        (-3000, *end, 0, 0),
        (0, *end, 8, 0),  # metrics count at -1000
        (-3000, "epoch_end", 8, 0),
        (0, "epoch_end", 8, 8),  # as validation runs
        (-3000, "train_end", 8, 8),
        (0, "train_end", 8, 8),
    ]
    assert len(handlers) == 2  # the caller's list stays as it was


def test_gradients_update_weights_before_metrics_count():
    trained = estimator()
    kinds = [type(h).__name__ for h in _defaults(trained, Spy([]))]
    assert kinds == [
        *("GradientUpdateHandler", "MetricHandler", "ValidationHandler", "Spy"),
        *("StoppingHandler", "LoggingHandler"),
    ]
    own = MetricHandler(trained.train_metrics)
    assert [h for h in _defaults(trained, own) if isinstance(h, MetricHandler)] == [own]


def _defaults(trained: Estimator, handler) -> list[object]:
    trained.max_epoch = trained.max_batch = None
    return trained._prepare_default_handlers(loader(), [handler])


def test_a_true_answer_ends_the_epoch_or_training():
    class Enough(BatchEnd, EpochEnd):
        batches = epochs = 0

        def batch_end(self, estimator, *args, **kwargs):
            self.batches += 1
            return self.batches == 2

        def epoch_end(self, estimator, *args, **kwargs):
            self.epochs += 1
            return self.epochs == 2

    enough = Enough()
    estimator().fit(loader(), epochs=9, event_handlers=enough)
    assert (enough.batches, enough.epochs) == (5, 2)


def test_a_stopping_handler_starts_anew():
    handler = StoppingHandler()
    for _ in range(2):
        estimator().fit(loader(), batches=4, event_handlers=[handler])
        assert (handler.current_batch, handler.current_epoch) == (4, 2)


def test_default_metrics_follow_from_the_loss():
    net, loss = nn.Dense(1), gluon.loss.L2Loss(prefix="l2loss7_")
    made = Estimator(net, loss)
    assert [m.name for m in made.train_metrics] == ["training l2loss"]
    assert [m.name for m in made.val_metrics] == ["validation l2loss"]
    given = mx.metric.create(["acc", "ce"])
    made = Estimator(net, loss, train_metrics=given, val_metrics=mx.metric.MSE())
    assert made.train_metrics == given.metrics
    assert [m.name for m in made.train_metrics] == ["training accuracy", "training cross-entropy"]
    assert [m.name for m in made.val_metrics] == ["validation mse"]


def test_validation_has_its_own_net_loss_and_handlers(capsys):
    val_net = nn.Dense(3, in_units=6)
    val_net.initialize(mx.init.Zero())
    trained = estimator(val_net=val_net, val_loss=gluon.loss.SoftmaxCELoss(weight=2))
    calls: list[object] = []
    trained.evaluate(loader(), event_handlers=Spy(calls))
    moments = ["epoch_begin", *["batch_begin", "batch_end"] * 3, "epoch_end"]
    assert [call[1] for call in calls] == moments
    assert trained.val_metrics[1].get()[1] == pytest.approx(2 * np.log(3), rel=1e-6)
    assert printed(capsys).startswith("Validation Begin\n[Epoch 0] Finished in Ts, validation acc")


def test_validation_every_other_batch():
    trained = estimator()
    seen: list[object] = []
    handler = ValidationHandler(
        "data", lambda **given: seen.append(given), epoch_period=2, batch_period=4
    )
    trained.fit(loader(), epochs=4, event_handlers=handler)
    given = {"val_data": "data", "batch_axis": 0, "event_handlers": None}
    assert seen == [given] * (12 // 4 + 4 // 2)


def test_a_processor_of_batches_replaces_both_steps():
    class Doubled(BatchProcessor):
        def fit_batch(self, estimator, train_batch, batch_axis=0):
            return super().fit_batch(estimator, [train_batch[0] * 2, train_batch[1]], batch_axis)

    trained = estimator(batch_processor=Doubled())
    trained.fit(loader(8), epochs=1)
    plain = estimator()
    plain.fit(loader(8), epochs=1)
    assert not np.allclose(weights(trained), weights(plain))
    with pytest.raises(ValueError, match="must contain fit_batch"):
        estimator(batch_processor=object())


def test_parts_on_several_contexts_are_one_batch():
    two = [mx.cpu(0), mx.cpu(1)]
    net = nn.Dense(3, in_units=6, prefix="d_")
    net.initialize(mx.init.One(), ctx=two)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    Estimator(net, loss, trainer=trainer, context=two).fit(loader(16), epochs=1)
    alone = nn.Dense(3, in_units=6, prefix="d_")
    alone.initialize(mx.init.One())
    trainer = gluon.Trainer(alone.collect_params(), "sgd", {"learning_rate": 0.1})
    Estimator(alone, loss, trainer=trainer).fit(loader(16), epochs=1)
    np.testing.assert_allclose(
        net.weight.data(two[1]).asnumpy(), alone.weight.data().asnumpy(), rtol=1e-5
    )


class TestEarlyStopping:
    @pytest.mark.parametrize(
        "mode, delta, stopped", [("max", 0, 2), ("min", 0, 0), ("auto", 0, 2), ("min", 0.7, 3)]
    )
    def test_when_it_stops(self, mode, delta, stopped, capsys):
        """Losses fall: 2.39, 1.62, 1.29, ..."""
        trained = estimator()
        monitor = trained.val_metrics[1]
        handler = EarlyStoppingHandler(monitor, min_delta=delta, patience=2, mode=mode)
        trained.fit(loader(), val_data=loader(12), epochs=4, event_handlers=[handler])
        assert handler.stopped_epoch == stopped
        assert ("early stopping" in capsys.readouterr().out) == bool(stopped)

    def test_early_stopping_compares_with_the_baseline(self):
        trained = estimator()
        handler = EarlyStoppingHandler(trained.train_metrics[1], mode="min", baseline=0.1)
        trained.fit(loader(), epochs=4, event_handlers=handler)
        assert (handler.best, handler.current_epoch) == (0.1, 1)

    def test_early_stopping_raises_for_other_monitors(self):
        with pytest.raises(ValueError, match="as monitor"):
            EarlyStoppingHandler("accuracy")
        with pytest.raises(ValueError, match="CompositeEvalMetric is not supported"):
            EarlyStoppingHandler(mx.metric.create(["acc", "ce"]))
        with pytest.warns(RuntimeWarning, match="mode least is unknown"):
            EarlyStoppingHandler(mx.metric.Accuracy(), mode="least")

    def test_a_metric_that_nothing_counts(self):
        handler = EarlyStoppingHandler(mx.metric.Accuracy(), mode="max")
        with pytest.warns(RuntimeWarning, match="accuracy is not updated"):
            estimator().fit(loader(8), epochs=1, event_handlers=handler)


class TestCheckpoints:
    def test_names_and_how_many_are_kept(self, tmp_path, capsys):
        trained = estimator(hybrid=True)
        handler = CheckpointHandler(
            tmp_path, epoch_period=None, batch_period=2, max_checkpoints=2, verbose=1
        )
        trained.fit(loader(), event_handlers=[handler], batches=12)
        assert sorted(os.listdir(tmp_path)) == [
            *("model-epoch3batch11.params", "model-epoch3batch11.states"),
            *("model-epoch3batch9.params", "model-epoch3batch9.states"),
            "model-symbol.json",
        ]
        told = "[Epoch 0] CheckpointHandler: trained total 2 batches, saving model at"
        assert told in capsys.readouterr().out
        loaded = gluon.SymbolBlock(
            mx.sym.load(str(tmp_path / "model-symbol.json")), mx.sym.var("data")
        )
        assert list(loaded.collect_params()) == ["n_dense0_weight", "n_dense0_bias"]

    def test_one_checkpoints_name_may_begin_as_anothers(self, tmp_path):
        """Batch 1 goes, batches 10 and 11 stay."""
        handler = CheckpointHandler(tmp_path, epoch_period=None, batch_period=1, max_checkpoints=11)
        one = gluon.data.DataLoader(
            gluon.data.ArrayDataset(nd.array(X[:12]), nd.array(Y[:12])), batch_size=1
        )
        estimator().fit(one, event_handlers=[handler], batches=12)
        kept = [name for name in os.listdir(tmp_path) if name.endswith(".params")]
        assert sorted(kept) == sorted(f"model-epoch0batch{i}.params" for i in range(1, 12))

    def test_the_best_one(self, tmp_path, capsys):
        trained = estimator()
        handler = CheckpointHandler(
            tmp_path, "bestof", trained.val_metrics[1], 1, save_best=True, mode="min",
            max_checkpoints=1,
        )  # fmt: skip
        trained.fit(loader(), val_data=loader(12), epochs=2, event_handlers=[handler])
        files = ["bestof-best", "bestof-epoch1batch6"]
        assert sorted(os.listdir(tmp_path)) == [
            f"{name}.{kind}" for name in files for kind in ("params", "states")
        ]
        assert handler.best == pytest.approx(1.61597, abs=1e-4)
        assert "improved from 2.39480 to 1.61597, updating best model" in capsys.readouterr().out
        with pytest.raises(ValueError, match="as monitor"):
            CheckpointHandler(tmp_path, save_best=True)

    def test_training_goes_on_from_the_latest(self, tmp_path, capsys):
        whole = estimator()
        whole.fit(loader(), epochs=4)
        first = estimator()
        first.fit(loader(), epochs=2, event_handlers=CheckpointHandler(tmp_path, "epoch_net"))
        rest = estimator()
        handler = CheckpointHandler(tmp_path, "epoch_net", resume_from_checkpoint=True)
        capsys.readouterr()
        rest.fit(loader(), epochs=4, event_handlers=handler)
        assert rest.max_epoch == 2
        np.testing.assert_allclose(weights(rest), weights(whole), rtol=1e-6)
        assert capsys.readouterr().out.startswith(
            "CheckpointHandler: Checkpoint resumed from epoch 1 batch 6, continue to train for "
            "2 epochs \n"
        )
        assert "epoch_net-epoch3batch12.states" in os.listdir(tmp_path)
        with pytest.raises(ValueError, match="maximum number of epoch 4 reached"):
            rest.fit(loader(), epochs=4, event_handlers=handler)

    def test_by_batches(self, tmp_path):
        given = {"epoch_period": None, "batch_period": 2}
        estimator().fit(loader(), batches=4, event_handlers=CheckpointHandler(tmp_path, **given))
        rest = estimator()
        handler = CheckpointHandler(tmp_path, **given, resume_from_checkpoint=True)
        rest.fit(loader(), batches=6, event_handlers=handler)
        assert rest.max_batch == 2
        wrong = CheckpointHandler(tmp_path, resume_from_checkpoint=True)
        with pytest.raises(AssertionError, match="the same type of period"):
            rest.fit(loader(), batches=6, event_handlers=wrong)

    def test_from_scratch_if_there_is_none(self, tmp_path, capsys):
        handler = CheckpointHandler(tmp_path, resume_from_checkpoint=True)
        estimator().fit(loader(), epochs=1, event_handlers=handler)
        assert "No checkpoint found, training from scratch for 1 epochs" in capsys.readouterr().out

    def test_a_name_that_is_no_checkpoints(self, tmp_path):
        (tmp_path / "model-epochlast.params").write_bytes(b"")
        handler = CheckpointHandler(tmp_path, resume_from_checkpoint=True)
        with pytest.raises(ValueError, match="Error parsing checkpoint file"):
            estimator().fit(loader(), epochs=1, event_handlers=handler)

    def test_whole_or_not_at_all(self, tmp_path):
        """Parameters that cannot be saved leave no states behind, nor any part of a file."""
        trained = estimator()
        handler = CheckpointHandler(tmp_path)
        (tmp_path / "model-epoch0batch3.params").mkdir()
        with pytest.raises(mx.MXNetError, match="model-epoch0batch3.params"):
            trained.fit(loader(), epochs=1, event_handlers=handler)
        assert os.listdir(tmp_path) == ["model-epoch0batch3.params"]


class TestErrors:
    def test_of_arguments(self):
        net, loss = nn.Dense(1), gluon.loss.L2Loss()
        with pytest.raises(ValueError, match="loss must be a Loss"):
            Estimator(net, "l2")
        with pytest.raises(ValueError, match="metrics must be a Metric"):
            Estimator(net, loss, train_metrics=["acc"])
        with pytest.raises(ValueError, match="Trainer must be"):
            Estimator(net, loss, trainer="sgd")
        with pytest.raises(ValueError, match="context must be"):
            Estimator(net, loss, context="cpu")
        with pytest.raises(AssertionError, match=r"gpu\(3\) is not available"):
            Estimator(net, loss, context=mx.gpu(3))

    def test_of_initializers(self):
        net, loss = nn.Dense(1, in_units=2), gluon.loss.L2Loss()
        with pytest.warns(UserWarning, match="No trainer specified"):
            made = Estimator(net, loss, initializer=mx.init.One())
        assert made.trainer.learning_rate == 0.001 and net.weight.data().asnumpy().tolist() == [
            [1, 1]
        ]
        with pytest.warns(UserWarning, match="already fully initialized"):
            Estimator(net, loss, initializer=mx.init.Zero(), trainer=made.trainer)

    def test_of_fit(self):
        trained = estimator()
        with pytest.raises(ValueError, match="only support input as Gluon DataLoader"):
            trained.fit([(X, Y)], epochs=1)
        with pytest.raises(ValueError, match="only support input as Gluon DataLoader"):
            trained.evaluate(nd.array(X))
        for given in ({}, {"epochs": 1, "batches": 1}):
            with pytest.raises(ValueError, match="exactly one type of iteration"):
                trained.fit(loader(), **given)
        with pytest.raises(ValueError, match="handlers must be an EventHandler"):
            trained.fit(loader(), epochs=1, event_handlers=["log"])
        with pytest.raises(ValueError, match="LoggingHandler refers to a metric"):
            other = LoggingHandler(metrics=mx.metric.Accuracy())
            trained.fit(loader(), epochs=1, event_handlers=other)
        with pytest.raises(ValueError, match="log_interval must be"):
            LoggingHandler("batch")
