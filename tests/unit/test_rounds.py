"""The rounds in which the tests run: every one counts, and the last line has the sum of all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybridjit.codegen.targets import find_target
from patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rounds  # noqa: E402

NARROWER = 'os.environ.get("HYBRIDJIT_TARGET", "")'
HOLDS = {  # conditions, and the kinds for which they hold
    f"not {NARROWER}": {""},
    f"{NARROWER} != 'sse2'": {"", "avx512", "avx2"},
    NARROWER: {"avx2", "sse2"},
}


def run_rounds(folder: Path, condition: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The rounds over one test, which holds where the condition does."""
    file = folder / "test_condition.py"
    file.write_text(f"import os\n\n\ndef test_condition():\n    assert {condition}\n")
    command = [
        sys.executable,
        "tools/rounds.py",
        "--all",
        "-q",
        "-p",
        "no:cacheprovider",
        str(file),
        *options,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


def test_the_last_line_counts_the_tests_of_all_rounds(tmp_path):
    ran = run_rounds(tmp_path, "True")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    headings = [line for line in ran.stdout.splitlines() if line.startswith("==== as on")]
    assert "==== as on this CPU: test_condition" in headings
    assert ran.stdout.splitlines()[-1].startswith(f"{len(headings)} passed in ")


def test_processes_of_tests_keep_compiled_modules_and_objects(tmp_path, monkeypatch):
    """Objects in a folder of the run, which the run removes."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    own = f'os.environ["OBJECTS_OF_TESTS"] != {os.environ["OBJECTS_OF_TESTS"]!r}'
    ran = run_rounds(tmp_path, f'"PYTHONDONTWRITEBYTECODE" not in os.environ and {own}')
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_run_without_chosen_tests_fails_as_pytest_does(tmp_path):
    ran = run_rounds(tmp_path, "True", "-k", "absent")
    assert ran.returncode == 5
    assert "deselected" in ran.stdout.splitlines()[-1]


def test_parts_have_each_file_once_and_the_longest_is_first():
    files = rounds.all_files()
    parts = rounds.parts_of(files)
    assert sorted(file for part in parts for file in part.files) == files
    assert all(p.seconds <= rounds.LONGEST or len(p.files) == 1 for p in parts)
    assert {rounds.name_of(file) for file in files} >= {*rounds.SECONDS, *rounds.SLOW}
    assert {rounds.name_of(file) for file in files} >= {*rounds.RUN_GENERATED_CODE}


def test_two_narrower_kinds_run_both_halves_of_the_cases():
    parts = [part for half in (0, 1) for part in rounds.parts_of_kind("avx2", half)]
    halves = [(part.files, part.half) for part in parts if part.half is not None]
    assert sorted(rounds.name_of(files[0]) for files, half in halves if half == 0) == sorted(
        rounds.HALVED
    )
    assert {(files[0], half) for files, half in halves} == {
        (files[0], half) for files, _ in halves for half in (0, 1)
    }
    once = [file for part in rounds.parts_of_kind("sse2", 0) for file in part.files]
    assert sorted(map(rounds.name_of, once)) == sorted(rounds.RUN_GENERATED_CODE)


def test_tests_for_any_cpu_run_for_this_one_alone():
    assert rounds.Part("", ["a file"], 1.0).options == []
    assert rounds.Part("avx2", ["a file"], 1.0, 1).options == ["--half=1", "-m", "not any_cpu"]


@pytest.mark.skipif(
    find_target().name not in ("amx", "avx512", "avx2"), reason="this CPU imitates no narrower kind"
)
@pytest.mark.parametrize("condition", HOLDS)
def test_a_failure_in_any_round_counts(tmp_path, condition):
    failing = len({"", *rounds.narrower_kinds()} - HOLDS[condition])
    ran = run_rounds(tmp_path, condition)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1].startswith(f"{failing} failed, ")


MANY_AND_ONE = """import pytest

@pytest.mark.parametrize("n", range(51))
def test_many(n):
    assert n >= 0

def test_one():
    pass
"""


def collected(folder: Path, *options: str) -> list[str]:
    """The tests of a file with a function of 51 cases and one of a single case."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_cases.py").write_text(MANY_AND_ONE)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, *options, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return [line for line in ran.stdout.splitlines() if "::" in line]


def test_the_sample_has_some_cases_of_each_function_by_seed(tmp_path):
    first = collected(tmp_path, "--sample=4", "--seed=a")
    assert len(first) == 5 and first[-1] == "test_cases.py::test_one"
    assert collected(tmp_path, "--sample=4", "--seed=a") == first
    assert collected(tmp_path, "--sample=4", "--seed=b") != first


def test_halves_share_no_case_of_a_function_and_leave_none_out(tmp_path):
    everything = collected(tmp_path)
    first, second = (collected(tmp_path, f"--half={half}") for half in (0, 1))
    assert len(everything) == 52 and len(first) == 27 and len(second) == 26
    assert set(first) | set(second) == set(everything)
    assert set(first) & set(second) == {"test_cases.py::test_one"}
