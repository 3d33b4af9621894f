"""Attention in tiles: values, bits, masked rows, memory, and graphs that keep the softmax."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from compiling import AVAILABLE, assert_near, call, compiled, plan_of, run_reference, var
from hybridjit import autograd, gluon, nd, override
from hybridjit._core.options import Options
from hybridjit.ir.node import Output

HEADS, WIDTH = 3, 8


def arrays_of(*shapes: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {n: random.normal(size=s).astype(np.float32) for n, s in zip("qkvab", shapes)}


def core(arrays: dict[str, np.ndarray], **attrs: object) -> list[Output]:
    return [call("_attention", *map(var, arrays), biases=len(arrays) - 3, **attrs)]


def run(outputs: list[Output], arrays: dict[str, np.ndarray]) -> np.ndarray:
    executable = compiled(outputs, arrays)
    assert {step.kind for step in executable.plan.steps} == {"attention"}
    return executable(list(arrays.values()))[0]


def of_layers(steps: int) -> tuple[list[Output], dict[str, np.ndarray]]:
    """Self attention of two samples in MXNet's operators, with a bias for each pair of steps."""
    units = HEADS * WIDTH

    def heads(name: str) -> Output:
        dense = call("FullyConnected", var("x"), var(f"w{name}"), num_hidden=units, no_bias=True,
                     flatten=False, name=name)  # fmt: skip
        split = call("reshape", dense, shape=(0, 0, HEADS, WIDTH))
        return call("transpose", split, axes=(0, 2, 1, 3))

    q, k, v = map(heads, "qkv")
    scores = call("_div_scalar", call("batch_dot", q, k, transpose_b=True), scalar=WIDTH**0.5)
    weights = call("softmax", call("broadcast_add", scores, var("bias")))
    joined = call("transpose", call("batch_dot", weights, v), axes=(0, 2, 1, 3))
    random = np.random.default_rng(steps)
    shapes = {"x": (2, steps, units), "bias": (1, 1, steps, steps)}
    arrays = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    arrays |= {f"w{n}": random.normal(0, 0.3, (units, units)).astype("float32") for n in "qkv"}
    return [call("reshape", joined, shape=(0, 0, -1))], arrays


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize(
    "rows, keys, width, values",
    [(1, 1, 1, 1), (5, 300, 64, 64), (40, 256, 33, 48), (97, 513, 3, 70), (200, 31, 16, 17)],
)
def test_values_are_those_of_numpy(target: str, rows: int, keys: int, width: int, values: int):
    q, k, v = (2, 2, rows, width), (2, 2, keys, width), (2, 2, keys, values)
    arrays = arrays_of(q, k, v, (2, 1, 1, keys), (1, 2, rows, keys))
    outputs = core(arrays, scale=width**-0.5)
    with override(target=target):
        assert_near([run(outputs, arrays)], run_reference(outputs, arrays))


def test_a_sample_and_a_row_have_the_same_bits_alone():
    arrays = arrays_of((3, 2, 50, 40), (3, 2, 700, 40), (3, 2, 700, 36), (3, 1, 50, 700))
    whole = run(core(arrays), arrays)
    one = {n: np.ascontiguousarray(a[1:2]) for n, a in arrays.items()}
    assert run(core(one), one).tobytes() == whole[1:2].tobytes()
    row = {**one, **{n: np.ascontiguousarray(one[n][:, :, 13:14]) for n in "qa"}}
    assert run(core(row), row).tobytes() == whole[1:2, 13:14].tobytes()


@pytest.mark.parametrize("steps", [330, 401])
def test_symbolic_sizes_have_the_bits_of_fixed_ones(steps: int):
    outputs, arrays = of_layers(steps)
    params = ["wq", "wk", "wv"]
    inputs = [arrays["x"], arrays["bias"]]
    found = []
    for dynamic in (None, True):
        executable = compiled(outputs, arrays, params, options=Options(dynamic=dynamic))
        assert "attention" in {step.kind for step in executable.plan.steps}
        found.append(executable(inputs)[0])
    assert found[0].tobytes() == found[1].tobytes()
    assert_near(found[:1], run_reference(outputs, arrays))


@pytest.mark.parametrize("lowest", [-np.inf, -1e9, np.finfo(np.float32).min])
def test_masked_keys_and_rows_are_those_of_softmax(lowest: float):
    arrays = arrays_of((1, 1, 20, 16), (1, 1, 600, 16), (1, 1, 600, 24))
    mask = np.zeros((1, 1, 20, 600), np.float32)
    mask[..., 3, :] = lowest  # no key at all
    mask[..., 4, :500] = lowest  # none of the first blocks
    mask[..., 5, 100:] = lowest
    arrays["a"] = mask
    outputs = core(arrays)
    found, (wanted,) = run(outputs, arrays), run_reference(outputs, arrays)
    assert_near([found], [wanted])
    assert np.isnan(found[0, 3]).all() == np.isinf(lowest)


