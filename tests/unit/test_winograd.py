"""Winograd's way for every window, stride and size of tiles that it is chosen for."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from test_claims import Calls

from combining import one_in
from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit._core.target import Target
from hybridjit.codegen.emit.module import emit_kernel
from hybridjit.codegen.families import Family, family_of
from hybridjit.codegen.interpolation import Line
from hybridjit.codegen.kinds.conv import choose
from hybridjit.codegen.kinds.conv.choose_by_size import Windows
from hybridjit.codegen.kinds.conv.choose_winograd import (
    winograd_sizes,
    winograd_spec,
)
from hybridjit.codegen.kinds.conv.layer import Layer
from hybridjit.codegen.kinds.conv.size_choices import larger_half
from hybridjit.codegen.kinds.conv.spec import WinogradSpec
from hybridjit.codegen.spec import Program
from hybridjit.codegen.targets import find_target
from hybridjit.runtime.executable import Executable
from neighbours import Network, conv, deconv, inside, network

pytestmark = pytest.mark.usefixtures("unoptimised_kernels")

RNG = np.random.default_rng(51)
# Windows and strides, and the sizes of tiles for them.
WINDOWS: dict[tuple[tuple[int, int], int], tuple[int, ...]] = {
    ((2, 2), 1): (4, 2, 6, 5, 3),
    ((3, 3), 1): (4, 2),
    ((3, 3), 2): (4, 2, 6, 5, 3),
    ((4, 4), 1): (4, 2),
    ((4, 4), 2): (4, 2, 6, 5, 3),
    ((5, 5), 1): (4, 2, 3),
    ((5, 5), 2): (4, 2, 6, 5, 3),
    ((7, 7), 2): (4, 2, 5, 3),
    ((1, 7), 1): (4, 2, 6, 5, 3),
    ((7, 1), 1): (4, 2, 6, 5, 3),
    ((1, 3), 1): (4, 2, 6, 5, 3),
    ((5, 3), 2): (4, 2, 6, 5, 3),
}
CASES = [(*key, m) for key, sizes in WINDOWS.items() for m in sizes]


def layer_of(window: tuple[int, int], stride: int, channels: int, filters: int = 40) -> Network:
    pad = (window[0] // 2, window[1] // 2)
    make = inside(conv(filters, window, stride=(stride, stride), pad=pad))
    return network(make, (1, channels, 13 * stride, 14 * stride))


def specs(executable: Executable) -> list[WinogradSpec]:
    every = (call.spec for row in executable.code.calls for call in row)
    return [spec for spec in every if isinstance(spec, WinogradSpec)]


@pytest.mark.parametrize("window, stride, m", CASES, ids=str)
def test_errors_are_below_a_ten_thousandth_of_the_deviation(window, stride, m, monkeypatch):
    """Of the results' standard deviation, against sums in double precision."""
    sizes = []

    def only(layer: object, target: object) -> list[int]:
        sizes.extend(winograd_sizes(layer, find_target("avx2")))
        return [m]

    monkeypatch.setattr(choose, "winograd_sizes", only)
    net = layer_of(window, stride, 256)
    random = {name: RNG.standard_normal(a.shape).astype(a.dtype) for name, a in net.arrays.items()}
    executable = compiled(net.outputs, random, net.params, options=Options(winograd="always"))
    inputs = [random[name] for name in net.arrays if name not in net.params]
    (found,) = executable(inputs)
    assert tuple(sizes) == WINDOWS[window, stride]
    (spec,) = specs(executable)
    assert [line.m for line in spec.lines] == [m if taps > 1 else 1 for taps in window]
    wide = {name: array.astype(np.float64) for name, array in random.items()}
    (wanted,) = run_reference(net.outputs, wide)
    assert np.abs(found - wanted).max() < 1e-4 * wanted.std()


