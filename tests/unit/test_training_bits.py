"""Training gives the same bits: for any number of threads, place in a batch, and address."""

from __future__ import annotations

import pytest

from bits_of_training import NETS, after_steps, at_offset, of_sample
from hybridjit.runtime import executable


@pytest.fixture(autouse=True)
def small_nets_on_all_threads(monkeypatch):
    monkeypatch.setattr(executable, "WORTH_SHARING", 0)


@pytest.mark.parametrize("name", ["images", "rows", "series"])
def test_any_number_of_threads(name: str):
    one, *others = (after_steps(NETS[name], count) for count in (1, 2, 3, 4))
    assert len(one) > 4
    assert all(other == one for other in others)


@pytest.mark.parametrize("name", ["plain", "series"])
def test_any_place_in_a_batch(name: str):
    """Of networks whose samples do not meet."""
    net = NETS[name]
    places = [[*range(5)], [*reversed(range(5))], [2], [4, 3, 2, 1]]
    assert len({of_sample(net, each, 2) for each in places}) == 1


@pytest.mark.parametrize("name", ["images", "rows"])
def test_any_address(name: str):
    assert at_offset(NETS[name], 0) == at_offset(NETS[name], 36)
