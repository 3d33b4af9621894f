"""The rounds in which the tests run: every one counts, and the last line is this CPU's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hybridjit.codegen.llvm.jit import find_target
from patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
NARROWER = 'os.environ.get("HYBRIDJIT_TARGET", "")'


def run_rounds(folder: Path, condition: str) -> subprocess.CompletedProcess[str]:
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
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


def test_the_last_line_is_the_summary_of_this_cpu(tmp_path):
    ran = run_rounds(tmp_path, "True")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    *_, heading, summary = (
        line for line in ran.stdout.splitlines() if line.startswith(("==", "1"))
    )
    assert heading == "==== as on this CPU"
    assert summary.startswith("1 passed")


@pytest.mark.skipif(
    find_target().name not in ("avx512", "avx2"), reason="this CPU imitates no narrower kind"
)
@pytest.mark.parametrize("condition", [f"not {NARROWER}", f"{NARROWER} != 'sse2'", NARROWER])
def test_a_failure_in_any_round_counts(tmp_path, condition):
    ran = run_rounds(tmp_path, condition)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed" in ran.stdout.splitlines()[-1]


def test_the_sample_has_some_cases_of_each_function_by_seed(tmp_path):
    text = (
        "import pytest\n\n"
        '@pytest.mark.parametrize("n", range(50))\n'
        "def test_many(n):\n    assert n >= 0\n\n\ndef test_one():\n    pass\n"
    )
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_cases.py").write_text(text)

    def chosen(seed: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
        words = [*command, "--sample=4", f"--seed={seed}", str(tmp_path)]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        return [line for line in ran.stdout.splitlines() if "::" in line]

    first = chosen("a")
    assert len(first) == 5 and first[-1] == "test_cases.py::test_one"
    assert chosen("a") == first != chosen("b")
