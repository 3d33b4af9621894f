"""Winograd's way for every window, stride and size of tiles that it is chosen for."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import AVAILABLE, compiled, run_reference
from hybridjit.codegen.interpolation import Line
from hybridjit.codegen.kinds.conv import choose
from hybridjit.codegen.kinds.conv.choose_winograd import winograd_sizes
from hybridjit.codegen.kinds.conv.spec import WinogradSpec
from hybridjit.config import override
from hybridjit.options import Options
from hybridjit.runtime.executable import Executable
from neighbours import Network, conv, inside, network

RNG = np.random.default_rng(51)
# Windows and strides, and the sizes of tiles for them.
WINDOWS: dict[tuple[tuple[int, int], int], tuple[int, ...]] = {
    ((3, 3), 1): (4, 2),
    ((3, 3), 2): (4, 2, 6, 5, 3),
    ((5, 5), 1): (4, 2, 3),
    ((5, 5), 2): (4, 2, 6, 5, 3),
    ((7, 7), 2): (4, 2, 5, 3),
    ((1, 7), 1): (4, 2, 6, 5, 3),
    ((7, 1), 1): (4, 2, 6, 5, 3),
    ((1, 3), 1): (4, 2, 6, 5, 3),
    ((5, 3), 2): (4, 2, 6, 5, 3),
}
CASES = [(*key, m) for key, sizes in WINDOWS.items() for m in sizes]


def layer_of(window: tuple[int, int], stride: int, channels: int) -> Network:
    pad = (window[0] // 2, window[1] // 2)
    make = inside(conv(40, window, stride=(stride, stride), pad=pad))
    return network(make, (1, channels, 13 * stride, 14 * stride))


def specs(executable: Executable) -> list[WinogradSpec]:
    every = (call.spec for row in executable.code.calls for call in row)
    return [spec for spec in every if isinstance(spec, WinogradSpec)]


@pytest.mark.parametrize("window, stride, m", CASES, ids=str)
def test_errors_are_below_a_ten_thousandth_of_the_deviation(window, stride, m, monkeypatch):
    """Of the results' standard deviation, against sums in double precision."""
    sizes = []

    def only(layer: object) -> list[int]:
        sizes.extend(winograd_sizes(layer))
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


def test_tiles_of_six_are_for_few_channels(monkeypatch):
    """With 512 channels eight points both ways have an error of 1.2e-4 of the deviation."""
    taken = []

    def noted(layer: choose.Layer) -> list[int]:
        taken.append([*winograd_sizes(layer)])
        return taken[-1]

    monkeypatch.setattr(choose, "winograd_sizes", noted)
    for channels in (256, 257):
        net = layer_of((5, 5), 2, channels)
        compiled(net.outputs, net.arrays, net.params)
    assert taken == [[4, 2, 6, 5, 3], [4, 2, 5, 3]]


@pytest.mark.parametrize("target", ["" if name == "native" else name for name in AVAILABLE])
def test_chosen_where_it_is_cheaper(target):
    """Lines of seven taps are, and strided layers; windows of two taps have no such way."""
    with override(target=target):
        for window, stride, is_chosen in [((1, 7), 1, True), ((3, 3), 2, True), ((2, 2), 1, False)]:
            net = layer_of(window, stride, 64)
            executable = compiled(net.outputs, net.arrays, net.params)
            assert bool(specs(executable)) == is_chosen, window
            never = compiled(net.outputs, net.arrays, net.params, options=Options(winograd=False))
            assert not specs(never)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("taps, stride", [(1, 1), (1, 2), (3, 1), (3, 2), (5, 2), (7, 1), (7, 2)])
def test_phases_share_the_taps(m, taps, stride):
    """Each tap belongs to one phase; all phases together look at what the results look at."""
    line = Line(1 if taps == 1 else max(m, 2), taps, stride)
    assert sum(line.phases) == taps
    assert line.points == line.filter_matrix.shape[0] <= line.m * taps
    last = [phase + stride * (count - 1) for phase, count in enumerate(line.counts)]
    assert max(last) + 1 == line.reach