@pytest.mark.parametrize("channels", [128, 512])
@pytest.mark.parametrize("target", [name for name in AVAILABLE if find_target(name).has_fma])
def test_tiles_of_five_where_vectors_are_multiplied_in_halves(target, channels, monkeypatch):
    """Where they save a sixth of the products: of 14x14, not of 20x20. Here on every CPU."""
    monkeypatch.setattr(Family, "works_on_halves", lambda family, target: True)
    for size, m in ((14, 5), (20, 4)):
        net = network(inside(conv(128, pad=(1, 1))), (1, channels, size, size))
        random = {n: RNG.standard_normal(a.shape).astype(a.dtype) for n, a in net.arrays.items()}
        offered: list[int] = []

        def last(layer: choose.Layer, target: Target, offered: list[int] = offered) -> list[int]:
            offered.extend(winograd_sizes(layer, target))
            return offered[-1:] if 5 in offered else [4]

        monkeypatch.setattr(choose, "winograd_sizes", last)
        with override(target=target):
            executable = compiled(net.outputs, random, net.params)
        assert offered == [4, 2, 5][: 3 if m == 5 else 2]
        (spec,) = specs(executable)
        assert spec.m == m
        (found,) = executable([random[name] for name in net.arrays if name not in net.params])
        (wanted,) = run_reference(net.outputs, {n: a.astype(np.float64) for n, a in random.items()})
        assert np.abs(found - wanted).max() < 1e-4 * wanted.std()


def require_near(net: Network) -> list[WinogradSpec]:
    """Computed along Winograd's way, within a ten thousandth of the deviation."""
    executable = compiled(net.outputs, net.arrays, net.params, options=Options(winograd="always"))
    assert specs(executable)
    wanted = run_reference(net.outputs, net.arrays)
    for one, other in zip(executable(net.inputs), wanted, strict=True):
        assert np.abs(one - other).max() < 1e-4 * other.std()
    return specs(executable)


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
def test_tiles_of_six_have_loops_instead_of_code_for_each_position(target):
    """F(6x6, 3x3) with stride 2 reads 169 positions: code for each is 5 times that of F(2)."""
    cpu, one = find_target(target), (1, 1, 1)
    layer = Layer(
        inp=(1, 56, 56), out=(1, 28, 28), kernel=(1, 3, 3), stride=(1, 2, 2), dilate=one,
        pad=(0, 1, 1), groups=1, ic=64, oc=64, xs=(200704, 0, 3584, 64, 1), reads=(),
        writes=((50176, 0, 1792, 64, 1),), program=Program(1),
    )  # fmt: skip
    specs = (winograd_spec(layer, cpu, m) for m in (2, 6))
    small, large = (len(str(emit_kernel(spec, cpu)).splitlines()) for spec in specs)
    assert 500 < small < large < 1.5 * small


@pytest.mark.parametrize("tail", ["nothing", "residual-relu", "twice"])
@pytest.mark.parametrize("stride, size, pad", [(1, 12, 0), (1, 13, 0), (1, 8, 2), (2, 19, 0)])
@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_few_channels_in_tiles_that_reach_over_no_edge(target, stride, size, pad, tail):
    """No tile reads a place outside, or none writes one, or both, or there are such."""
    make = inside(conv(16, (5, 5), stride=(stride, stride), pad=(pad, pad)))
    with override(target=target):
        require_near(network(make, (2, 6, size, size), tail))


def test_few_channels_are_worth_it_from_four_on():
    """Channels that fill no vector take as long as those that do: LeNet's first layer has one."""
    for channels, filters, size, is_chosen in ((6, 16, 12, True), (1, 6, 28, False)):
        net = network(inside(conv(filters, (5, 5))), (1, channels, size, size))
        assert bool(specs(compiled(net.outputs, net.arrays, net.params))) == is_chosen


