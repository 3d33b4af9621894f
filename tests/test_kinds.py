"""Kernel kinds: the half that passes read and the half that code generation reads agree."""

from __future__ import annotations

from hybridjit.codegen.kinds import KERNELS, all_codes
from hybridjit.ir.kinds import KINDS


def test_each_kind_with_a_kernel_says_how_it_is_computed():
    assert {code.name for code in all_codes()} == {k.name for k in KINDS if k.has_kernel}


def test_names_are_unique_and_each_spec_has_one_emitter():
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    pairs = [(spec.kind, emit) for code in all_codes() for spec, emit in code.emitters.items()]
    assert {name for name, _ in pairs} == set(KERNELS)
    assert all(KERNELS[name] is emit for name, emit in pairs)
