"""Products of bytes and conversions to bytes: exact, and the same bits on every CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from compiling import OF_BYTES, call, compiled, plan_of, run_compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit.ops import lookup, run_ref
from hybridjit.runtime.threads import threads

RANDOM = np.random.default_rng(3)
FILTERS, SIZES = {"kernel": (3, 3), "pad": (1, 1)}, (3, 37, 64)


def some_bytes(*shape: int, dtype: str = "int8") -> np.ndarray:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)


def test_sums_of_bytes_are_exact_where_float32_is_not():
    """65,000 products of the largest bytes: more than 2**24, and less than 2**31."""
    data = np.full((1, 65_000), 255, np.uint8)
    weight = np.full((1, 65_000), 127, np.int8)
    weight[0, 0] = 126
    op = lookup("_integer_dense")
    attrs = op.parse({"num_hidden": "1", "no_bias": "True"})
    (found,) = run_ref(op, [data, weight], attrs)
    assert found.tolist() == [[255 * 127 * 65_000 - 255]]
    outputs = [call("_integer_dense", var("x"), var("w"), num_hidden=1, no_bias=True)]
    (compiled,) = run_compiled(outputs, {"x": data, "w": weight}, ["w"])
    assert compiled.tolist() == found.tolist()


def test_outside_of_the_data_bytes_are_the_zero_point():
    data = np.full((1, 1, 3, 3), 100, np.uint8)
    weight = np.ones((1, 1, 3, 3), np.int8)
    op = lookup("_integer_convolution")
    text = {"kernel": "(3, 3)", "pad": "(1, 1)", "num_filter": "1", "no_bias": "True"}
    (found,) = run_ref(op, [data, weight], op.parse({**text, "zero": "90"}))
    assert found[0, 0].tolist() == [[40, 60, 40], [60, 90, 60], [40, 60, 40]]


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize("dtype, zero", [("uint8", 0), ("uint8", 131), ("int8", -5)])
def test_compiled_products_of_bytes_are_those_of_the_reference(target, dtype, zero):
    """Of channels that fill words of four and of others, of groups, in rows and in images."""
    arrays, outputs = {}, []
    for channels in SIZES:
        x, w, b = (f"{name}{channels}" for name in "xwb")
        arrays[x] = some_bytes(2, channels, 9, 7, dtype=dtype)
        arrays[w] = some_bytes(20, channels, 3, 3)
        arrays[b] = RANDOM.integers(-9999, 9999, 20).astype(np.int32)
        outputs.append(
            call(
                "_integer_convolution",
                *map(var, (x, w, b)),
                num_filter=20,
                zero=zero,
                name=f"conv{channels}",
                **FILTERS,
            )  # fmt: skip
        )
        rows, v = f"rows{channels}", f"v{channels}"
        arrays[rows], arrays[v] = some_bytes(5, channels, dtype=dtype), some_bytes(18, channels)
        outputs.append(
            call(
                "_integer_dense",
                var(rows),
                var(v),
                num_hidden=18,
                no_bias=True,
                zero=zero,
                name=f"dense{channels}",
            )  # fmt: skip
        )
    arrays["grouped"] = some_bytes(32, 16, 3, 3)
    outputs.append(
        call(
            "_integer_convolution",
            var("x64"),
            var("grouped"),
            num_filter=32,
            num_group=4,
            no_bias=True,
            zero=zero,
            name="groups",
            **FILTERS,
        )  # fmt: skip
    )
    params = [name for name in arrays if name[0] in "wbvg"]
    with override(target=target):
        found = run_compiled(outputs, arrays, params)
    kinds = [step.kind for step in plan_of(outputs, arrays, params).steps]
    assert kinds.count("byte_product") == len(outputs)
    for one, other in zip(found, run_reference(outputs, arrays)):
        assert one.dtype == other.dtype == np.int32
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("channels", [64, 100])
def test_depthwise_layers_add_operands_of_channels_and_of_pixels(target, images, channels):
    """Bytes of sums times a scale, plus a value for each channel, and plus other bytes."""
    shape, each = (images, 5, 7, channels), (1, 1, 1, channels)
    arrays = {
        "x": some_bytes(*shape, dtype="uint8"),
        "z": some_bytes(*shape, dtype="uint8"),
        "w": some_bytes(channels, 3, 3, 1),
        "s": RANDOM.uniform(0.001, 0.002, each).astype(np.float32),
        "t": RANDOM.uniform(-50, 50, each).astype(np.float32),
    }
    how = {"kernel": (3, 3), "pad": (1, 1), "num_filter": channels, "num_group": channels}
    sums = call("_integer_convolution", var("x"), var("w"), no_bias=True, layout="NHWC", **how)
    scaled = call("broadcast_mul", call("Cast", sums, dtype="float32"), var("s"))
    made = call("broadcast_add", scaled, var("t"))
    joined = call("broadcast_add", made, call("_from_bytes", var("z"), scale=1.0))
    outputs = [
        call("_to_bytes", each, scale=1.0, zero=90, dtype="uint8") for each in (made, joined)
    ]
    with override(target=target):
        found = run_compiled(outputs, arrays, ["w", "s", "t"])
    for one, other in zip(found, run_reference(outputs, arrays)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_layers_in_parts_have_the_same_bytes_with_any_number_of_threads(count):
    """Of a line and of rows that are not a multiple of the parts."""
    images, height, width, channels, filters = 2, 15, 13, 100, 200
    arrays = {
        "x": some_bytes(images, height, width, channels, dtype="uint8"),
        "w": some_bytes(filters, 1, 1, channels),
        "v": some_bytes(filters, 3, 3, 1),
    }
    how = {"no_bias": True, "layout": "NHWC", "num_filter": filters}
    sums = call("_integer_convolution", var("x"), var("w"), kernel=(1, 1), **how)
    made = call(
        "_to_bytes", call("Cast", sums, dtype="float32"), scale=2e3, zero=128, dtype="uint8"
    )
    how |= {"kernel": (3, 3), "pad": (1, 1), "num_group": filters}
    outputs = [made, call("_integer_convolution", made, var("v"), **how)]
    with threads(count):
        found = run_compiled(outputs, arrays, ["w", "v"])
    for one, other in zip(found, run_reference(outputs, arrays)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize("kernel, stride, pad", [(3, 1, 1), (3, 2, 1), (5, 2, 2)])
def test_depthwise_products_of_bytes_are_those_of_the_reference(target, kernel, stride, pad):
    """Of channels that fill blocks and of others, and of rows that do not come in pairs."""
    arrays, outputs = {}, []
    for channels, height in ((7, 6), (100, 5)):
        x, w, b = (f"{name}{channels}" for name in "xwb")
        arrays[x] = some_bytes(2, channels, height, 9, dtype="uint8")
        arrays[w] = some_bytes(channels, 1, kernel, kernel)
        arrays[b] = RANDOM.integers(-9999, 9999, channels).astype(np.int32)
        outputs.append(
            call(
                "_integer_convolution",
                *map(var, (x, w, b)),
                kernel=(kernel,) * 2,
                pad=(pad,) * 2,
                stride=(stride,) * 2,
                num_filter=channels,
                num_group=channels,
                name=f"conv{channels}",
            )  # fmt: skip
        )
    params = [name for name in arrays if name[0] in "wb"]
    with override(target=target):
        found = run_compiled(outputs, arrays, params)
    kinds = [step.kind for step in plan_of(outputs, arrays, params).steps]
    assert kinds.count("byte_product") == len(outputs)
    for one, other in zip(found, run_reference(outputs, arrays)):
        np.testing.assert_array_equal(one, other)


MATRICES = {
    "heads": (2, 12, 64, 37), "long": (1, 30, 300, 64), "odd": (3, 5, 7, 3), "one": (2, 1, 1, 1),
    "a word more": (1, 13, 66, 130), "parts": (1, 200, 65, 9),
}  # fmt: skip


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize(
    "dtype, zeros", [("uint8", (0, 128)), ("uint8", (200, 7)), ("int8", (3, 0))]
)
@pytest.mark.parametrize("name", MATRICES)
def test_products_of_matrices_of_bytes_are_those_of_the_reference(name, dtype, zeros, target):
    """The second one in rows and in columns, signed or not, with each kind of zero points."""
    batch, rows, size, columns = MATRICES[name]
    arrays = {
        "x": some_bytes(batch, rows, size, dtype="uint8"),
        "z": some_bytes(batch, size, columns, dtype=dtype),
    }
    arrays["t"] = np.ascontiguousarray(arrays["z"].swapaxes(1, 2))
    attrs = dict(zip(("lhs_zero", "rhs_zero"), zeros))
    outputs = [
        call(
            "_integer_batch_dot",
            var("x"),
            var(right),
            transpose_b=right == "t",
            name=right,
            **attrs,
        )
        for right in "zt"
    ]
    with override(target=target):
        found = run_compiled(outputs, arrays)
        assert [step.kind for step in plan_of(outputs, arrays).steps] == ["byte_matmul"] * 2
    (wanted, same) = run_reference(outputs, arrays)
    np.testing.assert_array_equal(wanted, same)
    for array in found:
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("size", [1, 17, 128, 197])
def test_rows_of_bytes_have_the_bits_of_rows_of_floats(size, dtype, target):
    """Softmax and layer norm from bytes to bytes, beside separate steps in float32."""
    arrays = {
        "x": some_bytes(3, 7, size, dtype=dtype),
        "gamma": RANDOM.normal(size=size).astype(np.float32),
        "beta": RANDOM.normal(size=size).astype(np.float32),
    }
    values = call("_from_bytes", var("x"), scale=0.07, zero=9)
    rows = [
        call("softmax", values, name="softmax"),
        call("LayerNorm", values, var("gamma"), var("beta"), name="norm"),
    ]
    outputs = [call("_to_bytes", row, scale=0.02, zero=3, dtype="uint8") for row in rows]
    with override(target=target):
        found = run_compiled(outputs, arrays, ["gamma", "beta"])
        plan = plan_of(outputs, arrays, ["gamma", "beta"])
        assert [step.kind for step in plan.steps] == ["byte_softmax", "byte_norm"]
    with override(target=target, skip=("lower-integers", "fuse")):
        apart = run_compiled(outputs, arrays, ["gamma", "beta"])
    for one, other in zip(found, apart):
        assert one.dtype == np.uint8
        np.testing.assert_array_equal(one, other)


SCALES = (0.0123, 1.0, 3.0, 1e-30, 1e-3, 0.1, 7.7e20, 1e-38, 2.5e-42)


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize("zero, dtype", [(201, "uint8"), (-17, "int8")])
def test_bytes_are_those_of_a_division(target, zero, dtype):
    """At ties, next to them, beyond the range, at infinity and at NaN, for scales of all sizes."""
    ties = (np.arange(-300, 300) + 0.5).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, -0.0], np.float32)
    arrays, outputs = {}, []
    for number, scale in enumerate(map(np.float32, SCALES)):
        with np.errstate(all="ignore"):
            near = [np.nextafter(ties * scale, side).astype(np.float32) for side in (-9, 9)]
            arrays[f"x{number}"] = np.concatenate([ties * scale, *near, special])
        outputs.append(
            call(
                "_to_bytes",
                var(f"x{number}"),
                scale=float(scale),
                zero=zero,
                dtype_=dtype,
                name=f"q{number}",
            )  # fmt: skip
        )
    with override(target=target):
        found = run_compiled(outputs, arrays)
    with np.errstate(all="ignore"):
        wanted = run_reference(outputs, arrays)
    for one, other in zip(found, wanted):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", OF_BYTES)
@pytest.mark.parametrize("zero, dtype", [(0, "uint8"), (201, "uint8"), (-17, "int8")])
@pytest.mark.parametrize("groups", [1, 64])
def test_bytes_of_sums_that_are_packed_are_those_of_the_reference(target, zero, dtype, groups):
    """Filters with scales and biases that are NaN, infinite, huge and tiny; full vectors of them,
    in rows that end in one, two and three vectors of the tile.
    """
    special = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, 1e-30, 0.25, -0.5])
    arrays = {
        "x": some_bytes(2, 64, 5, 7, dtype="uint8"),
        "w": some_bytes(64, 64 // groups, 3, 3),
        "s": RANDOM.uniform(0.001, 0.01, (1, 64, 1, 1)).astype(np.float32),
        "b": RANDOM.normal(size=(1, 64, 1, 1)).astype(np.float32),
    }
    arrays["s"][0, 30 : 30 + special.size, 0, 0] = special
    arrays["b"][0, 3 : 3 + special.size, 0, 0] = special
    y = call("_integer_convolution", var("x"), var("w"), num_filter=64, num_group=groups,
             no_bias=True, name="sums", **FILTERS)  # fmt: skip
    y = call("Cast", y, dtype_="float32", name="float")
    y = call("broadcast_mul", y, var("s"), name="scaled")
    y = call("relu", call("broadcast_add", y, var("b"), name="moved"), name="relu")
    outputs = [call("_to_bytes", y, scale=1.0, zero=zero, dtype_=dtype, name="bytes")]
    with override(target=target), np.errstate(all="ignore"):
        (found,), (wanted,) = run_compiled(outputs, arrays, ["w"]), run_reference(outputs, arrays)
    np.testing.assert_array_equal(found, wanted)


def quantized(x, scale: float, name: str, zero: int = 0, dtype: str = "uint8"):
    made = call("_to_bytes", x, scale=scale, zero=zero, dtype_=dtype, name=f"{name}_q")
    return call("_from_bytes", made, scale=scale, zero=zero, name=f"{name}_d")


def layer(x, arrays: dict[str, np.ndarray], name: str, channels: int, filters: int = 16):
    w, s, b = (f"{name}_{part}" for part in ("w", "s", "b"))
    arrays[w] = some_bytes(filters, channels, 3, 3)
    arrays[s] = RANDOM.uniform(0.001, 0.002, filters).astype(np.float32)
    arrays[b] = RANDOM.normal(size=filters).astype(np.float32)
    weight = call("_weight_from_bytes", var(w), var(s), name=f"{name}_weight")
    return call("Convolution", x, weight, var(b), num_filter=filters, name=name, **FILTERS)


def residual_network() -> tuple[list, dict[str, np.ndarray]]:
    """A residual block as of a QDQ file: every result is quantized, with and without zero point."""
    arrays = {"data": RANDOM.normal(size=(4, 3, 12, 10)).astype(np.float32)}
    x = quantized(var("data"), 0.02, "data", zero=-7, dtype="int8")
    x = quantized(call("relu", layer(x, arrays, "stem", 3), name="r0"), 0.02, "stem")
    y = quantized(call("relu", layer(x, arrays, "first", 16), name="r1"), 0.02, "first")
    y = quantized(layer(y, arrays, "second", 16), 0.03, "second", zero=120)
    added = call("relu", call("broadcast_add", x, y, name="sum"), name="r2")
    return [quantized(added, 0.04, "sum")], arrays


def test_a_quantized_residual_block_has_the_same_bits_on_every_target_and_for_every_batch():
    outputs, arrays = residual_network()
    params = [name for name in arrays if name != "data"]
    plan = plan_of(outputs, arrays, params)
    kinds = [step.kind for step in plan.steps]
    assert kinds.count("byte_product") == 3 and "conv" not in kinds
    found = []
    for target in OF_BYTES:
        with override(target=target):
            found.append(run_compiled(outputs, arrays, params)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    for sample in range(4):
        one = {**arrays, "data": arrays["data"][sample : sample + 1]}
        np.testing.assert_array_equal(run_compiled(outputs, one, params)[0][0], found[0][sample])
    (wanted,) = run_reference(outputs, arrays)
    levels = np.abs(found[0] - wanted) / np.float32(0.04)
    assert levels.max() < 1.01 and (levels > 0.5).mean() < 1e-3


def test_rows_of_few_channels_are_read_as_lines_where_no_window_is_padded():
    """The last bytes of the data are the end of the last window: nothing beyond them is read."""
    data, weight = some_bytes(1, 7, 9, 3, dtype="uint8"), some_bytes(20, 3, 3, 3)
    attrs = {"kernel": (3, 3), "stride": (2, 2), "num_filter": 20, "no_bias": True}
    outputs = [call("_integer_convolution", var("x"), var("w"), layout="NHWC", **attrs)]
    arrays = {"x": data, "w": weight}
    for one, other in zip(run_compiled(outputs, arrays, ["w"]), run_reference(outputs, arrays)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", OF_BYTES)
def test_maxima_of_bytes_are_those_of_the_reference(target):
    arrays = {f"x{n}": some_bytes(2, n, 9, 8, dtype="uint8") for n in (8, 70)}
    window = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}
    outputs = [call("_byte_pooling", var(x), name=f"y{x}", **window) for x in arrays]
    with override(target=target):
        found = run_compiled(outputs, arrays)
    assert "byte_pool" in [step.kind for step in plan_of(outputs, arrays).steps]
    for one, other in zip(found, run_reference(outputs, arrays)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", OF_BYTES)
def test_functions_follow_maxima_of_bytes_in_one_kernel(target):
    """A vector has as many lanes as bytes: functions by tables of 16 lanes take it in parts."""
    arrays = {"x": some_bytes(2, 9, 8, 70, dtype="uint8")}
    window = {"kernel": (2, 2), "pool_type": "max", "layout": "NHWC"}
    values = call("_from_bytes", call("_byte_pooling", var("x"), **window), scale=0.02, zero=100)
    outputs = [call(name, values) for name in ("tanh", "exp", "erf", "sigmoid")]
    with override(target=target):
        found = run_compiled(outputs, arrays)
    assert [step.kind for step in plan_of(outputs, arrays).steps] == ["byte_pool"]
    for one, other in zip(found, run_reference(outputs, arrays)):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", OF_BYTES)
def test_bordered_pixels_of_few_bytes_are_those_of_the_planes(target):
    """Rows of 16 pixels and of others, which end in a part that is written twice."""
    arrays, outputs = {}, []
    for channels, width in itertools.product((1, 2, 3, 4, 5), (7, 16, 39)):
        arrays[f"x{channels}{width}"] = some_bytes(2, channels, 4, width, dtype="uint8")
    for name in arrays:
        last = call("transpose", var(name), axes=(0, 2, 3, 1), name=f"{name}last")
        border = {"before": (0, 1, 2, 0), "after": (0, 2, 3, 0), "value": 117.0}
        outputs.append(call("_pad_axes", last, mode="constant", name=f"{name}wide", **border))
    with override(target=target):
        found = run_compiled(outputs, arrays)
    assert {step.kind for step in plan_of(outputs, arrays).steps} == {"pad"}
    for one, other in zip(found, run_reference(outputs, arrays)):
        np.testing.assert_array_equal(one, other)


def test_one_program_multiplies_bytes_at_all_sizes():
    outputs, arrays = residual_network()
    params = [name for name in arrays if name != "data"]
    executable = compiled(outputs, arrays, params, options=Options(dynamic=True))
    assert [step.kind for step in executable.plan.steps].count("byte_product") == 3
    (wanted,) = run_compiled(outputs, arrays, params)
    np.testing.assert_array_equal(executable([arrays["data"]])[0], wanted)
