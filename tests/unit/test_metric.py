"""Metrics against their formulas, over batches, by name; local and global values."""

import math

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import metric

rng = np.random.default_rng(5)
SCORES = rng.uniform(0.1, 1, (4, 6, 5))
SHARES = SCORES / SCORES.sum(2, keepdims=True)
CLASSES = rng.integers(0, 5, (4, 6))
PAIRS = SHARES[:, :, :2] / SHARES[:, :, :2].sum(2, keepdims=True)
BITS = rng.integers(0, 2, (4, 6))
P, Q = rng.uniform(-1, 1, (2, 4, 6))
PICKED = np.take_along_axis(SHARES, CLASSES[:, :, None], 2)[:, :, 0]


def counted(made, labels, preds):
    for label, pred in zip(labels, preds):
        made.update([mx.nd.array(label)], [mx.nd.array(pred)])
    return made


def counts(labels, preds):
    chosen = preds.argmax(-1).ravel()
    wanted = labels.ravel()
    return [[((chosen == i) & (wanted == j)).sum() for j in (0, 1)] for i in (0, 1)]


def f1(labels, preds):
    (_, fn), (fp, tp) = counts(labels, preds)
    return 2 * tp / (2 * tp + fp + fn)


def mcc(labels, preds):
    (tn, fn), (fp, tp) = counts(labels, preds)
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return (tp * tn - fp * fn) / below


CASES = {
    "acc": (metric.create("acc"), CLASSES, SHARES, (SHARES.argmax(2) == CLASSES).mean()),
    "top": (
        metric.create("top_k_acc", top_k=2),
        CLASSES,
        SHARES,
        (np.argsort(-SHARES, 2)[:, :, :2] == CLASSES[:, :, None]).any(2).mean(),
    ),
    "ce": (metric.create("ce"), CLASSES, SHARES, -np.log(PICKED).mean()),
    "nll": (metric.create("nll_loss"), CLASSES, SHARES, -np.log(PICKED).mean()),
    "perplexity": (
        metric.Perplexity(ignore_label=2),
        CLASSES,
        SHARES,
        math.exp(-np.log(PICKED[CLASSES != 2]).mean()),
    ),
    "f1_micro": (metric.F1(average="micro"), BITS, PAIRS, f1(BITS, PAIRS)),
    "f1_macro": (metric.F1(), BITS, PAIRS, np.mean([f1(*p) for p in zip(BITS, PAIRS)])),
    "mcc_micro": (metric.MCC(average="micro"), BITS, PAIRS, mcc(BITS, PAIRS)),
    "pcc_of_two": (metric.PCC(), BITS, PAIRS, mcc(BITS, PAIRS)),
    "mae": (metric.create("mae"), P, Q, np.abs(P - Q).mean()),
    "mse": (metric.create("mse"), P, Q, np.square(P - Q).mean()),
    "rmse": (metric.create("rmse"), P, Q, np.sqrt(np.square(P - Q).mean(1)).mean()),
    "pearson": (
        metric.create("pearsonr"),
        P,
        Q,
        np.mean([np.corrcoef(p, q)[0, 1] for p, q in zip(P, Q)]),
    ),
    "pearson_micro": (
        metric.PearsonCorrelation(average="micro"),
        P,
        Q,
        np.corrcoef(P.ravel(), Q.ravel())[0, 1],
    ),
    "loss": (metric.create("loss"), P, Q, Q.mean()),
    "custom": (
        metric.np(lambda label, pred: np.abs(label - pred).max(), "worst"),
        P,
        Q,
        np.abs(P - Q).max(1).mean(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_metric_is_its_formula_over_all_batches(name):
    made, labels, preds, expected = CASES[name]
    assert math.isnan(made.get()[1])
    assert counted(made, labels, preds).get()[1] == pytest.approx(expected, rel=1e-5)
    made.reset()
    assert math.isnan(made.get()[1])


def test_local_counts_start_anew_and_global_ones_stay():
    made = counted(metric.Accuracy(), CLASSES[:2], SHARES[:2])
    before = made.get_global()
    made.reset_local()
    assert math.isnan(made.get()[1]) and made.get_global() == before
    counted(made, CLASSES[2:], SHARES[2:])
    assert made.get_global()[1] == pytest.approx((SHARES.argmax(2) == CLASSES).mean())


def test_several_metrics_and_arrays_by_name():
    both = metric.create(["acc", metric.MSE(output_names=["b"], label_names=["y"])])
    labels = {"x": mx.nd.array([1, 0]), "y": mx.nd.array([2, 2])}
    preds = {"a": mx.nd.array([[0, 1.0], [0, 1]]), "b": mx.nd.array([1, 1])}
    both.metrics[0].output_names, both.metrics[0].label_names = ["a"], ["x"]
    both.update_dict(labels, preds)
    assert both.get_name_value() == [("accuracy", 0.5), ("mse", 1.0)]
    assert str(both) == "EvalMetric: {'accuracy': 0.5, 'mse': 1.0}"
    assert both.get_config()["metrics"][1]["metric"] == "MSE"


@pytest.mark.parametrize(
    "names, found, pairs",
    [
        ("a", 1.0, [("a", 1.0)]),
        ("a", [1.0, 2.0], [("a", 1.0)]),
        (["a"], 1.0, [("a", 1.0)]),
        (["a", "b"], [1.0, 2.0], [("a", 1.0), ("b", 2.0)]),
        (["a", "b"], (1.0, 2.0), [("a", (1.0, 2.0))]),
        (("a", "b"), [1.0], [(("a", "b"), 1.0)]),
    ],
)
def test_names_and_values_are_paired_as_mxnet_pairs_them(names, found, pairs):
    """A name or a value without a list counts as a list of one."""

    class Told(metric.EvalMetric):
        def get(self):
            return names, found

    assert Told("told").get_name_value() == pairs
    assert Told("told").get_global_name_value() == pairs


def test_metrics_raise_for_wrong_arguments():
    with pytest.raises(AssertionError, match="nope is not registered"):
        metric.create("nope")
    with pytest.raises(ValueError, match="Shape of labels 3 does not match"):
        metric.Accuracy().update([mx.nd.ones((3,))], [mx.nd.ones((2, 2))])
    with pytest.raises(ValueError, match="binary"):
        metric.F1().update([mx.nd.array([0, 1, 2])], [mx.nd.ones((3, 2))])
    with pytest.raises(AssertionError, match="Accuracy if top_k"):
        metric.TopKAccuracy(top_k=1)
