"""The last vector of channels as half of one, which takes CPUs that work on halves half as long.

Every CPU is one of them here: half a vector has the bits of a whole one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from compiling import assert_near, compiled, plan_of, run_reference, var
from hybridjit._core.target import PAIRS, Target
from hybridjit.codegen.call import Setting
from hybridjit.codegen.families import Family
from hybridjit.codegen.kinds import choose
from hybridjit.codegen.kinds.conv import choose_direct
from hybridjit.codegen.kinds.conv.tile import multiplies_in_halves
from hybridjit.codegen.packing import AbreastPacking
from hybridjit.codegen.spec import KernelSpec
from hybridjit.codegen.targets import find_target, portable_target
from hybridjit.runtime.executable import Executable
from neighbours import Network, conv, dense, in_bfloat16, inside, layer, network

# 18 filters end in two, whatever the vector: of 4 to 16 lanes.
FILTERS = 18
LAYERS = {
    "conv1x1": (inside(conv(FILTERS, (1, 1))), (2, 17, 5, 6)),
    "conv3x3": (inside(conv(FILTERS, pad=(1, 1))), (2, 12, 7, 13)),
    "conv3x3-long": (inside(conv(FILTERS, pad=(1, 1))), (1, 1000, 3, 4)),
    "conv-first": (conv(FILTERS, pad=(1, 1), stride=(2, 2)), (1, 3, 15, 17)),
    "conv-first-long": (conv(FILTERS, (200, 15)), (1, 3, 201, 19)),
    "conv-one-vector": (inside(conv(2, pad=(1, 1), dilate=(2, 2))), (1, 20, 9, 9)),
    "conv-groups": (inside(conv(2 * FILTERS, pad=(1, 1), num_group=2)), (1, 40, 7, 7)),
    "dense": (dense(FILTERS), (30, 25)),
    "dense-long": (dense(FILTERS), (7, 2100)),
    "matmul": (layer("batch_dot", var("other", (3, 24, FILTERS))), (3, 17, 24)),
}
TAILS = ("nothing", "residual-relu", "swish")


def halved(monkeypatch: pytest.MonkeyPatch, are_halved: bool) -> None:
    """In the same tiles: other tiles of a padded convolution may give other bits."""
    monkeypatch.setattr(choose_direct, "_SHORT", 0)
    monkeypatch.setattr(Family, "works_on_halves", lambda family, target: are_halved)


def of(net: Network) -> Executable:
    options = replace(net.options, winograd=False)
    return compiled(net.outputs, net.arrays, net.params, options=options)


def specs(net: Network, target: Target, winograd: bool = False) -> Iterator[KernelSpec]:
    plan = plan_of(net.outputs, net.arrays, net.params)
    setting = Setting({v: i for i, v in enumerate(plan.graph.params)}, target, winograd)
    return (call.spec for step in plan.steps for call in choose(step, setting))


def ends_in_half(net: Network, target: Target) -> bool:
    return any(getattr(spec, "half_last", False) for spec in specs(net, target))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("name", LAYERS)
def test_half_a_vector_has_the_bits_of_a_whole_one(name, tail, monkeypatch):
    net = network(*LAYERS[name], tail)
    found = []
    for are_halved in (False, True):
        halved(monkeypatch, are_halved)
        assert ends_in_half(net, find_target()) == (are_halved and find_target().has_fma)
        found.append(of(net)(net.inputs))
    assert_near(found[1], run_reference(net.outputs, net.arrays))
    for whole, half in zip(*found, strict=True):
        np.testing.assert_array_equal(half, whole)


@pytest.mark.parametrize("name", ["conv1x1", "dense", "matmul"])
def test_products_of_bfloat16_have_the_same_bits(name, monkeypatch):
    net, found = in_bfloat16(network(*LAYERS[name], "swish")), []
    for are_halved in (False, True):
        halved(monkeypatch, are_halved)
        found.append(of(net)(net.inputs))
    for whole, half in zip(*found, strict=True):
        np.testing.assert_array_equal(half, whole)


def test_few_filters_are_half_a_vector_or_columns_abreast(monkeypatch):
    """5x5 with 6 filters of 16 lanes: 25 halves for a column, or 15 whole vectors."""
    target = replace(portable_target("avx2"), vector_bytes=64, vector_registers=32)
    net = network(conv(6, (5, 5)), (1, 1, 28, 28))
    plan = plan_of(net.outputs, net.arrays, net.params)

    def packings() -> set[type]:
        setting = Setting({v: i for i, v in enumerate(plan.graph.params)}, target)
        calls = [call for step in plan.steps for call in choose(step, setting)]
        return {type(a.packing) for call in calls for a in call.args if hasattr(a, "packing")}

    halved(monkeypatch, False)
    assert AbreastPacking in packings()
    halved(monkeypatch, True)
    assert AbreastPacking not in packings()


@pytest.mark.parametrize(("cpu", "width", "expected"), [
    ("znver4", 64, True), ("znver4", 32, False), ("znver5", 64, False), ("x86-64-v4", 64, False),
])  # fmt: skip
def test_cpus_that_work_on_halves(cpu, width, expected):
    """Zen 4 adds and multiplies 256 bits at a time; narrower vectors are whole ones there."""
    target = replace(portable_target("avx2"), cpu=cpu, vector_bytes=width)
    net = network(inside(conv(24 if width == 64 else 12, (1, 1))), (1, 96, 8, 8))
    assert ends_in_half(net, target) == expected


@pytest.mark.parametrize(("cpu", "expected"), [("znver4", [1, 2, 1, 2]), ("znver5", [2] * 4)])
def test_short_sums_are_in_tiles_of_one_vector_there(cpu, expected):
    """Directly up to 256 products, and by Winograd's way up to 128 channels."""
    target = replace(portable_target("avx512"), cpu=cpu)
    nets = [
        *(network(inside(conv(64, (1, 1))), (1, channels, 20, 20)) for channels in (256, 257)),
        *(network(inside(conv(64, pad=(1, 1))), (1, channels, 24, 24)) for channels in (128, 129)),
    ]
    kinds = ("conv", "conv", "winograd", "winograd")
    found = [
        spec.nv  # type: ignore[attr-defined]
        for net, kind in zip(nets, kinds)
        for spec in specs(net, target, kind == "winograd")
        if spec.kind == kind
    ]
    assert found == expected
    assert not multiplies_in_halves(target.of(PAIRS))


def test_whole_vectors_stay_whole(monkeypatch):
    halved(monkeypatch, True)
    target = replace(portable_target("avx2"), vector_bytes=64)
    for filters in (16, 25, 31, 32, 48):
        assert not ends_in_half(network(dense(filters), (30, 25)), target)
    assert not ends_in_half(network(dense(24), (30, 25)), replace(target, has_fma=False))
