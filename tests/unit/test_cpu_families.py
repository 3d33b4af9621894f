"""Prices of bytes by the CPU's name: the same name, the same choice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from compiling import plan_of
from hybridjit.codegen.call import Setting
from hybridjit.codegen.families import FAMILIES, GENERIC, family_of
from hybridjit.codegen.kinds import choose
from hybridjit.codegen.kinds.dense.spec import DenseSpec
from hybridjit.codegen.llvm.jit import portable_target
from neighbours import dense, network


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


def test_prices_decide_which_rows_stay_together():
    """256 KB hold 42 such rows: where the third level is slow, no more are done at once."""
    assert rows_together("haswell") <= 42 < rows_together("x86-64-v3")
