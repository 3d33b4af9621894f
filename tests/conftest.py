"""Settings of the whole suite, and the sample of it that ``--sample`` selects."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

from hybridjit._core.config import config

# Objects that an earlier run left on disk must not stand in for the code under test.
config.cache_dir = "off"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, help="run at most this many cases of a test function")
    parser.addoption("--seed", default="0", help="the seed of --sample, any string")


def pytest_report_header(config: pytest.Config) -> str | None:
    most = config.getoption("--sample")
    return most and f"sample: at most {most} cases of a function, seed {config.getoption('--seed')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    most = config.getoption("--sample")
    if most is not None:
        chosen = sample(items, most, config.getoption("--seed"))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


def sample(items: Sequence[pytest.Item], most: int, seed: str) -> set[pytest.Item]:
    """At most ``most`` cases of each test function, drawn by ``seed``.

    The draw does not depend on the order of the cases or on other functions.
    """
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)

    def rank(item: pytest.Item) -> bytes:
        return hashlib.sha256(f"{seed}:{item.nodeid}".encode()).digest()

    return {item for family in cases.values() for item in sorted(family, key=rank)[:most]}
