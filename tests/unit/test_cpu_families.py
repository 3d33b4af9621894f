"""Prices of bytes by the CPU's name: the same name, the same choice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from compiling import plan_of
from hybridjit.codegen import targets
from hybridjit.codegen.call import Setting
from hybridjit.codegen.emit.keys import MachineFacts
from hybridjit.codegen.families import FAMILIES, GENERIC, family_of
from hybridjit.codegen.kinds import choose
from hybridjit.codegen.kinds.dense.spec import DenseSpec
from hybridjit.codegen.targets import portable_target
from neighbours import Layer, conv, dense, inside, network


def rows_together(cpu: str) -> int:
    """Rows of a dense layer that are done for one block of weights, on vectors of 32 bytes."""
    target = replace(portable_target("avx2"), cpu=cpu, l2_bytes=256 * 1024)
    net = network(dense(256), (128, 768))
    plan = plan_of(net.outputs, net.arrays, net.params)
    setting = Setting({v: i for i, v in enumerate(plan.graph.params)}, target)
    (spec,) = (call.spec for step in plan.steps for call in choose(step, setting))
    assert isinstance(spec, DenseSpec)
    return spec.chunk * spec.mr


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_byte_from_memory_is_dearer_than_one_from_the_cache(family):
    assert 1 < family.third_level_price < family.memory_price < 20
    assert 0 < family.second_level_price <= family.third_level_price
    assert family.memory < family.alone < family.third_level
    for cpu in family.cpus:
        assert family_of(replace(portable_target("avx2"), cpu=cpu)) is family


def test_every_cpu_is_of_one_family():
    counts = Counter(cpu for family in FAMILIES for cpu in family.cpus)
    assert set(counts.values()) == {1}
    assert family_of(portable_target("avx2")) is GENERIC


@pytest.mark.parametrize(("name", "feature", "found"), [
    ("rocketlake", "+amx-tile", "sapphirerapids"), ("rocketlake", "-amx-tile", "rocketlake"),
    ("graniterapids", "+amx-tile", "graniterapids"), ("znver5", "-amx-tile", "znver5"),
])  # fmt: skip
def test_a_name_that_contradicts_the_features_is_replaced(monkeypatch, name, feature, found):
    features = f"+avx512f,+avx512vl,{feature}"
    facts = MachineFacts("x86_64-unknown-linux-gnu", name, features, "22")
    monkeypatch.setattr(targets, "machine_facts", lambda: facts)
    target = targets._host_target()
    assert (target.cpu, target.vector_bytes) == (found, 64)


def test_prices_decide_which_rows_stay_together():
    """256 KB hold 42 such rows: where the third level is slow, no more are done at once."""
    assert rows_together("haswell") <= 42 < rows_together("x86-64-v3")


CONVOLUTIONS = ("conv", "depthwise", "winograd")


def convolution_on(cpu: str, layer: Layer, shape: tuple[int, ...], winograd: bool = False) -> Any:
    """The spec of the only convolution of a network, on 32 registers of 64 bytes."""
    target = replace(portable_target("avx512"), cpu=cpu, l2_bytes=1 << 20)
    net = network(inside(layer), shape)
    plan = plan_of(net.outputs, net.arrays, net.params)
    setting = Setting({v: i for i, v in enumerate(plan.graph.params)}, target, winograd)
    specs = (call.spec for step in plan.steps for call in choose(step, setting))
    (spec,) = (spec for spec in specs if spec.kind in CONVOLUTIONS)
    return spec


@pytest.mark.parametrize(("cpu", "size", "in_strips"), [
    ("znver4", 112, True), ("cascadelake", 112, False), ("cascadelake", 28, True),
])  # fmt: skip
def test_depthwise_layers_beyond_a_slow_third_level_go_along_rows(cpu, size, in_strips):
    """32 channels of 112x112 are 1.6 MB of data and as many of results; of 28x28 0.1 MB."""
    layer = conv(32, pad=(1, 1), num_group=32)
    assert bool(convolution_on(cpu, layer, (1, 32, size, size)).lines) == in_strips


@pytest.mark.parametrize(("cpu", "size", "vectors"), [
    ("znver4", 112, 1), ("znver5", 112, 2), ("cascadelake", 112, 4), ("cascadelake", 28, 2),
])  # fmt: skip
def test_results_beyond_a_slow_third_level_are_written_at_once(cpu, size, vectors):
    """64 filters are four vectors; their results at 112x112 are 3.2 MB, at 28x28 0.2 MB."""
    assert convolution_on(cpu, conv(64, (1, 1)), (1, 32, size, size)).nv == vectors


@pytest.mark.parametrize(("cpu", "stride", "kind"), [
    ("znver5", 2, "winograd"), ("cascadelake", 2, "conv"), ("cascadelake", 1, "winograd"),
])  # fmt: skip
def test_filters_evicted_between_blocks_have_a_price_in_strided_layers(cpu, stride, kind):
    """32 to 96 channels from 56x56: the filters of F(4x4) with stride 2 are 1 MB."""
    layer = conv(96, pad=(1, 1), stride=(stride, stride))
    assert convolution_on(cpu, layer, (1, 32, 56, 56), winograd=True).kind == kind
