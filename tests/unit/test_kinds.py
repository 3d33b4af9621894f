"""Kernel kinds: the half that passes read and the half that code generation reads agree."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import plan_of
from hybridjit import sym
from hybridjit.codegen.kinds import PLACES, all_codes, all_emitters
from hybridjit.ir.kinds import KINDS


def test_each_kind_with_a_kernel_says_how_it_is_computed():
    codes = all_codes()
    assert all(code.name == name for name, code in codes.items())
    assert codes.keys() == PLACES.keys() == {k.name for k in KINDS if k.has_kernel}


def test_names_are_unique_and_each_spec_has_one_emitter():
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    pairs = [
        (spec.kind, emit) for code in all_codes().values() for spec, emit in code.emitters.items()
    ]
    assert {name for name, _ in pairs} == set(all_emitters())
    assert all(all_emitters()[name] is emit for name, emit in pairs)


@pytest.mark.parametrize("stride, kind", [((32, 32), "deconv"), ((40, 32), "host")])
def test_transposed_convolutions_of_many_phases_have_no_kernel(stride, kind):
    """Each phase is a call: a stride out of a file must not make millions of them."""
    data, weight = sym.var("data"), sym.var("w")
    net = sym.Deconvolution(data, weight, kernel=(40, 40), stride=stride, num_filter=5)
    arrays = {"data": np.ones((1, 1, 2, 2), "float32"), "w": np.ones((1, 5, 40, 40), "float32")}
    plan = plan_of(net.outputs, arrays, ["w"])
    assert kind in [step.kind for step in plan.steps]
