"""MXNet's recorded graphs with attributes at random: refused, or right.

``tools/fuzz_attributes.py`` makes as many of these as you like.
"""

from __future__ import annotations

import pytest

from mutants import mutant_text, verdict


@pytest.mark.parametrize("first", [0, 20])
def test_other_attributes_are_refused_or_agree(first: int):
    ran = 0
    for number in range(first, first + 20):
        wrong, has_run = verdict(number)
        assert not wrong, f"{wrong}\npython tools/fuzz_attributes.py --replay {number}"
        ran += has_run
    assert ran > 2


@pytest.mark.parametrize("number", [8321])
def test_recorded_mutants_raise_or_agree(number: int):
    """8321: a broadcast to size 0, which broadcast_to takes for "as it is"."""
    assert verdict(number) == ("", True)


def test_a_number_gives_one_graph_and_each_another():
    texts = [mutant_text(number) for number in range(170, 340)]
    assert texts[5] == mutant_text(175)
    assert len(set(texts)) > 160