def test_nan_and_infinity_reach_their_row_only():
    arrays = arrays_of((1, 2, 20, 16), (1, 2, 300, 16), (1, 2, 300, 24))
    arrays["q"][0, 0, 2, 5] = np.nan
    arrays["q"][0, 1, 7] = np.inf
    outputs = core(arrays)
    found, (wanted,) = run(outputs, arrays), run_reference(outputs, arrays)
    is_lost = np.isnan(found).all(axis=-1)
    assert [tuple(at) for at in np.argwhere(is_lost)] == [(0, 2, 0), (0, 7, 1)]
    assert_near([found], [wanted])


@pytest.mark.parametrize("target", AVAILABLE)
def test_powers_of_distances_are_exact_to_single_precision(target: str):
    """Two keys, of scores 0 and x: the weight of the second is e**x / (1 + e**x)."""
    x = -np.concatenate([np.linspace(0, 1, 5000), np.geomspace(1, 120, 5000)]).astype(np.float32)
    pair = np.stack([np.zeros_like(x), x], axis=1)[:, None, :, None]
    chosen = np.broadcast_to(np.float32([0, 1])[None, None, :, None], pair.shape).copy()
    arrays = {"q": np.ones((len(x), 1, 1, 1), np.float32), "k": pair, "v": chosen}
    with override(target=target):
        found = run(core(arrays), arrays).ravel()
    wanted = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(found - wanted).max() <= 1.2e-7
    assert (found[x < -104.1] == 0).all()


def test_memory_grows_with_the_length_not_with_its_square():
    arenas = [plan_of(*of_layers(steps), ["wq", "wk", "wv"]).arena_bytes for steps in (400, 800)]
    assert arenas[1] <= 2 * arenas[0] + 4096


STEPS, SAMPLES = 330, 2


