"""Weights as kernels want them: machine code and NumPy write the same bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from compiling import AVAILABLE, assert_near, call, compiled, run_reference, var
from hybridjit._core.options import Options
from hybridjit.codegen.emit.native_packing import NativePacking
from hybridjit.codegen.emit.packers import COMBINED, SIZES, TRANSPOSED, emit_packer, packers_for
from hybridjit.codegen.families import Family
from hybridjit.codegen.interpolation import Line, lines_for
from hybridjit.codegen.llvm.jit import compile_object
from hybridjit.codegen.packing import (
    AbreastPacking,
    ConvPacking,
    PhasePacking,
    StrassenPacking,
    WinogradPacking,
)
from hybridjit.codegen.targets import find_target
from neighbours import conv, inside, network

RNG = np.random.default_rng(0)
# Filters, window, channels: whole vectors and not, one block and several, one tap and many.
SHAPES = [
    (64, (1, 1), 64), (1, (1, 1), 17), (33, (1, 1), 48), (100, (3, 3), 37), (64, (3, 3), 16),
    (17, (7, 7), 3), (5, (1, 3), 7), (40, (2, 3, 1), 6), (96, (3, 3), 129), (300, (), 70),
]  # fmt: skip


@cache
def native(name: str) -> NativePacking:
    target = find_target(name)
    made = NativePacking(target)
    for each in (TRANSPOSED, COMBINED, *SIZES):
        made.load(each, compile_object(str(emit_packer(target, each)), target, with_passes=False))
    return made


def weights(filters: int, window: tuple[int, ...], channels: int, is_last: bool) -> np.ndarray:
    """Channels last, out of memory in which they are or are not; with a NaN that says something."""
    shape = (*window, channels) if is_last else (channels, *window)
    memory = RNG.standard_normal((filters, *shape), np.float32)
    if window != (3, 3):  # that one is computed with
        memory.view(np.uint32).flat[0] = 0x7FA00001
    if is_last:
        return memory
    return memory.transpose(0, *range(2, 2 + len(window)), 1)


@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_machine_code_packs_as_numpy_does(name, is_last, shape):
    packer, lanes = native(name), find_target(name).lanes
    weight = weights(*shape, is_last)
    kinds = [ConvPacking(1, lanes, nv, taps) for nv in (1, 2, 3) for taps in (True, False)]
    if shape[1] == (1, 1) and shape[2] % 2 == 0:
        kinds += [StrassenPacking(lanes, nv) for nv in (1, 2)]
    if shape[1] == (3, 3):
        kinds += [WinogradPacking(m, lanes, nv) for m in (2, 4, 5) for nv in (1, 2)]
        lines = [lines_for(m, (3, 3), stride) for m, stride in ((2, (2, 2)), (5, (2, 1)))]
        kinds += [WinogradPacking(5, lanes, nv, each) for each in lines for nv in (1, 2)]
    for packing in kinds:
        expected, found = np.full((2, packing.size(weight)), np.nan, np.float32)
        packing.pack(weight, expected)
        packer.pack(packing, weight, found)
        assert packer._rows(packing, weight) is not None or weight[0].size < lanes
        assert found.tobytes() == expected.tobytes(), packing


def test_only_the_packers_that_a_plan_needs_are_compiled():
    plain, line = WinogradPacking(4, 16, 2), Line(2, 3, 2)
    assert packers_for([ConvPacking(1, 16, 2, False)]) == (TRANSPOSED,)
    assert packers_for([plain, WinogradPacking(2, 16, 2, (line, line))]) == (
        TRANSPOSED,
        COMBINED,
        "filters_4",
    )
    packer, weight = NativePacking(find_target("avx2")), weights(64, (3, 3), 16, True)
    assert packer._rows(WinogradPacking(4, 8, 2), weight) is None


def test_packings_without_machine_code_use_numpy():
    packer, lanes = native("native"), find_target().lanes
    inner = ConvPacking(1, lanes, 2, False)
    weight = weights(32, (3, 3), 32, True)
    strided = weights(64, (3, 3), 64, False)[:, ::2, :, 1:]
    cases = [
        (ConvPacking(2, lanes, 2, False), weight),
        (ConvPacking(1, 2 * lanes, 1, False), weight),
        (PhasePacking(inner, 1, (0, 1), (2, 2), (2, 1)), weight),
        (inner, strided),
        (WinogradPacking(4, lanes, 1, groups=2), weights(34, (3, 3), 32, True)),
        (inner, weight.astype(np.float64)),
    ]
    for packing, data in cases:
        expected, found = np.full((2, packing.size(data)), np.nan, np.float32)
        packing.pack(data, expected)
        packer.pack(packing, data, found)
        assert packer._rows(packing, data) is None
        assert found.tobytes() == expected.tobytes(), packing


@pytest.mark.parametrize("kernel", [1, 3])
def test_folded_batchnorm_is_packed_piece_by_piece(kernel):
    """Several pieces of scaled rows, by machine code: the bits of the whole, by NumPy."""
    shape = (2210, 520, kernel, kernel)
    arrays = {
        "x": RNG.standard_normal((1, 520, 8, 8), np.float32),
        "w": RNG.standard_normal(shape, np.float32),
        **{name: RNG.random(2210, np.float32) + 0.5 for name in ("gamma", "beta", "mean", "var")},
    }
    conv = call(
        "Convolution", var("x"), var("w"),
        kernel=(kernel, kernel), pad=(kernel // 2,) * 2, num_filter=2210, no_bias=True,
    )  # fmt: skip
    norm = call("BatchNorm", conv, *map(var, ("gamma", "beta", "mean", "var")), fix_gamma=False)
    executable = compiled([norm], arrays, [name for name in arrays if name != "x"])
    executable([arrays["x"]])
    binding = executable.binding
    packed = [
        a for row in executable.code.calls for c in row for a in c.args if hasattr(a, "packing")
    ]
    assert isinstance(executable.code.pack.__self__, NativePacking)
    large = max(packed, key=lambda a: binding._held[binding._key(a)].size)
    weight = binding._evaluated(binding._bind.outputs[large.index], as_views=True)
    expected = np.empty(large.packing.size(weight), np.float32)
    large.packing.pack(weight, expected)
    assert expected.nbytes > 4 << 20
    assert binding._held[binding._key(large)].tobytes() == expected.tobytes()


@pytest.fixture
def whole_vectors(monkeypatch):
    """A CPU that has nothing to gain from half a vector."""
    monkeypatch.setattr(Family, "works_on_halves", lambda family, target: False)


@pytest.mark.usefixtures("whole_vectors")
@pytest.mark.parametrize("tail", ["nothing", "residual-relu"])
@pytest.mark.parametrize("filters", [1, 3, 6])
@pytest.mark.parametrize("stride", [1, 2])
def test_columns_that_are_filters_have_the_bits_that_they_have_as_columns(filters, stride, tail):
    """They are not where Winograd's way is not wanted: infinities may spread by both."""
    attrs = {"stride": (stride, stride), "pad": (2, 2)}
    net = network(inside(conv(filters, (3, 7), **attrs)), (2, 5, 13, 12 * stride + 2), tail)
    found, packings = [], []
    for options in (Options(), Options(winograd=False)):
        executable = compiled(net.outputs, net.arrays, net.params, options=options)
        found.append(executable(net.inputs))
        args = [a for row in executable.code.calls for c in row for a in c.args]
        packings.append({type(a.packing) for a in args if hasattr(a, "packing")})
    assert AbreastPacking not in packings[1]
    lanes = executable.code.target.lanes
    if tail == "nothing":  # the other's operand has its channels apart
        assert (AbreastPacking in packings[0]) == (lanes // filters > 1)
    assert_near(found[0], run_reference(net.outputs, net.arrays))
    for wide, plain in zip(*found, strict=True):
        np.testing.assert_array_equal(wide, plain)


@pytest.mark.usefixtures("whole_vectors")
@pytest.mark.parametrize("channels", [1, 3, 9])
@pytest.mark.parametrize("filters", [1, 3, 6])
def test_columns_of_live_weights_are_filters_with_the_bits_of_fixed_ones(filters, channels):
    attrs = {"stride": (1, 2), "pad": (2, 2)}
    net = network(inside(conv(filters, (3, 7), **attrs)), (1, channels, 23, 50))
    found, kinds = [], []
    for params in (net.params, ()):
        executable = compiled(net.outputs, net.arrays, params)
        found.append(executable([net.arrays[name] for name in net.arrays if name not in params]))
        kinds.append({call.spec.kind for row in executable.code.calls for call in row})
    are_several = executable.code.target.lanes // filters > 1
    assert ("pack_pieces" in kinds[1]) == are_several and "pack_pieces" not in kinds[0]
    for fixed, live in zip(*found, strict=True) if are_several else ():
        np.testing.assert_array_equal(fixed, live)


def test_transforms_of_filters_have_a_loop_over_rows_and_columns():
    """LLVM takes a first network's time in proportion to instructions."""
    text = str(emit_packer(find_target(), "filters_5"))
    assert text.count("fptrunc") == 7  # a row of the 49 points
