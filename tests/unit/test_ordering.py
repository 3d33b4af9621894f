"""The kernel of topk, sort and argsort beside its meaning in NumPy: the same numbers, all bits."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit import override

pytestmark = pytest.mark.usefixtures("unoptimised_kernels")

# Numbers that ordering has to get right; quiet NaN of either sign comes last.
ODD = (np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1e38, 1e-45)
TYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8")
SHAPES = ((1,), (7,), (2, 33), (5, 2, 9), (60, 3), (2, 300))


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of which many are equal, and some odd."""
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        made = random.integers(-4, 5, shape).astype(dtype)  # wraps around for unsigned types
        odd = random.random(shape) < random.choice([0, 0.2])
        made[odd] = random.choice([limits.min, limits.max], odd.sum())
        return made
    made = random.integers(-4, 5, shape) / 2
    odd = random.random(shape) < random.choice([0, 0.2])
    made[odd] = random.choice(ODD, odd.sum())
    with np.errstate(over="ignore"):  # float16 ends at 65,504
        return made.astype(dtype)


def uses(
    random: np.random.Generator, shape: tuple[int, ...]
) -> list[tuple[str, dict[str, object]]]:
    """One use of each operator."""
    axes = [None, *range(-len(shape), len(shape))]
    common = [
        {"axis": axes[random.integers(len(axes))], "is_ascend": bool(random.integers(2))}
        for _ in range(3)
    ]
    size = int(np.prod(shape)) if common[0]["axis"] is None else shape[common[0]["axis"]]
    more = {
        "k": int(random.integers(0, size + 1)),
        "ret_typ": str(random.choice(["both", "indices", "value"])),
        "dtype": str(random.choice(["float32", "int32", "int64", "float64", "uint8"])),
    }
    places = {"dtype": str(random.choice(["float32", "int32", "int64"]))}
    return [("topk", common[0] | more), ("sort", common[1]), ("argsort", common[2] | places)]


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("ascending", [False, True])
def test_few_numbers_of_long_rows_are_numpys(ascending: bool, dtype: str, target: str):
    random = np.random.default_rng(8)
    for k, shape in (
        (1, (3, 8)),
        (1, (2, 37)),
        (5, (4, 301)),
        (5, (3, 40)),
        (32, (2, 1000)),
        (33, (2, 4300)),
        (256, (2, 32768)),
    ):
        rows = numbers(random, shape, dtype)
        rows[-1].sort()
        equal = np.full_like(rows, 5 if dtype == "int32" else np.nan)
        for x in (rows, rows[:, ::-1].copy(), equal):
            graph = [call("topk", var("x"), k=k, ret_typ="both", is_ascend=ascending)]
            with override(target=target):
                executable = compiled(graph, {"x": x})
            specs = [str(each.spec) for row in executable.code.calls for each in row]
            assert any("selects=True" in spec for spec in specs)
            with override(eager="numpy"):
                wanted = run_reference(graph, {"x": x})
            for found, expected in zip(executable([x]), wanted, strict=True):
                np.testing.assert_array_equal(found, expected, err_msg=f"{k} of {shape}")


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("dtype", TYPES)
def test_order_is_numpys(dtype: str, target: str):
    random = np.random.default_rng(7)
    for shape in SHAPES:
        x = numbers(random, shape, dtype)
        for name, attrs in uses(random, shape):
            graph = [call(name, var("x"), **attrs)]
            with override(target=target):
                executable = compiled(graph, {"x": x})
            kinds = [each.spec.kind for row in executable.code.calls for each in row]
            assert "order" in kinds, "the kernel is meant"
            for found, wanted in zip(executable([x]), run_reference(graph, {"x": x}), strict=True):
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted, err_msg=f"{name} {shape} {attrs}")
                if found.dtype.kind == "f":
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
