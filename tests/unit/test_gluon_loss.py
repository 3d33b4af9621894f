"""Losses: every class against its formula in float64, weights, both modes, mistakes."""

import numpy as np
import pytest

import hybridjit as mx
from hybridjit.gluon import loss

rng = np.random.default_rng(7)
PRED = rng.uniform(-2, 2, (3, 4))
LABEL = rng.uniform(-2, 2, (3, 4))
SIGN = np.where(LABEL > 0, 1.0, -1.0)
BIT = (LABEL > 0) * 1.0
SHARE = np.exp(LABEL) / np.exp(LABEL).sum(1, keepdims=True)
CLASS = np.array([3.0, 0.0, 1.0])
LOG_SHARE = np.log(np.exp(PRED) / np.exp(PRED).sum(1, keepdims=True))
POSITIVE = rng.uniform(1, 3, (1, 4))
RATE = np.abs(PRED) + 0.1
COUNT = np.array([[1.0, 2, 5, 3], [1, 1, 4, 2], [7, 3, 2, 1]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def entropy(p, y, positive=1.0):
    return -(positive * y * np.log(p) + (1 - y) * np.log(1 - p)).mean(1)


def huber(distance, rho):
    return np.where(distance > rho, distance - rho / 2, distance**2 / (2 * rho)).mean(1)


def cosine(x, y):
    return (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)


def embedding(margin):
    alike, apart = 1 - cosine(PRED, LABEL), np.maximum(0, cosine(PRED, LABEL) - margin)
    return np.where(np.array([1, -1, 1]) == 1, alike, apart)[:, None]


def triplet(margin):
    gap = ((LABEL - PRED) ** 2).sum(1) - ((SIGN - PRED) ** 2).sum(1)
    return np.maximum(0, gap + margin)


def stirling(n):
    return np.where(n > 1, n * np.log(n) - n + np.log(2 * np.pi * n) / 2, 0)


CASES = {
    "l2": (loss.L2Loss(), (PRED, LABEL), ((PRED - LABEL) ** 2).mean(1) / 2),
    "l1": (loss.L1Loss(weight=3.0), (PRED, LABEL), 3 * np.abs(PRED - LABEL).mean(1)),
    "l1_other_axis": (loss.L1Loss(batch_axis=1), (PRED, LABEL), np.abs(PRED - LABEL).mean(0)),
    "l1_reshaped": (loss.L1Loss(), (PRED, LABEL.reshape(2, 6)), np.abs(PRED - LABEL).mean(1)),
    "bce": (loss.SigmoidBCELoss(), (PRED, BIT), entropy(sigmoid(PRED), BIT)),
    "bce_probabilities": (
        loss.SigmoidBCELoss(from_sigmoid=True),
        (sigmoid(PRED), BIT),
        entropy(sigmoid(PRED), BIT),
    ),
    "bce_positive": (
        loss.SigmoidBCELoss(),
        (PRED, BIT, np.ones((3, 1)), POSITIVE),
        entropy(sigmoid(PRED), BIT, POSITIVE),
    ),
    "ce": (loss.SoftmaxCELoss(), (PRED, CLASS), -LOG_SHARE[range(3), CLASS.astype(int)]),
    "ce_dense": (
        loss.SoftmaxCELoss(sparse_label=False, from_logits=True),
        (LOG_SHARE, SHARE),
        -(LOG_SHARE * SHARE).sum(1),
    ),
    "kl": (
        loss.KLDivLoss(from_logits=False),
        (PRED, SHARE),
        (SHARE * (np.log(SHARE) - LOG_SHARE)).sum(1),
    ),
    "huber": (loss.HuberLoss(rho=0.7), (PRED, LABEL), huber(np.abs(PRED - LABEL), 0.7)),
    "hinge": (loss.HingeLoss(margin=2), (PRED, SIGN), np.maximum(0, 2 - PRED * SIGN).mean(1)),
    "squared_hinge": (
        loss.SquaredHingeLoss(),
        (PRED, SIGN),
        (np.maximum(0, 1 - PRED * SIGN) ** 2).mean(1),
    ),
    "logistic": (loss.LogisticLoss(), (PRED, SIGN), np.log1p(np.exp(-PRED * SIGN)).mean(1)),
    "logistic_binary": (
        loss.LogisticLoss(label_format="binary"),
        (PRED, BIT),
        np.log1p(np.exp(-PRED * SIGN)).mean(1),
    ),
    "triplet": (loss.TripletLoss(margin=0.5), (PRED, LABEL, SIGN), triplet(0.5)),
    "poisson": (
        loss.PoissonNLLLoss(),
        (PRED, COUNT),
        np.atleast_1d((np.exp(PRED) - COUNT * PRED).mean()),
    ),
    "poisson_full": (
        loss.PoissonNLLLoss(from_logits=False, compute_full=True),
        (RATE, COUNT),
        np.atleast_1d((RATE - COUNT * np.log(RATE) + stirling(COUNT)).mean()),
    ),
    "cosine": (
        loss.CosineEmbeddingLoss(margin=0.1),
        (PRED, LABEL, np.array([1.0, -1, 1])),
        embedding(0.1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_loss_is_its_formula_in_both_modes(name):
    function, given, expected = CASES[name]
    arrays = [mx.nd.array(a) for a in given]
    eager = function(*arrays)
    np.testing.assert_allclose(eager.asnumpy(), expected, rtol=2e-5, atol=2e-6)
    function.hybridize()
    np.testing.assert_allclose(function(*arrays).asnumpy(), eager.asnumpy(), rtol=1e-5, atol=1e-6)
    function.hybridize(False)


def test_sample_weights_broadcast_over_a_samples_elements():
    weights = np.array([[0.5], [0.0], [2.0]])
    found = loss.L1Loss()(mx.nd.array(PRED), mx.nd.array(LABEL), mx.nd.array(weights))
    expected = np.abs(PRED - LABEL).mean(1) * weights[:, 0]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)


def test_scores_far_from_zero_do_not_overflow():
    pred, label = mx.nd.array([[1000.0, -1000.0]]), mx.nd.array([[1.0, 0.0]])
    assert loss.SigmoidBCELoss()(pred, label).asscalar() == 0
    assert loss.LogisticLoss()(pred, mx.nd.array([[-1.0, 1.0]])).asscalar() == 1000


def ctc_by_definition(scores, labels):
    """-log of the sum over all paths (T,) of classes that collapse to ``labels``."""
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    blank, total = scores.shape[1] - 1, 0.0
    for path in np.ndindex(*[scores.shape[1]] * len(scores)):
        kept = [c for i, c in enumerate(path) if (i == 0 or c != path[i - 1]) and c != blank]
        if kept == labels:
            total += np.prod(shares[range(len(path)), path])
    return -np.log(total)


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_ctc_sums_over_all_paths_that_collapse_to_the_label(layout):
    scores = rng.uniform(-1, 1, (2, 4, 3))
    lengths = (mx.nd.array([4, 3]), mx.nd.array([2, 1]))
    given = scores if layout == "NTC" else scores.swapaxes(0, 1)
    function = loss.CTCLoss(layout=layout)
    found = function(mx.nd.array(given), mx.nd.array([[0, 1], [1, 0]]), *lengths)
    expected = [ctc_by_definition(scores[0], [0, 1]), ctc_by_definition(scores[1][:3], [1])]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4)


def test_sdml_is_the_divergence_from_smoothed_pairs():
    x, y = PRED[:, :2], LABEL[:, :2]
    distance = ((x[:, None] - y[None]) ** 2).sum(2)
    log_share = np.log(np.exp(-distance) / np.exp(-distance).sum(1, keepdims=True))
    wanted = np.full((3, 3), 0.1) + np.eye(3) * 0.7
    found = loss.SDMLLoss(smoothing_parameter=0.2)(mx.nd.array(x), mx.nd.array(y))
    expected = (wanted * (np.log(wanted) - log_share)).sum(1)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4)


def test_mistakes_and_text():
    assert repr(loss.HuberLoss(weight=0.5)) == "HuberLoss(batch_axis=0, w=0.5)"
    with pytest.raises(ValueError, match="signed or binary"):
        loss.LogisticLoss(label_format="other")
    with pytest.raises(AssertionError, match="NTC or TNC"):
        loss.CTCLoss(layout="NCT")
    with pytest.raises(AssertionError, match="weight must be a number"):
        loss.L1Loss(weight="2")(mx.nd.array(PRED), mx.nd.array(LABEL))


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(
    "dtype, result", [("bool", "float32"), ("int64", "float32"), ("float64",) * 2]
)
def test_weights_of_samples_have_any_element_type_in_numpy_mode(dtype, result, hybridized):
    rng = np.random.default_rng(3)
    scores, weights = rng.normal(size=(4, 3)).astype("float32"), np.array([[1], [0], [0], [1]])
    with mx.np_shape(), mx.util.np_array(True):
        criterion = loss.SigmoidBCELoss()
        if hybridized:
            criterion.hybridize()
        label = mx.np.array(scores > 0.3, dtype="int32")
        given = (
            mx.np.array(weights, dtype=dtype),
            mx.np.array([[2, 1, 3]], dtype=dtype.replace("bool", "int8")),
        )
        found = criterion(mx.np.array(scores), label, *given)
    positive = (1 + (given[1].asnumpy() - 1.0)) * np.logaddexp(0, -scores) * (scores > 0.3)
    terms = positive + np.logaddexp(0, scores) * (scores <= 0.3)
    assert np.dtype(found.dtype) == result
    np.testing.assert_allclose(found.asnumpy(), (terms * weights).mean(1), rtol=1e-5)


def test_deep_metric_learning_takes_arrays_of_numpy_mode():
    rows = np.random.default_rng(4).normal(size=(2, 3, 4)).astype("float32")
    expected = loss.SDMLLoss()(mx.nd.array(rows[0]), mx.nd.array(rows[1]))
    with mx.np_shape(), mx.util.np_array(True):
        found = loss.SDMLLoss()(mx.np.array(rows[0]), mx.np.array(rows[1]))
    assert isinstance(found, mx.np.ndarray)
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())
