"""The transcendental functions of ``codegen/math/single.py`` over all of float32, against float64.

The bounds are those that the functions' own docstrings state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, var
from hybridjit._core.config import override
from hybridjit.codegen.emit.module import emit_kernel
from hybridjit.codegen.math.double import DoubleMath
from hybridjit.codegen.math.single import VectorMath
from hybridjit.codegen.targets import find_target
from hybridjit.ops import lookup, run_ref, special

Exact = Callable[[np.ndarray], np.ndarray]
FUNCTIONS: dict[str, Exact] = {
    **{
        name: getattr(np, name)
        for name in (
            "log2", "log10", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh",
            "arcsinh", "arccosh", "arctanh", "cbrt",
        )
    },
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "gamma": special.gamma,
    "gammaln": special.gammaln,
}  # fmt: skip
# Where a function changes its ways: range reduction, clamping, overflow, underflow, other branches.
EDGES = (
    1.0, 2.0, 0.5, 10.0, 20.0, 88.0, 88.72284, 88.8, 89.0, 87.33655, 103.97208, 104.0, 16.635532,
    math.log(2) / 2, math.log(2), 1.5 * math.log(2), math.sqrt(0.5), math.sqrt(2), 1e-4, 2.0**-12,
    2.0**-24, 2.0**-126, 2.0**-127, 3.4e38,
)  # fmt: skip
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, -1.0],
    np.float32,
)
STEP = 8191  # a prime: every 8191st of all bit patterns, half a million numbers


def stated_bound(name: str, home: type = VectorMath) -> float:
    """The bound in the docstring, in units of the last place."""
    found = re.search(r"within ([\d.]+) ulp", getattr(home, name).__doc__)
    assert found, f"{name} states no bound"
    return float(found.group(1))


def around_edges() -> np.ndarray:
    """The 600 numbers around each edge."""
    near = np.arange(-300, 300, dtype=np.int64)
    edges = np.array(EDGES, np.float32).view(np.uint32).astype(np.int64)
    return (edges[:, np.newaxis] + near).ravel().astype(np.uint32).view(np.float32)


POSITIVE = around_edges()
# All of float32 thinly, the edges and the usual numbers thickly, and the special ones.
X = np.concatenate(
    [
        POSITIVE,
        -POSITIVE,
        np.arange(0, 2**32, STEP, dtype=np.uint64).astype(np.uint32).view(np.float32),
        np.linspace(-20, 20, 200_001, dtype=np.float32),
        SPECIAL,
    ]
)


@pytest.fixture(scope="module", params=AVAILABLE)
def results(request) -> dict[str, np.ndarray]:
    with override(target=request.param):
        return {n: compiled([call(n, var("x"))], {"x": X})([X])[0] for n in FUNCTIONS}


def exact(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return FUNCTIONS[name](x.astype(np.float64))


def distance(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """|found - wanted| in units of the last place of the nearest float32; 0 where that is special.

    The unit never falls below that of the denormal numbers.
    """
    with np.errstate(all="ignore"):
        nearest = wanted.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(nearest)), np.float32(2.0**-149)).astype(np.float64)
        gap = np.abs(found.astype(np.float64) - wanted) / unit
    return np.where(np.isfinite(nearest), gap, 0.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_the_stated_bound(name, results):
    gap = distance(results[name], exact(name, X))
    worst = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    assert gap[worst] <= stated_bound(name), (
        f"{name}({X[worst]!r}) is {results[name][worst]!r}, {gap[worst]:.2f} ulp away"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_results(name, results):
    """NaN and infinities come out where float64's nearest float32 has them."""
    with np.errstate(all="ignore"):
        wanted = exact(name, X).astype(np.float32)
    special = ~np.isfinite(wanted)
    assert special.any()
    np.testing.assert_array_equal(results[name][special], wanted[special])
    assert np.isfinite(results[name][~special]).all()


# --- the same in f64, against NumPy's extended precision where that is longer ---

LONG = np.finfo(np.longdouble).nmant > 60
DOUBLE_NAMES = [n for n in FUNCTIONS if n not in ("erf", "gamma", "gammaln")]


def doubles() -> np.ndarray:
    """Bit patterns at random, the usual ranges, neighbours of multiples of pi/2, special ones."""
    random = np.random.default_rng(5)
    bits = random.integers(0, 2**64, 20_000, np.uint64, endpoint=False).view(np.float64)
    ranges = [random.uniform(-r, r, 10_000) for r in (1, 40, 800)]
    turns = np.arange(1, 5000) * (np.pi / 2)
    hard = [6381956970095103 * 2.0**797, 2.0**1023, 5e-324, np.inf, -np.inf, np.nan, 0.0, -0.0]
    return np.concatenate([bits, *ranges, turns, hard])


@pytest.mark.skipif(not LONG, reason="long double is float64 here: nothing to measure with")
@pytest.mark.parametrize("name", DOUBLE_NAMES)
def test_double_within_the_stated_bound(name):
    x = doubles()
    found = compiled([call(name, var("x"))], {"x": x})([x])[0]
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](x.astype(np.longdouble))
        nearest = wanted.astype(np.float64)
        unit = np.maximum(np.spacing(np.abs(nearest)), 5e-324)
        gap = np.abs(found - wanted) / unit
    special = ~np.isfinite(nearest)
    np.testing.assert_array_equal(found[special], nearest[special])
    worst = int(np.argmax(np.where(special, 0, np.where(np.isnan(gap), np.inf, gap))))
    assert gap[worst] <= stated_bound(name, DoubleMath), (
        f"{name}({x[worst]!r}) is {found[worst]!r}, {gap[worst]:.2f} ulp away"
    )


