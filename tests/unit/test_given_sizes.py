"""Layers that differ in size alone share kernels: sizes and strides are arguments of these.

Such a kernel equals NumPy, at both ends of the range of sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiling import assert_near, call, compiled, plan_of, run_compiled, run_reference, var
from hybridjit._core.frozen import replace
from hybridjit.codegen.emit.generate import choose_calls
from hybridjit.codegen.emit.module import emit_kernel
from hybridjit.codegen.kinds.conv.choose_direct import direct_spec
from hybridjit.codegen.kinds.conv.layer import Layer
from hybridjit.codegen.kinds.dense.choose import least_rows
from hybridjit.codegen.spec import Given, KernelSpec, Program
from hybridjit.codegen.targets import find_target, portable_target
from hybridjit.compiler import new_log
from hybridjit.ir.mode import INFERENCE, Purpose
from hybridjit.ir.node import Output

TRAINING = Purpose(training=True)
Shapes = dict[str, tuple[int, ...]]


def means() -> Output:
    return call("mean", var("x"), axis="1")


def scaled() -> Output:
    return call("broadcast_mul", var("x"), var("y"))


def turned() -> Output:
    return call("transpose", var("x"), axes="(1,0,2)")


def one_by_one(filters: int) -> Output:
    return call(
        "Convolution", var("x"), call("_mul_scalar", var("w"), scalar="2"), kernel="(1,1)",
        num_filter=str(filters), no_bias="1", layout="NHWC",
    )  # fmt: skip


def three_by_three(filters: int) -> Output:
    return call(
        "Convolution", var("x"), call("_mul_scalar", var("w"), scalar="2"), kernel="(3,3)",
        pad="(1,1)", num_filter=str(filters), no_bias="1", layout="NHWC",
    )  # fmt: skip


def strided(filters: int) -> Output:
    moved = call("transpose", call("_mul_scalar", var("w"), scalar="2"), axes="(0,2,3,1)")
    return call(
        "Convolution", var("x"), moved, kernel="(3,3)", stride="(2,2)", pad="(1,1)",
        num_filter=str(filters), no_bias="1", layout="NHWC",
    )  # fmt: skip


def back(size: int, filters: int) -> Output:
    return call(
        "Deconvolution", var("x"), call("_mul_scalar", var("w"), scalar="2"), stride="(2,2)",
        kernel=f"({size},{size})", num_filter=str(filters), no_bias="1", layout="NHWC",
    )  # fmt: skip


def weight(filters: int) -> Output:
    return call(
        "_convolution_by_weight", var("x"), var("d"), kernel="(1,1)", stride="(1,1)", layout="NHWC"
    )


CASES: dict[str, tuple[Callable[..., Output], list[tuple[Shapes, tuple[int, ...]]]]] = {
    "reduce": (means, [({"x": (2, 3500, 128)}, ()), ({"x": (3, 6000, 64)}, ())]),
    "few": (means, [({"x": (2, 5, 64)}, ()), ({"x": (3, 200, 256)}, ())]),
    "pointwise": (
        scaled,
        [
            ({"x": (7, 128), "y": (1, 128)}, ()),
            ({"x": (5, 208), "y": (1, 208)}, ()),
            ({"x": (3, 4096), "y": (1, 4096)}, ()),
        ],
    ),
    "copy": (turned, [({"x": (2, 9, 128)}, ()), ({"x": (5, 3, 512)}, ())]),
    "turned": (
        lambda: call("transpose", var("x"), axes="(0,2,1)"),
        [({"x": (2, 48, 129)}, ()), ({"x": (3, 500, 17)}, ()), ({"x": (2, 16, 16)}, ())],
    ),
    "pack": (
        one_by_one,
        [
            ({"x": (1, 4, 4, 64), "w": (64, 1, 1, 64)}, (64,)),
            ({"x": (1, 4, 4, 128), "w": (256, 1, 1, 128)}, (256,)),
        ],
    ),
    "taps": (
        strided,
        [
            ({"x": (1, 28, 28, 32), "w": (64, 32, 3, 3)}, (64,)),
            ({"x": (1, 26, 26, 64), "w": (32, 64, 3, 3)}, (32,)),
            ({"x": (2, 28, 28, 16), "w": (1024, 16, 3, 3)}, (1024,)),
        ],
    ),
    "filters": (
        three_by_three,
        [
            ({"x": (1, 28, 28, 64), "w": (64, 3, 3, 64)}, (64,)),
            ({"x": (1, 28, 28, 128), "w": (96, 3, 3, 128)}, (96,)),
        ],
    ),
    "join_parts": (
        weight,
        [
            ({"x": (2, 4, 4, 64), "d": (2, 4, 4, 64)}, (64,)),
            ({"x": (2, 4, 4, 32), "d": (2, 4, 4, 128)}, (128,)),
        ],
    ),
}


def specs_of(
    output: Output, arrays: dict[str, np.ndarray], purpose: Purpose = INFERENCE
) -> list[KernelSpec]:
    plan = plan_of([output], arrays, purpose=purpose)
    rows = choose_calls(plan, find_target(), True, new_log())
    return [call.spec for row in rows for call in row]


def drawn(shapes: Shapes) -> dict[str, np.ndarray]:
    random = np.random.RandomState(0)
    return {name: random.randn(*shape).astype("f") for name, shape in shapes.items()}


@pytest.mark.parametrize("kind", CASES)
def test_layers_of_other_sizes_share_a_kernel(kind: str) -> None:
    make, rows = CASES[kind]
    kind = {"copy": "pointwise", "taps": "pack", "few": "reduce"}.get(kind, kind)
    found = [specs_of(make(*rest), drawn(shapes)) for shapes, rest in rows]
    mine = {next(spec for spec in specs if spec.kind == kind) for specs in found}
    assert len(mine) == 1, f"kernels of {kind}: {sorted(map(str, mine))}"


@pytest.mark.parametrize("kind", CASES)
def test_numbers_are_those_of_numpy_at_every_size(kind: str) -> None:
    make, rows = CASES[kind]
    for shapes, rest in rows:
        arrays = drawn(shapes)
        output = make(*rest)
        assert_near(run_compiled([output], arrays), run_reference([output], arrays), 3e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_of_a_training_step_are_operands(dtype: str) -> None:
    """The divisor of statistics depends on a layer's size: its kernel does not."""
    kernels = set()
    for factor in (0.00015943877551020407, 3.0, -1.0, 1e300, float("nan"), 1e-45):
        scaled = call("_mul_scalar", call("_plus_scalar", var("x"), scalar="1"), scalar=factor)
        output = call("elemwise_add", scaled, call("_mul_scalar", var("x"), scalar=factor / 7))
        arrays = {"x": np.random.RandomState(0).randn(3, 37).astype(dtype)}
        kernels.update(specs_of(output, arrays, TRAINING))
        found = compiled([output], arrays, purpose=TRAINING)([arrays["x"]])
        assert_near(found, run_reference([output], arrays))
    assert len(kernels) == 1


