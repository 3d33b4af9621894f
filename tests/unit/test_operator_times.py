"""The harness that times operators names every public operator."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

HARNESS = Path(__file__).parent.parent.parent / "tools" / "operators"


@pytest.fixture(scope="module")
def harness() -> dict[str, object]:
    return runpy.run_path(str(HARNESS / "__main__.py"), run_name="operators")


def test_every_public_operator_has_a_case_or_a_reason(harness):
    assert harness["uncovered"]() == []


def test_reasons_are_for_public_operators_without_a_case(harness):
    timed = {case.op for case in harness["listed"]()}
    public = set().union(*map(harness["public_names"], harness["all_ops"]()))
    for line in (HARNESS / "untimed.txt").read_text().splitlines():
        name, _, reason = line.partition(" | ")
        assert line.startswith("#") or name in public - timed and reason, line
