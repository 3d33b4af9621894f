"""Pointwise results of operands with another fastest axis: blocks are transposed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit.codegen.kinds.interleaved import InterleavedSpec
from hybridjit.codegen.kinds.turned import TurnedSpec
from hybridjit.ir.node import Output
from hybridjit.runtime.executable import Executable

RNG = np.random.default_rng(54)
TARGETS = ["" if name == "native" else name for name in AVAILABLE]


def turned(executable: Executable) -> list[TurnedSpec]:
    every = (call.spec for row in executable.code.calls for call in row)
    return [spec for spec in every if isinstance(spec, TurnedSpec)]


def run(make: Callable[[Output, Output], Output], *arrays: np.ndarray) -> tuple[np.ndarray, bool]:
    """The result of ``make``, and whether blocks were transposed for it."""
    named = dict(zip("xy", arrays))
    executable = compiled([make(var("x"), var("y"))], named)
    (found,) = executable([*named.values()])
    return found, bool(turned(executable))


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("f")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "shape, axes",
    [
        ((16, 16), (1, 0)),
        ((17, 33), (1, 0)),
        ((3, 35, 260), (0, 2, 1)),
        ((2, 3, 19, 18), (3, 1, 0, 2)),
        ((2, 31, 5, 47), (0, 3, 2, 1)),
    ],
    ids=str,
)
def test_a_transpose_moves_every_number(target, shape, axes):
    """Where the last squares overlap the ones before them too."""
    x, y = drawn(*shape), drawn(1)
    make = lambda x, y: call("broadcast_add", call("transpose", x, axes=axes), y)  # noqa: E731
    with override(target=target):
        found, is_turned = run(make, x, y)
    assert is_turned
    np.testing.assert_array_equal(found, x.transpose(axes) + y)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("of_y", [(1, 37), (50, 1), (50, 37)], ids=str)
def test_other_operands_are_read_as_they_lie(target, of_y):
    x, y = drawn(37, 50), drawn(*of_y)
    make = lambda x, y: call("broadcast_sub", call("transpose", x), y)  # noqa: E731
    with override(target=target):
        found, is_turned = run(make, x, y)
    assert is_turned
    np.testing.assert_array_equal(found, x.T - y)


@pytest.mark.parametrize("size, is_whole", [(64, True), (50, False)])
def test_no_square_is_computed_twice_in_place_of_an_operand(size, is_whole):
    """The sum takes the place of its second operand, of which it reads a square no second time."""
    x, y = drawn(64, size), drawn(size, 64, 2)

    def make(x: Output, y: Output) -> Output:
        total = call("broadcast_add", call("transpose", x), call("sum", y, axis=2))
        return call("max", call("softmax", total), axis=1)

    executable = compiled([make(var("x"), var("y"))], {"x": x, "y": y})
    (step,) = [each for each in executable.plan.steps if each.kind == "pointwise"]
    assert step.writes[0].buffer in {view.buffer for view in step.reads}
    assert bool(turned(executable)) == is_whole
    (found,) = executable([x, y])
    powers = np.exp(x.T + y.sum(axis=2))
    wanted = (powers / powers.sum(axis=1, keepdims=True)).max(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def interleaved(executable: Executable) -> list[InterleavedSpec]:
    every = (call.spec for row in executable.code.calls for call in row)
    return [spec for spec in every if isinstance(spec, InterleavedSpec)]


PIXELS = (0, 2, 3, 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("planes", [2, 3, 4])
@pytest.mark.parametrize("sides", [(4, 4), (5, 7), (19, 23)], ids=str)
def test_planes_become_pixels(target, planes, sides):
    """Where the last vector of pixels overlaps the one before too, with a factor for each plane."""
    x, factor = drawn(2, planes, *sides), drawn(planes)
    outputs = [call("broadcast_mul", call("transpose", var("x"), axes=PIXELS), var("y"))]
    with override(target=target):
        executable = compiled(outputs, {"x": x, "y": factor})
        (found,) = executable([x, factor])
    assert interleaved(executable) or (planes, target) == (4, "sse2") and turned(executable)
    np.testing.assert_array_equal(found, x.transpose(PIXELS) * factor)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("planes", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_planes_are_quantized_to_pixels(target, planes, dtype):
    """NaN and infinity too."""
    x = drawn(3, planes, 9, 11) * 100
    x[0, :, 0, :3] = np.nan, np.inf, -np.inf
    quantize = {"scale": 0.75, "zero": 5, "dtype": dtype}
    outputs = [call("_to_bytes", call("transpose", var("x"), axes=PIXELS), **quantize)]
    with override(target=target):
        executable = compiled(outputs, {"x": x})
        (found,) = executable([x])
    assert interleaved(executable)
    (wanted,) = run_reference(outputs, {"x": x})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_of_planes_become_pixels(target):
    x = RNG.integers(0, 256, (3, 5, 29)).astype("uint8")
    outputs = [call("transpose", var("x"), axes=(1, 2, 0))]
    with override(target=target):
        executable = compiled(outputs, {"x": x})
        (found,) = executable([x])
    assert interleaved(executable)
    np.testing.assert_array_equal(found, x.transpose(1, 2, 0))


def test_few_pixels_many_planes_and_wide_numbers_are_not_interleaved():
    for x in (drawn(3, 2), drawn(5, 64), RNG.standard_normal((3, 64))):
        executable = compiled([call("relu", call("transpose", var("x")))], {"x": x})
        assert not interleaved(executable)
        np.testing.assert_array_equal(executable([x])[0], np.maximum(x.T, 0))


def test_few_rows_and_other_types_are_not_turned():
    x, y = drawn(3, 64), drawn(1)
    for array in (x, x.T.copy(), RNG.standard_normal((64, 64))):
        make = lambda x, y: call("relu", call("transpose", x))  # noqa: E731
        found, is_turned = run(make, array, y)
        assert not is_turned
        np.testing.assert_array_equal(found, np.maximum(array.T, 0))