def test_phases_without_taps_share_a_kernel() -> None:
    """Three of the four phases of a 1x1 layer at stride 2 are the bias alone."""
    output = call(
        "Deconvolution", var("x"), var("w"), kernel="(1,1)", stride="(2,2)", adj="(1,1)",
        num_filter="32", no_bias="1", layout="NHWC",
    )  # fmt: skip
    arrays = drawn({"x": (2, 6, 6, 16), "w": (16, 1, 1, 32)})
    kernels = [spec for spec in specs_of(output, arrays) if spec.kind == "conv"]
    assert len(kernels) == 4
    assert len(set(kernels)) == 2
    assert_near(run_compiled([output], arrays), run_reference([output], arrays))


@pytest.mark.parametrize("size", [3, 5])
def test_weights_of_phases_share_kernels(size: int) -> None:
    """Those with as many taps do, whatever the layer's channels."""
    found = []
    for channels, filters in ((24, 64), (64, 32), (200, 128)):
        output = back(size, filters)
        arrays = drawn({"x": (2, 3, 3, channels), "w": (channels, size, size, filters)})
        found.append({str(s) for s in specs_of(output, arrays) if s.kind == "pack"})
        assert_near(run_compiled([output], arrays), run_reference([output], arrays), 3e-5)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == (3 if size == 3 else 4)


def test_steps_back_through_a_recurrent_layer_share_kernels() -> None:
    """The last step in time has nothing behind it; all others are one; so is the begin state."""
    kept, c, w, d = (var(name) for name in ("kept", "c", "w", "d"))
    output = call("_rnn_steps_back", kept, c, w, d, mode="lstm", backward="0")
    shapes = {"kept": (4, 2, 20), "c": (2, 4), "w": (4, 16), "d": (4, 2, 4)}
    found = [spec for spec in specs_of(output, drawn(shapes)) if spec.kind == "recurrent_back"]
    assert len(found) == 4 + 1
    assert len(set(found)) == 3


@pytest.mark.parametrize("mr", [2, 4, 6, 10, 12, 14])
@pytest.mark.parametrize("is_training", [False, True])
def test_dense_layers_have_code_for_every_height_of_a_tile(mr: int, is_training: bool):
    """Heights differ by one at most: those of ``rows`` rows, and of all that share the kernel."""
    half = (mr + 1) // 2
    for rows in range(half, 3 * mr * mr):
        least = least_rows(rows, mr, half, is_training)
        assert half <= least <= rows // -(-rows // mr)
        if rows > mr * (mr - 1):
            assert least == max(half, mr - 1)


def test_the_rest_of_a_given_width_is_a_loop_over_narrow_tiles():
    """A tile of 12 columns, one of 8 and three narrow ones took 1.29 times the lines."""
    cpu, one = portable_target("avx512"), (1, 1, 1)
    layer = Layer(
        inp=(1, 1, 3136), out=(1, 1, 3136), kernel=one, stride=one, dilate=one, pad=(0, 0, 0),
        groups=1, ic=320, oc=64, xs=(1003520, 0, 0, 320, 1), reads=(),
        writes=((200704, 0, 0, 64, 1),), program=Program(1),
    )  # fmt: skip
    fixed = direct_spec(layer, cpu)
    width = (1, 1, Given(0))
    given = replace(fixed, inp=width, out=width, usual=(1, 1, 2048), inside=(True,) * 3)
    plain, open_ = (len(str(emit_kernel(spec, cpu)).splitlines()) for spec in (fixed, given))
    assert fixed.mr == 12 and 500 < open_ < 1.1 * plain