@pytest.mark.parametrize("name", ["gamma", "gammaln"])
def test_gamma_in_double_precision(name):
    """Against C's functions, which are good to a few units themselves."""
    random = np.random.default_rng(8)
    x = np.concatenate([random.uniform(-r, r, 10_000) for r in (5, 170)])
    x = np.concatenate([x, np.arange(-180, 180) / 2, 10.0 ** random.uniform(-320, 300, 1000)])
    found = compiled([call(name, var("x"))], {"x": x})([x])[0]
    wanted = FUNCTIONS[name](x)
    special_ = ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[special_], wanted[special_])
    size = np.abs(wanted) if name == "gamma" else np.maximum(np.abs(wanted), 1)
    normal = ~special_ & (size > 1e-300)
    gap = (np.abs(found[normal] - wanted[normal]) / np.spacing(size[normal])).max()
    assert gap <= stated_bound(name, DoubleMath)


@pytest.mark.skipif(not LONG, reason="long double is float64 here: nothing to measure with")
def test_cubes_are_two_products():
    """Within the rounding of two products, also where the cube or the square is not normal."""
    x = [-0.0, math.inf, -math.inf, math.nan, 1e-20, -1e-14, 7e12, -8e12, 3.1, -0.7]
    base = np.array(x, np.float32)
    found = compiled([call("_power_scalar", var("a"), scalar=3)], {"a": base})([base])[0]
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.power(base, np.float32(3))
    np.testing.assert_allclose(found, wanted, rtol=2.5e-7)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_power_in_double_precision():
    """Results over the whole range: their exponents have a rest that counts."""
    random = np.random.default_rng(7)
    base = np.concatenate([random.uniform(*r, 10_000) for r in ((0.5, 1), (1, 2), (2, 180))])
    power = random.uniform(-1, 1, base.size) * 700 / np.maximum(np.abs(np.log(base)), 1e-3)
    found = compiled([call("_power", var("a"), var("b"))], {"a": base, "b": power})([base, power])
    wanted = np.power(base.astype(np.longdouble), power.astype(np.longdouble))
    gap = np.abs(found[0] - wanted) / np.spacing(wanted.astype(np.float64))
    assert gap.max() <= stated_bound("power", DoubleMath)


@pytest.mark.parametrize("name", ["power", "hypot", "mod"])
def test_functions_of_two(name):
    """All pairs of special values, and numbers of every size; remainders are exact."""
    random = np.random.default_rng(6)
    size = (10.0 ** random.uniform(-40, 38, 20_000)).astype(np.float32)
    special = np.concatenate([SPECIAL, np.array([1.0, 2.0, 3.0, 0.5, -2.0, -3.0, 2.5], "f4")])
    pairs = [m.ravel() for m in np.meshgrid(special, special)]
    near = random.uniform(-4, 4, (2, 20_000)).astype(np.float32)
    a, b = (np.concatenate([p, n, s]) for p, n, s in zip(pairs, near, (size, size[::-1])))
    found = compiled([call(f"_{name}", var("a"), var("b"))], {"a": a, "b": b})([a, b])[0]
    (wanted,) = run_ref(lookup(f"_{name}"), [a.astype(np.float64), b.astype(np.float64)], {})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted.astype(np.float32)))
    gap = distance(found, np.where(np.isnan(wanted), 0, wanted))
    assert np.nanmax(gap) <= stated_bound(name)


@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "erf"])
def test_zero_keeps_its_sign(name, results):
    zero = X == 0
    np.testing.assert_array_equal(np.signbit(results[name][zero]), np.signbit(X[zero]))
    assert (results[name][zero] == 0).all()


def test_log1p_divides_nothing():
    made = compiled([call("log1p", var("x"))], {"x": np.ones(64, np.float32)})
    (kernel,) = made.code.kernels
    text = str(emit_kernel(kernel, find_target()))
    assert "fma" in text
    assert "fdiv" not in text


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_are_odd_and_bounded(name, results):
    count = len(POSITIVE)
    np.testing.assert_array_equal(results[name][:count], -results[name][count : 2 * count])
    assert np.nanmax(np.abs(results[name])) == 1.0


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "tanh", "erf"])
def test_nearly_monotonic(name, results):
    """No step down by more than rounding: a wrong branch shows as a jump."""
    kept = np.isfinite(X) & np.isfinite(results[name])
    order = np.argsort(X[kept])
    y = results[name][kept][order].astype(np.float64)
    drop = np.maximum.accumulate(y)[:-1] - y[1:]
    unit = np.maximum(np.spacing(np.abs(y[1:]).astype(np.float32)), 2.0**-149)
    assert (drop / unit).max() <= 2 * stated_bound(name)


def test_the_same_bits_in_a_vector_and_in_its_tail():
    """Whole vectors and the last elements of a row are computed alike."""
    x = np.linspace(-3, 3, 37, dtype=np.float32)
    outputs = [call(n, var("x")) for n in ("exp", "tanh", "erf")]
    whole = compiled(outputs, {"x": x})([x])
    for first in (1, 5, 20):
        part = np.ascontiguousarray(x[first:])
        for mine, right in zip(compiled(outputs, {"x": part})([part]), whole):
            np.testing.assert_array_equal(mine, right[first:])


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_the_same_bits_beside_doubles(name):
    """Vectors are as long as those of the widest element beside them; lanes know nothing of it."""
    x = np.linspace(-3, 3, 37, dtype=np.float32)
    result = call(name, var("x"))
    alone = compiled([result], {"x": x})([x])[0]
    wide = call("Cast", var("x"), dtype="float64")
    beside = compiled([result, call("exp", wide)], {"x": x})([x])[0]
    np.testing.assert_array_equal(beside, alone)
