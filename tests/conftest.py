"""Settings of the whole suite, and the ``golden`` fixture."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hybridjit.config import config

GOLDEN = Path(__file__).parent / "golden"

# Objects that an earlier run left on disk must not stand in for the code under test.
config.cache_dir = "off"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden with what is found now"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError("--update-golden is refused when CI is set: read and commit them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Compare text with tests/golden/<module>/<test>.txt; --update-golden rewrites it."""
    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    path = GOLDEN / request.path.stem / f"{name}.txt"

    def check(value: object) -> None:
        text = str(value).rstrip() + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        else:
            assert path.exists(), f"{path} is missing: run pytest --update-golden, read the result"
            assert text == path.read_text()

    return check