class _WithWhere(gluon.HybridBlock):
    """gluon-nlp's cell: products of joined heads, and a mask of scores and weights."""

    def hybrid_forward(self, F, x, mask):
        split = F.transpose(F.reshape(x, shape=(0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
        rows = F.reshape(split, shape=(-1, 0, 0), reverse=True)
        scores = F.batch_dot(F.contrib.div_sqrt_dim(rows), rows, transpose_b=True)
        wide = F.broadcast_axis(F.expand_dims(mask, axis=1), axis=1, size=HEADS)
        wide = F.reshape(wide, shape=(-1, 0, 0), reverse=True)
        scores = F.where(wide, scores, -1e18 * F.ones_like(scores))
        y = F.batch_dot(F.softmax(scores, axis=-1) * wide, rows)
        return F.reshape(y, shape=(-1, HEADS, 0, 0), reverse=True)


class _WithLengths(gluon.HybridBlock):
    """gluon-nlp's BERT: interleaved projections, and a softmax of valid lengths."""

    def hybrid_forward(self, F, x, lengths):
        three = F.swapaxes(F.concat(x, 2 * x, x, dim=2), dim1=0, dim2=1)
        scores = F.contrib.interleaved_matmul_selfatt_qk(three, heads=HEADS)
        valid = F.broadcast_axis(F.expand_dims(lengths, axis=1), axis=1, size=HEADS)
        valid = F.expand_dims(valid.reshape(shape=(-1,)), axis=1)
        valid = F.broadcast_like(valid, scores, lhs_axes=(1,), rhs_axes=(1,))
        weights = F.softmax(scores, length=valid.astype("int32"), use_length=True, axis=-1)
        return F.contrib.interleaved_matmul_selfatt_valatt(three, weights, heads=HEADS)


class _Causal(gluon.HybridBlock):
    """Scores of later steps are -inf, by positions from ``arange_like``."""

    def hybrid_forward(self, F, x):
        steps = F.contrib.arange_like(x, axis=1)
        is_later = F.broadcast_lesser(steps.reshape((-1, 1)), steps.reshape((1, -1)))
        scores = F.batch_dot(x, x, transpose_b=True)
        scores = F.broadcast_add(scores, F.expand_dims(is_later * -1e9, axis=0))
        return F.batch_dot(F.softmax(scores), x)


def _masks() -> dict[str, tuple[gluon.HybridBlock, list[np.ndarray]]]:
    random = np.random.default_rng(5)
    mask = (random.random((SAMPLES, STEPS, STEPS)) < 0.7).astype(np.float32)
    mask[1, 7] = 0  # a row without keys
    lengths = np.float32([STEPS, 0])
    return {
        "where": (_WithWhere(), [mask]),
        "lengths": (_WithLengths(), [lengths]),
        "causal": (_Causal(), []),
    }


@pytest.mark.parametrize("name", ["where", "lengths", "causal"])
def test_masks_of_programs_are_computed_in_the_kernel(name: str, capsys):
    net, others = _masks()[name]
    x = np.random.default_rng(6).normal(size=(SAMPLES, STEPS, HEADS * WIDTH)).astype(np.float32)
    given = [nd.array(a) for a in (x, *others)]
    eager = net(*given).asnumpy()
    net.hybridize()
    with override(dump=("spec",)):
        assert_near([net(*given).asnumpy()], [eager])
    assert "attention width=" in "".join(capsys.readouterr())


class _Shown(gluon.HybridBlock):
    """Rows whose mask shows no key have the result 0, although their softmax is NaN."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.lowest = lowest

    def hybrid_forward(self, F, x, mask, bias):
        scores = F.broadcast_add(F.batch_dot(x, x, transpose_b=True), bias)
        weights = F.softmax(F.where(mask, scores, F.ones_like(scores) * self.lowest))
        return F.batch_dot(F.where(mask, weights, F.zeros_like(weights)), x)


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("lowest", [-np.inf, -4e38])
def test_rows_without_a_shown_key_are_0(target: str, lowest: float, capsys):
    random = np.random.default_rng(5)
    x = random.normal(size=(1, STEPS, 20)).astype(np.float32)
    mask = (random.random((1, STEPS, STEPS)) < 0.7).astype(np.float32)
    mask[0, 3:5] = 0
    bias = np.zeros((1, STEPS, STEPS), np.float32)
    bias[0, 4:6] = -np.inf  # also where keys of row 5 are shown
    net, given = _Shown(lowest), [nd.array(a) for a in (x, mask, bias)]
    eager = net(*given).asnumpy()
    net.hybridize()
    with override(dump=("spec",), target=target):
        found = net(*given).asnumpy()
    assert_near([found], [eager])
    assert not found[0, 3:5].any() and np.isnan(found[0, 5]).all()
    assert "attention width=" in "".join(capsys.readouterr())


class _SelfAttention(gluon.HybridBlock):
    """One head; ``is_shown`` returns its weights too."""

    def __init__(self, is_shown: bool = False) -> None:
        super().__init__()
        self.is_shown = is_shown

    def hybrid_forward(self, F, x):
        weights = F.softmax(F.batch_dot(x, x, transpose_b=True) / 4)
        y = F.batch_dot(weights, x)
        return (y, weights) if self.is_shown else y


def test_training_and_returned_weights_keep_the_softmax():
    x = nd.random.normal(shape=(2, 340, 16))
    plain, fused, shown = _SelfAttention(), _SelfAttention(), _SelfAttention(is_shown=True)
    fused.hybridize()
    shown.hybridize()
    results = []
    for net in (plain, fused):
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward(mx.nd.ones_like(y))
        results.append([y.asnumpy(), x.grad.asnumpy()])
    assert_near(results[1], results[0])
    assert_near([fused(x).asnumpy()], results[0][:1])
    assert_near([shown(x)[0].asnumpy()], results[0][:1])


@pytest.mark.parametrize("seed", range(8))
def test_random_sizes_and_operands(seed: int):
    """Sizes around tiles, blocks and vectors, with any of the operands."""
    random = np.random.default_rng(seed)
    samples, heads = random.integers(1, 4, 2)
    rows, keys = random.integers(1, 70), random.choice([1, 15, 17, 255, 256, 257, 530])
    width, values = random.integers(1, 70, 2)
    shapes = [(samples, heads, n, w) for n, w in ((rows, width), (keys, width), (keys, values))]
    arrays = arrays_of(*shapes, seed=seed)
    attrs: dict[str, object] = {"scale": width**-0.5}
    if random.random() < 0.5:
        some = [int(random.choice([1, n])) for n in (samples, heads, rows)]
        arrays["m"] = (random.random((*some, keys)) < 0.8).astype(np.float32)
        attrs |= {"fill": -1e9, "after": random.choice(["none", "where", "times"])}
    if random.random() < 0.5:
        arrays["n"] = random.integers(0, keys + 2, (samples, heads, rows))
        attrs["use_length"] = True
    outputs = [call("_attention", *map(var, arrays), **attrs)]
    with override(target=str(random.choice(AVAILABLE))):
        assert_near([run(outputs, arrays)], run_reference(outputs, arrays))
