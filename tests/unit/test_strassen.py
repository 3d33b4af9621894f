"""One level of Strassen's algorithm: its numbers, its edges, and where it is chosen."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit.codegen.kinds.conv import choose
from hybridjit.codegen.kinds.conv.choose import algorithms
from hybridjit.codegen.kinds.conv.choose_by_size import Positions
from hybridjit.codegen.kinds.conv.choose_strassen import pairs_of_block
from hybridjit.codegen.kinds.conv.cost import cost
from hybridjit.codegen.kinds.conv.layer import Layer
from hybridjit.codegen.kinds.conv.size_choices import wished_pairs
from hybridjit.codegen.kinds.conv.spec import StrassenSpec
from hybridjit.codegen.packing import StrassenPacking
from hybridjit.codegen.spec import Program
from hybridjit.codegen.targets import find_target
from hybridjit.ir.node import Output
from hybridjit.runtime.executable import Executable
from neighbours import Network, conv, dense_across, inside, live, network

RNG = np.random.default_rng(52)
ALWAYS = Options(winograd="always")


def specs(executable: Executable) -> list[StrassenSpec]:
    every = (call.spec for row in executable.code.calls for call in row)
    return [spec for spec in every if isinstance(spec, StrassenSpec)]


def layer_of(
    shape: tuple[int, ...], filters: int, tail: str = "nothing", **attrs: object
) -> Network:
    return network(inside(conv(filters, (1, 1), **attrs)), shape, tail)


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
@pytest.mark.parametrize("places", [(1, 2), (1, 3), (7, 7), (5, 12), (15, 15)], ids=str)
def test_errors_are_below_a_hundred_thousandth_of_the_deviation(target, places):
    """Of the results' standard deviation, against sums in double precision; also with an unpaired
    block
    and with half of the filters in incomplete blocks.
    """
    net = layer_of((2, 512, *places), 96)
    random = {name: RNG.standard_normal(a.shape).astype(a.dtype) for name, a in net.arrays.items()}
    with override(target=target):
        executable = compiled(net.outputs, random, net.params, options=ALWAYS)
    assert len(specs(executable)) == 1
    (found,) = executable([random[name] for name in net.arrays if name not in net.params])
    wide = {name: array.astype(np.float64) for name, array in random.items()}
    (wanted,) = run_reference(net.outputs, wide)
    assert np.abs(found - wanted).max() < 1e-5 * wanted.std()


@pytest.mark.parametrize("tail", ["nothing", "residual-relu", "twice"])
@pytest.mark.parametrize("filters", [65, 70, 90, 100, 129])
@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_any_number_of_filters(target, filters, tail):
    """The second half of them fills no vector, some, or misses a few; an odd number of places."""
    net = layer_of((2, 64, 3, 5), filters, tail)
    with override(target=target):
        executable = compiled(net.outputs, net.arrays, net.params, options=ALWAYS)
    assert len(specs(executable)) == 1
    wanted = run_reference(net.outputs, {n: a.astype(np.float64) for n, a in net.arrays.items()})
    for found, right in zip(executable(net.inputs), wanted, strict=True):
        assert np.abs(found - right).max() < 1e-5 * right.std()


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_many_channels_are_transformed_in_chunks(target):
    """Within the same error; filters that fill no whole block of half of them."""
    net = layer_of((2, 8192, 9, 11), 96)
    random = {name: RNG.standard_normal(a.shape).astype(a.dtype) for name, a in net.arrays.items()}
    with override(target=target):
        executable = compiled(net.outputs, random, net.params, options=ALWAYS)
    (spec,) = specs(executable)
    assert spec.chunks > 1 and spec.tiles < spec.pairs
    (found,) = executable([random[name] for name in net.arrays if name not in net.params])
    wide = {name: array.astype(np.float64) for name, array in random.items()}
    (wanted,) = run_reference(net.outputs, wide)
    assert np.abs(found - wanted).max() < 1e-5 * wanted.std()


def test_places_that_do_not_follow_each_other():
    """Every second place of lines that are cut: neither data nor results are one long line."""
    x = call(
        "slice", call("Pooling", var("x"), kernel=(1, 1)), begin=(0, 0, 1, 0), end=(2, 64, 8, 9)
    )
    y = call("Convolution", x, var("w"), var("b"), kernel=(1, 1), num_filter=64)
    both = [call("Concat", y, x, dim=1, num_args=2)]
    shapes = {"x": (2, 64, 9, 11), "w": (64, 64, 1, 1), "b": (64,)}
    arrays = {name: RNG.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    executable = compiled(both, arrays, ["w", "b"], options=ALWAYS)
    (spec,) = specs(executable)
    assert spec.out == (1, 7, 9) and spec.xs[2] != 9 * spec.xs[3]
    (found,) = executable([arrays["x"]])
    (wanted,) = run_reference(both, {name: a.astype(np.float64) for name, a in arrays.items()})
    assert np.abs(found - wanted).max() < 1e-5 * wanted.std()


@pytest.mark.parametrize("places", [(14, 14), (7, 7), (5, 13)], ids=str)
@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_channels_that_are_not_adjacent_have_the_bits_of_adjacent_ones(target, places):
    """In data that come from outside, or from an operator on rows of places."""
    weights = {"w": RNG.standard_normal((96, 64, 1, 1), np.float32)}
    data = RNG.standard_normal((2, 64, *places), np.float32)
    found = []
    for order in ((0, 1, 2, 3), (0, 3, 1, 2)):
        x = call("transpose", var("x"), axes=order)
        y = call("Convolution", x, var("w"), kernel=(1, 1), num_filter=96, no_bias=True)
        given = np.ascontiguousarray(data.transpose(np.argsort(order)))
        with override(target=target):
            executable = compiled([y], {"x": given, **weights}, ["w"], options=ALWAYS)
            dynamic = replace(ALWAYS, dynamic=True)
            of_any = compiled([y], {"x": given, **weights}, ["w"], options=dynamic)
        (spec,) = specs(executable)
        assert (spec.xs[4] == 1) == (order[1] == 3) and len(specs(of_any)) == 1
        found += [*executable([given]), *of_any([given])]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_chosen_where_it_is_cheaper():
    """Where there are many channels and places; not where filters are read for few of them."""
    shapes = [((512, 14, 14), 512, True), ((64, 56, 56), 256, False), ((1024, 7, 7), 1024, False)]
    for shape, filters, is_chosen in shapes:
        net = layer_of((1, *shape), filters)
        with override(target="avx2"):  # the choice depends on the CPU's caches
            assert bool(specs(compiled(net.outputs, net.arrays, net.params))) == is_chosen, shape
            never = compiled(net.outputs, net.arrays, net.params, options=Options(winograd=False))
        assert not specs(never)


def test_not_for_other_layers():
    """Weights other than parameters, groups, padding, half a vector of channels, few filters, rows
    of a batch.
    """
    nets = [
        live(layer_of((1, 512, 14, 14), 512)),
        layer_of((1, 512, 14, 14), 512, num_group=2),
        layer_of((1, 512, 14, 14), 512, pad=(1, 1)),
        layer_of((1, 513, 14, 14), 512),
        layer_of((1, 512, 14, 14), 8),
    ]
    for net in nets:
        assert not specs(compiled(net.outputs, net.arrays, net.params, options=ALWAYS))
    rows = call("FullyConnected", var("x"), var("w"), num_hidden=512, no_bias=True)
    arrays = {name: np.ones((512, 512), np.float32) for name in ("x", "w")}
    assert not specs(compiled([rows], arrays, ["w"], options=ALWAYS))


@pytest.mark.parametrize("rows, is_chosen", [(7, False), (196, True)])
def test_samples_of_few_rows_share_their_weights(rows, is_chosen):
    """28 samples of 7 rows are 196 rows where they are multiplied directly."""
    net = network(dense_across(1536), (28, rows, 384))
    with override(target="avx2"):
        assert bool(specs(compiled(net.outputs, net.arrays, net.params))) == is_chosen


def windows(batch: int) -> Output:
    """A dense layer on shifted windows of 4x4 of an image, another on the image's rows."""
    pooled = call("Pooling", var("x"), kernel=(3, 3), pad=(1, 1), pool_type="max")
    image = call("transpose", pooled, axes=(0, 2, 3, 1))
    parts = [call("slice_axis", image, axis=1, begin=a, end=b) for a, b in ((2, 12), (0, 2))]
    shifted = call("Concat", *parts, dim=1, num_args=2)
    order = {"axes": (0, 1, 3, 2, 4, 5)}
    x = call("transpose", call("reshape", shifted, shape=(batch, 3, 4, 3, 4, 64)), **order)
    x = call("reshape", x, shape=(9 * batch, 16, 64))
    x = call("FullyConnected", x, var("w"), num_hidden=64, no_bias=True, flatten=False)
    x = call("transpose", call("reshape", x, shape=(batch, 3, 3, 4, 4, 64)), **order)
    x = call("reshape", x, shape=(batch, 12, 12, 64))
    return call("FullyConnected", x, var("v"), num_hidden=64, no_bias=True, flatten=False)


