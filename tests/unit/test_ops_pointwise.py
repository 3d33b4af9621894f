"""Values that MXNet 1.9.1 gave: rounding, division, NaN, element types. Recorded, not derived."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from hybridjit import gluon, nd
from hybridjit.errors import AttributeValueError, DTypeError
from hybridjit.ops import lookup, run_ref
from hybridjit.ops.random import draws
from hybridjit.ops.random.dropping import dropout_mask
from running import as_bits, run

NAN, INF = float("nan"), float("inf")
SPECIAL = [NAN, INF, -INF, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 3, -3]

# fmt: off
RECORDED = {
    "round": [NAN, INF, -INF, -0.0, 0, 1, -1, 2, 3, -3, 0, 3, -3],
    "rint": [NAN, INF, -INF, -0.0, 0, 0, -1, 1, 2, -3, 0, 3, -3],
    "fix": [NAN, INF, -INF, -0.0, 0, 0, -0.0, 1, 2, -2, 0, 3, -3],
    "trunc": [NAN, INF, -INF, -0.0, 0, 0, -0.0, 1, 2, -2, 0, 3, -3],
    "floor": [NAN, INF, -INF, -0.0, 0, 0, -1, 1, 2, -3, 0, 3, -3],
    "ceil": [NAN, INF, -INF, -0.0, 0, 1, -0.0, 2, 3, -2, 1, 3, -3],
    "sign": [0, 1, -1, 0, 0, 1, -1, 1, 1, -1, 1, 1, -1],
    "relu": [NAN, INF, 0, 0, 0, 0.5, 0, 1.5, 2.5, 0, 0.49999997, 3, 0],
    "logical_not": [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
}
# fmt: on


@pytest.mark.parametrize("name", RECORDED)
def test_special_values(name):
    np.testing.assert_array_equal(run(name, SPECIAL), np.array(RECORDED[name], np.float32))


@pytest.mark.parametrize("name", ["fix", "trunc", "round", "rint", "ceil"])
def test_rounding_keeps_the_sign_of_zero(name):
    assert as_bits(run(name, [-0.0, -0.2])) == ["-0.0", "-0.0"]


def test_two_relus_and_nan():
    assert np.isnan(run("relu", [NAN])[0])
    assert run("Activation", [NAN], act_type="relu")[0] == 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 5, 16, 37])
def test_activation_gives_zero_without_a_sign(count, dtype):
    """Vectors and their remainders give equal signs of zeros in a maximum."""
    for x in (-0.0, NAN, -INF, -1.0):
        found = run("Activation", np.full(count, x, dtype), act_type="relu")
        assert found.tobytes() == np.zeros(count, dtype).tobytes()


def test_functions_at_poles_give_infinity_or_nan():
    np.testing.assert_array_equal(run("rsqrt", [0, -0.0, INF, -1]), [INF, -INF, 0, NAN])
    np.testing.assert_array_equal(run("reciprocal", [0, -0.0, INF]), [INF, -INF, 0])
    np.testing.assert_array_equal(
        run("gamma", [0, -0.0, -3, INF, -INF]), [INF, -INF, NAN, INF, NAN]
    )
    np.testing.assert_array_equal(run("gammaln", [0, -3, INF, -INF]), [INF, INF, INF, INF])
    np.testing.assert_array_equal(run("erfinv", [1, -1, 2]), [INF, -INF, NAN])
    np.testing.assert_array_equal(run("softsign", [INF]), [NAN])


@pytest.mark.parametrize(
    "divisor, wanted",
    [
        (3, [NAN, NAN, NAN, -0.0, 0, 0.5, 2.5, 1.5, 2.5, 0.5, 0.49999997, 0, 0]),
        (-3, [NAN, NAN, NAN, 0, 0, -2.5, -0.5, -1.5, -0.5, -2.5, -2.5, 0, 0]),
        (INF, [NAN, NAN, NAN, -0.0, 0, 0.5, INF, 1.5, 2.5, INF, 0.49999997, 3, INF]),
        (0, [0] * 13),
    ],
)
def test_modulo_of_floats(divisor, wanted):
    found = run("_mod_scalar", SPECIAL, scalar=divisor)
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_the_power_of_a_half_is_no_root():
    assert as_bits(run("_power_scalar", [-0.0, -INF, 4], scalar=0.5)) == ["0.0", "inf", "2.0"]
    found = run("broadcast_power", [-0.0, -INF, 4], [0.5])
    assert as_bits(found) == ["0.0", "inf", "2.0"]


def test_modulo_keeps_a_negative_zero():
    assert as_bits(run("_mod_scalar", [-0.0], scalar=3)) == ["-0.0"]


def test_integers_divide_towards_zero_and_remain_with_the_divisor():
    a, b = np.array([-5, 7, 5, -7, 3], "int32"), np.array([3, 2, -3, -3, 0], "int32")
    assert run("elemwise_div", a[:4], b[:4]).tolist() == [-1, 3, -1, 2]
    assert run("_mod", a, b).tolist() == [1, 1, -1, -1, 0]


def test_a_number_over_integers_is_divided_in_single_precision():
    x = np.array([3, 7, -1, 1000], "int64")
    found = run("_rdiv_scalar", x, scalar=1e10)
    assert found.tolist() == [3333333248, 1428571392, -10000000000, 10000000]


def test_integers_wrap():
    assert run("elemwise_add", np.array([200], "uint8"), np.array([100], "uint8")).tolist() == [44]
    assert run("_minus_scalar", np.array([0], "uint8"), scalar=1).tolist() == [255]
    assert run("abs", np.array([-128], "int8")).tolist() == [-128]
    assert run("negative", np.array([1], "uint8")).tolist() == [255]
    assert run("_plus_scalar", np.array([0], "uint8"), scalar=300).tolist() == [44]


@pytest.mark.parametrize(
    "name, scalar, wanted",
    [
        ("_plus_scalar", 1.5, [2, 3, 6]),
        ("_mul_scalar", 1.5, [1, 2, 5]),
        ("_div_scalar", 2.5, [0, 1, 2]),
        ("_rdiv_scalar", 100, [100, 50, 20]),
        ("_power_scalar", 0.5, [1, 1, 1]),
        ("_power_scalar", -1, [1, 0, 0]),
        ("_rpower_scalar", 2, [2, 4, 32]),
        ("_greater_scalar", 1.5, [0, 1, 1]),
        ("_equal_scalar", 1.5, [1, 0, 0]),
        ("_mod_scalar", -4, [-3, -2, -3]),
    ],
)
def test_scalars_are_truncated_beside_integers(name, scalar, wanted):
    found = run(name, np.array([1, 2, 5], "int32"), scalar=scalar)
    assert found.dtype == np.int32 and found.tolist() == wanted


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_quotients_of_integers_are_those_of_c(dtype: str):
    ends = np.iinfo(dtype)
    numbers = {*(ends.min, ends.min + 1, ends.max, ends.max - 1), *range(max(ends.min, -7), 8)}
    pairs = [(a, b) for a in numbers for b in numbers if b and (a, b) != (ends.min, -1)]
    wanted = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    found = run("broadcast_div", *np.array(pairs, dtype).T)
    assert found.dtype == dtype and found.tolist() == wanted


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("exp", [2, 7, 54, 8103, -(2**31)]),
        ("sqrt", [1, 1, 2, 3, 5]),
        ("sigmoid", [0, 0, 0, 0, 0]),
        ("cbrt", [1, 1, 1, 2, 3]),
        ("log2", [0, 1, 2, 3, 4]),
        ("degrees", [57, 114, 229, 515, 1546]),
        ("reciprocal", [1, 0, 0, 0, 0]),
    ],
)
def test_functions_of_integers_are_truncated(name, wanted):
    found = run(name, np.array([1, 2, 4, 9, 27], "int32"))
    assert found.dtype == np.int32 and found.tolist() == wanted


def test_functions_of_int64_use_double_precision():
    assert run("exp", np.array([27], "int64")).tolist() == [532048240601]


def test_mixed_precision_leaves_double_precision_alone():
    one = {name: np.ones(2, name) for name in ("float16", "float32", "float64", "int32")}
    for name, array in one.items():
        wanted = "float16" if name in ("float16", "float32") else name
        assert run("amp_cast", array, dtype="float16").dtype == wanted
    attrs = {"num_outputs": 4, "cast_narrow": False}
    found = run_ref(lookup("amp_multicast"), list(one.values()), attrs)
    assert [y.dtype.name for y in found] == ["float32", "float32", "float64", "int32"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_comparisons_keep_the_element_type(dtype):
    a, b = np.array([1, 2, 3], dtype), np.array([1, 3, 2], dtype)
    for name, wanted in (("equal", [1, 0, 0]), ("lesser", [0, 1, 0]), ("logical_xor", [0, 0, 0])):
        found = run(f"broadcast_{name}", a, b)
        assert found.dtype == dtype and found.tolist() == wanted


def test_nan_in_comparisons_and_maxima():
    assert run("broadcast_equal", [NAN], [NAN])[0] == 0
    assert run("broadcast_not_equal", [NAN], [NAN])[0] == 1
    assert run("broadcast_logical_and", [NAN], [1])[0] == 1
    assert np.isnan(run("broadcast_maximum", [NAN, 1], [1, NAN])).all()
    assert np.isnan(run("_minimum_scalar", [1], scalar=NAN)[0])
    assert np.isnan(run("clip", [NAN], a_min=0, a_max=1)[0])


def test_clip_looks_at_the_upper_bound_first():
    found = run("clip", [-3, -1, 0, 1, 3], a_min=1, a_max=-1)
    assert found.tolist() == [1, 1, -1, -1, -1]


def test_clip_of_integers():
    assert run("clip", np.array([1, 2, 4], "int32"), a_min=1.5, a_max=3.5).tolist() == [1, 2, 3]
    assert run("clip", np.array([0, 9], "uint8"), a_min=-1, a_max=300).tolist() == [0, 9]


def test_bool_counts_as_int64_beside_a_scalar_and_nowhere_else():
    found = run("_mul_scalar", np.array([True, False]), scalar=1.5)
    assert found.dtype == np.int64 and found.tolist() == [1, 0]
    assert run("_greater_scalar", np.array([True]), scalar=0.5).dtype == np.int64
    with pytest.raises(DTypeError, match="takes numbers, got bool"):
        run("broadcast_add", np.array([True]), np.array([True]))


@pytest.mark.parametrize(
    "dtype, wanted",
    [
        ("uint8", [255, 44, 1, 255, 0, 0, 0, 112]),
        ("int8", [-1, 44, 1, -1, 0, 0, 0, 112]),
        ("int32", [-1, 300, 1, -1, -(2**31), -(2**31), -(2**31), 70000]),
        ("int64", [-1, 300, 1, -1, -(2**63), -(2**63), 3 * 10**9, 70000]),
        ("bool", [True] * 8),
    ],
)
def test_cast_converts_as_c_does(dtype, wanted):
    found = run("Cast", [-1, 300, 1.9, -1.9, NAN, INF, 3e9, 70000], dtype=dtype)
    assert found.dtype == dtype and found.tolist() == wanted


def test_results_of_float16_are_rounded_once():
    x = np.array([0.1, 1.7, 3.3], "float16")
    wide = x.astype("float32")
    expected = (1 / (1 + np.exp(-wide))).astype("float16")
    np.testing.assert_array_equal(run("sigmoid", x), expected)


def test_dropout_is_the_identity_unless_always():
    x = np.arange(1, 2001, dtype=np.float32).reshape(20, 100)
    np.testing.assert_array_equal(run("Dropout", x, p=0.9), x)
    draws.seed(5)
    dropped = run("Dropout", x, p=0.25, mode="always")
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], x[kept] / np.float32(0.75), rtol=1e-6)
    assert 0.7 < kept.mean() < 0.8
    shared = run("Dropout", x, p=0.5, mode="always", axes=(1,)) != 0
    assert (shared.all(axis=1) | ~shared.any(axis=1)).all()


def test_seed_restarts_the_generator():
    draws.seed(3)
    first = run("_random_normal", shape=(4,))
    draws.seed(3)
    np.testing.assert_array_equal(first, run("_random_normal", shape=(4,)))
    assert (run("_random_normal", shape=(4,)) != first).all()


def test_dropout_mask_refuses_a_probability_that_is_none():
    with pytest.raises(AttributeValueError, match="between 0 and 1, got 1.5"):
        dropout_mask((3,), 1.5, (), np.dtype("float32"))


# The distributions' means and variances, each within five standard errors
MOMENTS = {
    "uniform": ({"low": -1, "high": 2}, 0.5, 0.75),
    "normal": ({"loc": 1, "scale": 2}, 1, 4),
    "exponential": ({"lam": 2}, 0.5, 0.25),
    "gamma": ({"alpha": 2, "beta": 0.5}, 1, 0.5),
    "poisson": ({"lam": 3}, 3, 3),
    "negative_binomial": ({"k": 3, "p": 0.4}, 4.5, 11.25),
    "generalized_negative_binomial": ({"mu": 2, "alpha": 0.3}, 2, 3.2),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_of_the_draws(name):
    attrs, mean, variance = MOMENTS[name]
    draws.seed(11)
    count = 20000
    drawn = run(f"_random_{name}", shape=(count,), dtype="float64", **attrs)
    assert abs(drawn.mean() - mean) < 5 * np.sqrt(variance / count)
    assert abs(drawn.var() / variance - 1) < 0.1


# Parameters in arrays that a network has learned may be anything; MXNet draws all the same
OUT_OF_RANGE = {
    "uniform": ([1.0], [-3.0], -3, 1),
    "normal": ([0.0], [-1.0], -9, 9),
    "exponential": ([-1.0], None, -99, 0),
    "poisson": ([-1.0], None, 0, 0),
    "negative_binomial": ([2.0], [1.5], 0, 0),
    "generalized_negative_binomial": ([-2.0], [0.5], 0, 0),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_draws_for_parameters_out_of_range(name):
    first, second, least, most = OUT_OF_RANGE[name]
    params = [first] if second is None else [first, second]
    draws.seed(3)
    drawn = run(f"_sample_{name}", *params, shape=(50,))
    assert drawn.shape == (1, 50) and (drawn >= least).all() and (drawn <= most).all()
    assert (drawn.std() > 0) == (least < most)


def test_draws_from_a_range_without_end_are_infinite():
    draws.seed(3)
    assert (run("_random_uniform", low=0.0, high=np.inf, shape=(5,)) == np.inf).all()


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_draws_for_parameters_that_are_nan(name):
    params = [[np.nan, 0.5] for p in OUT_OF_RANGE[name][:2] if p is not None]
    drawn = run(f"_sample_{name}", *params, shape=(2,))
    assert np.isnan(drawn[0]).all() and np.isfinite(drawn[1]).all()


def test_negative_binomial_draws_with_nan_dispersion_are_nan():
    assert np.isnan(run("_sample_generalized_negative_binomial", [2.0], [np.nan], shape=(3,))).all()


def test_multinomial_follows_the_odds_and_gives_their_logarithm():
    draws.seed(2)
    drawn, log = run("_sample_multinomial", [[0.25, 0.75], [1, 0]], shape=4000, get_prob=True)
    assert drawn.shape == (2, 4000) and drawn.dtype == np.int32
    assert abs(drawn[0].mean() - 0.75) < 0.04 and not drawn[1].any()
    np.testing.assert_allclose(log, np.log(np.where(drawn == 1, 0.75, [[0.25], [1]])), rtol=1e-6)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 100])
def test_multinomial_places_are_where_sums_of_integers_pass_the_level(size):
    rows = np.random.default_rng(size).integers(0, 3, (5, size)).astype(np.float32)
    rows[0] = 0
    parts = np.array([[0.0, 0.25, 0.5, 0.999]] * 5)
    places = draws.drawn_places(rows, parts)
    for row, part, found in zip(rows.astype(np.float64), parts, places):
        ends = np.cumsum(row)
        wanted = np.searchsorted(ends, part * ends[-1], side="right")
        np.testing.assert_array_equal(found, np.minimum(wanted, size - 1))


@pytest.mark.parametrize("search", [draws.drawn_places, draws.searched])
def test_many_draws_from_many_classes_take_the_memory_of_the_draws(search):
    rows = np.random.default_rng(0).random((2, 20_000)).astype(np.float32)
    parts = np.random.default_rng(1).random((2, 50_000))
    search(rows[:, :9], parts[:, :9])
    tracemalloc.start()
    places = search(rows, parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert places.shape == parts.shape
    assert peak < 6 * (rows.size + parts.size) * 8


@pytest.mark.parametrize("size", [1, 15, 16, 17, 100, 3000])
def test_draws_row_by_row_have_the_places_of_draws_at_once(monkeypatch, size):
    rows = np.random.default_rng(size).random((4, size)).astype(np.float32)
    rows[0], rows[1, : size // 2], rows[2, -1] = 0, 0, np.nan
    parts = np.random.default_rng(1).random((4, 5000))
    parts[:, :3] = 0, 1 - 2**-53, 0.5
    monkeypatch.setattr(draws, "_MOST_COMPARED", 1 << 60)
    wanted = draws.searched(rows, parts)
    monkeypatch.setattr(draws, "_MOST_COMPARED", 0)
    monkeypatch.setattr(draws, "_places_at_once", None)
    np.testing.assert_array_equal(draws.searched(rows, parts), wanted)
    np.testing.assert_array_equal(draws.drawn_places(rows, parts), wanted)


def test_compiled_densities_of_large_counts_are_accurate():
    counts = np.arange(400, 600, dtype=np.float32)[None]
    lam = np.array([500.0], np.float32)
    net = gluon.nn.HybridLambda("random_pdf_poisson")
    net.hybridize()
    found = net(nd.array(counts), nd.array(lam)).asnumpy()[0]
    wanted = [math.exp(x * math.log(500) - 500 - math.lgamma(x + 1)) for x in counts[0].tolist()]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