@pytest.mark.parametrize("taps, stride", [(3, 1), (3, 2), (7, 1)])
@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_a_line_has_no_rows(target, taps, stride):
    """Filters of Conv1D are [F, k, C]."""
    make = inside(conv(40, (taps,), stride=(stride,), pad=(taps // 2,)), axes=1)
    net = network(make, (2, 65, 31 * stride))
    with override(target=target):
        executable = compiled(
            net.outputs, net.arrays, net.params, options=Options(winograd="always")
        )
    assert specs(executable)
    (found,) = executable([net.arrays[name] for name in net.arrays if name not in net.params])
    (wanted,) = run_reference(net.outputs, net.arrays)
    assert np.abs(found - wanted).max() < 1e-4 * wanted.std()


@pytest.mark.parametrize("window, dilate", [((3,), (4,)), ((7,), (3,)), ((5, 5), (2, 3))], ids=str)
@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_every_window_may_be_dilated(target, window, dilate):
    """Rows and columns that are not multiples of the dilation."""
    pad = tuple(taps // 2 * d for taps, d in zip(window, dilate))
    make = inside(conv(40, window, dilate=dilate, pad=pad), axes=len(window))
    with override(target=target):
        require_near(network(make, (2, 65, *(25, 22)[: len(window)])))


@pytest.mark.parametrize(
    "window, attrs",
    [
        ((3, 3, 3), {"pad": (1, 1, 1)}),
        ((2, 3, 3), {"stride": (2, 1, 1)}),
        ((3, 3, 5), {"stride": (1, 2, 2), "pad": (1, 1, 2), "dilate": (2, 1, 1)}),
        ((1, 3, 3), {"pad": (0, 1, 1)}),
        ((5, 1, 1), {"pad": (2, 0, 0), "stride": (2, 1, 1)}),
    ],
    ids=str,
)
@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_slices_of_a_volume_are_added_up(target, window, attrs):
    """Taps of the depth are more channels; those outside are zeros."""
    make = inside(conv(40, window, **attrs), axes=3)
    with override(target=target):
        require_near(network(make, (2, 37, 7, 9, 10)))


def test_few_slices_with_padding_go_directly():
    """Of three taps two see padding, which the direct kernel leaves out."""
    net = network(inside(conv(64, (3, 3, 3), pad=(1, 1, 1)), axes=3), (1, 64, 1, 28, 28))
    assert not specs(compiled(net.outputs, net.arrays, net.params))


GROUPED = {
    "odd channels": (conv(105, num_group=3, pad=(1, 1)), 51),
    "fewer channels than lanes": (conv(10, num_group=2, pad=(1, 1)), 14),
    "whole blocks": (conv(64, num_group=2, pad=(1, 1)), 64),
    "several blocks": (conv(210, num_group=2, pad=(0, 1)), 34),
    "strided": (conv(38, num_group=2, stride=(2, 2), pad=(1, 1)), 34),
    "dilated": (conv(70, num_group=2, dilate=(2, 3), pad=(2, 3)), 34),
    "5x5": (conv(35, (5, 5), num_group=5, pad=(2, 2)), 85),
    "transposed": (deconv(70, (4, 4), num_group=2, stride=(2, 2), pad=(1, 1)), 34),
}


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_groups_of_volumes(target):
    """The channels of all slices of a group are one group's."""
    make = inside(conv(70, (3, 3, 3), num_group=2, pad=(1, 1, 1)), axes=3)
    with override(target=target):
        (spec,) = require_near(network(make, (2, 74, 5, 9, 10)))
    assert (spec.groups, spec.depth[0]) == (2, 3)


TAILS = ("nothing", "residual-relu", "gate", "twice", "prelu")
HOST_TARGETS = ["" if name == "native" else name for name in AVAILABLE]


@pytest.mark.parametrize("target, name, tail", one_in(3, HOST_TARGETS, GROUPED, TAILS))
def test_groups_are_computed_as_separate_layers(target, name, tail):
    """With filters that fill whole blocks and others, and all that reads and writes channels."""
    make, channels = GROUPED[name]
    net = network(inside(make), (2, channels, 11, 9), tail)
    with override(target=target):
        for params in (net.params, [name for name in net.params if name != "b"]):
            found = require_near(net._replace(params=params))
            assert min(spec.groups for spec in found) > 1


def grouped(width: int, stride: int) -> Network:
    """A layer of two groups with these numbers of channels, on 28x28."""
    make = inside(conv(2 * width, num_group=2, stride=(stride, stride), pad=(1, 1)))
    return network(make, (1, 2 * width, 28, 28))


def loads_filters_slowly(target: str) -> bool:
    """Whether strided layers of few filters are computed directly, see ``conv.cost``."""
    return family_of(find_target(target or "native")).is_slow_beyond_second


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_wide_groups_go_through_tiles_and_narrow_ones_do_not(target):
    """Two groups at 28x28, where strided ones have to be wider."""
    lanes = find_target(target or "native").lanes
    strided = [] if loads_filters_slowly(target) else [(64, 2)]
    with override(target=target):
        for width, stride in [(2 * lanes, 1), (64, 1), *strided]:
            net = grouped(width, stride)
            assert specs(compiled(net.outputs, net.arrays, net.params)), (width, stride)
            never = compiled(net.outputs, net.arrays, net.params, options=Options(winograd=False))
            assert not specs(never)
        for width, stride in [(lanes // 2, 1), (lanes - 1, 1), (2 * lanes, 2)]:
            net = grouped(width, stride)
            assert not specs(compiled(net.outputs, net.arrays, net.params)), (width, stride)


def test_tiles_of_six_are_for_few_channels(monkeypatch):
    """With 512 channels eight points both ways have an error of 1.2e-4 of the deviation, and twelve
    of a line one of 1.1e-4.
    """
    taken = []

    def noted(layer: choose.Layer, target: Target) -> list[int]:
        taken.append([*winograd_sizes(layer, target)])
        return taken[-1]

    monkeypatch.setattr(choose, "winograd_sizes", noted)
    for window, stride in (((5, 5), 2), ((1, 7), 1)):
        for channels in (256, 257):
            net = layer_of(window, stride, channels)
            compiled(net.outputs, net.arrays, net.params)
    assert taken == [[4, 2, 6, 5, 3], [4, 2, 5, 3], [4, 2, 6, 5, 3], [4, 2, 3]]


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_chosen_where_it_is_cheaper(target):
    """Lines of seven taps are, and strided layers whose filters fill whole blocks; windows that do
    not overlap have no such way.
    """
    cases = [
        ((1, 7), 1, 40, True),
        ((3, 3), 2, 64, not loads_filters_slowly(target)),
        ((3, 3), 2, 33, False),
        ((2, 2), 2, 64, False),
    ]
    with override(target=target):
        for window, stride, filters, is_chosen in cases:
            net = layer_of(window, stride, 64, filters)
            executable = compiled(net.outputs, net.arrays, net.params)
            assert bool(specs(executable)) == is_chosen, (window, filters)
            never = compiled(net.outputs, net.arrays, net.params, options=Options(winograd=False))
            assert not specs(never)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("taps, stride", [(1, 1), (1, 2), (3, 1), (3, 2), (5, 2), (7, 1), (7, 2)])
def test_phases_share_the_taps(m, taps, stride):
    """Each tap belongs to one phase; all phases together read the same pixels as the results."""
    line = Line(1 if taps == 1 else max(m, 2), taps, stride)
    assert sum(line.phases) == taps
    assert line.points == line.filter_matrix.shape[0] <= line.m * taps
    last = [phase + stride * (count - 1) for phase, count in enumerate(line.counts)]
    assert max(last) + 1 == line.reach


def shares_of(net: Network, shares: tuple[int, ...], threads: int) -> np.ndarray:
    """The result after these shares of its layer, in separate memory."""
    calls = Calls(net)
    calls.results()
    for number, kind in enumerate(calls.kinds):
        if kind != "winograd":
            calls.run(number, 0, 1, queued=False)
        else:
            for share in shares:
                calls.run(number, share, threads, queued=False)
    return calls.results()[0]


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
@pytest.mark.parametrize("images, size", [(1, 14), (3, 10), (1, 27), (1, 57)], ids=str)
def test_threads_share_the_tiles_of_one_block_of_channels(target, images, size):
    """Each of two writes about half of the results, and the bits are those of one."""
    net = network(inside(conv(16, pad=(1, 1))), (images, 64, size, size))
    with override(target=target):
        first, second = shares_of(net, (0,), 2), shares_of(net, (1,), 2)
        both, alone = shares_of(net, (0, 1), 2), shares_of(net, (0,), 1)
    np.testing.assert_array_equal(both, alone)
    for half in (first, second):
        assert 0.25 < (half == alone).mean() < 0.75


def rows_of_halves(spec: WinogradSpec, columns: int) -> list[int]:
    """Rows of products, padding included, that each of two threads multiplies."""
    total = spec.tiles_of_image
    blocks = [min(spec.tiles, total - first) for first in range(0, total, spec.tiles)]
    if len(blocks) > 2:  # the smaller one is in the middle
        blocks.insert(len(blocks) // 2, blocks.pop())
    rows = [-(-tiles // spec.mr) * spec.mr for tiles in blocks for _ in range(columns)]
    middle = len(rows) // 2
    return [sum(rows[:middle]), sum(rows[middle:])]


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
@pytest.mark.parametrize("channels, filters", [(128, 128), (192, 192), (128, 192)])
@pytest.mark.parametrize("window", [(1, 7), (7, 1)], ids=str)
def test_blocks_of_tiles_are_as_large_for_both_threads(target, channels, filters, window):
    """Inception's 17x17: 51 tiles in blocks of 42 or 33, and the rest, made one thread wait."""
    pad = (window[0] // 2, window[1] // 2)
    net = network(inside(conv(filters, window, pad=pad)), (1, channels, 17, 17))
    with override(target=target):
        (spec,) = specs(compiled(net.outputs, net.arrays, net.params))
        lanes = find_target().lanes
    less, more = sorted(rows_of_halves(spec, -(-filters // (lanes * spec.nv))))
    assert more <= 1.05 * less


@pytest.mark.parametrize("columns, groups", [(1, 1), (1, 3), (3, 1), (5, 4), (8, 2)])
def test_the_larger_half_of_the_units_is_counted(columns, groups):
    """Against the list of all units' rows, block by block, as two threads divide it."""
    for rows in range(1, 30):
        for each in range(1, rows + 1):
            blocks = -(-rows // each)
            starts = [(2 * i * rows + blocks) // (2 * blocks) for i in range(blocks + 1)]
            units = [b - a for a, b in zip(starts, starts[1:]) for _ in range(columns)] * groups
            half = len(units) // 2
            wanted = max(sum(units[:half]), sum(units[half:]))
            if columns == groups == 1:
                wanted = -(-rows // 2)
            assert larger_half(rows, each, columns, groups) == wanted


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
def test_bounds_of_costs_choose_as_all_candidates_do(target):
    """For new sizes; where two candidates cost the same, all of them are made."""
    machine, decided, asked = find_target(target), 0, 0
    for (ic, oc), window, stride in product(
        ((16, 16), (64, 64), (64, 128), (256, 256), (512, 512), (130, 70)), (3, 5), (1, 2)
    ):
        made = partial(window_layer, ic, oc, window, stride)
        windows = Windows.of(made((1, 56, 56)), machine)
        sides = ((7, 7), (9, 10), (14, 14), (13, 20), (28, 31), (56, 57), (80, 66))
        for out in ((3, 7, 9), *((1, *two) for two in sides)):
            found = windows and windows.tile(out)
            best = choose.algorithms(made(out), machine, True, True)[0]
            tile = best.m if isinstance(best, WinogradSpec) else 0
            assert found in (None, tile)
            decided += found is not None
            asked += windows is not None
    assert 4 * decided > 3 * asked > 250


def window_layer(ic: int, oc: int, window: int, stride: int, out: tuple[int, int, int]) -> Layer:
    height, width = (stride * size for size in out[1:])
    return Layer(
        inp=(out[0], height, width), out=out, kernel=(1, window, window),
        stride=(1, stride, stride), dilate=(1, 1, 1), pad=(0, window // 2, window // 2), groups=1,
        ic=ic, oc=oc, xs=(0, height * width * ic, width * ic, ic, 1), reads=(),
        writes=((0, out[1] * out[2] * oc, out[2] * oc, oc, 1),), program=Program(1),
    )  # fmt: skip


@pytest.mark.parametrize("batch, size", [(1, 1), (2, 1), (3, 2)])
def test_weights_of_a_pixel_are_never_transformed_in_a_call(batch, size):
    """Many channels on pictures of a pixel, as in squeeze and excitation: tiles looked cheaper."""
    attrs = {"kernel": (1, 1), "num_filter": 1000, "no_bias": True}
    random = np.random.default_rng(0)
    arrays = {
        "x": random.normal(size=(batch, 640, size, size)).astype(np.float32),
        "w": random.normal(size=(1000, 640, 1, 1)).astype(np.float32),
    }
    outputs = [call("Convolution", *map(var, arrays), **attrs)]
    (found,) = compiled(outputs, arrays)([*arrays.values()])
    (wanted,) = run_reference(outputs, arrays)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())
