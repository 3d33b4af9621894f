"""Settings of the whole suite, and the parts of it that ``--sample`` and ``--half`` select.

Compiled objects are kept for one run: equal kernels of several tests, and of the processes that
tests start, are compiled once. Tests of compilation, and tests that change how kernels are emitted,
use the fixture ``nothing_stored``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from hybridjit._core.config import config, override

# Names the folder of objects, which `tools/rounds.py` makes for all processes of a run. It is empty
# at first: objects of an earlier run must not stand in for the code under test.
OBJECTS = "OBJECTS_OF_TESTS"
own_folder = "" if OBJECTS in os.environ else tempfile.mkdtemp(prefix="hybridjit-tests-")
# In place of the user's cache. A folder that HYBRIDJIT_CACHE_DIR names is not one for several CPUs:
# a process warns where its first kernel is not there and objects for other CPUs are.
os.environ["XDG_CACHE_HOME"] = os.environ.setdefault(OBJECTS, own_folder)
os.environ.pop("HYBRIDJIT_CACHE_DIR", None)
config.cache_dir = ""


@pytest.fixture
def unoptimised_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of the test that LLVM compiles in a quarter of the time: see unoptimised.py."""
    import unoptimised  # noqa: PLC0415 (loads the code generator)

    monkeypatch.setenv("XDG_CACHE_HOME", unoptimised.folder_of_objects() or "")
    unoptimised.optimise_nothing(monkeypatch.setattr)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test, with the examples of the checkout and an image in it."""
    np.save(tmp_path / "x.npy", np.ones((1, 1, 28, 28), np.float32))
    shutil.copytree(Path(__file__).parent.parent / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nothing_stored() -> Iterator[None]:
    """No stored objects: all kernels of the test are compiled, and none is kept for others."""
    with override(cache_dir="off"):
        yield


def pytest_unconfigure() -> None:
    if own_folder:
        shutil.rmtree(own_folder, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    line = "any_cpu: the kind of CPU has no influence; left out where this CPU imitates another"
    config.addinivalue_line("markers", line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, help="run at most this many cases of a test function")
    parser.addoption("--seed", default="0", help="the seed of --sample and --half, any string")
    half = "run every other case of a test function, beginning with the first or the second"
    parser.addoption("--half", type=int, choices=(0, 1), help=half)


def pytest_report_header(config: pytest.Config) -> list[str]:
    most, half, seed = (config.getoption(name) for name in ("--sample", "--half", "--seed"))
    return [
        *([] if most is None else [f"sample: at most {most} cases of a function, seed {seed}"]),
        *([] if half is None else [f"half {half} of the cases of a function, seed {seed}"]),
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    most, half, seed = (config.getoption(name) for name in ("--sample", "--half", "--seed"))
    if most is not None:
        keep(sample(items, most, seed), config, items)
    if half is not None:
        keep(every_other(items, half, seed), config, items)


def keep(chosen: set[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all other items."""
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def sample(items: Sequence[pytest.Item], most: int, seed: str) -> set[pytest.Item]:
    """At most ``most`` cases of each test function, drawn by ``seed``."""
    return {item for cases in drawn(items, seed) for item in cases[:most]}


def every_other(items: Sequence[pytest.Item], half: int, seed: str) -> set[pytest.Item]:
    """Half of the cases of each test function, drawn by ``seed``; all of a function with one.

    Half 0 and half 1 are all cases together.
    """
    families = drawn(items, seed)
    return {item for cases in families for item in (cases[half::2] if len(cases) > 1 else cases)}


def drawn(items: Sequence[pytest.Item], seed: str) -> list[list[pytest.Item]]:
    """The cases of each test function, in an order that ``seed`` decides.

    The order of the cases in the file and other functions have no influence on it.
    """
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)

    def rank(item: pytest.Item) -> bytes:
        return hashlib.sha256(f"{seed}:{item.nodeid}".encode()).digest()

    return [sorted(family, key=rank) for family in cases.values()]