def test_windows_of_an_image_are_rows_of_one_sample_for_any_batch():
    """Pooling tells that the places of an image do; bits do not depend on the batch."""
    shapes = {"x": (3, 64, 12, 12), "w": (64, 64), "v": (64, 64)}
    arrays = {name: RNG.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    found = []
    for batch in (3, 1):
        given = {**arrays, "x": arrays["x"][:batch]}
        with override(skip=("by-sample",)):
            executable = compiled([windows(batch)], given, ["w", "v"], options=ALWAYS)
        assert [spec.out for spec in specs(executable)] == [(1, 1, 144)] * 2
        found += executable([given["x"]])
    np.testing.assert_array_equal(found[0][0], found[1][0])


@pytest.mark.parametrize("filters", [17, 20, 25, 33, 40, 50])
def test_filters_come_back_from_their_packed_form(filters):
    """Equal bits, independent of previous memory contents; blocks are padded with zeros."""
    weight = RNG.standard_normal((filters, 1, 1, 6)).astype(np.float32)
    packing = StrassenPacking(lanes=8, nv=2)
    packed = np.full(packing.size(weight), np.nan, np.float32)
    packing.pack(weight, packed)
    assert np.isfinite(packed).all()
    found = packing.unpack(packed, slice(0, filters), 6)
    np.testing.assert_array_equal(found, weight.reshape(filters, 6))


def test_filters_are_sums_of_quarters():
    weight = RNG.integers(-9, 9, (40, 1, 1, 6)).astype(np.float32)
    packing = StrassenPacking(lanes=4, nv=2)
    packed = np.empty(packing.size(weight), np.float32)
    packing.pack(weight, packed)
    sums, kept = np.split(packed, [7 * packed.size // 8])
    blocks = sums.reshape(3, 7, 3, 8)
    assert not blocks[2, :, :, 4:].any(), "half of the filters are two blocks and a half"
    w11, w21, w22, t4, t1, t2, t3 = blocks.transpose(1, 0, 3, 2).reshape(7, 24, 3)[:, :20]
    matrix = weight.reshape(40, 6)
    np.testing.assert_array_equal(np.block([[w11, w21], [t1 + w11, w22]]), matrix)
    w12 = matrix[20:, :3]
    np.testing.assert_array_equal(kept.reshape(3, 3, 8).swapaxes(1, 2).reshape(24, 3)[:20], w12)
    np.testing.assert_array_equal(t1, w12 - w11)
    np.testing.assert_array_equal(t2, w22 - w12 + w11)
    np.testing.assert_array_equal(t3, w22 - w12)
    np.testing.assert_array_equal(t4, w22 - w12 + w11 - w21)


@pytest.mark.parametrize("most", [2, 6, 12])
def test_the_search_for_a_block_ends_at_the_least_padding_nearest_to_the_wish(most):
    fewest = most // 2 + 1 if most > 6 else most - 1
    for pairs in (1, 3, 11, 24, 49, 98, 101):
        for wished in {1, pairs // 3, pairs // 2, pairs} - {0}:
            blocks = [
                ((pairs // tiles * -(-tiles // mr) + -(-(pairs % tiles) // mr)) * mr,
                 abs(tiles - wished), tiles, mr)
                for tiles in range(max(1, wished // 2), min(pairs, wished * 5 // 4) + 1)
                for mr in range(min(tiles, fewest), min(tiles, most) + 1)
            ]  # fmt: skip
            assert pairs_of_block(pairs, wished, most) == min(blocks)[2:]


def test_blocks_hide_the_loads_of_their_filters():
    """At least 24 pairs; one block instead of two smaller ones, if its sums fit in the cache."""
    blocks = {36: 18, 64: 32, 94: 47, 96: 24}
    found = {}
    for rows in blocks:
        net = network(dense_across(256), (1, rows, 128))
        with override(target="avx2"):  # a block of 47 pairs fits in 256 KB
            (spec,) = specs(compiled(net.outputs, net.arrays, net.params, options=ALWAYS))
        found[rows] = spec.tiles
    assert found == blocks
    assert [wished_pairs(32, fitting) for fitting in (12, 23, 24, 32)] == [12, 16, 32, 32]


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
@pytest.mark.parametrize("winograd", [True, False, "always"])
def test_the_choice_by_positions_is_that_of_all_candidates(target, winograd):
    """For a layer's bits, and for rows of many samples."""
    machine = find_target(target)
    one = (1, 1, 1)
    for ic, oc in ((64, 64), (256, 1024), (768, 256), (512, 70), (130, 512), (1024, 4096)):
        for apart, stride, count in product((1, 7), (1, 2), (1, 2, 7, 49, 128, 197, 1024)):
            layer = Layer(
                inp=(1, 1, stride * count), out=(1, 1, count), kernel=one,
                stride=(1, 1, stride), dilate=one,
                pad=(0, 0, 0), groups=1, ic=ic, oc=oc, xs=(0, 0, 0, ic, apart), reads=(),
                writes=((0, 0, 0, oc, 1),), program=Program(1),
            )  # fmt: skip
            positions = Positions.of(layer, machine, winograd)
            best = algorithms(layer, machine, winograd, True)[0]
            is_strassen = isinstance(best, StrassenSpec)
            assert positions is not None
            assert positions.key((count,)) == choose._Found(1, [], best).bits
            gains = winograd == "always" or cost(layer, best, machine) < layer.operations
            assert positions.pays(2 * count, count) == (is_strassen and gains)
            assert not positions.pays(1, 1)


def normalised(added: float) -> Output:
    """Rows of a dense layer, divided by their norms, which meet in a product."""
    y = call("reshape", call("FullyConnected", var("x"), var("w"), num_hidden=576, no_bias=True,
                             flatten=False), shape=(0, 0, 18, 32))  # fmt: skip
    squares = call("sum", call("square", y), axis=-1, keepdims=True)
    if added:
        squares = call("_plus_scalar", squares, scalar=added)
    norm = call("_maximum_scalar", call("sqrt", squares), scalar=1e-12)
    y = call("reshape", call("transpose", call("broadcast_div", y, norm), axes=(0, 2, 1, 3)),
             shape=(-3, 0, 0))  # fmt: skip
    return call("softmax", call("batch_dot", y, y, transpose_b=True))


@pytest.mark.parametrize("added", [0.0, 1e-6])
def test_rows_that_are_divided_by_their_norms_are_not_combined(added):
    """A row of zeros would become the rounding errors of another one, and these a row of length
    1."""
    x = RNG.standard_normal((2, 256, 192)).astype(np.float32)
    x[1, 200:] = 0
    w = (0.05 * RNG.standard_normal((576, 192))).astype(np.float32)
    executable = compiled([normalised(added)], {"x": x, "w": w}, ["w"], options=ALWAYS)
    (found,) = executable([x])
    assert len(specs(executable)) == bool(added)
    if not added:
        assert np.all(found.reshape(2, 18, 256, 256)[1, :, 200:] == 1 / 256)
